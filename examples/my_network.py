"""A teacher network of one's own: an MLP on the ego vector and the route ahead, blind to other cars.

python tools/train_teacher.py tools/configs/teacher.yaml name=mine policy.class=examples/my_network.py:MyNetwork
"""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor, nn


class MyNetwork(nn.Module):
    """Built from an example batch, so that it needs no sizes; works on batches of any leading shape."""

    def __init__(self, example: TensorDict, hidden: int = 128) -> None:
        super().__init__()
        inputs = self._inputs(example).shape[-1]
        self.body = nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.actor, self.critic = nn.Linear(hidden, 12), nn.Linear(hidden, 1)

    def _inputs(self, batch: TensorDict) -> Tensor:
        return torch.cat([batch["ego"], batch["route"].flatten(-2)], dim=-1)

    def encode(self, batch: TensorDict) -> Tensor:
        """Latent f32 [..., hidden]."""
        latent: Tensor = self.body(self._inputs(batch))
        return latent

    def head(self, latent: Tensor) -> dict[str, Tensor]:
        """Logits of the 12 actions and the value."""
        return {"action_logits": self.actor(latent), "value": self.critic(latent).squeeze(-1)}

    def act(self, batch: TensorDict, greedy: bool = False) -> Tensor:
        """Action int64 [...]."""
        logits = self.head(self.encode(batch))["action_logits"]
        if greedy:
            return logits.argmax(-1)
        passed = logits.softmax(-1).cumsum(-1) <= batch["draw"][..., :1]  # inverse CDF of the environment's own draw
        return passed.sum(-1).clamp(max=11)
