"""Traffic lights: their cycle, who runs a red one, what is seen of them, how agents start before them."""

import dataclasses
import math
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from light_town import HALF, OFFSET, light_town
from terapixel_sim.config import ConditionConfig, LightConfig, SimConfig, SpawnConfig
from terapixel_sim.layout import AgentCol, Condition, Event, Head, LaneInt, LightColour, SlotCol, Status, WorldCol
from terapixel_sim.maps.bank import build_bank
from terapixel_sim.maps.procedural import signal_town
from terapixel_sim.observation import LightObs
from terapixel_sim.reference.lane import Bank
from terapixel_sim.reference.lights import phase_of, runs_red
from terapixel_sim.simulator import Simulator

FIXED = LightConfig(green_s=(10.0, 10.0), yellow_s=3.0, all_red_s=1.0)
STOP_AT = -(HALF + 1.0)  # x of the stop line of the approach from the west
COAST, BRAKE = 7, 1
RED, YELLOW, GREEN = LightColour.RED, LightColour.YELLOW, LightColour.GREEN


def simulator(town=None, worlds=1, agents=1, **config):
    sim = Simulator(SimConfig(**config), [town or light_town()], num_worlds=worlds, num_agents=agents)
    sim.reset()
    return sim


def approach(sim, *, x=STOP_AT - 1.0, y=-OFFSET, yaw=0.0, speed=8.0, w=0, a=0, lane=0):
    """Put an agent on the approach from the west with a route straight across."""
    row, slot = sim.state["agents"][w, a], sim.state["slots"][w, a]
    for name, value in {"X": x, "Y": y, "YAW": yaw, "SPEED": speed, "PREV_X": x, "PREV_Y": y, "PREV_YAW": yaw}.items():
        row[AgentCol[name]] = value
    for name in ("ACCEL", "LAT_ACCEL", "STEER"):
        row[AgentCol[name]] = 0.0
    row[AgentCol.ROUTE_S] = x + 110.0
    row[AgentCol.ROUTE_LENGTH] = 220.0
    lanes, lengths = [lane, lane + 1, lane + 2], [100.0, 20.0, 100.0]
    slot[SlotCol.ENTRIES] = 3
    for e in range(3):
        slot[SlotCol.ROUTE + 2 * e : SlotCol.ROUTE + 2 * e + 2] = lanes[e]
        row[AgentCol.ROUTE + 3 * e : AgentCol.ROUTE + 3 * e + 3] = torch.tensor([0.0, 0.0, lengths[e]])


def until(sim, colour, w=0, stop=0):
    """Let the world's clock run to where the signal of a stop line shows a colour and will for two steps more."""
    bank = bank_of(sim)
    world = sim.state["world"][w]
    for step in range(1000):
        world[WorldCol.STEP] = step
        if all(shown(bank, world, s, stop) == colour for s in range(step, step + 3)):
            return
    raise AssertionError(f"never {colour}")


def shown(bank, world, step, stop):
    now = world.numpy().copy()
    now[WorldCol.STEP] = step
    return phase_of(bank, now, 0, stop)[0]


def bank_of(sim):
    return Bank(sim._bank.ints.numpy(), sim._bank.floats.numpy())


def test_a_cycle_by_hand():
    """Two groups of 10 s green, 3 s yellow, 1 s red each: 28 s, the second group 14 s after the first."""
    sim = simulator(lights=FIXED, dt_s=0.25)
    bank, world = bank_of(sim), sim.state["world"][0]
    first, second = ([shown(bank, world, step, stop) for step in range(112)] for stop in (0, 1))
    assert [first.count(c) for c in (GREEN, YELLOW, RED)] == [40, 12, 60]
    assert second == first[-56:] + first[:-56]
    assert all(RED in pair for pair in zip(first, second, strict=True))
    begin = next(i for i in range(112) if first[i] == GREEN and first[i - 1] == RED)
    turned = first[begin:] + first[:begin]
    assert turned == [GREEN] * 40 + [YELLOW] * 12 + [RED] * 60
    assert [shown(bank, world, step, 2) for step in range(112)] == first  # opposite approaches share a group


