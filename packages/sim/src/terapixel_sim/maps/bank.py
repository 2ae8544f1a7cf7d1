"""The map bank: all maps of a simulator as two flat tensors, laid out as `layout.Head` says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import shapely
import torch
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

from ..config import SimConfig
from ..layout import (
    CellInt,
    EdgeCol,
    Head,
    LaneFloat,
    LaneInt,
    MapFloat,
    MapInt,
    ObsSegment,
    PointCol,
    SegmentCol,
    StopFloat,
    StopInt,
)
from .centre_lines import centre_line
from .edges import drivable_edges
from .grid import CELL_M, NEAR_CELL_M, make_grid
from .road_map import LaneKind, Points, RoadMap
from .slots import spawn_slots
from .stops import stop_tables

REACH_M = 1000.0
SPEED_MAX_MPS = 20.0
STEER_MAX_RAD = 0.55
"""Of a car with gains of 1, as in `kernels/dynamics.py`, which is not imported here for the sake of Taichi."""
EDGE_PIECE_M = 8.0
"""Longest observed piece of an edge [m]."""
EDGE_TOLERANCE_M = 0.25
"""Observed edge pieces follow the edges within this [m], so that a rounded kerb takes few of them."""
MAX_COORDINATE_M = 50_000.0
"""Beyond it float32 is coarser than half a centimetre."""
MAX_LANES = 1 << 24
"""A float32 holds every integer up to here; `SegmentCol.LANE` is one."""

_INT_TABLES: list[Head] = [h for h in Head if h.name[:2] != "F_" and h.name[:4] != "NUM_" and h != Head.SIZE]
_FLOAT_TABLES: list[Head] = [h for h in Head if h.name[:2] == "F_"]
_COLUMNS = {
    Head.MAPS: len(MapInt),
    Head.LANES: len(LaneInt),
    Head.F_MAPS: len(MapFloat),
    Head.F_LANES: len(LaneFloat),
    Head.F_POINTS: len(PointCol),
    Head.F_EDGES: len(EdgeCol),
    Head.F_SEGMENTS: len(SegmentCol),
    Head.STOPS: len(StopInt),
    Head.F_STOPS: len(StopFloat),
    Head.F_OBS_LANES: len(ObsSegment),
    Head.F_OBS_EDGES: len(ObsSegment),
}


@dataclass(frozen=True)
class MapBank:
    """All maps of a simulator, ready for kernels."""

    ints: torch.Tensor
    """i32 [..]: the header (`layout.Head`), then the integer tables."""
    floats: torch.Tensor
    """f32 [..]: the float tables."""
    maps: tuple[RoadMap, ...]
    capacity: tuple[int, ...]
    """Spawn slots of each map: the most agents that a world on it can hold."""

    def table(self, head: Head) -> torch.Tensor:
        """A view of one table: [rows, columns], or [rows] where it has a single column.

        Raises:
            ValueError: `head` names a number, not a table.
        """
        for tables, data in ((_INT_TABLES, self.ints), (_FLOAT_TABLES, self.floats)):
            if head in tables:
                i = tables.index(head)
                begin = int(self.ints[head])
                end = int(self.ints[tables[i + 1]]) if i + 1 < len(tables) else len(data)
                near = {Head.NEAR_LANES: Head.NUM_NEAR_LANES, Head.NEAR_EDGES: Head.NUM_NEAR_EDGES}
                columns = int(self.ints[near[head]]) if head in near else _COLUMNS.get(head)
                return data[begin:end].view(-1, columns) if columns else data[begin:end]
        raise ValueError(f"table: expected a table of the bank, got {head!r}")


def build_bank(maps: Sequence[RoadMap], config: SimConfig, device: str | torch.device = "cpu") -> MapBank:
    """Lay out maps for the kernels.

    A map without edges gets the boundary of its lanes. The bank holds driving lanes alone, numbered anew.

    Args:
        maps: one or more maps.
        config: sizes of cars and routes (spawn slots), numbers of observed lane and edge pieces, timing of lights.
        device: where the tensors go.

    Raises:
        ValueError: no map; an invalid map; open edges; coordinates beyond `MAX_COORDINATE_M`; a map without any spawn
            slot; more than `MAX_LANES` lanes; tables of 2^31 entries or more.
    """
    if not maps:
        raise ValueError("maps: expected at least one map, got none")
    rows: dict[Head, list[NDArray[np.generic]]] = {h: [] for h in (*_INT_TABLES, *_FLOAT_TABLES)}
    sizes = dict.fromkeys(rows, 0)
    for road_map in maps:
        for head, table in _map_tables(_driving(road_map.validate()), config, sizes).items():
            rows[head].append(table)
            sizes[head] += len(table)

    if sizes[Head.LANES] > MAX_LANES:
        raise ValueError(f"maps: {sizes[Head.LANES]} lanes are more than {MAX_LANES}; use fewer or smaller maps")
    header = np.zeros(Head.SIZE, dtype=np.int64)
    header[Head.NUM_MAPS] = len(maps)
    header[Head.NUM_NEAR_LANES] = config.observation.lanes
    header[Head.NUM_NEAR_EDGES] = config.observation.edges
    flat = []
    for tables, begin in ((_INT_TABLES, int(Head.SIZE)), (_FLOAT_TABLES, 0)):
        parts = []
        for head in tables:
            header[head] = begin
            parts.append(np.concatenate([t.ravel() for t in rows[head]]))
            begin += len(parts[-1])
        if begin >= 2**31:
            raise ValueError(f"maps: {begin} table entries are more than 2^31 - 1; use fewer or smaller maps")
        flat.append(np.concatenate(parts))
    return MapBank(
        ints=torch.from_numpy(np.concatenate([header, flat[0]]).astype(np.int32)).to(device),
        floats=torch.from_numpy(flat[1].astype(np.float32)).to(device),
        maps=tuple(maps),
        capacity=tuple(int(t[0, MapInt.NUM_SLOTS]) for t in rows[Head.MAPS]),  # type: ignore[call-overload]
    )


def _map_tables(road_map: RoadMap, config: SimConfig, at: dict[Head, int]) -> dict[Head, NDArray[np.generic]]:
    """Tables of one map, whose rows begin at `at` in the bank."""
    lanes = road_map.lanes
    lines = [centre_line(lane) for lane in lanes]
    points = np.concatenate([line.points for line in lines])
    first = np.cumsum([0] + [len(line.points) for line in lines])
    is_start = np.ones(len(points), dtype=bool)
    is_start[first[1:] - 1] = False
    starts = np.flatnonzero(is_start)
    lane_of = np.repeat(np.arange(len(lanes)), np.diff(first))

    rings = _rings(road_map)
    edges = np.concatenate([np.hstack([r[:-1, :2], r[1:, :2], (r[:-1, 2:] + r[1:, 2:]) / 2]) for r in rings])
    extent = np.concatenate([a[:, :2] for lane in lanes for a in (lane.left, lane.right)] + [r[:, :2] for r in rings])
    if np.abs(extent).max() > MAX_COORDINATE_M:
        raise ValueError(
            f"map {road_map.name}: coordinates reach {np.abs(extent).max():.0f} m, allowed are "
            f"{MAX_COORDINATE_M:.0f} m around the origin; subtract an offset"
        )
    grid = make_grid(extent, edges[:, :4])
    near_grid = grid.coarser(NEAR_CELL_M)
    lane_cell, lane_item = grid.lane_items(points[starts], points[starts + 1], lane_of[starts])
    edge_cell, edge_item, edge_distance = grid.nearest_first(edges[:, :4], _motion_reach(config))
    cell_first, rows = cell_rows(
        grid.inside(edges[:, :4]),
        (lane_cell, starts[lane_item] + at[Head.F_POINTS]),
        (edge_cell, edge_item + at[Head.F_EDGES], edge_distance),
    )
    lane_pieces, edge_pieces = np.concatenate([line.pieces for line in lines]), _edge_pieces(rings)
    stops = stop_tables(road_map, lines, near_grid, _motion_reach(config))
    stop_ints = stops.ints.copy()
    stop_ints[:, StopInt.LANE0] += at[Head.STOP_LANES]
    near_lanes = near_grid.nearest(lane_pieces[:, :2], config.observation.lanes)
    near_edges = near_grid.nearest(edge_pieces[:, :2], config.observation.edges)

    length = np.array([line.length for line in lines])
    reach = _reach(length, [lane.successors for lane in lanes])
    on_road = np.array([lane.junction < 0 for lane in lanes])
    slot_lane, slot_s = spawn_slots(lines, on_road, reach, _area(rings), config)
    if not len(slot_lane):
        raise ValueError(
            f"map {road_map.name}: no spawn slot: no lane has room for a car of {config.spawn.length_m[1]:g} m x "
            f"{config.spawn.width_m[1]:g} m with {config.route.min_length_m:g} m of road ahead"
        )

    lane0 = at[Head.LANES]
    succ_count = np.array([len(lane.successors) for lane in lanes])
    lane_ints = np.zeros((len(lanes), len(LaneInt)), dtype=np.int64)
    lane_ints[:, LaneInt.POINT0] = first[:-1] + at[Head.F_POINTS]
    lane_ints[:, LaneInt.NUM_POINTS] = np.diff(first)
    lane_ints[:, LaneInt.SUCC0] = np.cumsum(succ_count) - succ_count + at[Head.SUCCESSORS]
    lane_ints[:, LaneInt.NUM_SUCC] = succ_count
    lane_ints[:, LaneInt.LEFT] = _shift(np.array([lane.left_neighbour for lane in lanes]), lane0)
    lane_ints[:, LaneInt.RIGHT] = _shift(np.array([lane.right_neighbour for lane in lanes]), lane0)
    lane_ints[:, LaneInt.TURN] = [int(lane.turn) for lane in lanes]
    lane_ints[:, LaneInt.STOP0] = stops.lane_first + at[Head.LANE_STOPS]
    lane_ints[:, LaneInt.NUM_STOPS] = stops.lane_count
    lane_floats = np.zeros((len(lanes), len(LaneFloat)))
    lane_floats[:, LaneFloat.LENGTH] = length
    lane_floats[:, LaneFloat.SPACING] = [line.spacing for line in lines]
    lane_floats[:, LaneFloat.LIMIT] = [lane.speed_limit for lane in lanes]
    lane_floats[:, LaneFloat.REACH] = reach
    map_ints = np.zeros((1, len(MapInt)), dtype=np.int64)
    map_ints[0, [MapInt.NX, MapInt.NY, MapInt.CELL0]] = grid.nx, grid.ny, at[Head.CELLS]
    map_ints[0, [MapInt.LANE0, MapInt.NUM_LANES]] = lane0, len(lanes)
    map_ints[0, [MapInt.SLOT0, MapInt.NUM_SLOTS]] = at[Head.SLOT_LANE], len(slot_lane)
    map_ints[0, [MapInt.NEAR_NX, MapInt.NEAR_NY, MapInt.NEAR0]] = near_grid.nx, near_grid.ny, at[Head.NEAR_LANES]
    map_ints[0, MapInt.NUM_STOPS] = len(stops.ints)
    lights = config.lights
    timing = [*lights.green_s, lights.yellow_s, lights.all_red_s, config.dt_s]
    successors = [s for lane in lanes for s in lane.successors]
    return {
        Head.MAPS: map_ints,
        Head.LANES: lane_ints,
        Head.POINT_LANE: lane_of + lane0,
        Head.SUCCESSORS: np.array(successors, dtype=np.int64) + lane0,
        Head.CELLS: cell_first + at[Head.CELL_ROWS],
        Head.CELL_ROWS: rows,
        Head.NEAR_LANES: _shift(near_lanes, at[Head.F_OBS_LANES]),
        Head.NEAR_EDGES: _shift(near_edges, at[Head.F_OBS_EDGES]),
        Head.SLOT_LANE: slot_lane + lane0,
        Head.STOPS: stop_ints,
        Head.STOP_LANES: stops.lanes + lane0,
        Head.LANE_STOPS: stops.lane_items + at[Head.STOPS],
        Head.NEAR_STOPS: stops.cell_first + at[Head.STOP_ITEMS],
        Head.STOP_ITEMS: stops.cell_items + at[Head.STOPS],
        Head.F_MAPS: np.array([[grid.x, grid.y, CELL_M, NEAR_CELL_M, *timing]]),
        Head.F_LANES: lane_floats,
        Head.F_POINTS: points,
        Head.F_EDGES: edges,
        Head.F_OBS_LANES: lane_pieces,
        Head.F_OBS_EDGES: edge_pieces,
        Head.F_SLOT_S: slot_s,
        Head.F_STOPS: stops.floats,
        Head.F_LANE_STOPS: stops.lane_s,
        Head.F_SEGMENTS: segment_rows(points, lane_of + lane0),
    }


def cell_rows(
    inside: NDArray[np.bool_],
    lanes: tuple[NDArray[np.int64], NDArray[np.int64]],
    edges: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lay out what is known of each grid cell, `layout.CellInt`: in one place, so that a look at a cell is one miss.

    Args:
        inside: whether each cell's centre is drivable [C].
        lanes: (cell, point) of each lane item, sorted by cell.
        edges: (cell, edge, distance from the cell's centre [m]) of each edge item, sorted by cell, then distance.

    Returns:
        (where each cell's row begins [C], the rows one after another).
    """
    lane_cell, point = lanes
    edge_cell, edge, distance = edges
    num_lanes, num_edges = (np.bincount(cell, minlength=len(inside)) for cell in (lane_cell, edge_cell))
    size = CellInt.ITEMS + num_lanes + 2 * num_edges
    first = np.cumsum(size) - size
    rows = np.zeros(size.sum(), dtype=np.int64)
    rows[first + CellInt.INSIDE] = inside
    rows[first + CellInt.NUM_LANES] = num_lanes
    rows[first + CellInt.NUM_EDGES] = num_edges
    lane_rank = np.arange(len(point)) - (np.cumsum(num_lanes) - num_lanes)[lane_cell]
    rows[first[lane_cell] + CellInt.ITEMS + lane_rank] = point
    edge_rank = np.arange(len(edge)) - (np.cumsum(num_edges) - num_edges)[edge_cell]
    place = first[edge_cell] + CellInt.ITEMS + num_lanes[edge_cell] + 2 * edge_rank
    rows[place] = edge
    rows[place + 1] = distance.astype(np.float32).view(np.int32)
    return first, rows


