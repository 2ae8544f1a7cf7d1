"""Proximal policy optimisation over many agents that come and go."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from .config import PPOConfig
from .gae import gae
from .networks import sample
from .protocols import OUTCOME_KEYS, ActorCritic, Key, leaf_keys
from .rollout import Rollout

_TRACE = 0.25
"""Weight of the newest rollout in the running largest advantage (PufferDrive 3.0)."""

_CPU_CHUNK = 1024
"""Transitions whose activations fit a core's cache."""


def observation_keys(policy: ActorCritic, example: TensorDict) -> tuple[Key, ...]:
    """The leaves that `policy` reads: its `keys`, or all that a batch has before a step."""
    keys = getattr(policy, "keys", None)
    if keys is not None:
        return tuple(keys)
    return tuple(key for key in leaf_keys(example) if key not in (*OUTCOME_KEYS, "live", "perturbed"))


def explained_variance(target: Tensor, value: Tensor) -> Tensor:
    """1 - Var(target - value) / Var(target): 1 is a perfect critic, 0 one that predicts a constant."""
    return 1.0 - (target - value).var(correction=0) / target.var(correction=0).clamp_min(1e-12)


class PPO:
    """Clipped policy gradient (Schulman et al. 2017, eq. 7, 9) on the transitions of live slots.

    One round is `act` and `process_step` for `config.horizon` steps, then `compute_returns` and `update`. Slots that
    did not act enter neither a loss nor a moment nor a count.
    """

    def __init__(self, policy: ActorCritic, example: TensorDict, config: PPOConfig, *, seed: int = 0) -> None:
        """Prepare to train `policy`.

        Args:
            policy: The network, on the example's device.
            example: A batch [W, A] as `reset` returns it.
            config: Constants.
            seed: Of the order of minibatches.

        Raises:
            ValueError: `policy.head` lacks `action_logits` or `value`, or a leaf is absent.
        """
        self.policy = policy
        self.config = config
        self.rollout = Rollout(example, observation_keys(policy, example), config.horizon)
        self.optimizer = torch.optim.AdamW(
            policy.parameters(), lr=config.lr, eps=1e-5, weight_decay=config.weight_decay
        )
        self._generator = torch.Generator().manual_seed(seed)  # on the CPU, so that every device sees one order
        self._largest = 0.0
        self._nonfinite = 0
        self._advantage = torch.zeros(0)
        self._target = torch.zeros(0)
        with torch.no_grad():
            out = policy.head(policy.encode(example))
        absent = [name for name in ("action_logits", "value") if name not in out]
        if absent:
            raise ValueError(f"policy {type(policy).__name__}: head lacks {absent}; it gives {sorted(out)}")
        if out["value"].shape != example.batch_size:
            shape = list(out["value"].shape)
            raise ValueError(f"policy {type(policy).__name__}: value: expected {list(example.batch_size)}, got {shape}")

    @torch.no_grad()
    def act(self, batch: TensorDict) -> Tensor:
        """Sample actions by the batch's own `draw` and keep the decision; int64 [W, A].

        Raises:
            RuntimeError: The rollout is full.
        """
        if self.rollout.length == self.config.horizon:
            raise RuntimeError("act: the rollout is full; call compute_returns and update")
        out = self.policy.head(self.policy.encode(batch))
        action = sample(out["action_logits"], batch["draw"][..., 0])
        log_prob = out["action_logits"].log_softmax(-1).gather(-1, action.unsqueeze(-1)).squeeze(-1)
        self.rollout.add_decision(batch, action, log_prob, out["value"])
        return action

    @torch.no_grad()
    def process_step(self, batch: TensorDict, world_done: Tensor) -> None:
        """Keep what the action led to: the step's batch [W, A] before any reset, and `world_done` [W].

        A slot that was truncated is valued by its own last observation. All others need no second look: a live slot's
        next value is the value of the next decision, and a terminated one has none.
        """
        slots = self.rollout.add_outcome(batch, world_done)
        if len(slots):
            keys = observation_keys(self.policy, batch)
            last = batch.select(*keys).reshape(-1)[slots]
            self.rollout.add_final_value(slots, self.policy.head(self.policy.encode(last))["value"])

    @torch.no_grad()
    def compute_returns(self, batch: TensorDict) -> None:
        """Compute advantages and value targets of the full rollout.

        Args:
            batch: Observations [W, A] that the next decision will be made on.

        Raises:
            RuntimeError: The rollout is not full.
            ValueError: The environment broke the contract, see `Rollout.check`.
        """
        rollout = self.rollout
        if rollout.length != self.config.horizon:
            raise RuntimeError(f"compute_returns: the rollout has {rollout.length} of {self.config.horizon} steps")
        live: Tensor = batch["live"].reshape(-1)
        rollout.check(live)
        last_value = self.policy.head(self.policy.encode(batch))["value"].reshape(-1).masked_fill(~live, 0.0)
        self._advantage = gae(
            rollout.reward,
            rollout.value,
            rollout.next_value(last_value),
            rollout.terminated,
            rollout.terminated | rollout.truncated,
            gamma=self.config.gamma,
            lam=self.config.lam,
        )
        self._target = self._advantage + rollout.value

    def update(self, progress: float) -> dict[str, float]:
        """Improve the policy on the rollout and clear it.

        Args:
            progress: Fraction of the budget spent, 0 to 1; sets the learning rate.

        Returns:
            Scalars to log; `steps` is the number of live transitions in the rollout.

        Raises:
            RuntimeError: More than `max_nonfinite` minibatches of the run had a non-finite loss or gradient, or the
                rollout holds no live transition, or none but perturbed ones.
        """
        rollout = self.rollout
        live = rollout.live.reshape(-1).nonzero().squeeze(-1)
        if not len(live):
            raise RuntimeError(f"update: no agent was live in {rollout.horizon} steps of {rollout.live.shape[1]} slots")
        learned = live[~rollout.perturbed.reshape(-1)[live]]
        if not len(learned):
            raise RuntimeError("update: every live agent was perturbed at every step; there is nothing to learn from")
        kept = self._filter(learned)
        lr = self._set_lr(progress)
        sums: dict[str, Tensor] = {}
        batches = skipped = epochs = 0
        for _ in range(self.config.epochs):
            divergence = torch.zeros((), device=live.device)
            parts = self._minibatches(kept)
            for index in parts:
                stats = self._minibatch(index)
                if stats is None:
                    skipped += 1
                    continue
                batches += 1
                divergence += stats["policy/kl"] / len(parts)
                for name, value in stats.items():
                    sums[name] = sums.get(name, torch.zeros_like(value)) + value
            epochs += 1
            if self.config.target_kl is not None and divergence.item() > self.config.target_kl:
                break
        logs = {name: value.item() / batches for name, value in sums.items()}
        logs |= self._describe(live)
        logs |= {
            "update/lr": lr,
            "update/epochs": float(epochs),
            "update/kept": len(kept) / len(learned),
            "update/nonfinite": float(skipped),
            "steps": float(len(live)),
        }
        rollout.clear()
        return logs

    def state_dict(self) -> dict[str, Any]:
        """All that an update depends on beside the policy and the rollout."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "generator": self._generator.get_state(),
            "largest": self._largest,
            "nonfinite": self._nonfinite,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`, as `state_dict` gives it."""
        self.optimizer.load_state_dict(state["optimizer"])
        self._generator.set_state(state["generator"].cpu())
        self._largest = state["largest"]
        self._nonfinite = state["nonfinite"]

    def _filter(self, live: Tensor) -> Tensor:
        """Leave out transitions that teach next to nothing: |A| small against the running largest."""
        size = self._advantage.reshape(-1)[live].abs()
        largest = float(size.nan_to_num(0.0, 0.0, 0.0).max())
        self._largest += (_TRACE if self._largest > 0.0 else 1.0) * (largest - self._largest)
        if self.config.advantage_filter == 0.0:
            return live
        # not size >= bound: a NaN must stay and trip the guard in `_minibatch`
        return live[~(size < self.config.advantage_filter * self._largest)]

    def _minibatches(self, index: Tensor) -> list[Tensor]:
        """Split `index` [n] into parts of nearly equal size in a random order."""
        order = torch.randperm(len(index), generator=self._generator).to(index.device)
        parts = max(1, round(len(index) / self.config.minibatch))
        return [part for part in index[order].tensor_split(parts) if len(part)]

    def _set_lr(self, progress: float) -> float:
        left = 1.0 - min(max(progress, 0.0), 1.0)
        if self.config.lr_schedule == "cosine":
            left = 0.5 - 0.5 * math.cos(math.pi * left)
        lr = self.config.lr * (self.config.lr_final + (1.0 - self.config.lr_final) * left)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        return lr

    def _minibatch(self, index: Tensor) -> dict[str, Tensor] | None:
        """Take one optimiser step on the transitions `index` [n]; None if it was left out as non-finite."""
        advantage = self._advantage.reshape(-1)[index]
        advantage = (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-8)
        self.optimizer.zero_grad()
        # on a CPU the gradient is summed over parts whose activations stay in the cache
        size = _CPU_CHUNK if index.device.type == "cpu" else len(index)
        parts = [
            self._backward(some, weights, len(some) / len(index))
            for some, weights in zip(index.split(size), advantage.split(size), strict=True)
        ]
        stats = {name: torch.stack([part[name] for part in parts]).sum(0) for name in parts[0]}
        loss = stats["loss/policy"] + stats["loss/value"]
        norm = nn.utils.clip_grad_norm_(self._parameters(), self.config.grad_clip)
        if not bool((loss + norm).isfinite()):
            self._count_nonfinite(loss.item(), norm.item(), stats["update/feature_scale"].item())
            return None
        self.optimizer.step()
        return {**stats, "update/grad_norm": norm}

    def _backward(self, index: Tensor, advantage: Tensor, share: float) -> dict[str, Tensor]:
        """Add the gradient of `share` times the mean loss over `index` [n]; scalars are scaled likewise."""
        rollout, config = self.rollout, self.config
        action, old = rollout.action.reshape(-1)[index], rollout.log_prob.reshape(-1)[index]
        latent = self.policy.encode(rollout.minibatch(index))
        out = self.policy.head(latent)
        log_probs = out["action_logits"].log_softmax(-1)
        log_ratio = log_probs.gather(-1, action.unsqueeze(-1)).squeeze(-1) - old
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1.0 - config.clip, 1.0 + config.clip)
        policy_loss = -torch.minimum(ratio * advantage, clipped * advantage).mean()
        value_loss = (out["value"] - self._target.reshape(-1)[index]).square().mean()
        entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
        loss = policy_loss + config.value_coef * value_loss - config.entropy_coef * entropy
        (share * loss).backward()
        with torch.no_grad():
            stats = {
                "loss/policy": policy_loss,
                "loss/value": value_loss,
                "policy/entropy": entropy,
                "policy/kl": (ratio - 1.0 - log_ratio).mean(),  # unbiased and never negative (Schulman 2020)
                "policy/clip_fraction": ((ratio - 1.0).abs() > config.clip).float().mean(),
                "update/feature_scale": latent.abs().mean(),
            }
            return {name: share * value.detach() for name, value in stats.items()}

    def _parameters(self) -> Iterator[nn.Parameter]:
        return (parameter for parameter in self.policy.parameters() if parameter.grad is not None)

    def _count_nonfinite(self, loss: float, norm: float, scale: float) -> None:
        self._nonfinite += 1
        if self._nonfinite > self.config.max_nonfinite:
            raise RuntimeError(
                f"update: non-finite minibatch number {self._nonfinite} of this run (max_nonfinite "
                f"{self.config.max_nonfinite}): loss {loss:g}, gradient norm {norm:g}, mean |latent| {scale:g}; look "
                "at the observations, then at lr and the feature scale"
            )

    def _describe(self, live: Tensor) -> dict[str, float]:
        """What the rollout was like, over its live transitions."""
        rollout = self.rollout
        target, value, reward = (leaf.reshape(-1)[live] for leaf in (self._target, rollout.value, rollout.reward))
        numbers = {
            "value/explained_variance": explained_variance(target, value),
            "value/mean": value.mean(),
            "reward/mean": reward.mean(),
            "episode/terminated": rollout.terminated.sum(),
            "episode/truncated": rollout.truncated.sum(),
        }
        return {name: float(number) for name, number in numbers.items()}
