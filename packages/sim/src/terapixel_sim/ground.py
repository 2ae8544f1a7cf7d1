"""What lies on the ground of each map, as a tiled pyramid of (class, coverage) texels that cameras sample.

A texel is one byte, `class << 5 | round(31 sqrt(coverage))`: the square root keeps a lane line's few percent of a
coarse texel. Road covers terrain; paint (white, yellow, edge) covers road. Level 0 has texels of 0.125 m, each of the
six levels doubles them. Levels are cut into tiles of 16 x 16 texels; all tiles that are nothing but terrain, or
nothing but road, share one. Outside a map everything is terrain.

The road is the union of all lanes of asphalt and of what closed road edges enclose. Heights are left out: where roads
cross on two levels, both are drawn on one ground.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import torch
from numpy.typing import NDArray

from .coverage import Array, Cells, area_cells, dash_pieces, strip_cells
from .kernels.render_math import LEVELS, TEXEL_M, TILE, MapHead
from .maps.road_map import ASPHALT, RoadMap


class Surface(IntEnum):
    """Classes of texels."""

    TERRAIN = 0
    ROAD = 1
    WHITE = 2
    YELLOW = 3
    EDGE = 4
    VERGE = 5  # edge paint with terrain, not road, beside it
    SKY = 7  # never on a map; what taps above the horizon read


EDGE_WIDTH_M = 0.2
"""Width of the line along a road's edge, on its drivable side [m]."""
FULL = 31
UNIFORM = ((Surface.TERRAIN, 0), (Surface.ROAD, FULL), (Surface.SKY, FULL))
"""(class, coverage) of the first tiles of the pool, which every map shares."""
BLOCK = 32
"""Tiles per axis are a multiple of this, so that every level ends on whole tiles."""
BAND = BLOCK * TILE
"""Rows of level 0 rasterised at a time, which bounds the memory of a build."""
MARGIN_M = 4.0
"""Terrain kept around a map: one texel of the coarsest level, which is what clamped samples outside read."""
PAINT = {"white": Surface.WHITE, "yellow": Surface.YELLOW}


@dataclass(frozen=True)
class Ground:
    """The grounds of all maps of a simulator, on one device.

    Attributes:
        tiles: i32 flat; a `MapHead` per map, then per map a table [2 NY, NX] of where tiles begin in `texels`: level
            l begins at row 2 NY - (2 NY >> l).
        texels: u8 flat, tiles of 256 texels, row by row from the lower left corner.
        num_maps: how many maps.
    """

    tiles: torch.Tensor
    texels: torch.Tensor
    num_maps: int


def build_ground(maps: Sequence[RoadMap], device: str = "cpu") -> Ground:
    """Rasterise the grounds of maps.

    Raises:
        ValueError: no map, a map without lanes and edges, or a marking of an unknown colour.
    """
    if not maps:
        raise ValueError("maps: expected at least one map, got none")
    pool = [np.full((1, TILE * TILE), kind << 5 | cover, np.uint8) for kind, cover in UNIFORM]
    heads = np.zeros((len(maps), MapHead.SIZE), np.int32)
    tables, count, first = [], len(UNIFORM), heads.size
    for head, road_map in zip(heads, maps, strict=True):
        table, tiles, corner = _build_map(road_map, count)
        head[:] = *corner, table.shape[1], table.shape[0] // 2, first
        pool.append(tiles)
        tables.append(table.ravel())
        count += len(tiles)
        first += table.size
    if count * TILE * TILE >= 2**31:
        raise ValueError(f"maps: {count} ground tiles are more than the 2^31 bytes that one simulator can hold")
    index = torch.from_numpy(np.concatenate([heads.ravel(), *tables])).to(device)
    return Ground(index, torch.from_numpy(np.concatenate(pool).ravel()).to(device), len(maps))


