import os
import re
import signal
from pathlib import Path

import pytest
import torch
from pixel_points import Controller, PixelPoints, success
from terapixel_student import DAgger, LossConfig, NetworkConfig, StudentConfig, StudentPolicy, load_policy, train
from terapixel_student.losses import imitation_loss

NETWORK = NetworkConfig(vectors=("proprio",), channels=(8,), queries=2, scene=8, vector=4, hidden=8)


def config(**changes):
    small = {"network": NETWORK, "total_labels": 160, "capacity": 96, "batch_worlds": 8, "label_every_s": 0.5}
    return StudentConfig(**{**small, "passes": 2.0, "beta_fraction": 0.5, **changes})


def env(seed=0):
    return PixelPoints(num_worlds=8, num_agents=3, time_limit_s=4.0, seed=seed)


def weights(policy):
    return torch.cat([p.detach().flatten() for p in policy.parameters()])


def dagger(**changes):
    world, settings = env(), config(**changes)
    policy = StudentPolicy(world.sensors(world.reset()), settings.network)
    return DAgger(world, Controller(), policy, settings)


def test_nothing_privileged_reaches_the_student():
    world = env()
    batch = world.reset()
    policy = StudentPolicy(world.sensors(batch), NETWORK)
    before = policy.encode(world.sensors(batch))
    batch["ego"] += 100.0
    assert torch.equal(policy.encode(world.sensors(batch)), before)
    batch["camera", "above"] = batch["camera", "above"].flip(0)
    assert not torch.equal(policy.encode(world.sensors(batch)), before)
    batch["camera", "above"] = torch.zeros_like(batch["camera", "above"])
    black = policy.encode(world.sensors(batch))
    assert not torch.equal(black, before)
    with pytest.raises(ValueError, match="has no ego"):
        StudentPolicy(world.sensors(batch), NetworkConfig(vectors=("ego",)))


def test_passes_and_beta_follow_the_labels():
    d = dagger(total_labels=100)
    seen = 0
    assert d.beta == 1.0
    assert d._expert_drives.all()
    while not d.done:
        d.collect()
        d.fit()
        seen = 2 * d.labels - d._due
    assert d.labels >= 100
    assert abs(seen - 2 * d.labels) < 8 * 3  # less than a minibatch left over
    assert d.beta == 0.0
    assert not d._expert_drives.all()
    half = dagger()
    half.labels = 40
    assert half.beta == pytest.approx(0.5)


def test_behaviour_cloning_never_asks_the_student_to_drive():
    d = dagger(mode="bc")
    d.policy.act = None  # would fail if it were called
    while not d.done:
        d.collect()
        d.fit()
    assert d.beta == 1.0
    assert d._expert_drives.all()


def test_dead_slots_have_no_influence():
    outcome = []
    for poison in (False, True):
        torch.manual_seed(0)
        d = dagger()
        for _ in range(4):
            d.collect()
        labels = d.aggregate._rows["labels"]
        dead = ~labels["live"][: len(d.aggregate)]
        assert dead.any()
        if poison:
            labels["action_logits"][: len(d.aggregate)][dead] = 1e9
            labels["trajectory"][: len(d.aggregate)][dead] = torch.nan
            d.aggregate._rows["state"]["speed"][: len(d.aggregate)][dead] = 50.0
        d.fit()
        outcome.append(weights(d.policy))
    assert torch.equal(*outcome)


