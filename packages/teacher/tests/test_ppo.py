import dataclasses

import pytest
import torch
from point_mass import PointMass
from tensordict import TensorDict
from terapixel_teacher import PPO, NetworkConfig, PPOConfig, TeacherPolicy, gae
from terapixel_teacher.ppo import explained_variance
from terapixel_teacher.rollout import Rollout

NETWORK = NetworkConfig(vectors=("ego",), width=16, set_width=8)
CONFIG = PPOConfig(horizon=20, minibatch=100, epochs=1, advantage_filter=0.0)


def make(config=CONFIG, **options):
    env = PointMass(**options)
    batch = env.reset()
    torch.manual_seed(0)
    return env, batch, PPO(TeacherPolicy(batch, NETWORK), batch, config)


def collect(env, batch, ppo, *, spoil=None):
    """One rollout; `spoil` may change what the environment hands out. Returns the next observation."""
    for _ in range(ppo.config.horizon):
        action = ppo.act(batch)
        live = batch["live"].clone()
        batch = env.step(action)
        if spoil is not None:
            spoil(batch, live)
        ppo.process_step(batch, env.world_done)
        if env.world_done.any():
            batch = env.reset(env.world_done)
    ppo.compute_returns(batch)
    return batch


def test_rollout_has_dead_slots_ends_and_resets():
    env, batch, ppo = make()
    collect(env, batch, ppo)
    rollout = ppo.rollout
    assert 0 < (~rollout.live).sum() < rollout.live.numel() / 2
    assert rollout.terminated.any()
    assert rollout.truncated.any()
    assert rollout.world_done.any()


def test_returns_bootstrap_from_the_true_last_observation():
    env, batch, ppo = make(limit=6)
    finals = []

    def keep(step, _live):
        with torch.no_grad():
            finals.append(ppo.policy.head(ppo.policy.encode(step))["value"].reshape(-1))

    collect(env, batch, ppo, spoil=keep)
    rollout, true_next = ppo.rollout, torch.stack(finals)  # V of every step's own batch: no shortcut
    assert rollout.truncated.sum() > 20
    done = rollout.terminated | rollout.truncated
    wanted = gae(rollout.reward, rollout.value, true_next, rollout.terminated, done, gamma=0.98, lam=0.95)
    torch.testing.assert_close(ppo._advantage[rollout.live], wanted[rollout.live])
    # the observation after the reset would have given something else
    wrong = torch.cat([rollout.value[1:], rollout.value[-1:]])
    assert (true_next - wrong)[rollout.truncated].abs().min() > 1e-4


def test_every_live_transition_is_visited_once_an_epoch():
    env, batch, ppo = make(dataclasses.replace(CONFIG, epochs=3))
    collect(env, batch, ppo)
    seen, backward = [], ppo._backward
    ppo._backward = lambda index, *rest: (seen.append(index), backward(index, *rest))[1]
    live = ppo.rollout.live.reshape(-1).nonzero().squeeze(-1)
    logs = ppo.update(0.0)
    assert logs["steps"] == len(live)
    assert torch.equal(torch.cat(seen).sort().values, live.repeat_interleave(3))
    first, second = torch.cat(seen).tensor_split(3)[:2]
    assert not torch.equal(first, second)


def test_perturbed_decisions_are_not_learned_from():
    """Whatever was decided while blinded or overruled: only other transitions reach the gradient."""
    env, batch, ppo = make()
    collect(env, batch, ppo)
    live = ppo.rollout.live.reshape(-1)
    marked = torch.arange(len(live)) % 3 == 0
    ppo.rollout.perturbed = marked.view_as(ppo.rollout.live)
    seen, backward = [], ppo._backward
    ppo._backward = lambda index, *rest: (seen.append(index), backward(index, *rest))[1]
    logs = ppo.update(0.0)
    assert logs["steps"] == int(live.sum())
    want = (live & ~marked).nonzero().squeeze(-1)
    assert torch.equal(torch.cat(seen).sort().values, want.repeat_interleave(ppo.config.epochs))


