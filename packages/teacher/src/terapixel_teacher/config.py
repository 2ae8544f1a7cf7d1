"""What the teacher can be told, as frozen dataclasses; every value is checked when it is set."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal


def _check(ok: bool, name: str, value: object, allowed: str) -> None:
    if not ok:
        raise ValueError(f"{name}: expected {allowed}, got {value!r}")


def _real(name: str, value: Any, low: float, high: float) -> None:
    ok = (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and math.isfinite(value)
        and low <= value <= high
    )
    _check(ok, name, value, f"a number from {low:g} to {high:g}")


def _whole(name: str, value: Any, low: int) -> None:
    _check(
        isinstance(value, int) and not isinstance(value, bool) and value >= low, name, value, f"a whole number >= {low}"
    )


def _names(name: str, value: Any) -> tuple[str, ...]:
    ok = (
        isinstance(value, (list, tuple))
        and all(isinstance(v, str) and v for v in value)
        and len(set(value)) == len(value)
    )
    _check(ok, name, value, "a list of different key names")
    return tuple(value)


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """The teacher's network: which leaves it reads and how wide it is."""

    vectors: tuple[str, ...] = ("ego", "route", "command", "condition", "proprio")
    """Leaves that are flattened; where `<key>_mask` exists, masked rows are read as zero."""
    sets: tuple[str, ...] = ("partners",)
    """Leaves [n, columns] with `<key>_mask`, read by a permutation-invariant encoder."""
    set_limit: dict[str, int] = field(default_factory=dict)
    """Rows of a set that are read at most, e.g. `{partners: 8}`: the simulator's rows are nearest first."""
    set_width: int = 64
    """Width of both layers of a set encoder."""
    width: int = 128
    """Width of both layers of a trunk."""
    critic: Literal["shared", "trunk", "separate"] = "trunk"
    """What the critic owns: only its output layer, a trunk on the actor's set encoders, or set encoders as well."""
    initial_logits: tuple[float, ...] = ()
    """Logits of the policy before it has learned, one an action; none: all actions are nearly alike. A low logit for full
    braking lets a policy that explores drive from the start."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "vectors", _names("network.vectors", self.vectors))
        object.__setattr__(self, "sets", _names("network.sets", self.sets))
        _check(bool(self.vectors or self.sets), "network.vectors", self.vectors, "at least one key in vectors or sets")
        object.__setattr__(self, "set_limit", dict(self.set_limit))
        for key, limit in self.set_limit.items():
            _check(key in self.sets, "network.set_limit", key, f"keys of network.sets {list(self.sets)}")
            _whole(f"network.set_limit.{key}", limit, 1)
        _whole("network.set_width", self.set_width, 1)
        _whole("network.width", self.width, 1)
        critics = ("shared", "trunk", "separate")
        _check(self.critic in critics, "network.critic", self.critic, f"one of {', '.join(critics)}")
        _check(
            isinstance(self.initial_logits, (list, tuple)),
            "network.initial_logits",
            self.initial_logits,
            "a list of numbers, one an action",
        )
        object.__setattr__(self, "initial_logits", tuple(self.initial_logits))
        for i, logit in enumerate(self.initial_logits):
            _real(f"network.initial_logits[{i}]", logit, -20.0, 20.0)


@dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """Proximal policy optimisation (Schulman et al. 2017) with generalised advantages (Schulman et al. 2016)."""

    horizon: int = 32
    """Steps of a rollout, T."""
    epochs: int = 2
    minibatch: int = 1024
    """Live transitions of a minibatch, about: a rollout is split into equal parts."""
    gamma: float = 0.98
    lam: float = 0.95
    clip: float = 0.2
    lr: float = 7e-4
    lr_final: float = 0.05
    """Learning rate at the end of the budget, as a fraction of `lr`."""
    lr_schedule: Literal["linear", "cosine"] = "linear"
    value_coef: float = 1.0
    """Weight of the value's mean squared error, which is not clipped."""
    entropy_coef: float = 0.003
    weight_decay: float = 0.0
    grad_clip: float = 0.5
    """Largest norm of a gradient."""
    advantage_filter: float = 0.0
    """Transitions with |A| below this fraction of its running largest value are left out of an update; 0 keeps all.
    Gigaflow uses 0.01."""
    target_kl: float | None = None
    """Mean KL divergence of an epoch above which the remaining epochs are left out; None runs all."""
    max_nonfinite: int = 10
    """Non-finite minibatches that are left out, over the whole run, before training stops with an error."""

    def __post_init__(self) -> None:
        for name in ("horizon", "epochs", "minibatch"):
            _whole(f"ppo.{name}", getattr(self, name), 1)
        _whole("ppo.max_nonfinite", self.max_nonfinite, 0)
        for name, low, high in (
            ("gamma", 0.0, 1.0), ("lam", 0.0, 1.0), ("clip", 1e-6, 10.0), ("lr", 0.0, 1.0), ("lr_final", 0.0, 1.0),
            ("value_coef", 0.0, 1e3), ("entropy_coef", 0.0, 1e3), ("weight_decay", 0.0, 1.0), ("grad_clip", 1e-9, 1e9),
            ("advantage_filter", 0.0, 0.999),
        ):  # fmt: skip
            _real(f"ppo.{name}", getattr(self, name), low, high)
        _check(self.lr_schedule in ("linear", "cosine"), "ppo.lr_schedule", self.lr_schedule, "linear or cosine")
        if self.target_kl is not None:
            _real("ppo.target_kl", self.target_kl, 1e-9, 1e9)


@dataclass(frozen=True, kw_only=True)
class TeacherConfig:
    """A whole training run."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    total_steps: int = 20_000_000
    """Budget in transitions of live agents; training ends with the rollout that reaches it."""
    checkpoint_every: int = 50
    """Updates between two checkpoints."""
    seed: int = 0
    """Of the initial weights and the order of minibatches."""

    def __post_init__(self) -> None:
        for name, kind in (("network", NetworkConfig), ("ppo", PPOConfig)):
            _check(isinstance(getattr(self, name), kind), name, getattr(self, name), f"a {kind.__name__}")
        _whole("total_steps", self.total_steps, 1)
        _whole("checkpoint_every", self.checkpoint_every, 1)
        _whole("seed", self.seed, 0)
