"""Twin of `kernels/observe.py`: what one agent observes, in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import CONDITION_BOUNDS, SimConfig
from ..layout import (
    AgentCol,
    Head,
    LaneInt,
    LightColour,
    MapFloat,
    MapInt,
    ObsSegment,
    SlotCol,
    Status,
    Stream,
    WorldCol,
)
from ..observation import COLUMNS, GAINS, LIGHTS, MANOEUVRES
from .lane import Bank
from .lights import light_colour, stop_line, stops_ahead
from .random import key_agent, key_world, uniform
from .route import Entry, route_point

SOLID = (Status.LIVE, Status.STOPPED, Status.TIMED_OUT)

Array = NDArray[Any]


def observe_agent(
    agents: Array, slots: Array, world: Array, bank: Bank, config: SimConfig, seed: int, a: int
) -> dict[str, Array]:
    """Every leaf of agent `a`.

    Args:
        agents: [A, AgentCol.ROUTE + 3 R], those of its world.
        slots: [A, SlotCol.ROUTE + 2 R].
        world: [len(WorldCol)].
        bank: the maps.
        config: the simulator's.
        seed: of `draw` and the lights.
        a: the agent.

    Returns:
        Leaf -> array [...] with the padding and masks of docs/interface.md.
    """
    status = int(slots[a, SlotCol.STATUS])
    rows = _rows(agents, slots, world, bank, config, seed, a)
    shown = status in (Status.LIVE, Status.TIMED_OUT)
    out: dict[str, Array] = {}
    for leaf, (values, size) in rows.items():
        padded = np.zeros((size, values.shape[1]))
        if shown:
            padded[: len(values)] = values
        out[leaf] = padded
        out[f"{leaf}_mask"] = np.arange(size) < (len(values) if shown else 0)
    for leaf, values in _vectors(agents[a], slots[a], world, bank, config, seed, a).items():
        out[leaf] = values if shown else np.zeros_like(values)
    out["live"] = np.array(status == Status.LIVE)
    return out


def route_entries(agent: Array, slot: Array) -> list[Entry]:
    """The route in an agent's row of `agents` and `slots`."""
    starts = agent[AgentCol.ROUTE :].astype(np.float64).reshape(-1, 3).tolist()
    lanes = slot[SlotCol.ROUTE :].reshape(-1, 2).tolist()
    return [Entry(*pair, *triple) for pair, triple in zip(lanes, starts, strict=True)][: int(slot[SlotCol.ENTRIES])]


def _scaled(leaf: str, values: Array) -> Array:
    """Rows [n, columns] divided by the scales of a leaf."""
    scales = [scale for _, scale, _ in COLUMNS[leaf].values()]
    return np.asarray(values, dtype=np.float64).reshape(-1, len(scales)) / scales


def _to_ego(me: Array, x: float, y: float, dx: float, dy: float) -> tuple[float, float, float, float]:
    """A point and a direction of the world in the frame of an agent."""
    c, s = math.cos(me[AgentCol.YAW]), math.sin(me[AgentCol.YAW])
    ox, oy = x - me[AgentCol.X], y - me[AgentCol.Y]
    return ox * c + oy * s, oy * c - ox * s, dx * c + dy * s, dy * c - dx * s


def _rows(
    agents: Array, slots: Array, world: Array, bank: Bank, config: SimConfig, seed: int, a: int
) -> dict[str, tuple[Array, int]]:
    me = agents[a].astype(np.float64)
    seen, goals = config.observation, config.route.num_goals
    end = me[AgentCol.ROUTE_LENGTH]

    entries = route_entries(agents[a], slots[a])
    route = []
    for ahead in seen.route_points_m:
        s = me[AgentCol.ROUTE_S] + ahead
        if s <= end:
            p = route_point(bank, entries, s)
            ahead_point = _to_ego(me, p.x, p.y, math.cos(p.heading), math.sin(p.heading))
            route.append([*ahead_point, p.width, p.limit])
    command = []
    for goal in range(int(slots[a, SlotCol.GOAL]), goals):
        p = route_point(bank, entries, end * (goal + 1) / goals)
        command.append([v / 100.0 for v in _to_ego(me, p.x, p.y, 0.0, 0.0)[:2]])

    distance = np.hypot(agents[:, AgentCol.X] - me[AgentCol.X], agents[:, AgentCol.Y] - me[AgentCol.Y])
    near = [
        b
        for b in np.argsort(distance, kind="stable")
        if b != a and slots[b, SlotCol.STATUS] in SOLID and distance[b] <= seen.partner_radius_m
    ]
    partners = []
    for b in near[: seen.partners]:
        you = agents[b].astype(np.float64)
        v, yaw = you[AgentCol.SPEED], you[AgentCol.YAW]
        x, y, c, s = _to_ego(me, you[AgentCol.X], you[AgentCol.Y], math.cos(yaw), math.sin(yaw))
        z = you[AgentCol.Z] - me[AgentCol.Z]
        partners.append(
            [x, y, z, you[AgentCol.LENGTH], you[AgentCol.WIDTH], c, s, v, v * c - me[AgentCol.SPEED], v * s]
        )
    return {
        "route": (_scaled("route", np.array(route)), len(seen.route_points_m)),
        "command": (np.array(command).reshape(-1, 2), goals),
        "partners": (_scaled("partners", np.array(partners)), seen.partners),
        "lanes": (_scaled("lanes", _pieces(me, world, bank, "LANES", seen.lanes)), seen.lanes),
        "edges": (_scaled("edges", _pieces(me, world, bank, "EDGES", seen.edges)[:, :6]), seen.edges),
        "lights": (_scaled("lights", _lights(me, entries, world, bank, config, seed)), LIGHTS),
    }


