"""What an alignment can be told, as a frozen dataclass checked when it is made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


def check_number(name: str, value: Any, low: float, high: float) -> None:
    """Raise ValueError unless `value` is a finite number from `low` to `high`."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (number and math.isfinite(value) and low <= value <= high):
        raise ValueError(f"{name}: expected a number from {low:g} to {high:g}, got {value!r}")


def check_whole(name: str, value: Any, low: int, high: int = 10**12) -> None:
    """Raise ValueError unless `value` is a whole number from `low` to `high`."""
    if not (isinstance(value, int) and not isinstance(value, bool) and low <= value <= high):
        raise ValueError(f"{name}: expected a whole number from {low} to {high}, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class AdaptConfig:
    """How long and with which losses a new encoder is aligned. The budget counts gradient steps, never time."""

    steps: int = 1000
    """Gradient steps; each sees one pair."""
    heldout_pairs: int = 4
    """Pairs drawn first and never trained on; R2 is measured on them."""
    feature_weight: float = 1.0
    """Of the squared error of the latent, each dimension divided by its variance."""
    action_weight: float = 0.0
    """Of KL(frozen policy || adapted policy) through the frozen head."""
    trajectory_weight: float = 0.0
    """Of the mean L1 distance of the planned trajectories through the frozen head."""
    learning_rate: float = 1e-3
    """At the first step; falls to zero along a half cosine."""
    weight_decay: float = 0.0
    grad_clip: float = 1.0
    """Largest gradient norm."""
    report_every: int = 100
    """Steps between two measurements of R2, TensorBoard entries and calls of `progress`."""
    checkpoint_every: int = 500

    def __post_init__(self) -> None:
        for name in ("steps", "heldout_pairs", "report_every", "checkpoint_every"):
            check_whole(name, getattr(self, name), 1)
        for name in ("feature_weight", "action_weight", "trajectory_weight"):
            check_number(name, getattr(self, name), 0.0, 1e6)
        if self.feature_weight + self.action_weight + self.trajectory_weight == 0:
            raise ValueError("feature_weight, action_weight, trajectory_weight: expected at least one above 0")
        check_number("learning_rate", self.learning_rate, 1e-8, 1.0)
        check_number("weight_decay", self.weight_decay, 0.0, 1.0)
        check_number("grad_clip", self.grad_clip, 1e-6, 1e6)
