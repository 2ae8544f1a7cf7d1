"""The picture against true coverage and against the slow reference."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from render_scenes import camera, line, rig_of, shoot, state, straight_road, view
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
    ground = build_ground([straight_road([Marking(points=line(-20, offset, 150, offset), width=0.15)])])
    cam = camera(height=128, width=128)  # focal length 64
    image = view(state((0, 0, 0)), cam, ground)
    share = contrast(image)
    rows = [k for k in range(128) if k > 64 and 1.5 * 64 / (k + 0.5 - 64) < 60]
    for row in rows:
        z = 1.5 * 64 / (row + 0.5 - 64)
        x = 64 - 64 * offset / z
        near = share[row, max(0, int(x) - 4) : int(x) + 5]
        if not 4 < x < 124:
            continue
        # the mean over the row of the line's width in pixels
        upper, lower = 1.5 * 64 / max(row - 64, 0.4), 1.5 * 64 / (row + 1 - 64)
        expected = 64 * 0.15 * np.mean([1 / (lower + t * (upper - lower)) for t in ()] or 1 / z)
        assert near.max() > 0.3 * min(1, expected), (z, near)
    for z in (20, 40, 60):
        row = int(64 + 1.5 * 64 / z)
        rows = [row - 1, row, row + 1] if z < 40 else [row]
        x = int(64 - 64 * offset / z)
        seen = np.mean([float(share[r, x - 5 : x + 6].sum()) for r in rows])
        true = np.mean([64 * 0.15 * (r + 0.5 - 64) / (1.5 * 64) for r in rows])
        assert seen == pytest.approx(true, rel=0.25), z


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


def town_views(road_map, rig, agents=(0, 3, 6), ground_of=None):
    """Pairs (drawn, reference) of a few agents in a town."""
    rng = np.random.default_rng(5)
    poses = []
    for lane in rng.choice(len(road_map.lanes), 8, replace=False):
        centre = road_map.lanes[lane].centre
        k = len(centre) // 2
        step = centre[k] - centre[k - 1]
        poses.append((centre[k, 0], centre[k, 1], np.arctan2(step[1], step[0])))
        poses.append((centre[k, 0] + 11 * np.cos(poses[-1][2]), centre[k, 1] + 11 * np.sin(poses[-1][2]), poses[-1][2] + 0.2))
    poses = [(float(np.float32(x)), float(np.float32(y)), float(np.float32(yaw))) for x, y, yaw in poses]
    scene = state(*poses)
    images = shoot(scene, rig, build_ground([ground_of or road_map]))
    shapes = ground_shapes(road_map)
    size = scene[0][0, 0, AgentCol.LENGTH : AgentCol.HEIGHT + 1].tolist()
    for a in agents:
        x, y, yaw = poses[a]
        c, s = np.cos(yaw), np.sin(yaw)
        others = [p for k, p in enumerate(poses) if k != a]
        boxes = [
            Box(c * (p[0] - x) + s * (p[1] - y), c * (p[1] - y) - s * (p[0] - x), 0.0, p[2] - yaw, *size) for p in others
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
    town = grid_town(seed=1)
    bare = replace(town, markings=())
    rig = rig_of(Camera(width=48, height=48))
    with_paint = np.mean([np.abs(a - b).mean() for a, b in town_views(town, rig)])
    without = np.mean([np.abs(a - b).mean() for a, b in town_views(town, rig, ground_of=bare)])
    assert without > with_paint + 0.3


def test_hazy_air_agrees_with_the_reference():
    rig = rig_of(Camera(width=32, height=32), appearance=Appearance(haze_m=40))
    for a, b in town_views(grid_town(seed=1), rig, agents=(0,)):
        assert np.abs(a - b).mean() < 2.0


def test_road_keeps_its_exact_colour_under_any_number_of_taps():
    image = view(state((0, 0, 0)), camera(width=32, height=64, fov_deg=8, pitch_deg=-3.5))
    road = torch.tensor(LOOK.road)[:, None, None]
    assert (image[:, 8:, 14:18] == road).all()
