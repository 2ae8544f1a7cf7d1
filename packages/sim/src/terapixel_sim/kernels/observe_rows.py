"""What one agent observes, leaf by leaf: the device functions of `observe`."""

from enum import IntEnum

from ..layout import (
    AgentCol,
    Condition,
    Head,
    LaneInt,
    LightColour,
    MapInt,
    ObsSegment,
    SlotCol,
    Status,
    StopFloat,
    WorldCol,
)
from ..observation import (
    COLUMNS,
    LIGHTS,
    MANOEUVRES,
    EdgeObs,
    EgoObs,
    LaneObs,
    LightObs,
    PartnerObs,
    ProprioObs,
    RouteObs,
)
from ..observation_buffers import Leaf
from ..runtime import ti
from .lane import MAP_INTS
from .lights import STOP_FLOATS, light_colour, stop_ahead
from .route import route_point
from .rows import At, row_of, slot_of, some_agents
from .walk import lane_int

NUM_CONDITIONS = len(Condition)
FIRST_GAIN = int(Condition.GAIN_THROTTLE)
SEGMENT_FLOATS = len(ObsSegment)
ROUTE, PARTNER, LANE, EDGE, LIGHT = len(RouteObs), len(PartnerObs), len(LaneObs), len(EdgeObs), len(LightObs)
MANOEUVRE = len(MANOEUVRES)
# factors from values to columns; a kind of quantity has one scale in all leaves
XY, HEIGHT = 1.0 / COLUMNS["partners"]["X"][1], 1.0 / COLUMNS["partners"]["Z"][1]
SPEED, LENGTH, WIDTH = (1.0 / COLUMNS["partners"][name][1] for name in ("SPEED", "LENGTH", "WIDTH"))
ACCEL, LAT_ACCEL, STEER, YAW_RATE = (1.0 / COLUMNS["ego"][n][1] for n in ("ACCEL", "LAT_ACCEL", "STEER", "YAW_RATE"))
OFFSET, LEFT, STOPPED = (1.0 / COLUMNS["ego"][name][1] for name in ("LANE_OFFSET", "ROUTE_LEFT", "STOPPED"))
JERK_LONG, JERK_LAT = (1.0 / COLUMNS["proprio"][name][1] for name in ("JERK_LONG", "JERK_LAT"))
COMMAND = 1.0 / 100.0
frame5 = ti.types.vector(5, ti.f32)
"""An agent's frame: x, y, z, cosine and sine of yaw."""


class ObserveCol(IntEnum):
    """Columns of `ObserveParams.values`."""

    PARTNER_RADIUS = 0
    MANOEUVRE_M = 1
    LIGHT_M = 2
    CONDITION = 3  # 18 x (factor, summand) from a value, or the logarithm of a gain, to [-1, 1]
    ROUTE_POINTS = 39


@ti.func
def begin(offsets: ti.template(), leaf: ti.template(), n: ti.i32) -> ti.i32:
    """Where agent n's row of a leaf begins."""
    return offsets[2 * leaf] + n * offsets[2 * leaf + 1]


@ti.func
def clip(value: ti.f32, low: ti.f32, high: ti.f32) -> ti.f32:
    return ti.min(ti.max(value, low), high)


@ti.func
def clear(floats: ti.template(), start: ti.i32, stop: ti.i32):
    for k in range(start, stop):
        floats[k] = 0.0


@ti.func
def set_mask(bytes_: ti.template(), start: ti.i32, rows: ti.i32, count: ti.i32):
    """True for the first `count` of `rows`."""
    for k in range(rows):
        bytes_[start + k] = ti.cast(k < count, ti.u8)


