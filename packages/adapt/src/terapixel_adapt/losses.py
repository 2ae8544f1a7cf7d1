"""Alignment losses and the score that is reported."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_DEAD = 1e-6  # a dimension that varies less than this share of the mean variance carries nothing to align


def inverse_variance(latent: Tensor) -> Tensor:
    """Weights that make every varying dimension of a latent count alike.

    Args:
        latent: f32 [N, D].

    Returns:
        1 / variance over the rows, f32 [D]; 0 for dimensions that (almost) do not vary.
    """
    variance = latent.var(dim=0, unbiased=False)
    alive = variance > _DEAD * variance.mean()
    return torch.where(alive, 1 / variance.clamp(min=torch.finfo(variance.dtype).tiny), 0.0)


def feature_error(latent: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Mean squared error of the weighted dimensions.

    With the weights of `inverse_variance` its expectation is 1 - R2.

    Args:
        latent: f32 [N, D].
        target: f32 [N, D].
        weight: f32 [D]; dimensions of weight 0 do not count in the mean.

    Returns:
        Scalar.
    """
    return ((latent - target).square().mean(0) * weight).sum() / (weight > 0).sum().clamp(min=1)


def action_kl(logits: Tensor, target_logits: Tensor) -> Tensor:
    """Mean KL divergence of the action distributions, KL(target || adapted) [nat], for logits f32 [N, K]."""
    target = target_logits.log_softmax(-1)
    return (target.exp() * (target - logits.log_softmax(-1))).sum(-1).mean()


def trajectory_l1(trajectory: Tensor, target: Tensor) -> Tensor:
    """Mean over points of |dx| + |dy| + |dyaw| (the short way round), for trajectories x, y, yaw f32 [N, P, 3]."""
    error = trajectory - target
    turn = error[..., 2] - 2 * math.pi * torch.round(error[..., 2] / (2 * math.pi))
    return (error[..., :2].abs().sum(-1) + turn.abs()).mean()


def r2(prediction: Tensor, target: Tensor) -> Tensor:
    """Coefficient of determination, averaged over the dimensions that vary.

    1 is perfect, 0 is what the mean of the targets scores; a cosine would already be high for that mean.

    Args:
        prediction: f32 [N, D].
        target: f32 [N, D].

    Returns:
        Scalar; 0 if no dimension varies.
    """
    return 1 - feature_error(prediction, target, inverse_variance(target))
