"""Stop lines that signals govern, as tables of the map bank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..layout import PointCol, StopFloat, StopInt
from .centre_lines import CentreLine
from .grid import Grid
from .road_map import RoadMap, StopLine

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

EXTEND_M = 3.5
"""A stop line holds also whoever passes it this far beside its ends, in the oncoming lane, say."""


@dataclass(frozen=True)
class StopTables:
    """Of one map; lanes and stop lines count from 0, lists begin at 0."""

    ints: Ints
    """[K, len(StopInt)]"""
    floats: Array
    """[K, len(StopFloat)]"""
    lanes: Ints
    """Lanes of the stop lines, one line after another."""
    lane_first: Ints
    """Where each lane's list begins in `lane_items` [L]."""
    lane_count: Ints
    lane_items: Ints
    lane_s: Array
    """Arc length of each item on its lane [m]."""
    cell_first: Ints
    """Where each cell's list begins in `cell_items` [N + 1]."""
    cell_items: Ints


def stop_tables(road_map: RoadMap, lines: list[CentreLine], grid: Grid, reach: float) -> StopTables:
    """Lay out the stop lines of a map whose signal is known.

    Args:
        road_map: with driving lanes alone.
        lines: the lanes' centre lines.
        grid: cells to list stop lines for.
        reach: how far from its present centre an agent's centre may have been a step ago [m].
    """
    held = [line for line in road_map.stop_lines if line.signal >= 0]
    floats = np.array([_row(line) for line in held]).reshape(-1, len(StopFloat))
    ints = np.zeros((len(held), len(StopInt)), dtype=np.int64)
    controllers = sorted({signal.controller for signal in road_map.signals})
    groups = {c: sorted({s.group for s in road_map.signals if s.controller == c}) for c in controllers}
    for k, line in enumerate(held):
        signal = road_map.signals[line.signal]
        ints[k, StopInt.CONTROLLER] = controllers.index(signal.controller)
        ints[k, StopInt.GROUP] = groups[signal.controller].index(signal.group)
        ints[k, StopInt.NUM_GROUPS] = max(len(groups[signal.controller]), 2)
        ints[k, StopInt.NUM_LANES] = len(line.lanes)
    ints[:, StopInt.LANE0] = np.cumsum(ints[:, StopInt.NUM_LANES]) - ints[:, StopInt.NUM_LANES]

    on_lane: list[list[tuple[float, int]]] = [[] for _ in lines]
    for k, line in enumerate(held):
        for lane in line.lanes:
            on_lane[lane].append((_arc_length(lines[lane], floats[k]), k))
    items = [pair for pairs in on_lane for pair in sorted(pairs)]
    count = np.array([len(pairs) for pairs in on_lane], dtype=np.int64)

    cell, item, _ = grid.within(np.array([_extended(row) for row in floats]).reshape(-1, 4), reach)
    return StopTables(
        ints=ints,
        floats=floats,
        lanes=np.array([lane for line in held for lane in line.lanes], dtype=np.int64),
        lane_first=np.cumsum(count) - count,
        lane_count=count,
        lane_items=np.array([k for _, k in items], dtype=np.int64),
        lane_s=np.array([s for s, _ in items], dtype=np.float64),
        cell_first=np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=grid.nx * grid.ny))]).astype(np.int64),
        cell_items=item,
    )


def _row(line: StopLine) -> list[float]:
    """Columns `layout.StopFloat` of a stop line."""
    left, right = line.points[0, :2], line.points[-1, :2]
    across = (right - left) / np.hypot(*(right - left))
    return [*(left + right) / 2, line.points[:, 2].mean(), -across[1], across[0], np.hypot(*(right - left)) / 2]


def _extended(row: Array) -> Array:
    """Both ends of a row of StopFloat, moved outwards by `EXTEND_M` [4]."""
    x, y, _, cos, sin, half = row
    dx, dy = -(half + EXTEND_M) * sin, (half + EXTEND_M) * cos
    return np.array([x + dx, y + dy, x - dx, y - dy])


def _arc_length(line: CentreLine, row: Array) -> float:
    """Where a lane passes a stop line, or comes nearest to its middle where it does not."""
    offset = line.points[:, [PointCol.X, PointCol.Y]] - row[: StopFloat.Y + 1]
    along = offset @ row[[StopFloat.COS, StopFloat.SIN]]
    before = np.flatnonzero((along[:-1] < 0) & (along[1:] >= 0))
    distance = np.hypot(*offset.T)
    if len(before):
        k = before[np.argmin(distance[before])]
        return float(line.spacing * (k + along[k] / (along[k] - along[k + 1])))
    return float(line.spacing * np.argmin(distance))
