"""The aggregated data set: world snapshots with labels, not images (which are rendered again when they are needed)."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor


class Aggregate:
    """A ring buffer of labelled world snapshots.

    Args:
        capacity: Most agent slots to hold; whole worlds are stored, and the oldest are overwritten.
        num_agents: Agent slots a world.

    Raises:
        ValueError: Not even one world fits.
    """

    def __init__(self, capacity: int, num_agents: int) -> None:
        self.num_rows = capacity // num_agents
        """Worlds that fit."""
        if self.num_rows < 1:
            raise ValueError(f"capacity: expected at least {num_agents}, the agent slots of one world, got {capacity}")
        self._rows: TensorDict | None = None  # allocated by the first `add`, which brings the leaves
        self._next = 0
        self._size = 0

    def __len__(self) -> int:
        """Worlds stored."""
        return self._size

    def add(self, state: TensorDict, labels: TensorDict) -> None:
        """Copy snapshots and their labels in.

        Args:
            state: Snapshots, batch size [W].
            labels: What belongs to them, batch size [W].

        Raises:
            ValueError: More worlds than fit at once.
        """
        new = TensorDict({"state": state, "labels": labels}, batch_size=state.batch_size)
        count = new.batch_size[0]
        if count > self.num_rows:
            raise ValueError(f"capacity: {count} worlds were added at once, but only {self.num_rows} fit")
        if count == 0:
            return
        if self._rows is None:
            self._rows = new[:1].expand(self.num_rows).clone()
        index = (self._next + torch.arange(count, device=new.device)) % self.num_rows
        self._rows[index] = new
        self._next = (self._next + count) % self.num_rows
        self._size = min(self._size + count, self.num_rows)

    def sample(self, count: int, generator: torch.Generator) -> tuple[TensorDict, TensorDict]:
        """Draw stored worlds uniformly, with replacement.

        Args:
            count: How many, N.
            generator: Of random numbers, on the CPU.

        Returns:
            Snapshots and labels, both of batch size [N].

        Raises:
            ValueError: Nothing is stored.
        """
        if self._rows is None:
            raise ValueError("aggregate: nothing to sample, it is empty")
        index = torch.randint(self._size, (count,), generator=generator).to(self._rows.device)
        rows = self._rows[index]
        return rows["state"], rows["labels"]

    def state_dict(self) -> dict[str, int | dict[str, Tensor] | None]:
        """Everything stored, as plain dicts of tensors."""
        rows = None if self._rows is None else self._rows[: self._size].to_dict()
        return {"rows": rows, "next": self._next, "size": self._size, "num_rows": self.num_rows}

    def load_state_dict(self, state: dict) -> None:
        """Take over what `state_dict` returned.

        Raises:
            ValueError: It comes from an aggregate of another capacity.
        """
        if state["num_rows"] != self.num_rows:
            raise ValueError(
                f"capacity: the stored aggregate holds {state['num_rows']} worlds, this one {self.num_rows}"
            )
        self._next, self._size, self._rows = state["next"], state["size"], None
        if state["rows"] is not None:
            rows = TensorDict(state["rows"], batch_size=[self._size])
            self._rows = rows[:1].expand(self.num_rows).clone()
            self._rows[: self._size] = rows
