"""Alignment: teach a copy of the encoder to give, for the new look, the latents that the planner knows."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from . import checkpoint
from .adapted import AdaptedPolicy
from .config import AdaptConfig
from .losses import action_kl, feature_error, inverse_variance, r2, trajectory_l1
from .protocols import Pairs, check_pairs

CHECKPOINT = "adapter.pt"


def align(
    policy: nn.Module,
    pairs: Pairs,
    config: AdaptConfig,
    run_dir: str | os.PathLike[str],
    *,
    resume: bool = False,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> AdaptedPolicy:
    """Align a new encoder to the frozen planner of `policy` (as Gigapixel's adaptation, on any pairs).

    Args:
        policy: Has `encode` and `head`; stays as it is.
        pairs: Gives the same states in the known and in the new look.
        config: See `AdaptConfig`.
        run_dir: Folder for `adapter.pt` and TensorBoard's files; made if there is none.
        resume: Continue from `run_dir/adapter.pt`. The pairs go on from wherever `pairs` stands, after new held-out
            ones.
        progress: Called at every report with `step`, `steps`, `r2` and `r2_before` (the old encoder's) on the held-out
            pairs, and, after the first step, `loss` and its parts.

    Returns:
        The adapted policy; its planner is bitwise that of `policy`.

    Raises:
        ValueError: The head lacks an output that a loss needs, source and target do not match, or the checkpoint to
            resume does not fit.
        TypeError: `policy` or `pairs` lacks something.
        FileNotFoundError: There is nothing to resume.
        RuntimeError: A gradient is not finite, or the frozen planner was changed.
        KeyboardInterrupt: Ctrl-C; a checkpoint was written.
    """
    check_pairs(pairs)
    alignment = _Alignment(policy, pairs, config)
    run_dir = Path(run_dir)
    path = run_dir / CHECKPOINT
    if resume:
        alignment.restore(path)
    run_dir.mkdir(parents=True, exist_ok=True)
    _loop(alignment, path, progress)
    return alignment.adapted


class _Alignment:
    """The encoder in training, its optimiser and the held-out pairs."""

    def __init__(self, policy: nn.Module, pairs: Pairs, config: AdaptConfig) -> None:
        self.adapted = AdaptedPolicy(policy)
        self.pairs, self.config, self.step = pairs, config, 0
        self.planner = checkpoint.fingerprint(self.adapted.frozen)
        self.heldout = [tuple(batch.clone() for batch in self._pair()) for _ in range(config.heldout_pairs)]
        with torch.no_grad():
            self.truth = torch.cat([self.adapted.frozen.encode(source) for source, _ in self.heldout])
            self._check_head(self.adapted.head(self.truth))
        self.weight = inverse_variance(self.truth)
        parameters = self.adapted.trainable(self.heldout[0][1])
        self.optimiser = torch.optim.AdamW(parameters, lr=config.learning_rate, weight_decay=config.weight_decay)

    def update(self) -> dict[str, float]:
        """Take one gradient step; returns the losses before it."""
        config, adapted = self.config, self.adapted
        for group in self.optimiser.param_groups:
            group["lr"] = config.learning_rate * 0.5 * (1 + math.cos(math.pi * self.step / config.steps))
        source, target = self._pair()
        with torch.no_grad():
            wanted: Tensor = adapted.frozen.encode(source)
        latent = adapted.encode(target)
        parts = {"feature": feature_error(latent, wanted, self.weight)}
        if config.action_weight or config.trajectory_weight:
            plan = adapted.head(latent)
            with torch.no_grad():
                known = adapted.head(wanted)
            if config.action_weight:
                parts["action"] = action_kl(plan["action_logits"], known["action_logits"])
            if config.trajectory_weight:
                parts["trajectory"] = trajectory_l1(plan["trajectory"], known["trajectory"])
        loss = sum(getattr(config, f"{name}_weight") * value for name, value in parts.items())
        self.optimiser.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.optimiser.param_groups[0]["params"], config.grad_clip)
        if not torch.isfinite(norm):
            raise RuntimeError(
                f"alignment stopped: the gradient is not finite at step {self.step}; lower learning_rate"
            )
        self.optimiser.step()
        self.step += 1
        return {"loss": loss.item(), **{name: value.item() for name, value in parts.items()}}

    def scores(self) -> dict[str, float]:
        """R2 of the latent on the held-out pairs, with the new encoder and with the old one."""
        encoders = {"r2": self.adapted, "r2_before": self.adapted.frozen}
        with torch.no_grad():
            return {
                name: r2(torch.cat([encoder.encode(target) for _, target in self.heldout]), self.truth).item()
                for name, encoder in encoders.items()
            }

    def save(self, path: Path, metrics: dict[str, float]) -> None:
        """Write the checkpoint."""
        training = {"step": self.step, "optimiser": self.optimiser.state_dict()}
        checkpoint.save(path, self.adapted, self.config, training, metrics)

    def restore(self, path: Path) -> None:
        """Continue from the checkpoint."""
        payload = checkpoint.load_encoder(path, self.adapted)
        if payload["config"] != asdict(self.config):
            there, here = payload["config"], asdict(self.config)
            changed = [f"{key} was {there.get(key)}, is {here[key]}" for key in here if there.get(key) != here[key]]
            raise ValueError(f"{path}: cannot resume with another configuration: {'; '.join(changed)}")
        self.optimiser.load_state_dict(payload["training"]["optimiser"])
        self.step = payload["training"]["step"]

    def check_planner(self) -> None:
        """Raise RuntimeError if the frozen policy is not bitwise what it was."""
        if checkpoint.fingerprint(self.adapted.frozen) != self.planner:
            raise RuntimeError("alignment changed the frozen planner; does its `head` update buffers?")

    def _pair(self) -> tuple[TensorDict, TensorDict]:
        source, target = self.pairs.next_pair()
        if source.batch_size != target.batch_size:
            here, there = list(source.batch_size), list(target.batch_size)
            raise ValueError(f"pairs: source and target must show the same states, got batches {here} and {there}")
        lead = source.batch_size
        live = source.get("live", None)
        if live is None:
            live = torch.ones(lead, dtype=torch.bool, device=source.device)
        if not live.any():
            raise ValueError("pairs: a pair without live rows cannot be aligned")
        return source[live], target[live]

    def _check_head(self, plan: dict[str, Tensor]) -> None:
        for weight, key in (("action_weight", "action_logits"), ("trajectory_weight", "trajectory")):
            if getattr(self.config, weight) > 0 and key not in plan:
                raise ValueError(
                    f"{weight}: the policy's head gives no {key}, only {', '.join(plan)}; set {weight} to 0"
                )


def _loop(alignment: _Alignment, path: Path, progress: Callable[[dict[str, Any]], None] | None) -> None:
    from torch.utils.tensorboard import SummaryWriter  # slow to import

    config = alignment.config
    metrics = alignment.scores()
    writer = SummaryWriter(str(path.parent), purge_step=alignment.step)

    def report() -> None:
        for name, value in metrics.items():
            writer.add_scalar(f"adapt/{name}", value, alignment.step)
        if progress is not None:
            progress({"step": alignment.step, "steps": config.steps, **metrics})

    try:
        report()
        while alignment.step < config.steps:
            losses = alignment.update()
            last = alignment.step == config.steps
            if last or alignment.step % config.report_every == 0:
                metrics = {**losses, **alignment.scores()}
                report()
            if last or alignment.step % config.checkpoint_every == 0:
                alignment.save(path, metrics)
    except KeyboardInterrupt:
        alignment.save(path, metrics)
        raise
    finally:
        writer.close()
    alignment.check_planner()
