"""What the student asks of an environment and of an expert, and the checks that say what is missing."""

from __future__ import annotations

from typing import Any, Protocol

from tensordict import TensorDict
from torch import Tensor

INTERFACE = 1
"""Version of the tensor batch that this package speaks."""

_ENV_MEMBERS = (
    *("num_worlds", "num_agents", "device", "dt_s", "world_done", "state"),
    *("reset", "step", "load_state", "fork", "observe", "render", "sensors", "rear_axle"),
)
_EXPERT_MEMBERS = ("act", "encode", "head")


class Env(Protocol):
    """A simulator of `W` worlds with `A` agent slots each, with cameras and forks."""

    @property
    def interface(self) -> int:
        """Version of the tensor batch."""

    @property
    def num_worlds(self) -> int:
        """W."""

    @property
    def num_agents(self) -> int:
        """A."""

    @property
    def device(self) -> Any:
        """Where every leaf lives, as torch names it."""

    @property
    def dt_s(self) -> float:
        """Length of a step [s]."""

    @property
    def world_done(self) -> Tensor:
        """Worlds whose episode is over, bool [W]."""

    @property
    def state(self) -> TensorDict:
        """Everything mutable, batch size [W]."""

    def reset(self, mask: Tensor | None = None) -> TensorDict:
        """Restart the worlds where `mask` (bool [W]) is true, all without it; returns the batch of all worlds."""

    def step(self, action: Tensor) -> TensorDict:
        """Advance every world by `dt_s` with actions int64 [W, A]; never resets."""

    def load_state(self, state: TensorDict) -> None:
        """Continue from `state`, batch size [W]."""

    def fork(self, num_worlds: int | None = None) -> Env:
        """Make a second simulator on the same maps, without cameras and time limit."""

    def observe(self, state: TensorDict) -> TensorDict:
        """Make the vector leaves of any number of worlds, without changing the environment."""

    def render(self, state: TensorDict) -> TensorDict:
        """Make the camera leaves of any number of worlds, without changing the environment."""

    def sensors(self, batch: TensorDict) -> TensorDict:
        """Hand on only the keys that a student may see."""

    def rear_axle(self) -> Tensor:
        """Rear-axle poses x, y, yaw in the world frame, f32 [W, A, 3], [m] and [rad]."""


class Expert(Protocol):
    """A policy with discrete actions that reads privileged keys."""

    def encode(self, batch: TensorDict) -> Tensor:
        """Latent f32 [..., D]."""

    def head(self, latent: Tensor) -> dict[str, Tensor]:
        """At least `action_logits` f32 [..., K]."""

    def act(self, batch: TensorDict, greedy: bool = False) -> Tensor:
        """Actions int64 [...]: the most likely ones if `greedy`, else drawn with the batch's `draw`."""


def check_env(env: Any) -> None:
    """Raise unless `env` has all that the student needs.

    Raises:
        ValueError: It speaks another version of the tensor batch.
        TypeError: Something is missing.
    """
    interface = getattr(env, "interface", None)
    if interface != INTERFACE:
        raise ValueError(
            f"env.interface: the student speaks interface {INTERFACE}, {type(env).__name__} has {interface}"
        )
    missing = [name for name in _ENV_MEMBERS if not hasattr(env, name)]
    if missing:
        raise TypeError(f"env: {type(env).__name__} lacks {', '.join(missing)}, which self-play DAgger needs")


def check_expert(expert: Any) -> None:
    """Raise TypeError unless `expert` has `act`, `encode` and `head`."""
    missing = [name for name in _EXPERT_MEMBERS if not callable(getattr(expert, name, None))]
    if missing:
        raise TypeError(f"expert: {type(expert).__name__} lacks {', '.join(missing)}")


def observe(env: Env, state: TensorDict) -> TensorDict:
    """Make the full batch of `state`, vectors and camera images; the environment stays as it is.

    Args:
        env: Any environment; its worlds need not be as many as the state's.
        state: World snapshots, batch size [W].

    Returns:
        Batch [W, A]; pass it through `env.sensors` before a student sees it.
    """
    batch = env.observe(state).clone(recurse=False)
    return batch.update(env.render(state))
