"""Traffic lights: what they show, who runs a red one, which lie ahead. Twin: `reference/lights.py`.

What a light shows is no state but a function of (seed, world, episode, step): the groups of a controller are green in
turn, each for a time drawn for the episode, then yellow, then all are red; the cycle begins at a drawn place.
"""

from ..layout import (
    AgentCol,
    Head,
    LaneInt,
    LightColour,
    MapFloat,
    SlotCol,
    StopFloat,
    StopInt,
    Stream,
    WorldCol,
)
from ..maps.stops import EXTEND_M
from ..runtime import ti
from .geometry import cosine_sine
from .lane import LANE_INTS, LEVEL_M, MAP_FLOATS, near_cell
from .random import key_agent, key_world, uniform
from .rows import row_of, slot_of, some_agents

STOP_INTS, STOP_FLOATS = len(StopInt), len(StopFloat)
HEADING_COS = 0.5
"""Who passes a stop line at more than 60 degrees from its traffic's heading does not belong to that traffic."""
RED, YELLOW, GREEN = int(LightColour.RED), int(LightColour.YELLOW), int(LightColour.GREEN)
nearest_stop = ti.types.struct(stop=ti.i32, s=ti.f32)
"""A stop line, or -1, and its arc length on the route [m]."""


@ti.func
def light_colour(
    bank_i: ti.template(), bank_f: ti.template(), world: ti.template(), w: ti.i32, seed: ti.i32, stop: ti.i32
) -> ti.i32:
    """What the signal of a stop line shows in a world now, a `layout.LightColour`."""
    frame = bank_i[Head.F_MAPS] + world[w, WorldCol.MAP] * MAP_FLOATS
    low = bank_f[frame + MapFloat.GREEN_LOW]
    span = bank_f[frame + MapFloat.GREEN_HIGH] - low
    yellow = bank_f[frame + MapFloat.YELLOW]
    change = yellow + bank_f[frame + MapFloat.ALL_RED]
    q = bank_i[Head.STOPS] + stop * STOP_INTS
    group = bank_i[q + StopInt.GROUP]
    groups = bank_i[q + StopInt.NUM_GROUPS]
    key = key_world(seed, world[w, WorldCol.ID], world[w, WorldCol.EPISODE], 0)
    key = key_agent(key, bank_i[q + StopInt.CONTROLLER], Stream.LIGHTS)
    cycle = ti.f32(0.0)
    begin = ti.f32(0.0)
    for g in range(groups):
        begin = ti.select(g == group, cycle, begin)
        cycle += low + span * uniform(key, g + 1) + change
    green = low + span * uniform(key, group + 1)
    time = ti.cast(world[w, WorldCol.STEP], ti.f32) * bank_f[frame + MapFloat.DT] + uniform(key, 0) * cycle
    into = time - ti.floor(time / cycle) * cycle - begin
    return ti.select(into < 0.0 or into >= green + yellow, RED, ti.select(into < green, GREEN, YELLOW))


@ti.func
def crosses(bank_i: ti.template(), bank_f: ti.template(), agents: ti.template(), row: ti.i32, stop: ti.i32) -> ti.f32:
    """How far beside a stop line's end its traffic's way was crossed [m], negative within the line; else infinite.

    That is, where the centre came over the line in this step, from before it (< 0) to it or beyond (>= 0).
    """
    q = bank_i[Head.F_STOPS] + stop * STOP_FLOATS
    c = bank_f[q + StopFloat.COS]
    s = bank_f[q + StopFloat.SIN]
    px = agents[row + AgentCol.PREV_X] - bank_f[q + StopFloat.X]
    py = agents[row + AgentCol.PREV_Y] - bank_f[q + StopFloat.Y]
    x = agents[row + AgentCol.X] - bank_f[q + StopFloat.X]
    y = agents[row + AgentCol.Y] - bank_f[q + StopFloat.Y]
    before = px * c + py * s
    after = x * c + y * s
    cosine, sine = cosine_sine(agents[row + AgentCol.YAW])
    beside = ti.f32(1e30)
    level = ti.abs(agents[row + AgentCol.Z] - bank_f[q + StopFloat.Z]) < LEVEL_M
    if before < 0.0 and after >= 0.0 and level and c * cosine + s * sine > HEADING_COS:
        t = before / (before - after)
        beside = ti.abs((py + t * (y - py)) * c - (px + t * (x - px)) * s) - bank_f[q + StopFloat.HALF]
    return beside


