import cv2
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from render_scenes import PAINTED, PLAIN, SIZE, camera, car_pixels, extent, rig_of, shoot, state, view
from terapixel_sim.camera import Appearance
from terapixel_sim.layout import AgentCol, SlotCol, Status
from terapixel_sim.renderer import BOX_CAPACITY, Renderer
from terapixel_sim.rigs import get_rig

LOOK = Appearance()


def corners(pose, size):
    """The eight corners [8, 3] of a box in the first agent's frame (itself at the origin)."""
    signs = np.array(np.meshgrid([-1, 1], [-1, 1], [0, 2])).reshape(3, 8).T
    local = signs * np.array(size) / 2
    c, s = np.cos(pose[2]), np.sin(pose[2])
    return local @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]]) + np.array([pose[0], pose[1], 0])


def projected(cam, points):
    """Image coordinates by OpenCV, as pixel indices."""
    fx, fy, cx, cy = cam.intrinsics()
    rotation, _ = cv2.Rodrigues(cam.axes())
    matrix = np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])
    return cv2.projectPoints(points, rotation, -cam.axes() @ cam.mount(), matrix, None)[0][:, 0] - 0.5


@pytest.mark.parametrize("name", ["front", "front_left", "front_right", "back"])
def test_a_box_covers_the_pixels_of_its_projection_in_every_camera(name):
    rig = get_rig("pictura")
    cam = rig.cameras[name]
    yaw = np.radians(cam.yaw_deg)
    pose = (12 * np.cos(yaw), 12 * np.sin(yaw), 0.7)
    image = shoot(state((0, 0, 0), pose), rig)[name][0, 0]
    points = projected(cam, corners(pose, SIZE))
    expected = [points[:, 0].min(), points[:, 0].max(), points[:, 1].min(), points[:, 1].max()]
    x0, x1, y0, y1 = extent(car_pixels(image))
    assert (x0, x1) == (np.ceil(expected[0]), np.floor(expected[1]))
    assert abs(y0 - expected[2]) < 1.5  # a corner of the box comes to a point there
    assert abs(y1 - expected[3]) < 1.5


