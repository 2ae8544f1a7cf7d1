"""The batch of docs/interface.md, leaf by leaf, and that producers and consumers fit each other."""

import dataclasses

import pytest
import terapixel_adapt
import terapixel_sim
import terapixel_student
import terapixel_teacher
import torch
from terapixel_sim import Camera, CameraRig, SimConfig, Simulator

W, A, R, P, L, B, G = 3, 5, 10, 16, 32, 32, 3
U8, F32, BOOL = torch.uint8, torch.float32, torch.bool
LEAVES = {
    "ego": (F32, 16),
    "route": (F32, R, 6),
    "route_mask": (BOOL, R),
    "partners": (F32, P, 10),
    "partners_mask": (BOOL, P),
    "lanes": (F32, L, 8),
    "lanes_mask": (BOOL, L),
    "edges": (F32, B, 6),
    "edges_mask": (BOOL, B),
    "lights": (F32, 4, 7),
    "lights_mask": (BOOL, 4),
    "condition": (F32, 18),
    "draw": (F32, 2),
    "command": (F32, G, 2),
    "command_mask": (BOOL, G),
    "manoeuvre": (F32, 4),
    "proprio": (F32, 9),
    "live": (BOOL,),
    "perturbed": (BOOL,),
    ("camera", "front"): (U8, 6, 24, 48),
    ("camera", "back"): (U8, 6, 16, 32),
}
STEP_LEAVES = {"reward": (F32,), "terminated": (BOOL,), "truncated": (BOOL,)}
SENSORS = {"condition", "draw", "command", "command_mask", "manoeuvre", "proprio", "live"}
SENSORS |= {("camera", "front"), ("camera", "back")}


@pytest.fixture(scope="module")
def sim():
    front, back = Camera(width=48, height=24), Camera(width=32, height=16, yaw_deg=180.0)
    rig = CameraRig(cameras={"front": front, "back": back}, frames=2)
    config = SimConfig(time_limit_s=2.0)
    return Simulator(config, ["grid:0", "curvy:0"], num_worlds=W, num_agents=A, cameras=rig, seed=3)


def leaves(batch):
    return {k: batch[k] for k in batch.keys(include_nested=True, leaves_only=True)}


def check(batch, expected):
    assert tuple(batch.batch_size) == (W, A)
    found = leaves(batch)
    assert found.keys() == expected.keys()
    for key, (dtype, *shape) in expected.items():
        leaf = found[key]
        assert (leaf.dtype, tuple(leaf.shape)) == (dtype, (W, A, *shape)), key
        assert leaf.is_contiguous(), key
        assert leaf.device.type == "cpu"


def random_action():
    return torch.randint(0, 12, (W, A), generator=torch.Generator().manual_seed(0))


def test_every_leaf_after_a_reset(sim):
    check(sim.reset(), LEAVES)


def test_every_leaf_after_a_step(sim):
    sim.reset()
    check(sim.step(random_action()), LEAVES | STEP_LEAVES)


def test_every_leaf_of_the_stateless_calls(sim):
    sim.reset()
    state = sim.state.clone()
    cameras = {k: v for k, v in LEAVES.items() if isinstance(k, tuple)}
    check(sim.observe(state), {k: v for k, v in LEAVES.items() if k not in cameras})
    check(sim.render(state), cameras)


def test_padding_is_zero_and_masked(sim):
    batch = sim.reset()
    for name in ("route", "partners", "lanes", "edges", "lights"):
        mask = batch[f"{name}_mask"]
        assert not batch[name][~mask].any(), name
    assert not batch["lights_mask"].any()
    assert batch["partners_mask"].sum(-1).max() <= A - 1


def test_values_stay_in_the_ranges_that_are_described(sim):
    from terapixel_sim import describe

    batches = [sim.reset().clone()] + [sim.step(random_action()).clone() for _ in range(6)]
    for batch in batches:
        live = batch["live"]
        seen = {}
        for column in describe():
            index = seen.setdefault(column.leaf, 0)
            seen[column.leaf] += 1
            values = batch[column.leaf][live][..., index]
            if f"{column.leaf}_mask" in batch.keys():  # noqa: SIM118
                values = values[batch[f"{column.leaf}_mask"][live]]
            low, high = (column.low / column.scale, column.high / column.scale) if column.scale else (-1.0, 1.0)
            assert ((values >= low - 1e-4) & (values <= high + 1e-4)).all(), column
        for leaf, columns in seen.items():
            assert batch[leaf].shape[-1] == columns, leaf


def test_sensors_hand_on_only_what_a_student_may_see(sim):
    sim.reset()
    batch = sim.step(random_action())
    assert leaves(sim.sensors(batch)).keys() == SENSORS


def test_every_episode_ends_with_one_flag_once(sim):
    batch = sim.reset()
    was_live = batch["live"].clone()
    ends = torch.zeros(W, A, dtype=torch.int64)
    for _ in range(12):
        batch = sim.step(random_action())
        assert not (batch["terminated"] & batch["truncated"]).any()
        ended = batch["terminated"] | batch["truncated"]
        assert torch.equal(ended, was_live & ~batch["live"])
        assert not batch["reward"][~was_live].any()
        ends += ended
        was_live = batch["live"].clone()
    assert sim.world_done.all()
    assert (ends == 1).all()


