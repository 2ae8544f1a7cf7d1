"""The training loop: collect, fit, log, checkpoint."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import torch
from torch import nn

from . import checkpoint
from .config import StudentConfig
from .dagger import DAgger
from .networks import StudentPolicy
from .protocols import Env, Expert, check_env, check_expert, observe

CHECKPOINT = "student.pt"


def train(
    env: Env,
    expert: Expert,
    config: StudentConfig,
    run_dir: str | os.PathLike[str],
    *,
    resume: bool = False,
    policy: nn.Module | None = None,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> Any:
    """Train a student until `config.total_labels` agent states have been labelled.

    Args:
        env: A simulator with cameras; see `protocols.Env`.
        expert: A policy with discrete actions that drives in `env`.
        config: See `StudentConfig`.
        run_dir: Folder for `student.pt` and TensorBoard's files; made if there is none.
        resume: Continue from `run_dir/student.pt`; on the CPU the outcome is then bitwise that of an unbroken run.
        policy: A network of your own with `encode`, `head` and `act`, on `env.device`; by default a `StudentPolicy` is
            built.
        progress: Called after each round with `labels`, `total`, `updates`, `beta` and the means that `DAgger.fit`
            returns.

    Returns:
        The trained policy.

    Raises:
        ValueError: A setting does not fit the environment, or the checkpoint to resume does not fit.
        TypeError: `env`, `expert` or `policy` lacks something.
        FileNotFoundError: There is nothing to resume.
        RuntimeError: A gradient is not finite.
        KeyboardInterrupt: The first Ctrl-C ends the round, writes a checkpoint and is raised then; a second is raised
            at once.
    """
    check_env(env)
    check_expert(expert)
    with _DeferredInterrupt() as interrupt:
        if policy is None:
            example = env.sensors(env.reset())
            actions = _num_actions(env, expert)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(config.seed)
                policy = StudentPolicy(example, config.network, actions).to(env.device)
        dagger = DAgger(env, expert, policy, config)
        run_dir = Path(run_dir)
        path = run_dir / CHECKPOINT
        if resume:
            dagger.load_state_dict(checkpoint.restore(path, policy, config))
        run_dir.mkdir(parents=True, exist_ok=True)
        _loop(dagger, path, interrupt, progress)
    return policy


def _loop(
    dagger: DAgger, path: Path, interrupt: _DeferredInterrupt, progress: Callable[[dict[str, Any]], None] | None
) -> None:
    from torch.utils.tensorboard import SummaryWriter  # slow to import

    config = dagger.config

    def save() -> None:
        checkpoint.save(path, dagger.policy, config, dagger.state_dict())

    writer = SummaryWriter(str(path.parent), purge_step=dagger.labels)
    try:
        saved = dagger.labels
        while not dagger.done:
            dagger.collect()
            means = dagger.fit()
            for name, value in {**means, "beta": dagger.beta, "updates": dagger.updates}.items():
                writer.add_scalar(f"student/{name}", value, dagger.labels)
            try:
                if progress is not None:
                    counts = {"labels": dagger.labels, "total": config.total_labels, "updates": dagger.updates}
                    progress({**counts, "beta": dagger.beta, **means})
                interrupt.raise_if_set()
            except KeyboardInterrupt:
                save()
                raise
            if dagger.labels - saved >= config.checkpoint_every:
                save()
                saved = dagger.labels
        save()
    finally:
        writer.close()


def _num_actions(env: Env, expert: Expert) -> int:
    with torch.no_grad():
        return expert.head(expert.encode(observe(env, env.state)))["action_logits"].shape[-1]


class _DeferredInterrupt:
    """Holds the first Ctrl-C back until a point where all counters agree, so that the checkpoint is exact."""

    def __enter__(self) -> _DeferredInterrupt:
        self._set = False
        try:
            self._previous = signal.signal(signal.SIGINT, self._remember)
        except ValueError:  # only the main thread may; in others Ctrl-C never arrives
            self._previous = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)

    def raise_if_set(self) -> None:
        """Raise the KeyboardInterrupt that was held back, if there was one."""
        if self._set:
            raise KeyboardInterrupt

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self._set = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
