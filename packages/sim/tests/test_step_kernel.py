"""The step as a whole: responses, ends, flags, independence of worlds."""

import math

import numpy as np
import pytest
import torch
from step_bank import Stage, Town, loop_edges, plain_town, straight
from terapixel_sim.config import SimConfig
from terapixel_sim.kernels.step import StepParams, step
from terapixel_sim.layout import AgentCol, Event, SlotCol, Status, WorldCol
from town_worlds import Worlds

ENDED = (Status.STOPPED, Status.REMOVED, Status.FINISHED, Status.TIMED_OUT)


def crash(infraction, **config):
    """Slot 0 runs into slot 1; 2, 3 and 4 stand far away."""
    s = Stage(plain_town(), 1, 5, infraction=infraction, **config)
    s.put(0, 0.0, 0.0, speed=8.0, collision=1.0)
    s.put(1, 5.0, 0.0, speed=0.0, collision=1.0)
    for a in (2, 3, 4):
        s.put(a, 20.0 * a, 0.0)
    return s.step()


@pytest.mark.parametrize(
    ("response", "status", "over"),
    [("stop", Status.STOPPED, True), ("remove", Status.REMOVED, True), ("ignore", Status.LIVE, False)],
)
def test_responses(response, status, over):
    s = crash(response, early_reset=1.0)
    assert s.slots[0, :2, SlotCol.STATUS].tolist() == [status, status]
    assert s.terminated[0].tolist() == [over, over, False, False, False]
    assert not s.truncated.any()
    assert [s.slot("EVENT", a) for a in range(3)] == [Event.COLLISION, Event.COLLISION, 0]
    assert float(s.reward[0, 0]) == pytest.approx(-1.8)
    assert s.col("SPEED") == (0.0 if response == "stop" else 8.0)
    s.step()
    assert not s.terminated.any()
    assert s.slot("EVENT") == (Event.COLLISION if response == "ignore" else 0)
    assert s.slot("EVER") == Event.COLLISION
    assert s.slot("STEPS") == (2 if response == "ignore" else 1)


def test_early_reset_counts_infractions_among_the_present():
    s = crash("remove", early_reset=0.4)
    assert int(s.world[0, WorldCol.DONE]) == 1
    assert s.truncated[0].tolist() == [False, False, True, True, True]
    assert s.slots[0, 2:, SlotCol.STATUS].tolist() == [Status.TIMED_OUT] * 3
    s = crash("remove", early_reset=0.41)
    assert int(s.world[0, WorldCol.DONE]) == 0
    assert not s.truncated.any()


def test_an_episode_has_exactly_its_steps():
    s = Stage(plain_town(), 1, 1, dt_s=0.1, time_limit_s=0.3)
    s.put(0, 0.0, 0.0)
    ends = [(bool(s.step().truncated[0, 0]), int(s.world[0, WorldCol.DONE])) for _ in range(3)]
    assert ends == [(False, 0), (False, 0), (True, 1)]


def test_finishing_ends_a_world_without_infractions():
    s = Stage(plain_town(), 1, 2)
    s.put(0, -90 + 48.0, 0.0, speed=4.0, ROUTE_S=48.0, goal=2)
    s.step()
    assert s.slot("STATUS") == Status.FINISHED
    assert s.slot("EVENT") == Event.GOAL | Event.FINISH
    assert s.terminated[0].tolist() == [True, False]
    assert not s.truncated.any()
    assert int(s.world[0, WorldCol.DONE]) == 1, "nobody is live"


def test_no_finish_in_a_step_with_an_infraction():
    s = Stage(plain_town(), 1, 2, infraction="ignore")
    s.put(0, -90 + 48.0, 0.0, speed=4.0, ROUTE_S=48.0, goal=2)
    s.put(1, -90 + 52.0, 0.0)
    s.step()
    assert s.slot("STATUS") == Status.LIVE
    assert s.slot("EVENT") == Event.GOAL | Event.COLLISION


@pytest.mark.parametrize(
    ("responses", "status", "reward"),
    [
        ({"collision": "remove", "offroad": "stop", "red_light": "stop"}, Status.STOPPED, -2.0),
        ({"collision": "remove", "offroad": "ignore", "red_light": "stop"}, Status.REMOVED, -3.8),
        ({"collision": "ignore", "offroad": "ignore", "red_light": "stop"}, Status.LIVE, -2.0),
    ],
)
def test_off_road_goes_before_collision(responses, status, reward):
    town = Town([straight(-90, 0, 90, 0)], np.array([[2.0, -5.0, 2.0, 5.0, 0.0]]))
    s = Stage(town, 1, 2, infraction=responses)
    s.put(0, 0.0, 0.0, speed=8.0, collision=3.0, offroad=2.0)
    s.put(1, 6.0, 0.0)
    s.step()
    assert s.slot("EVENT") == Event.COLLISION | Event.OFFROAD
    assert s.slot("STATUS") == status
    assert float(s.reward[0, 0]) == pytest.approx(reward)


def test_columns_of_a_slope():
    """Height and grade follow the lane; against it the grade is negative."""
    s = Stage(Town([straight(-90, 0, 90, 0, z0=0.0, z1=18.0)]), 1, 2)
    s.put(0, 0.0, 0.5, 0.0, z=9.0)
    s.put(1, 40.0, 0.0, math.pi, z=13.0)
    s.step()
    assert s.agents[0, :, AgentCol.Z].tolist() == pytest.approx([9.0, 13.0], abs=1e-4)
    assert s.agents[0, :, AgentCol.GRADE].tolist() == pytest.approx([0.1, -0.1], abs=1e-4)
    assert s.col("LANE_OFFSET") == pytest.approx(0.5)


