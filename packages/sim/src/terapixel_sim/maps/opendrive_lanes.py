"""Lane strips: every drivable lane of every lane section sampled into centre and boundary polylines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from .opendrive_geometry import (
    CURVE_STEP,
    SAGITTA,
    SHORTEST_STEP,
    STRAIGHT_STEP,
    Array,
    reference_line,
)
from .opendrive_records import DRIVABLE, LaneRecord, Road, Section

DEFAULT_SPEED = 13.89  # [m/s]
NARROWEST = 1.0  # narrower parts of a lane are cut off [m]
BARE = 2.4  # unmarked ground of a junction at least this wide is a lane's width of asphalt [m]
SHORTEST = 0.1  # shorter lanes are left out and linked through [m]

Key = tuple[str, int, int]
"""Road id, index of the lane section, lane id."""


@dataclass
class SectionFrame:
    """One lane section at its sampled stations."""

    road: Road
    index: int
    section: Section
    s: Array
    """Stations [n] [m]."""
    x: Array
    y: Array
    z: Array
    heading: Array
    borders: dict[int, tuple[Array, Array]]
    """Lateral positions [n] of each lane's inner and outer border, positive left of the reference line."""

    def points(self, t: Array) -> Array:
        """Points [n, 3] at lateral positions `t` [n] [m]."""
        return np.stack([self.x - t * np.sin(self.heading), self.y + t * np.cos(self.heading), self.z], axis=1)


@dataclass
class Strip:
    """A drivable lane of one section in its direction of travel, before it becomes a `Lane`."""

    key: Key
    kind: str
    forward: bool
    """Travels in the direction of the road's stations."""
    centre: Array
    left: Array
    right: Array
    speed: float
    junction: str
    """Junction id of its road, `-1` outside."""
    cut: tuple[bool, bool]
    """Its beginning, its end (of travel) was cut off because it is too narrow there."""
    successors: set[Key] = field(default_factory=set)
    predecessors: set[Key] = field(default_factory=set)
    left_neighbour: Key | None = None
    right_neighbour: Key | None = None

    @property
    def length(self) -> float:
        """Length of the centre line [m]."""
        return float(np.linalg.norm(np.diff(self.centre, axis=0), axis=1).sum())


def section_frames(road: Road, skipped: Counter[str]) -> Iterator[SectionFrame]:
    """Sample every lane section of a road.

    Stations are all record starts and section ends, and between them at most 5 m on straights and 2 m on curves,
    closer where the chord would leave a lane's border by more than 2 cm.
    """
    for index, section in enumerate(road.sections):
        s = _stations(road, section)
        x, y, heading = reference_line(road.geometries, s)
        borders, negative = _borders(road, section, s)
        skipped["lanes with negative widths, taken as 0"] += negative
        yield SectionFrame(road, index, section, s, x, y, road.elevation(s), heading, borders)


def _stations(road: Road, section: Section) -> Array:
    lateral = (lane.border or lane.width for lane in section.lanes.values())
    cubics = [road.elevation, road.offset, *lateral]
    starts = np.concatenate([[g.s for g in road.geometries], *(c.starts for c in cubics)])
    inside = np.unique(starts[(starts > section.start + SHORTEST_STEP) & (starts < section.end - SHORTEST_STEP)])
    # Files repeat a record start with rounding differences; such twins would make segments without a direction.
    inside = inside[np.diff(inside, prepend=-np.inf) > SHORTEST_STEP]
    knots = np.concatenate([[section.start], inside, [section.end]])
    low, high = knots[:-1], knots[1:]
    owner = np.searchsorted([g.s for g in road.geometries], 0.5 * (low + high), side="right") - 1
    curvature = np.array([g.curvature() for g in road.geometries])[np.maximum(owner, 0)]
    reach = sum(np.maximum(np.abs(lane.width(low)), np.abs(lane.width(high))) for lane in section.lanes.values())
    # A lane outside the curve covers 1 + k t metres a station metre.
    bend = curvature * (1.0 + curvature * reach) + np.sum([c.bend(low, high) for c in cubics], axis=0)
    step = np.where(bend > 1e-6, CURVE_STEP, STRAIGHT_STEP)
    step = np.clip(np.sqrt(8.0 * SAGITTA / np.maximum(bend, 1e-9)), SHORTEST_STEP, step)
    counts = np.maximum(np.ceil((high - low) / step - 1e-9).astype(int), 1)
    pieces = [np.linspace(a, b, n, endpoint=False) for a, b, n in zip(low, high, counts, strict=True)]
    return np.concatenate([*pieces, [section.end]])


def _borders(road: Road, section: Section, s: Array) -> tuple[dict[int, tuple[Array, Array]], int]:
    middle = road.offset(s)
    borders = {0: (middle, middle)}
    negative = 0
    for side in (1, -1):
        t = middle
        for lane_id in sorted((i for i in section.lanes if i * side > 0), key=abs):
            lane = section.lanes[lane_id]
            if lane.border is not None:
                outer = side * np.abs(lane.border(s))
            else:
                width = lane.width(s)
                # Cubics touch zero with rounding; only a real dip below it is worth a note.
                negative += bool(np.any(width < -0.01))
                outer = t + side * np.maximum(width, 0.0)
            borders[lane_id] = (t, outer)
            t = outer
    return borders, negative


