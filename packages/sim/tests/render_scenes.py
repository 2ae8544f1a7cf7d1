"""Small scenes for the renderer's tests."""

import numpy as np
import torch
from terapixel_sim.camera import Appearance, Camera, CameraRig
from terapixel_sim.ground import build_ground
from terapixel_sim.layout import AgentCol, SlotCol, Status, WorldCol
from terapixel_sim.maps.road_map import Lane, Marking, RoadMap
from terapixel_sim.renderer import Renderer

SIZE = (4.8, 2.0, 1.5)
LOOK = Appearance()


def line(x0, y0, x1, y1, n=40):
    t = np.linspace(0, 1, n)[:, None]
    return np.hstack([np.array([x0, y0]) + t * np.array([x1 - x0, y1 - y0]), np.zeros((n, 1))])


def straight_road(markings=(), half=8.0):
    """One road along x from -20 to 150 m, 8 m to each side."""
    left, right = line(-20, half, 150, half), line(-20, -half, 150, -half)
    lane = Lane(id=0, centre=line(-20, 0, 150, 0), left=left, right=right)
    edges = (right, left[::-1])
    return RoadMap(name="straight", lanes=(lane,), markings=tuple(markings), edges=edges)


def painted_road():
    return straight_road(
        [
            Marking(points=line(-20, 1.8, 150, 1.8), width=0.15),
            Marking(points=line(-20, -1.8, 150, -1.8), dash=3.0, gap=6.0),
            Marking(points=line(-20, 4.0, 150, 4.0), colour="yellow"),
            Marking(points=line(30, -8, 30, 0), width=0.4),
        ]
    )


PLAIN = build_ground([straight_road()])
PAINTED = build_ground([painted_road()])


def state(*poses, size=SIZE, worlds=1):
    """Worlds of LIVE agents at (x, y, yaw) or (x, y, yaw, z)."""
    agents = torch.zeros(worlds, len(poses), AgentCol.ROUTE)
    slots = torch.zeros(worlds, len(poses), SlotCol.ROUTE, dtype=torch.int32)
    for k, pose in enumerate(poses):
        x, y, yaw, z = (*pose, 0.0)[:4]
        agents[:, k, AgentCol.X : AgentCol.YAW + 1] = torch.tensor([x, y, z, yaw])
        agents[:, k, AgentCol.LENGTH : AgentCol.HEIGHT + 1] = torch.tensor(size)
    agents[..., AgentCol.PREV_X : AgentCol.PREV_YAW + 1] = agents[..., AgentCol.X : AgentCol.YAW + 1]
    slots[..., SlotCol.STATUS] = slots[..., SlotCol.PREV_STATUS] = int(Status.LIVE)
    return agents, slots, torch.zeros(worlds, len(WorldCol), dtype=torch.int32)


def camera(**options):
    return Camera(**{"x_m": 0.0, "z_m": 1.5, "pitch_deg": 0.0, **options})


def rig_of(*cameras, **options):
    return CameraRig(cameras={f"c{k}": c for k, c in enumerate(cameras or (camera(),))}, **options)


def shoot(scene, rig=None, ground=PLAIN):
    """Images {name: [W, A, 3F, h, w]} of a scene."""
    renderer = Renderer(ground, rig or rig_of())
    out = renderer.allocate(*scene[0].shape[:2])
    renderer.render(*scene, out)
    return out


def view(scene, cam=None, ground=PLAIN, **options):
    """The first agent's image [3, h, w]."""
    return shoot(scene, rig_of(cam or camera(), **options), ground)["c0"][0, 0]


def car_pixels(image):
    """Where the image shows a box: its colours, and no others, are a multiple of the car's."""
    rgb = image.float()
    ratio = np.array(LOOK.car[1:]) / LOOK.car[0]
    return ((rgb[1] / rgb[0].clamp(min=1) - ratio[0]).abs() < 0.03) & (
        (rgb[2] / rgb[0].clamp(min=1) - ratio[1]).abs() < 0.03
    )


def extent(pixels):
    """(x0, x1, y0, y1) of a mask, inclusive."""
    y, x = torch.nonzero(pixels, as_tuple=True)
    return int(x.min()), int(x.max()), int(y.min()), int(y.max())