def test_a_lone_group_is_red_half_the_time():
    sim = simulator(light_town(groups=(5, 5, 5, 5)), lights=FIXED)
    bank, world = bank_of(sim), sim.state["world"][0]
    cycle = [shown(bank, world, step, 0) for step in range(112)]
    assert [cycle.count(c) for c in (GREEN, YELLOW, RED)] == [40, 12, 60]


def test_timing_differs_by_episode_and_world_and_follows_the_seed():
    def patterns(seed):
        sim = Simulator(SimConfig(), [light_town()], num_worlds=3, num_agents=1, seed=seed)
        sim.reset()
        bank = bank_of(sim)
        rows = []
        for w in range(3):
            world = sim.state["world"][w].numpy()
            rows.append([phase_of(bank, {**dict(enumerate(world)), WorldCol.STEP: k}, seed, 0)[0] for k in range(80)])
        return rows

    one = patterns(0)
    assert one == patterns(0)
    assert one[0] != one[1] != one[2]
    assert one != patterns(1)


@pytest.mark.parametrize(
    ("colour", "event"), [(RED, Event.RED_LIGHT), (YELLOW, Event(0)), (GREEN, Event(0))], ids=("red", "yellow", "green")
)
def test_only_red_holds(colour, event):
    sim = simulator(lights=FIXED, infraction="stop", condition=ConditionConfig(stop_line=0.5), early_reset=1.0)
    until(sim, colour)
    approach(sim)
    batch = sim.step(torch.tensor([[COAST]]))
    assert sim.state["slots"][0, 0, SlotCol.EVENT] == int(event)
    status = Status.STOPPED if event else Status.LIVE
    assert sim.state["slots"][0, 0, SlotCol.STATUS] == status
    assert bool(batch["terminated"][0, 0]) == bool(event)
    if event:
        assert float(batch["reward"][0, 0]) == pytest.approx(-0.5, abs=0.02)  # driving terms are thousandths


@pytest.mark.parametrize(
    ("where", "held"),
    [
        ({"x": STOP_AT - 3.0}, False),  # comes to 1 m before the line
        ({"x": STOP_AT}, False),  # was on the line already
        ({"x": STOP_AT + 0.5}, False),  # is past it
        ({"y": OFFSET}, True),  # in the oncoming lane
        ({"y": 3.5 + 2.0}, False),  # 5.5 m beside the line's end
        ({"yaw": math.pi, "x": STOP_AT + 1.0}, False),  # comes from the junction
        ({"yaw": math.radians(50), "x": STOP_AT - 1.0}, True),
        ({"yaw": math.radians(70), "x": STOP_AT - 0.2}, False),
    ],
)
def test_what_counts_as_passing_a_red_light(where, held):
    sim = simulator(lights=FIXED, infraction="ignore")
    until(sim, RED)
    approach(sim, **where)
    sim.step(torch.tensor([[COAST]]))
    event = int(sim.state["slots"][0, 0, SlotCol.EVENT])
    assert bool(event & Event.RED_LIGHT) == held


def test_the_line_of_the_route_decides_where_two_overlap():
    """A turn lane of its own beside the straight one: the green of one's own lane frees, a red of one's own holds."""
    town = light_town()
    left = dataclasses.replace(town.stop_lines[0], lanes=(3,), signal=1)  # on the same spot, for other traffic
    town = dataclasses.replace(town, stop_lines=(*town.stop_lines, left))
    for colour, held in ((GREEN, False), (RED, True)):
        sim = simulator(town, lights=FIXED, infraction="ignore")
        until(sim, colour)
        approach(sim)
        sim.step(torch.tensor([[COAST]]))
        assert bool(int(sim.state["slots"][0, 0, SlotCol.EVENT]) & Event.RED_LIGHT) == held


def test_off_road_and_collision_go_before_a_red_light():
    sim = simulator(
        agents=2, lights=FIXED, infraction="stop", early_reset=1.0, condition=ConditionConfig(collision=2.0)
    )
    until(sim, RED)
    approach(sim)
    approach(sim, a=1, x=STOP_AT + 4.5, speed=0.0)
    batch = sim.step(torch.tensor([[COAST, COAST]]))
    assert int(sim.state["slots"][0, 0, SlotCol.EVENT]) == Event.COLLISION | Event.RED_LIGHT
    assert float(batch["reward"][0, 0]) == pytest.approx(-(2.0 + 0.8), abs=0.02)
    ignoring = {"collision": "ignore", "offroad": "stop", "red_light": "remove"}
    sim = simulator(agents=2, lights=FIXED, infraction=ignoring, early_reset=1.0)
    until(sim, RED)
    approach(sim)
    approach(sim, a=1, x=STOP_AT + 4.5, speed=0.0)
    sim.step(torch.tensor([[COAST, COAST]]))
    assert sim.state["slots"][0, :, SlotCol.STATUS].tolist() == [Status.REMOVED, Status.LIVE]


