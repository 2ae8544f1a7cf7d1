"""What alignment asks of a policy and of a source of pairs."""

from __future__ import annotations

from typing import Any, Protocol

from tensordict import TensorDict
from torch import Tensor

INTERFACE = 1
"""Version of the tensor batch that this package speaks."""


class Policy(Protocol):
    """A torch module in two parts: `encode` sees, `head` plans."""

    def encode(self, batch: TensorDict) -> Tensor:
        """Latent f32 [..., D]."""

    def head(self, latent: Tensor) -> dict[str, Tensor]:
        """Plan, for example `action_logits` f32 [..., K] and `trajectory` f32 [..., P, 3]."""


class Pairs(Protocol):
    """A source of pairs of batches that show the same states in two looks."""

    def next_pair(self) -> tuple[TensorDict, TensorDict]:
        """Return (source, target): the look that the policy knows and the new one, row by row the same states.

        A `live` leaf, if the source has one, says which rows count.
        """


def check_policy(policy: Any) -> None:
    """Raise TypeError unless `policy` has `encode` and `head`."""
    missing = [name for name in ("encode", "head") if not callable(getattr(policy, name, None))]
    if missing:
        raise TypeError(f"policy: {type(policy).__name__} lacks {', '.join(missing)}")


def check_pairs(pairs: Any) -> None:
    """Raise TypeError unless `pairs` has `next_pair`."""
    if not callable(getattr(pairs, "next_pair", None)):
        raise TypeError(f"pairs: {type(pairs).__name__} lacks next_pair")