def segment_rows(points: Points, lane: NDArray[np.int64]) -> Points:
    """The segment from each centre-line point to the next, `layout.SegmentCol`.

    Args:
        points: centre-line points of all lanes, one lane after another [P, len(PointCol)].
        lane: the lane of each point [P].
    """
    rows = np.zeros((len(points), len(SegmentCol)))
    # by the coordinates that kernels read, so that a segment ends where the next one begins
    xy = points[:, [PointCol.X, PointCol.Y]].astype(np.float32).astype(np.float64)
    rows[:, [SegmentCol.X, SegmentCol.Y]] = xy
    rows[:, SegmentCol.HALF_WIDTH_2] = np.square(points[:, PointCol.WIDTH] / 2)
    rows[:, SegmentCol.Z] = points[:, PointCol.Z]
    rows[:, SegmentCol.LANE] = lane
    begins = np.flatnonzero(lane[1:] == lane[:-1])
    rows[begins, SegmentCol.DX : SegmentCol.DY + 1] = xy[begins + 1] - xy[begins]
    tangent = points[:, PointCol.COS] + 1j * points[:, PointCol.SIN]
    rows[begins, SegmentCol.BEND] = np.angle(tangent[begins + 1] / tangent[begins])
    return rows


def _driving(road_map: RoadMap) -> RoadMap:
    """The map's driving lanes, within edges that all lanes of asphalt count for."""
    driving = road_map.only(LaneKind.DRIVING)
    if not driving.lanes:
        raise ValueError(f"map {road_map.name}: expected at least one driving lane, got lanes of other kinds alone")
    return replace(driving, edges=road_map.edges or drivable_edges(road_map.lanes))