def test_the_light_ahead_is_seen_by_hand():
    sim = simulator(lights=FIXED)
    until(sim, GREEN)
    approach(sim, x=STOP_AT - 30.0)
    batch = sim.observe(sim.state)
    want = torch.zeros(4, 7)
    want[0, [LightObs.X0, LightObs.Y0]] = torch.tensor([30.0, OFFSET]) / 50.0
    want[0, [LightObs.X1, LightObs.Y1]] = torch.tensor([30.0, -OFFSET]) / 50.0
    want[0, LightObs.GREEN] = 1.0
    torch.testing.assert_close(batch["lights"][0, 0], want, atol=1e-4, rtol=0)
    assert batch["lights_mask"][0, 0].tolist() == [True, False, False, False]
    approach(sim, x=STOP_AT + 0.1)
    assert not sim.observe(sim.state)["lights_mask"][0, 0].any(), "a line that was passed is seen no more"
    approach(sim, x=STOP_AT - 98.0)
    assert sim.observe(sim.state)["lights_mask"][0, 0].any()
    near = simulator(lights=FIXED, observation=dataclasses.replace(SimConfig().observation, light_m=29.0))
    approach(near, x=STOP_AT - 30.0)
    assert not near.observe(near.state)["lights_mask"].any()


def test_nobody_starts_too_fast_to_stop_at_a_light():
    """Whoever brakes from the start on stops its front before the line, unless the light is green."""
    spawn = SpawnConfig(speed_mps=(12.0, 12.0), brake_mps2=2.0)
    sim = simulator(worlds=64, agents=6, spawn=spawn, lights=FIXED)
    agents, mask, lights = sim.state["agents"], *(sim.observe(sim.state)[k] for k in ("lights_mask", "lights"))
    held = mask[..., 0] & (lights[..., 0, LightObs.GREEN] == 0)
    distance = 50 * 0.5 * (lights[..., 0, LightObs.X0] + lights[..., 0, LightObs.X1])
    room = (distance - 0.5 * agents[..., AgentCol.LENGTH]).clamp(min=0)
    speed = agents[..., AgentCol.SPEED]
    assert held.sum() > 50
    assert (speed[held] <= (2 * 2.0 * room[held]).sqrt() + 0.2).all()
    assert (speed[held] < 11.0).any()
    assert (speed[mask[..., 0] & ~held] == 12.0).any()


def test_lanes_know_where_their_stop_lines_are():
    bank = build_bank([light_town(), light_town(controller=9)], SimConfig())
    lanes, s = bank.table(Head.LANES), bank.table(Head.F_LANE_STOPS)
    assert lanes[:, LaneInt.NUM_STOPS].tolist() == [1, 0, 0] * 8
    torch.testing.assert_close(s, torch.full((8,), 99.0), atol=1e-3, rtol=0)
    assert bank.table(Head.LANE_STOPS).tolist() == list(range(8))


@cache
def two_towns():
    """2 worlds of 16 small agents, one on each of two towns."""
    config = SimConfig(infraction="ignore", early_reset=1.0, spawn=SpawnConfig(length_m=(1.0, 1.0), width_m=(0.5, 0.5)))
    return Simulator(config, [light_town(), light_town(groups=(0, 1, 2, 3))], num_worlds=2, num_agents=16, seed=7)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31 - 1))
