"""Draws an agent's route: a random walk over the lane graph, with lane changes.

The twin is `reference/spawn.py`.
"""

from ..layout import AgentCol, Head, LaneFloat, LaneInt, SlotCol
from ..runtime import ti
from .lane import LANE_FLOATS, LANE_INTS, lane_length, lane_point
from .random import uniform

DRAWS = 4
"""Numbers of Stream.ROUTE for each lane of the walk: change at all, which side, where, which successor."""
CHANGE_MARGIN = 5.0
"""Plain lane kept before and after a lane change [m]."""
REACH_CAP = 1000.0
"""LaneFloat.REACH does not tell longer ways apart [m]."""


@ti.func
def pick(u: ti.f32, n: ti.i32) -> ti.i32:
    """An index below n from a uniform number."""
    k = ti.cast(u * ti.cast(n, ti.f32), ti.i32)
    return ti.select(k < n, k, n - 1)  # u * n may round up to n


@ti.func
def lane_int(bank_i: ti.template(), lane: ti.i32, column: ti.template()) -> ti.i32:
    return bank_i[bank_i[Head.LANES] + lane * LANE_INTS + column]


@ti.func
def lane_reach(bank_i: ti.template(), bank_f: ti.template(), lane: ti.i32) -> ti.f32:
    """Longest way on from a lane's end [m]."""
    return bank_f[bank_i[Head.F_LANES] + lane * LANE_FLOATS + LaneFloat.REACH]


@ti.func
def neighbour(bank_i: ti.template(), lane: ti.i32, u: ti.f32) -> ti.i32:
    """A lane beside this one that may be changed into, either side alike, or -1."""
    left = lane_int(bank_i, lane, LaneInt.LEFT)
    right = lane_int(bank_i, lane, LaneInt.RIGHT)
    side = ti.select(u < 0.5, left, right)
    return ti.select(side >= 0, side, ti.select(left >= 0, left, right))


@ti.func
def beside(bank_i: ti.template(), bank_f: ti.template(), a: ti.i32, s_a: ti.f32, b: ti.i32, change: ti.f32) -> ti.f32:
    """Where on lane b a lane change from arc length s_a of lane a begins, so that the two are level in its middle."""
    length_b = lane_length(bank_i, bank_f, b)
    here = lane_point(bank_i, bank_f, a, s_a + 0.5 * change)
    s = (s_a + 0.5 * change) * length_b / lane_length(bank_i, bank_f, a)
    for _ in range(3):  # Newton steps to the foot of the perpendicular; the first guess is near
        there = lane_point(bank_i, bank_f, b, s)
        s += (here[0] - there[0]) * there[3] + (here[1] - there[1]) * there[4]
    s -= 0.5 * change
    s = ti.select(s < length_b - change, s, length_b - change)
    return ti.select(s > 0.0, s, 0.0)


@ti.func
def successor(bank_i: ti.template(), bank_f: ti.template(), lane: ti.i32, need: ti.f32, u: ti.f32) -> ti.i32:
    """One of the lanes after this one that lead at least `need` metres on, else the one that leads farthest, or -1."""
    first = bank_i[Head.SUCCESSORS] + lane_int(bank_i, lane, LaneInt.SUCC0)
    count = lane_int(bank_i, lane, LaneInt.NUM_SUCC)
    enough = 0
    best = -1
    best_reach = ti.f32(-1.0)
    for k in range(count):
        after = bank_i[first + k]
        reach = lane_length(bank_i, bank_f, after) + lane_reach(bank_i, bank_f, after)
        if reach >= need:
            enough += 1
        if reach > best_reach:
            best = after
            best_reach = reach
    if enough > 0:
        chosen = pick(u, enough)
        seen = 0
        for k in range(count):
            after = bank_i[first + k]
            reach = lane_length(bank_i, bank_f, after) + lane_reach(bank_i, bank_f, after)
            if reach >= need:
                if seen == chosen:
                    best = after
                seen += 1
    return best


@ti.func
def put_entry(
    agents: ti.template(),
    slots: ti.template(),
    row: ti.i32,
    slot: ti.i32,
    n: ti.i32,
    lane_a: ti.i32,
    lane_b: ti.i32,
    s_a: ti.f32,
    s_b: ti.f32,
    length: ti.f32,
):
    slots[slot + SlotCol.ROUTE + 2 * n] = lane_a
    slots[slot + SlotCol.ROUTE + 2 * n + 1] = lane_b
    agents[row + AgentCol.ROUTE + 3 * n] = s_a
    agents[row + AgentCol.ROUTE + 3 * n + 1] = s_b
    agents[row + AgentCol.ROUTE + 3 * n + 2] = length


@ti.func
def walk(
    agents: ti.template(),
    slots: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    row: ti.i32,
    slot: ti.i32,
    lane: ti.i32,
    s: ti.f32,
    capacity: ti.i32,
    target: ti.f32,
    change_chance: ti.f32,
    change: ti.f32,
    key: ti.u32,
):
    """Write the route that starts at (lane, s) and is `target` metres long, or as long as `capacity` and road allow."""
    for n in range(capacity):
        put_entry(agents, slots, row, slot, n, -1, -1, 0.0, 0.0, 0.0)
    n = 0
    total = ti.f32(0.0)
    here = lane
    start = s
    remaining = target
    visited = 0
    while here >= 0 and remaining > 0.01 and n < capacity:
        left = lane_length(bank_i, bank_f, here) - start
        draw = visited * DRAWS
        spare = ti.select(left < remaining, left, remaining) - change - 2.0 * CHANGE_MARGIN
        if spare >= 0.0 and n + 3 <= capacity and uniform(key, draw) < change_chance:
            beside_lane = neighbour(bank_i, here, uniform(key, draw + 1))
            if beside_lane >= 0:
                before = CHANGE_MARGIN + spare * uniform(key, draw + 2)
                s_b = beside(bank_i, bank_f, here, start + before, beside_lane, change)
                length_b = lane_length(bank_i, bank_f, beside_lane)
                after = remaining - before - change
                need = ti.select(after < REACH_CAP, after, REACH_CAP)
                reach = length_b - s_b - change + lane_reach(bank_i, bank_f, beside_lane)
                if length_b >= change and reach >= need:
                    put_entry(agents, slots, row, slot, n, here, here, start, start, before)
                    put_entry(agents, slots, row, slot, n + 1, here, beside_lane, start + before, s_b, change)
                    n += 2
                    total += before
                    total += change
                    remaining = after
                    here = beside_lane
                    start = s_b + change
                    left = length_b - start
        take = ti.select(left < remaining, left, remaining)
        if take > 0.0:
            put_entry(agents, slots, row, slot, n, here, here, start, start, take)
            n += 1
            total += take
            remaining -= take
        if remaining > 0.01:
            need = ti.select(remaining < REACH_CAP, remaining, REACH_CAP)
            here = successor(bank_i, bank_f, here, need, uniform(key, draw + 3))
        start = 0.0
        visited += 1
    slots[slot + SlotCol.ENTRIES] = n
    agents[row + AgentCol.ROUTE_LENGTH] = total
