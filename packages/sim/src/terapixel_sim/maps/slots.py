"""Spawn slots: places along the lanes where a car of any size may stand, none touching another or leaving the road."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

from ..config import SimConfig
from ..layout import PointCol
from .centre_lines import CentreLine

JITTER_ALONG_M = 0.4
JITTER_ACROSS_M = 0.2
JITTER_HEADING_RAD = 0.03
"""How far a spawned car's pose may differ from its slot's; every such pose is free and on the road."""
_MARGIN_M = 0.01


def slot_extent(config: SimConfig) -> tuple[float, float]:
    """Length and width of the box that holds the largest car at every jittered pose of a slot [m]."""
    length, width = config.spawn.length_m[1], config.spawn.width_m[1]
    tilt = np.sin(JITTER_HEADING_RAD)
    return (
        length + width * tilt + 2 * (JITTER_ALONG_M + _MARGIN_M),
        width + length * tilt + 2 * (JITTER_ACROSS_M + _MARGIN_M),
    )


def spawn_slots(
    lines: Sequence[CentreLine],
    on_road: NDArray[np.bool_],
    reach: NDArray[np.float64],
    area: BaseGeometry,
    config: SimConfig,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Find a map's spawn slots.

    Candidates stand evenly along each lane, a car length and `spawn.clearance_m` apart. Kept are those whose box (see
    `slot_extent`) lies on the road and has `route.min_length_m` of road ahead, and then, lanes of roads before lanes of
    junctions, those that overlap none kept earlier.

    Args:
        lines: centre lines of the map's lanes.
        on_road: whether each lane lies outside junctions.
        reach: longest way on from each lane's end [m].
        area: the drivable area.
        config: sizes of cars, clearance and least length of a route.

    Returns:
        Lane index and arc length on it [m] of each slot, by lane, then arc length; both may be empty.
    """
    pitch = config.spawn.length_m[1] + config.spawn.clearance_m
    counts = np.array([max(1, int(line.length / pitch)) for line in lines])
    lane = np.repeat(np.arange(len(lines)), counts)
    s = np.concatenate([(np.arange(n) + 0.5) * line.length / n for line, n in zip(lines, counts, strict=True)])
    boxes = _boxes(lines, lane, s, *slot_extent(config))

    length = np.array([line.length for line in lines])
    shapely.prepare(area)
    fits = (length[lane] - s + reach[lane] >= config.route.min_length_m) & shapely.covers(area, boxes)
    lane, s, boxes = lane[fits], s[fits], boxes[fits]

    order = np.lexsort((s, lane, ~on_road[lane]))
    first, second = shapely.STRtree(boxes).query(boxes, predicate="intersects")
    conflicts: list[list[int]] = [[] for _ in boxes]
    for i, j in zip(first.tolist(), second.tolist(), strict=True):
        if i != j:
            conflicts[i].append(j)
    kept = np.zeros(len(boxes), dtype=bool)
    for i in order:
        kept[i] = not kept[conflicts[i]].any()
    return lane[kept], s[kept]


def _boxes(
    lines: Sequence[CentreLine], lane: NDArray[np.int64], s: NDArray[np.float64], length: float, width: float
) -> NDArray[np.object_]:
    """Straight boxes at lane poses, interpolated between points as the spawn kernel does it."""
    corners = np.array([[0.5, 0.5], [-0.5, 0.5], [-0.5, -0.5], [0.5, -0.5]]) * (length, width)
    spacing = np.array([line.spacing for line in lines])[lane]
    start = np.cumsum([0] + [len(line.points) for line in lines])
    last = np.diff(start)[lane] - 2
    i = np.minimum((s / spacing).astype(np.int64), last)
    points = np.concatenate([line.points for line in lines])
    a, b = points[start[lane] + i], points[start[lane] + i + 1]
    pose = a + (s / spacing - i)[:, None] * (b - a)
    cos, sin = pose[:, PointCol.COS], pose[:, PointCol.SIN]
    norm = np.hypot(cos, sin)
    rotation = np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2) / norm[:, None, None]
    centre = pose[:, None, [PointCol.X, PointCol.Y]]
    return shapely.polygons(centre + np.einsum("nij,kj->nki", rotation, corners))
