"""A car set down everywhere on whole maps, judged by the step kernel itself: on the road it is never off it."""

import os
from pathlib import Path

import numpy as np
import pytest
import shapely
import torch
from terapixel_sim import AgentCol, Event, SimConfig, Simulator, SlotCol, load_map

SHARED = Path(os.environ.get("TERAPIXEL_SHARED", Path(__file__).parents[4] / "shared"))
FOLDER = SHARED / "data" / "maps_opendrive"
LENGTH, WIDTH = 4.6, 2.0
DEAD_END_M = LENGTH / 2 + 0.3
"""A car this near to a dead end stands beyond the road."""

MAPS = [
    pytest.param("grid:0"),
    pytest.param("grid:7", marks=pytest.mark.slow),
    pytest.param("grid:99", marks=pytest.mark.slow),
    pytest.param("curvy:0"),
    pytest.param("curvy:5", marks=pytest.mark.slow),
    pytest.param("esmini_fabriksgatan.xodr"),
    pytest.param("carla_Town02.xodr.gz", marks=pytest.mark.slow),
    pytest.param("carla_Town01.xodr.gz", marks=pytest.mark.slow),
    pytest.param("carla_Town03.xodr.gz", marks=pytest.mark.slow),
    pytest.param("carla_Town06.xodr.gz", marks=pytest.mark.slow),
    pytest.param("carla_Town10HD.xodr.gz", marks=pytest.mark.slow),
]


def load(name):
    if ":" in name:
        return load_map(name)
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"{name} is not in {FOLDER}")
    return load_map(path)


def events(road_map, x, y, z, yaw, speed=1.0):
    """The events of cars set down at these poses, one a world, after a step of 2 cm."""
    sim = Simulator(SimConfig(dt_s=0.02, infraction="ignore"), [road_map], num_worlds=len(x), num_agents=1)
    sim.reset()
    state = sim.state.clone()
    agents = state["agents"][:, 0]
    values = {"X": x, "Y": y, "Z": z, "YAW": yaw, "LENGTH": LENGTH, "WIDTH": WIDTH, "SPEED": speed, "ACCEL": 0.0}
    values |= {f"PREV_{k}": values[k] for k in ("X", "Y", "Z", "YAW")} | {"STEER": 0.0, "LAT_ACCEL": 0.0}
    for column, value in values.items():
        agents[:, AgentCol[column]] = torch.as_tensor(value, dtype=torch.float32)
    state["slots"][..., SlotCol.LANE] = -1
    sim.load_state(state)
    sim.step(torch.full((len(x), 1), 7))
    return sim.state["slots"][:, 0, SlotCol.EVENT].numpy()


def along(lane, step=1.0):
    """Poses x, y, z, yaw [n] on a lane's centre line where it is at least 2.4 m wide."""
    s = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(lane.centre[:, :2], axis=0).T))])
    at = np.arange(0.0 if lane.predecessors else DEAD_END_M, s[-1] - (0.0 if lane.successors else DEAD_END_M), step)
    width = np.linalg.norm(lane.left - lane.right, axis=1)
    at = at[np.interp(at, s, width) >= 2.4]
    x, y, z = (np.interp(at, s, lane.centre[:, k]) for k in range(3))
    low, high = np.clip(at - 0.25, 0, s[-1]), np.clip(at + 0.25, 0, s[-1])
    dx, dy = (np.interp(high, s, lane.centre[:, k]) - np.interp(low, s, lane.centre[:, k]) for k in range(2))
    return np.stack([x, y, z, np.arctan2(dy, dx)], axis=1)


def enclosed(road_map):
    """The ground that the edges enclose: outer rings run counter-clockwise, holes clockwise."""
    rings = [shapely.LinearRing(e[:, :2]) for e in road_map.edges]
    outer = shapely.union_all([shapely.Polygon(r) for r in rings if r.is_ccw])
    return shapely.difference(outer, shapely.union_all([shapely.Polygon(r) for r in rings if not r.is_ccw]))


@pytest.mark.parametrize("name", MAPS)
def test_on_every_lane_centre_a_car_is_on_the_road_and_the_right_way_round(name):
    road_map = load(name)
    poses = np.concatenate([along(lane) for lane in road_map.lanes])
    got = events(road_map, *poses.T)
    for event in (Event.OFFROAD, Event.WRONG_WAY):
        bad = (got & event) != 0
        assert not bad.any(), f"{event.name} at {bad.sum()} of {len(bad)} poses, first {poses[bad][0].round(2)}"


@pytest.mark.parametrize("name", MAPS)
def test_beyond_the_outer_edge_a_car_is_off_the_road(name):
    road_map = load(name)
    a = np.concatenate([e[:-1] for e in road_map.edges])
    b = np.concatenate([e[1:] for e in road_map.edges])
    long = np.hypot(*(b - a)[:, :2].T) > 1.0
    a, b = a[long], b[long]
    yaw = np.arctan2(b[:, 1] - a[:, 1], b[:, 0] - a[:, 0])
    right = np.stack([np.sin(yaw), -np.cos(yaw)], axis=1)
    # the near side of the car is 1 m beyond the edge: it touches none, and only its place can tell
    centre = (a[:, :2] + b[:, :2]) / 2 + (1.0 + WIDTH / 2) * right
    corners = np.array([[1, 1], [1, -1], [-1, -1], [-1, 1]]) * [LENGTH / 2, WIDTH / 2]
    cos, sin = np.cos(yaw)[:, None], np.sin(yaw)[:, None]
    box = np.stack([corners[:, 0] * cos - corners[:, 1] * sin, corners[:, 0] * sin + corners[:, 1] * cos], axis=2)
    rings = shapely.multilinestrings([shapely.linestrings(e[:, :2]) for e in road_map.edges])
    boxes = shapely.polygons(box + centre[:, None])
    road = enclosed(road_map)
    shapely.prepare(rings)
    shapely.prepare(road)
    alone = ~shapely.intersects(rings, boxes) & ~shapely.intersects(road, boxes)
    assert alone.sum() > 10
    got = events(road_map, *centre[alone].T, a[alone, 2], yaw[alone], speed=0.0)
    on = (got & Event.OFFROAD) == 0
    assert not on.any(), f"on the road at {on.sum()} of {len(on)} places, first {centre[alone][on][0].round(2)}"


def test_against_the_traffic_is_the_wrong_way():
    road_map = load("grid:0")
    poses = np.concatenate([along(lane) for lane in road_map.lanes if lane.junction < 0])
    poses[:, 3] += np.pi
    assert ((events(road_map, *poses.T) & Event.WRONG_WAY) != 0).mean() > 0.99
