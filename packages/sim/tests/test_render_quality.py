"""The picture against true coverage and against the slow reference."""

import numpy as np
import pytest
import torch
from render_scenes import PAINTED, PLAIN, camera, line, painted_road, rig_of, shoot, state, straight_road, view
from terapixel_sim.camera import Appearance, Camera
from terapixel_sim.ground import build_ground
from terapixel_sim.layout import AgentCol
from terapixel_sim.maps.procedural import grid_town
from terapixel_sim.maps.road_map import Marking
from terapixel_sim.reference.render import Box, draw, ground_shapes

LOOK = Appearance()
CONTRAST = LOOK.white[0] - LOOK.road[0]


def contrast(image):
    """Share of white in each pixel [h, w]."""
    return (image[0].float() - LOOK.road[0]) / CONTRAST


@pytest.mark.parametrize("offset", [0.9, 1.77, -1.31])
def test_a_solid_line_ahead_fades_by_its_true_coverage_and_has_no_gaps(offset):
    line_ahead = Marking(points=line(-20, offset, 150, offset), width=0.15)
    ground = build_ground([straight_road([line_ahead], half=30.0)])
    focal = 64
    share = contrast(view(state((0, 0, 0)), camera(height=128, width=128), ground))
    seen, true = {}, {}
    for row in range(focal + 1, focal + 20):
        z = 1.5 * focal / (row + 0.5 - focal)
        x = int(focal - focal * offset / z)
        seen[row], true[row] = float(share[row, x - 4 : x + 5].sum()), focal * 0.15 / z
        assert seen[row] > 0.4 * true[row], f"a gap at {z:.1f} m"
    for distance in (20, 40, 60):
        row = int(focal + 1.5 * focal / distance)
        rows = [row - 1, row, row + 1] if distance == 20 else [row]
        assert sum(seen[r] for r in rows) == pytest.approx(sum(true[r] for r in rows), rel=0.25), distance


def test_dashes_stay_apart_near_and_average_far():
    ground = build_ground([straight_road([Marking(points=line(-20, -1, 150, -1), width=0.15, dash=3, gap=6)])])
    cam = camera(height=256, width=256)
    share = contrast(view(state((0, 0, 0)), cam, ground))
    painted = []
    for row in range(150, 200):
        z = 1.5 * 128 / (row + 0.5 - 128)
        x = 128 + 128 * 1 / z
        strength = float(share[row, int(x) - 3 : int(x) + 4].max())
        phase = (z + 20) % 9
        if 0.5 < phase < 2.5:
            assert strength > 0.3, z
            painted.append(z)
        elif 3.5 < phase < 8.5:
            assert strength < 0.05, z
    assert painted
    row = 128 + 4  # 43 m, a pixel is 10 m long
    x = int(128 + 128 / 43)
    assert float(share[row, x - 4 : x + 5].sum()) == pytest.approx(128 * 0.15 / 43 / 3, rel=0.5)


def town_views(road_map, rig, agents=(0, 3, 6)):
    """Pairs (drawn, reference) of a few agents in a town."""
    rng = np.random.default_rng(5)
    poses = []
    for lane in rng.choice(len(road_map.lanes), 8, replace=False):
        centre = road_map.lanes[lane].centre
        k = len(centre) // 2
        step = centre[k] - centre[k - 1]
        poses.append((centre[k, 0], centre[k, 1], np.arctan2(step[1], step[0])))
        poses.append(
            (centre[k, 0] + 11 * np.cos(poses[-1][2]), centre[k, 1] + 11 * np.sin(poses[-1][2]), poses[-1][2] + 0.2)
        )
    poses = [(float(np.float32(x)), float(np.float32(y)), float(np.float32(yaw))) for x, y, yaw in poses]
    scene = state(*poses)
    images = shoot(scene, rig, build_ground([road_map]))
    shapes = ground_shapes(road_map)
    size = scene[0][0, 0, AgentCol.LENGTH : AgentCol.HEIGHT + 1].tolist()
    for a in agents:
        x, y, yaw = poses[a]
        c, s = np.cos(yaw), np.sin(yaw)
        others = [p for k, p in enumerate(poses) if k != a]
        boxes = [
            Box(c * (p[0] - x) + s * (p[1] - y), c * (p[1] - y) - s * (p[0] - x), 0.0, p[2] - yaw, *size)
            for p in others
        ]
        for name, cam in rig.cameras.items():
            yield images[name][0, a].double().numpy(), draw(cam, rig, poses[a], boxes, shapes, samples=4)


CAMERAS = {
    "plain": Camera(width=48, height=48),
    "rolled": Camera(width=40, height=40, roll_deg=25, pitch_deg=-12),
    "side": Camera(width=40, height=24, yaw_deg=-55, pitch_deg=-2, cx=12.0),
}


@pytest.mark.parametrize("name", list(CAMERAS))
def test_a_town_looks_as_the_reference_says(name):
    rig = rig_of(CAMERAS[name])
    errors = [np.abs(a - b).mean() for a, b in town_views(grid_town(seed=1), rig)]
    assert max(errors) < 3.0
    assert np.mean(errors) < 1.5


def test_the_reference_notices_missing_paint():
    cam, pose = Camera(width=48, height=48), (10.0, 1.0, 0.1)
    rig, shapes = rig_of(cam), ground_shapes(painted_road())
    expected = draw(cam, rig, pose, [], shapes, samples=6)
    error = {g: np.abs(view(state(pose), cam, g).double().numpy() - expected).mean() for g in (PAINTED, PLAIN)}
    assert error[PAINTED] < 1.5
    assert error[PLAIN] > 2 * error[PAINTED]


def test_hazy_air_agrees_with_the_reference():
    rig = rig_of(Camera(width=32, height=32), appearance=Appearance(haze_m=40))
    for a, b in town_views(grid_town(seed=1), rig, agents=(0,)):
        assert np.abs(a - b).mean() < 2.0


def test_road_keeps_its_exact_colour_under_any_number_of_taps():
    image = view(state((0, 0, 0)), camera(width=32, height=64, pitch_deg=-45.0))
    steep = view(state((0, 0, 0)), camera(width=32, height=64, pitch_deg=-1.0))
    road = torch.tensor(LOOK.road)[:, None, None]
    assert (image[:, 40:] == road).all()
    assert (steep[:, 34:50, 15:17] == road).all()
