"""Storage of one rollout: T steps of N = W * A agent slots, of which only the live ones count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from tensordict import TensorDict
from torch import Tensor

from .protocols import Key, check_keys, check_outcome


class Rollout:
    """T decisions of every slot with their outcomes, copied out of the environment's borrowed batches.

    Values of slots that did not act are zero, so that nothing an environment leaves there can spread.
    """

    def __init__(self, example: TensorDict, keys: Sequence[Key], horizon: int) -> None:
        """Allocate for `horizon` steps of batches like `example` [W, A], keeping the leaves in `keys`."""
        check_keys(example, (*keys, "live"), "rollout")
        self.batch_size = example.batch_size
        self.horizon = horizon
        self.length = 0
        flat = example.select(*keys).reshape(-1)
        self._keys = tuple(keys)
        self.observations = cast(TensorDict, torch.stack([flat] * horizon))

        def zeros(dtype: torch.dtype) -> Tensor:
            return torch.zeros(horizon, flat.batch_size[0], dtype=dtype, device=example["live"].device)

        self.live = zeros(torch.bool)
        self.perturbed = zeros(torch.bool)
        """Decisions that the environment overruled or blinded (leaf `perturbed`, where it has one): not to learn from."""
        self._marks_perturbed = "perturbed" in example.keys()  # noqa: SIM118 - a TensorDict has no __contains__
        self.action = zeros(torch.int64)
        self.log_prob = zeros(torch.float32)
        self.value = zeros(torch.float32)
        self.final_value = zeros(torch.float32)
        self.reward = zeros(torch.float32)
        self.terminated = zeros(torch.bool)
        self.truncated = zeros(torch.bool)
        self.world_done = torch.zeros(horizon, example.batch_size[0], dtype=torch.bool, device=self.live.device)

    def clear(self) -> None:
        """Forget all steps."""
        self.length = 0

    def add_decision(self, batch: TensorDict, action: Tensor, log_prob: Tensor, value: Tensor) -> None:
        """Keep what was seen and decided at step `length`; all tensors [W, A]."""
        t = self.length
        live: Tensor = batch["live"].reshape(-1)
        self.live[t] = live
        if self._marks_perturbed:
            self.perturbed[t] = batch["perturbed"].reshape(-1)
        self.observations[t] = batch.select(*self._keys).reshape(-1)
        self.action[t] = action.reshape(-1)
        self.log_prob[t] = log_prob.reshape(-1).masked_fill(~live, 0.0)
        self.value[t] = value.reshape(-1).masked_fill(~live, 0.0)

    def add_outcome(self, batch: TensorDict, world_done: Tensor) -> Tensor:
        """Keep what the decision led to.

        Args:
            batch: The step's batch [W, A].
            world_done: Worlds whose episode is over, bool [W].

        Returns:
            Slots whose episode was truncated, int64 [n] into [N]: `add_final_value` must be told their value.

        Raises:
            ValueError: A leaf is absent or of the wrong shape.
        """
        check_outcome(batch, self.batch_size)
        t = self.length
        acted = self.live[t]
        self.reward[t] = batch["reward"].reshape(-1).masked_fill(~acted, 0.0)
        self.terminated[t] = batch["terminated"].reshape(-1)
        self.truncated[t] = batch["truncated"].reshape(-1)
        self.world_done[t] = world_done
        self.length += 1
        return (self.truncated[t] & acted).nonzero().squeeze(-1)

    def add_final_value(self, slots: Tensor, value: Tensor) -> None:
        """Keep `value` f32 [n], of the true last observation of `slots`, for the step just added."""
        self.final_value[self.length - 1, slots] = value

    def next_value(self, last_value: Tensor) -> Tensor:
        """Value of what each transition led to, f32 [T, N], given that of the observation after the last step, f32 [N].

        A live slot's is the value at its next decision. A truncated one's is that of its last observation, since its
        next decision belongs to another episode. A terminated one's means nothing.
        """
        following = torch.cat([self.value[1:], last_value.unsqueeze(0)])
        return torch.where(self.truncated, self.final_value, following)

    def check(self, live_next: Tensor) -> None:
        """Raise where the environment lost an agent or ended an episode in a way that would corrupt the returns.

        Args:
            live_next: `live` of the observation after the last step, bool [N].

        Raises:
            ValueError: Flags contradict each other or `live`, or a live slot's reward is not finite.
        """
        done = self.terminated | self.truncated
        expected = self.live & ~done
        after = torch.cat([self.live[1:], live_next.unsqueeze(0)])
        over = self.world_done.repeat_interleave(self.batch_size[1], dim=1)
        faults = {
            "terminated and truncated at once": self.terminated & self.truncated,
            "an end of a slot that did not act": done & ~self.live,
            "a live slot that vanished without terminated or truncated": expected & ~after,
            "a world that is done with a live slot neither terminated nor truncated": expected & over,
            "a reward that is not finite": ~self.reward.isfinite(),
        }
        counts = torch.stack([fault.sum() for fault in faults.values()]).tolist()
        for (what, fault), count in zip(faults.items(), counts, strict=True):
            if count:
                t, slot = fault.nonzero()[0].tolist()
                world, agent = divmod(slot, self.batch_size[1])
                first = f"step {t} of the rollout, world {world}, agent {agent}"
                raise ValueError(f"environment: {what}, {count} times; first in {first}")

    def minibatch(self, index: Tensor) -> TensorDict:
        """Observations [n] of the transitions `index`, int64 [n] into the flattened [T * N]."""
        return self.observations.reshape(-1)[index]
