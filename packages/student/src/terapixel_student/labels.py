"""What the expert would do from here: a forked rollout of everybody, read off as trajectories."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from .networks import EVERY_S, NUM_POINTS
from .protocols import Env, Expert
from .trajectory import to_frame


def whole_steps(duration_s: float, dt_s: float, name: str) -> int:
    """Return how many steps of `dt_s` make `duration_s`; ValueError about `name` unless that is a whole number."""
    steps = round(duration_s / dt_s)
    if steps < 1 or abs(steps * dt_s - duration_s) > 1e-6 * duration_s:
        raise ValueError(f"{name}: expected a whole number of steps of {dt_s:g} s, got {duration_s:g} s")
    return steps


def label(
    fork: Env, state: TensorDict, expert: Expert, *, points: int = NUM_POINTS, every_s: float = EVERY_S
) -> TensorDict:
    """Label world snapshots with the expert's driving.

    The fork continues from `state` with the expert's most likely action in every slot, so that a label is what all
    agents together would really do, not each against frozen others.

    Args:
        fork: A fork of the environment with as many worlds as `state`; it is overwritten.
        state: World snapshots, batch size [W].
        expert: Drives every slot.
        points: Points of a trajectory, P.
        every_s: Time between two points [s]; a whole number of steps.

    Returns:
        A TensorDict of batch size [W] with

        - `trajectory` f32 [W, A, P, 3]: x, y [m], yaw [rad] of the rear axle in its own frame at the label's time;
        - `trajectory_mask` bool [W, A, P]: true while the agent's rollout has not ended; other points are zero;
        - `action_logits` f32 [W, A, K]: the expert's at the labelled state;
        - `live` bool [W, A]: the slots that act in the labelled state; only these are labels.

    Raises:
        ValueError: `every_s` is not a whole number of steps, or `state` has another number of worlds than the fork.
    """
    steps = whole_steps(every_s, fork.dt_s, "every_s")
    if state.batch_size != torch.Size([fork.num_worlds]):
        raise ValueError(
            f"state: expected batch size [{fork.num_worlds}], the fork's worlds, got {list(state.batch_size)}"
        )
    with torch.no_grad():
        fork.load_state(state)
        batch = fork.observe(state)
        live: Tensor = batch["live"].clone()
        logits = expert.head(expert.encode(batch))["action_logits"]
        origin = fork.rear_axle().clone()
        trajectory = torch.zeros(*live.shape, points, 3, device=origin.device)
        mask = torch.zeros(*live.shape, points, dtype=torch.bool, device=origin.device)
        alive = live.clone()
        for point in range(points):
            for _ in range(steps):
                batch = fork.step(expert.act(batch, greedy=True))
                alive &= batch["live"]
            mask[:, :, point] = alive
            trajectory[:, :, point] = to_frame(fork.rear_axle(), origin) * alive.unsqueeze(-1)
    leaves = {"trajectory": trajectory, "trajectory_mask": mask, "action_logits": logits, "live": live}
    return TensorDict(leaves, batch_size=state.batch_size)
