"""Policies to compare with, and changes of what a policy sees. Each has `act(batch, greedy=False) -> action`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from tensordict import TensorDict
from terapixel_sim import SlotCol, Status
from torch import Tensor

NUM_ACTIONS = 12
COAST = 7
"""Discrete action of no jerk, neither along nor across: 3 * 2 + 1."""


class Policy(Protocol):
    """What a closed-loop evaluation needs."""

    def act(self, batch: TensorDict, greedy: bool = False) -> Tensor:
        """Choose an action for every agent."""
        ...


@torch.no_grad()
def act_live(policy: Policy, batch: TensorDict, greedy: bool) -> Tensor:
    """Ask `policy` for the live agents only, who become few; what the others are told has no effect."""
    live: Tensor = batch["live"]
    chosen = policy.act(batch[live], greedy=greedy)
    action = chosen.new_zeros(*live.shape, *chosen.shape[1:])
    action[live] = chosen
    return action


class Random:
    """Draws every action uniformly, from the environment's own counters."""

    def act(self, batch: TensorDict, greedy: bool = False) -> Tensor:
        """Return int64 [...]; `greedy` changes nothing."""
        draw: Tensor = batch["draw"][..., 0]
        return (draw * NUM_ACTIONS).long().clamp_(max=NUM_ACTIONS - 1)


class ConstantVelocity:
    """Commands no jerk: keeps the speed and the curvature that it has."""

    def act(self, batch: TensorDict, greedy: bool = False) -> Tensor:
        """Return int64 [...]; `greedy` changes nothing."""
        return torch.full(batch.batch_size, COAST, dtype=torch.int64, device=batch["draw"].device)


class IDM:
    """Drives by rules, see `terapixel_sim.Simulator.idm_action`; it looks at the simulator, not at what agents observe."""

    def __init__(self) -> None:
        self._env: Any = None

    def enter(self, env: Any) -> None:
        """Take the simulator that is driven from now on."""
        self._env = env

    def act(self, batch: TensorDict, greedy: bool = False) -> Tensor:
        """Actions of the live agents [n], whose rows `batch` [n] holds; `greedy` changes nothing."""
        if self._env is None:
            raise RuntimeError("IDM: it drives only where the tool hands it the simulator, as evaluate does")
        action: Tensor = self._env.idm_action()[self._env.state["slots"][..., SlotCol.STATUS] == Status.LIVE]
        return action


class Seeing:
    """A policy that sees its batch through `change`."""

    def __init__(self, policy: Any, change: Callable[[TensorDict], TensorDict]) -> None:
        self.policy, self.change = policy, change

    def act(self, batch: TensorDict, greedy: bool = False) -> Tensor:
        """Act on the changed batch."""
        action: Tensor = self.policy.act(self.change(batch), greedy=greedy)
        return action


def black(batch: TensorDict) -> TensorDict:
    """The batch with every camera black: whoever still drives well is not looking."""
    out = batch.copy()
    out["camera"] = batch["camera"].apply(torch.zeros_like)
    return out
