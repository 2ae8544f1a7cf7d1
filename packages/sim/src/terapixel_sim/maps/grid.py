"""The grid over a map: which lane and edge segments lie within reach of a cell, and which cell centres are drivable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray
from scipy.spatial import cKDTree

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

CELL_M = 4.0
MARGIN_M = 24.0
"""The grid reaches this far beyond the map; cells this near to a lane know at least one lane segment [m]."""
LANE_REACH_M = 6.0
EDGE_REACH_M = 9.0
NEAR_M = 60.0
_HALF_DIAGONAL_M = CELL_M * np.sqrt(0.5)
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

    def centres(self) -> Array:
        """Centres of all cells [ny * nx, 2]."""
        x, y = np.meshgrid(self.x + (np.arange(self.nx) + 0.5) * CELL_M, self.y + (np.arange(self.ny) + 0.5) * CELL_M)
        return np.stack([x.ravel(), y.ravel()], axis=1)

    def inside(self, edges: Array) -> NDArray[np.bool_]:
        """Whether each cell's centre is enclosed by the edge segments [e, 4] (x0, y0, x1, y1), by even-odd parity."""
        _, row, x = _crossings(edges, self.y, self.ny)
        left_of = np.clip(np.ceil((x - (self.x + CELL_M / 2)) / CELL_M), 0, self.nx).astype(np.int64)
        flips = np.bincount(row * (self.nx + 1) + left_of, minlength=self.ny * (self.nx + 1))
        # a crossing at x flips every centre to its left: count from the right
        after = np.cumsum(flips.reshape(self.ny, self.nx + 1)[:, ::-1], axis=1)[:, ::-1]
        return (after[:, 1:] % 2 == 1).ravel()

    def within(self, segments: Array, reach: float) -> tuple[Ints, Ints]:
        """Segments whose distance to a cell's centre is at most `reach` plus half the cell's diagonal.

        Returns:
            (cell, segment) pairs sorted by cell, then segment.
        """
        radius = reach + _HALF_DIAGONAL_M
        spans = []
        for axis, origin, n in ((0, self.x, self.nx), (1, self.y, self.ny)):
            ends = segments[:, axis::2]
            low = np.ceil((ends.min(axis=1) - radius - origin) / CELL_M - 0.5)
            high = np.floor((ends.max(axis=1) + radius - origin) / CELL_M - 0.5)
            low, high = np.clip(low, 0, n).astype(np.int64), np.clip(high, -1, n - 1).astype(np.int64)
            spans.append((low, np.maximum(high - low + 1, 0)))
        (x0, nx), (y0, ny) = spans
        segment, k = _expand(nx * ny)
        ix, iy = x0[segment] + k % nx[segment], y0[segment] + k // nx[segment]
        centre = np.stack([self.x + (ix + 0.5) * CELL_M, self.y + (iy + 0.5) * CELL_M], axis=1)
        near = _distance(centre, segments[segment]) <= radius
        cell, segment = (iy * self.nx + ix)[near], segment[near]
        order = np.lexsort((segment, cell))
        return cell[order], segment[order]

    def lane_items(self, segments: Array) -> tuple[Ints, Ints]:
        """`within` reach of lanes, and the nearest segment where that is none but a lane lies within the margin."""
        cell, segment = self.within(segments, LANE_REACH_M)
        empty = np.setdiff1d(np.arange(self.nx * self.ny), cell)
        points = shapely.points(self.centres()[empty])
        tree = shapely.STRtree(np.asarray(shapely.linestrings(segments.reshape(-1, 2, 2))))
        far, item = tree.query_nearest(points, max_distance=MARGIN_M + _HALF_DIAGONAL_M)
        order = np.lexsort((item, far))
        far, first = np.unique(far[order], return_index=True)
        cell, segment = np.concatenate([cell, empty[far]]), np.concatenate([segment, item[order][first]])
        order = np.argsort(cell, kind="stable")
        return cell[order], segment[order]

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
    segment, _, x = _crossings(edges, y0, rows)
    along = (x - x0) / CELL_M
    dx = np.abs(along - np.floor(along) - 0.5) * CELL_M
    run, rise = edges[segment, 2] - edges[segment, 0], edges[segment, 3] - edges[segment, 1]
    return float((dx * np.abs(rise) / np.hypot(run, rise)).min(initial=np.inf))


def _crossings(edges: Array, y0: float, rows: int) -> tuple[Ints, Ints, Array]:
    """Where edges cross the rows of cell centres: (edge, row, x); an end that lies on a row counts as above it."""
    ends = (edges[:, 1::2] - y0) / CELL_M - 0.5
    low, high = np.ceil(ends.min(axis=1)).astype(np.int64), np.ceil(ends.max(axis=1)).astype(np.int64)
    low, high = np.clip(low, 0, rows), np.clip(high, 0, rows)
    segment, k = _expand(high - low)
    row = low[segment] + k
    xa, ya, xb, yb = edges[segment].T
    return segment, row, xa + (xb - xa) * ((y0 + (row + 0.5) * CELL_M) - ya) / (yb - ya)


def _expand(counts: Ints) -> tuple[Ints, Ints]:
    """For each i, `counts[i]` times: (i, 0), (i, 1), ..."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


def _distance(points: Array, segments: Array) -> Array:
    a, d = segments[:, :2], segments[:, 2:] - segments[:, :2]
    t = np.clip(((points - a) * d).sum(axis=1) / np.maximum((d * d).sum(axis=1), 1e-12), 0.0, 1.0)
    return np.hypot(*(points - a - t[:, None] * d).T)
