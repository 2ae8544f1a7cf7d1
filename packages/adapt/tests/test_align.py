import copy
import re
from pathlib import Path

import pytest
import torch
from tensordict import TensorDict
from terapixel_adapt import AdaptConfig, AdaptedPolicy, align, load_adapted, r2
from terapixel_adapt.losses import action_kl, feature_error, inverse_variance, trajectory_l1
from torch import nn


class Policy(nn.Module):
    def __init__(self, inputs=6):
        super().__init__()
        self.see = nn.Sequential(nn.Linear(inputs, 24), nn.Tanh())
        self.actions, self.points = nn.Linear(24, 12), nn.Linear(24, 24)

    def encode(self, batch):
        return self.see(batch["x"])

    def head(self, latent):
        return {"action_logits": self.actions(latent), "trajectory": self.points(latent).unflatten(-1, (8, 3))}


class Pairs:
    """The new look permutes and scales the inputs."""

    def __init__(self, seed=0, live=False):
        self.generator, self.live, self.count = torch.Generator().manual_seed(seed), live, 0

    def next_pair(self):
        self.count += 1
        x = torch.randn(8, 16, 6, generator=self.generator)
        source, target = {"x": x}, {"x": 0.5 * x.flip(-1)}
        if self.live:
            source["live"] = torch.rand(8, 16, generator=self.generator) < 0.7
            target["x"] = torch.where(source["live"].unsqueeze(-1), target["x"], torch.nan)
        return TensorDict(source, batch_size=[8, 16]), TensorDict(target, batch_size=[8, 16])


@pytest.fixture
def policy():
    torch.manual_seed(0)
    return Policy()


def config(**changes):
    return AdaptConfig(**{"steps": 20, "report_every": 5, "learning_rate": 0.01, "heldout_pairs": 2, **changes})


def bits(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.slow
@pytest.mark.parametrize(
    "losses", [{}, {"action_weight": 1.0, "trajectory_weight": 0.1}, {"feature_weight": 0.0, "action_weight": 1.0}]
)
def test_encoder_is_aligned_and_planner_stays_bitwise(policy, tmp_path, losses):
    before, reports = bits(policy), []
    adapted = align(policy, Pairs(), config(steps=300, report_every=100, **losses), tmp_path, progress=reports.append)
    assert equal(bits(policy), before)
    assert equal(bits(adapted.frozen), before)
    assert equal(bits(adapted.encoder.actions), bits(policy.actions))  # the copy's own head is not trained either
    assert not equal(bits(adapted.encoder.see), bits(policy.see))
    assert [r["step"] for r in reports] == [0, 100, 200, 300]
    assert reports[0]["r2"] == reports[0]["r2_before"] == reports[-1]["r2_before"] < 0.2
    if losses.get("feature_weight") != 0.0:
        assert reports[-1]["r2"] > 0.9
    source, target = Pairs(seed=1).next_pair()
    gap = [
        action_kl(p.head(p.encode(target))["action_logits"], policy.head(policy.encode(source))["action_logits"])
        for p in (adapted, policy)
    ]
    assert gap[0] < 0.2 * gap[1]


def test_only_what_encode_uses_is_trainable(policy):
    adapted = AdaptedPolicy(policy)
    trainable = adapted.trainable(Pairs().next_pair()[1])
    assert {id(p) for p in trainable} == {id(p) for p in adapted.encoder.see.parameters()}
    assert {name for name, p in adapted.named_parameters() if p.requires_grad} == {
        "encoder.see.0.weight",
        "encoder.see.0.bias",
    }


def test_rows_that_are_not_live_do_not_count(policy, tmp_path):
    reports = []
    align(policy, Pairs(live=True), config(), tmp_path, progress=reports.append)  # dead targets are NaN
    assert reports[-1]["r2"] > reports[0]["r2"]


def test_a_stopped_run_goes_on(policy, tmp_path):
    def stop(report):
        if report["step"] == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        align(policy, Pairs(), config(), tmp_path, progress=stop)
    half = load_adapted(tmp_path / "adapter.pt", policy)
    pairs, reports = Pairs(), []
    for _ in range(10):  # where the pairs of the stopped run stood
        pairs.next_pair()
    resumed = align(policy, pairs, config(), tmp_path, resume=True, progress=reports.append)
    assert [r["step"] for r in reports] == [10, 15, 20]
    assert pairs.count == 10 + 2 + 10
    assert not equal(bits(half.encoder), bits(resumed.encoder))
    assert equal(bits(load_adapted(tmp_path / "adapter.pt", policy)), bits(resumed))
    with pytest.raises(ValueError, match="another configuration: steps was 20, is 30"):
        align(policy, Pairs(), config(steps=30), tmp_path, resume=True)


def test_same_pairs_give_the_same_encoder(policy, tmp_path):
    first, second = (align(policy, Pairs(), config(), tmp_path / name) for name in "ab")
    assert equal(bits(first), bits(second))


def test_a_head_that_changes_itself_is_caught(tmp_path):
    class Counting(Policy):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def head(self, latent):
            self.calls += 1
            return super().head(latent)

    with pytest.raises(RuntimeError, match="changed the frozen planner"):
        align(Counting(), Pairs(), config(action_weight=1.0), tmp_path)


def test_what_does_not_fit_is_refused(policy, tmp_path):
    class Bare(Policy):
        def head(self, latent):
            return {"value": latent}

    with pytest.raises(ValueError, match="action_weight: the policy's head gives no action_logits, only value"):
        align(Bare(), Pairs(), config(action_weight=1.0), tmp_path)
    with pytest.raises(TypeError, match="policy: Linear lacks encode, head"):
        align(nn.Linear(1, 1), Pairs(), config(), tmp_path)
    with pytest.raises(TypeError, match="pairs: list lacks next_pair"):
        align(policy, [], config(), tmp_path)
    with pytest.raises(FileNotFoundError, match="no such checkpoint"):
        align(policy, Pairs(), config(), tmp_path, resume=True)

    class Uneven(Pairs):
        def next_pair(self):
            source, target = super().next_pair()
            return source, target[:4]

    with pytest.raises(ValueError, match=r"same states, got batches \[8, 16\] and \[4, 16\]"):
        align(policy, Uneven(), config(), tmp_path)

    class Broken(Pairs):
        def next_pair(self):
            source, target = super().next_pair()
            return source, target.apply(lambda x: x * torch.nan) if self.count > 2 else target

    with pytest.raises(RuntimeError, match="gradient is not finite at step 0"):
        align(policy, Broken(), config(), tmp_path)


def test_an_adapter_belongs_to_its_policy(policy, tmp_path):
    align(policy, Pairs(), config(), tmp_path)
    path = tmp_path / "adapter.pt"
    other = copy.deepcopy(policy)
    with torch.no_grad():
        other.actions.bias[3] += 1e-6
    with pytest.raises(ValueError, match="made for another policy than the Policy given"):
        load_adapted(path, other)
    payload = torch.load(path, weights_only=True)
    assert payload["metrics"]["r2"] > payload["metrics"]["r2_before"]
    torch.save({**payload, "interface": 3}, path)
    with pytest.raises(ValueError, match="interface 3, but this version of terapixel-adapt reads interface 1"):
        load_adapted(path, policy)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(ValueError, match="not a readable checkpoint"):
        load_adapted(path, policy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "steps: expected a whole number from 1"),
        ({"action_weight": -1.0}, "action_weight: expected a number from 0"),
        ({"feature_weight": 0.0}, "expected at least one above 0"),
    ],
)
def test_config_values_are_checked(change, message):
    with pytest.raises(ValueError, match=message):
        config(**change)


