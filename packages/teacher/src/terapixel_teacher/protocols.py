"""What the teacher asks of an environment and of a network, and the checks that say so in one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import torch
from tensordict import TensorDict
from torch import Tensor, nn

INTERFACE = 1
"""Number of the tensor-batch contract (docs/interface.md) that this package speaks."""

Key = str | tuple[str, ...]

FLAGS = ("terminated", "truncated")
OUTCOME_KEYS = ("reward", *FLAGS)
"""Leaves that only a step's batch has."""


class Env(Protocol):
    """An environment of W worlds with A agent slots each; batches are `TensorDict` of batch size [W, A].

    A batch is borrowed: it is valid until the next-but-one call.
    """

    @property
    def interface(self) -> int:
        """Number of the contract that the environment speaks."""

    @property
    def num_worlds(self) -> int:
        """W."""

    @property
    def num_agents(self) -> int:
        """Agent slots a world, A."""

    @property
    def device(self) -> Any:
        """Where all leaves live, a `torch.device` or its name."""

    @property
    def world_done(self) -> Tensor:
        """Worlds whose episode is over, bool [W]."""

    def reset(self, mask: Tensor | None = None) -> TensorDict:
        """Restart the worlds where `mask` (bool [W]) is true, all without it, and return the observations of all."""

    def step(self, action: Tensor) -> TensorDict:
        """Advance one step with `action` int64 [W, A], without a reset; adds `reward`, `terminated`, `truncated`."""


class ActorCritic(Protocol):
    """A network that PPO can train: `encode` and `head` on batches of any leading shape, as `TeacherPolicy` has them.

    A network may name the leaves it reads in `keys`; without it, all leaves of an observation are kept.
    """

    def encode(self, batch: TensorDict) -> Tensor:
        """Latent f32 [..., D]."""

    def head(self, latent: Tensor) -> dict[str, Tensor]:
        """At least `action_logits` f32 [..., K] and `value` f32 [...]."""

    def act(self, batch: TensorDict, greedy: bool = False) -> Tensor:
        """Action int64 [...], sampled by `draw`, or the most likely one."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """As `torch.nn.Module`."""

    def state_dict(self) -> dict[str, Any]:
        """As `torch.nn.Module`."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any:
        """As `torch.nn.Module`."""


def leaf_keys(batch: TensorDict) -> list[Key]:
    """Names of all leaves; a nested one is a tuple such as `("camera", "front")`."""
    return sorted(batch.keys(include_nested=True, leaves_only=True), key=str)


def check_keys(batch: TensorDict, required: Iterable[Key], who: str) -> None:
    """Raise unless `batch` has every key in `required`.

    Raises:
        ValueError: A key is absent; the message lists the keys present.
    """
    present = leaf_keys(batch)
    absent = [key for key in required if key not in present]
    if absent:
        raise ValueError(f"{who}: the batch lacks {absent}; it has {present}")


def check_env(env: Env) -> None:
    """Raise unless `env` has what `train` uses.

    Raises:
        ValueError: It speaks another interface; the message names both numbers.
        TypeError: A member is absent.
    """
    # looked up on the class where possible: a property such as `world_done` may need a reset first
    absent = [name for name in _ENV_MEMBERS if not (hasattr(type(env), name) or hasattr(env, name))]
    if absent:
        raise TypeError(f"environment {type(env).__name__}: lacks {', '.join(absent)} (docs/interface.md)")
    if env.interface != INTERFACE:
        raise ValueError(
            f"environment {type(env).__name__}: speaks interface {env.interface}, the teacher speaks {INTERFACE}"
        )


_ENV_MEMBERS = ("interface", "num_worlds", "num_agents", "device", "world_done", "reset", "step")


def check_outcome(batch: TensorDict, shape: torch.Size) -> None:
    """Raise unless `batch` is a step's batch of batch size `shape` with flags and rewards of exactly that shape.

    Raises:
        ValueError: A leaf is absent or has another shape or type.
    """
    check_keys(batch, (*OUTCOME_KEYS, "live"), "step")
    for key, dtype in (("reward", torch.float32), ("terminated", torch.bool), ("truncated", torch.bool)):
        leaf: Tensor = batch[key]
        if leaf.dtype != dtype or leaf.shape != shape:
            raise ValueError(f"step: {key}: expected {dtype} {list(shape)}, got {leaf.dtype} {list(leaf.shape)}")
