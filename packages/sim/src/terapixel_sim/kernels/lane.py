"""Where a lane is, and which lane an agent is on.

The bank's arrays (see `layout.Head`) are passed as templates. Twin: `reference/lane.py`.
"""

from ..layout import Head, LaneFloat, LaneInt, MapFloat, MapInt, PointCol
from ..runtime import ti
from .geometry import angle_between, arctan2, cosine_sine

LANE_INTS = len(LaneInt)
LANE_FLOATS = len(LaneFloat)
MAP_INTS = len(MapInt)
MAP_FLOATS = len(MapFloat)
POINT_COLS = len(PointCol)

LEVEL_M = 4.0
"""Things whose heights differ by this much or more lie on different levels (a bridge and the road below)."""
DISTANCE_WEIGHT = 0.7 / 4.0
HEADING_WEIGHT = 0.3 / 3.141592653589793
HYSTERESIS = 0.05
GOOD_SCORE = 0.2

vec7 = ti.types.vector(7, ti.f32)


@ti.func
def lane_length(bank_i: ti.template(), bank_f: ti.template(), lane: ti.i32) -> ti.f32:
    """Arc length of a lane [m]."""
    return bank_f[bank_i[Head.F_LANES] + lane * LANE_FLOATS + LaneFloat.LENGTH]


@ti.func
def lane_limit(bank_i: ti.template(), bank_f: ti.template(), lane: ti.i32) -> ti.f32:
    """Speed limit of a lane [m/s]."""
    return bank_f[bank_i[Head.F_LANES] + lane * LANE_FLOATS + LaneFloat.LIMIT]


@ti.func
def lane_point(bank_i: ti.template(), bank_f: ti.template(), lane: ti.i32, s: ti.f32) -> vec7:
    """The centre line at arc length `s`, which is clamped to [0, LENGTH].

    Returns:
        x, y, z [m], cosine and sine of the heading, lane width [m], grade dz/ds. Linear between the lane's evenly
        spaced points; the tangent is renormalised.
    """
    row = bank_i[Head.LANES] + lane * LANE_INTS
    last = bank_i[row + LaneInt.NUM_POINTS] - 2
    spacing = bank_f[bank_i[Head.F_LANES] + lane * LANE_FLOATS + LaneFloat.SPACING]
    t = s / spacing
    t = ti.select(t > 0.0, t, 0.0)
    k = ti.cast(t, ti.i32)
    k = ti.select(k < last, k, last)
    u = t - ti.cast(k, ti.f32)
    u = ti.select(u < 1.0, u, 1.0)
    q = bank_i[Head.F_POINTS] + (bank_i[row + LaneInt.POINT0] + k) * POINT_COLS
    r = q + POINT_COLS
    z0 = bank_f[q + PointCol.Z]
    dz = bank_f[r + PointCol.Z] - z0
    c0 = bank_f[q + PointCol.COS]
    s0 = bank_f[q + PointCol.SIN]
    c = c0 + u * (bank_f[r + PointCol.COS] - c0)
    n = s0 + u * (bank_f[r + PointCol.SIN] - s0)
    norm = 1.0 / ti.sqrt(c * c + n * n)
    x0 = bank_f[q + PointCol.X]
    y0 = bank_f[q + PointCol.Y]
    w0 = bank_f[q + PointCol.WIDTH]
    return vec7(
        x0 + u * (bank_f[r + PointCol.X] - x0),
        y0 + u * (bank_f[r + PointCol.Y] - y0),
        z0 + u * dz,
        c * norm,
        n * norm,
        w0 + u * (bank_f[r + PointCol.WIDTH] - w0),
        dz / spacing,
    )


@ti.func
def cell_at(bank_i: ti.template(), bank_f: ti.template(), map_id: ti.i32, x: ti.f32, y: ti.f32) -> ti.i32:
    """The grid cell (bank-wide number) of map `map_id` that holds a point, or -1 outside the grid."""
    mf = bank_i[Head.F_MAPS] + map_id * MAP_FLOATS
    mi = bank_i[Head.MAPS] + map_id * MAP_INTS
    side = bank_f[mf + MapFloat.CELL]
    nx = bank_i[mi + MapInt.NX]
    fx = ti.floor((x - bank_f[mf + MapFloat.ORIGIN_X]) / side)
    fy = ti.floor((y - bank_f[mf + MapFloat.ORIGIN_Y]) / side)
    cell = -1
    # compared as floats: a far away or non-finite position must not overflow the integer
    if fx >= 0.0 and fy >= 0.0 and fx < ti.cast(nx, ti.f32) and fy < ti.cast(bank_i[mi + MapInt.NY], ti.f32):
        cell = bank_i[mi + MapInt.CELL0] + ti.cast(fy, ti.i32) * nx + ti.cast(fx, ti.i32)
    return cell