def test_a_leaf_perturbed_is_kept_with_the_decisions():
    _, batch, ppo = make()
    marked = torch.zeros(batch.batch_size, dtype=torch.bool)
    marked[:, 0] = True
    rollout = Rollout(batch.clone().set("perturbed", marked), ppo.rollout._keys, 2)
    zero = torch.zeros(batch.batch_size)
    rollout.add_decision(batch.clone().set("perturbed", marked), zero.long(), zero, zero)
    assert torch.equal(rollout.perturbed[0].view_as(marked), marked)


@pytest.mark.parametrize("rubbish", [1e6, float("nan")])
def test_slots_that_did_not_act_change_nothing(rubbish):
    def spoil(batch, live):
        # of this transition: rewards of slots that were dead; of the next: observations of slots that are
        batch["reward"][~live] = rubbish
        batch["ego"][~batch["live"] & ~batch["truncated"]] = rubbish

    weights = []
    for change in (None, spoil):
        env, batch, ppo = make()
        for _ in range(2):
            batch = collect(env, batch, ppo, spoil=change)
            logs = ppo.update(0.0)
        weights.append(torch.cat([p.detach().reshape(-1) for p in ppo.policy.parameters()]))
        assert logs["update/nonfinite"] == 0
    assert torch.equal(*weights)


def test_filter_leaves_out_small_advantages():
    env, batch, ppo = make(dataclasses.replace(CONFIG, advantage_filter=0.2))
    collect(env, batch, ppo)
    size = ppo._advantage.reshape(-1)[ppo.rollout.live.reshape(-1)].abs()
    kept = int((size >= 0.2 * size.max()).sum())
    logs = ppo.update(0.0)
    assert 0 < kept < len(size)
    assert logs["update/kept"] == pytest.approx(kept / len(size))
    # the running largest moves a quarter of the way
    ppo._advantage = torch.ones_like(ppo._advantage) * 100.0
    before = ppo._largest
    ppo._filter(torch.arange(5))
    assert ppo._largest == pytest.approx(0.75 * before + 25.0)


def test_gradient_does_not_depend_on_how_a_minibatch_is_cut(monkeypatch):
    gradients = []
    for chunk in (7, 10_000):
        monkeypatch.setattr("terapixel_teacher.ppo._CPU_CHUNK", chunk)
        env, batch, ppo = make(dataclasses.replace(CONFIG, minibatch=10_000, lr=0.0))
        collect(env, batch, ppo)
        logs = ppo.update(0.0)
        gradients.append(torch.cat([p.grad.reshape(-1) for p in ppo.policy.parameters()]))
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-6)
    assert logs["policy/kl"] == pytest.approx(0.0, abs=1e-6)  # nothing moved
    assert logs["policy/clip_fraction"] == 0.0


def test_clipping_stops_the_gradient():
    env, batch, ppo = make(dataclasses.replace(CONFIG, value_coef=0.0, entropy_coef=0.0))
    collect(env, batch, ppo)
    index = ppo.rollout.live.reshape(-1).nonzero().squeeze(-1)
    ppo.rollout.log_prob -= 1.0  # every action is now e times as likely as when it was taken
    ppo.optimizer.zero_grad()
    ppo._backward(index, torch.ones(len(index)), 1.0)
    assert all(p.grad is None or not p.grad.any() for p in ppo.policy.parameters())
    ppo._backward(index, -torch.ones(len(index)), 1.0)  # a bad action may still be made less likely
    assert any(p.grad is not None and p.grad.any() for p in ppo.policy.parameters())


def test_nonfinite_updates_are_left_out_then_abort():
    env, batch, ppo = make(dataclasses.replace(CONFIG, max_nonfinite=4))
    before = [p.detach().clone() for p in ppo.policy.parameters()]
    collect(env, batch, ppo)
    ppo._target = ppo._target * float("nan")
    assert ppo.update(0.0)["update/nonfinite"] == 4
    for old, new in zip(before, ppo.policy.parameters(), strict=True):
        assert torch.equal(old, new)
    collect(env, env.reset(), ppo)
    ppo._target = ppo._target * float("nan")
    with pytest.raises(RuntimeError, match="non-finite minibatch number 5 of this run"):
        ppo.update(0.0)


