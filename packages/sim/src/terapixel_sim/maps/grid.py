"""The grid over a map: which lane and edge segments lie within reach of a cell, and which cell centres are drivable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray
from scipy.spatial import cKDTree

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

CELL_M = 2.0
NEAR_CELL_M = 4.0
MARGIN_M = 24.0
"""The grid reaches this far beyond the map; cells this near to a lane know at least one lane segment [m]."""
LANE_REACH_M = 6.0
NEAR_M = 60.0
LEVEL_M = 1.0
"""A segment may make another superfluous only when their heights differ by less than this [m]."""
_PATCHES = 2
_SLACK_M = 0.01
_ORIGIN_STEP_M = 1 / 64
_TRIES = 16


@dataclass(frozen=True)
class Grid:
    """A row-major grid of square cells: cell = iy * nx + ix."""

    x: float
    """Lower left corner [m], a multiple of 1/64 so that cell centres are exact in float32."""
    y: float
    nx: int
    ny: int
    cell: float = CELL_M
    """Side of a cell [m]."""

    def coarser(self, cell: float) -> Grid:
        """A grid of larger cells over the same ground."""
        nx, ny = (int(np.ceil(n * self.cell / cell)) for n in (self.nx, self.ny))
        return Grid(self.x, self.y, nx, ny, cell)

    def centres(self) -> Array:
        """Centres of all cells [ny * nx, 2]."""
        x, y = np.meshgrid(
            self.x + (np.arange(self.nx) + 0.5) * self.cell, self.y + (np.arange(self.ny) + 0.5) * self.cell
        )
        return np.stack([x.ravel(), y.ravel()], axis=1)

    def inside(self, edges: Array) -> NDArray[np.bool_]:
        """Whether each cell's centre is enclosed by the edge segments [e, 4] (x0, y0, x1, y1), by even-odd parity."""
        _, row, x = _crossings(edges, self.y, self.ny, self.cell)
        left_of = np.clip(np.ceil((x - (self.x + self.cell / 2)) / self.cell), 0, self.nx).astype(np.int64)
        flips = np.bincount(row * (self.nx + 1) + left_of, minlength=self.ny * (self.nx + 1))
        # a crossing at x flips every centre to its left: count from the right
        after = np.cumsum(flips.reshape(self.ny, self.nx + 1)[:, ::-1], axis=1)[:, ::-1]
        return (after[:, 1:] % 2 == 1).ravel()

    def within(self, segments: Array, reach: float) -> tuple[Ints, Ints, Array]:
        """Segments whose distance to a cell's centre is at most `reach` plus half the cell's diagonal.

        Returns:
            (cell, segment, distance to its centre [m]), sorted by cell, then segment.
        """
        radius = reach + self.cell * np.sqrt(0.5)
        spans = []
        for axis, origin, n in ((0, self.x, self.nx), (1, self.y, self.ny)):
            ends = segments[:, axis::2]
            low = np.ceil((ends.min(axis=1) - radius - origin) / self.cell - 0.5)
            high = np.floor((ends.max(axis=1) + radius - origin) / self.cell - 0.5)
            low, high = np.clip(low, 0, n).astype(np.int64), np.clip(high, -1, n - 1).astype(np.int64)
            spans.append((low, np.maximum(high - low + 1, 0)))
        (x0, nx), (y0, ny) = spans
        segment, k = _expand(nx * ny)
        ix, iy = x0[segment] + k % nx[segment], y0[segment] + k // nx[segment]
        centre = np.stack([self.x + (ix + 0.5) * self.cell, self.y + (iy + 0.5) * self.cell], axis=1)
        distance = _distance(centre, segments[segment])
        near = distance <= radius
        cell, segment, distance = (iy * self.nx + ix)[near], segment[near], distance[near]
        order = np.lexsort((segment, cell))
        return cell[order], segment[order], distance[order]

    def nearest_first(self, segments: Array, reach: float) -> tuple[Ints, Ints, Array]:
        """As `within`, but a cell's segments by their distance."""
        cell, segment, distance = self.within(segments, reach)
        order = np.lexsort((segment, distance, cell))
        return cell[order], segment[order], distance[order]

    def lane_items(self, starts: Array, ends: Array, lane: Ints) -> tuple[Ints, Ints]:
        """The lane segments that matter in each cell: that can have the best score there, or hold a point of it.

        Where no segment is within `LANE_REACH_M` but one within the margin, that is the nearest. See `_may_win`.

        Args:
            starts: first points of the segments [n, len(PointCol)].
            ends: their second points.
            lane: their lanes [n].

        Returns:
            (cell, segment) pairs sorted by cell, then segment.
        """
        segments = np.concatenate([starts[:, :2], ends[:, :2]], axis=1)
        cell, segment, distance = self.within(segments, LANE_REACH_M)
        empty = np.setdiff1d(np.arange(self.nx * self.ny), cell)
        points = shapely.points(self.centres()[empty])
        tree = shapely.STRtree(np.asarray(shapely.linestrings(segments.reshape(-1, 2, 2))))
        far, item = tree.query_nearest(points, max_distance=MARGIN_M + self.cell * np.sqrt(0.5))
        order = np.lexsort((item, far))
        far, first = np.unique(far[order], return_index=True)
        keep = self._may_win(cell, segment, distance, starts, ends, lane)
        cell = np.concatenate([cell[keep], empty[far]])
        segment = np.concatenate([segment[keep], item[order][first]])
        order = np.argsort(cell, kind="stable")
        return cell[order], segment[order]

    def _may_win(
        self, cell: Ints, segment: Ints, distance: Array, starts: Array, ends: Array, lane: Ints
    ) -> NDArray[np.bool_]:
        """Which (cell, segment) pairs of `within` matter to the score 0.7 distance / 4 m + 0.3 |heading error| / pi.

        A cell is cut into patches. In a patch segment j, the nearest to its middle, outdoes segment i for every pose
        and whatever the previous lane (0.05 off), if i is farther by more than the angle between the two and the 0.05
        can make up for; over the patch a difference of distances varies by no more than its diagonal. Widths count
        too, since a segment that is near enough to hold a point is asked whether it leads the right way.
        """
        heading = np.arctan2([starts[:, 4], ends[:, 4]], [starts[:, 3], ends[:, 3]])
        bend = np.abs(_wrap(heading[1] - heading[0])) / 2
        segments = np.concatenate([starts[:, :2], ends[:, :2]], axis=1)
        middle = np.arctan2(ends[:, 1] - starts[:, 1], ends[:, 0] - starts[:, 0])
        side = self.cell / _PATCHES
        radius = side * np.sqrt(0.5)
        rows, owner = np.unique(cell, return_inverse=True)
        begin = np.searchsorted(cell, rows)
        # a first bound by the distances from the cell's centre: 2 m is what a heading error of pi and 0.05 are worth
        least = np.minimum.reduceat(distance, begin) if len(rows) else distance
        spread = 2 * self.cell * np.sqrt(0.5)
        half = starts[segment, 5] / 2
        some = (distance <= least[owner] + spread + 2.0 + _SLACK_M) | (distance <= half + spread)
        if len(rows):  # where heights differ, near segments do not stand for all
            z = starts[segment, 2]
            some |= (np.maximum.reduceat(z, begin) - np.minimum.reduceat(z, begin))[owner] >= LEVEL_M
        index = np.flatnonzero(some)
        cell, segment, half, owner = cell[index], segment[index], half[index], owner[index]
        begin = np.searchsorted(owner, np.arange(len(rows)))
        centre = np.stack(
            [self.x + (cell % self.nx + 0.5) * self.cell, self.y + (cell // self.nx + 0.5) * self.cell], 1
        )
        keep = np.zeros(len(cell), dtype=bool)
        for k in range(_PATCHES**2 if len(rows) else 0):
            shift = (np.array([k % _PATCHES, k // _PATCHES]) - (_PATCHES - 1) / 2) * side
            d = _distance(centre + shift, segments[segment])
            nearest = segment[np.lexsort((d, owner))[begin]][owner]
            angle = np.abs(_wrap(middle[segment] - middle[nearest])) + bend[segment] + bend[nearest]
            worth = 0.3 * np.minimum(angle, np.pi) / np.pi + 0.05 * (lane[segment] != lane[nearest])
            ahead = d - _distance(centre + shift, segments[nearest])
            keep |= ahead <= 2 * radius + worth * 4 / 0.7 + _SLACK_M
            keep |= d <= half + radius + _SLACK_M
            keep |= np.abs(starts[segment, 2] - starts[nearest, 2]) >= LEVEL_M
        some[index] = keep
        return some

    def nearest(self, middles: Array, count: int) -> Ints:
        """The `count` pieces whose middles are nearest to each cell's centre within `NEAR_M`.

        Returns:
            Indices [cells, count], by distance, then index; -1 padded.
        """
        ranks = np.arange(1, count + 1)
        found = cKDTree(middles).query(self.centres(), k=ranks, distance_upper_bound=NEAR_M)
        distance, index = np.asarray(found[0]), np.asarray(found[1])
        order = np.lexsort((index, distance), axis=1)
        index = np.take_along_axis(index, order, axis=1)
        return np.where(index == len(middles), -1, index).astype(np.int64)


def make_grid(points: Array, edges: Array) -> Grid:
    """Lay the grid over `points` [n, 2] with its margin.

    Among a few origins it takes the one whose cell centres keep farthest from the edges [e, 4], since a kernel that
    asks on which side of an edge a cell's centre lies computes in float32.
    """
    low, high = points.min(axis=0) - MARGIN_M, points.max(axis=0) + MARGIN_M
    best: tuple[float, Grid] | None = None
    for k in range(_TRIES):
        shift = CELL_M / _TRIES * np.array([k, 7 * k % _TRIES]) + 3 * _ORIGIN_STEP_M
        x, y = np.floor((low - shift) / _ORIGIN_STEP_M) * _ORIGIN_STEP_M
        nx, ny = (int(np.ceil((h - o) / CELL_M)) for h, o in zip(high, (x, y), strict=True))
        grid = Grid(float(x), float(y), nx, ny)
        clearance = min(_clearance(edges, grid.x, grid.y, ny), _clearance(edges[:, [1, 0, 3, 2]], grid.y, grid.x, nx))
        if best is None or clearance > best[0]:
            best = clearance, grid
    assert best is not None
    return best[1]


def _clearance(edges: Array, x0: float, y0: float, rows: int) -> float:
    """Least distance of an edge from a cell centre on the rows that it crosses [m]."""
    segment, _, x = _crossings(edges, y0, rows, CELL_M)
    along = (x - x0) / CELL_M
    dx = np.abs(along - np.floor(along) - 0.5) * CELL_M
    run, rise = edges[segment, 2] - edges[segment, 0], edges[segment, 3] - edges[segment, 1]
    return float((dx * np.abs(rise) / np.hypot(run, rise)).min(initial=np.inf))


def _crossings(edges: Array, y0: float, rows: int, side: float) -> tuple[Ints, Ints, Array]:
    """Where edges cross the rows of cell centres: (edge, row, x); an end that lies on a row counts as above it."""
    ends = (edges[:, 1::2] - y0) / side - 0.5
    low, high = np.ceil(ends.min(axis=1)).astype(np.int64), np.ceil(ends.max(axis=1)).astype(np.int64)
    low, high = np.clip(low, 0, rows), np.clip(high, 0, rows)
    segment, k = _expand(high - low)
    row = low[segment] + k
    xa, ya, xb, yb = edges[segment].T
    return segment, row, xa + (xb - xa) * ((y0 + (row + 0.5) * side) - ya) / (yb - ya)


def _expand(counts: Ints) -> tuple[Ints, Ints]:
    """For each i, `counts[i]` times: (i, 0), (i, 1), ..."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


def _distance(points: Array, segments: Array) -> Array:
    a, d = segments[:, :2], segments[:, 2:] - segments[:, :2]
    t = np.clip(((points - a) * d).sum(axis=1) / np.maximum((d * d).sum(axis=1), 1e-12), 0.0, 1.0)
    return np.hypot(*(points - a - t[:, None] * d).T)


def _wrap(angle: Array) -> Array:
    return np.remainder(angle + np.pi, 2 * np.pi) - np.pi
