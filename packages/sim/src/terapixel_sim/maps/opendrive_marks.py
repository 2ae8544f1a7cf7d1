"""Painted lines from road mark records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from .opendrive_geometry import Array
from .opendrive_lanes import SectionFrame, resample
from .opendrive_records import Mark, PaintLine
from .road_map import Marking

DASH, GAP = 3.0, 6.0  # of a broken line without details [m]
_COLOURS = {"standard": "white", "white": "white", "yellow": "yellow"}


def markings(frame: SectionFrame, skipped: Counter[str]) -> list[Marking]:
    """The paint of one lane section: centre-lane marks on the lane-offset line, others on the lane's outer border.

    Marks that are not paint (none, curb, unknown kinds) make nothing; all but `none` are counted in `skipped`, and
    colours other than white and yellow are painted white and counted.
    """
    found = []
    for lane in frame.section.lanes.values():
        border = frame.borders[lane.id][1]
        for mark, low, high in spans(lane.marks, frame.section.start, frame.section.end):
            lines = _lines(mark, lane.id)
            if not lines:
                skipped[f"road marks of type {mark.kind}"] += mark.kind != "none"
                continue
            skipped[f"road marks of colour {mark.colour}, painted white"] += mark.colour not in _COLOURS
            at = _rows(frame.s, low, high)
            found += [
                Marking(
                    points=resample(frame.points(border + line.offset), at),
                    width=line.width,
                    colour=_COLOURS.get(mark.colour, "white"),
                    dash=line.length if line.space > 0.0 else 0.0,
                    gap=line.space if line.length > 0.0 else 0.0,
                )
                for line in lines
            ]
    return found


def spans(marks: tuple[Mark, ...], start: float, end: float) -> Iterator[tuple[Mark, float, float]]:
    """Each mark with the stations between which it holds, those shorter than 1 cm left out."""
    for i, mark in enumerate(marks):
        low = max(mark.s, start)
        high = min(marks[i + 1].s if i + 1 < len(marks) else end, end)
        if high - low > 0.01:
            yield mark, low, high


def _lines(mark: Mark, lane: int) -> tuple[PaintLine, ...]:
    """The lines of a mark, offsets positive left of the road's direction."""
    if mark.lines:
        return mark.lines
    kinds = {"solid": (0.0, 0.0), "broken": (DASH, GAP)}
    words = mark.kind.split()
    if not 1 <= len(words) <= 2 or any(word not in kinds for word in words):
        return ()
    if len(words) == 1:
        return (PaintLine(*kinds[words[0]], 0.0, mark.width),)
    # Double marks are named from the inside outwards, on the centre lane from left to right; one width lies between.
    first = -mark.width if lane > 0 else mark.width
    return (
        PaintLine(*kinds[words[0]], first, mark.width),
        PaintLine(*kinds[words[1]], -first, mark.width),
    )


def _rows(s: Array, low: float, high: float) -> Array:
    """Fractional row indices of `low`, the stations strictly between, and `high`."""
    ends = np.interp([low, high], s, np.arange(len(s), dtype=np.float64))
    inner = np.arange(np.floor(ends[0]) + 1, np.ceil(ends[1]), dtype=np.float64)
    inner = inner[(inner > ends[0] + 1e-3) & (inner < ends[1] - 1e-3)]
    return np.concatenate([ends[:1], inner, ends[1:]])


def may_cross(marks: tuple[Mark, ...], start: float, end: float, *, outwards: bool, lane: int) -> bool:
    """Whether a lane's outer mark may be crossed over at least half of a section.

    The `laneChange` attribute decides; without it broken lines and unpainted borders may be crossed, solid ones not,
    and of a double line the one on the driver's side counts.

    Args:
        marks: marks of the inner of the two lanes.
        start: station of the section's beginning [m].
        end: station of its end [m].
        outwards: the change leads away from the centre lane.
        lane: id of the inner lane.
    """
    allowed = 0.0
    for mark, low, high in spans(marks, start, end):
        rising = outwards == (lane > 0)
        if mark.lane_change in ("both", "increase", "decrease", "none"):
            free = mark.lane_change == "both" or mark.lane_change == ("increase" if rising else "decrease")
        else:
            words = mark.kind.split()
            free = bool(words) and (words[0] if outwards else words[-1]) in ("broken", "none")
        allowed += (high - low) * free
    return allowed >= 0.5 * (end - start)