def _lights(
    me: Array, entries: list[Entry], world: Array, bank: Bank, config: SimConfig, seed: int
) -> NDArray[np.float64]:
    """The next stop lines with a signal on the route in the ego frame [n, 7], SI units."""
    here = float(me[AgentCol.ROUTE_S])
    rows = []
    for _, stop in stops_ahead(bank, entries, here, here + config.observation.light_m)[:LIGHTS]:
        line = stop_line(bank, stop)
        ends = [v for side in (1, -1) for v in _to_ego(me, *line.end(side), 0.0, 0.0)[:2]]
        colour = light_colour(bank, world, seed, stop)
        rows.append([*ends, *(float(colour == c) for c in (LightColour.RED, LightColour.YELLOW, LightColour.GREEN))])
    return np.array(rows)


def _pieces(me: Array, world: Array, bank: Bank, kind: str, count: int) -> Array:
    """Lane or edge pieces in the ego frame [n, 8], SI units."""
    chosen = int(world[WorldCol.MAP])
    record = int(bank.ints[Head.MAPS]) + chosen * len(MapInt)
    frame = bank.floats[int(bank.ints[Head.F_MAPS]) + chosen * len(MapFloat) :]
    # the kernel finds the cell in float32; so does its twin, or a car on a border might see another cell's list
    cell = [
        int(
            np.clip((np.float32(me[axis]) - frame[origin]) / frame[MapFloat.NEAR_CELL], 0, bank.ints[record + size] - 1)
        )
        for axis, origin, size in (
            (AgentCol.X, MapFloat.ORIGIN_X, MapInt.NEAR_NX),
            (AgentCol.Y, MapFloat.ORIGIN_Y, MapInt.NEAR_NY),
        )
    ]
    number = int(bank.ints[record + MapInt.NEAR0]) + cell[1] * int(bank.ints[record + MapInt.NEAR_NX]) + cell[0]
    listed = int(bank.ints[Head[f"NUM_NEAR_{kind}"]])
    first = int(bank.ints[Head[f"NEAR_{kind}"]]) + number * listed
    items = [int(k) for k in bank.ints[first : first + listed] if k >= 0][:count]
    table = int(bank.ints[Head[f"F_OBS_{kind}"]])
    out = np.zeros((len(items), 8))
    for i, item in enumerate(items):
        p = np.array(bank.floats[table + item * len(ObsSegment) :][: len(ObsSegment)], dtype=np.float64)
        x, y, c, s = _to_ego(me, p[ObsSegment.X], p[ObsSegment.Y], p[ObsSegment.COS], p[ObsSegment.SIN])
        z = p[ObsSegment.Z] - me[AgentCol.Z]
        out[i] = [x, y, z, p[ObsSegment.HALF_LENGTH], c, s, p[ObsSegment.WIDTH], p[ObsSegment.LIMIT]]
    return out


def _vectors(
    me: Array, mine: Array, world: Array, bank: Bank, config: SimConfig, seed: int, a: int
) -> dict[str, Array]:
    v = {column.name: float(me[column]) for column in AgentCol if column < AgentCol.CONDITION}
    for name in ("LANE", "ROUTE"):
        v[f"{name}_COS"], v[f"{name}_SIN"] = math.cos(v[f"{name}_HEADING"]), math.sin(v[f"{name}_HEADING"])
    v["ROUTE_LEFT"] = v["ROUTE_LENGTH"] - v["ROUTE_S"]
    ego = {name: v[name] / scale for name, (_, scale, _) in COLUMNS["ego"].items()}
    for name, low, high in (("LANE_OFFSET", -1.0, 1.0), ("ROUTE_OFFSET", -2.0, 2.0), ("STOPPED", 0.0, 1.0)):
        ego[name] = min(max(ego[name], low), high)

    condition = np.zeros(len(CONDITION_BOUNDS))
    for c, (name, (low, high)) in enumerate(CONDITION_BOUNDS.items()):
        scale = math.log if name in GAINS else float
        low, high, value = scale(low), scale(high), scale(float(me[AgentCol.CONDITION + c]))
        condition[c] = np.clip(2 * (value - low) / (high - low) - 1, -1, 1)

    manoeuvre = np.zeros(len(MANOEUVRES))
    manoeuvre[_next_turn(me, mine, bank, config.observation.manoeuvre_m)] = 1.0

    key = key_world(seed, *(int(world[c]) for c in (WorldCol.ID, WorldCol.EPISODE, WorldCol.STEP)))
    draw = key_agent(key, a, Stream.DRAW)
    return {
        "ego": np.array(list(ego.values())),
        "proprio": np.array([v[name] / scale for name, (_, scale, _) in COLUMNS["proprio"].items()]),
        "condition": condition,
        "manoeuvre": manoeuvre,
        "draw": np.array([uniform(draw, 0), uniform(draw, 1)]),
    }


def _next_turn(me: Array, mine: Array, bank: Bank, far: float) -> int:
    """Turn of the first junction lane from ROUTE_S to `far` metres on, 0 without one."""
    begin, s = 0.0, float(me[AgentCol.ROUTE_S])
    for n in range(int(mine[SlotCol.ENTRIES])):
        end = begin + float(me[AgentCol.ROUTE + 3 * n + 2])
        lane = int(mine[SlotCol.ROUTE + 2 * n])
        turn = int(bank.ints[bank.ints[Head.LANES] + lane * len(LaneInt) + LaneInt.TURN])
        if end > s and begin <= s + far and turn:
            return turn
        begin = end
    return 0
