"""The setup kernel: what each view can see of the other agents' boxes, as coefficients for the shade kernels."""

from ..layout import AgentCol, SlotCol, Status, WorldCol
from ..runtime import ti
from .render_math import F32, HIDDEN, I32, KEEP, NEAR_M, BoxF, BoxI, CameraF, CameraI, MapHead, ViewF, ViewI

U8 = ti.types.ndarray(ti.u8, 1)


@ti.func
def is_solid(status):
    return (status == int(Status.LIVE)) | (status == int(Status.STOPPED)) | (status == int(Status.TIMED_OUT))


@ti.func
def load3(a: ti.template(), i):
    return ti.Vector([a[i], a[i + 1], a[i + 2]])


@ti.func
def to_camera(v, camera: ti.template()):
    """A vector of the vehicle frame in camera axes."""
    return ti.Vector(
        [
            v.dot(load3(camera, int(CameraF.RIGHT))),
            v.dot(load3(camera, int(CameraF.DOWN))),
            v.dot(load3(camera, int(CameraF.FORWARD))),
        ]
    )


@ti.func
def in_frustum(p, radius, camera: ti.template()):
    """Whether a sphere (camera axes) reaches into the frustum up to the far depth."""
    k = int(CameraF.NORMS)
    return (
        (p[2] > -radius)
        & (p[2] < camera[int(CameraF.FAR)] + radius)
        & (p[0] < p[2] * camera[int(CameraF.RIGHT_SIDE)] + radius * camera[k + 1])
        & (p[0] > p[2] * camera[int(CameraF.LEFT)] - radius * camera[k])
        & (p[1] < p[2] * camera[int(CameraF.BOTTOM)] + radius * camera[k + 3])
        & (p[1] > p[2] * camera[int(CameraF.TOP)] - radius * camera[k + 2])
    )


@ti.func
def screen_rect(p, ax, ay, az, camera: ti.template(), width, height):
    """Pixels (x0, x1, y0, y1, inclusive) that a box with centre p and half axes ax, ay, az (camera axes) can cover."""
    x0, x1, y0, y1, near = 1e9, -1e9, 1e9, -1e9, 0
    for k in ti.static(range(8)):
        q = (
            p
            + (ax if ti.static(k & 1) else -ax)
            + (ay if ti.static(k & 2) else -ay)
            + (az if ti.static(k & 4) else -az)
        )
        if q[2] < NEAR_M:
            near = 1
        iz = 1.0 / ti.max(q[2], NEAR_M)
        x = camera[int(CameraF.FX)] * q[0] * iz + camera[int(CameraF.CX)] - 0.5
        y = camera[int(CameraF.FY)] * q[1] * iz + camera[int(CameraF.CY)] - 0.5
        x0, x1, y0, y1 = ti.min(x0, x), ti.max(x1, x), ti.min(y0, y), ti.max(y1, y)
    w, h = ti.cast(width, ti.f32), ti.cast(height, ti.f32)
    if near:  # a corner beside or behind the camera bounds nothing: the slab test alone decides
        x0, x1, y0, y1 = 0.0, w, 0.0, h
    # clamped before the cast; one thousandth of a pixel of slack absorbs rounding
    return ti.Vector(
        [
            ti.cast(ti.ceil(ti.max(x0 - 1e-3, 0.0)), ti.i32),
            ti.cast(ti.floor(ti.max(ti.min(x1 + 1e-3, w - 1.0), -1.0)), ti.i32),
            ti.cast(ti.ceil(ti.max(y0 - 1e-3, 0.0)), ti.i32),
            ti.cast(ti.floor(ti.max(ti.min(y1 + 1e-3, h - 1.0), -1.0)), ti.i32),
        ]
    )


