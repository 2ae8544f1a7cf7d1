"""Generalised advantage estimation."""

from __future__ import annotations

import torch
from torch import Tensor


def gae(
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    terminated: Tensor,
    done: Tensor,
    *,
    gamma: float,
    lam: float,
) -> Tensor:
    """Return generalised advantages (Schulman et al. 2016, eq. 11-16).

    `terminated` cuts the bootstrap, `done` cuts the recursion; a truncated step keeps gamma * next_value.

    Args:
        reward: Of the transition from t to t + 1, f32 [T, N].
        value: V of the observation at t, f32 [T, N].
        next_value: V of the observation that the transition led to, before any reset, f32 [T, N].
        terminated: The episode ended in the transition by its own rules, bool [T, N].
        done: The episode ended in the transition for any reason, bool [T, N].
        gamma: Discount of a step.
        lam: Weight of longer estimates: 0 is the one-step error, 1 the discounted return less the value.

    Returns:
        f32 [T, N]; the target of the value is `advantage + value`.

    Raises:
        ValueError: The tensors' shapes differ.
    """
    for name, leaf in (("value", value), ("next_value", next_value), ("terminated", terminated), ("done", done)):
        if leaf.shape != reward.shape:
            raise ValueError(f"gae: {name}: expected the reward's shape {list(reward.shape)}, got {list(leaf.shape)}")
    # TD error: r_t + gamma * V(s_{t+1}) - V(s_t); masked_fill and not a product, as a dead row may hold anything
    error = reward + gamma * next_value.masked_fill(terminated, 0.0) - value
    advantage = torch.empty_like(error)
    following = torch.zeros_like(error[0])
    for t in reversed(range(error.shape[0])):
        following = error[t] + gamma * lam * following.masked_fill(done[t], 0.0)
        advantage[t] = following
    return advantage