def test_r2_by_hand():
    truth = torch.tensor([[0.0, 10.0, 5.0], [2.0, 30.0, 5.0]])  # the last dimension does not vary and does not count
    assert r2(truth, truth).item() == 1.0
    assert r2(truth.mean(0).expand(2, 3), truth).item() == pytest.approx(0.0)
    guess = torch.tensor([[1.0, 10.0, 0.0], [2.0, 40.0, 9.0]])  # squared errors 1 of 2, 100 of 200
    assert r2(guess, truth).item() == pytest.approx(0.5)
    assert feature_error(guess, truth, inverse_variance(truth)).item() == pytest.approx(0.5)


def test_losses_by_hand():
    target, adapted = torch.tensor([[0.75, 0.25]]).log(), torch.tensor([[0.5, 0.5]]).log()
    assert action_kl(adapted, target).item() == pytest.approx(0.75 * 0.4054651 - 0.25 * 0.6931472, rel=1e-5)
    assert action_kl(target + 5.0, target).item() == pytest.approx(0.0, abs=1e-6)
    path = torch.zeros(1, 2, 3)
    path[0, 0] = torch.tensor([3.0, -1.0, 3.0])
    other = torch.zeros(1, 2, 3)
    other[0, 0, 2] = -3.0
    assert trajectory_l1(path, other).item() == pytest.approx((4 + 2 * torch.pi - 6) / 2, rel=1e-5)


def test_adapted_policy_samples_by_inverse_cdf(policy):
    adapted = AdaptedPolicy(policy)
    batch = Pairs().next_pair()[0]
    batch["draw"] = torch.rand(8, 16, 2)
    probabilities = policy.head(policy.encode(batch))["action_logits"].softmax(-1)
    assert torch.equal(adapted.act(batch, greedy=True), probabilities.argmax(-1))
    action = adapted.act(batch)
    upper = probabilities.cumsum(-1).gather(-1, action.unsqueeze(-1)).squeeze(-1)
    lower = upper - probabilities.gather(-1, action.unsqueeze(-1)).squeeze(-1)
    draw = batch["draw"][..., 0]
    assert ((lower - 1e-5 <= draw) & (draw <= upper + 1e-5)).all()


@pytest.mark.slow
def test_readme_lines_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names = {}
    for code in re.findall(r"```python\n(.*?)```", (Path(__file__).parents[1] / "README.md").read_text(), re.DOTALL):
        exec(code, names)
    assert names["r2"] > 0.9
    assert names["reports"][0]["r2"] < 0.3
