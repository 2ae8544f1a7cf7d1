"""The shade kernels: a view's coefficients become colours, by rows on CPUs, by pixels on GPUs, with equal pictures."""

from ..runtime import ti
from .render_math import (
    F32,
    HIDDEN,
    I32,
    BoxF,
    BoxI,
    CameraF,
    CameraI,
    ViewF,
    ViewI,
    hazed,
    larger,
    mean_colour,
    slab_test,
    tap_texel,
)

U8 = ti.types.ndarray(ti.u8, 1)
I64 = ti.types.ndarray(ti.i64, 1)
SPAN = 16  # pixels a box is drawn in at a time


@ti.func
def axis_constants(view_f: ti.template(), at):
    return ti.Vector([view_f[at + int(BoxF.ENTRY)], view_f[at + int(BoxF.EXIT_A)], view_f[at + int(BoxF.EXIT_B)]])


@ti.func
def axis_start(view_f: ti.template(), at, x, y):
    """Scaled direction cosine at a pixel."""
    return view_f[at + int(BoxF.U0)] + y * view_f[at + int(BoxF.UY)] + x * view_f[at + int(BoxF.UX)]


@ti.func
def row_ground(
    chunk: ti.template(), taps, start, head_f, head_i,
    view_f: ti.template(), view_i: ti.template(), camera_f: ti.template(), camera_i: ti.template(),
    tiles: ti.template(), texels: ti.template(), colour: ti.template(),
):  # fmt: skip
    """Ground colours of one chunk of a row into the local vector `colour`."""
    cos, sin = view_f[head_f + int(ViewF.COS)], view_f[head_f + int(ViewF.SIN)]
    vx, vy = view_f[head_f + int(ViewF.X)], view_f[head_f + int(ViewF.Y)]
    range_x, range_y = view_f[head_f + int(ViewF.RANGE_X)], view_f[head_f + int(ViewF.RANGE_Y)]
    table, nx, ny2 = view_i[head_i + int(ViewI.TILES)], view_i[head_i + int(ViewI.NX)], view_i[head_i + int(ViewI.NY2)]
    # each step has its own loop: the arithmetic vectorises, and the look-ups of different pixels overlap in time
    tile = ti.Vector.zero(ti.i32, chunk)
    inner = ti.Vector.zero(ti.i32, chunk)
    for tap in range(taps):
        at = start + tap * 3 * chunk
        for x in range(chunk):
            tile[x], inner[x] = tap_texel(
                camera_f[at + x], camera_f[at + chunk + x], camera_f[at + 2 * chunk + x],
                cos, sin, vx, vy, range_x, range_y, nx, ny2,
            )  # fmt: skip
        for x in range(chunk):
            tile[x] = tiles[table + tile[x]] + inner[x]
        for x in range(chunk):
            tile[x] = ti.cast(texels[tile[x]], ti.i32)
        for x in range(chunk):
            tile[x] = camera_i[int(CameraI.LUT) + tile[x]]
        for x in range(chunk):
            colour[x] += tile[x]
    for x in range(chunk):
        colour[x] = mean_colour(colour[x], taps)