@ti.func
def observe_ego(agents: ti.template(), row: ti.i32, floats: ti.template(), ego: ti.i32, proprio: ti.i32):
    speed = agents[row + AgentCol.SPEED] * SPEED
    accel = agents[row + AgentCol.ACCEL] * ACCEL
    lat_accel = agents[row + AgentCol.LAT_ACCEL] * LAT_ACCEL
    steer = agents[row + AgentCol.STEER] * STEER
    yaw_rate = agents[row + AgentCol.YAW_RATE] * YAW_RATE
    length = agents[row + AgentCol.LENGTH] * LENGTH
    width = agents[row + AgentCol.WIDTH] * WIDTH
    lane = agents[row + AgentCol.LANE_HEADING]
    route = agents[row + AgentCol.ROUTE_HEADING]
    floats[ego + EgoObs.SPEED] = speed
    floats[ego + EgoObs.ACCEL] = accel
    floats[ego + EgoObs.LAT_ACCEL] = lat_accel
    floats[ego + EgoObs.STEER] = steer
    floats[ego + EgoObs.YAW_RATE] = yaw_rate
    floats[ego + EgoObs.LENGTH] = length
    floats[ego + EgoObs.WIDTH] = width
    floats[ego + EgoObs.LANE_OFFSET] = clip(agents[row + AgentCol.LANE_OFFSET] * OFFSET, -1.0, 1.0)
    floats[ego + EgoObs.LANE_COS] = ti.cos(lane)
    floats[ego + EgoObs.LANE_SIN] = ti.sin(lane)
    floats[ego + EgoObs.LANE_LIMIT] = agents[row + AgentCol.LANE_LIMIT] * SPEED
    floats[ego + EgoObs.ROUTE_OFFSET] = clip(agents[row + AgentCol.ROUTE_OFFSET] * OFFSET, -2.0, 2.0)
    floats[ego + EgoObs.ROUTE_COS] = ti.cos(route)
    floats[ego + EgoObs.ROUTE_SIN] = ti.sin(route)
    floats[ego + EgoObs.ROUTE_LEFT] = (agents[row + AgentCol.ROUTE_LENGTH] - agents[row + AgentCol.ROUTE_S]) * LEFT
    floats[ego + EgoObs.STOPPED] = clip(agents[row + AgentCol.STOPPED] * STOPPED, 0.0, 1.0)
    floats[proprio + ProprioObs.SPEED] = speed
    floats[proprio + ProprioObs.STEER] = steer
    floats[proprio + ProprioObs.ACCEL] = accel
    floats[proprio + ProprioObs.LAT_ACCEL] = lat_accel
    floats[proprio + ProprioObs.YAW_RATE] = yaw_rate
    floats[proprio + ProprioObs.LENGTH] = length
    floats[proprio + ProprioObs.WIDTH] = width
    floats[proprio + ProprioObs.JERK_LONG] = agents[row + AgentCol.JERK_LONG] * JERK_LONG
    floats[proprio + ProprioObs.JERK_LAT] = agents[row + AgentCol.JERK_LAT] * JERK_LAT


@ti.func
def observe_condition(agents: ti.template(), row: ti.i32, params: ti.template(), floats: ti.template(), o: ti.i32):
    for c in range(NUM_CONDITIONS):
        value = agents[row + AgentCol.CONDITION + c]
        if c >= FIRST_GAIN:
            value = ti.log(value)
        scaled = value * params[ObserveCol.CONDITION + 2 * c] + params[ObserveCol.CONDITION + 2 * c + 1]
        floats[o + c] = clip(scaled, -1.0, 1.0)


@ti.func
def along(ego: frame5, dx: ti.f32, dy: ti.f32) -> ti.f32:
    """The part of a planar vector along the agent's x."""
    return dx * ego[3] + dy * ego[4]


@ti.func
def aside(ego: frame5, dx: ti.f32, dy: ti.f32) -> ti.f32:
    """The part of a planar vector along the agent's y."""
    return dy * ego[3] - dx * ego[4]


@ti.func
def observe_route(
    agents: ti.template(),
    slots: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    ego: frame5,
    n: ti.i32,
    row: ti.i32,
    slot: ti.i32,
    params: ti.template(),
    floats: ti.template(),
    bytes_: ti.template(),
    offsets: ti.template(),
):
    """`route`, and `command`: the goals from SlotCol.GOAL on; goal k lies at ROUTE_LENGTH (k + 1) / goals."""
    points = offsets[2 * Leaf.ROUTE_MASK + 1]
    goals = offsets[2 * Leaf.COMMAND_MASK + 1]
    length = agents[row + AgentCol.ROUTE_LENGTH]
    for r in range(points + goals):
        is_goal = r >= points
        g = r - points
        goal = slots[slot + SlotCol.GOAL] + g
        s = length * ti.cast(goal + 1, ti.f32) / ti.cast(goals, ti.f32)
        shown = goal < goals
        if not is_goal:
            s = agents[row + AgentCol.ROUTE_S] + params[ObserveCol.ROUTE_POINTS + r]
            shown = s <= length
        seen = ti.Vector.zero(ti.f32, ROUTE)
        if shown:
            p = route_point(agents, slots, bank_i, bank_f, row, slot, s)
            dx = p[0] - ego[0]
            dy = p[1] - ego[1]
            seen[RouteObs.X] = along(ego, dx, dy)
            seen[RouteObs.Y] = aside(ego, dx, dy)
            seen[RouteObs.COS] = along(ego, p[3], p[4])
            seen[RouteObs.SIN] = aside(ego, p[3], p[4])
            seen[RouteObs.WIDTH] = p[5] * WIDTH
            seen[RouteObs.LIMIT] = p[6] * SPEED
        if is_goal:
            o = begin(offsets, Leaf.COMMAND, n) + 2 * g
            floats[o] = seen[RouteObs.X] * COMMAND
            floats[o + 1] = seen[RouteObs.Y] * COMMAND
            bytes_[begin(offsets, Leaf.COMMAND_MASK, n) + g] = ti.cast(shown, ti.u8)
        else:
            o = begin(offsets, Leaf.ROUTE, n) + ROUTE * r
            seen[RouteObs.X] *= XY
            seen[RouteObs.Y] *= XY
            for c in ti.static(range(ROUTE)):
                floats[o + c] = seen[c]
            bytes_[begin(offsets, Leaf.ROUTE_MASK, n) + r] = ti.cast(shown, ti.u8)