def _motion_reach(config: SimConfig) -> float:
    """Distance from its present centre that any part of a car was within during a step [m].

    The centre is half a wheelbase ahead of the rear axle and moves, at full lock, by so much more than that.
    """
    half_diagonal = 0.5 * math.hypot(config.spawn.length_m[1], config.spawn.width_m[1])
    axle_path = SPEED_MAX_MPS * max(1.0, config.condition.gain_speed[1]) * config.dt_s
    return half_diagonal + axle_path * math.hypot(1.0, 0.5 * math.tan(STEER_MAX_RAD))


def _rings(road_map: RoadMap) -> list[Points]:
    """The map's edges, rounded as the kernels see them, without points that coincide then."""
    rings = []
    for i, edge in enumerate(road_map.edges):
        if not np.array_equal(edge[0], edge[-1]):
            raise ValueError(
                f"map {road_map.name}: edge {i} is open; expected closed rings, or no edges for the lanes' boundary"
            )
        ring = edge.astype(np.float32).astype(np.float64)
        distinct = np.append(True, np.any(np.diff(ring[:, :2], axis=0) != 0, axis=1))
        rings.append(ring[distinct])
    return rings


def _area(rings: list[Points]) -> BaseGeometry:
    return shapely.build_area(shapely.MultiLineString([r[:, :2] for r in rings]))


