"""Imitation losses."""

from __future__ import annotations

from torch import Tensor

from .config import LossConfig
from .trajectory import wrap_angle


def action_cross_entropy(logits: Tensor, target_logits: Tensor) -> Tensor:
    """Mean cross-entropy to the expert's action distribution.

    Args:
        logits: The student's, f32 [N, K].
        target_logits: The expert's, f32 [N, K].

    Returns:
        Scalar [nat].
    """
    return -(target_logits.softmax(-1) * logits.log_softmax(-1)).sum(-1).mean()


def trajectory_l1(trajectory: Tensor, target: Tensor, mask: Tensor, yaw_weight: float) -> Tensor:
    """Mean L1 error over the valid points; yaw errors are taken the short way round.

    Args:
        trajectory: x, y [m], yaw [rad], f32 [N, P, 3].
        target: Likewise.
        mask: Valid points, bool [N, P].
        yaw_weight: Metres that a radian counts for.

    Returns:
        Scalar [m]; 0 without valid points.
    """
    error = trajectory - target
    point = error[..., :2].abs().sum(-1) + yaw_weight * wrap_angle(error[..., 2]).abs()
    return (point * mask).sum() / mask.sum().clamp(min=1)


def imitation_loss(output: dict[str, Tensor], labels: dict[str, Tensor], config: LossConfig) -> dict[str, Tensor]:
    """Return the scalars `loss`, `action` and `trajectory` for labels of live agents ([N, ...], see `labels.label`)."""
    action = action_cross_entropy(output["action_logits"], labels["action_logits"])
    trajectory = trajectory_l1(output["trajectory"], labels["trajectory"], labels["trajectory_mask"], config.yaw)
    return {"loss": action + config.trajectory * trajectory, "action": action, "trajectory": trajectory}
