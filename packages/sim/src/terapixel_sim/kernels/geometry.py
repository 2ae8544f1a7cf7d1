"""Boxes, segments and angles in the plane. Twin: `reference/geometry.py`.

A box is its centre, the cosine and sine of its yaw, and its half length and half width.
"""

from ..runtime import ti

PI = 3.141592653589793
TOUCH_M = 1e-3
"""Boxes this near count as touching."""


@ti.func
def wrap(angle: ti.f32) -> ti.f32:
    """The same angle in (-pi, pi]; for angles within a few turns of it."""
    return angle - 2.0 * PI * ti.ceil(angle / (2.0 * PI) - 0.5)


@ti.func
def cosine_sine(angle: ti.f32):
    """Cosine and sine to 2e-7, for angles within some hundred turns; much faster than the two alone.

    The angle less its nearest multiple of pi / 2, which is taken off in three parts so that few digits are lost, goes
    into minimax polynomials on [-pi / 4, pi / 4] (Moshier's Cephes library, sinf.c).
    """
    n = ti.floor(angle * (2.0 / PI) + 0.5)
    x = ((angle - n * 1.5703125) - n * 4.837512969970703125e-4) - n * 7.54978995489188e-8
    r = x * x
    s = x + x * r * (-1.6666654611e-1 + r * (8.3321608736e-3 - r * 1.9515295891e-4))
    c = 1.0 - 0.5 * r + r * r * (4.166664568298827e-2 + r * (-1.388731625493765e-3 + r * 2.443315711809948e-5))
    quarter = n - 4.0 * ti.floor(0.25 * n)
    odd = (quarter == 1.0) | (quarter == 3.0)
    cosine = ti.select(odd, s, c)
    sine = ti.select(odd, c, s)
    cosine = ti.select((quarter == 1.0) | (quarter == 2.0), -cosine, cosine)
    return cosine, ti.select(quarter >= 2.0, -sine, sine)


@ti.func
def arctan2(y: ti.f32, x: ti.f32) -> ti.f32:
    """The angle of (x, y) in [-pi, pi] to 4e-7 rad, 0 for (0, 0); much faster than the library's.

    The arc tangent of the smaller over the larger part, taken about 0 or pi / 4, by a minimax polynomial on
    [-tan(pi / 8), tan(pi / 8)] (Moshier's Cephes library, atanf.c), unfolded to the plane.
    """
    u = ti.abs(x)
    v = ti.abs(y)
    steep = v > u
    low = ti.select(steep, u, v)
    high = ti.select(steep, v, u)
    far = low > 0.4142135623730950 * high
    part = ti.select(far, high + low, high)
    q = ti.select(far, low - high, low) / ti.select(part > 0.0, part, 1.0)
    r = q * q
    p = (((8.05374449538e-2 * r - 1.38776856032e-1) * r + 1.99777106478e-1) * r - 3.33329491539e-1) * r * q + q
    angle = p + ti.select(far, 0.25 * PI, 0.0)
    angle = ti.select(steep, 0.5 * PI - angle, angle)
    angle = ti.select(x < 0.0, PI - angle, angle)
    return ti.select(y < 0.0, -angle, angle)


@ti.func
def exponential(x: ti.f32) -> ti.f32:
    """e^x to 3e-7 of it, for x in [-80, 80]; unlike the library's it is computed for many x side by side.

    2^n e^r with |r| <= ln(2) / 2, by a minimax polynomial (Moshier's Cephes library, expf.c).
    """
    n = ti.floor(1.44269504088896341 * x + 0.5)
    r = (x - n * 0.693359375) - n * -2.12194440e-4
    p = ((1.9875691500e-4 * r + 1.3981999507e-3) * r + 8.3334519073e-3) * r + 4.1665795894e-2
    p = ((p * r + 1.6666665459e-1) * r + 5.0000001201e-1) * r * r + r + 1.0
    return p * ti.bit_cast((ti.cast(n, ti.i32) + 127) << 23, ti.f32)


@ti.func
def angle_between(cross: ti.f32, dot: ti.f32) -> ti.f32:
    """The angle in [0, pi] of two directions by their cross and dot products, to 2e-5 rad; much faster than atan2.

    An odd polynomial for the arc tangent on [0, 1] (Abramowitz and Stegun 1964, 4.4.49), unfolded to the half plane.
    """
    c = ti.abs(cross)
    d = ti.abs(dot)
    steep = c > d
    q = ti.select(steep, d, c) / ti.select(steep, c, ti.select(d > 1e-30, d, 1.0))
    r = q * q
    p = 0.0208351 * r - 0.0851330
    p = p * r + 0.1801410
    p = p * r - 0.3302995
    p = p * r + 0.9998660
    angle = ti.select(steep, 0.5 * PI - p * q, p * q)
    return ti.select(dot < 0.0, PI - angle, angle)