def _build_map(road_map: RoadMap, first_tile: int) -> tuple[NDArray[np.int32], NDArray[np.uint8], tuple[int, int]]:
    """One map's tile table [2 NY, NX] (offsets into the pool), its own tiles [n, 256] and its corner [m]."""
    outline = [p for lane in road_map.lanes for p in (lane.left, lane.right)] + list(road_map.edges)
    if not outline:
        raise ValueError(f"map {road_map.name}: expected lanes or edges, got neither")
    outline += [m.points for m in road_map.markings]
    xy = np.concatenate([p[:, :2] for p in outline])
    corner = np.floor(xy.min(0)) - MARGIN_M
    side = TEXEL_M * TILE * BLOCK
    nx, ny = (int(n) for n in np.ceil((xy.max(0) + MARGIN_M + 1 - corner) / side) * BLOCK)
    lanes, edges = _lane_area(road_map, corner), _edge_area(road_map, corner)
    paint = {k: _paint(road_map, k, corner) for k in (Surface.WHITE, Surface.YELLOW, Surface.EDGE)}
    table = np.full((2 * ny, nx), UNIFORM.index((Surface.SKY, FULL)), np.int32)
    pool: list[NDArray[np.uint8]] = []
    for band in range(ny // BLOCK):
        args = (band * BAND, BAND, nx * TILE)
        road = np.zeros(args[1:], np.float32)
        for area in (lanes, edges):
            if len(area.row):
                road = np.maximum(road, np.clip(np.cumsum(area.band(*args), axis=1), 0, 1).astype(np.float32))
        cover = [road, *(np.minimum(c.band(*args), 1).astype(np.float32) for c in paint.values())]
        for level in range(LEVELS):
            if level:
                cover = [_halve(c) for c in cover]
            row = 2 * ny - ((2 * ny) >> level) + band * (BLOCK >> level)
            index, tiles = _tile(_quantise(cover), first_tile)
            table[row : row + len(index), : index.shape[1]] = index
            pool.append(tiles)
            first_tile += len(tiles)
    return table * (TILE * TILE), np.concatenate(pool), (int(corner[0]), int(corner[1]))


def _cells(points: Array, corner: Array) -> Array:
    return (points[:, :2] - corner) / TEXEL_M


def _lane_area(road_map: RoadMap, corner: Array) -> Cells:
    """Edges of the quads between the boundaries of every lane, each wound counter-clockwise however it bends."""
    start, end, weight = [], [], []
    for lane in (lane for lane in road_map.lanes if lane.kind in ASPHALT):
        left, right = _cells(lane.left, corner), _cells(lane.right, corner)
        d1, d2 = left[1:] - right[:-1], right[1:] - left[:-1]
        turn = np.sign(d2[:, 0] * d1[:, 1] - d2[:, 1] * d1[:, 0])  # the diagonals' cross product is twice the area
        rungs = np.append(turn, 0) - np.append(0, turn)
        start += [right[:-1], left[1:], left]
        end += [right[1:], left[:-1], right]
        weight += [turn, turn, rungs]
    if not start:
        return Cells.gather([])
    return area_cells(np.concatenate(start), np.concatenate(end), np.concatenate(weight))


def _edge_area(road_map: RoadMap, corner: Array) -> Cells:
    """Area inside the closed road edges."""
    closed = [_cells(e, corner) for e in road_map.edges if len(e) > 3 and np.array_equal(e[0], e[-1])]
    if not closed:
        return Cells.gather([])
    start, end = np.concatenate([e[:-1] for e in closed]), np.concatenate([e[1:] for e in closed])
    return area_cells(start, end, np.ones(len(start)))


def _paint(road_map: RoadMap, kind: Surface, corner: Array) -> Cells:
    start, end, half = [], [], []
    lines = [(e, EDGE_WIDTH_M, 0.0, 0.0) for e in road_map.edges] if kind == Surface.EDGE else []
    for m in road_map.markings:
        if m.colour not in PAINT:
            raise ValueError(f"map {road_map.name}: a marking's colour is {m.colour!r}; allowed: {', '.join(PAINT)}")
        if PAINT[m.colour] == kind:
            lines.append((m.points, m.width, m.dash, m.gap))
    for points, width, dash, gap in lines:
        a, b = dash_pieces(points[:, :2], dash, gap, longest=1.0)
        if kind == Surface.EDGE:
            delta = b - a
            inward = np.stack([-delta[:, 1], delta[:, 0]], 1) / np.maximum(np.hypot(*delta.T), 1e-12)[:, None]
            a, b = a + inward * (width / 2), b + inward * (width / 2)
        start.append(_cells(a, corner))
        end.append(_cells(b, corner))
        half.append(np.full(len(a), 0.5 * width / TEXEL_M))
    if not start:
        return Cells.gather([])
    return strip_cells(np.concatenate(start), np.concatenate(end), np.concatenate(half))


def _halve(a: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.float32(0.25) * (a[::2, ::2] + a[1::2, ::2] + a[::2, 1::2] + a[1::2, 1::2])


def _quantise(cover: list[NDArray[np.float32]]) -> NDArray[np.uint8]:
    """Texels of one level from the coverages by road, white, yellow and edge.

    A texel has two colours at most: paint lies on road, or edge paint on terrain where that is the larger share of the
    rest. Where what is left out would be the larger error (paint stands out about four times as much from road as
    terrain does), the paint is dropped.
    """
    road, *paint = cover
    total = np.minimum(paint[0] + paint[1] + paint[2], 1)
    terrain, bare = 1 - road, np.maximum(road - total, 0)
    kind = np.where(paint[1] > paint[0], Surface.YELLOW, Surface.WHITE)
    is_edge = paint[2] > np.maximum(paint[0], paint[1])
    verge = is_edge & (terrain > bare)
    kind = np.where(is_edge, np.where(verge, Surface.VERGE, Surface.EDGE), kind)
    painted = (total > 0) & (4 * total >= np.where(verge, bare, terrain))
    kind = np.where(painted, kind, Surface.ROAD).astype(np.uint8)
    step = np.rint(FULL * np.sqrt(np.where(painted, total, road))).astype(np.uint8)
    bare = painted & (step == 0)
    kind[bare], step[bare] = Surface.ROAD, np.rint(FULL * np.sqrt(road[bare]))
    return np.where(step > 0, kind << 5 | step, 0).astype(np.uint8)


def _tile(texels: NDArray[np.uint8], first_tile: int) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Cut a level into tiles: their numbers [tiles y, tiles x], and the tiles that are not uniform [n, 256]."""
    rows, columns = texels.shape[0] // TILE, texels.shape[1] // TILE
    tiles = texels.reshape(rows, TILE, columns, TILE).transpose(0, 2, 1, 3).reshape(rows * columns, TILE * TILE)
    low, high = tiles.min(1), tiles.max(1)
    index = np.full(rows * columns, -1, np.int32)
    for number, (kind, step) in enumerate(UNIFORM[:2]):
        index[(low == high) & (low == (kind << 5 | step))] = number
    own = index < 0
    index[own] = first_tile + np.arange(own.sum())
    return index.reshape(rows, columns), tiles[own]