def test_learning_rate_schedules():
    for schedule, middle in (("linear", 0.55), ("cosine", 0.55)):
        _, _, ppo = make(dataclasses.replace(CONFIG, lr=1.0, lr_final=0.1, lr_schedule=schedule))
        assert ppo._set_lr(0.0) == pytest.approx(1.0)
        assert ppo._set_lr(0.5) == pytest.approx(middle)
        assert ppo._set_lr(1.5) == pytest.approx(0.1)
    assert ppo._set_lr(0.25) == pytest.approx(0.1 + 0.9 * (0.5 + 0.5 * 2**-0.5))


def test_target_kl_ends_the_epochs():
    env, batch, ppo = make(dataclasses.replace(CONFIG, epochs=8, lr=0.01, target_kl=1e-6))
    collect(env, batch, ppo)
    assert ppo.update(0.0)["update/epochs"] == 1


def test_explained_variance():
    target = torch.tensor([1.0, 2.0, 3.0])
    assert explained_variance(target, target + 5.0) == pytest.approx(1.0)
    assert explained_variance(target, torch.zeros(3)) == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda b, live: b.update({"truncated": torch.zeros_like(live)}), "a live slot"),
        (lambda b, live: b.update({"truncated": b["terminated"] | b["truncated"]}), "terminated and truncated"),
        (lambda b, live: b.update({"truncated": ~live}), "a slot that did not act"),
        (lambda b, live: b.update({"reward": torch.full(live.shape, torch.nan)}), "not finite"),
    ],
)
def test_environments_that_corrupt_returns_are_refused(spoil, what):
    env, batch, ppo = make()
    with pytest.raises(ValueError, match=f"environment: .*{what}.*step .* world .* agent"):
        collect(env, batch, ppo, spoil=spoil)


def test_a_reward_of_another_shape_is_refused():
    env, batch, ppo = make()
    batch = env.step(ppo.act(batch))
    batch["reward"] = batch["reward"].unsqueeze(-1)
    with pytest.raises(ValueError, match=r"reward: expected torch.float32 \[8, 3\], got torch.float32 \[8, 3, 1\]"):
        ppo.process_step(batch, env.world_done)


def test_a_rollout_without_live_agents_is_an_error():
    env, batch, ppo = make()
    collect(env, batch, ppo)
    ppo.rollout.live[:] = False
    with pytest.raises(RuntimeError, match="no agent was live in 20 steps of 24 slots"):
        ppo.update(0.0)


def test_the_verbs_come_in_order():
    env, batch, ppo = make()
    with pytest.raises(RuntimeError, match="0 of 20 steps"):
        ppo.compute_returns(batch)
    collect(env, batch, ppo)
    with pytest.raises(RuntimeError, match="the rollout is full"):
        ppo.act(batch)


def test_a_network_without_a_value_is_refused():
    class Blind(TeacherPolicy):
        def head(self, latent):
            return {"action_logits": latent}

    batch = PointMass().reset()
    with pytest.raises(ValueError, match=r"policy Blind: head lacks \['value'\]; it gives \['action_logits'\]"):
        PPO(Blind(batch, NETWORK), batch, CONFIG)


def test_a_network_without_keys_keeps_nested_leaves():
    class Own(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 13)

        def encode(self, batch):
            return batch["camera", "front"]

        def head(self, latent):
            out = self.layer(latent)
            return {"action_logits": out[..., :12], "value": out[..., 12]}

    env = PointMass()
    nest = lambda b: b.update({"camera": TensorDict({"front": b["ego"]}, batch_size=b.batch_size)})  # noqa: E731
    batch = nest(env.reset())
    ppo = PPO(Own(), batch, dataclasses.replace(CONFIG, horizon=3))
    for _ in range(3):
        batch = nest(env.step(ppo.act(batch)))
        ppo.process_step(batch, env.world_done)
    ppo.compute_returns(batch)
    assert ppo.update(0.0)["steps"] > 0
