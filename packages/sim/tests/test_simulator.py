"""The simulator as its users see it: batches, episodes, forks, determinism."""

import os
import subprocess
import sys

import pytest
import torch
from terapixel_sim import Camera, CameraRig, RoadMap, SimConfig, Simulator, SlotCol, Status, WorldCol, load_map
from torch import Tensor

RIG = CameraRig(cameras={"front": Camera(width=16, height=8), "rear": Camera(width=24, height=8, yaw_deg=180.0)})


@pytest.fixture(scope="module")
def towns() -> list[RoadMap]:
    return [load_map("grid:0"), load_map("curvy:0")]


def make(towns, worlds=3, agents=5, cameras=None, **options) -> Simulator:
    first_world = options.pop("first_world", 0)
    return Simulator(
        SimConfig(**options),
        towns,
        num_worlds=worlds,
        num_agents=agents,
        cameras=cameras,
        seed=3,
        first_world=first_world,
    )


def actions(worlds: int, agents: int, step: int, first_world: int = 0) -> Tensor:
    """Actions that depend on the world's number only, mostly forward."""
    w = torch.arange(first_world, first_world + worlds)[:, None]
    a = torch.arange(agents)[None, :]
    value = (w * 7919 + a * 104729 + step * 31) % 997
    return torch.where(value % 3 == 0, value % 12, 10)


def leaves(batch):
    return {k: v.clone() for k, v in batch.items(True, True)}


def assert_same(a, b, select=slice(None)):
    assert a.keys() == b.keys()
    for key in a:
        assert torch.equal(a[key][select], b[key][select]), key


def test_leaves_have_the_batch_shape_and_are_contiguous(towns):
    sim = make(towns, cameras=RIG)
    sim.reset()
    batch = sim.step(actions(3, 5, 0))
    assert batch.batch_size == torch.Size([3, 5])
    for key, leaf in batch.items(True, True):
        assert leaf.shape[:2] == (3, 5), key
        assert leaf.is_contiguous(), key
    assert batch["camera", "front"].shape == (3, 5, 3, 8, 16)
    assert batch["camera", "rear"].shape == (3, 5, 3, 8, 24)
    assert batch["reward"].shape == batch["terminated"].shape == (3, 5)
    assert batch["lights"].shape == (3, 5, 4, 7)
    assert not batch["lights_mask"].any()


def test_reset_batch_has_no_transition(towns):
    assert not {"reward", "terminated", "truncated"} & set(make(towns).reset().keys())


def test_all_agents_live_after_reset(towns):
    sim = make(towns, worlds=4, agents=20)
    assert sim.reset()["live"].all()


def test_same_seed_gives_bitwise_the_same_run(towns):
    runs = []
    for _ in range(2):
        sim = make(towns, cameras=RIG)
        out = [leaves(sim.reset())]
        out += [leaves(sim.step(actions(3, 5, t))) for t in range(20)]
        runs.append(out)
    for a, b in zip(*runs, strict=True):
        assert_same(a, b)


def test_a_world_alone_equals_that_world_among_257(towns):
    many, alone = make(towns, worlds=257), make(towns, worlds=1, first_world=200)
    a, b = leaves(many.reset()), leaves(alone.reset())
    for t in range(25):
        for key in a:
            assert torch.equal(a[key][200], b[key][0]), (t, key)
        a, b = leaves(many.step(actions(257, 5, t))), leaves(alone.step(actions(1, 5, t, first_world=200)))


def test_permuted_worlds_give_permuted_outputs(towns):
    sim = make(towns, worlds=5, cameras=RIG)
    sim.reset()
    for t in range(5):
        sim.step(actions(5, 5, t))
    order = torch.tensor([3, 0, 4, 1, 2])
    other = sim.fork(5, cameras=RIG, time_limit=sim.config.time_limit_s, early_reset=True)
    other.load_state(sim.state[order])
    act = actions(5, 5, 5)
    a, b = leaves(sim.step(act)), leaves(other.step(act[order]))
    for key in a:
        assert torch.equal(a[key][order], b[key]), key


def test_fork_leaves_the_original_alone_and_equals_its_future(towns):
    sim = make(towns, worlds=4, agents=8, cameras=RIG)
    sim.reset()
    for t in range(10):
        last = sim.step(actions(4, 8, t))
    before, batch_before = sim.state.clone(), leaves(last)
    fork = sim.fork(cameras=RIG, time_limit=sim.config.time_limit_s, early_reset=True)
    forked = [leaves(fork.step(actions(4, 8, t))) for t in range(10, 60)]
    for key, value in sim.state.items():
        assert torch.equal(value, before[key]), key
    assert_same(leaves(last), batch_before)
    for t, batch in zip(range(10, 60), forked, strict=True):
        assert_same(leaves(sim.step(actions(4, 8, t))), batch)