@ti.func
def write_axis(view_f: ti.template(), at, normal, half, offset, camera: ti.template()):
    """The six coefficients of one slab |n . p - centre| <= half; `offset` is the camera's coordinate along n.

    In inverse depth a ray with direction cosine u meets the plane at distance d along n at w = u / d. Outside the
    slab the near plane bounds w from above and the far one from below; inside there is no entry and both planes bound
    from below.
    """
    to_plus, to_minus = half - offset, -half - offset
    if ti.abs(to_plus) < 1e-5:
        to_plus = 1e-5
    if ti.abs(to_minus) < 1e-5:
        to_minus = -1e-5
    scale, entry, exit_a, exit_b = 1.0, 1e9, 1.0 / to_plus, 1.0 / to_minus
    if offset > half:
        scale, entry, exit_a = exit_a, 0.0, to_plus / to_minus
        exit_b = exit_a
    elif offset < -half:
        scale, entry, exit_a = exit_b, 0.0, to_minus / to_plus
        exit_b = exit_a
    view_f[at + int(BoxF.U0)] = normal.dot(load3(camera, int(CameraF.D0))) * scale
    view_f[at + int(BoxF.UX)] = normal.dot(load3(camera, int(CameraF.DX))) * scale
    view_f[at + int(BoxF.UY)] = normal.dot(load3(camera, int(CameraF.DY))) * scale
    view_f[at + int(BoxF.ENTRY)] = entry
    view_f[at + int(BoxF.EXIT_A)] = exit_a
    view_f[at + int(BoxF.EXIT_B)] = exit_b


@ti.func
def list_position(view_f: ti.template(), first, count, capacity, distance2):
    """Where a box goes in a list: behind the last one; in a full list over the farthest if nearer than it; else -1."""
    at = count
    if count >= capacity:
        at = -1
        farthest = distance2
        for k in range(capacity):
            d = view_f[first + k * int(BoxF.SIZE) + int(BoxF.DISTANCE2)]
            if d > farthest:
                farthest = d
                at = k
    return at


