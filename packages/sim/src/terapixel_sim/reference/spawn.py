"""Twin of `kernels/spawn.py` and `kernels/walk.py`: one agent at a time, in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..config import CONDITION_BOUNDS, RouteConfig, SimConfig
from ..layout import Condition, Head, LaneFloat, LaneInt, MapInt, Stream
from ..observation import GAINS
from .geometry import wrap
from .lane import Bank, lane_point
from .random import key_agent, key_world, uniform
from .route import Entry, route_point

REDRAWS = 64
CHANGE_MARGIN = 5.0
REACH_CAP = 1000.0


@dataclass(frozen=True)
class Start:
    """How an agent enters; SI units, world frame."""

    lane: int
    s: float
    x: float
    y: float
    z: float
    yaw: float
    length: float
    width: float
    height: float
    raw_speed: float
    """Before the rule about those ahead; capped by the lane's limit and the bends."""
    condition: NDArray[np.float64]
    route: tuple[Entry, ...]


def _pick(u: float, n: int) -> int:
    return min(int(np.float32(u) * np.float32(n)), n - 1)


def take_slots(bank: Bank, chosen: int, num_agents: int, world_key: int) -> list[int]:
    """Distinct spawn slots of map `chosen`: random ones, and the next free one after 64 taken ones."""
    record = int(bank.ints[Head.MAPS]) + chosen * len(MapInt)
    first, count = int(bank.ints[record + MapInt.SLOT0]), int(bank.ints[record + MapInt.NUM_SLOTS])
    slots: list[int] = []
    for a in range(num_agents):
        key = key_agent(world_key, a, Stream.SPAWN)
        draws = [first + _pick(uniform(key, k), count) for k in range(REDRAWS)]
        probes = [first + (draws[-1] - first + k) % count for k in range(1, count + 1)]
        slots.append(next(slot for slot in (*draws, *probes) if slot not in slots))
    return slots


def beside(bank: Bank, a: int, s_a: float, b: int, change: float) -> float:
    """Where on lane b a lane change from arc length `s_a` of lane a begins, so that the two are level in its middle."""
    length_a, length_b = (bank.lane_float(lane, LaneFloat.LENGTH) for lane in (a, b))
    here = lane_point(bank, a, s_a + change / 2)
    s = (s_a + change / 2) * length_b / length_a
    for _ in range(3):
        there = lane_point(bank, b, s)
        s += (here.x - there.x) * math.cos(there.heading) + (here.y - there.y) * math.sin(there.heading)
    return max(0.0, min(s - change / 2, length_b - change))


def successor(bank: Bank, lane: int, need: float, u: float) -> int:
    """One of the lanes after this one that lead at least `need` metres on, else the one that leads farthest, or -1."""
    first = int(bank.ints[Head.SUCCESSORS]) + bank.lane_int(lane, LaneInt.SUCC0)
    after = [int(k) for k in bank.ints[first : first + bank.lane_int(lane, LaneInt.NUM_SUCC)]]
    if not after:
        return -1
    reach = [bank.lane_float(k, LaneFloat.LENGTH) + bank.lane_float(k, LaneFloat.REACH) for k in after]
    enough = [k for k, r in zip(after, reach, strict=True) if r >= need]
    return enough[_pick(u, len(enough))] if enough else after[int(np.argmax(reach))]


def walk(bank: Bank, lane: int, s: float, target: float, config: RouteConfig, key: int) -> tuple[Entry, ...]:
    """The route of a random walk from (lane, s) that is `target` metres long, or as long as entries and road allow."""
    change = config.lane_change_m
    entries: list[Entry] = []
    remaining, visited = target, 0
    while lane >= 0 and remaining > 0.01 and len(entries) < config.entries:
        u = [uniform(key, 4 * visited + k) for k in range(4)]
        left = bank.lane_float(lane, LaneFloat.LENGTH) - s
        spare = min(left, remaining) - change - 2 * CHANGE_MARGIN
        sides = [bank.lane_int(lane, column) for column in (LaneInt.LEFT, LaneInt.RIGHT)]
        other = sides[0 if u[1] < 0.5 else 1]
        other = other if other >= 0 else max(sides)
        if spare >= 0 and other >= 0 and len(entries) + 3 <= config.entries and u[0] < config.lane_change:
            before = CHANGE_MARGIN + spare * u[2]
            s_b = beside(bank, lane, s + before, other, change)
            length_b = bank.lane_float(other, LaneFloat.LENGTH)
            after = remaining - before - change
            reach = length_b - s_b - change + bank.lane_float(other, LaneFloat.REACH)
            if length_b >= change and reach >= min(after, REACH_CAP):
                entries.append(Entry(lane, lane, s, s, before))
                entries.append(Entry(lane, other, s + before, s_b, change))
                remaining, lane, s = after, other, s_b + change
                left = length_b - s
        take = min(left, remaining)
        if take > 0:
            entries.append(Entry(lane, lane, s, s, take))
            remaining -= take
        if remaining > 0.01:
            lane = successor(bank, lane, min(remaining, REACH_CAP), u[3])
        s = 0.0
        visited += 1
    return tuple(entries)


