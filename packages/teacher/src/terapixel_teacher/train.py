"""The training loop: rollouts, updates, logs and checkpoints until the budget of steps is spent."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict

from .checkpoint import check_layout, layout_of, load_checkpoint, load_weights, network_name, save_checkpoint
from .config import TeacherConfig
from .networks import TeacherPolicy
from .ppo import PPO, observation_keys
from .protocols import ActorCritic, Env, check_env, check_keys

CHECKPOINT = "teacher.pt"


def train(
    env: Env,
    config: TeacherConfig,
    run_dir: str | Path,
    *,
    resume: bool = False,
    policy: ActorCritic | None = None,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> ActorCritic:
    """Train a policy by self-play: every live agent is driven by it.

    The budget is counted in transitions of live agents. `run_dir` receives TensorBoard events and `teacher.pt`, every
    `config.checkpoint_every` updates, at the end and on Ctrl-C. A resumed run goes on from the end of the last whole
    update; if `env` has `state` and `load_state`, its result on the CPU equals an unbroken run's bit for bit.

    Args:
        env: W worlds of A agents; it is reset here unless the run is resumed with its state.
        config: The network, the algorithm and the budget.
        run_dir: A folder; made if absent.
        resume: Go on from the checkpoint in `run_dir`.
        policy: A network of your own on the environment's device; None builds a `TeacherPolicy`.
        progress: Called after each update with its scalars, among them `steps`, `total_steps` and `updates`.

    Returns:
        The trained policy.

    Raises:
        ValueError: The environment breaks the contract, `run_dir` holds a run that shall not be resumed, or its
            checkpoint is of another network.
        FileNotFoundError: There is nothing to resume.
        RuntimeError: Updates are non-finite, or no agent is ever live.
        KeyboardInterrupt: Raised again after a checkpoint was written.
    """
    check_env(env)
    path = Path(run_dir) / CHECKPOINT
    if path.exists() and not resume:
        raise ValueError(f"{path}: exists; pass resume=True to go on from it, or choose another folder")
    stored = load_checkpoint(path, env.device) if resume else None
    path.parent.mkdir(parents=True, exist_ok=True)
    return _Run(env, config, path, stored, policy).finish(progress)


class _Run:
    """One training run: what must survive from update to update, and the loop over it."""

    def __init__(
        self, env: Env, config: TeacherConfig, path: Path, stored: dict[str, Any] | None, policy: ActorCritic | None
    ) -> None:
        self.env, self.config, self.path = env, config, path
        batch = env.reset()
        if batch.batch_size != (env.num_worlds, env.num_agents):
            shape = [env.num_worlds, env.num_agents]
            raise ValueError(f"environment: reset: expected batch size {shape}, got {list(batch.batch_size)}")
        check_keys(batch, ("live", "draw"), "environment: reset")
        if policy is None:
            with torch.random.fork_rng():
                torch.manual_seed(config.seed)
                policy = TeacherPolicy(batch, config.network).to(env.device)
        self.policy = policy
        self.keys = tuple(dict.fromkeys((*observation_keys(policy, batch), "live", "draw")))
        self.layout = layout_of(batch, observation_keys(policy, batch))
        self.steps = self.updates = 0
        if stored is not None:
            check_layout(stored["layout"], self.layout, str(path))
            load_weights(policy, stored, path)
        self.ppo = PPO(policy, batch, config.ppo, seed=config.seed)
        self.batch = batch
        if stored is not None:
            self._restore(stored)
        self.snapshot = self._snapshot()

    def finish(self, progress: Callable[[dict[str, float]], None] | None) -> ActorCritic:
        """Train until the budget is spent."""
        from torch.utils.tensorboard import SummaryWriter  # slow to import, and needed only here

        writer = SummaryWriter(str(self.path.parent), purge_step=self.steps)
        try:
            while self.steps < self.config.total_steps:
                logs = self._round()
                self.snapshot = self._snapshot()
                if self.updates % self.config.checkpoint_every == 0:
                    save_checkpoint(self.path, self.snapshot)
                for name, value in logs.items():
                    writer.add_scalar(name, value, self.steps)
                if progress is not None:
                    counts = {"steps": self.steps, "total_steps": self.config.total_steps, "updates": self.updates}
                    progress({**logs, **counts})
        except KeyboardInterrupt:
            save_checkpoint(self.path, self.snapshot)
            raise
        finally:
            writer.close()
        save_checkpoint(self.path, self.snapshot)
        return self.policy

    def _round(self) -> dict[str, float]:
        """One rollout and one update."""
        env, ppo = self.env, self.ppo
        for _ in range(self.config.ppo.horizon):
            action = ppo.act(self.batch)
            self.batch = env.step(action)
            done = env.world_done.clone()
            ppo.process_step(self.batch, done)
            if bool(done.any()):
                self.batch = env.reset(done)
        ppo.compute_returns(self.batch)
        logs = ppo.update(self.steps / self.config.total_steps)
        self.steps += int(logs.pop("steps"))
        self.updates += 1
        return logs

    def _snapshot(self) -> dict[str, Any]:
        """A copy of everything that the rest of the run depends on."""
        state = getattr(self.env, "state", None)
        return {
            "config": asdict(self.config),
            "network": network_name(type(self.policy)),
            "num_actions": getattr(self.policy, "num_actions", None),
            "layout": self.layout,
            "policy": copy.deepcopy(self.policy.state_dict()),
            "ppo": copy.deepcopy(self.ppo.state_dict()),
            "steps": self.steps,
            "updates": self.updates,
            # the observation as well: an environment that is given a state does not observe it again
            "batch": self.batch.select(*self.keys).clone().to_dict(),
            "env": None if state is None else state.clone().to_dict(),
        }

    def _restore(self, stored: dict[str, Any]) -> None:
        self.ppo.load_state_dict(stored["ppo"])
        self.steps, self.updates = stored["steps"], stored["updates"]
        load_state = getattr(self.env, "load_state", None)
        if load_state is not None and stored["env"] is not None:
            load_state(TensorDict(stored["env"], batch_size=[self.env.num_worlds]))
            self.batch = TensorDict(stored["batch"], batch_size=[self.env.num_worlds, self.env.num_agents])
