"""A world that is moved or turned as a whole does the same, moved or turned."""

import dataclasses

import numpy as np
import pytest
import torch
from terapixel_sim import Event, RoadMap, SimConfig, Simulator, load_map
from terapixel_sim.layout import AgentCol, SlotCol

PLACES = [
    (AgentCol.X, AgentCol.Y),
    (AgentCol.PREV_X, AgentCol.PREV_Y),
    (AgentCol.GOAL_X, AgentCol.GOAL_Y),
]
ANGLES = [AgentCol.YAW, AgentCol.PREV_YAW]
LEAVES = ("ego", "proprio", "route", "partners", "command", "manoeuvre", "lights")


def moved_points(points, angle, shift):
    c, s = np.cos(angle), np.sin(angle)
    out = points.copy()
    out[:, 0] = c * points[:, 0] - s * points[:, 1] + shift[0]
    out[:, 1] = s * points[:, 0] + c * points[:, 1] + shift[1]
    return out


def moved_map(road_map: RoadMap, angle, shift) -> RoadMap:
    def move(points):
        return moved_points(points, angle, shift)

    lanes = tuple(
        dataclasses.replace(lane, centre=move(lane.centre), left=move(lane.left), right=move(lane.right))
        for lane in road_map.lanes
    )
    return dataclasses.replace(road_map, lanes=lanes, markings=(), edges=tuple(move(edge) for edge in road_map.edges))


def moved_state(state, angle, shift):
    """The state as the moved world has it, at the same floats wherever nothing was moved."""
    state = state.clone()
    agents = state["agents"]
    c, s = float(np.cos(angle)), float(np.sin(angle))
    for cx, cy in PLACES:
        x, y = agents[..., cx].double(), agents[..., cy].double()
        agents[..., cx] = (c * x - s * y + shift[0]).float()
        agents[..., cy] = (s * x + c * y + shift[1]).float()
    for column in ANGLES:
        yaw = agents[..., column].double() + angle
        agents[..., column] = torch.atan2(yaw.sin(), yaw.cos()).float()
    return state


@pytest.mark.parametrize("source", ["grid:1", "curvy:2"])
@pytest.mark.parametrize(
    ("degrees", "shift"),
    [(0.0, (320.0, -160.0)), (90.0, (0.0, 0.0)), (-37.0, (12.3, 45.6))],
    ids=("shift", "90", "any"),
)
def test_a_moved_world_does_the_same(source, degrees, shift):
    road_map, angle = load_map(source), np.radians(degrees)
    config = SimConfig(infraction="ignore", early_reset=1.0)
    a, b = (
        Simulator(config, [m], num_worlds=16, num_agents=24, seed=1)
        for m in (road_map, moved_map(road_map, angle, shift))
    )
    a.reset()
    b.reset()
    b.load_state(moved_state(a.state, angle, shift))
    generator = torch.Generator().manual_seed(0)
    for _ in range(16):
        action = torch.randint(0, 12, (16, 24), generator=generator)
        one, two = a.step(action), b.step(action)
    want, got = moved_state(a.state, angle, shift)["agents"], b.state["agents"]
    off = torch.hypot(*(got[..., c] - want[..., c] for c in (AgentCol.X, AgentCol.Y)))
    assert off.max() < 5e-3
    # a box that touches an edge to the last bit, or two lanes that fit alike, may fall either way
    same = (a.state["slots"] == b.state["slots"])[..., [SlotCol.EVENT, SlotCol.EVER, SlotCol.LANE, SlotCol.GOAL]].all(
        -1
    )
    assert same.float().mean() > 0.97
    for leaf in LEAVES:
        difference = (one[leaf] - two[leaf]).abs().flatten(2).amax(-1)
        assert (difference < 1e-2).float().mean() > 0.97, leaf
    close = (one["reward"] - two["reward"]).abs() < 1e-3
    assert close.float().mean() > 0.97
    events = a.state["slots"][..., SlotCol.EVER]
    for event in (Event.COLLISION, Event.OFFROAD):
        assert (events & int(event)).any(), "the run is to hold what is compared"
