import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict
from terapixel_student import NetworkConfig, StudentPolicy
from terapixel_student.networks import sample
from terapixel_student.trajectory import compose, to_frame, wrap_angle

CONFIG = NetworkConfig(channels=(8, 16), queries=2, scene=16, vector=8, hidden=16)


def batch_of(*lead, cameras=None, seed=0):
    g = torch.Generator().manual_seed(seed)
    shapes = cameras or {"front": (3, 12, 24), "back": (3, 10, 16)}
    image = {n: torch.randint(0, 256, (*lead, *s), generator=g, dtype=torch.uint8) for n, s in shapes.items()}
    sizes = {"proprio": (9,), "command": (3, 2), "condition": (18,), "manoeuvre": (4,)}
    leaves = {k: torch.randn(*lead, *s, generator=g) for k, s in sizes.items()}
    leaves["command_mask"] = torch.rand(*lead, 3, generator=g) < 0.7
    leaves["draw"] = torch.rand(*lead, 2, generator=g)
    return TensorDict({**leaves, "camera": image}, batch_size=lead)


@pytest.fixture(scope="module")
def policy():
    torch.manual_seed(0)
    return StudentPolicy(batch_of(1), CONFIG)


def test_same_numbers_for_worlds_and_for_rows(policy):
    batch = batch_of(3, 5)
    output = policy.head(policy.encode(batch))
    assert policy.encode(batch).shape == (3, 5, 24)
    assert output["action_logits"].shape == (3, 5, 12)
    assert output["trajectory"].shape == (3, 5, 8, 3)
    rows = policy.head(policy.encode(batch.reshape(15)))
    for key, value in output.items():
        torch.testing.assert_close(rows[key].reshape(value.shape), value)
    assert policy.act(batch).shape == (3, 5)
    assert policy.act(batch).dtype == torch.int64
    assert torch.equal(policy.act(batch, greedy=True), output["action_logits"].argmax(-1))


def test_every_input_moves_the_output_and_masked_goals_do_not(policy):
    batch = batch_of(6)
    before = policy.encode(batch)
    for key in [("camera", "front"), ("camera", "back"), "proprio", "command", "condition", "manoeuvre"]:
        other = batch.clone()
        other[key] = other[key].roll(1, 0)
        assert not torch.equal(policy.encode(other), before), key
    hidden = batch.clone()
    hidden["command"] = torch.where(hidden["command_mask"].unsqueeze(-1), hidden["command"], 77.0)
    assert torch.equal(policy.encode(hidden), before)
    other = batch.clone()
    other["command_mask"] = ~other["command_mask"]
    assert not torch.equal(policy.encode(other), before)


def test_place_in_the_image_matters(policy):
    batch = batch_of(1)
    batch["camera", "front"].zero_()
    left, right = batch.clone(), batch.clone()
    left["camera", "front"][..., 4:8, 4:8] = 255
    right["camera", "front"][..., 4:8, 16:20] = 255
    assert (policy.encode(left) - policy.encode(right)).abs().max() > 1e-2


def test_two_frames_are_six_channels():
    policy = StudentPolicy(batch_of(2, cameras={"front": (6, 12, 24)}), CONFIG)
    assert policy.encode(batch_of(4, cameras={"front": (6, 12, 24)})).shape == (4, 24)


def test_examples_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"has no manoeuvre; its keys are camera, command, .*proprio"):
        StudentPolicy(batch_of(1).exclude("manoeuvre"), CONFIG)
    with pytest.raises(ValueError, match=r"no \(camera, name\) leaf; its keys are"):
        StudentPolicy(batch_of(1).exclude("camera"), CONFIG)
    with pytest.raises(ValueError, match="same number of frames"):
        StudentPolicy(batch_of(1, cameras={"a": (3, 8, 8), "b": (6, 8, 8)}), CONFIG)


def test_sampling_by_inverse_cdf():
    logits = torch.tensor([0.2, 0.5, 0.0, 0.3]).log()
    draws = torch.tensor([0.0, 0.19, 0.21, 0.69, 0.71, 1 - 2**-24])
    assert sample(logits.expand(6, 4), draws).tolist() == [0, 0, 1, 1, 3, 3]
    never = torch.tensor([0.0, 1.0]).log()
    assert sample(never, torch.tensor(0.0)).item() == 1  # a draw of 0 does not pick what has probability 0
    uniform = (torch.arange(10_000) + 0.5) / 10_000
    share = torch.bincount(sample(logits.expand(10_000, 4), uniform), minlength=4) / 10_000
    torch.testing.assert_close(share, torch.tensor([0.2, 0.5, 0.0, 0.3]), atol=2e-4, rtol=0)


angles = st.floats(-50, 50)
metres = st.floats(-20, 20)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(metres, metres, angles), min_size=1, max_size=8))
def test_increments_and_poses_round_trip(increments):
    steps = torch.tensor(increments, dtype=torch.float64)
    poses = compose(steps)
    before = torch.cat([torch.zeros(1, 3, dtype=torch.float64), poses[:-1]])
    again = to_frame(poses, before)
    torch.testing.assert_close(again[:, :2], steps[:, :2], atol=1e-9, rtol=0)
    torch.testing.assert_close(
        wrap_angle(again[:, 2] - steps[:, 2]), torch.zeros(len(steps)).double(), atol=1e-9, rtol=0
    )


def test_compose_drives_a_square():
    quarter = torch.tensor([[10.0, 0.0, math.pi / 2]] * 4)
    expected = torch.tensor([[10, 0, math.pi / 2], [10, 10, math.pi], [0, 10, -math.pi / 2], [0, 0, 0]])
    got = compose(quarter)
    torch.testing.assert_close(got[:, :2], expected[:, :2], atol=1e-5, rtol=0)
    torch.testing.assert_close(wrap_angle(got[:, 2] - expected[:, 2]), torch.zeros(4), atol=1e-5, rtol=0)


def test_to_frame_has_left_positive():
    seen = to_frame(torch.tensor([1.0, 3.0, math.pi]), torch.tensor([1.0, 1.0, math.pi / 2]))
    torch.testing.assert_close(seen, torch.tensor([2.0, 0.0, math.pi / 2]), atol=1e-6, rtol=0)
    left = to_frame(torch.tensor([0.0, 2.0, 0.0]), torch.tensor([0.0, 0.0, 0.0]))
    torch.testing.assert_close(left, torch.tensor([0.0, 2.0, 0.0]))


@given(angles)
def test_wrapped_angles_lie_in_one_turn(angle):
    wrapped = wrap_angle(torch.tensor(angle, dtype=torch.float64)).item()
    assert -math.pi < wrapped <= math.pi or math.isclose(abs(wrapped), math.pi)
    assert math.isclose(math.cos(wrapped), math.cos(angle), abs_tol=1e-9)
    assert math.isclose(math.sin(wrapped), math.sin(angle), abs_tol=1e-9)
    assert wrap_angle(torch.tensor(math.pi, dtype=torch.float64)).item() == math.pi