def test_who_runs_red_equals_the_twin(seed):
    rng = np.random.default_rng(seed)
    sim = two_towns()
    worlds, agents = sim.num_worlds, sim.num_agents
    sim.reset()
    sim.state["world"][:, WorldCol.EPISODE] = int(rng.integers(0, 1000))
    state = sim.state
    state["world"][:, WorldCol.STEP] = int(rng.integers(0, 150))
    shape = (worlds, agents)
    yaw = rng.choice([0, np.pi / 2, np.pi, -np.pi / 2], shape) + rng.normal(0, 0.5, shape)
    back = HALF + 1 + rng.uniform(-2.0, 5.0, shape)
    aside = rng.uniform(-8, 8, shape)
    for column, value in (
        (AgentCol.X, -back * np.cos(yaw) + aside * np.sin(yaw)),
        (AgentCol.Y, -back * np.sin(yaw) - aside * np.cos(yaw)),
        (AgentCol.YAW, np.arctan2(np.sin(yaw), np.cos(yaw))),
        (AgentCol.SPEED, rng.uniform(0, 20, shape)),
    ):
        state["agents"][..., column] = torch.from_numpy(value).float()
    world = state["world"].numpy().copy()
    sim.step(torch.full(shape, COAST))
    bank, rows, slots = bank_of(sim), state["agents"].numpy().astype(np.float64), state["slots"].numpy()
    for w in range(worlds):
        first = 4 * int(world[w, WorldCol.MAP])
        phases = [phase_of(bank, world[w], sim.seed, k) for k in range(first, first + 4)]
        if min(left for _, left in phases) < 1e-3:
            continue  # float32 may be on the other side of a change
        for a in range(agents):
            row = rows[w, a]
            route = set(slots[w, a, SlotCol.ROUTE : SlotCol.ROUTE + 2 * slots[w, a, SlotCol.ENTRIES]].tolist())
            want = runs_red(
                bank,
                range(first, first + 4),
                [colour for colour, _ in phases],
                route,
                (row[AgentCol.PREV_X], row[AgentCol.PREV_Y]),
                (row[AgentCol.X], row[AgentCol.Y]),
                row[AgentCol.Z],
                row[AgentCol.YAW],
            )
            got = bool(slots[w, a, SlotCol.EVENT] & Event.RED_LIGHT)
            assert got == want, (w, a)


def test_a_fork_goes_on_under_the_same_lights():
    sim = simulator(worlds=3, agents=4, infraction="ignore")
    fork = sim.fork(time_limit=40.0)
    g = torch.Generator().manual_seed(0)
    for _ in range(40):
        action = torch.randint(0, 12, (3, 4), generator=g)
        assert torch.equal(sim.step(action)["lights"], fork.step(action)["lights"])


def test_condition_of_the_stop_line_weighs_it():
    """Twice the weight, twice the penalty."""
    losses = []
    for weight in (0.25, 0.5):
        sim = simulator(lights=FIXED, infraction="remove", early_reset=1.0, condition=ConditionConfig(stop_line=weight))
        until(sim, RED)
        approach(sim)
        sim.state["agents"][0, 0, AgentCol.CONDITION + Condition.STOP_LINE] = weight
        losses.append(float(sim.step(torch.tensor([[COAST]]))["reward"][0, 0]))
    assert losses[1] - losses[0] == pytest.approx(-0.25, abs=0.02)


def test_a_line_at_the_very_end_of_a_lane_is_seen_by_all_who_come_to_it():
    """Wherever on the lane a route begins, float32 must not lose the line at the lane's end."""
    town = signal_town(0)
    lines = []
    for line in town.stop_lines:
        heading = town.signals[line.signal].heading
        way = np.array([np.cos(heading), np.sin(heading), 0.0])
        shift = (town.lanes[line.lanes[0]].centre[-1] - line.points.mean(axis=0)) @ way
        lines.append(dataclasses.replace(line, points=line.points + shift * way))
    sim = simulator(dataclasses.replace(town, stop_lines=tuple(lines)), worlds=256, agents=16)
    agents, slots = sim.state["agents"], sim.state["slots"]
    ending = torch.tensor([lane for line in lines for lane in line.lanes], dtype=torch.int32)
    direct = slots[..., SlotCol.ROUTE] == slots[..., SlotCol.ROUTE + 1]  # no lane change first
    near = agents[..., AgentCol.ROUTE + 2] < 99.0
    comes = torch.isin(slots[..., SlotCol.LANE], ending) & (slots[..., SlotCol.ENTRIES] > 1) & direct & near
    assert comes.sum() > 1000
    assert sim.observe(sim.state)["lights_mask"][..., 0][comes].all()