@ti.kernel
def setup_views(
    worlds: ti.i32,
    num_agents: ti.i32,
    pad: ti.i32,
    capacity: ti.i32,
    frames: ti.template(),
    width: ti.i32,
    height: ti.i32,
    columns: ti.i32,
    slot_columns: ti.i32,
    agents: F32,
    slots: I32,
    world: I32,
    mask: U8,
    camera_f: F32,
    camera_i: I32,
    tiles: I32,
    view_f: F32,
    view_i: I32,
    overflow: I32,
):
    """Fill view_f and view_i for every (world, agent, frame), frames oldest first.

    Tensors are flat: agents [W, A, columns], slots [W, A, slot_columns], world [W, len(WorldCol)], mask [W], overflow
    [W, A, F]. `pad` spreads few views over all CPU threads, which share a loop in pieces of at least 512 iterations.
    """
    for item in range(worlds * num_agents * frames * pad):
        if item % pad == 0:
            v = item // pad
            ego = v // frames
            w = ego // num_agents
            frame = v - ego * frames
            pose, state = int(AgentCol.X), int(SlotCol.STATUS)
            if ti.static(frames == 2):
                if frame == 0:
                    pose, state = int(AgentCol.PREV_X), int(SlotCol.PREV_STATUS)
            head_f = v * (int(ViewF.SIZE) + capacity * int(BoxF.SIZE))
            head_i = v * (int(ViewI.SIZE) + capacity * int(BoxI.SIZE))
            count = KEEP
            if mask[w] != 0:
                here, there = ego * slot_columns + int(SlotCol.STATUS), ego * slot_columns + state
                count = ti.select(is_solid(slots[here]) & is_solid(slots[there]), 0, HIDDEN)
                overflow[v] = 0
            if count == 0:
                row = ego * columns
                x, y, z = agents[row + pose], agents[row + pose + 1], agents[row + pose + 2]
                yaw, grade = agents[row + pose + 3], agents[row + int(AgentCol.GRADE)]
                cos, sin = ti.cos(yaw), ti.sin(yaw)
                map_head = world[w * ti.static(len(WorldCol)) + int(WorldCol.MAP)] * int(MapHead.SIZE)
                nx, ny = tiles[map_head + int(MapHead.NX)], tiles[map_head + int(MapHead.NY)]
                view_f[head_f + int(ViewF.COS)] = cos
                view_f[head_f + int(ViewF.SIN)] = sin
                view_f[head_f + int(ViewF.X)] = x - ti.cast(tiles[map_head + int(MapHead.X)], ti.f32)
                view_f[head_f + int(ViewF.Y)] = y - ti.cast(tiles[map_head + int(MapHead.Y)], ti.f32)
                view_f[head_f + int(ViewF.RANGE_X)] = ti.cast(nx, ti.f32) * 2.0 - 0.0625
                view_f[head_f + int(ViewF.RANGE_Y)] = ti.cast(ny, ti.f32) * 2.0 - 0.0625
                view_i[head_i + int(ViewI.TILES)] = tiles[map_head + int(MapHead.TILES)]
                view_i[head_i + int(ViewI.NX)] = nx
                view_i[head_i + int(ViewI.NY2)] = 2 * ny
                mount = load3(camera_f, int(CameraF.MOUNT))
                for other in range(w * num_agents, (w + 1) * num_agents):
                    if other != ego and is_solid(slots[other * slot_columns + state]):
                        q = other * columns
                        dx, dy = agents[q + pose] - x, agents[q + pose + 1] - y
                        half = 0.5 * load3(agents, q + int(AgentCol.LENGTH))
                        ahead = cos * dx + sin * dy
                        # heights count from the tangent plane of the agent's own lane
                        rise = agents[q + pose + 2] - z - grade * ahead
                        centre = ti.Vector([ahead, cos * dy - sin * dx, rise + half[2]]) - mount
                        p = to_camera(centre, camera_f)
                        if in_frustum(p, half.norm(), camera_f):
                            turn = agents[q + pose + 3] - yaw
                            c, s = ti.cos(turn), ti.sin(turn)
                            # the camera in the box's frame
                            ox, oy, oz = -(c * centre[0] + s * centre[1]), s * centre[0] - c * centre[1], -centre[2]
                            gap = ti.max(ti.abs(ti.Vector([ox, oy, oz])) - half, 0.0)
                            nl, nw, nh = ti.Vector([c, s, 0.0]), ti.Vector([-s, c, 0.0]), ti.Vector([0.0, 0.0, 1.0])
                            rect = screen_rect(
                                p,
                                to_camera(nl * half[0], camera_f),
                                to_camera(nw * half[1], camera_f),
                                to_camera(nh * half[2], camera_f),
                                camera_f,
                                width,
                                height,
                            )
                            if gap.norm_sqr() > NEAR_M * NEAR_M and rect[0] <= rect[1] and rect[2] <= rect[3]:
                                distance2 = centre.norm_sqr()
                                first = head_f + int(ViewF.SIZE)
                                k = list_position(view_f, first, count, capacity, distance2)
                                if count < capacity:
                                    count += 1
                                else:
                                    overflow[v] += 1
                                if k >= 0:
                                    f, i = first + k * int(BoxF.SIZE), head_i + int(ViewI.SIZE) + k * int(BoxI.SIZE)
                                    write_axis(view_f, f, nl, half[0], ox, camera_f)
                                    write_axis(view_f, f + int(BoxF.AXIS), nw, half[1], oy, camera_f)
                                    write_axis(view_f, f + 2 * int(BoxF.AXIS), nh, half[2], oz, camera_f)
                                    view_f[f + int(BoxF.DISTANCE2)] = distance2
                                    for j in ti.static(range(4)):
                                        view_i[i + j] = rect[j]
                                    face = int(CameraI.FACE)
                                    view_i[i + int(BoxI.COLOURS)] = camera_i[face + ti.select(ox > 0.0, 0, 1)]
                                    view_i[i + int(BoxI.COLOURS) + 1] = camera_i[face + ti.select(oy > 0.0, 2, 3)]
                                    view_i[i + int(BoxI.COLOURS) + 2] = camera_i[face + ti.select(oz > 0.0, 4, 5)]
            view_i[head_i + int(ViewI.COUNT)] = count
