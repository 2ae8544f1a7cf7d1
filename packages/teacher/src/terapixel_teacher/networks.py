"""The teacher's network: set encoders for neighbours, an actor and a critic, built from an example batch."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor, nn
from torch.nn import functional

from .config import NetworkConfig
from .protocols import check_keys


def sample(logits: Tensor, draw: Tensor) -> Tensor:
    """Draw actions by the inverse of the cumulative distribution, so that equal draws give equal actions.

    Args:
        logits: Unnormalised log probabilities, f32 [..., K].
        draw: Uniform in [0, 1), f32 [...].

    Returns:
        int64 [...] in 0..K-1.
    """
    cumulative = logits.softmax(-1).cumsum(-1)
    # scaled by the sum, which rounding leaves a little off 1
    passed = cumulative <= draw.unsqueeze(-1) * cumulative[..., -1:]
    return passed.sum(-1).clamp_(max=logits.shape[-1] - 1)


def linear(inputs: int, outputs: int, gain: float = 2**0.5) -> nn.Linear:
    """A linear layer with orthogonal weights and zero bias."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class SetEncoder(nn.Module):
    """Two layers shared by all rows and a maximum over them (Zaheer et al. 2017, Deep Sets).

    The order of the rows and the contents of masked rows do not matter; an empty set gives zeros.
    """

    def __init__(self, columns: int, width: int) -> None:
        super().__init__()
        self.rows = linear(columns, width)
        self.features = linear(width, width)

    def forward(self, rows: Tensor, mask: Tensor) -> Tensor:
        """Encode `rows` f32 [..., n, columns] under `mask` bool [..., n] to f32 [..., width]."""
        columns = rows.shape[-1]
        # CPU matrix products are several times slower on odd widths such as 10; in-place operations need flat rows, as
        # autograd copies views
        pad = (0, -columns % 16)
        flat = functional.pad(rows.reshape(-1, columns), pad)
        hidden = functional.linear(flat, functional.pad(self.rows.weight, pad), self.rows.bias).relu_()
        excluded = torch.zeros_like(mask, dtype=rows.dtype).masked_fill_(~mask, -torch.inf).reshape(-1, 1)
        features = self.features(hidden).add_(excluded)
        # relu is monotone: max before relu is max after relu, with one pass over the rows less. -inf becomes 0.
        pooled: Tensor = _Maximum.apply(features.view(*mask.shape, features.shape[-1]))
        return pooled.relu()


class _Maximum(torch.autograd.Function):
    """Maximum over the rows [..., n, D] -> [..., D]; faster backward than `amax`, whose gradient it has but at ties."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        largest = rows.amax(-2)
        ctx.save_for_backward(rows, largest)
        return largest

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        rows, largest = ctx.saved_tensors
        # tied rows get the whole gradient each: they are copies of one neighbour, or all masked, where grad is 0
        return torch.where(rows == largest.unsqueeze(-2), grad.unsqueeze(-2), 0.0)


class TeacherPolicy(nn.Module):
    """Actor and critic over the privileged vectors of a batch.

    All methods work on the last dimensions only, so batches [W, A] and [N] give the same.
    """

    def __init__(self, example: TensorDict, config: NetworkConfig, num_actions: int = 12) -> None:
        """Build the network.

        Args:
            example: A batch with the leaves that `config` names; only sizes are read.
            config: Which leaves and how wide.
            num_actions: Number of discrete actions, K.

        Raises:
            ValueError: A leaf is absent or of the wrong dimension, or `initial_logits` has not one number an action.
        """
        super().__init__()
        if len(config.initial_logits) not in (0, num_actions):
            count = len(config.initial_logits)
            raise ValueError(f"network.initial_logits: expected {num_actions} numbers, one an action, got {count}")
        self.config = config
        self.num_actions = num_actions
        masks = [f"{key}_mask" for key in config.sets]
        check_keys(example, (*config.vectors, *config.sets, *masks), "network")
        self._masked = tuple(key for key in config.vectors if f"{key}_mask" in example.keys())  # noqa: SIM118
        self.keys = (*config.vectors, *(f"{key}_mask" for key in self._masked), *config.sets, *masks)
        lead = len(example.batch_size)
        for key in config.sets:
            if example[key].dim() != lead + 2:
                raise ValueError(f"network.sets: {key}: expected [..., n, columns], got {list(example[key].shape)}")
        self._flat = sum(example[key].shape[lead:].numel() for key in config.vectors)
        pooled = config.set_width * len(config.sets)

        def trunk() -> nn.Sequential:
            layers = (
                linear(self._flat + pooled, config.width),
                nn.ReLU(),
                linear(config.width, config.width),
                nn.ReLU(),
            )
            return nn.Sequential(*layers)

        self._owners = ("actor", "critic") if config.critic == "separate" else ("actor",)
        self.encoders = nn.ModuleDict(
            {
                f"{owner}_{key}": SetEncoder(example[key].shape[-1], config.set_width)
                for owner in self._owners
                for key in config.sets
            }
        )
        self.trunks = nn.ModuleList(trunk() for _ in range(1 if config.critic == "shared" else 2))
        # a small gain makes the first policy nearly uniform
        self.policy_head = linear(config.width, num_actions, gain=0.01)
        if config.initial_logits:
            with torch.no_grad():
                self.policy_head.bias.copy_(torch.tensor(config.initial_logits))
        self.value_head = linear(config.width, 1, gain=1.0)

    def encode(self, batch: TensorDict) -> Tensor:
        """Flattened vectors and encoded sets, f32 [..., D]."""
        lead = len(batch.batch_size)
        parts = []
        for key in self.config.vectors:
            leaf: Tensor = batch[key]
            if key in self._masked:
                mask: Tensor = batch[f"{key}_mask"]
                leaf = leaf.masked_fill(~mask.reshape(*mask.shape, *[1] * (leaf.dim() - mask.dim())), 0.0)
            parts.append(leaf.reshape(*leaf.shape[:lead], -1))
        for owner in self._owners:
            for key in self.config.sets:
                limit = self.config.set_limit.get(key)
                parts.append(
                    self.encoders[f"{owner}_{key}"](batch[key][..., :limit, :], batch[f"{key}_mask"][..., :limit])
                )
        return torch.cat(parts, -1)

    def head(self, latent: Tensor) -> dict[str, Tensor]:
        """`action_logits` f32 [..., K] and `value` f32 [...]: the discounted return expected."""
        own = latent
        if self.config.critic == "separate":
            split = (latent.shape[-1] - self._flat) // 2
            vectors, actor_sets, critic_sets = latent.split([self._flat, split, split], -1)
            latent, own = torch.cat([vectors, actor_sets], -1), torch.cat([vectors, critic_sets], -1)
        features = self.trunks[0](latent)
        value_features = features if self.config.critic == "shared" else self.trunks[1](own)
        return {"action_logits": self.policy_head(features), "value": self.value_head(value_features).squeeze(-1)}

    @torch.no_grad()
    def act(self, batch: TensorDict, greedy: bool = False) -> Tensor:
        """Choose actions.

        Args:
            batch: Observations [...] with `draw` unless `greedy`.
            greedy: Take the most likely action rather than sampling by `draw[..., 0]`.

        Returns:
            int64 [...] in 0..K-1.
        """
        logits = self.head(self.encode(batch))["action_logits"]
        return logits.argmax(-1) if greedy else sample(logits, batch["draw"][..., 0])
