"""A policy with a new encoder before an old, frozen planner."""

from __future__ import annotations

import copy
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from .protocols import check_policy


class AdaptedPolicy(nn.Module):
    """Encodes with a trainable copy of a policy and plans with a frozen one.

    Args:
        policy: Any module with `encode` and `head`; it is copied twice and stays as it is.

    Raises:
        TypeError: `policy` lacks `encode` or `head`.
    """

    def __init__(self, policy: nn.Module) -> None:
        check_policy(policy)
        super().__init__()
        # Typed as Any: to a type checker a module's attributes are tensors or modules, not methods.
        self.frozen: Any = copy.deepcopy(policy).eval().requires_grad_(False)
        """The original: its head plans, its encoder gives the latents to match."""
        self.encoder: Any = copy.deepcopy(policy).eval()
        """The copy whose `encode` is trained; its head is not used."""

    def encode(self, batch: TensorDict) -> Tensor:
        """Latent f32 [..., D] by the new encoder."""
        return self.encoder.encode(batch)

    def head(self, latent: Tensor) -> dict[str, Tensor]:
        """Plan of the frozen head."""
        return self.frozen.head(latent)

    def act(self, batch: TensorDict, greedy: bool = False) -> Tensor:
        """Choose actions int64 [...]: the most likely if `greedy`, else drawn by inverse CDF from `draw`."""
        with torch.no_grad():
            logits = self.head(self.encode(batch))["action_logits"]
            if greedy:
                return logits.argmax(-1)
            cdf = logits.softmax(-1).cumsum(-1)
            level = batch["draw"][..., :1] * cdf[..., -1:]
            return (cdf[..., :-1] <= level).sum(-1)

    def trainable(self, batch: TensorDict) -> list[nn.Parameter]:
        """Make exactly the parameters trainable that `encode` uses.

        Args:
            batch: Any batch that the policy can encode.

        Returns:
            These parameters.

        Raises:
            ValueError: `encode` uses none.
        """
        parameters = [p.requires_grad_(p.is_floating_point()) for p in self.encoder.parameters()]
        parameters = [p for p in parameters if p.requires_grad]
        latent: Tensor = self.encode(batch)
        reached = torch.autograd.grad(latent.sum(), parameters, allow_unused=True) if latent.requires_grad else ()
        used = [p for p, g in zip(parameters, reached, strict=False) if g is not None]
        if not used:
            raise ValueError(f"policy: encode of {type(self.encoder).__name__} uses no parameter that could be trained")
        chosen = {id(p) for p in used}
        for p in parameters:
            p.requires_grad_(id(p) in chosen)
        return used
