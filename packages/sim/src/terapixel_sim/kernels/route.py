"""Points on an agent's route, and the agent's place on it.

A route is a chain of entries (lane a, lane b, start on a, start on b, length). With a == b an entry follows one lane;
otherwise it is a lane change, whose position blends from a to b with the weight 3 t^2 - 2 t^3, t = u / length
(smoothstep), at equal arc lengths u on both. Twin: `reference/route.py`.
"""

from ..layout import AgentCol, Head, LaneFloat, LaneInt, SegmentCol, SlotCol
from ..runtime import ti
from .lane import (
    LANE_FLOATS,
    LANE_INTS,
    NONE,
    SEGMENT_COLS,
    first_of,
    lane_limit,
    lane_point,
    segment_foot,
    sortable,
    vec7,
)

BEHIND_M = 5.0
"""How far behind the last place on the route the nearest point is looked for."""
AHEAD_M = 10.0
"""How far ahead, beyond the distance driven."""
CHORD_M = 1.0
"""Chord length on lane changes."""


@ti.func
def route_entry(agents: ti.template(), slots: ti.template(), row: ti.i32, slot: ti.i32, s: ti.f32):
    """The entry that holds arc length `s` (the first or last one outside the route) and where it starts [m]."""
    last = slots[slot + SlotCol.ENTRIES] - 1
    e = 0
    start = 0.0
    while e < last and s >= start + agents[row + AgentCol.ROUTE + 3 * e + 2]:
        start += agents[row + AgentCol.ROUTE + 3 * e + 2]
        e += 1
    return e, start


@ti.func
def entry_point(
    agents: ti.template(),
    slots: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    row: ti.i32,
    slot: ti.i32,
    e: ti.i32,
    u: ti.f32,
) -> vec7:
    """The point at arc length `u` on entry `e`, straight on beyond its ends; columns as in `route_point`."""
    lane_a = slots[slot + SlotCol.ROUTE + 2 * e]
    lane_b = slots[slot + SlotCol.ROUTE + 2 * e + 1]
    start_a = agents[row + AgentCol.ROUTE + 3 * e]
    length = agents[row + AgentCol.ROUTE + 3 * e + 2]
    inner = ti.select(u > 0.0, u, 0.0)
    inner = ti.select(inner < length, inner, length)
    pa = lane_point(bank_i, bank_f, lane_a, start_a + inner)
    x = pa[0]
    y = pa[1]
    z = pa[2]
    c = pa[3]
    n = pa[4]
    width = pa[5]
    limited = lane_a
    if lane_a != lane_b:
        pb = lane_point(bank_i, bank_f, lane_b, agents[row + AgentCol.ROUTE + 3 * e + 1] + inner)
        t = inner / length
        blend = t * t * (3.0 - 2.0 * t)
        slope = 6.0 * t * (1.0 - t) / length
        c += blend * (pb[3] - c) + slope * (pb[0] - x)
        n += blend * (pb[4] - n) + slope * (pb[1] - y)
        norm = 1.0 / ti.sqrt(c * c + n * n)
        c *= norm
        n *= norm
        x += blend * (pb[0] - x)
        y += blend * (pb[1] - y)
        z += blend * (pb[2] - z)
        width += blend * (pb[5] - width)
        limited = ti.select(blend < 0.5, lane_a, lane_b)
    over = u - inner
    return vec7(x + over * c, y + over * n, z, c, n, width, lane_limit(bank_i, bank_f, limited))


@ti.func
def route_point(
    agents: ti.template(),
    slots: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    row: ti.i32,
    slot: ti.i32,
    s: ti.f32,
) -> vec7:
    """An agent's route at arc length `s` [m]; before its start and beyond its end straight on.

    Returns:
        x, y, z [m], cosine and sine of the heading, lane width [m], speed limit [m/s] (in a lane change that of the
        nearer lane).
    """
    e, start = route_entry(agents, slots, row, slot, s)
    return entry_point(agents, slots, bank_i, bank_f, row, slot, e, s - start)