def test_fork_without_limit_outlives_the_original(towns):
    sim = make(towns, worlds=1, agents=2, time_limit_s=1.0)
    sim.reset()
    fork = sim.fork()
    idle = torch.full((1, 2), 7)
    for _ in range(6):
        sim.step(idle)
        fork.step(idle)
    assert sim.world_done.all()
    assert not fork.world_done.any()


def test_masked_reset_leaves_the_other_worlds_bitwise_alone(towns):
    sim = make(towns, worlds=4, cameras=RIG)
    sim.reset()
    before = leaves(sim.step(actions(4, 5, 0)).exclude("reward", "terminated", "truncated"))
    mask = torch.tensor([False, True, False, True])
    after = leaves(sim.reset(mask))
    assert_same(before, after, ~mask)
    assert not torch.equal(before["ego"][mask], after["ego"][mask])
    assert sim.state["world"][:, WorldCol.EPISODE].tolist() == [0, 1, 0, 1]


def test_the_step_batch_survives_a_reset(towns):
    sim = make(towns, cameras=RIG)
    sim.reset()
    batch = sim.step(actions(3, 5, 0))
    kept = leaves(batch)
    sim.reset(torch.tensor([True, False, True]))
    assert_same(leaves(batch), kept)


@pytest.mark.parametrize("infraction", ["remove", "stop", "ignore"])
def test_every_live_agent_ends_exactly_once_with_one_flag(towns, infraction):
    sim = make(towns, worlds=6, agents=12, time_limit_s=15.0, infraction=infraction)
    live = sim.reset()["live"].clone()
    ends = torch.zeros(6, 12, dtype=torch.int64)
    for t in range(61):
        done_before = sim.world_done.clone()
        batch = sim.step(actions(6, 12, t))
        flags = batch["terminated"].long() + batch["truncated"].long()
        assert (flags <= 1).all()
        assert not flags[~live].any(), "a slot that did not act has a flag"
        assert not batch["reward"][~live].any()
        assert not flags[done_before].any()
        assert torch.equal(batch["live"], live & (flags == 0)), "live ends exactly with a flag"
        ends += flags
        live = batch["live"].clone()
    assert sim.world_done.all()
    assert (ends == 1).all()


def test_an_episode_of_n_steps_has_n_transitions(towns):
    sim = make(towns, worlds=2, agents=3, time_limit_s=2.0)
    sim.reset()
    idle = torch.full((2, 3), 7)
    for n in range(1, 9):
        batch = sim.step(idle)
        assert bool(sim.world_done.all()) == (n == 8)
    assert batch["truncated"].any()
    assert (sim.state["slots"][..., SlotCol.STEPS] == 8)[batch["truncated"]].all()
    assert (sim.state["slots"][..., SlotCol.STATUS] == Status.TIMED_OUT)[batch["truncated"]].all()


def test_the_last_observation_of_a_truncated_agent_is_true(towns):
    sim = make(towns, worlds=1, agents=3, time_limit_s=1.0, cameras=RIG)
    sim.reset()
    for _ in range(4):
        batch = sim.step(torch.full((1, 3), 10))
    cut = batch["truncated"]
    assert cut.any()
    assert (batch["ego"][cut].abs().sum(-1) > 0).all()
    assert (batch["camera", "front"][cut].float().mean(dim=(1, 2, 3)) > 0).all()


def test_a_step_of_a_done_world_changes_nothing(towns):
    sim = make(towns, worlds=1, agents=3, time_limit_s=1.0)
    sim.reset()
    for _ in range(4):
        sim.step(torch.full((1, 3), 10))
    before = sim.state.clone()
    batch = sim.step(torch.full((1, 3), 10))
    for key, value in sim.state.items():
        assert torch.equal(value, before[key])
    assert not batch["reward"].any()
    assert not (batch["terminated"] | batch["truncated"]).any()


def test_observe_and_render_of_the_state_equal_the_batch(towns):
    sim = make(towns, worlds=3, cameras=RIG)
    sim.reset()
    for t in range(4):
        batch = sim.step(actions(3, 5, t))
    again = sim.observe(sim.state)
    for key, leaf in again.items():
        assert torch.equal(leaf, batch[key]), key
    images = sim.render(sim.state)
    picked = sim.render(sim.state[torch.tensor([2])])
    for name in RIG.cameras:
        assert torch.equal(images["camera", name], batch["camera", name])
        assert torch.equal(picked["camera", name][0], batch["camera", name][2])


def test_two_frames_hold_the_previous_image_first(towns):
    rig = CameraRig(cameras={"front": Camera(width=16, height=8)}, frames=2)
    sim = make(towns, worlds=2, cameras=rig)
    first = sim.reset()["camera", "front"].clone()
    assert torch.equal(first[:, :, :3], first[:, :, 3:])
    second = sim.step(torch.full((2, 5), 11))["camera", "front"]
    assert torch.equal(second[:, :, :3], first[:, :, 3:])
    assert not torch.equal(second[:, :, :3], second[:, :, 3:])


