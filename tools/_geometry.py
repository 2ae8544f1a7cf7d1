"""Batched rectangles, for judging a drive from its states."""

from __future__ import annotations

import torch
from torch import Tensor

AHEAD_S = (0.3, 0.6, 0.95)
"""Times at which boxes are extrapolated; the last is nuPlan's least time to collision."""


def separated(x: Tensor, y: Tensor, yaw: Tensor, length: Tensor, width: Tensor) -> Tensor:
    """Largest gap that a separating axis proves between every two boxes of a world; negative where they overlap.

    Args:
        x: Box centres, f32 [W, A] [m].
        y: The same.
        yaw: Headings [W, A] [rad].
        length: [W, A] [m].
        width: [W, A] [m].

    Returns:
        f32 [W, A, A], symmetric [m]: the maximum over the four face normals (separating axis theorem).
    """
    dx, dy = x[:, None, :] - x[:, :, None], y[:, None, :] - y[:, :, None]
    turn = yaw[:, None, :] - yaw[:, :, None]
    c, s = turn.cos().abs(), turn.sin().abs()
    half_l, half_w = 0.5 * length, 0.5 * width
    own_l, own_w = half_l[:, :, None], half_w[:, :, None]
    other_l, other_w = half_l[:, None, :], half_w[:, None, :]
    ahead, left = in_frame(dx, dy, yaw[:, :, None])
    gap = torch.maximum(
        ahead.abs() - own_l - other_l * c - other_w * s,  # along the own heading
        left.abs() - own_w - other_l * s - other_w * c,  # across it
    )
    return torch.maximum(gap, gap.transpose(1, 2))


def in_frame(dx: Tensor, dy: Tensor, yaw: Tensor) -> tuple[Tensor, Tensor]:
    """Turn an offset in the world frame into (ahead, left) of a heading [m]."""
    c, s = yaw.cos(), yaw.sin()
    return c * dx + s * dy, c * dy - s * dx


def about_to_hit(x: Tensor, y: Tensor, yaw: Tensor, speed: Tensor, length: Tensor, width: Tensor) -> Tensor:
    """Whether two boxes that now are apart overlap within 0.95 s when each goes straight on at its speed.

    Sampled at three times; at town speeds no box passes through another in between.

    Returns:
        bool [W, A, A].
    """
    hit = torch.zeros(*x.shape, x.shape[1], dtype=torch.bool, device=x.device)
    for t in AHEAD_S:
        hit |= separated(x + t * speed * yaw.cos(), y + t * speed * yaw.sin(), yaw, length, width) <= 0
    return hit & (separated(x, y, yaw, length, width) > 0)
