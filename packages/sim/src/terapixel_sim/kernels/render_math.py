"""What the renderer's kernels share: layouts of their buffers, and the scalar maths of boxes, ground, haze and colours.

Everything is drawn in the frame of the agent that looks: x forward, y left, z up, origin at its box centre on the
road. There a camera's rays are the same for every agent, `ray(x, y) = D0 + x DX + y DY` for pixel indices x, y,
scaled so that the ray parameter is the depth along the optical axis. Inverse depth `w` is then affine in x and y for
every plane, which is all the geometry there is: a box is six planes, the ground is one, and the greatest w is what is
seen.

Colours travel as three 10-bit fields, r | g << 10 | b << 20, so that four of them can be summed in one integer.
"""

from enum import IntEnum

from ..runtime import ti

F32 = ti.types.ndarray(ti.f32, 1)
I32 = ti.types.ndarray(ti.i32, 1)


class CameraF(IntEnum):
    """Floats of a camera; its ground taps follow."""

    MOUNT = 0  # x, y, z [m]
    RIGHT = 3  # camera axes in the vehicle frame
    DOWN = 6
    FORWARD = 9
    FX = 12  # intrinsics [px]
    FY = 13
    CX = 14
    CY = 15
    D0 = 16  # ray of pixel (0, 0) and its steps along x and y
    DX = 19
    DY = 22
    FAR = 25  # [m]
    W0 = 26  # inverse depth of the ground at pixel (0, 0) and its steps
    WX = 27
    WY = 28
    WFAR = 29  # 1 / far
    LEFT = 30  # tangents of the frustum's sides, and sqrt(1 + tangent^2) of each
    RIGHT_SIDE = 31
    TOP = 32
    BOTTOM = 33
    NORMS = 34  # four
    HAZE = 38  # log2(e) / haze distance; 0 in clear air
    SKY = 39  # r, g, b
    SIZE = 48


class CameraI(IntEnum):
    """Integers of a camera; a head for each chunk of pixels follows: (number of taps, where they begin)."""

    LUT = 0  # 256 colours of texels
    FACE = 256  # colours of a box's front, back, left, right, top, bottom
    SKY = 262
    SIZE = 264


class ViewF(IntEnum):
    """Floats of a view; its boxes follow."""

    COS = 0  # of the agent's yaw
    SIN = 1
    X = 2  # the agent's position from the corner of its map's tiles [m]
    Y = 3
    RANGE_X = 4  # extent of the tiles, a little less than full [m]
    RANGE_Y = 5
    SIZE = 8


class ViewI(IntEnum):
    """Integers of a view; its boxes follow."""

    COUNT = 0  # boxes in the list, or HIDDEN or KEEP
    TILES = 1  # where its map's tile table begins
    NX = 2  # tiles along x
    NY2 = 3  # twice the tiles along y
    SIZE = 8


HIDDEN = -1  # the agent has no camera: the image is black
KEEP = -2  # the world is masked out: the image stays as it is


class BoxF(IntEnum):
    """Floats of a box in a view: for each of its axes six numbers, then the squared distance of its centre."""

    U0 = 0  # scaled direction cosine of the ray of pixel (0, 0) with the axis, and its steps
    UX = 1
    UY = 2
    ENTRY = 3  # added to it gives w where the ray enters this slab (1e9 when the camera is inside the slab)
    EXIT_A = 4  # times it gives w where the ray leaves, the larger of both
    EXIT_B = 5
    AXIS = 6  # numbers an axis
    DISTANCE2 = 18
    SIZE = 19


class BoxI(IntEnum):
    """Integers of a box in a view."""

    X0 = 0  # pixels it can cover, inclusive
    X1 = 1
    Y0 = 2
    Y1 = 3
    COLOURS = 4  # of the face seen along each axis
    SIZE = 7


class MapHead(IntEnum):
    """Integers of a map at the head of the tile table."""

    X = 0  # corner of its tiles [m]
    Y = 1
    NX = 2  # tiles along x and y
    NY = 3
    TILES = 4  # where they begin
    SIZE = 5


