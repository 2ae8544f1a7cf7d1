"""Self-play DAgger: every agent is driven by the student, and the expert says what it would have done."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from .aggregate import Aggregate
from .config import StudentConfig
from .labels import label, whole_steps
from .losses import imitation_loss
from .protocols import Env, Expert, observe


class DAgger:
    """Collects labelled states and fits the student to them (Ross et al. 2011, with all agents of a world as learners).

    Args:
        env: The simulator; it is driven on.
        expert: Labels, and drives with probability `beta`.
        policy: The student, trained in place.
        config: See `StudentConfig`.

    Raises:
        ValueError: `label_every_s` is not a whole number of steps, or the aggregate cannot hold one snapshot of all
            worlds.
    """

    def __init__(self, env: Env, expert: Expert, policy: nn.Module, config: StudentConfig) -> None:
        self.env, self.expert, self.config = env, expert, config
        # Typed as Any: to a type checker a module's attributes are tensors or modules, not methods.
        self.policy: Any = policy
        self.steps_per_label = whole_steps(config.label_every_s, env.dt_s, "label_every_s")
        slots = env.num_worlds * env.num_agents
        if config.capacity < slots:
            raise ValueError(
                f"capacity: expected at least {slots}, the agent slots of the environment, got {config.capacity}"
            )
        self.fork = env.fork(num_worlds=env.num_worlds)
        self.aggregate = Aggregate(config.capacity, env.num_agents)
        self.optimiser = torch.optim.AdamW(
            policy.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
        )
        self.generator = torch.Generator().manual_seed(config.seed)
        self.labels = 0
        """Labelled agent states collected."""
        self.updates = 0
        """Gradient steps taken."""
        self._due = 0.0  # labelled states still to train on
        self._expert_drives = torch.zeros(env.num_worlds, env.num_agents, dtype=torch.bool, device=env.device)
        self._batch = env.reset().clone()
        self._choose_drivers(torch.ones(env.num_worlds, dtype=torch.bool, device=env.device))

    @property
    def beta(self) -> float:
        """Probability that the expert drives an agent whose episode begins now."""
        if self.config.mode == "bc":
            return 1.0
        end = self.config.beta_fraction * self.config.total_labels
        return max(0.0, 1.0 - self.labels / end) if end > 0 else 0.0

    @property
    def done(self) -> bool:
        """The budget of labels is spent."""
        return self.labels >= self.config.total_labels

    def collect(self) -> int:
        """Label the present state and drive until the next one is due; returns how many agent states were labelled."""
        state = self.env.state.clone()
        labels = label(self.fork, state, self.expert)
        inhabited = labels["live"].any(1)  # so that no minibatch is ever empty
        self.aggregate.add(state[inhabited], labels[inhabited])
        count = int(labels["live"].sum())
        self.labels += count
        self._due += self.config.passes * count
        for _ in range(self.steps_per_label):
            self._drive()
        self._batch = self._batch.clone()  # what follows calls the environment, which may reuse its buffers
        return count

    def fit(self) -> dict[str, float]:
        """Take the gradient steps that are due, so that `passes` states are trained on for each one collected.

        Returns:
            Means over the steps of `loss`, `action` [nat], `trajectory` [m], `feature_scale` (mean size of the latent)
            and `grad_norm`; empty when none was due.

        Raises:
            RuntimeError: A gradient is not finite. The network is left as it was before that step.
        """
        rate = self._learning_rate()
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        sums: dict[str, float] = {}
        steps = 0
        while self._due > 0:
            for name, value in self._update().items():
                sums[name] = sums.get(name, 0.0) + value
            steps += 1
        return {name: value / steps for name, value in sums.items()}

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs beside the network and the configuration."""
        return {
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "aggregate": self.aggregate.state_dict(),
            "simulator": self.env.state.clone().to_dict(),
            "expert_drives": self._expert_drives.clone(),
            "counters": {"labels": self.labels, "updates": self.updates, "due": self._due},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue exactly where `state_dict` was taken.

        Raises:
            ValueError: It comes from an environment of another size.
        """
        if state["expert_drives"].shape != self._expert_drives.shape:
            here, there = list(self._expert_drives.shape), list(state["expert_drives"].shape)
            raise ValueError(f"env: expected {there} worlds and agents as in the checkpoint, got {here}")
        self.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"].cpu())
        self.aggregate.load_state_dict(state["aggregate"])
        self.env.load_state(TensorDict(state["simulator"], batch_size=[self.env.num_worlds]))
        self._expert_drives.copy_(state["expert_drives"])
        counters = state["counters"]
        self.labels, self.updates, self._due = counters["labels"], counters["updates"], counters["due"]
        self._batch = observe(self.env, self.env.state).clone()

    def _drive(self) -> None:
        batch = self._batch
        live: Tensor = batch["live"]
        action = torch.zeros(live.shape, dtype=torch.int64, device=live.device)
        by_expert, by_student = live & self._expert_drives, live & ~self._expert_drives
        with torch.no_grad():
            if by_student.any():
                action[by_student] = self.policy.act(self.env.sensors(batch)[by_student])
            if by_expert.any():
                action = torch.where(by_expert, self.expert.act(batch), action)
        self._batch = self.env.step(action)
        ended = self.env.world_done.clone()
        if ended.any():
            self._batch = self.env.reset(ended)
            self._choose_drivers(ended)

    def _choose_drivers(self, worlds: Tensor) -> None:
        """Draw who drives each agent of `worlds` (bool [W]) for the episode that begins there."""
        expert = self._batch["draw"][..., 1] < self.beta
        self._expert_drives = torch.where(worlds.unsqueeze(1), expert, self._expert_drives)

    def _learning_rate(self) -> float:
        left = max(0.0, 1.0 - self.labels / self.config.total_labels)
        return self.config.final_learning_rate + left * (self.config.learning_rate - self.config.final_learning_rate)

    def _update(self) -> dict[str, float]:
        state, stored = self.aggregate.sample(self.config.batch_worlds, self.generator)
        live: Tensor = stored["live"]
        inputs = self.env.sensors(observe(self.env, state))[live]
        labels = {name: stored[name][live] for name in ("trajectory", "trajectory_mask", "action_logits")}
        latent = self.policy.encode(inputs)
        losses = imitation_loss(self.policy.head(latent), labels, self.config.loss)
        self.optimiser.zero_grad()
        losses["loss"].backward()
        norm = nn.utils.clip_grad_norm_(self.policy.parameters(), self.config.grad_clip)
        scale = latent.detach().abs().mean()
        if not torch.isfinite(norm):
            raise RuntimeError(
                f"training stopped: the gradient is not finite at update {self.updates} (feature scale {scale:.3g}); "
                "lower learning_rate or look at the data"
            )
        self.optimiser.step()
        self.updates += 1
        self._due -= live.sum().item()
        return {
            **{name: value.item() for name, value in losses.items()},
            "feature_scale": scale.item(),
            "grad_norm": norm.item(),
        }
