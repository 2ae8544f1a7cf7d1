import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from terapixel_sim.camera import Camera, CameraRig
from terapixel_sim.rigs import get_rig
from terapixel_sim.taps import pixel_rays

ANGLE = st.floats(-180, 180)


def test_a_level_camera_looks_ahead_with_x_right_and_y_down():
    np.testing.assert_allclose(Camera(pitch_deg=0).axes(), [[0, -1, 0], [0, 0, -1], [1, 0, 0]], atol=1e-15)


def test_yaw_turns_left_pitch_up_and_roll_clockwise():
    np.testing.assert_allclose(Camera(yaw_deg=90, pitch_deg=0).axes()[2], [0, 1, 0], atol=1e-15)
    np.testing.assert_allclose(Camera(pitch_deg=90).axes()[2], [0, 0, 1], atol=1e-15)
    np.testing.assert_allclose(Camera(pitch_deg=0, roll_deg=90).axes()[0], [0, 0, -1], atol=1e-15)


@given(yaw=ANGLE, pitch=st.floats(-80, 80), roll=ANGLE)
@settings(max_examples=50, deadline=None)
def test_axes_are_a_right_handed_frame(yaw, pitch, roll):
    axes = Camera(yaw_deg=yaw, pitch_deg=pitch, roll_deg=roll).axes()
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(np.cross(axes[0], axes[1]), axes[2], atol=1e-12)


@given(
    yaw=ANGLE, pitch=st.floats(-60, 60), roll=ANGLE, fx=st.floats(20, 200), fy=st.floats(20, 200), cx=st.floats(-20, 90)
)
@settings(max_examples=50, deadline=None)
def test_rays_agree_with_opencv(yaw, pitch, roll, fx, fy, cx):
    cam = Camera(yaw_deg=yaw, pitch_deg=pitch, roll_deg=roll, fx=fx, fy=fy, cx=cx, cy=20.5)
    d0, dx, dy = pixel_rays(cam)
    pixels = np.array([[0, 0], [63, 0], [5, 40], [63, 63]], float)
    points = cam.mount() + 7.0 * (d0 + pixels[:, :1] * dx + pixels[:, 1:] * dy)
    rotation, _ = cv2.Rodrigues(cam.axes())
    matrix = np.array([[fx, 0, cx], [0, fy, 20.5], [0, 0, 1]])
    seen, _ = cv2.projectPoints(points, rotation, -cam.axes() @ cam.mount(), matrix, None)
    np.testing.assert_allclose(seen[:, 0] - 0.5, pixels, atol=1e-6)


def test_pictura_has_four_cameras_of_one_field_of_view():
    rig = get_rig("pictura")
    assert {c.yaw_deg for c in rig.cameras.values()} == {0, 55, -55, 180}
    for cam in rig.cameras.values():
        fx, fy, cx, cy = cam.intrinsics()
        assert fx == fy == pytest.approx(77.25)
        assert (cx, cy) == (48, 27)
        assert np.degrees(2 * np.arctan(48 / fx)) == pytest.approx(63.7, abs=0.1)


def test_get_rig_takes_mappings_and_names_what_is_wrong():
    rig = get_rig({"cameras": {"left": {"yaw_deg": 30, "width": 32}}, "frames": 2})
    assert rig.cameras["left"].width == 32
    assert get_rig(rig) is rig
    with pytest.raises(ValueError, match=r"pictur.*front, pictura"):
        get_rig("pictur")
    with pytest.raises(TypeError, match=r"rig\.cameras\.a\.yaw: unknown key; allowed: .*yaw_deg"):
        get_rig({"cameras": {"a": {"yaw": 3}}})
    with pytest.raises(TypeError, match="got int"):
        get_rig(3)


@pytest.mark.parametrize("options", [{"width": 3}, {"fov_deg": 180}, {"fx": -1.0}, {"z_m": float("nan")}])
def test_a_camera_refuses_nonsense(options):
    with pytest.raises(ValueError, match=rf"camera\.{next(iter(options))}"):
        Camera(**options)


@pytest.mark.parametrize(
    ("options", "key"), [({"cameras": {}}, "cameras"), ({"frames": 3}, "frames"), ({"far_m": 1}, "far_m")]
)
def test_a_rig_refuses_nonsense(options, key):
    with pytest.raises(ValueError, match=rf"rig\.{key}"):
        CameraRig(**options)