@ti.func
def farther(score: ti.f32) -> ti.f32:
    """Square of the distance beyond which no segment can score better [m2]."""
    reach = (score + HYSTERESIS) / DISTANCE_WEIGHT
    return reach * reach


@ti.func
def nearest_lane(
    bank_i: ti.template(),
    bank_f: ti.template(),
    map_id: ti.i32,
    x: ti.f32,
    y: ti.f32,
    z: ti.f32,
    yaw: ti.f32,
    previous: ti.i32,
):
    """The lane that fits a pose best, by the lowest score 0.7 distance / 4 m + 0.3 |heading error| / pi.

    The distance is that to the nearest centre-line segment of the cell's list (not the lateral offset); the lane
    `previous` gets 0.05 off, so that an agent between two lanes does not flicker. Segments on another level are left
    out. A cell lists just the segments that can win in it (`maps/grid.py`), so the answer is that of all segments, for
    agents within 3 m of the height of their lane.

    Args:
        bank_i: integers of the map bank.
        bank_f: its floats.
        map_id: index of the map in the bank.
        x: position [m].
        y: position [m].
        z: road height [m].
        yaw: heading [rad].
        previous: the lane of the step before, or -1.

    Returns:
        (lane or -1, arc length on it [m], lateral offset positive left [m], yaw minus lane heading in (-pi, pi],
        1 if the point lies within half a width of some lane, 1 if one of those leads within 90 degrees of yaw,
        the centre line there as `lane_point` gives it).
    """
    cell = cell_at(bank_i, bank_f, map_id, x, y)
    points = bank_i[Head.F_POINTS]
    cy, sy = cosine_sine(yaw)
    best = 0.0
    reach2 = 0.0
    best_point = -1
    best_u = 0.0
    inside = 0
    aligned = 0
    if cell >= 0:
        items = bank_i[Head.CELL_LANE_ITEMS]
        point_lane = bank_i[Head.POINT_LANE]
        first = bank_i[bank_i[Head.CELL_LANES] + cell]
        end = bank_i[bank_i[Head.CELL_LANES] + cell + 1]
        for attempt in range(2):
            # most agents score well; then a low first bound spares most segments the rest, and the answer is the same
            if best_point < 0:
                best = ti.select(attempt == 0, GOOD_SCORE, 1e15)
                reach2 = farther(best)
                for item in range(first, end):
                    p = bank_i[items + item]
                    q = points + p * POINT_COLS
                    ax = bank_f[q + PointCol.X]
                    ay = bank_f[q + PointCol.Y]
                    ex = bank_f[q + POINT_COLS + PointCol.X] - ax
                    ey = bank_f[q + POINT_COLS + PointCol.Y] - ay
                    ox = x - ax
                    oy = y - ay
                    u = (ox * ex + oy * ey) / (ex * ex + ey * ey)
                    u = ti.select(u > 0.0, u, 0.0)
                    u = ti.select(u < 1.0, u, 1.0)
                    gx = ox - u * ex
                    gy = oy - u * ey
                    d2 = gx * gx + gy * gy
                    half = 0.5 * bank_f[q + PointCol.WIDTH]
                    near = (d2 < reach2) | (d2 <= half * half)
                    if near & (ti.abs(bank_f[q + PointCol.Z] - z) < LEVEL_M):
                        tx = bank_f[q + PointCol.COS]
                        ty = bank_f[q + PointCol.SIN]
                        tx += u * (bank_f[q + POINT_COLS + PointCol.COS] - tx)
                        ty += u * (bank_f[q + POINT_COLS + PointCol.SIN] - ty)
                        dot = tx * cy + ty * sy
                        if d2 <= half * half:
                            inside = 1
                            aligned |= ti.cast(dot > 0.0, ti.i32)
                        if d2 < reach2:
                            error = angle_between(tx * sy - ty * cy, dot)
                            score = DISTANCE_WEIGHT * ti.sqrt(d2) + HEADING_WEIGHT * error
                            score -= ti.select(bank_i[point_lane + p] == previous, HYSTERESIS, 0.0)
                            if score < best:
                                best = score
                                best_point = p
                                best_u = u
                                reach2 = farther(best)
    lane = -1
    s = 0.0
    offset = 0.0
    heading = 0.0
    foot = vec7(0.0)
    if best_point >= 0:
        lane = bank_i[bank_i[Head.POINT_LANE] + best_point]
        k = ti.cast(best_point - bank_i[bank_i[Head.LANES] + lane * LANE_INTS + LaneInt.POINT0], ti.f32)
        s = (k + best_u) * bank_f[bank_i[Head.F_LANES] + lane * LANE_FLOATS + LaneFloat.SPACING]
        foot = lane_point(bank_i, bank_f, lane, s)
        offset = foot[3] * (y - foot[1]) - foot[4] * (x - foot[0])
        heading = arctan2(foot[3] * sy - foot[4] * cy, foot[3] * cy + foot[4] * sy)
    return lane, s, offset, heading, inside, aligned, foot