@ti.func
def next_turn(
    agents: ti.template(), slots: ti.template(), bank_i: ti.template(), row: ti.i32, slot: ti.i32, far: ti.f32
) -> ti.i32:
    """Turn of the first junction lane between ROUTE_S and `far` metres beyond, NONE without one."""
    s0 = agents[row + AgentCol.ROUTE_S]
    turn = 0
    start = ti.f32(0.0)
    n = 0
    while n < slots[slot + SlotCol.ENTRIES] and turn == 0 and start <= s0 + far:
        stop = start + agents[row + AgentCol.ROUTE + 3 * n + 2]
        if stop > s0:
            turn = lane_int(bank_i, slots[slot + SlotCol.ROUTE + 2 * n], LaneInt.TURN)
        start = stop
        n += 1
    return turn


@ti.func
def observe_lights(
    agents: ti.template(),
    slots: ti.template(),
    world: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    ego: frame5,
    n: ti.i32,
    w: ti.i32,
    row: ti.i32,
    slot: ti.i32,
    seed: ti.i32,
    far: ti.f32,
    floats: ti.template(),
    bytes_: ti.template(),
    offsets: ti.template(),
):
    """The next stop lines with a signal on the agent's route, at most `far` metres ahead, nearest first."""
    o = begin(offsets, Leaf.LIGHTS, n)
    here = agents[row + AgentCol.ROUTE_S]
    # on a map without signals there is nothing to look for
    stops = bank_i[bank_i[Head.MAPS] + world[w, WorldCol.MAP] * MAP_INTS + MapInt.NUM_STOPS]
    after = ti.select(stops > 0, here, here + far)
    count = 0
    while count < LIGHTS and after < here + far:
        found = stop_ahead(agents, slots, bank_i, bank_f, row, slot, after, here + far)
        after = found.s
        if found.stop >= 0:
            q = bank_i[Head.F_STOPS] + found.stop * STOP_FLOATS
            dx = bank_f[q + StopFloat.X] - ego[0]
            dy = bank_f[q + StopFloat.Y] - ego[1]
            half = bank_f[q + StopFloat.HALF]
            lx = -half * bank_f[q + StopFloat.SIN]
            ly = half * bank_f[q + StopFloat.COS]
            colour = light_colour(bank_i, bank_f, world, w, seed, found.stop)
            k = o + LIGHT * count
            floats[k + LightObs.X0] = along(ego, dx + lx, dy + ly) * XY
            floats[k + LightObs.Y0] = aside(ego, dx + lx, dy + ly) * XY
            floats[k + LightObs.X1] = along(ego, dx - lx, dy - ly) * XY
            floats[k + LightObs.Y1] = aside(ego, dx - lx, dy - ly) * XY
            for c in ti.static(range(3)):  # red, yellow and green come in the same order in both
                floats[k + LightObs.RED + c] = ti.cast(colour == LightColour.RED + c, ti.f32)
            count += 1
    clear(floats, o + LIGHT * count, o + LIGHT * LIGHTS)
    set_mask(bytes_, begin(offsets, Leaf.LIGHTS_MASK, n), LIGHTS, count)


