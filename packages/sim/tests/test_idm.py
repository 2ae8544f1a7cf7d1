"""The driver of rules: its model by hand, and what it does in scenes."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from light_town import light_town
from terapixel_sim import ConditionConfig, Event, SimConfig, Simulator, SlotCol, SpawnConfig, Status
from terapixel_sim.kernels.idm import idm_accel
from terapixel_sim.layout import AgentCol
from terapixel_sim.maps.road_map import Lane, RoadMap
from terapixel_sim.observation import LightObs
from terapixel_sim.reference.idm import idm_accel as twin
from terapixel_sim.runtime import start, ti

GAINS = ConditionConfig(gain_throttle=1.0, gain_steer=1.0, gain_accel=1.0, gain_speed=1.0)
CAR = SpawnConfig(length_m=(4.5, 4.5), width_m=(1.9, 1.9))


@ti.kernel
def _accel(v: ti.f32, v0: ti.f32, gap: ti.f32, leader: ti.f32) -> ti.f32:
    return idm_accel(v, v0, gap, leader)


@settings(deadline=None)
@given(v=st.floats(0, 25), v0=st.floats(0.5, 25), gap=st.floats(-3, 200), leader=st.floats(-10, 25))
def test_the_model_equals_its_twin(v, v0, gap, leader):
    start("cpu")
    assert _accel(v, v0, gap, leader) == pytest.approx(twin(v, v0, gap, leader), abs=2e-3)


def test_the_model_by_hand():
    assert twin(10.0, 10.0, 1e9, 10.0) == pytest.approx(0.0)  # at the speed it wants, nobody ahead
    assert twin(0.0, 10.0, 2.0, 0.0) == pytest.approx(0.0)  # at rest at the jam distance
    # at 8 of 10 m/s behind one as fast: wanted 14 m; steady where 1 - .4096 = (14 / gap)^2
    assert twin(8.0, 10.0, 14.0 / math.sqrt(1 - 0.8**4), 8.0) == pytest.approx(0.0, abs=1e-9)
    assert twin(10.0, 10.0, 5.0, 0.0) == -5.0


def bend(radius=25.0, length=60.0):
    """A straight, then a left turn by 90 degrees, then a straight; one lane."""
    straight = np.column_stack([np.linspace(-length, 0, 40), np.zeros(40)])
    angles = np.linspace(0, np.pi / 2, 40)[1:]
    arc = np.column_stack([radius * np.sin(angles), radius * (1 - np.cos(angles))])
    out = np.column_stack([np.full(40, radius), radius + np.linspace(0, length, 41)[1:]])
    xy = np.concatenate([straight, arc, out])
    d = np.gradient(xy, axis=0)
    left = np.column_stack([-d[:, 1], d[:, 0]]) / np.hypot(*d.T)[:, None] * 1.75
    lines = [np.column_stack([xy + side * left, np.zeros(len(xy))]) for side in (0, 1, -1)]
    return RoadMap(name="bend", lanes=(Lane(id=0, centre=lines[0], left=lines[1], right=lines[2]),))


def simulator(town, agents, worlds=1, action="jerk_continuous", **config):
    config = SimConfig(
        dt_s=0.1, infraction="stop", early_reset=1.0, action=action, condition=GAINS, spawn=CAR, **config
    )
    sim = Simulator(config, [town], num_worlds=worlds, num_agents=agents)
    sim.reset()
    return sim


def put(sim, a, x, y, yaw, speed, s, length=None):
    row = sim.state["agents"][0, a]
    for name, value in {"X": x, "Y": y, "YAW": yaw, "SPEED": speed, "PREV_X": x, "PREV_Y": y, "PREV_YAW": yaw}.items():
        row[AgentCol[name]] = value
    for name in ("ACCEL", "LAT_ACCEL", "STEER"):
        row[AgentCol[name]] = 0.0
    route = sim.state["slots"][0, a]
    route[SlotCol.ENTRIES], route[SlotCol.ROUTE], route[SlotCol.ROUTE + 1] = 1, 0, 0
    length = length or float(sim._bank.floats[int(sim._bank.ints[17 + 1])])
    row[AgentCol.ROUTE : AgentCol.ROUTE + 3] = torch.tensor([0.0, 0.0, length])
    row[AgentCol.ROUTE_S], row[AgentCol.ROUTE_LENGTH], row[AgentCol.LANE_LIMIT] = s, length, 13.9


def test_alone_it_reaches_the_limit_and_slows_for_the_bend():
    sim = simulator(bend(), 1)
    put(sim, 0, -55.0, 0.0, 0.0, 5.0, 5.0)
    speeds = []
    for _ in range(200):
        sim.step(sim.idm_action())
        speeds.append(float(sim.state["agents"][0, 0, AgentCol.SPEED]))
        if not sim.observe(sim.state)["live"].any():
            break
    assert max(speeds[:60]) > 9.0
    # 1.2 m/s2 sideways in a radius of 25 m is 5.5 m/s; it brakes a little more than that takes
    assert 3.5 < min(speeds[30:120]) < 5.6
    assert int(sim.state["slots"][0, 0, SlotCol.EVER]) & (Event.OFFROAD | Event.COLLISION) == 0


def test_a_leader_round_the_bend_is_found_and_one_straight_ahead_off_the_route_is_not():
    sim = simulator(bend(), 2)
    put(sim, 0, -8.0, 0.0, 0.0, 8.0, 52.0)
    half = 25.0 * math.sqrt(0.5)
    put(sim, 1, half, 25.0 - half, math.pi / 4, 0.0, 60.0 + 25.0 * math.pi / 4)  # in the bend, on the route
    on_route = sim.idm_action()[0, 0, 0]
    put(sim, 1, 30.0, 0.0, 0.0, 0.0, 60.0)  # straight ahead, beside the bend
    beside = sim.idm_action()[0, 0, 0]
    sim = simulator(bend(), 1)
    put(sim, 0, -8.0, 0.0, 0.0, 8.0, 52.0)
    alone = sim.idm_action()[0, 0, 0]
    assert float(beside) == pytest.approx(float(alone), abs=1e-6)
    assert float(on_route) < float(alone) - 0.05


def test_it_stops_behind_a_standing_car_at_the_jam_distance():
    sim = simulator(bend(length=150.0), 2)
    put(sim, 0, -140.0, 0.0, 0.0, 10.0, 10.0)
    for _ in range(250):
        put(sim, 1, -40.0, 0.0, 0.0, 0.0, 110.0)
        sim.step(sim.idm_action())
    x, speed = (float(sim.state["agents"][0, 0, AgentCol[name]]) for name in ("X", "SPEED"))
    assert speed == pytest.approx(0.0, abs=0.05)
    assert -40.0 - x - 4.5 == pytest.approx(2.0, abs=0.6)
    assert int(sim.state["slots"][0, 0, SlotCol.EVER]) & Event.COLLISION == 0


@pytest.mark.parametrize("action", ["jerk", "jerk_continuous"])
def test_crowds_obey_the_lights(action):
    sim = simulator(light_town(), 6, worlds=16, action=action)
    while not bool(sim.world_done.all()):
        sim.step(sim.idm_action())
    ever = sim.state["slots"][..., SlotCol.EVER]
    assert not (ever & Event.RED_LIGHT).any()
    finished = (sim.state["slots"][..., SlotCol.STATUS] == Status.FINISHED).float().mean()
    assert finished > 0.7


def test_red_holds_it_before_the_line():
    sim = simulator(light_town(groups=(0, 0, 0, 0)), 1, worlds=16)
    waited = 0
    while not bool(sim.world_done.all()):
        batch = sim.step(sim.idm_action())
        agents, lights = sim.state["agents"][:, 0], batch["lights"][:, 0, 0]
        waits = batch["live"][:, 0] & (lights[:, LightObs.RED] == 1) & (agents[:, AgentCol.SPEED].abs() < 0.05)
        front = 25.0 * (lights[:, LightObs.X0] + lights[:, LightObs.X1]) - 0.5 * agents[:, AgentCol.LENGTH]
        # those that stand at the line, not those that start at rest
        at_line = waits & (agents[:, AgentCol.DRIVEN] > 20.0)
        waited += int(at_line.sum())
        assert (front[at_line] > 0.0).all()
        assert (front[at_line] < 4.0).all()
    assert waited > 20


def test_table_actions_are_the_nearest_to_what_it_wants():
    continuous, table = (simulator(light_town(), 6, worlds=4, action=a) for a in ("jerk_continuous", "jerk"))
    wanted, chosen = continuous.idm_action(), table.idm_action()
    jerk = torch.stack([wanted[..., 0] * torch.where(wanted[..., 0] < 0, 15.0, 4.0), 4.0 * wanted[..., 1]], -1)
    long, lat = torch.tensor([-15.0, -4.0, 0.0, 4.0]), torch.tensor([-4.0, 0.0, 4.0])
    assert torch.equal(chosen // 3, (jerk[..., :1] - long).abs().argmin(-1))
    assert torch.equal(chosen % 3, (jerk[..., 1:] - lat).abs().argmin(-1))
