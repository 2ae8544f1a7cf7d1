"""Twin of `kernels/lane.py`, float64, on the bank's arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..layout import CellInt, Head, LaneFloat, LaneInt, MapFloat, MapInt, PointCol
from .geometry import wrap

LEVEL_M = 4.0


@dataclass(frozen=True)
class Bank:
    """The two arrays of a map bank; see `layout.Head`."""

    ints: Sequence[int]
    floats: Sequence[float]

    def lane_int(self, lane: int, column: LaneInt) -> int:
        """An integer of a lane."""
        return int(self.ints[int(self.ints[Head.LANES]) + lane * len(LaneInt) + column])

    def lane_float(self, lane: int, column: LaneFloat) -> float:
        """A float of a lane."""
        return float(self.floats[int(self.ints[Head.F_LANES]) + lane * len(LaneFloat) + column])

    def point(self, p: int) -> list[float]:
        """The columns (`PointCol`) of centre-line point p."""
        q = int(self.ints[Head.F_POINTS]) + p * len(PointCol)
        return [float(v) for v in self.floats[q : q + len(PointCol)]]

    def point_lane(self, p: int) -> int:
        """The lane of point p."""
        return int(self.ints[int(self.ints[Head.POINT_LANE]) + p])

    def cell(self, map_id: int, x: float, y: float) -> int:
        """The grid cell that holds a point, or -1 outside the grid."""
        mi = int(self.ints[Head.MAPS]) + map_id * len(MapInt)
        mf = int(self.ints[Head.F_MAPS]) + map_id * len(MapFloat)
        nx, ny = int(self.ints[mi + MapInt.NX]), int(self.ints[mi + MapInt.NY])
        side = float(self.floats[mf + MapFloat.CELL])
        ix = math.floor((x - float(self.floats[mf + MapFloat.ORIGIN_X])) / side)
        iy = math.floor((y - float(self.floats[mf + MapFloat.ORIGIN_Y])) / side)
        return int(self.ints[mi + MapInt.CELL0]) + iy * nx + ix if 0 <= ix < nx and 0 <= iy < ny else -1

    def inside(self, cell: int) -> bool:
        """Whether a cell's centre is drivable."""
        return bool(self._row(cell, CellInt.INSIDE))

    def lane_items(self, cell: int) -> list[int]:
        """The points in a cell's list."""
        return [self._row(cell, CellInt.ITEMS + k) for k in range(self._row(cell, CellInt.NUM_LANES))]

    def edge_items(self, cell: int) -> tuple[list[int], list[float]]:
        """The edges in a cell's list, and their distances from its centre [m]."""
        first = CellInt.ITEMS + self._row(cell, CellInt.NUM_LANES)
        places = [first + 2 * k for k in range(self._row(cell, CellInt.NUM_EDGES))]
        bits = np.array([self._row(cell, k + 1) for k in places], dtype=np.int32)
        return [self._row(cell, k) for k in places], bits.view(np.float32).tolist()

    def _row(self, cell: int, column: int) -> int:
        first = int(self.ints[int(self.ints[Head.CELLS]) + cell])
        return int(self.ints[int(self.ints[Head.CELL_ROWS]) + first + column])


@dataclass(frozen=True)
class LanePoint:
    """A point of a centre line or route [m, rad]; `grade` is dz/ds."""

    x: float
    y: float
    z: float
    heading: float
    width: float
    grade: float = 0.0


def lane_point(bank: Bank, lane: int, s: float) -> LanePoint:
    """The centre line at arc length `s`, which is clamped to the lane."""
    spacing = bank.lane_float(lane, LaneFloat.SPACING)
    last = bank.lane_int(lane, LaneInt.NUM_POINTS) - 2
    t = max(s / spacing, 0.0)
    k = min(int(t), last)
    u = min(t - k, 1.0)
    p = bank.point(bank.lane_int(lane, LaneInt.POINT0) + k)
    q = bank.point(bank.lane_int(lane, LaneInt.POINT0) + k + 1)
    x, y, z, c, n, width = ((1 - u) * a + u * b for a, b in zip(p, q, strict=True))
    return LanePoint(x, y, z, math.atan2(n, c), width, (q[PointCol.Z] - p[PointCol.Z]) / spacing)


@dataclass(frozen=True)
class LaneMatch:
    """Which lane an agent is on; lane -1 is none within reach."""

    lane: int
    s: float = 0.0
    offset: float = 0.0
    heading: float = 0.0
    inside: bool = False
    aligned: bool = False


def nearest_lane(bank: Bank, map_id: int, x: float, y: float, z: float, yaw: float, previous: int) -> LaneMatch:
    """The lane of the lowest score 0.7 distance / 4 + 0.3 |heading error| / pi, 0.05 less for the previous lane."""
    cell = bank.cell(map_id, x, y)
    inside = aligned = False
    best = (math.inf, -1, 0.0)
    for p in bank.lane_items(cell) if cell >= 0 else []:
        a, b = bank.point(p), bank.point(p + 1)
        if abs(a[PointCol.Z] - z) >= LEVEL_M:
            continue
        ex, ey = b[0] - a[0], b[1] - a[1]
        u = min(max(((x - a[0]) * ex + (y - a[1]) * ey) / (ex * ex + ey * ey), 0.0), 1.0)
        distance = math.hypot(x - a[0] - u * ex, y - a[1] - u * ey)
        bend = wrap(math.atan2(b[PointCol.SIN], b[PointCol.COS]) - math.atan2(a[PointCol.SIN], a[PointCol.COS]))
        error = wrap(yaw - math.atan2(ey, ex) - math.atan((u - 0.5) * bend))
        if distance <= a[PointCol.WIDTH] / 2:
            inside = True
            aligned = aligned or abs(error) < math.pi / 2
        score = 0.7 * distance / 4 + 0.3 * abs(error) / math.pi - (0.05 if bank.point_lane(p) == previous else 0.0)
        if score < best[0]:
            best = (score, p, u)
    if best[1] < 0:
        return LaneMatch(-1, inside=inside, aligned=aligned)
    lane = bank.point_lane(best[1])
    s = (best[1] - bank.lane_int(lane, LaneInt.POINT0) + best[2]) * bank.lane_float(lane, LaneFloat.SPACING)
    foot = lane_point(bank, lane, s)
    offset = math.cos(foot.heading) * (y - foot.y) - math.sin(foot.heading) * (x - foot.x)
    return LaneMatch(lane, s, offset, wrap(yaw - foot.heading), inside, aligned)
