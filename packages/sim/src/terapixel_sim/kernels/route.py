"""Points on an agent's route, and the agent's place on it.

A route is a chain of entries (lane a, lane b, start on a, start on b, length). With a == b an entry follows one lane;
otherwise it is a lane change, whose position blends from a to b with the weight 3 t^2 - 2 t^3, t = u / length
(smoothstep), at equal arc lengths u on both. Twin: `reference/route.py`.
"""

from ..layout import AgentCol, Head, LaneFloat, LaneInt, PointCol, SlotCol
from ..runtime import ti
from .geometry import arctan2, cosine_sine
from .lane import LANE_FLOATS, LANE_INTS, POINT_COLS, lane_limit, lane_point, vec7

BEHIND_M = 5.0
"""How far behind the last place on the route the nearest point is looked for."""
AHEAD_M = 10.0
"""How far ahead, beyond the distance driven."""
CHORD_M = 1.0
"""Chord length on lane changes."""


@ti.func
def route_entry(agents: ti.template(), slots: ti.template(), w: ti.i32, a: ti.i32, s: ti.f32):
    """The entry that holds arc length `s` (the first or last one outside the route) and where it starts [m]."""
    last = slots[w, a, SlotCol.ENTRIES] - 1
    e = 0
    start = 0.0
    while e < last and s >= start + agents[w, a, AgentCol.ROUTE + 3 * e + 2]:
        start += agents[w, a, AgentCol.ROUTE + 3 * e + 2]
        e += 1
    return e, start


@ti.func
def entry_point(
    agents: ti.template(),
    slots: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    w: ti.i32,
    a: ti.i32,
    e: ti.i32,
    u: ti.f32,
) -> vec7:
    """The point at arc length `u` on entry `e`, straight on beyond its ends; columns as in `route_point`."""
    lane_a = slots[w, a, SlotCol.ROUTE + 2 * e]
    lane_b = slots[w, a, SlotCol.ROUTE + 2 * e + 1]
    start_a = agents[w, a, AgentCol.ROUTE + 3 * e]
    length = agents[w, a, AgentCol.ROUTE + 3 * e + 2]
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
        pb = lane_point(bank_i, bank_f, lane_b, agents[w, a, AgentCol.ROUTE + 3 * e + 1] + inner)
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
    w: ti.i32,
    a: ti.i32,
    s: ti.f32,
) -> vec7:
    """The route of agent `a` of world `w` at arc length `s` [m]; before its start and beyond its end straight on.

    Returns:
        x, y, z [m], cosine and sine of the heading, lane width [m], speed limit [m/s] (in a lane change that of the
        nearer lane).
    """
    e, start = route_entry(agents, slots, w, a, s)
    return entry_point(agents, slots, bank_i, bank_f, w, a, e, s - start)


@ti.func
def chord_foot(x: ti.f32, y: ti.f32, ax: ti.f32, ay: ti.f32, bx: ti.f32, by: ti.f32, low: ti.f32, high: ti.f32):
    """The fraction in [low, high] of the chord a-b nearest to (x, y), and the squared distance there."""
    ex = bx - ax
    ey = by - ay
    square = ex * ex + ey * ey
    t = ((x - ax) * ex + (y - ay) * ey) / ti.select(square > 1e-12, square, 1e-12)
    t = ti.select(t > low, t, low)
    t = ti.select(t < high, t, high)
    gx = x - ax - t * ex
    gy = y - ay - t * ey
    return t, gx * gx + gy * gy


@ti.func
def route_project(
    agents: ti.template(),
    slots: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    w: ti.i32,
    a: ti.i32,
    travelled: ti.f32,
):
    """The route point nearest to the agent, from 5 m behind its ROUTE_S to 10 m + `travelled` ahead of it.

    The window keeps the answer on the right branch where a route comes back to itself. On lanes the search runs over
    the lane's own segments, in lane changes over 1 m chords.

    Returns:
        (arc length s [m], entry, distance [m], lateral offset positive left [m], yaw minus route heading in (-pi, pi]).
    """
    x = agents[w, a, AgentCol.X]
    y = agents[w, a, AgentCol.Y]
    yaw = agents[w, a, AgentCol.YAW]
    low = agents[w, a, AgentCol.ROUTE_S] - BEHIND_M
    high = agents[w, a, AgentCol.ROUTE_S] + travelled + AHEAD_M
    best = 1e30
    best_e = 0
    best_u = 0.0
    best_s = 0.0
    start = 0.0
    for e in range(slots[w, a, SlotCol.ENTRIES]):
        length = agents[w, a, AgentCol.ROUTE + 3 * e + 2]
        if start > high:
            break
        if start + length >= low:
            u0 = ti.max(low - start, 0.0)
            u1 = ti.min(high - start, length)
            lane = slots[w, a, SlotCol.ROUTE + 2 * e]
            if lane == slots[w, a, SlotCol.ROUTE + 2 * e + 1]:
                row = bank_i[Head.LANES] + lane * LANE_INTS
                spacing = bank_f[bank_i[Head.F_LANES] + lane * LANE_FLOATS + LaneFloat.SPACING]
                last = bank_i[row + LaneInt.NUM_POINTS] - 2
                begin = agents[w, a, AgentCol.ROUTE + 3 * e]
                t0 = (begin + u0) / spacing
                t1 = (begin + u1) / spacing
                k0 = ti.min(ti.cast(t0, ti.i32), last)
                k1 = ti.min(ti.cast(t1, ti.i32), last)
                q0 = bank_i[Head.F_POINTS] + bank_i[row + LaneInt.POINT0] * POINT_COLS
                for k in range(k0, k1 + 1):
                    q = q0 + k * POINT_COLS
                    r = q + POINT_COLS
                    kf = ti.cast(k, ti.f32)
                    t, d2 = chord_foot(
                        x,
                        y,
                        bank_f[q + PointCol.X],
                        bank_f[q + PointCol.Y],
                        bank_f[r + PointCol.X],
                        bank_f[r + PointCol.Y],
                        ti.select(t0 > kf, t0 - kf, 0.0),
                        ti.select(t1 - kf < 1.0, t1 - kf, 1.0),
                    )
                    if d2 < best:
                        best = d2
                        best_e = e
                        best_u = (kf + t) * spacing - begin
                        best_s = start + best_u
            else:
                pieces = ti.cast(ti.ceil((u1 - u0) / CHORD_M), ti.i32)
                piece = (u1 - u0) / ti.max(ti.cast(pieces, ti.f32), 1.0)
                px = 0.0
                py = 0.0
                for k in range(pieces + 1):
                    u = u0 + piece * ti.cast(k, ti.f32)
                    p = entry_point(agents, slots, bank_i, bank_f, w, a, e, u)
                    t, d2 = chord_foot(x, y, px, py, p[0], p[1], 0.0, 1.0)
                    if k > 0 and d2 < best:
                        best = d2
                        best_e = e
                        best_u = u - (1.0 - t) * piece
                        best_s = start + best_u
                    px = p[0]
                    py = p[1]
        start += length
    foot = entry_point(agents, slots, bank_i, bank_f, w, a, best_e, best_u)
    cy, sy = cosine_sine(yaw)
    offset = foot[3] * (y - foot[1]) - foot[4] * (x - foot[0])
    heading = arctan2(foot[3] * sy - foot[4] * cy, foot[3] * cy + foot[4] * sy)
    return best_s, best_e, ti.sqrt(best), offset, heading