@ti.func
def row_boxes(
    chunk: ti.template(), count, x_first, y, head_f, head_i,
    view_f: ti.template(), view_i: ti.template(), depth: ti.template(), colour: ti.template(),
):  # fmt: skip
    """Draw a view's boxes over one chunk of a row; `depth` holds inverse depths."""
    for k in range(count):
        i = head_i + int(ViewI.SIZE) + k * int(BoxI.SIZE)
        x0, x1 = view_i[i + int(BoxI.X0)] - x_first, view_i[i + int(BoxI.X1)] - x_first
        if y >= view_i[i + int(BoxI.Y0)] and y <= view_i[i + int(BoxI.Y1)] and x0 < chunk and x1 >= 0:
            a = head_f + int(ViewF.SIZE) + k * int(BoxF.SIZE)
            b, c = a + int(BoxF.AXIS), a + 2 * int(BoxF.AXIS)
            fx, fy = ti.cast(x_first, ti.f32), ti.cast(y, ti.f32)
            u0, v0, s0 = axis_start(view_f, a, fx, fy), axis_start(view_f, b, fx, fy), axis_start(view_f, c, fx, fy)
            ux, vx, sx = view_f[a + int(BoxF.UX)], view_f[b + int(BoxF.UX)], view_f[c + int(BoxF.UX)]
            ku, kv, ks = axis_constants(view_f, a), axis_constants(view_f, b), axis_constants(view_f, c)
            cu, cv, cs = (
                view_i[i + int(BoxI.COLOURS)],
                view_i[i + int(BoxI.COLOURS) + 1],
                view_i[i + int(BoxI.COLOURS) + 2],
            )
            for span in range(ti.max(x0, 0) // SPAN, ti.min(x1, chunk - 1) // SPAN + 1):
                for j in range(SPAN):
                    x = span * SPAN + j
                    f = ti.cast(x, ti.f32)
                    entry, hit, axis = slab_test(u0 + ux * f, v0 + vx * f, s0 + sx * f, ku, kv, ks, depth[x])
                    depth[x] = ti.select(hit, entry, depth[x])
                    colour[x] = ti.select(hit, ti.select(axis == 0, cu, ti.select(axis == 1, cv, cs)), colour[x])


@ti.func
def as_bytes(colour):
    """A colour with 8 bits a channel."""
    return (colour & 0xFF) | ((colour >> 2) & 0xFF00) | ((colour >> 4) & 0xFF0000)


@ti.func
def pixel_pair(colour: ti.template(), x):
    """Pixels x and x + 4 as the two halves of a word."""
    return ti.cast(colour[x], ti.i64) | (ti.cast(colour[x + 4], ti.i64) << 32)


@ti.func
def planes(colour: ti.template(), x):
    """The red, green and blue bytes of pixels x to x + 7, each channel in one word: a transposition of bytes.

    `colour` holds bytes. Red and blue share the even bytes, green has an odd one, and so pairs of pixels merge
    without overlap.
    """
    even, low, byte = ti.i64(0x00FF00FF00FF00FF), ti.i64(0x0000FFFF0000FFFF), ti.i64(0x000000FF000000FF)
    p0, p1, p2, p3 = (
        pixel_pair(colour, x),
        pixel_pair(colour, x + 1),
        pixel_pair(colour, x + 2),
        pixel_pair(colour, x + 3),
    )
    a = (p0 & even) | ((p1 & even) << 8)  # r0 r1 b0 b1
    b = (p2 & even) | ((p3 & even) << 8)
    red = (a & low) | ((b & low) << 16)
    blue = ((a >> 16) & low) | (((b >> 16) & low) << 16)
    green = ((p0 >> 8) & byte) | (p1 & (byte << 8)) | (((p2 >> 8) & byte) << 16) | ((p3 & (byte << 8)) << 16)
    return red, green, blue


@ti.kernel
def shade_rows(
    views: ti.i32,
    capacity: ti.i32,
    width: ti.i32,
    height: ti.i32,
    chunk: ti.template(),
    packed: ti.template(),
    hazy: ti.template(),
    view_f: F32,
    view_i: I32,
    camera_f: F32,
    camera_i: I32,
    tiles: I32,
    texels: U8,
    out: ti.types.ndarray(ndim=1),
):
    """Draw every view into `out` [views, 3, height, width], as i64 words of 8 pixels if `packed`, else as bytes.

    One work item is a row; it is drawn in chunks of pixels held in local vectors, the only form that LLVM vectorises.
    """
    chunks = (width + chunk - 1) // chunk
    for item in range(views * height):
        v = item // height
        y = item - v * height
        head_f = v * (int(ViewF.SIZE) + capacity * int(BoxF.SIZE))
        head_i = v * (int(ViewI.SIZE) + capacity * int(BoxI.SIZE))
        count = view_i[head_i + int(ViewI.COUNT)]
        if count >= HIDDEN:
            for part in range(chunks):
                x_first = part * chunk
                depth = ti.Vector.zero(ti.f32, chunk)
                colour = ti.Vector.zero(ti.i32, chunk)
                if count >= 0:
                    w0 = camera_f[int(CameraF.W0)] + ti.cast(y, ti.f32) * camera_f[int(CameraF.WY)]
                    wx, wfar = camera_f[int(CameraF.WX)], camera_f[int(CameraF.WFAR)]
                    for x in range(chunk):
                        depth[x] = larger(w0 + wx * ti.cast(x_first + x, ti.f32), wfar)
                    head = int(CameraI.SIZE) + 2 * (y * chunks + part)
                    taps, start = camera_i[head], camera_i[head + 1]
                    if taps > 0:
                        row_ground(
                            chunk,
                            taps,
                            start,
                            head_f,
                            head_i,
                            view_f,
                            view_i,
                            camera_f,
                            camera_i,
                            tiles,
                            texels,
                            colour,
                        )
                    else:
                        sky = camera_i[int(CameraI.SKY)]
                        for x in range(chunk):
                            colour[x] = sky
                    row_boxes(chunk, count, x_first, y, head_f, head_i, view_f, view_i, depth, colour)
                    if ti.static(hazy):
                        haze, at = camera_f[int(CameraF.HAZE)], int(CameraF.SKY)
                        sky_r, sky_g, sky_b = camera_f[at], camera_f[at + 1], camera_f[at + 2]
                        for x in range(chunk):
                            colour[x] = hazed(colour[x], depth[x], haze, sky_r, sky_g, sky_b)
                first, plane, pixels = (
                    (v * 3 * height + y) * width + x_first,
                    height * width,
                    ti.min(width - x_first, chunk),
                )
                if ti.static(packed):
                    for x in range(chunk):
                        colour[x] = as_bytes(colour[x])
                    for j in range(pixels // 8):
                        red, green, blue = planes(colour, 8 * j)
                        out[first // 8 + j] = red
                        out[(first + plane) // 8 + j] = green
                        out[(first + 2 * plane) // 8 + j] = blue
                else:
                    for x in range(pixels):
                        for channel in ti.static(range(3)):
                            out[first + channel * plane + x] = ti.cast((colour[x] >> (10 * channel)) & 255, ti.u8)


@ti.kernel
def shade_pixels(
    views: ti.i32,
    capacity: ti.i32,
    width: ti.i32,
    height: ti.i32,
    chunk: ti.template(),
    hazy: ti.template(),
    view_f: F32,
    view_i: I32,
    camera_f: F32,
    camera_i: I32,
    tiles: I32,
    texels: U8,
    out: U8,
):
    """The same picture with one thread a pixel."""
    chunks = (width + chunk - 1) // chunk
    ti.loop_config(block_dim=128)
    for item in range(views * height * width):
        v = item // (height * width)
        pixel = item - v * (height * width)
        y = pixel // width
        x = pixel - y * width
        head_f = v * (int(ViewF.SIZE) + capacity * int(BoxF.SIZE))
        head_i = v * (int(ViewI.SIZE) + capacity * int(BoxI.SIZE))
        count = view_i[head_i + int(ViewI.COUNT)]
        if count >= HIDDEN:
            colour = 0
            if count >= 0:
                fx, fy = ti.cast(x, ti.f32), ti.cast(y, ti.f32)
                w0 = camera_f[int(CameraF.W0)] + fy * camera_f[int(CameraF.WY)]
                w = larger(w0 + camera_f[int(CameraF.WX)] * fx, camera_f[int(CameraF.WFAR)])
                boxed = False
                for k in range(count):
                    i = head_i + int(ViewI.SIZE) + k * int(BoxI.SIZE)
                    if (
                        x >= view_i[i + int(BoxI.X0)]
                        and x <= view_i[i + int(BoxI.X1)]
                        and y >= view_i[i + int(BoxI.Y0)]
                        and y <= view_i[i + int(BoxI.Y1)]
                    ):
                        a = head_f + int(ViewF.SIZE) + k * int(BoxF.SIZE)
                        b, c = a + int(BoxF.AXIS), a + 2 * int(BoxF.AXIS)
                        entry, hit, axis = slab_test(
                            axis_start(view_f, a, fx, fy), axis_start(view_f, b, fx, fy), axis_start(view_f, c, fx, fy),
                            axis_constants(view_f, a), axis_constants(view_f, b), axis_constants(view_f, c), w,
                        )  # fmt: skip
                        if hit:
                            w = entry
                            colour = view_i[i + int(BoxI.COLOURS) + axis]
                            boxed = True
                if not boxed:
                    part = x // chunk
                    head = int(CameraI.SIZE) + 2 * (y * chunks + part)
                    taps, start = camera_i[head], camera_i[head + 1] + x - part * chunk
                    table = view_i[head_i + int(ViewI.TILES)]
                    for tap in range(taps):
                        at = start + tap * 3 * chunk
                        tile, inner = tap_texel(
                            camera_f[at], camera_f[at + chunk], camera_f[at + 2 * chunk],
                            view_f[head_f + int(ViewF.COS)], view_f[head_f + int(ViewF.SIN)],
                            view_f[head_f + int(ViewF.X)], view_f[head_f + int(ViewF.Y)],
                            view_f[head_f + int(ViewF.RANGE_X)], view_f[head_f + int(ViewF.RANGE_Y)],
                            view_i[head_i + int(ViewI.NX)], view_i[head_i + int(ViewI.NY2)],
                        )  # fmt: skip
                        colour += camera_i[int(CameraI.LUT) + ti.cast(texels[tiles[table + tile] + inner], ti.i32)]
                    if taps > 0:
                        colour = mean_colour(colour, taps)
                    else:
                        colour = camera_i[int(CameraI.SKY)]
                if ti.static(hazy):
                    at = int(CameraF.SKY)
                    colour = hazed(
                        colour, w, camera_f[int(CameraF.HAZE)], camera_f[at], camera_f[at + 1], camera_f[at + 2]
                    )
            first = v * 3 * height * width + pixel
            for channel in ti.static(range(3)):
                out[first + channel * height * width] = ti.cast((colour >> (10 * channel)) & 255, ti.u8)