@given(
    distance=st.floats(6, 60), side=st.floats(-0.4, 0.4), turn=st.floats(-3.1, 3.1),
    yaw=st.floats(-20, 20), pitch=st.floats(-15, 10), roll=st.floats(-180, 180),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_silhouettes_are_the_hulls_that_opencv_projects(distance, side, turn, yaw, pitch, roll):
    cam = camera(yaw_deg=yaw, pitch_deg=pitch, roll_deg=roll, fov_deg=80)
    pose = (distance, distance * side, turn)
    hull = cv2.convexHull(projected(cam, corners(pose, SIZE)).astype(np.float32))
    seen = car_pixels(view(state((0, 0, 0), pose), cam)).numpy()
    for y in range(64):
        for x in range(64):
            inside = cv2.pointPolygonTest(hull, (float(x), float(y)), True)
            if abs(inside) > 0.05:
                assert seen[y, x] == (inside > 0), (x, y, inside)


def test_twice_the_distance_halves_the_picture():
    cam = camera(width=512, height=512)
    sizes = []
    for distance in (20, 40):
        x0, x1, y0, y1 = extent(car_pixels(view(state((0, 0, 0), (distance + SIZE[0] / 2, 0, 0)), cam)))
        sizes.append((x1 - x0 + 1, y1 - y0 + 1))
    assert sizes[0][0] == pytest.approx(2.0 * 256 / 20, abs=1)
    assert sizes[0][1] == pytest.approx(1.5 * 256 / 20, abs=1)
    assert abs(sizes[0][0] - 2 * sizes[1][0]) <= 2  # each is rounded to whole pixels
    assert abs(sizes[0][1] - 2 * sizes[1][1]) <= 2  # each is rounded to whole pixels


def test_behind_beside_and_beyond_nothing_is_drawn():
    alone = view(state((0, 0, 0)))
    for pose in ((-10, 0, 0), (0, 6, 0), (1, 40, 0), (135, 0, 0)):
        assert torch.equal(view(state((0, 0, 0), pose)), alone), pose


def test_left_is_left_and_faces_have_their_shades():
    left = car_pixels(view(state((0, 0, 0), (15, 5, 0))))
    assert extent(left)[1] < 32
    car = np.array(LOOK.car)
    front, back, left_side, right_side, top = (np.rint(car * shade).tolist() for shade in LOOK.face_shade)
    for yaw, colour in ((0.0, back), (np.pi, front), (np.pi / 2, left_side), (-np.pi / 2, right_side)):
        assert view(state((0, 0, 0), (12, 0, yaw)))[:, 34, 32].tolist() == colour
    assert view(state((0, 0, 0), (12, 0, 0)), camera(pitch_deg=-20, z_m=4.0))[:, 26, 32].tolist() == top


def test_what_is_near_hides_what_is_far_in_either_order():
    near, far = (8, 0, 0), (20, 0.3, 0.2)
    expected = view(state((0, 0, 0), near))
    assert torch.equal(view(state((0, 0, 0), near, far)), expected)
    assert torch.equal(view(state((0, 0, 0), far, near)), expected)


def test_the_viewers_own_box_is_never_drawn():
    around = [camera(yaw_deg=a, x_m=x, z_m=0.7) for a, x in ((0, 0.0), (90, 0.0), (180, 3.0), (-90, 0.0))]
    images = shoot(state((0, 0, 0)), rig_of(*around))
    assert not any(car_pixels(image[0, 0]).any() for image in images.values())


def test_a_box_around_or_touching_the_camera_is_left_out():
    alone = view(state((0, 0, 0)))
    front = SIZE[0] / 2
    tall = (*SIZE[:2], 3.0)
    assert torch.equal(view(state((0, 0, 0), (1, 0, 0), size=tall)), alone)
    assert torch.equal(view(state((0, 0, 0), (front + 0.09, 0, 0), size=tall)), alone)
    assert car_pixels(view(state((0, 0, 0), (front + 0.15, 0, 0), size=tall))).all()


def test_mirrored_scenes_give_mirrored_pictures():
    left = view(state((0, 0, 0), (12, 2.1, 0.4), (25, -3, -1.0)))
    right = view(state((0, 0, 0), (12, -2.1, -0.4), (25, 3, 1.0)))
    a, b = car_pixels(left), car_pixels(right).flip(-1)
    assert (a != b).sum() <= 2  # pixel centres on an edge
    difference = (left.float() - right.flip(-1).float()).abs()[:, ~(a | b)]
    assert difference.mean() < 1.0


def test_roll_turns_the_picture():
    poses = (0, 0, 0), (14, 1.5, 0.5)
    upright, rolled = view(state(*poses)), view(state(*poses), camera(roll_deg=90))
    # the camera's right side is down: what was right is at the bottom's place
    turned = torch.rot90(rolled, -1, (1, 2))
    assert (car_pixels(upright) != car_pixels(turned)).sum() <= 2
    assert (upright.float() - turned.float()).abs().mean() < 1.0


def test_the_principal_point_shifts_the_picture():
    poses = (0, 0, 0), (14, 0.5, 0.5)
    centred = view(state(*poses), camera())
    shifted = view(state(*poses), camera(cx=32 + 5, cy=32 - 3))
    assert torch.equal(car_pixels(shifted)[:-3, 5:], car_pixels(centred)[3:, :-5])


def test_separate_focal_lengths_stretch_each_axis():
    narrow = extent(car_pixels(view(state((0, 0, 0), (14.4, 0, 0)), camera(width=128, height=128, fx=60.0, fy=60.0))))
    wide = extent(car_pixels(view(state((0, 0, 0), (14.4, 0, 0)), camera(width=128, height=128, fx=120.0, fy=60.0))))
    assert narrow[2:] == wide[2:]
    assert abs((wide[1] - wide[0] + 1) - 2 * (narrow[1] - narrow[0] + 1)) <= 1


@pytest.mark.parametrize("width", [5, 16, 40, 64, 77, 96, 130])
def test_any_width_shows_the_same_scene(width):
    """A camera cut out of a wide one by its principal point shows that part of the wide picture."""
    poses = (0, 0, 0), (10, 1.0, 0.3), (20, -4.0, 1.3)
    wide = view(state(*poses), camera(width=192, height=20, fx=60.0, cx=96.0), PAINTED)
    part = view(state(*poses), camera(width=width, height=20, fx=60.0, cx=56.0), PAINTED)
    same = (part == wide[:, :, 40 : 40 + width]).float().mean()
    assert same > 0.99  # taps per chunk differ where a chunk's need does


def busy(worlds, agents=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    scene = state(*[(0.0, 0.0, 0.0)] * agents, worlds=worlds)
    draw = torch.rand(worlds, agents, 3, generator=generator)
    scene[0][..., AgentCol.X] = draw[..., 0] * 60
    scene[0][..., AgentCol.Y] = draw[..., 1] * 14 - 7
    scene[0][..., AgentCol.YAW] = draw[..., 2] * 6.28 - 3.14
    scene[0][..., AgentCol.PREV_X : AgentCol.PREV_YAW + 1] = scene[0][..., AgentCol.X : AgentCol.YAW + 1]
    return scene


def test_a_world_among_many_is_bitwise_the_world_alone():
    rig = rig_of(camera(width=32, height=32, pitch_deg=-5))
    many = busy(257)
    images = shoot(many, rig, PAINTED)["c0"]
    for w in (0, 100, 256):
        alone = shoot(tuple(t[w : w + 1].contiguous() for t in many), rig, PAINTED)["c0"]
        assert torch.equal(alone[0], images[w])
    assert torch.equal(shoot(many, rig, PAINTED)["c0"], images)


@pytest.mark.parametrize("options", [{}, {"width": 50, "height": 33, "roll_deg": 20.0, "pitch_deg": -12.0}])
@pytest.mark.parametrize("haze_m", [0.0, 40.0])
def test_pixel_and_row_kernels_draw_the_same(options, haze_m):
    from terapixel_sim.kernels.render_shade import shade_pixels

    cam = camera(**options)
    rig = rig_of(cam, appearance=Appearance(haze_m=haze_m))
    scene = busy(3)
    renderer = Renderer(PAINTED, rig)
    out = renderer.allocate(3, 6)
    renderer.render(*scene, out)
    pixels = torch.zeros_like(out["c0"])
    shade_pixels(
        18, 5, cam.width, cam.height, renderer._chunks["c0"], haze_m > 0, renderer._view_f, renderer._view_i,
        *renderer._constants["c0"], PAINTED.tiles, PAINTED.texels, pixels.view(-1),
    )  # fmt: skip
    assert (pixels != out["c0"]).float().mean() <= 1e-5
    assert pixels.float().std() > 10


@pytest.mark.parametrize("status", [Status.EMPTY, Status.REMOVED, Status.FINISHED])
def test_slots_without_a_body_are_black_and_unseen(status):
    scene = state((0, 0, 0), (12, 0, 0))
    scene[1][0, 1, SlotCol.STATUS] = int(status)
    images = shoot(scene)["c0"][0]
    assert not images[1].any()
    assert torch.equal(images[0], view(state((0, 0, 0))))


@pytest.mark.parametrize("status", [Status.STOPPED, Status.TIMED_OUT])
def test_stopped_and_timed_out_agents_see_and_are_seen(status):
    scene = state((0, 0, 0), (12, 0, np.pi))
    expected = shoot(scene)["c0"]
    scene[1][0, 1, SlotCol.STATUS] = int(status)
    assert torch.equal(shoot(scene)["c0"], expected)


def test_a_mask_leaves_the_other_worlds_alone():
    scene = busy(3)
    renderer = Renderer(PLAIN, rig_of())
    out, full = renderer.allocate(3, 6), renderer.allocate(3, 6)
    renderer.render(*scene, full)
    out["c0"].fill_(7)
    renderer.render(*scene, out, torch.tensor([True, False, True]))
    assert (out["c0"][1] == 7).all()
    assert torch.equal(out["c0"][::2], full["c0"][::2])


def test_two_frames_are_the_past_and_the_present():
    scene = state((0, 0, 0), (14, 0, 0))
    scene[0][0, 0, AgentCol.PREV_X] = -3
    scene[0][0, 1, AgentCol.PREV_Y] = 2
    both = view(scene, frames=2)
    assert torch.equal(both[3:], view(state((0, 0, 0), (14, 0, 0))))
    assert torch.equal(both[:3], view(state((-3, 0, 0), (14, 2, 0))))
    # someone removed in this step was still there one step earlier
    scene[1][0, 1, SlotCol.STATUS] = int(Status.REMOVED)
    both = view(scene, frames=2)
    assert torch.equal(both[3:], view(state((0, 0, 0))))
    assert torch.equal(both[:3], view(state((-3, 0, 0), (14, 2, 0))))


def test_a_full_list_keeps_the_nearest_and_counts_the_rest():
    extra = 10
    behind = [(15 + 0.5 * k, (k % 9) - 4.0, 0) for k in range(BOX_CAPACITY + extra - 1)]
    near = (8, 0, 0)
    rig = rig_of(camera(fov_deg=60))
    scene = state((0, 0, 0), *behind, near, size=(2.0, 1.5, 1.4))
    renderer = Renderer(PLAIN, rig)
    out = renderer.allocate(1, len(behind) + 2)
    renderer.render(*scene, out)
    assert renderer.overflow.shape == (1, 1, len(behind) + 2, 1)
    assert renderer.overflow[0, 0, 0, 0] == extra
    kept = state((0, 0, 0), *behind[: BOX_CAPACITY - 1], near, size=(2.0, 1.5, 1.4))
    assert torch.equal(out["c0"][0, 0], view(kept, camera(fov_deg=60)))
    renderer = Renderer(PLAIN, rig)
    renderer.render(*kept, renderer.allocate(1, BOX_CAPACITY + 1))
    assert not renderer.overflow[0, 0, 0].any()


def test_on_a_slope_a_box_on_the_same_plane_looks_as_on_the_flat():
    flat = view(state((0, 0, 0, 5.0), (16, 0, 0.3, 5.0)))
    scene = state((0, 0, 0, 5.0), (16, 0, 0.3, 5.0 + 16 * 0.125))
    scene[0][..., AgentCol.GRADE] = 0.125
    assert torch.equal(view(scene), flat)
    scene[0][0, 1, AgentCol.Z] = 5.0 - 6.0  # under a bridge: hidden by the ground
    assert torch.equal(view(scene), view(state((0, 0, 0))))


def test_haze_blends_boxes_ground_and_sky_alike():
    clear, hazy = (view(state((0, 0, 0), (32.4, 0, 0)), appearance=Appearance(haze_m=h)) for h in (0.0, 60.0))
    sky = torch.tensor(LOOK.sky).float()
    z = {(32, 32): 30.0, (40, 32): 1.5 * 32 / 8.5}  # the box's back; the road
    for (y, x), depth in z.items():
        a = np.exp(-depth / 60)
        expected = clear[:, y, x].float() * a + sky * (1 - a)
        assert (hazy[:, y, x].float() - expected).abs().max() <= 1.5
    assert torch.equal(hazy[:, :20], clear[:, :20])


def test_outside_the_map_lies_terrain():
    image = view(state((5000, -3000, 1.0)), camera(pitch_deg=-30), PAINTED)
    assert (image[:, 40:] == torch.tensor(LOOK.terrain)[:, None, None]).all()


def test_far_ground_is_terrain():
    cam = camera(width=64, height=512, fx=512.0, fy=512.0)
    image = view(state((0, 0, 0)), cam, far_m=40.0)
    last = 256 + int(1.5 * 512 / 40)
    terrain = torch.tensor(LOOK.terrain)[:, None]
    assert (image[:, last - 2] == terrain).all()
    assert (image[:, last + 2, 30:34] == torch.tensor(LOOK.road)[:, None]).all()


def test_limits_and_wrong_tensors_are_refused():
    renderer = Renderer(PLAIN, rig_of())
    with pytest.raises(ValueError, match=r"rig\.cameras\.c0: .* 2\^31"):
        renderer.allocate(100_000, 32)
    with pytest.raises(ValueError, match="at least 1"):
        renderer.allocate(0, 3)
    scene, out = state((0, 0, 0)), renderer.allocate(1, 1)
    with pytest.raises(ValueError, match=r"agents: expected torch\.float32"):
        renderer.render(scene[0].double(), *scene[1:], out)
    with pytest.raises(ValueError, match=r"out\.c0: expected"):
        renderer.render(*scene, {"c0": out["c0"][..., :32]})
    with pytest.raises(ValueError, match="camera 'c0'"):
        renderer.render(*scene, {})
    with pytest.raises(ValueError, match="mask: expected"):
        renderer.render(*scene, out, torch.ones(2, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"z_m: expected a height above the road"):
        Renderer(PLAIN, rig_of(camera(z_m=0.0)))