@ti.func
def box_gap(
    dx: ti.f32,
    dy: ti.f32,
    ci: ti.f32,
    si: ti.f32,
    li: ti.f32,
    wi: ti.f32,
    cj: ti.f32,
    sj: ti.f32,
    lj: ti.f32,
    wj: ti.f32,
):
    """The largest separation of boxes i and j over their four axes, and that axis pointing from i to j.

    By the separating axis theorem it is negative iff the boxes overlap (then the least depth over these axes), and
    never more than the distance between them; it is at least the distance / sqrt(2).

    Args:
        dx: centre of j minus centre of i [m].
        dy: likewise.
        ci: cosine of the yaw of i.
        si: its sine.
        li: half length of i [m].
        wi: half width of i [m].
        cj: as for i.
        sj: as for i.
        lj: as for i.
        wj: as for i.
    """
    c = ci * cj + si * sj
    s = ti.abs(ci * sj - si * cj)
    c = ti.abs(c)
    ix = dx * ci + dy * si
    iy = dy * ci - dx * si
    jx = dx * cj + dy * sj
    jy = dy * cj - dx * sj
    gap = ti.abs(ix) - li - lj * c - wj * s
    side = ix
    nx = ci
    ny = si
    other = ti.abs(iy) - wi - lj * s - wj * c
    if other > gap:
        gap = other
        side = iy
        nx = -si
        ny = ci
    other = ti.abs(jx) - lj - li * c - wi * s
    if other > gap:
        gap = other
        side = jx
        nx = cj
        ny = sj
    other = ti.abs(jy) - wj - li * s - wi * c
    if other > gap:
        gap = other
        side = jy
        nx = -sj
        ny = cj
    if side < 0.0:
        nx = -nx
        ny = -ny
    return gap, nx, ny


@ti.func
def swept_boxes_touch(
    dx: ti.f32,
    dy: ti.f32,
    vx: ti.f32,
    vy: ti.f32,
    yaw_i: ti.f32,
    turn_i: ti.f32,
    li: ti.f32,
    wi: ti.f32,
    yaw_j: ti.f32,
    turn_j: ti.f32,
    lj: ti.f32,
    wj: ti.f32,
) -> ti.i32:
    """1 if two boxes touch while both move straight and turn evenly over one step, by conservative advancement.

    Along the separating axis of the present moment the gap closes no faster than the relative motion along it plus
    the turning of both half diagonals (Mirtich 1996, "Impulse-based dynamic simulation"), so time may
    advance by gap / rate without missing a contact.

    Args:
        dx: centre of j minus centre of i at the beginning [m].
        dy: likewise.
        vx: its change over the step [m].
        vy: likewise.
        yaw_i: yaw of i at the beginning.
        turn_i: its change over the step.
        li: half length of i [m].
        wi: half width of i [m].
        yaw_j: as for i.
        turn_j: as for i.
        lj: as for i.
        wj: as for i.
    """
    turning = ti.sqrt(li * li + wi * wi) * ti.abs(turn_i) + ti.sqrt(lj * lj + wj * wj) * ti.abs(turn_j)
    t = 0.0
    touch = 0
    moving = 1
    while moving == 1:
        pi = yaw_i + t * turn_i
        pj = yaw_j + t * turn_j
        ci, si = cosine_sine(pi)
        cj, sj = cosine_sine(pj)
        gap, nx, ny = box_gap(dx + t * vx, dy + t * vy, ci, si, li, wi, cj, sj, lj, wj)
        closing = -(vx * nx + vy * ny)
        rate = turning + ti.select(closing > 0.0, closing, 0.0)
        if gap > TOUCH_M and rate * (1.0 - t) > gap:
            t += gap / rate
        else:  # touching, or too far to touch any more; non-finite poses end here too
            moving = 0
            if gap <= TOUCH_M:
                touch = 1
    return touch


@ti.func
def segment_meets_box(
    ax: ti.f32, ay: ti.f32, bx: ti.f32, by: ti.f32, c: ti.f32, s: ti.f32, length: ti.f32, width: ti.f32
) -> ti.i32:
    """1 if segment a-b, relative to the box's centre, meets the box.

    The separating axes are the box's two and the segment's normal.
    """
    px = ax * c + ay * s
    py = ay * c - ax * s
    qx = bx * c + by * s
    qy = by * c - bx * s
    nx = py - qy
    ny = qx - px
    return ti.cast(
        (ti.abs(px + qx) - ti.abs(px - qx) <= 2.0 * length)
        & (ti.abs(py + qy) - ti.abs(py - qy) <= 2.0 * width)
        & (ti.abs(nx * px + ny * py) <= length * ti.abs(nx) + width * ti.abs(ny)),
        ti.i32,
    )


@ti.func
def left_of(px: ti.f32, py: ti.f32, ax: ti.f32, ay: ti.f32, bx: ti.f32, by: ti.f32) -> ti.i32:
    """1 if p lies on the line a-b or left of it."""
    return ti.cast((bx - ax) * (py - ay) - (by - ay) * (px - ax) >= 0.0, ti.i32)


@ti.func
def segments_cross(
    px: ti.f32, py: ti.f32, qx: ti.f32, qy: ti.f32, ax: ti.f32, ay: ti.f32, bx: ti.f32, by: ti.f32
) -> ti.i32:
    """1 if path p-q crosses segment a-b, half open: through the joint of two segments it crosses just one of them."""
    across = left_of(ax, ay, px, py, qx, qy) ^ left_of(bx, by, px, py, qx, qy)
    return across & (left_of(px, py, ax, ay, bx, by) ^ left_of(qx, qy, ax, ay, bx, by))


@ti.func
def path_distance(px: ti.f32, py: ti.f32, qx: ti.f32, qy: ti.f32, x: ti.f32, y: ti.f32) -> ti.f32:
    """Distance from a point to the path p-q, which may be a point [m]."""
    ex = qx - px
    ey = qy - py
    t = ((x - px) * ex + (y - py) * ey) / ti.max(ex * ex + ey * ey, 1e-12)
    t = ti.select(t > 0.0, t, 0.0)
    t = ti.select(t < 1.0, t, 1.0)
    gx = x - px - t * ex
    gy = y - py - t * ey
    return ti.sqrt(gx * gx + gy * gy)
