"""Small map banks and states, built by hand for the tests of the step kernel."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import torch
from terapixel_sim.config import CONDITION_BOUNDS, SimConfig
from terapixel_sim.kernels.step import StepParams, step
from terapixel_sim.layout import (
    AgentCol,
    Condition,
    EdgeCol,
    Head,
    LaneFloat,
    LaneInt,
    MapFloat,
    MapInt,
    PointCol,
    SlotCol,
    Status,
    WorldCol,
)
from terapixel_sim.maps.bank import cell_rows, segment_rows
from terapixel_sim.reference.lane import Bank
from terapixel_sim.reference.route import Entry, route_point
from terapixel_sim.runtime import start

ROUTE_ENTRIES = 4
C = AgentCol.CONDITION
NEUTRAL = {"gain_throttle": 1.0, "gain_steer": 1.0, "gain_accel": 1.0, "gain_speed": 1.0, "goal_radius": 2.0}


@dataclass
class Lane:
    """An evenly spaced centre line [n, 3]."""

    centre: np.ndarray
    width: float = 4.0
    limit: float = 15.0

    def points(self):
        xyz = np.asarray(self.centre, np.float64)
        tangent = np.gradient(xyz[:, :2], axis=0)
        tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
        return np.column_stack([xyz, tangent, np.full(len(xyz), self.width)])


@dataclass
class Town:
    """Lanes, edge segments (x0, y0, x1, y1, z; road on the left) and which points are road."""

    lanes: list
    edges: np.ndarray = field(default_factory=lambda: np.zeros((0, 5)))
    inside: Callable = lambda x, y: True
    low: tuple = (-100.0, -100.0)
    cells: tuple = (25, 25)
    cell: float = 8.0
    reach: float = 12.0

    def bank(self):
        """(bank_i i32, bank_f f32): every segment within `reach` of a cell is filed there."""
        nx, ny = self.cells
        points = [lane.points() for lane in self.lanes]
        starts = np.cumsum([0] + [len(p) for p in points])
        allp = np.concatenate(points)
        ends = set(starts[1:] - 1)
        segments = [p for p in range(len(allp)) if p not in ends]
        axes = [self.low[k] + (np.arange(n) + 0.5) * self.cell for k, n in enumerate((nx, ny))]
        centres = [(x, y) for y in axes[1] for x in axes[0]]
        limit = self.reach + 0.5 * self.cell
        index = np.array(segments)

        def lane_distance(c):
            return _near(c, allp[index, :2], allp[index + 1, :2])

        lane_items, edge_items = [], []  # (cell, point) and (cell, edge, distance)
        for cell, c in enumerate(centres):
            lane_items += [(cell, p) for p, d in zip(segments, lane_distance(c), strict=True) if d <= limit]
            distance = _near(c, self.edges[:, :2], self.edges[:, 2:4])
            order = [i for i in np.argsort(distance, kind="stable").tolist() if distance[i] <= limit]
            edge_items += [(cell, i, distance[i]) for i in order]
        inside = np.array([self.inside(*c) for c in centres])
        lane_columns = np.array(lane_items, np.int64).reshape(-1, 2).T
        edge_columns = np.array(edge_items, np.float64).reshape(-1, 3).T
        cells, rows = cell_rows(
            inside,
            (lane_columns[0], lane_columns[1]),
            (edge_columns[0].astype(np.int64), edge_columns[1].astype(np.int64), edge_columns[2]),
        )
        ints, floats = [np.zeros(Head.SIZE, np.int64)], []

        def put(head, table):
            ints[0][head] = sum(len(t) for t in ints)
            ints.append(np.asarray(table, np.int64).reshape(-1))

        def putf(head, table):
            ints[0][head] = sum(len(t) for t in floats)
            floats.append(np.asarray(table, np.float64).reshape(-1))

        ints[0][Head.NUM_MAPS] = 1
        maps = np.zeros(len(MapInt), np.int64)
        maps[MapInt.NX], maps[MapInt.NY], maps[MapInt.NUM_LANES] = nx, ny, len(self.lanes)
        put(Head.MAPS, maps)
        table = np.zeros((len(self.lanes), len(LaneInt)), np.int64)
        tablef = np.zeros((len(self.lanes), len(LaneFloat)))
        for i, p in enumerate(points):
            spacing = np.linalg.norm(p[1, :2] - p[0, :2])
            table[i, LaneInt.POINT0], table[i, LaneInt.NUM_POINTS] = starts[i], len(p)
            tablef[i, LaneFloat.SPACING], tablef[i, LaneFloat.LENGTH] = spacing, spacing * (len(p) - 1)
            tablef[i, LaneFloat.LIMIT] = self.lanes[i].limit
        put(Head.LANES, table)
        put(Head.POINT_LANE, np.repeat(np.arange(len(points)), [len(p) for p in points]))
        put(Head.CELLS, cells)
        put(Head.CELL_ROWS, rows)
        mapf = np.zeros(len(MapFloat))
        mapf[MapFloat.ORIGIN_X], mapf[MapFloat.ORIGIN_Y], mapf[MapFloat.CELL] = *self.low, self.cell
        putf(Head.F_MAPS, mapf)
        putf(Head.F_LANES, tablef)
        assert [int(c) for c in PointCol] == list(range(6))
        assert [int(c) for c in EdgeCol] == list(range(5))
        putf(Head.F_POINTS, allp)
        owner = np.repeat(np.arange(len(points)), [len(p) for p in points])
        putf(Head.F_SEGMENTS, segment_rows(allp, owner))
        putf(Head.F_EDGES, np.concatenate([self.edges, np.zeros((1, 5))]))
        return (
            torch.from_numpy(np.concatenate(ints).astype(np.int32)),
            torch.from_numpy(np.concatenate(floats).astype(np.float32)),
        )


def _near(c, p, q):
    e = q - p
    t = np.clip(((c - p) * e).sum(1) / (e * e).sum(1), 0, 1)
    return np.linalg.norm(c - p - t[:, None] * e, axis=1)


def straight(x0, y0, x1, y1, z0=0.0, z1=0.0, spacing=2.0, width=4.0, limit=15.0):
    """A straight lane."""
    n = max(int(round(np.hypot(x1 - x0, y1 - y0) / spacing)), 1) + 1
    return Lane(np.column_stack([np.linspace(x0, x1, n), np.linspace(y0, y1, n), np.linspace(z0, z1, n)]), width, limit)


def loop_edges(ring, z=0.0):
    """Segments of a closed ring of corners, in order."""
    ring = np.asarray(ring, np.float64)
    return np.column_stack([ring, np.roll(ring, -1, axis=0), np.full(len(ring), z)])


class Stage:
    """A state of W worlds of A agents on one bank, and the buffers of a step."""

    def __init__(self, town, num_worlds=1, num_agents=1, **config):
        start("cpu")
        self.config = SimConfig(**config)
        self.params = StepParams.from_config(self.config)
        self.bank_i, self.bank_f = town.bank() if isinstance(town, Town) else town
        self.bank = Bank(self.bank_i.tolist(), self.bank_f.tolist())
        self.agents = torch.zeros(num_worlds, num_agents, AgentCol.ROUTE + 3 * ROUTE_ENTRIES)
        self.slots = torch.zeros(num_worlds, num_agents, SlotCol.ROUTE + 2 * ROUTE_ENTRIES, dtype=torch.int32)
        self.world = torch.zeros(num_worlds, len(WorldCol), dtype=torch.int32)
        self.reward = torch.full((num_worlds, num_agents), 7.0)
        self.terminated = torch.ones(num_worlds, num_agents, dtype=torch.bool)
        self.truncated = torch.ones(num_worlds, num_agents, dtype=torch.bool)

    def put(
        self,
        a,
        x,
        y,
        yaw=0.0,
        speed=0.0,
        w=0,
        length=4.5,
        width=2.0,
        height=1.5,
        z=0.0,
        status=Status.LIVE,
        lane=-1,
        goal=0,
        **cols,
    ):
        """Place an agent with a one-entry route along lane 0; unnamed coefficients are 0 and gains 1."""
        row = self.agents[w, a]
        for name, value in {
            "X": x, "Y": y, "Z": z, "YAW": yaw, "SPEED": speed, "LENGTH": length, "WIDTH": width, "HEIGHT": height,
            "PREV_X": x, "PREV_Y": y, "PREV_Z": z, "PREV_YAW": yaw, "ROUTE_LENGTH": 50.0, "LANE_WIDTH": 4.0,
            "LANE_LIMIT": 15.0,
        }.items():  # fmt: skip
            row[AgentCol[name]] = value
        for name, value in NEUTRAL.items():
            row[C + Condition[name.upper()]] = value
        for name, value in cols.items():
            if name in CONDITION_BOUNDS:
                row[C + Condition[name.upper()]] = value
            else:
                row[AgentCol[name]] = value
        row[AgentCol.ROUTE + 2] = row[AgentCol.ROUTE_LENGTH]
        slot = self.slots[w, a]
        slot.zero_()
        slot[SlotCol.STATUS] = slot[SlotCol.PREV_STATUS] = int(status)
        slot[SlotCol.LANE] = lane
        slot[SlotCol.ENTRIES] = 1
        slot[SlotCol.GOAL] = goal
        length = float(row[AgentCol.ROUTE_LENGTH])
        at = route_point(self.bank, [Entry(0, 0, 0.0, 0.0, length)], length * (goal + 1) / self.config.route.num_goals)
        row[AgentCol.GOAL_X], row[AgentCol.GOAL_Y] = at.x, at.y
        return row

    def step(self, action=None):
        """One step; without an action everyone keeps on."""
        if action is None:
            action = torch.full(self.reward.shape, 7, dtype=torch.int64)
        step(
            self.agents, self.slots, self.world, self.bank_i, self.bank_f, action,
            self.reward, self.terminated, self.truncated, self.params,
        )  # fmt: skip
        return self

    def col(self, name, a=0, w=0):
        return float(self.agents[w, a, AgentCol[name]])

    def slot(self, name, a=0, w=0):
        return int(self.slots[w, a, SlotCol[name]])


@cache
def plain_town():
    """The bank of one straight lane along x through the origin, all of the grid road."""
    return Town([straight(-90, 0, 90, 0)]).bank()