SQUARE = Town(
    [straight(-40, 0, 40, 0), straight(40, 4, -40, 4), straight(0, -40, 0, 40)],
    loop_edges([(-45, -45), (45, -45), (45, 45), (-45, 45)]),
    lambda x, y: max(abs(x), abs(y)) < 45,
    low=(-64.0, -64.0),
    cells=(16, 16),
).bank()


def crowd(worlds, agents=6, first=0, **config):
    """Worlds of agents at random; world i is the same whatever the others are."""
    s = Stage(SQUARE, worlds, agents, time_limit_s=5.0, **config)
    for w in range(worlds):
        rng = np.random.default_rng(first + w)
        for a in range(agents - (w + first) % 2):
            s.put(
                a,
                *rng.uniform(-35, 35, 2),
                rng.uniform(-3, 3),
                rng.uniform(0, 9),
                w=w,
                lane_center=0.01,
                collision=1.0,
                comfort=0.1,
            )
            s.agents[w, a, AgentCol.ROUTE_S] = rng.uniform(0, 20)
    return s


def actions(step, worlds, agents=6, first=0):
    return torch.stack([
        torch.from_numpy(np.random.default_rng((99, step, first + w)).integers(0, 12, agents)) for w in range(worlds)
    ])  # fmt: skip


@pytest.mark.parametrize("infraction", ["stop", "remove", "ignore"])
def test_each_end_is_flagged_exactly_once(infraction):
    s = crowd(40, infraction=infraction, early_reset=0.4)
    present = s.slots[..., SlotCol.STATUS] == Status.LIVE
    ends = torch.zeros(40, 6, dtype=torch.int64)
    for t in range(24):
        live = (s.slots[..., SlotCol.STATUS] == Status.LIVE) & (s.world[:, None, WorldCol.DONE] == 0)
        s.step(actions(t, 40))
        flags = s.terminated.long() + s.truncated.long()
        assert flags.max() <= 1
        assert (flags[~live] == 0).all()
        assert (s.reward[~live] == 0).all()
        assert (s.slots[..., SlotCol.PREV_STATUS][live] == Status.LIVE).all()
        after = s.slots[..., SlotCol.STATUS]
        assert (flags.bool() == (live & (after != Status.LIVE))).all()
        done = s.world[:, WorldCol.DONE] == 1
        assert not (after[done] == Status.LIVE).any()
        assert not (after[~done] == Status.TIMED_OUT).any()
        ends += flags
    assert (s.world[:, WorldCol.DONE] == 1).all()
    assert (ends == present.long()).all()
    assert torch.isin(s.slots[..., SlotCol.STATUS][present], torch.tensor(ENDED, dtype=torch.int32)).all()
    assert torch.isfinite(s.agents).all()


def test_a_done_world_is_left_alone():
    s = crowd(2)
    s.world[1, WorldCol.DONE] = 1
    before = [x.clone() for x in (s.agents, s.slots, s.world)]
    s.step()
    for old, new in zip(before, (s.agents, s.slots, s.world), strict=True):
        assert torch.equal(old[1], new[1])
        assert not torch.equal(old[0], new[0])
    assert not s.terminated[1].any()
    assert not s.truncated[1].any()
    assert (s.reward[1] == 0).all()


def test_a_world_alone_equals_itself_among_seven():
    many = crowd(7, infraction="stop")
    alone = crowd(1, first=3, infraction="stop")
    for t in range(15):
        many.step(actions(t, 7))
        alone.step(actions(t, 1, first=3))
        for a, b in (
            (many.agents, alone.agents),
            (many.slots, alone.slots),
            (many.world, alone.world),
            (many.reward, alone.reward),
        ):
            assert torch.equal(a[3], b[0])


def test_no_agents_ends_at_once():
    s = Stage(plain_town(), 1, 3).step()
    assert int(s.world[0, WorldCol.DONE]) == 1
    assert not (s.terminated | s.truncated).any()


@pytest.mark.slow  # it compiles the kernel once more
@pytest.mark.parametrize("response", ["stop", "ignore"])
def test_agents_side_by_side_are_as_one_at_a_time(response):
    """The shape of a CPU, blocks of agents, and that of a GPU, one each: bitwise the same, with a block not full."""
    config = SimConfig(infraction=response)
    rng = np.random.default_rng(4)
    actions = torch.from_numpy(rng.integers(0, 12, (40, 5, 21)))
    ended = []
    for block in (1, 16):
        worlds = Worlds.started(range(5), 21, config=config, seed=9)
        params = StepParams.from_config(config)
        reward = torch.zeros(5, 21)
        flags = [torch.zeros(5, 21, dtype=torch.bool) for _ in range(2)]
        seen = []
        for action in actions:
            bank = worlds.bank
            step(
                worlds.agents, worlds.slots, worlds.world, bank.ints, bank.floats, action, reward, *flags, params, block
            )  # fmt: skip
            seen += [t.clone() for t in (worlds.agents, worlds.slots, worlds.world, reward, *flags)]
        ended.append(seen)
    assert all(torch.equal(a, b) for a, b in zip(*ended, strict=True))
    events = torch.stack([s[..., SlotCol.EVENT] for s in ended[0][1::6]])
    assert all(((events & int(e)) != 0).any() for e in (Event.COLLISION, Event.OFFROAD))
