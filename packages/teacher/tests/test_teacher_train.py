import dataclasses
import re
from pathlib import Path

import pytest
import torch
from point_mass import PointMass
from terapixel_teacher import NetworkConfig, PPOConfig, TeacherConfig, load_checkpoint, load_policy, train
from terapixel_teacher.checkpoint import save_checkpoint

CONFIG = TeacherConfig(
    network=NetworkConfig(vectors=("ego",), width=16, set_width=8),
    ppo=PPOConfig(horizon=8, minibatch=64, lr=3e-3),
    total_steps=1200,
    checkpoint_every=3,
)


def weights(policy):
    return torch.cat([p.detach().reshape(-1) for p in policy.parameters()])


def test_budget_counts_live_transitions(tmp_path):
    seen = []
    train(PointMass(), CONFIG, tmp_path, progress=seen.append)
    assert 1200 <= seen[-1]["steps"] < 1200 + 8 * 24
    assert seen[-1]["steps"] < len(seen) * 8 * 24  # dead slots do not count
    assert [s["updates"] for s in seen] == list(range(1, len(seen) + 1))
    assert list(tmp_path.glob("events.out.tfevents*"))
    assert not list(tmp_path.glob("*.tmp"))


def test_seeds_decide_everything(tmp_path):
    one, same = (train(PointMass(), CONFIG, tmp_path / name) for name in "ab")
    other = train(PointMass(), dataclasses.replace(CONFIG, seed=1), tmp_path / "c")
    assert torch.equal(weights(one), weights(same))
    assert not torch.equal(weights(one), weights(other))


@pytest.mark.parametrize("where", ["rollout", "update", "checkpoint"])
def test_a_resumed_run_equals_an_unbroken_one(tmp_path, where, monkeypatch):
    unbroken = train(PointMass(), CONFIG, tmp_path / "unbroken")

    class Stops(PointMass):
        calls = 0

        def step(self, action):
            Stops.calls += 1
            if where == "rollout" and Stops.calls == 8 * 4 + 5:
                raise KeyboardInterrupt
            return super().step(action)

    def stop(logs):
        if where == "checkpoint" and logs["updates"] == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if where == "update":
            from terapixel_teacher.ppo import PPO

            original, calls = PPO._minibatch, []

            def minibatch(self, index):
                calls.append(1)
                if len(calls) == 11:
                    raise KeyboardInterrupt
                return original(self, index)

            patch.setattr(PPO, "_minibatch", minibatch)
        with pytest.raises(KeyboardInterrupt):
            train(Stops(), CONFIG, tmp_path / "broken", progress=stop)
    stored = load_checkpoint(tmp_path / "broken" / "teacher.pt")
    assert 0 < stored["steps"] < 1200
    resumed = train(PointMass(), CONFIG, tmp_path / "broken", resume=True)
    assert torch.equal(weights(resumed), weights(unbroken))
    ends = [load_checkpoint(tmp_path / name / "teacher.pt") for name in ("unbroken", "broken")]
    assert ends[0]["steps"] == ends[1]["steps"]
    for key, leaf in ends[0]["env"].items():
        assert torch.equal(leaf, ends[1]["env"][key])


def test_an_environment_without_state_resumes_from_a_reset(tmp_path):
    class Stateless(PointMass):
        state = None

    train(Stateless(), dataclasses.replace(CONFIG, total_steps=300), tmp_path)
    seen = []
    train(Stateless(), CONFIG, tmp_path, resume=True, progress=seen.append)
    assert seen[0]["steps"] > 300


