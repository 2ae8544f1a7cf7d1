"""What befalls an agent in a step: leaving the road, driving against the lanes, reaching a goal, colliding.

Each function judges the motion from the previous pose to the current one. Twin: `reference/events.py`.
"""

from ..layout import AgentCol, CellInt, EdgeCol, Event, Head, MapFloat, SlotCol, Status
from ..runtime import ti
from .geometry import cosine_sine, segment_meets_box, segments_cross, swept_boxes_touch, wrap
from .lane import LEVEL_M, MAP_FLOATS
from .rows import At, row_of, slot_of, some_agents

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
    bank_i: ti.template(),
    bank_f: ti.template(),
    middle_x: ti.f32,
    middle_y: ti.f32,
    row: ti.i32,
    x: ti.f32,
    y: ti.f32,
    z: ti.f32,
    c: ti.f32,
    s: ti.f32,
    prev_x: ti.f32,
    prev_y: ti.f32,
    pc: ti.f32,
    ps: ti.f32,
    length: ti.f32,
    width: ti.f32,
    on_lane: ti.i32,
    block: ti.template(),
) -> ti.i32:
    """1 if a box meets a road edge, a corner's path crossed one, or its centre is outside the road.

    The centre is outside when it is outside the grid, or when the straight line from the cell's centre, of which the
    bank knows the side, crosses edges an odd number of times the wrong way round. Where lanes of two levels share a
    cell that parity may mix them up, so a centre within half a width of a lane of its own level (`on_lane`) is inside
    in any case.

    Args:
        bank_i: integers of the map bank.
        bank_f: its floats.
        middle_x: centre of the grid cell [m].
        middle_y: likewise.
        row: where the cell's row begins in `bank_i`, or -1 outside the grid.
        x: centre [m].
        y: likewise.
        z: road height [m].
        c: cosine of the yaw.
        s: its sine.
        prev_x: centre one step ago [m].
        prev_y: likewise.
        pc: cosine of the yaw one step ago.
        ps: its sine.
        length: half the length [m].
        width: half the width [m].
        on_lane: 1 if the centre is known to be inside.
        block: how many edges are looked at side by side.
    """
    off = 1
    if row >= 0:
        off = 0
        # everything below is relative to the agent's centre
        mx = middle_x - x
        my = middle_y - y
        px = prev_x - x
        py = prev_y - y
        radius = ti.sqrt(length * length + width * width)
        low_x = ti.select(px < 0.0, px, 0.0) - radius
        low_y = ti.select(py < 0.0, py, 0.0) - radius
        high_x = ti.select(px > 0.0, px, 0.0) + radius
        high_y = ti.select(py > 0.0, py, 0.0) + radius
        inside = on_lane | bank_i[row + CellInt.INSIDE]
        edges = bank_i[Head.F_EDGES]
        item = row + CellInt.ITEMS + bank_i[row + CellInt.NUM_LANES]
        end = item + 2 * bank_i[row + CellInt.NUM_EDGES]
        # items come by distance from the cell's centre: beyond this none touches the motion or the line to the centre
        far = ti.sqrt(mx * mx + my * my) + radius + ti.sqrt(px * px + py * py) + ROUNDING_M
        while item < end and off == 0 and ti.bit_cast(bank_i[item + 1], ti.f32) <= far:
            ax = ti.Vector.zero(ti.f32, block)
            ay = ti.Vector.zero(ti.f32, block)
            bx = ti.Vector.zero(ti.f32, block)
            by = ti.Vector.zero(ti.f32, block)
            height = ti.Vector.zero(ti.f32, block)
            count = ti.min((end - item) // 2, block)
            for k in range(count):
                q = edges + bank_i[item + 2 * k] * EDGE_COLS
                ax[k] = bank_f[q + EdgeCol.X0]
                ay[k] = bank_f[q + EdgeCol.Y0]
                bx[k] = bank_f[q + EdgeCol.X1]
                by[k] = bank_f[q + EdgeCol.Y1]
                height[k] = bank_f[q + EdgeCol.Z]
            near = ti.Vector.zero(ti.i32, block)
            any_near = 0
            for k in range(block):
                x0 = ax[k] - x
                y0 = ay[k] - y
                x1 = bx[k] - x
                y1 = by[k] - y
                ax[k] = x0
                ay[k] = y0
                bx[k] = x1
                by[k] = y1
                level = (k < count) & (ti.abs(height[k] - z) < LEVEL_M)
                nx = y0 - y1
                ny = x1 - x0
                now = box_to_line(nx, ny, x0, y0, c, s, length, width)
                before = box_to_line(nx, ny, x0 - px, y0 - py, pc, ps, length, width)
                # if not, then both boxes lie clear of the edge's line on one side of it, or the edge is too far
                one = ti.select(
                    level
                    & (now * before <= 0.0)
                    & (ti.select(x0 < x1, x0, x1) <= high_x)
                    & (ti.select(x0 < x1, x1, x0) >= low_x)
                    & (ti.select(y0 < y1, y0, y1) <= high_y)
                    & (ti.select(y0 < y1, y1, y0) >= low_y),
                    1,
                    0,
                )
                near[k] = one
                any_near |= one
            if on_lane == 0:
                for k in range(count):
                    if ti.abs(height[k] - z) < LEVEL_M:
                        inside ^= segments_cross(mx, my, 0.0, 0.0, ax[k], ay[k], bx[k], by[k])
            if any_near == 1:
                for k in range(count):
                    if near[k] == 1 and off == 0:
                        off = segment_meets_box(ax[k], ay[k], bx[k], by[k], c, s, length, width)
                        off |= corners_cross(px, py, pc, ps, c, s, length, width, ax[k], ay[k], bx[k], by[k])
            item += 2 * block
        off |= 1 - inside
    return off


@ti.func
def leave_road(
    agents: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    live: ti.template(),
    cells: ti.template(),
    on_lane: ti.template(),
    map_id: ti.i32,
    at: some_agents,
    block: ti.template(),
):
    """For each agent of a block 1 if it is live and off the road; see `off_road`."""
    c = ti.Vector.zero(ti.f32, block)
    s = ti.Vector.zero(ti.f32, block)
    pc = ti.Vector.zero(ti.f32, block)
    ps = ti.Vector.zero(ti.f32, block)
    for k in range(block):
        row = row_of(at, ti.min(k, at[At.COUNT] - 1))
        c[k] = agents[row + AgentCol.YAW]
        pc[k] = agents[row + AgentCol.PREV_YAW]
    for k in range(block):
        c[k], s[k] = cosine_sine(c[k])
        pc[k], ps[k] = cosine_sine(pc[k])
    mf = bank_i[Head.F_MAPS] + map_id * MAP_FLOATS
    origin_x = bank_f[mf + MapFloat.ORIGIN_X]
    origin_y = bank_f[mf + MapFloat.ORIGIN_Y]
    side = bank_f[mf + MapFloat.CELL]
    off = ti.Vector.zero(ti.i32, block)
    for k in range(block):
        if live[k] == 1:
            row = row_of(at, k)
            off[k] = off_road(
                bank_i,
                bank_f,
                origin_x + (ti.floor((agents[row + AgentCol.X] - origin_x) / side) + 0.5) * side,
                origin_y + (ti.floor((agents[row + AgentCol.Y] - origin_y) / side) + 0.5) * side,
                cells[k],
                agents[row + AgentCol.X],
                agents[row + AgentCol.Y],
                agents[row + AgentCol.Z],
                c[k],
                s[k],
                agents[row + AgentCol.PREV_X],
                agents[row + AgentCol.PREV_Y],
                pc[k],
                ps[k],
                0.5 * agents[row + AgentCol.LENGTH],
                0.5 * agents[row + AgentCol.WIDTH],
                on_lane[k],
                (block + 1) // 2,
            )
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
def solid(slots: ti.template(), slot: ti.i32) -> ti.i32:
    """1 if the agent can be hit."""
    status = slots[slot + SlotCol.STATUS]
    return ti.cast(status == LIVE or status == STOPPED, ti.i32)


@ti.func
def swept_circle(agents: ti.template(), row: ti.i32):
    """Centre and radius of a circle around everything the agent's box swept in the step."""
    dx = 0.5 * (agents[row + AgentCol.X] - agents[row + AgentCol.PREV_X])
    dy = 0.5 * (agents[row + AgentCol.Y] - agents[row + AgentCol.PREV_Y])
    l = agents[row + AgentCol.LENGTH]
    n = agents[row + AgentCol.WIDTH]
    radius = 0.5 * ti.sqrt(l * l + n * n) + ti.sqrt(dx * dx + dy * dy)
    return agents[row + AgentCol.PREV_X] + dx, agents[row + AgentCol.PREV_Y] + dy, radius


@ti.func
def pair_collides(agents: ti.template(), i: ti.i32, j: ti.i32) -> ti.i32:
    """1 if the agents whose rows begin at i < j touched in the step: their heights overlap and their boxes met on the way."""
    zi = agents[i + AgentCol.Z]
    zj = agents[j + AgentCol.Z]
    hit = 0
    if zi <= zj + agents[j + AgentCol.HEIGHT] and zj <= zi + agents[i + AgentCol.HEIGHT]:
        px = agents[j + AgentCol.PREV_X] - agents[i + AgentCol.PREV_X]
        py = agents[j + AgentCol.PREV_Y] - agents[i + AgentCol.PREV_Y]
        yaw_i = agents[i + AgentCol.PREV_YAW]
        yaw_j = agents[j + AgentCol.PREV_YAW]
        hit = swept_boxes_touch(
            px,
            py,
            agents[j + AgentCol.X] - agents[i + AgentCol.X] - px,
            agents[j + AgentCol.Y] - agents[i + AgentCol.Y] - py,
            yaw_i,
            wrap(agents[i + AgentCol.YAW] - yaw_i),
            0.5 * agents[i + AgentCol.LENGTH],
            0.5 * agents[i + AgentCol.WIDTH],
            yaw_j,
            wrap(agents[j + AgentCol.YAW] - yaw_j),
            0.5 * agents[j + AgentCol.LENGTH],
            0.5 * agents[j + AgentCol.WIDTH],
        )
    return hit


@ti.func
def collide_world(agents: ti.template(), slots: ti.template(), at: some_agents):
    """Set COLLISION for every live agent of a world that touched a solid one; each pair is judged once, as i < j.

    Circles around the swept boxes are compared over local vectors of 64 agents, which the CPU compiler vectorises.
    """
    for first in range(0, (at[At.COUNT] + CHUNK - 1) // CHUNK):
        base = first * CHUNK
        xs = chunk_f(NOWHERE)
        ys = chunk_f(NOWHERE)
        rs = chunk_f(0.0)
        for k in range(ti.min(CHUNK, at[At.COUNT] - base)):
            if solid(slots, slot_of(at, base + k)) == 1:
                x, y, r = swept_circle(agents, row_of(at, base + k))
                xs[k] = x
                ys[k] = y
                rs[k] = r
        for i in range(ti.min(base + CHUNK, at[At.COUNT])):
            if solid(slots, slot_of(at, i)) == 1:
                x, y, r = swept_circle(agents, row_of(at, i))
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
                            collide_pair(agents, slots, at, i, base + k)


@ti.func
def collide_pair(agents: ti.template(), slots: ti.template(), at: some_agents, i: ti.i32, j: ti.i32):
    """Judge a pair i < j of solid agents and set COLLISION for those of it that are live."""
    live_i = slots[slot_of(at, i) + SlotCol.STATUS] == LIVE
    live_j = slots[slot_of(at, j) + SlotCol.STATUS] == LIVE
    if (live_i or live_j) and pair_collides(agents, row_of(at, i), row_of(at, j)) == 1:
        if live_i:
            slots[slot_of(at, i) + SlotCol.EVENT] |= COLLISION
        if live_j:
            slots[slot_of(at, j) + SlotCol.EVENT] |= COLLISION
