"""What befalls an agent in a step: leaving the road, driving against the lanes, reaching a goal, colliding.

Each function judges the motion from the previous pose to the current one. Twin: `reference/events.py`.
"""

from ..layout import AgentCol, Condition, EdgeCol, Event, Head, MapFloat, MapInt, SlotCol, Status
from ..runtime import ti
from .geometry import cosine_sine, path_distance, segment_meets_box, segments_cross, swept_boxes_touch, wrap
from .lane import LEVEL_M, MAP_FLOATS, MAP_INTS, cell_at
from .route import route_point

EDGE_COLS = len(EdgeCol)
CHUNK = 64
ROUNDING_M = 1e-2
WRONG_WAY_MPS = 0.5
"""An agent must be faster than this to be driving against the lanes."""
NOWHERE = 1e18
"""Coordinate of agents that cannot be hit; its square is finite."""

COLLISION = int(Event.COLLISION)
LIVE = int(Status.LIVE)
STOPPED = int(Status.STOPPED)
chunk_f = ti.types.vector(CHUNK, ti.f32)
chunk_i = ti.types.vector(CHUNK, ti.i32)


@ti.func
def off_road(
    agents: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    w: ti.i32,
    a: ti.i32,
    map_id: ti.i32,
    on_lane: ti.i32,
) -> ti.i32:
    """1 if the agent's box meets a road edge, a corner's path crossed one, or its centre is outside the road.

    The centre is outside when it is outside the grid, or when the straight line from the cell's centre, of which the
    bank knows the side, crosses edges an odd number of times the wrong way round. Where lanes of two levels share a
    cell that parity may mix them up, so a centre within half a width of a lane of its own level (`on_lane`) is inside
    in any case.
    """
    x = agents[w, a, AgentCol.X]
    y = agents[w, a, AgentCol.Y]
    cell = cell_at(bank_i, bank_f, map_id, x, y)
    off = 1
    if cell >= 0:
        off = 0
        mi = bank_i[Head.MAPS] + map_id * MAP_INTS
        mf = bank_i[Head.F_MAPS] + map_id * MAP_FLOATS
        local = cell - bank_i[mi + MapInt.CELL0]
        columns = bank_i[mi + MapInt.NX]
        side = bank_f[mf + MapFloat.CELL]
        # everything below is relative to the agent's centre
        mx = bank_f[mf + MapFloat.ORIGIN_X] + (ti.cast(local % columns, ti.f32) + 0.5) * side - x
        my = bank_f[mf + MapFloat.ORIGIN_Y] + (ti.cast(local // columns, ti.f32) + 0.5) * side - y
        z = agents[w, a, AgentCol.Z]
        length = 0.5 * agents[w, a, AgentCol.LENGTH]
        width = 0.5 * agents[w, a, AgentCol.WIDTH]
        c, s = cosine_sine(agents[w, a, AgentCol.YAW])
        pc, ps = cosine_sine(agents[w, a, AgentCol.PREV_YAW])
        px = agents[w, a, AgentCol.PREV_X] - x
        py = agents[w, a, AgentCol.PREV_Y] - y
        radius = ti.sqrt(length * length + width * width)
        low_x = ti.min(px, 0.0) - radius
        low_y = ti.min(py, 0.0) - radius
        high_x = ti.max(px, 0.0) + radius
        high_y = ti.max(py, 0.0) + radius
        inside = on_lane | bank_i[bank_i[Head.CELL_INSIDE] + cell]
        edges = bank_i[Head.F_EDGES]
        items = bank_i[Head.CELL_EDGE_ITEMS]
        first = bank_i[bank_i[Head.CELL_EDGES] + cell]
        end = bank_i[bank_i[Head.CELL_EDGES] + cell + 1]
        distances = bank_i[Head.F_CELL_EDGES]
        to_middle = ti.sqrt(mx * mx + my * my)
        # items come by distance from the cell's centre: beyond this none touches the motion or the line to the centre
        far = to_middle + radius + ti.sqrt(px * px + py * py) + ROUNDING_M
        item = first
        while item < end and off == 0 and bank_f[distances + item] <= far:
            q = edges + bank_i[items + item] * EDGE_COLS
            if ti.abs(bank_f[q + EdgeCol.Z] - z) < LEVEL_M:
                ax = bank_f[q + EdgeCol.X0] - x
                ay = bank_f[q + EdgeCol.Y0] - y
                bx = bank_f[q + EdgeCol.X1] - x
                by = bank_f[q + EdgeCol.Y1] - y
                if on_lane == 0:
                    inside ^= segments_cross(mx, my, 0.0, 0.0, ax, ay, bx, by)
                if (
                    (ti.select(ax < bx, ax, bx) <= high_x)
                    & (ti.select(ax < bx, bx, ax) >= low_x)
                    & (ti.select(ay < by, ay, by) <= high_y)
                    & (ti.select(ay < by, by, ay) >= low_y)
                ):
                    nx = ay - by
                    ny = bx - ax
                    now = box_to_line(nx, ny, ax, ay, c, s, length, width)
                    before = box_to_line(nx, ny, ax - px, ay - py, pc, ps, length, width)
                    if now * before <= 0.0:  # otherwise both boxes lie clear of the edge's line, on one side of it
                        off = segment_meets_box(ax, ay, bx, by, c, s, length, width)
                        off |= corners_cross(px, py, pc, ps, c, s, length, width, ax, ay, bx, by)
            item += 1
        off |= 1 - inside
    return off


@ti.func
def box_to_line(
    nx: ti.f32, ny: ti.f32, ax: ti.f32, ay: ti.f32, c: ti.f32, s: ti.f32, length: ti.f32, width: ti.f32
) -> ti.f32:
    """The side, -1 or 1, of the line through a with normal n on which a box about the origin lies; 0 if it meets it."""
    distance = nx * ax + ny * ay
    extent = length * ti.abs(nx * c + ny * s) + width * ti.abs(ny * c - nx * s)
    return ti.select(distance > extent, 1.0, ti.select(distance < -extent, -1.0, 0.0))


@ti.func
def corners_cross(
    px: ti.f32,
    py: ti.f32,
    pc: ti.f32,
    ps: ti.f32,
    c: ti.f32,
    s: ti.f32,
    length: ti.f32,
    width: ti.f32,
    ax: ti.f32,
    ay: ti.f32,
    bx: ti.f32,
    by: ti.f32,
) -> ti.i32:
    """1 if a corner's straight path, from the box at p with yaw (pc, ps) to that at the origin, crosses segment a-b."""
    hit = 0
    for corner in range(4):
        l = ti.select(corner < 2, length, -length)
        n = ti.select(corner % 2 == 0, width, -width)
        hit |= segments_cross(px + l * pc - n * ps, py + l * ps + n * pc, l * c - n * s, l * s + n * c, ax, ay, bx, by)
    return hit


@ti.func
def reach_goal(
    agents: ti.template(),
    slots: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    w: ti.i32,
    a: ti.i32,
    num_goals: ti.i32,
) -> ti.i32:
    """Judge the next goal and keep GOAL and GOAL_DISTANCE; 1 if it was reached in this step.

    Goal k lies on the route at ROUTE_LENGTH (k + 1) / num_goals. It is reached when the centre's path passes within the
    agent's goal radius, in plan, in order, and at most one a step.
    """
    goal = slots[w, a, SlotCol.GOAL]
    x = agents[w, a, AgentCol.X]
    y = agents[w, a, AgentCol.Y]
    spacing = agents[w, a, AgentCol.ROUTE_LENGTH] / ti.cast(num_goals, ti.f32)
    reached = 0
    distance = 0.0
    # the second round measures the distance to the goal after the one just reached
    for round in range(2):
        if goal < num_goals and (round == 0 or reached == 1):
            p = route_point(agents, slots, bank_i, bank_f, w, a, spacing * ti.cast(goal + 1, ti.f32))
            distance = ti.sqrt((p[0] - x) * (p[0] - x) + (p[1] - y) * (p[1] - y))
            if round == 0:
                prev_x = agents[w, a, AgentCol.PREV_X]
                prev_y = agents[w, a, AgentCol.PREV_Y]
                radius = agents[w, a, AgentCol.CONDITION + Condition.GOAL_RADIUS]
                if path_distance(prev_x, prev_y, x, y, p[0], p[1]) <= radius:
                    reached = 1
                    goal += 1
                    distance = 0.0
    slots[w, a, SlotCol.GOAL] = goal
    agents[w, a, AgentCol.GOAL_DISTANCE] = distance
    return reached


@ti.func
def solid(slots: ti.template(), w: ti.i32, a: ti.i32) -> ti.i32:
    """1 if the agent can be hit."""
    status = slots[w, a, SlotCol.STATUS]
    return ti.cast(status == LIVE or status == STOPPED, ti.i32)


@ti.func
def swept_circle(agents: ti.template(), w: ti.i32, a: ti.i32):
    """Centre and radius of a circle around everything the agent's box swept in the step."""
    dx = 0.5 * (agents[w, a, AgentCol.X] - agents[w, a, AgentCol.PREV_X])
    dy = 0.5 * (agents[w, a, AgentCol.Y] - agents[w, a, AgentCol.PREV_Y])
    l = agents[w, a, AgentCol.LENGTH]
    n = agents[w, a, AgentCol.WIDTH]
    radius = 0.5 * ti.sqrt(l * l + n * n) + ti.sqrt(dx * dx + dy * dy)
    return agents[w, a, AgentCol.PREV_X] + dx, agents[w, a, AgentCol.PREV_Y] + dy, radius


@ti.func
def pair_collides(agents: ti.template(), w: ti.i32, i: ti.i32, j: ti.i32) -> ti.i32:
    """1 if agents i < j touched in the step: their heights overlap and their boxes met on the way."""
    zi = agents[w, i, AgentCol.Z]
    zj = agents[w, j, AgentCol.Z]
    hit = 0
    if zi <= zj + agents[w, j, AgentCol.HEIGHT] and zj <= zi + agents[w, i, AgentCol.HEIGHT]:
        px = agents[w, j, AgentCol.PREV_X] - agents[w, i, AgentCol.PREV_X]
        py = agents[w, j, AgentCol.PREV_Y] - agents[w, i, AgentCol.PREV_Y]
        yaw_i = agents[w, i, AgentCol.PREV_YAW]
        yaw_j = agents[w, j, AgentCol.PREV_YAW]
        hit = swept_boxes_touch(
            px,
            py,
            agents[w, j, AgentCol.X] - agents[w, i, AgentCol.X] - px,
            agents[w, j, AgentCol.Y] - agents[w, i, AgentCol.Y] - py,
            yaw_i,
            wrap(agents[w, i, AgentCol.YAW] - yaw_i),
            0.5 * agents[w, i, AgentCol.LENGTH],
            0.5 * agents[w, i, AgentCol.WIDTH],
            yaw_j,
            wrap(agents[w, j, AgentCol.YAW] - yaw_j),
            0.5 * agents[w, j, AgentCol.LENGTH],
            0.5 * agents[w, j, AgentCol.WIDTH],
        )
    return hit


@ti.func
def collide_world(agents: ti.template(), slots: ti.template(), w: ti.i32):
    """Set COLLISION for every live agent of a world that touched a solid one; each pair is judged once, as i < j.

    Circles around the swept boxes are compared over local vectors of 64 agents, which the CPU compiler vectorises.
    """
    num_agents = agents.shape[1]
    for first in range(0, (num_agents + CHUNK - 1) // CHUNK):
        base = first * CHUNK
        xs = chunk_f(NOWHERE)
        ys = chunk_f(NOWHERE)
        rs = chunk_f(0.0)
        for k in range(ti.min(CHUNK, num_agents - base)):
            if solid(slots, w, base + k) == 1:
                x, y, r = swept_circle(agents, w, base + k)
                xs[k] = x
                ys[k] = y
                rs[k] = r
        for i in range(ti.min(base + CHUNK, num_agents)):
            if solid(slots, w, i) == 1:
                x, y, r = swept_circle(agents, w, i)
                near = chunk_i(0)
                count = 0
                for k in range(CHUNK):
                    dx = xs[k] - x
                    dy = ys[k] - y
                    reach = rs[k] + r
                    one = ti.select(dx * dx + dy * dy < reach * reach, 1, 0)
                    near[k] = one
                    count += one
                # an agent of this chunk is always near itself
                if count > ti.select(i >= base, 1, 0):
                    for k in range(ti.max(i + 1 - base, 0), CHUNK):
                        if near[k] == 1:
                            collide_pair(agents, slots, w, i, base + k)


@ti.func
def collide_pair(agents: ti.template(), slots: ti.template(), w: ti.i32, i: ti.i32, j: ti.i32):
    """Judge a pair i < j of solid agents and set COLLISION for those of it that are live."""
    live_i = slots[w, i, SlotCol.STATUS] == LIVE
    live_j = slots[w, j, SlotCol.STATUS] == LIVE
    if (live_i or live_j) and pair_collides(agents, w, i, j) == 1:
        if live_i:
            slots[w, i, SlotCol.EVENT] |= COLLISION
        if live_j:
            slots[w, j, SlotCol.EVENT] |= COLLISION