@ti.func
def observe_partners(
    agents: ti.template(),
    slots: ti.template(),
    ego: frame5,
    n: ti.i32,
    at: some_agents,
    a: ti.i32,
    radius: ti.f32,
    floats: ti.template(),
    bytes_: ti.template(),
    offsets: ti.template(),
    rows: ti.template(),
):
    """The nearest solid agents, nearest first, the lower index first among equals."""
    o = begin(offsets, Leaf.PARTNERS, n)
    row = row_of(at, a)
    yaw = agents[row + AgentCol.YAW]
    v = agents[row + AgentCol.SPEED]
    near = ti.Vector.zero(ti.i32, rows)
    distance = ti.Vector.zero(ti.f32, rows)
    count = 0
    for b in range(at[At.COUNT]):
        row = row_of(at, b)
        dx = agents[row + AgentCol.X] - ego[0]
        dy = agents[row + AgentCol.Y] - ego[1]
        d = dx * dx + dy * dy
        status = slots[slot_of(at, b) + SlotCol.STATUS]
        solid = status == Status.LIVE or status == Status.STOPPED or status == Status.TIMED_OUT
        if b != a and solid and d <= radius * radius:
            k = count
            if count == rows:
                k = rows - 1
            if count < rows or d < distance[k]:
                while k > 0 and distance[k - 1] > d:
                    distance[k] = distance[k - 1]
                    near[k] = near[k - 1]
                    k -= 1
                distance[k] = d
                near[k] = b
                count = ti.min(count + 1, rows)
    for r in range(count):
        row = row_of(at, near[r])
        k = o + PARTNER * r
        # all loads before the stores: a store may alias them, and their addresses would be worked out anew
        dx = agents[row + AgentCol.X] - ego[0]
        dy = agents[row + AgentCol.Y] - ego[1]
        dz = agents[row + AgentCol.Z] - ego[2]
        length = agents[row + AgentCol.LENGTH]
        width = agents[row + AgentCol.WIDTH]
        vb = agents[row + AgentCol.SPEED]
        turn = agents[row + AgentCol.YAW] - yaw
        c = ti.cos(turn)
        s = ti.sin(turn)
        floats[k + PartnerObs.X] = along(ego, dx, dy) * XY
        floats[k + PartnerObs.Y] = aside(ego, dx, dy) * XY
        floats[k + PartnerObs.Z] = dz * HEIGHT
        floats[k + PartnerObs.LENGTH] = length * LENGTH
        floats[k + PartnerObs.WIDTH] = width * WIDTH
        floats[k + PartnerObs.COS] = c
        floats[k + PartnerObs.SIN] = s
        floats[k + PartnerObs.SPEED] = vb * SPEED
        floats[k + PartnerObs.VX] = (vb * c - v) * SPEED
        floats[k + PartnerObs.VY] = vb * s * SPEED
    clear(floats, o + PARTNER * count, o + PARTNER * rows)
    set_mask(bytes_, begin(offsets, Leaf.PARTNERS_MASK, n), rows, count)


@ti.func
def observe_pieces(
    bank_i: ti.template(),
    bank_f: ti.template(),
    ego: frame5,
    n: ti.i32,
    cell: ti.i32,
    floats: ti.template(),
    bytes_: ti.template(),
    offsets: ti.template(),
):
    """`lanes`, then `edges`, whose columns are the first 6 of `lanes`: the cell's nearest pieces in their order."""
    for kind in range(2):
        is_lane = kind == 0
        columns = ti.select(is_lane, LANE, EDGE)
        o = ti.select(is_lane, begin(offsets, Leaf.LANES, n), begin(offsets, Leaf.EDGES, n))
        mask = ti.select(is_lane, begin(offsets, Leaf.LANES_MASK, n), begin(offsets, Leaf.EDGES_MASK, n))
        rows = ti.select(is_lane, offsets[2 * Leaf.LANES_MASK + 1], offsets[2 * Leaf.EDGES_MASK + 1])
        listed = ti.select(is_lane, bank_i[Head.NUM_NEAR_LANES], bank_i[Head.NUM_NEAR_EDGES])
        items = ti.select(is_lane, bank_i[Head.NEAR_LANES], bank_i[Head.NEAR_EDGES]) + cell * listed
        table = ti.select(is_lane, bank_i[Head.F_OBS_LANES], bank_i[Head.F_OBS_EDGES])
        count = 0
        while count < rows and count < listed and bank_i[items + count] >= 0:
            p = table + bank_i[items + count] * SEGMENT_FLOATS
            k = o + columns * count
            dx = bank_f[p + ObsSegment.X] - ego[0]
            dy = bank_f[p + ObsSegment.Y] - ego[1]
            cos = bank_f[p + ObsSegment.COS]
            sin = bank_f[p + ObsSegment.SIN]
            dz = bank_f[p + ObsSegment.Z] - ego[2]
            half_length = bank_f[p + ObsSegment.HALF_LENGTH]
            width = bank_f[p + ObsSegment.WIDTH]
            limit = bank_f[p + ObsSegment.LIMIT]
            floats[k + LaneObs.X] = along(ego, dx, dy) * XY
            floats[k + LaneObs.Y] = aside(ego, dx, dy) * XY
            floats[k + LaneObs.Z] = dz * HEIGHT
            floats[k + LaneObs.HALF_LENGTH] = half_length * LENGTH
            floats[k + LaneObs.COS] = along(ego, cos, sin)
            floats[k + LaneObs.SIN] = aside(ego, cos, sin)
            if is_lane:
                floats[k + LaneObs.WIDTH] = width * WIDTH
                floats[k + LaneObs.LIMIT] = limit * SPEED
            count += 1
        clear(floats, o + columns * count, o + columns * rows)
        set_mask(bytes_, mask, rows, count)