def test_loss_by_hand():
    logits, expert = torch.tensor([[0.0, 0.0]]), torch.tensor([[0.75, 0.25]]).log()
    truth = torch.zeros(1, 2, 3)
    truth[0, 0] = torch.tensor([1.0, -2.0, 3.0])
    truth[0, 1] = torch.nan_to_num(torch.tensor(1e6))
    guess = torch.zeros(1, 2, 3)
    guess[0, 0, 2] = -3.0  # 2 pi - 6 away from 3, the short way
    labels = {"action_logits": expert, "trajectory": truth, "trajectory_mask": torch.tensor([[True, False]])}
    output = {"action_logits": logits, "trajectory": guess}
    got = imitation_loss(output, labels, LossConfig(trajectory=0.1, yaw=2.0))
    assert got["action"].item() == pytest.approx(0.6931472)
    assert got["trajectory"].item() == pytest.approx(3 + 2 * (2 * torch.pi - 6), rel=1e-5)
    assert got["loss"].item() == pytest.approx(got["action"].item() + 0.1 * got["trajectory"].item())
    labels["trajectory_mask"] = torch.tensor([[False, False]])
    assert imitation_loss(output, labels, LossConfig())["trajectory"].item() == 0.0


def test_resumed_run_is_bitwise_the_unbroken_one(tmp_path):
    whole = train(env(), Controller(), config(), tmp_path / "whole")

    def stop(report):
        if report["labels"] > 80:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(env(), Controller(), config(), tmp_path / "broken", progress=stop)
    broken = load_policy(tmp_path / "broken/student.pt")
    assert not torch.equal(weights(broken), weights(whole))
    resumed = train(env(), Controller(), config(), tmp_path / "broken", resume=True)
    assert torch.equal(weights(resumed), weights(whole))
    assert torch.equal(weights(load_policy(tmp_path / "broken/student.pt")), weights(whole))
    assert not torch.equal(weights(train(env(), Controller(), config(seed=1), tmp_path / "other")), weights(whole))


def test_ctrl_c_ends_the_round_and_writes_a_checkpoint(tmp_path):
    reports, sent = [], []

    class Interrupted(PixelPoints):
        def step(self, action):
            if len(reports) == 2 and not sent:
                sent.append(True)  # a second one would end the run at once
                os.kill(os.getpid(), signal.SIGINT)
            return super().step(action)

    world = Interrupted(num_worlds=8, num_agents=3, time_limit_s=4.0)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train(world, Controller(), config(), tmp_path, progress=reports.append)
    assert signal.getsignal(signal.SIGINT) is handler
    assert len(reports) == 3
    resumed = train(env(), Controller(), config(), tmp_path, resume=True)
    assert torch.equal(weights(resumed), weights(train(env(), Controller(), config(), tmp_path / "whole")))


def test_a_gradient_that_is_not_finite_stops_the_run(tmp_path):
    class Broken(Controller):
        def head(self, latent):
            return {"action_logits": super().head(latent)["action_logits"] * torch.nan}

    with pytest.raises(RuntimeError, match=r"gradient is not finite at update 0 \(feature scale"):
        train(env(), Broken(), config(), tmp_path)
    assert not (tmp_path / "student.pt").exists()