def test_sensors_hand_on_nothing_privileged(towns):
    sim = make(towns, cameras=RIG)
    seen = set(sim.sensors(sim.reset()).keys())
    assert seen == {"condition", "draw", "command", "command_mask", "manoeuvre", "proprio", "camera", "live"}


def test_condition_given_to_reset_is_seen(towns):
    sim = make(towns)
    condition = torch.full((3, 5, 18), float("nan"))
    condition[..., 2] = 0.5
    assert torch.allclose(sim.reset(condition=condition)["condition"][..., 2], torch.tensor(0.5), atol=1e-6)


def test_two_simulators_of_different_size_live_side_by_side(towns):
    a, b = make(towns, worlds=2, agents=3), make(towns, worlds=5, agents=7)
    first = leaves(a.reset())
    b.reset()
    b.step(actions(5, 7, 0))
    again = make(towns, worlds=2, agents=3)
    assert_same(first, leaves(again.reset()))


THREADS = """
import torch, hashlib, sys
from terapixel_sim import Camera, CameraRig, SimConfig, Simulator
rig = CameraRig(cameras={"front": Camera(width=16, height=8)})
sim = Simulator(SimConfig(), ["grid:0"], num_worlds=80, num_agents=16, cameras=rig, seed=1)
batch = sim.reset()
digest = hashlib.sha256()
for t in range(8):
    batch = sim.step((torch.arange(80 * 16).reshape(80, 16) * 7 + t) % 12)
    for _, leaf in sorted(batch.items(True, True), key=str):
        digest.update(leaf.numpy().tobytes())
print(digest.hexdigest())
"""


@pytest.mark.slow
def test_one_and_two_threads_agree_bitwise():
    digests = {}
    for threads in ("1", "2"):
        env = dict(os.environ, TERAPIXEL_THREADS=threads)
        digests[threads] = subprocess.run(
            [sys.executable, "-c", THREADS], env=env, capture_output=True, text=True, check=True
        ).stdout.split()[-1]
    assert digests["1"] == digests["2"]


def test_a_forked_process_gets_an_error_instead_of_a_hang(towns):
    sim = make(towns)
    sim.reset()
    code = (
        "import os, sys\n"
        "from terapixel_sim import runtime\n"
        "runtime.start('cpu')\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try:\n"
        "        runtime.start('cpu')\n"
        "    except RuntimeError as e:\n"
        "        os._exit(7 if 'forked' in str(e) else 8)\n"
        "    os._exit(9)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=240).returncode == 7


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "message"), [
    ({"worlds": 0}, "num_worlds: expected an integer from 1"),
    ({"agents": 0}, "num_agents: expected an integer from 1"),
    ({"agents": 100000}, "holds at most"),
])  # fmt: skip
def test_sizes_out_of_range_are_refused(towns, options, message):
    with pytest.raises(ValueError, match=message):
        make(towns, **options)


def test_cuda_without_a_gpu_is_a_clear_error(towns):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(RuntimeError, match="no GPU"):
        Simulator(SimConfig(), towns, num_worlds=1, num_agents=1, device="cuda")


@pytest.mark.parametrize(("action", "message"), [
    (torch.zeros(3, 4, dtype=torch.int64), r"expected int64 \[3, 5\] on cpu, got int64 \[3, 4\]"),
    (torch.zeros(3, 5), r"expected int64 \[3, 5\] on cpu, got float32"),
    (torch.full((3, 5), 12), r"action\[0, 0\]: expected 0 to 11, got 12"),
])  # fmt: skip
def test_wrong_discrete_actions_are_refused(towns, action, message):
    sim = make(towns)
    sim.reset()
    with pytest.raises(ValueError, match=message):
        sim.step(action)


def test_a_nan_action_is_refused_on_live_slots_only(towns):
    sim = make(towns, action="jerk_continuous", time_limit_s=1.0)
    sim.reset()
    action = torch.zeros(3, 5, 2)
    action[1, 2, 0] = float("nan")
    before = sim.state.clone()
    with pytest.raises(ValueError, match=r"action\[1, 2\]: expected finite numbers"):
        sim.step(action)
    assert torch.equal(sim.state["agents"], before["agents"]), "a refused action must change nothing"
    for _ in range(4):
        sim.step(torch.zeros(3, 5, 2))
    sim.step(action)


@pytest.mark.parametrize("maps", [[], "grid:0"])
def test_maps_must_be_a_list(maps):
    with pytest.raises(ValueError, match=r"maps: expected a list of at least one map, got"):
        Simulator(SimConfig(), maps, num_worlds=1, num_agents=1)


def test_step_before_reset_is_refused(towns):
    with pytest.raises(RuntimeError, match="call reset"):
        make(towns).step(torch.zeros(3, 5, dtype=torch.int64))


def test_a_state_of_another_size_is_refused(towns):
    sim = make(towns)
    sim.reset()
    with pytest.raises(ValueError, match=r"state\.agents: expected"):
        sim.load_state(make(towns, agents=6).state)
