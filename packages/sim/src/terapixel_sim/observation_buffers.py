"""The memory behind a batch: every leaf of it lies in one tensor of floats or one of bytes."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple

import torch
from tensordict import TensorDict

from .config import CONDITION_BOUNDS, ObservationConfig
from .observation import LIGHTS, MANOEUVRES, EdgeObs, EgoObs, LaneObs, LightObs, PartnerObs, ProprioObs, RouteObs


class Leaf(IntEnum):
    """Leaves in the order in which they lie in the flat buffers: floats up to REWARD, bytes from ROUTE_MASK on."""

    EGO = 0
    ROUTE = 1
    PARTNERS = 2
    LANES = 3
    EDGES = 4
    LIGHTS = 5
    CONDITION = 6
    DRAW = 7
    COMMAND = 8
    MANOEUVRE = 9
    PROPRIO = 10
    REWARD = 11
    ROUTE_MASK = 12
    PARTNERS_MASK = 13
    LANES_MASK = 14
    EDGES_MASK = 15
    LIGHTS_MASK = 16
    COMMAND_MASK = 17
    LIVE = 18
    TERMINATED = 19
    TRUNCATED = 20
    PERTURBED = 21


_STEP_ONLY = (Leaf.REWARD, Leaf.TERMINATED, Leaf.TRUNCATED)
_ALIGN = 16  # each leaf begins at a cache line of the float buffer


class _Place(NamedTuple):
    offset: int
    shape: tuple[int, ...]
    dtype: torch.dtype


class ObservationBuffers:
    """The memory behind one batch: one float and one byte tensor, of which every leaf is a contiguous view.

    A fresh buffer is zero.

    Attributes:
        floats: f32 1-D; bytes: u8 1-D; what kernels write.
        offsets: i32 [2 len(Leaf)]: where each leaf begins in `floats` or `bytes`, and its elements an agent.
        leaves: leaf name -> view [W, A, ...]; masks and flags are bool views.
    """

    def __init__(
        self, num_worlds: int, num_agents: int, config: ObservationConfig, num_goals: int, device: torch.device | str
    ) -> None:
        """Allocate the buffers of `num_worlds` x `num_agents` slots on `device`.

        Raises:
            ValueError: a size below 1, or more floats than 32-bit indices reach.
        """
        for name, size in (("num_worlds", num_worlds), ("num_agents", num_agents), ("num_goals", num_goals)):
            if size < 1:
                raise ValueError(f"{name}: expected at least 1, got {size}")
        self.num_worlds, self.num_agents, self.num_goals, self.config = num_worlds, num_agents, num_goals, config
        route = len(config.route_points_m)
        tails: dict[Leaf, tuple[int, ...]] = {
            Leaf.EGO: (len(EgoObs),),
            Leaf.ROUTE: (route, len(RouteObs)),
            Leaf.PARTNERS: (config.partners, len(PartnerObs)),
            Leaf.LANES: (config.lanes, len(LaneObs)),
            Leaf.EDGES: (config.edges, len(EdgeObs)),
            Leaf.LIGHTS: (LIGHTS, len(LightObs)),
            Leaf.CONDITION: (len(CONDITION_BOUNDS),),
            Leaf.DRAW: (2,),
            Leaf.COMMAND: (num_goals, 2),
            Leaf.MANOEUVRE: (len(MANOEUVRES),),
            Leaf.PROPRIO: (len(ProprioObs),),
            Leaf.REWARD: (),
            Leaf.ROUTE_MASK: (route,),
            Leaf.PARTNERS_MASK: (config.partners,),
            Leaf.LANES_MASK: (config.lanes,),
            Leaf.EDGES_MASK: (config.edges,),
            Leaf.LIGHTS_MASK: (LIGHTS,),
            Leaf.COMMAND_MASK: (num_goals,),
            Leaf.LIVE: (),
            Leaf.TERMINATED: (),
            Leaf.TRUNCATED: (),
            Leaf.PERTURBED: (),
        }
        places: dict[Leaf, _Place] = {}
        sizes = {torch.float32: 0, torch.uint8: 0}
        for leaf in Leaf:
            dtype = torch.float32 if leaf <= Leaf.REWARD else torch.uint8
            shape = (num_worlds, num_agents, *tails[leaf])
            places[leaf] = _Place(sizes[dtype], shape, dtype)
            sizes[dtype] += -(-math.prod(shape) // _ALIGN) * _ALIGN
        if sizes[torch.float32] >= 2**31:
            raise ValueError(
                f"num_worlds x num_agents: {num_worlds} x {num_agents} slots need {sizes[torch.float32]} floats of "
                f"observation, but 32-bit indices end at {2**31 - 1}; use fewer worlds"
            )
        self.floats = torch.zeros(sizes[torch.float32], dtype=torch.float32, device=device)
        self.bytes = torch.zeros(sizes[torch.uint8], dtype=torch.uint8, device=device)
        rows = [(places[leaf].offset, math.prod(tails[leaf])) for leaf in Leaf]
        self.offsets = torch.tensor(rows, dtype=torch.int32, device=device).flatten()
        self.leaves = {leaf.name.lower(): self._view(place) for leaf, place in places.items()}

    def _view(self, place: _Place) -> torch.Tensor:
        flat = self.floats if place.dtype == torch.float32 else self.bytes
        view = flat[place.offset : place.offset + math.prod(place.shape)].view(place.shape)
        return view if place.dtype == torch.float32 else view.view(torch.bool)

    @property
    def reward(self) -> torch.Tensor:
        """f32 [W, A], for the step kernel to fill."""
        return self.leaves["reward"]

    @property
    def terminated(self) -> torch.Tensor:
        """Bool [W, A], for the step kernel to fill."""
        return self.leaves["terminated"]

    @property
    def truncated(self) -> torch.Tensor:
        """Bool [W, A], for the step kernel to fill."""
        return self.leaves["truncated"]

    def batch(self, *, stepped: bool = False) -> TensorDict:
        """A TensorDict [W, A] over the buffers; `stepped` adds reward, terminated and truncated."""
        skip = () if stepped else tuple(leaf.name.lower() for leaf in _STEP_ONLY)
        leaves = {key: value for key, value in self.leaves.items() if key not in skip}
        return TensorDict(leaves, batch_size=[self.num_worlds, self.num_agents])
