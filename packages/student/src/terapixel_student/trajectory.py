"""Planar poses (x, y, yaw): frames, angles and increments."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def wrap_angle(angle: Tensor) -> Tensor:
    """Bring angles [rad] of any shape into (-pi, pi], up to rounding."""
    return angle - 2 * math.pi * torch.ceil(angle / (2 * math.pi) - 0.5)


def to_frame(pose: Tensor, origin: Tensor) -> Tensor:
    """Express poses in the frame of others.

    Args:
        pose: x, y [m], yaw [rad] in some frame, f32 [..., 3].
        origin: Poses in the same frame, f32 [..., 3], broadcast against `pose`.

    Returns:
        `pose` as seen from `origin`, f32 [..., 3].
    """
    dx, dy, dyaw = (pose - origin).unbind(-1)
    cos, sin = origin[..., 2].cos(), origin[..., 2].sin()
    return torch.stack([cos * dx + sin * dy, cos * dy - sin * dx, wrap_angle(dyaw)], dim=-1)


def compose(increments: Tensor) -> Tensor:
    """Chain SE(2) increments into absolute poses.

    Args:
        increments: Motion from each point to the next in the frame of the former, f32 [..., P, 3]; the first starts at
            the origin.

    Returns:
        Poses x, y, yaw in the frame of the origin, f32 [..., P, 3].
    """
    dx, dy, dyaw = increments.unbind(-1)
    yaw = dyaw.cumsum(-1)
    heading = yaw - dyaw  # of the point that an increment starts from
    cos, sin = heading.cos(), heading.sin()
    x = (cos * dx - sin * dy).cumsum(-1)
    y = (sin * dx + cos * dy).cumsum(-1)
    return torch.stack([x, y, wrap_angle(yaw)], dim=-1)