def _edge_pieces(rings: list[Points]) -> NDArray[np.float64]:
    """Cut coarsened edges into pieces of at most `EDGE_PIECE_M` [m, len(ObsSegment)]."""
    coarse = [shapely.simplify(shapely.linearrings(r), EDGE_TOLERANCE_M) for r in rings]
    points = [shapely.get_coordinates(ring, include_z=True) for ring in coarse]
    ends = np.concatenate([np.hstack([r[:-1], r[1:]]) for r in points])
    length = np.hypot(*(ends[:, 3:5] - ends[:, :2]).T)
    counts = np.maximum(np.ceil(length / EDGE_PIECE_M - 1e-9), 1).astype(np.int64)
    owner = np.repeat(np.arange(len(ends)), counts)
    k = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    middle = ends[owner, :3] + ((k + 0.5) / counts[owner])[:, None] * (ends[owner, 3:] - ends[owner, :3])
    pieces = np.zeros((len(owner), len(ObsSegment)))
    pieces[:, [ObsSegment.X, ObsSegment.Y, ObsSegment.Z]] = middle
    pieces[:, ObsSegment.HALF_LENGTH] = (length / counts / 2)[owner]
    pieces[:, [ObsSegment.COS, ObsSegment.SIN]] = ((ends[:, 3:5] - ends[:, :2]) / length[:, None])[owner]
    return pieces


def _reach(length: NDArray[np.float64], successors: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """Longest way on from each lane's end, capped at `REACH_M`, by relaxation until nothing grows."""
    lane = np.repeat(np.arange(len(length)), [len(s) for s in successors])
    after = np.array([s for row in successors for s in row], dtype=np.int64)
    reach = np.zeros(len(length))
    while True:
        longer = np.zeros(len(length))
        np.maximum.at(longer, lane, np.minimum(length[after] + reach[after], REACH_M))
        if np.array_equal(longer, reach):
            return reach
        reach = longer


def _shift(index: NDArray[np.int64], start: int) -> NDArray[np.int64]:
    """Indices that count from `start`; -1 stays."""
    return np.where(index < 0, -1, index + start)
