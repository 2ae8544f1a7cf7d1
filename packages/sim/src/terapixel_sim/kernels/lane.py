"""Where a lane is, and which lane an agent is on.

The bank's arrays (see `layout.Head`) are passed as templates. Twin: `reference/lane.py`.
"""

from ..layout import Head, LaneFloat, LaneInt, MapFloat, MapInt, PointCol, SegmentCol
from ..runtime import ti
from .geometry import angle_between

LANE_INTS = len(LaneInt)
LANE_FLOATS = len(LaneFloat)
MAP_INTS = len(MapInt)
MAP_FLOATS = len(MapFloat)
POINT_COLS = len(PointCol)
SEGMENT_COLS = len(SegmentCol)

LEVEL_M = 4.0
"""Things whose heights differ by this much or more lie on different levels (a bridge and the road below)."""
DISTANCE_WEIGHT = 0.7 / 4.0
HEADING_WEIGHT = 0.3 / 3.141592653589793
HYSTERESIS = 0.05
NONE = 2147483647
"""Worse than every key."""

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
    return segment_point(bank_i, bank_f, bank_i[row + LaneInt.POINT0] + k, u, spacing)


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
def near_cell(bank_i: ti.template(), bank_f: ti.template(), map_id: ti.i32, x: ti.f32, y: ti.f32) -> ti.i32:
    """The map's near cell that holds (x, y), or the nearest one from outside the grid."""
    record = bank_i[Head.MAPS] + map_id * MAP_INTS
    frame = bank_i[Head.F_MAPS] + map_id * MAP_FLOATS
    nx = bank_i[record + MapInt.NEAR_NX]
    ny = bank_i[record + MapInt.NEAR_NY]
    side = bank_f[frame + MapFloat.NEAR_CELL]
    # clipped as floats first: a far away float has no integer
    ix = ti.min(ti.max((x - bank_f[frame + MapFloat.ORIGIN_X]) / side, 0.0), ti.cast(nx - 1, ti.f32))
    iy = ti.min(ti.max((y - bank_f[frame + MapFloat.ORIGIN_Y]) / side, 0.0), ti.cast(ny - 1, ti.f32))
    return bank_i[record + MapInt.NEAR0] + ti.cast(iy, ti.i32) * nx + ti.cast(ix, ti.i32)


@ti.func
def sortable(value: ti.f32) -> ti.i32:
    """An integer that orders as the float does; the minimum of many is found faster among integers."""
    bits = ti.bit_cast(value, ti.i32)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@ti.func
