"""Freshly reset worlds on procedural towns, for the tests of spawning and observing."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from terapixel_sim.config import SimConfig
from terapixel_sim.kernels.observe import ObserveParams, observe
from terapixel_sim.kernels.spawn import SpawnParams, reset
from terapixel_sim.layout import AgentCol, SlotCol, WorldCol
from terapixel_sim.maps.bank import MapBank, build_bank
from terapixel_sim.maps.procedural import curvy_town, grid_town
from terapixel_sim.observation_buffers import ObservationBuffers
from terapixel_sim.runtime import start

CONFIG = SimConfig()


@lru_cache(maxsize=2)
def towns(config: SimConfig = CONFIG) -> MapBank:
    """A bank of a grid town and a curvy one."""
    return build_bank([grid_town(3), curvy_town(1)], config, "cpu")


@dataclass
class Worlds:
    """The state of W worlds with A agents, and the bank they run on."""

    agents: torch.Tensor
    slots: torch.Tensor
    world: torch.Tensor
    bank: MapBank
    config: SimConfig
    seed: int

    @classmethod
    def empty(cls, ids, num_agents, *, config=CONFIG, seed=0):
        start("cpu")
        w, r = len(ids), config.route.entries
        world = torch.zeros(w, len(WorldCol), dtype=torch.int32)
        world[:, WorldCol.ID] = torch.tensor(ids)
        world[:, WorldCol.EPISODE] = -1
        agents = torch.zeros(w, num_agents, AgentCol.ROUTE + 3 * r)
        slots = torch.zeros(w, num_agents, SlotCol.ROUTE + 2 * r, dtype=torch.int32)
        return cls(agents, slots, world, towns(config), config, seed)

    @classmethod
    def started(cls, ids, num_agents, *, config=CONFIG, seed=0):
        worlds = cls.empty(ids, num_agents, config=config, seed=seed)
        worlds.reset()
        return worlds

    def reset(self, mask=None, condition=None):
        w, a = self.agents.shape[:2]
        mask = torch.ones(w, dtype=torch.uint8) if mask is None else torch.tensor(mask, dtype=torch.uint8)
        condition = torch.full((w, a, 18), float("nan")) if condition is None else condition
        params = SpawnParams.from_config(self.config, "cpu")
        bank = self.bank
        reset(self.agents, self.slots, self.world, mask, condition, bank.ints, bank.floats, params, self.seed)

    def observe(self, mask=None, buffers=None):
        w, a = self.agents.shape[:2]
        mask = torch.ones(w, dtype=torch.uint8) if mask is None else torch.tensor(mask, dtype=torch.uint8)
        if buffers is None:
            buffers = ObservationBuffers(w, a, self.config.observation, self.config.route.num_goals, "cpu")
        params = ObserveParams.from_config(self.config, "cpu")
        bank = self.bank
        observe(self.agents, self.slots, self.world, mask, bank.ints, bank.floats, buffers, params, self.seed)
        return buffers

    def numpy(self):
        """agents, slots, world, bank ints, bank floats."""
        tensors = (self.agents, self.slots, self.world, self.bank.ints, self.bank.floats)
        return tuple(np.asarray(t) for t in tensors)
