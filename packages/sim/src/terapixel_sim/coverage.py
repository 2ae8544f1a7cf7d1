"""Exact coverage of a square raster by polygons and painted strips, as sparse contributions to its cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Cells:
    """Contributions to raster cells, sorted by row.

    Attributes:
        row: i64 [n] of each contribution.
        column: i64 [n].
        value: f64 [n].
    """

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    value: Array

    @classmethod
    def gather(cls, parts: list[tuple[NDArray[np.int64], NDArray[np.int64], Array]]) -> Cells:
        """Join and sort; the order among equal rows is kept, so sums are reproducible."""
        row = np.concatenate([p[0] for p in parts] or [np.zeros(0, np.int64)])
        order = np.argsort(row, kind="stable")
        column = np.concatenate([p[1] for p in parts] or [np.zeros(0, np.int64)])
        value = np.concatenate([p[2] for p in parts] or [np.zeros(0)])
        return cls(row[order], column[order], value[order])

    def band(self, first: int, rows: int, columns: int) -> Array:
        """Sum of the contributions in rows first .. first + rows - 1, dense f64 [rows, columns]."""
        a, b = np.searchsorted(self.row, [first, first + rows])
        flat = (self.row[a:b] - first) * columns + self.column[a:b]
        return np.bincount(flat, self.value[a:b], rows * columns).reshape(rows, columns).astype(np.float64)


def area_cells(start: Array, end: Array, weight: Array) -> Cells:
    """Contributions whose running sum along each row is the area covered by polygons, counted with multiplicity.

    The signed-area accumulation of font rasterisers: an edge adds to its own cell the part of it that lies to the
    right of the edge, and the rest to the next cell.

    Args:
        start: [n, 2] edge starts in cells (x, y); the polygon lies on an edge's left.
        end: [n, 2] edge ends.
        weight: [n] how often each edge counts.
    """
    steep = (start[:, 1] != end[:, 1]) & (weight != 0)
    a, b, weight = _split(start[steep], end[steep], weight[steep], axis=1)
    a, b, weight = _split(a, b, weight, axis=0)
    row = np.floor(0.5 * (a[:, 1] + b[:, 1])).astype(np.int64)
    column = np.floor(0.5 * (a[:, 0] + b[:, 0])).astype(np.int64)
    # y points up and the left of a falling edge is the side of larger x
    fall = weight * (a[:, 1] - b[:, 1])
    inside = 0.5 * (a[:, 0] + b[:, 0]) - column
    return Cells.gather([(row, column, fall * (1 - inside)), (row, column + 1, fall * inside)])


def _split(a: Array, b: Array, weight: Array, axis: int) -> tuple[Array, Array, Array]:
    """Cut segments where coordinate `axis` passes an integer."""
    low, high = np.minimum(a[:, axis], b[:, axis]), np.maximum(a[:, axis], b[:, axis])
    first = np.floor(low)
    count = np.maximum(np.ceil(high) - first, 1).astype(np.int64)
    index = np.repeat(np.arange(len(a)), count)
    cell = first[index] + np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    a, b, weight = a[index], b[index], weight[index]
    span = b[:, axis] - a[:, axis]
    flat = span == 0
    divisor = np.where(flat, 1.0, span)
    t0 = np.where(flat, 0.0, np.clip((cell - a[:, axis]) / divisor, 0, 1))
    t1 = np.where(flat, 1.0, np.clip((cell + 1 - a[:, axis]) / divisor, 0, 1))
    t0, t1 = np.minimum(t0, t1)[:, None], np.maximum(t0, t1)[:, None]
    return a + t0 * (b - a), a + t1 * (b - a), weight


def dash_pieces(points: Array, dash: float, gap: float, longest: float) -> tuple[Array, Array]:
    """Cut a polyline [n, 2] into its painted pieces of at most `longest`, by arc length from its start.

    Args:
        points: the polyline [n, 2] (m).
        dash: painted length (m); 0 paints everything.
        gap: unpainted length between dashes (m).
        longest: greatest length of a piece (m).

    Returns:
        Starts and ends [m, 2].
    """
    steps = np.hypot(*np.diff(points, axis=0).T)
    points, steps = points[np.append(True, steps > 0)], steps[steps > 0]
    if len(points) < 2:
        return np.zeros((0, 2)), np.zeros((0, 2))
    at = np.append(0.0, np.cumsum(steps))
    cuts = [at, np.arange(0.0, at[-1], longest)]
    if dash > 0 and gap > 0:
        period = np.arange(0.0, at[-1], dash + gap)
        cuts += [period, period + dash]
    s = np.unique(np.concatenate(cuts))
    s = s[s <= at[-1]]
    middle = 0.5 * (s[1:] + s[:-1])
    painted = np.mod(middle, dash + gap) < dash if dash > 0 and gap > 0 else np.ones(len(middle), bool)
    xy = np.stack([np.interp(s, at, points[:, 0]), np.interp(s, at, points[:, 1])], 1)
    return xy[:-1][painted], xy[1:][painted]


def strip_cells(start: Array, end: Array, half_width: Array) -> Cells:
    """Coverage of cells by straight strips, each cell taken as a unit square turned along the strip.

    Pieces of one line share out its length without overlap, so their coverages add up.

    Args:
        start: [n, 2] in cells.
        end: [n, 2] in cells, a few cells away from `start` at most.
        half_width: [n] in cells.
    """
    parts = []
    reach = half_width + 0.71
    lower = np.floor(np.minimum(start, end) - reach[:, None]).astype(np.int64)
    window = np.ceil(np.maximum(start, end) + reach[:, None]).astype(np.int64) - lower
    for side in np.unique(-(-window.max(1) // 4) * 4) if len(start) else ():
        members = np.flatnonzero(-(-window.max(1) // 4) * 4 == side)
        parts += [
            _strip_window(start[some], end[some], half_width[some], lower[some], int(side))
            for some in np.array_split(members, max(1, len(members) * side * side // 1_000_000))
        ]
    return Cells.gather(parts)


def _strip_window(
    start: Array, end: Array, half_width: Array, lower: NDArray[np.int64], side: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    offset = np.arange(side)
    delta = end - start
    length = np.hypot(delta[:, 0], delta[:, 1])
    ux, uy = ((delta / np.maximum(length, 1e-12)[:, None])[:, i, None, None] for i in (0, 1))
    x = (lower[:, 0, None] + offset + 0.5 - start[:, 0, None])[:, None, :]
    y = (lower[:, 1, None] + offset + 0.5 - start[:, 1, None])[:, :, None]
    along, across = x * ux + y * uy, np.abs(y * ux - x * uy)
    length, half = length[:, None, None], half_width[:, None, None]
    cover = np.minimum(along + 0.5, length) - np.maximum(along - 0.5, 0.0)
    cover = np.clip(cover, 0, 1) * np.clip(np.minimum(across + 0.5, half) - np.maximum(across - 0.5, -half), 0, 1)
    piece, row, column = np.nonzero(cover > 1e-6)
    return lower[piece, 1] + row, lower[piece, 0] + column, cover[piece, row, column]