def best_segment(
    bank_i: ti.template(),
    bank_f: ti.template(),
    first: ti.i32,
    total: ti.i32,
    x: ti.f32,
    y: ti.f32,
    z: ti.f32,
    cosine: ti.f32,
    sine: ti.f32,
    previous: ti.i32,
    block: ti.template(),
):
    """The segment of a cell's list that fits a pose best, by the lowest score 0.7 distance / 4 m + 0.3 |error| / pi.

    The distance is that to the segment (not the lateral offset); the error is between the heading and the segment's
    direction there, e + (u - 1/2) BEND e' at part u, with e' to the left of e. The lane `previous` gets 0.05 off, so
    that an agent between two lanes does not flicker. Segments on another level are left out. A cell lists just the
    segments that can win in it (`maps/grid.py`), so the answer is that of all segments, for agents within 3 m of the
    height of their lane.

    Args:
        bank_i: integers of the map bank.
        bank_f: its floats.
        first: where the points of the cell's list begin in `bank_i`.
        total: how many they are.
        x: position [m].
        y: position [m].
        z: road height [m].
        cosine: of the heading.
        sine: of the heading.
        previous: the lane of the step before, or -1.
        block: how many segments are scored side by side: 16 on a CPU, whose compiler vectorises it, 1 on a GPU.

    Returns:
        (its first point or -1, the place on it in [0, 1], 1 if the position lies within half a width of some lane,
        1 if one of those leads within 90 degrees of the heading).
    """
    best = NONE
    best_point = -1
    best_u = 0.0
    inside = 0
    aligned = 0
    segments = bank_i[Head.F_SEGMENTS]
    last_lane = ti.cast(previous, ti.f32)
    for part in range((total + block - 1) // block):
        items = first + part * block
        count = ti.min(total - part * block, block)
        sx = ti.Vector.zero(ti.f32, block)
        sy = ti.Vector.zero(ti.f32, block)
        ex = ti.Vector.zero(ti.f32, block)
        ey = ti.Vector.zero(ti.f32, block)
        bend = ti.Vector.zero(ti.f32, block)
        half2 = ti.Vector.zero(ti.f32, block)
        height = ti.Vector.zero(ti.f32, block)
        lane = ti.Vector.zero(ti.f32, block)
        for k in range(count):
            q = segments + bank_i[items + k] * SEGMENT_COLS
            sx[k] = bank_f[q + SegmentCol.X]
            sy[k] = bank_f[q + SegmentCol.Y]
            ex[k] = bank_f[q + SegmentCol.DX]
            ey[k] = bank_f[q + SegmentCol.DY]
            bend[k] = bank_f[q + SegmentCol.BEND]
            half2[k] = bank_f[q + SegmentCol.HALF_WIDTH_2]
            height[k] = bank_f[q + SegmentCol.Z]
            lane[k] = bank_f[q + SegmentCol.LANE]
        keys = ti.Vector.zero(ti.i32, block)
        places = ti.Vector.zero(ti.f32, block)
        low = NONE
        some_inside = 0
        some_aligned = 0
        for k in range(block):
            u, d2 = segment_foot(x - sx[k], y - sy[k], ex[k], ey[k], 0.0, 1.0)
            turn = (u - 0.5) * bend[k]
            tx = ex[k] - turn * ey[k]
            ty = ey[k] + turn * ex[k]
            dot = tx * cosine + ty * sine
            error = angle_between(tx * sine - ty * cosine, dot)
            score = DISTANCE_WEIGHT * ti.sqrt(d2) + HEADING_WEIGHT * error
            score -= ti.select(lane[k] == last_lane, HYSTERESIS, 0.0)
            counts = (k < count) & (ti.abs(height[k] - z) < LEVEL_M)
            key = ti.select(counts, sortable(score), NONE)
            low = ti.select(key < low, key, low)
            keys[k] = key
            places[k] = u
            held = ti.select(counts & (d2 <= half2[k]), 1, 0)
            some_inside |= held
            some_aligned |= ti.select(dot > 0.0, held, 0)
        inside |= some_inside
        aligned |= some_aligned
        if low < best:
            best = low
            k = first_of(keys, low, block)
            best_point = bank_i[items + k]
            best_u = places[k]
    return best_point, best_u, inside, aligned


@ti.func
def segment_foot(ox: ti.f32, oy: ti.f32, ex: ti.f32, ey: ti.f32, low: ti.f32, high: ti.f32):
    """The part in [low, high] of segment e nearest to o, seen from its start, and the squared distance."""
    square = ex * ex + ey * ey
    u = (ox * ex + oy * ey) / ti.select(square > 1e-12, square, 1e-12)
    u = ti.select(u > low, u, low)
    u = ti.select(u < high, u, high)
    gx = ox - u * ex
    gy = oy - u * ey
    return u, gx * gx + gy * gy


@ti.func
def first_of(keys: ti.template(), key: ti.i32, block: ti.template()) -> ti.i32:
    """The first place of a key among keys."""
    place = block - 1
    for k in range(block):
        here = ti.select(keys[k] == key, k, block)
        place = ti.select(here < place, here, place)
    return place


@ti.func
def segment_point(bank_i: ti.template(), bank_f: ti.template(), p: ti.i32, u: ti.f32, spacing: ti.f32) -> vec7:
    """The centre line at part u of the segment that begins at point p; columns as in `lane_point`."""
    q = bank_i[Head.F_POINTS] + p * POINT_COLS
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