@ti.func
def route_search(
    agents: ti.template(),
    slots: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    row: ti.i32,
    slot: ti.i32,
    travelled: ti.f32,
    block: ti.template(),
):
    """The route point nearest to the agent, from 5 m behind its ROUTE_S to 10 m + `travelled` ahead of it.

    The window keeps the answer on the right branch where a route comes back to itself. On lanes the search runs over
    the lane's own segments, `block` of them side by side; in lane changes over 1 m chords.

    Returns:
        (arc length s [m], entry, arc length on the entry [m], distance [m]).
    """
    x = agents[row + AgentCol.X]
    y = agents[row + AgentCol.Y]
    low = agents[row + AgentCol.ROUTE_S] - BEHIND_M
    high = agents[row + AgentCol.ROUTE_S] + travelled + AHEAD_M
    best = 1e30
    best_e = 0
    best_u = 0.0
    best_s = 0.0
    start = 0.0
    for e in range(slots[slot + SlotCol.ENTRIES]):
        length = agents[row + AgentCol.ROUTE + 3 * e + 2]
        if start > high:
            break
        if start + length >= low:
            u0 = ti.max(low - start, 0.0)
            u1 = ti.min(high - start, length)
            lane = slots[slot + SlotCol.ROUTE + 2 * e]
            u = 0.0
            d2 = 0.0
            if lane == slots[slot + SlotCol.ROUTE + 2 * e + 1]:
                begin = agents[row + AgentCol.ROUTE + 3 * e]
                u, d2 = lane_foot(bank_i, bank_f, lane, begin + u0, begin + u1, x, y, block)
                u -= begin
            else:
                u, d2 = change_foot(agents, slots, bank_i, bank_f, row, slot, e, u0, u1, x, y)
            if d2 < best:
                best = d2
                best_e = e
                best_u = u
                best_s = start + u
        start += length
    return best_s, best_e, best_u, ti.sqrt(best)


@ti.func
def lane_foot(
    bank_i: ti.template(),
    bank_f: ti.template(),
    lane: ti.i32,
    low: ti.f32,
    high: ti.f32,
    x: ti.f32,
    y: ti.f32,
    block: ti.template(),
):
    """The arc length from `low` to `high` of a lane nearest to (x, y), and the squared distance there."""
    row = bank_i[Head.LANES] + lane * LANE_INTS
    spacing = bank_f[bank_i[Head.F_LANES] + lane * LANE_FLOATS + LaneFloat.SPACING]
    last = bank_i[row + LaneInt.NUM_POINTS] - 2
    segments = bank_i[Head.F_SEGMENTS] + bank_i[row + LaneInt.POINT0] * SEGMENT_COLS
    t0 = low / spacing
    t1 = high / spacing
    k0 = ti.min(ti.cast(t0, ti.i32), last)
    total = ti.min(ti.cast(t1, ti.i32), last) + 1 - k0
    best = NONE
    best_t = 0.0
    best_d2 = 1e30
    for part in range((total + block - 1) // block):
        begin = k0 + part * block
        sx = ti.Vector.zero(ti.f32, block)
        sy = ti.Vector.zero(ti.f32, block)
        ex = ti.Vector.zero(ti.f32, block)
        ey = ti.Vector.zero(ti.f32, block)
        for k in range(ti.min(total - part * block, block)):
            q = segments + (begin + k) * SEGMENT_COLS
            sx[k] = bank_f[q + SegmentCol.X]
            sy[k] = bank_f[q + SegmentCol.Y]
            ex[k] = bank_f[q + SegmentCol.DX]
            ey[k] = bank_f[q + SegmentCol.DY]
        keys = ti.Vector.zero(ti.i32, block)
        places = ti.Vector.zero(ti.f32, block)
        squares = ti.Vector.zero(ti.f32, block)
        nearest = NONE
        for k in range(block):
            number = ti.cast(begin + k, ti.f32)
            from_t = ti.select(t0 > number, t0 - number, 0.0)
            to_t = ti.select(t1 - number < 1.0, t1 - number, 1.0)
            t, d2 = segment_foot(x - sx[k], y - sy[k], ex[k], ey[k], from_t, to_t)
            key = ti.select(part * block + k < total, sortable(d2), NONE)
            nearest = ti.select(key < nearest, key, nearest)
            keys[k] = key
            places[k] = number + t
            squares[k] = d2
        if nearest < best:
            best = nearest
            k = first_of(keys, nearest, block)
            best_t = places[k]
            best_d2 = squares[k]
    return best_t * spacing, best_d2


@ti.func
def change_foot(
    agents: ti.template(),
    slots: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    row: ti.i32,
    slot: ti.i32,
    e: ti.i32,
    low: ti.f32,
    high: ti.f32,
    x: ti.f32,
    y: ti.f32,
):
    """The arc length from `low` to `high` on lane change e nearest to (x, y), and the squared distance there."""
    pieces = ti.cast(ti.ceil((high - low) / CHORD_M), ti.i32)
    piece = (high - low) / ti.max(ti.cast(pieces, ti.f32), 1.0)
    best = 1e30
    best_u = low
    px = 0.0
    py = 0.0
    for k in range(pieces + 1):
        u = low + piece * ti.cast(k, ti.f32)
        p = entry_point(agents, slots, bank_i, bank_f, row, slot, e, u)
        t, d2 = segment_foot(x - px, y - py, p[0] - px, p[1] - py, 0.0, 1.0)
        if k > 0 and d2 < best:
            best = d2
            best_u = u - (1.0 - t) * piece
        px = p[0]
        py = p[1]
    return best_u, best