def test_a_done_world_stays_as_it_is(sim):
    sim.reset()
    while not sim.world_done.all():
        sim.step(random_action())
    before = sim.state.clone()
    batch = sim.step(random_action())
    assert not batch["reward"].any()
    assert not (batch["terminated"] | batch["truncated"] | batch["live"]).any()
    for name in ("agents", "slots", "world"):
        assert torch.equal(sim.state[name], before[name]), name


def test_a_step_batch_survives_the_reset_that_follows(sim):
    sim.reset()
    step = sim.step(random_action())
    kept = step.clone()
    sim.reset(torch.ones(W, dtype=torch.bool))
    for key, leaf in leaves(step).items():
        assert torch.equal(leaf, kept[key]), key


def test_a_masked_reset_leaves_the_other_worlds_alone(sim):
    sim.reset()
    before = sim.step(random_action()).clone()
    mask = torch.tensor([False, True, False])
    after = sim.reset(mask)
    for key, leaf in leaves(after).items():
        assert torch.equal(leaf[~mask], before[key][~mask]), key
    assert not torch.equal(after["ego"][mask], before["ego"][mask])


def test_all_packages_speak_the_same_interface():
    numbers = {p.INTERFACE for p in (terapixel_sim, terapixel_teacher, terapixel_student, terapixel_adapt)}
    assert numbers == {Simulator.interface}


def test_another_interface_is_refused_with_both_numbers(sim, tmp_path, monkeypatch):
    monkeypatch.setattr(Simulator, "interface", 7)
    with pytest.raises(ValueError, match=r"7.*1"):
        terapixel_teacher.train(sim, terapixel_teacher.TeacherConfig(total_steps=1), tmp_path)


def test_consumers_accept_the_simulator(sim):
    """The members that each consumer's Protocol names are there."""
    from terapixel_student.protocols import Env as StudentEnv
    from terapixel_teacher.protocols import Env as TeacherEnv

    for protocol in (TeacherEnv, StudentEnv):
        members = [n for n in (*vars(protocol), *protocol.__annotations__) if not n.startswith("_")]
        assert members
        assert [n for n in members if not hasattr(sim, n)] == []


def test_the_teacher_reads_no_image_and_the_student_nothing_privileged(sim):
    batch = sim.reset()
    teacher = terapixel_teacher.TeacherPolicy(batch, terapixel_teacher.NetworkConfig())
    assert not any(isinstance(key, tuple) for key in teacher.keys)
    student = terapixel_student.StudentPolicy(sim.sensors(batch), terapixel_student.NetworkConfig(), 12).eval()
    with torch.no_grad():
        seen = student.head(student.encode(batch))
        spoiled = batch.clone()
        for key in leaves(batch).keys() - SENSORS:
            spoiled[key] = torch.full_like(spoiled[key], 1)
        blind = student.head(student.encode(spoiled))
        spoiled["camera", "front"] = batch["camera", "front"].flip(1)
        other = student.head(student.encode(spoiled))
    for key in seen:
        assert torch.equal(seen[key], blind[key]), key
    assert not torch.equal(seen["action_logits"], other["action_logits"])


def test_a_label_is_the_pose_that_the_expert_then_drives(sim):
    """With the teacher driving, label(t) is where the rear axle then is, masked from where an agent ended."""
    from terapixel_student.labels import label

    env = Simulator(SimConfig(early_reset=1.0), ["grid:0"], num_worlds=4, num_agents=8, seed=1)
    batch = env.reset()
    torch.manual_seed(0)
    expert = terapixel_teacher.TeacherPolicy(batch, terapixel_teacher.NetworkConfig()).eval()
    labels = label(env.fork(num_worlds=4), env.state.clone(), expert)
    origin, live = env.rear_axle().clone(), batch["live"].clone()
    cos, sin = origin[..., 2].cos(), origin[..., 2].sin()
    alive = live.clone()
    for point in range(8):
        for _ in range(2):  # half a second
            with torch.no_grad():
                batch = env.step(expert.act(batch, greedy=True))
            alive &= ~batch["terminated"]
        dx, dy, turn = (env.rear_axle() - origin).unbind(-1)
        pose = torch.stack([cos * dx + sin * dy, cos * dy - sin * dx, torch.atan2(turn.sin(), turn.cos())], -1)
        assert torch.equal(labels["trajectory_mask"][..., point], alive)
        assert torch.allclose(labels["trajectory"][..., point, :][alive], pose[alive], atol=1e-4)
    assert alive.any()
    assert (live & ~alive).any()


def test_configurations_are_frozen():
    for config in (SimConfig(), terapixel_teacher.TeacherConfig(), terapixel_student.StudentConfig()):
        with pytest.raises(dataclasses.FrozenInstanceError):
            config.seed = 1