def test_settings_that_do_not_fit_the_environment(tmp_path):
    with pytest.raises(ValueError, match=r"label_every_s: expected a whole number of steps of 0\.25 s, got 0\.3 s"):
        train(env(), Controller(), config(label_every_s=0.3), tmp_path)
    with pytest.raises(ValueError, match="capacity: expected at least 24, the agent slots of the environment, got 20"):
        train(env(), Controller(), config(capacity=20), tmp_path)
    with pytest.raises(TypeError, match="expert: object lacks act, encode, head"):
        train(env(), object(), config(), tmp_path)
    with pytest.raises(FileNotFoundError, match="no such checkpoint"):
        train(env(), Controller(), config(), tmp_path, resume=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mode": "ppo"}, "mode: expected dagger or bc, got 'ppo'"),
        ({"total_labels": 0}, "total_labels: expected a whole number"),
        ({"passes": float("nan")}, "passes: expected a number from"),
        ({"final_learning_rate": 1.0}, "final_learning_rate: expected a number from 0 to 0.001"),
        ({"beta_fraction": True}, "beta_fraction: expected a number"),
    ],
)
def test_config_values_are_checked(change, message):
    with pytest.raises(ValueError, match=message):
        config(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"channels": (12,)}, "network.channels: expected one or more multiples of 8"),
        ({"vectors": ()}, "network.vectors: expected one or more different keys"),
        ({"queries": 0}, "network.queries: expected a whole number from 1 to 256"),
    ],
)
def test_network_config_values_are_checked(change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        NetworkConfig(**change)
    with pytest.raises(TypeError, match="chanels"):
        NetworkConfig(chanels=(8,))


def test_checkpoints_that_do_not_fit_are_refused_in_one_line(tmp_path):
    train(env(), Controller(), config(total_labels=30), tmp_path)
    path = tmp_path / "student.pt"
    other = NetworkConfig(**{**vars(NETWORK), "scene": 9})
    with pytest.raises(ValueError, match=r"configuration: network\.scene was 8, is 9; total_labels was 30, is 99"):
        train(env(), Controller(), config(total_labels=99, network=other), tmp_path, resume=True)
    with pytest.raises(ValueError, match=r"expected \[8, 3\] worlds and agents as in the checkpoint, got \[9, 3\]"):
        train(PixelPoints(9, 3), Controller(), config(total_labels=30), tmp_path, resume=True)

    class Wide(PixelPoints):
        def render(self, state, cameras=None):
            batch = super().render(state)
            batch["camera", "above"] = batch["camera", "above"].repeat(1, 1, 1, 1, 2)
            return batch

    with pytest.raises(
        ValueError, match=r"other observations: camera/above was \(\(3, 16, 16\), 'uint8'\), is \(\(3, 16, 32\)"
    ):
        train(Wide(8, 3), Controller(), config(total_labels=30), tmp_path, resume=True)

    payload = torch.load(path, weights_only=True)
    assert payload["layout"]["proprio"] == ((1,), "float32")

    def message(changed):
        torch.save(changed, path)
        with pytest.raises(ValueError, match=r"student\.pt: ") as caught:
            load_policy(path)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "interface 7, but this version of terapixel-student reads interface 1" in message(
        {**payload, "interface": 7}
    )
    assert "got one of terapixel-teacher" in message({**payload, "package": "terapixel-teacher"})
    model = {**payload["model"], "action.weight": torch.zeros(5, 8)}
    assert "action.weight was (5, 8), is (12, 8)" in message({**payload, "model": model})
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="not a readable checkpoint"):
        load_policy(path)


def test_a_network_of_ones_own_is_trained_and_resumed(tmp_path):
    class Own(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.plan = torch.nn.Linear(1, 12 + 24)

        def encode(self, batch):
            return batch["proprio"]

        def head(self, latent):
            actions, points = self.plan(latent).split([12, 24], -1)
            return {"action_logits": actions, "trajectory": points.unflatten(-1, (8, 3))}

        def act(self, batch, greedy=False):
            return self.head(self.encode(batch))["action_logits"].argmax(-1)

    own = Own()
    assert train(env(), Controller(), config(total_labels=50), tmp_path, policy=own) is own
    again = train(env(), Controller(), config(total_labels=50), tmp_path, policy=Own(), resume=True)
    assert torch.equal(weights(again), weights(own))
    with pytest.raises(ValueError, match="holds a network of another class"):
        load_policy(tmp_path / "student.pt")


@pytest.mark.slow
def test_student_imitates_the_expert_from_images(tmp_path):
    network = NetworkConfig(vectors=("proprio",), channels=(16, 32), queries=4, scene=64, vector=16, hidden=64)
    settings = config(network=network, total_labels=4000, capacity=4000, batch_worlds=32, passes=4, learning_rate=3e-3)
    policy = train(PixelPoints(64), Controller(), settings, tmp_path)
    assert success(policy) > 0.8

    class Blind:
        def act(self, batch, greedy=False):
            batch = batch.clone()
            batch["camera", "above"].zero_()
            return policy.act(batch, greedy)

    assert success(Blind()) < 0.3


@pytest.mark.slow
def test_readme_lines_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    code = re.search(r"```python\n(.*?)```", readme, re.DOTALL).group(1)
    assert len(code.splitlines()) <= 12
    names = {}
    exec(code, names)
    assert names["score"] > 0.8
