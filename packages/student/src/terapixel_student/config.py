"""What a student and its training can be told, as frozen dataclasses checked when they are made."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

MODES = ("dagger", "bc")
GROUPS = 8
"""Groups of each GroupNorm."""


def _check(ok: bool, name: str, value: object, allowed: str) -> None:
    if not ok:
        raise ValueError(f"{name}: expected {allowed}, got {value!r}")


def _number(name: str, value: Any, low: float, high: float) -> None:
    ok = (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and math.isfinite(value)
        and low <= value <= high
    )
    _check(ok, name, value, f"a number from {low:g} to {high:g}")


def _whole(name: str, value: Any, low: int, high: int = 10**12) -> None:
    ok = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    _check(ok, name, value, f"a whole number from {low} to {high}")


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """The default student network."""

    vectors: tuple[str, ...] = ("proprio", "command", "condition", "manoeuvre")
    """Sensor keys read beside the cameras; `<key>_mask` is applied where there is one."""
    channels: tuple[int, ...] = (16, 32, 64)
    """Output channels of the convolutions: the first is 5x5 with stride 4, the others 3x3 with stride 2."""
    queries: int = 16
    """Learned query tokens a camera."""
    scene: int = 192
    """Width of the image part of the latent."""
    vector: int = 64
    """Width of the vector part of the latent."""
    hidden: int = 256
    """Width of the two hidden layers of the head."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "vectors", tuple(self.vectors))
        object.__setattr__(self, "channels", tuple(self.channels))
        names = all(isinstance(v, str) for v in self.vectors)
        _check(
            names and len(set(self.vectors)) == len(self.vectors) > 0,
            "network.vectors",
            self.vectors,
            "one or more different keys",
        )
        whole = all(isinstance(c, int) and c > 0 and c % GROUPS == 0 for c in self.channels)
        _check(
            whole and len(self.channels) > 0, "network.channels", self.channels, f"one or more multiples of {GROUPS}"
        )
        _whole("network.queries", self.queries, 1, 256)
        for name in ("scene", "vector", "hidden"):
            _whole(f"network.{name}", getattr(self, name), 1, 8192)


@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """Weights of the trajectory error beside the cross-entropy of the actions."""

    trajectory: float = 0.1
    """Weight of the mean L1 error of the valid points [1/m]; 0 leaves the trajectory untrained."""
    yaw: float = 2.0
    """Metres that a radian of yaw error counts for."""

    def __post_init__(self) -> None:
        _number("loss.trajectory", self.trajectory, 0.0, 1e3)
        _number("loss.yaw", self.yaw, 0.0, 1e3)


@dataclass(frozen=True, kw_only=True)
class StudentConfig:
    """Self-play DAgger. The budget counts labelled agent states, never time."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    mode: str = "dagger"
    """dagger (the student drives more and more) | bc (the expert drives all the time: behaviour cloning)."""
    total_labels: int = 200_000
    """Labelled agent states to collect."""
    label_every_s: float = 1.0
    """Simulated time between two labelled states; a whole number of steps."""
    beta_fraction: float = 0.3
    """Share of the budget over which the expert's probability to drive an agent for an episode falls from 1 to 0."""
    capacity: int = 40_000
    """Agent slots that the aggregate holds; older snapshots are overwritten."""
    passes: float = 3.0
    """Labelled states trained on for each one collected."""
    batch_worlds: int = 16
    """World snapshots in a minibatch."""
    learning_rate: float = 1e-3
    final_learning_rate: float = 3e-5
    """The rate falls linearly with the labels collected."""
    weight_decay: float = 0.01
    grad_clip: float = 1.0
    """Largest gradient norm."""
    checkpoint_every: int = 50_000
    """Labelled states between two checkpoints."""
    seed: int = 0
    """Of the network's first weights and the order of minibatches."""

    def __post_init__(self) -> None:
        _check(self.mode in MODES, "mode", self.mode, " or ".join(MODES))
        for name in ("total_labels", "capacity", "batch_worlds", "checkpoint_every"):
            _whole(name, getattr(self, name), 1)
        _whole("seed", self.seed, 0, 2**31 - 1)
        _number("label_every_s", self.label_every_s, 1e-3, 1e3)
        _number("beta_fraction", self.beta_fraction, 0.0, 1.0)
        _number("passes", self.passes, 1e-3, 1e3)
        _number("learning_rate", self.learning_rate, 1e-8, 1.0)
        _number("final_learning_rate", self.final_learning_rate, 0.0, self.learning_rate)
        _number("weight_decay", self.weight_decay, 0.0, 1.0)
        _number("grad_clip", self.grad_clip, 1e-6, 1e6)