def unscale(scaled: float, low: float, high: float, gain: bool) -> float:
    """The physical value that the policy sees as `scaled` in [-1, 1]."""
    t = (scaled + 1) / 2
    return low * (high / low) ** t if gain else low + t * (high - low)


def conditions(config: SimConfig, given: NDArray[np.float32], key: int) -> NDArray[np.float64]:
    """Physical coefficients [18]: those given in [-1, 1], and drawn ones where `given` is NaN."""
    values = np.zeros(len(Condition))
    for c, (name, (low, high)) in enumerate(CONDITION_BOUNDS.items()):
        gain = name in GAINS
        if not math.isnan(given[c]):
            values[c] = unscale(float(given[c]), low, high, gain)
            continue
        low, high = config.condition.ranges()[c]
        if gain and low < 1 < high:
            low, high = (low, 1.0) if uniform(key, 2 * c) < 0.5 else (1.0, high)
        values[c] = low + uniform(key, 2 * c + 1) * (high - low)
    return values


def speed_cap(
    pose: NDArray[np.float64], length: float, others: NDArray[np.float64], brake: float, clearance: float
) -> float:
    """The speed from which braking stops an agent `clearance` short of everyone ahead, as if they stood still.

    Args:
        pose: x, y, yaw.
        length: of its box [m].
        others: [n, 3]: x, y, length.
        brake: [m/s2].
        clearance: [m].
    """
    cap = math.inf
    for x, y, other_length in others:
        dx, dy = x - pose[0], y - pose[1]
        ahead = dx * math.cos(pose[2]) + dy * math.sin(pose[2])
        aside = abs(dy * math.cos(pose[2]) - dx * math.sin(pose[2]))
        if ahead > 0 and aside < 3.0 + 0.15 * ahead:
            gap = math.hypot(dx, dy) - (length + other_length) / 2
            cap = min(cap, math.sqrt(2 * brake * max(gap - clearance, 0.0)))
    return cap


def bend_cap(bank: Bank, route: tuple[Entry, ...], yaw: float, brake: float) -> float:
    """The speed from which braking slows an agent to 2.5 m/s2 sideways in each of the next five 4 m of its route."""
    cap = math.inf
    for k in range(5):
        heading = route_point(bank, route, 4.0 * (k + 1)).heading
        turn = max(abs(wrap(heading - yaw)), 1e-3)
        yaw = heading
        cap = min(cap, math.sqrt(2.5 * 4.0 / turn + 2 * brake * 4.0 * k))
    return cap


def start(
    bank: Bank,
    config: SimConfig,
    *,
    seed: int,
    world_id: int,
    episode: int,
    num_agents: int,
    agent: int,
    given: NDArray[np.float32],
) -> Start:
    """How agent `agent` of `num_agents` enters episode `episode` of world `world_id`."""
    world_key = key_world(seed, world_id, episode, 0)
    chosen = (world_id + episode) % int(bank.ints[Head.NUM_MAPS])
    slot = take_slots(bank, chosen, num_agents, world_key)[agent]
    lane, slot_s = int(bank.ints[bank.ints[Head.SLOT_LANE] + slot]), float(bank.floats[bank.ints[Head.F_SLOT_S] + slot])
    spot = key_agent(world_key, agent, Stream.SPAWN)
    along, across, turn = (half * (2 * uniform(spot, REDRAWS + k) - 1) for k, half in enumerate((0.4, 0.2, 0.03)))
    p = lane_point(bank, lane, slot_s)
    s = min(max(slot_s + along, 0.0), bank.lane_float(lane, LaneFloat.LENGTH))
    yaw = p.heading + turn
    cos, sin = math.cos(p.heading), math.sin(p.heading)

    size = key_agent(world_key, agent, Stream.SIZE)
    u = uniform(size, 0)
    v = min(max(u + 0.3 * (uniform(size, 1) - 0.5), 0.0), 1.0)
    spawn, route = config.spawn, config.route
    length, width, height, raw_speed, spacing = (
        low + t * (high - low)
        for (low, high), t in (
            (spawn.length_m, u),
            (spawn.width_m, v),
            (spawn.height_m, uniform(size, 2)),
            (spawn.speed_mps, uniform(key_agent(world_key, agent, Stream.SPEED), 0)),
            (route.goal_spacing_m, uniform(key_agent(world_key, agent, Stream.GOALS), 0)),
        )
    )
    way = walk(bank, lane, s, route.num_goals * spacing, route, key_agent(world_key, agent, Stream.ROUTE))
    return Start(
        lane=lane,
        s=s,
        x=p.x + along * cos - across * sin,
        y=p.y + along * sin + across * cos,
        z=lane_point(bank, lane, s).z,
        yaw=math.atan2(math.sin(yaw), math.cos(yaw)),
        length=length,
        width=width,
        height=height,
        raw_speed=min(raw_speed, bank.lane_float(lane, LaneFloat.LIMIT), bend_cap(bank, way, yaw, spawn.brake_mps2)),
        condition=conditions(config, given, key_agent(world_key, agent, Stream.CONDITION)),
        route=way,
    )
