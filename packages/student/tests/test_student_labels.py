from types import SimpleNamespace

import pytest
import torch
from pixel_points import Controller, PixelPoints, to_ego
from terapixel_student import Aggregate, label
from terapixel_student.protocols import check_env, observe


def started(steps=3, **kwargs):
    env = PixelPoints(**kwargs)
    batch = env.reset()
    for _ in range(steps):
        batch = env.step(Controller().act(batch))
    return env


def test_labels_are_what_the_expert_then_does():
    env = started(num_worlds=12, num_agents=4, time_limit_s=1e9)
    labels = label(env.fork(num_worlds=12), env.state.clone(), Controller())
    origin, live, batch = env.rear_axle().clone(), env.state["live"].clone(), observe(env, env.state)
    torch.testing.assert_close(labels["action_logits"], Controller().head(batch["ego"])["action_logits"])
    assert torch.equal(labels["live"], live)
    ended = torch.zeros_like(live)
    for point in range(8):
        for _ in range(2):
            batch = env.step(Controller().act(batch, greedy=True))
            ended |= batch["terminated"]
        valid = live & ~ended
        assert torch.equal(labels["trajectory_mask"][:, :, point], valid), point
        xy = to_ego(env.rear_axle()[..., :2], origin)
        got = labels["trajectory"][:, :, point]
        torch.testing.assert_close(got[valid][:, :2], xy[valid], atol=1e-4, rtol=0)
        turn = got[..., 2] - (env.rear_axle()[..., 2] - origin[..., 2])
        torch.testing.assert_close(turn.cos()[valid], torch.ones(int(valid.sum())), atol=1e-6, rtol=0)
        assert (got[~valid] == 0).all()
    assert ended.any()
    assert labels["trajectory_mask"].any()


def test_slots_that_do_not_act_have_no_label():
    env = started()
    state = env.state.clone()
    state["live"][0, 1] = False
    labels = label(env.fork(num_worlds=16), state, Controller())
    assert not labels["live"][0, 1]
    assert not labels["trajectory_mask"][0, 1].any()
    assert labels["trajectory_mask"][0, 0].any()


def test_labelling_leaves_the_original_alone():
    env = started()
    before = env.state.clone()
    label(env.fork(num_worlds=16), env.state, Controller())
    assert all(torch.equal(before[key], env.state[key]) for key in before.keys())  # noqa: SIM118


def test_labels_need_whole_steps_and_matching_worlds():
    env = started()
    with pytest.raises(ValueError, match=r"every_s: expected a whole number of steps of 0.25 s, got 0.6 s"):
        label(env.fork(num_worlds=16), env.state, Controller(), every_s=0.6)
    with pytest.raises(ValueError, match=r"expected batch size \[3\], the fork's worlds, got \[16\]"):
        label(env.fork(num_worlds=3), env.state, Controller())


def test_aggregate_keeps_the_newest_and_makes_the_same_inputs_again():
    env = PixelPoints(num_worlds=3, num_agents=2)
    env.reset()
    aggregate = Aggregate(capacity=8, num_agents=2)  # four worlds
    seen = []
    for _ in range(3):
        direct = env.sensors(env.step(torch.full((3, 2), 10))).clone()
        aggregate.add(env.state, direct.select("proprio").reshape(3, 2)[:, 0])
        seen.append((env.state.clone(), direct))
    assert len(aggregate) == 4
    state, labels = aggregate.sample(200, torch.Generator().manual_seed(0))
    steps = set(state["step"].tolist())
    assert steps == {2, 3}  # the first snapshot and two worlds of the second were overwritten
    again = env.sensors(observe(env, state))
    for row in range(200):
        world, step = int(state["id"][row]), int(state["step"][row])
        direct = seen[step - 1][1]
        for key in [("camera", "above"), "proprio", "draw"]:
            assert torch.equal(again[key][row], direct[key][world]), key
        assert torch.equal(labels["proprio"][row], direct["proprio"][world, 0])


def test_aggregate_state_round_trip():
    env = started(num_worlds=3, num_agents=2)
    first, second = Aggregate(20, 2), Aggregate(20, 2)
    first.add(env.state, env.state.select("speed"))
    second.load_state_dict(first.state_dict())
    for aggregate in (first, second):
        aggregate.add(env.state[:1], env.state.select("speed")[:1])
    a, b = (x.sample(9, torch.Generator().manual_seed(1))[0] for x in (first, second))
    assert all(torch.equal(a[key], b[key]) for key in a.keys())  # noqa: SIM118
    with pytest.raises(ValueError, match="the stored aggregate holds 10 worlds, this one 5"):
        Aggregate(10, 2).load_state_dict(first.state_dict())


def test_aggregate_limits():
    env = started(num_worlds=3, num_agents=2)
    with pytest.raises(ValueError, match="at least 4, the agent slots of one world, got 3"):
        Aggregate(3, 4)
    with pytest.raises(ValueError, match="3 worlds were added at once, but only 2 fit"):
        Aggregate(4, 2).add(env.state, env.state)
    with pytest.raises(ValueError, match="empty"):
        Aggregate(4, 2).sample(1, torch.Generator())


def test_environment_is_checked():
    env = PixelPoints()
    check_env(env)
    env.interface = 2
    with pytest.raises(ValueError, match="speaks interface 1, PixelPoints has 2"):
        check_env(env)
    members = {name: None for name in dir(env) if not name.startswith("_") and name not in ("fork", "render")}
    with pytest.raises(TypeError, match="SimpleNamespace lacks fork, render"):
        check_env(SimpleNamespace(**{**members, "interface": 1}))