def test_a_checkpoint_rebuilds_its_policy(tmp_path):
    env = PointMass()
    policy = train(env, CONFIG, tmp_path)
    batch = PointMass(seed=5).reset()
    loaded = load_policy(tmp_path / "teacher.pt", batch)
    assert torch.equal(loaded.act(batch, greedy=True), policy.act(batch, greedy=True))
    stored = load_checkpoint(tmp_path / "teacher.pt")
    assert (stored["format"], stored["interface"], stored["package"]) == (1, 1, "terapixel-teacher")
    assert stored["layout"]["ego"] == ((4,), "float32")
    with pytest.raises(ValueError, match=r"partners: the checkpoint has \(\(2, 4\), 'float32'\), the batch has"):
        load_policy(tmp_path / "teacher.pt", PointMass(num_agents=4).reset())


def test_checkpoints_that_do_not_fit_are_refused_in_one_line(tmp_path):
    train(PointMass(), dataclasses.replace(CONFIG, total_steps=100), tmp_path)
    path = tmp_path / "teacher.pt"
    wider = dataclasses.replace(CONFIG, network=NetworkConfig(vectors=("ego",), width=32, set_width=8))
    cases = [
        (lambda: train(PointMass(), wider, tmp_path, resume=True), "another network: policy_head.weight is"),
        (lambda: train(PointMass(num_agents=5), CONFIG, tmp_path, resume=True), "partners: the checkpoint has"),
        (lambda: train(PointMass(), CONFIG, tmp_path), "exists; pass resume=True"),
    ]
    for name, value, message in (
        ("interface", 2, "interface 2, this version reads 1"),
        ("format", 9, "format 9, this version reads 1"),
        ("package", "terapixel-student", "expected a checkpoint of terapixel-teacher, got one of terapixel-student"),
        ("network", "mine:Net", "holds a mine:Net, not a terapixel_teacher.networks:TeacherPolicy"),
    ):
        other = tmp_path / f"{name}.pt"
        save_checkpoint(other, {**load_checkpoint(path), name: value})
        cases.append((lambda other=other: load_policy(other), message))
    (tmp_path / "cut.pt").write_bytes(path.read_bytes()[:1000])
    cases.append((lambda: load_policy(tmp_path / "cut.pt"), "not a readable checkpoint"))
    for call, message in cases:
        with pytest.raises(ValueError, match=re.escape(message)) as caught:
            call()
        assert "\n" not in str(caught.value)
    with pytest.raises(FileNotFoundError, match="no such checkpoint"):
        train(PointMass(), CONFIG, tmp_path / "nothing", resume=True)


def test_environments_are_checked_at_the_start(tmp_path):
    env = PointMass()
    env.interface = 2
    with pytest.raises(ValueError, match="speaks interface 2, the teacher speaks 1"):
        train(env, CONFIG, tmp_path)
    with pytest.raises(TypeError, match="lacks interface, num_worlds"):
        train(object(), CONFIG, tmp_path)
    missing = dataclasses.replace(CONFIG, network=NetworkConfig(vectors=("route",)))
    with pytest.raises(ValueError, match=r"network: the batch lacks \['route'\]; it has \['draw', 'ego'"):
        train(PointMass(), missing, tmp_path)


@pytest.mark.slow
def test_points_learn_to_reach_the_origin(tmp_path):
    config = TeacherConfig(
        network=NetworkConfig(vectors=("ego",), width=64, set_width=16),
        ppo=PPOConfig(horizon=16, minibatch=512, lr=3e-3),
        total_steps=70_000,
    )
    policy = train(PointMass(64, 4, limit=16), config, tmp_path)
    env = PointMass(64, 4, limit=16, seed=99)
    batch = env.reset()
    while not env.world_done.all():
        batch = env.step(policy.act(batch, greedy=True))
    assert env.ended == 256
    assert env.finished / env.ended > 0.95  # at random it is 0.2


@pytest.mark.slow
def test_the_readme_runs(tmp_path, monkeypatch):
    readme = Path(__file__).parents[1] / "README.md"
    blocks = re.findall(r"```python\n(.*?)```", readme.read_text(), re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        exec(compile(block, str(readme), "exec"), {})
    assert (tmp_path / "runs" / "points" / "teacher.pt").exists()