def strips(frame: SectionFrame, skipped: Counter[str]) -> tuple[list[Strip], list[Key]]:
    """The drivable lanes of a section.

    A lane narrower than 1 m at an end is cut back to where it reaches 1 m; its longest part of that width is kept.

    Returns:
        The strips, and the keys of drivable lanes too short (under 0.1 m) to keep, to be linked through.
    """
    found: list[Strip] = []
    short: list[Key] = []
    for lane in frame.section.lanes.values():
        if lane.kind not in DRIVABLE or lane.id == 0:
            continue
        key = (frame.road.id, frame.index, lane.id)
        if frame.section.end - frame.section.start < SHORTEST:
            short.append(key)
            continue
        strip = _strip(frame, lane, key)
        if strip is None:
            skipped["drivable lanes narrower than 1 m throughout"] += 1
        elif strip.length < SHORTEST:
            short.append(key)
        else:
            skipped["lanes cut where narrower than 1 m"] += any(strip.cut)
            found.append(strip)
    skipped["lanes shorter than 0.1 m, linked through"] += len(short)
    return found, short


def bare_areas(frame: SectionFrame) -> list[Array]:
    """Ground of a junction that no connection uses although traffic passes outside it.

    Where a central turning lane stops at a junction, its width goes on through it as a lane of type none. It is as much
    asphalt as the lanes around it; without it an edge would stand in the middle of the junction.

    Returns:
        Polygons [n, 3] of lanes of type none, at least 2.4 m wide, between the centre lane and a drivable lane.
    """
    if frame.road.junction == "-1":
        return []
    used = [i for i, lane in frame.section.lanes.items() if lane.kind in DRIVABLE]
    found = []
    for lane in frame.section.lanes.values():
        inner, outer = frame.borders[lane.id]
        within = any(i * lane.id > 0 and abs(i) > abs(lane.id) for i in used)
        if lane.kind == "none" and within and np.abs(outer - inner).min() >= BARE:
            found.append(np.concatenate([frame.points(inner), frame.points(outer)[::-1]]))
    return found


def _strip(frame: SectionFrame, lane: LaneRecord, key: Key) -> Strip | None:
    inner, outer = frame.borders[lane.id]
    kept = _wide_part(np.abs(outer - inner))
    if kept is None:
        return None
    left, right = (outer, inner) if lane.id > 0 else (inner, outer)
    forward = (lane.id < 0) != frame.road.left_hand
    lines = [resample(frame.points(t), kept) for t in (0.5 * (left + right), left, right)]
    cut = (bool(kept[0] > 0.0), bool(kept[-1] < len(frame.s) - 1))
    if not forward:
        lines = [lines[0][::-1], lines[2][::-1], lines[1][::-1]]
        cut = cut[::-1]
    # A station step shrinks to nothing at the inside of a tight curve.
    step = np.hypot(*np.diff(lines[0][:, :2], axis=0).T)
    keep = np.concatenate([[True], step > 1e-4])
    keep[-1] = True
    if len(keep) > 2 and step[-1] <= 1e-4:
        keep[-2] = False
    centre, left, right = (line[keep] for line in lines)
    middle = 0.5 * (frame.section.start + frame.section.end)
    limit = _at(lane.speeds, middle) or _at(frame.road.speeds, middle) or DEFAULT_SPEED
    return Strip(key, lane.kind, forward, centre, left, right, limit, frame.road.junction, cut)


def _wide_part(width: Array) -> Array | None:
    """Fractional indices of the longest run of at least `NARROWEST`, ends interpolated; None if there is none."""
    wide = np.concatenate([[False], width >= NARROWEST - 1e-6, [False]])
    edges = np.flatnonzero(wide[1:] != wide[:-1]).reshape(-1, 2)
    if not len(edges):
        return None
    first, last = edges[np.argmax(edges[:, 1] - edges[:, 0])]
    last -= 1
    inner = np.arange(first, last + 1, dtype=np.float64)
    if first > 0:
        inner = np.concatenate([[first - _share(width[first], width[first - 1])], inner])
    if last < len(width) - 1:
        inner = np.concatenate([inner, [last + _share(width[last], width[last + 1])]])
    inner = inner[np.diff(inner, prepend=-1.0) > 1e-3]
    return inner if len(inner) > 1 else None


def _share(wide: float, narrow: float) -> float:
    return float(np.clip((wide - NARROWEST) / max(wide - narrow, 1e-9), 0.0, 1.0))


def resample(points: Array, at: Array) -> Array:
    """Points at fractional row indices `at`, linear between rows."""
    low = np.minimum(at.astype(int), len(points) - 2)
    share = (at - low)[:, None]
    # Whole indices give the row itself bit for bit, so that neighbours share their border's vertices.
    mixed = points[low] * (1.0 - share) + points[low + 1] * share
    return np.where(share == 0.0, points[low], np.where(share == 1.0, points[low + 1], mixed))


def _at(limits: tuple[tuple[float, float], ...], s: float) -> float | None:
    valid = [limit for start, limit in limits if start <= s]
    return valid[-1] if valid else None