@ti.func
def on_route(bank_i: ti.template(), slots: ti.template(), slot: ti.i32, stop: ti.i32) -> ti.i32:
    """1 if a lane of the stop line is on the agent's route."""
    found = 0
    q = bank_i[Head.STOPS] + stop * STOP_INTS
    first = bank_i[Head.STOP_LANES] + bank_i[q + StopInt.LANE0]
    for k in range(bank_i[q + StopInt.NUM_LANES]):
        for e in range(2 * slots[slot + SlotCol.ENTRIES]):
            found |= ti.cast(slots[slot + SlotCol.ROUTE + e] == bank_i[first + k], ti.i32)
    return found


@ti.func
def run_red_lights(
    agents: ti.template(),
    slots: ti.template(),
    world: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    live: ti.template(),
    seed: ti.i32,
    w: ti.i32,
    at: some_agents,
    block: ti.template(),
):
    """For each agent of a block 1 if it is live and its centre came over a stop line that was red before the step.

    Lines of the agent's own route decide where it came over any; elsewhere, as in the oncoming lane, one that is red
    decides unless the agent is within another that is not. Lines hold up to 3.5 m beside their ends.
    """
    red = ti.Vector.zero(ti.i32, block)
    map_id = world[w, WorldCol.MAP]
    for k in range(block):
        if live[k] == 1:
            row = row_of(at, k)
            cell = near_cell(bank_i, bank_f, map_id, agents[row + AgentCol.X], agents[row + AgentCol.Y])
            items = bank_i[Head.NEAR_STOPS] + cell + map_id  # each map before this one has an entry more than cells
            own = 0
            own_red = 0
            other_red = 0
            freed = 0
            for i in range(bank_i[items], bank_i[items + 1]):
                stop = bank_i[bank_i[Head.STOP_ITEMS] + i]
                beside = crosses(bank_i, bank_f, agents, row, stop)
                if beside <= EXTEND_M:
                    is_red = ti.cast(light_colour(bank_i, bank_f, world, w, seed, stop) == RED, ti.i32)
                    if on_route(bank_i, slots, slot_of(at, k), stop) == 1:
                        own = 1
                        own_red |= is_red
                    else:
                        other_red |= is_red
                        freed |= ti.cast(beside <= 0.0 and is_red == 0, ti.i32)
            red[k] = ti.select(own == 1, own_red, other_red & (1 - freed))
    return red


@ti.func
def stop_ahead(
    agents: ti.template(),
    slots: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    row: ti.i32,
    slot: ti.i32,
    after: ti.f32,
    far: ti.f32,
) -> nearest_stop:
    """The first stop line on an agent's route with after < s <= far, s its arc length on the route; -1 without one.

    On a lane change the lines of the lane that is changed to count.
    """
    found = nearest_stop(stop=-1, s=far)
    start = ti.f32(0.0)
    e = 0
    while e < slots[slot + SlotCol.ENTRIES] and start <= far and found.stop < 0:
        entry = row + AgentCol.ROUTE + 3 * e
        lane = slots[slot + SlotCol.ROUTE + 2 * e + 1]
        begin = ti.select(lane == slots[slot + SlotCol.ROUTE + 2 * e], agents[entry], agents[entry + 1])
        length = agents[entry + 2]
        if start + length > after:
            q = bank_i[Head.LANES] + lane * LANE_INTS
            first = bank_i[q + LaneInt.STOP0]
            for i in range(bank_i[q + LaneInt.NUM_STOPS]):
                on_lane = bank_f[bank_i[Head.F_LANE_STOPS] + first + i] - begin
                s = start + on_lane
                if found.stop < 0 and on_lane >= 0.0 and on_lane <= length and s > after and s <= far:
                    found.stop = bank_i[bank_i[Head.LANE_STOPS] + first + i]
                    found.s = s
        start += length
        e += 1
    return found