TEXEL_M = 0.125  # side of a texel of level 0; each level doubles it
LEVELS = 6
TILE = 16  # texels along a tile's side
SKY_LEVEL = LEVELS  # taps that miss the ground use a level whose tiles are all sky
TEXEL_BITS = 0x41000000  # bits of the float 1 / TEXEL_M = 8: the exponent below them is the level
FIELD = 0xFF | 0xFF << 10 | 0xFF << 20
ONES = 1 | 1 << 10 | 1 << 20
NEAR_M = 0.1  # boxes nearer to the camera than this are not drawn


@ti.func
def larger(a, b):
    return ti.select(a > b, a, b)


@ti.func
def smaller(a, b):
    return ti.select(a < b, a, b)


@ti.func
def slab_test(u, v, s, ku, kv, ks, w):
    """Where a ray enters a box, if it does in front of w.

    u, v, s are the scaled direction cosines, ku, kv, ks the (ENTRY, EXIT_A, EXIT_B) of the axes.
    Returns (w of the entry, hit, axis that is entered).
    """
    eu, ev, es = u + ku[0], v + kv[0], s + ks[0]
    uv = smaller(eu, ev)
    entry = smaller(uv, es)
    axis = ti.select(uv < es, ti.select(eu < ev, 0, 1), 2)
    leave = larger(larger(u * ku[1], u * ku[2]), larger(v * kv[1], v * kv[2]))
    leave = larger(leave, larger(s * ks[1], s * ks[2]))
    return entry, entry > larger(leave, w), axis


@ti.func
def tap_texel(gx, gy, scale, cos, sin, x, y, range_x, range_y, nx, ny2):
    """The tile (index in its map's table) and the texel in it of one ground tap.

    `gx`, `gy` are the tap in the agent's frame in texels of its level, `scale` is texels a metre.
    """
    level = (TEXEL_BITS - ti.bit_cast(scale, ti.i32)) >> 23
    tx = x * scale + (cos * gx - sin * gy)
    ty = y * scale + (sin * gx + cos * gy)
    tx = smaller(larger(tx, 0.0), range_x * scale)
    ty = smaller(larger(ty, 0.0), range_y * scale)
    ix, iy = ti.cast(tx, ti.i32), ti.cast(ty, ti.i32)
    row = ny2 - (ny2 >> level)  # rows of tiles of the finer levels
    return (row + (iy >> 4)) * nx + (ix >> 4), ((iy & 15) << 4) | (ix & 15)


@ti.func
def mean_colour(total, taps):
    """Mean of 1, 2 or 4 summed colours, each channel rounded."""
    shift = taps >> 1
    return ((total + (taps >> 1) * ONES) >> shift) & FIELD


@ti.func
def exp2_negative(x):
    """2^x for x <= 0, relative error 1e-4: the exponent's bits times a minimax cubic of the rest."""
    x = larger(x, -120.0)
    whole = ti.cast(x, ti.i32) - 1
    f = x - ti.cast(whole, ti.f32)  # in (0, 1]
    p = 1.0 + f * (0.695424 + f * (0.226308 + f * 0.078268))
    return ti.bit_cast((whole + 127) << 23, ti.f32) * p


@ti.func
def hazed(colour, w, haze, sky_r, sky_g, sky_b):
    """The colour blended toward the sky's by 1 - exp(-z / haze distance)."""
    a = exp2_negative(-haze / w)
    r = ti.cast(colour & 255, ti.f32)
    g = ti.cast((colour >> 10) & 255, ti.f32)
    b = ti.cast((colour >> 20) & 255, ti.f32)
    r = sky_r + (r - sky_r) * a + 0.5
    g = sky_g + (g - sky_g) * a + 0.5
    b = sky_b + (b - sky_b) * a + 0.5
    return ti.cast(r, ti.i32) | (ti.cast(g, ti.i32) << 10) | (ti.cast(b, ti.i32) << 20)
