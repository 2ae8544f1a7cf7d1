"""Writes what every agent observes into the flat buffers of `observation.ObservationBuffers`.

The twin is `reference/observe.py`; columns and scales are those of `observation.COLUMNS`.
"""

import math
from dataclasses import dataclass

import torch

from ..config import CONDITION_BOUNDS, SimConfig
from ..layout import AgentCol, SlotCol, Status, Stream, WorldCol
from ..observation import GAINS
from ..observation_buffers import Leaf, ObservationBuffers
from ..runtime import ti
from .lane import near_cell
from .observe_rows import (
    MANOEUVRE,
    ObserveCol,
    begin,
    clear,
    frame5,
    next_turn,
    observe_condition,
    observe_ego,
    observe_lights,
    observe_partners,
    observe_pieces,
    observe_route,
    set_mask,
)
from .random import key_agent, key_world, uniform
from .rows import row_of, slot_of, some_agents

GRAIN = 16
"""Loop padding: a CPU thread then takes 32 agents at least instead of 512."""


@dataclass(frozen=True)
class ObserveParams:
    """What `observe` needs of a configuration, packed as f32 in the order of `ObserveCol`."""

    values: torch.Tensor

    @classmethod
    def from_config(cls, config: SimConfig, device: torch.device | str) -> "ObserveParams":
        """Pack `config` for kernels on `device`."""
        observation = config.observation
        values = [observation.partner_radius_m, observation.manoeuvre_m, observation.light_m]
        for name, (low, high) in CONDITION_BOUNDS.items():
            if name in GAINS:
                low, high = math.log(low), math.log(high)
            values += [2.0 / (high - low), -(high + low) / (high - low)]
        values += observation.route_points_m
        return cls(torch.tensor(values, dtype=torch.float32, device=device))


@ti.kernel
def _observe(
    agents: ti.types.ndarray(ti.f32, 1),
    slots: ti.types.ndarray(ti.i32, 1),
    world: ti.types.ndarray(ti.i32, 2),
    worlds: ti.types.ndarray(ti.u8, 1),
    bank_i: ti.types.ndarray(ti.i32, 1),
    bank_f: ti.types.ndarray(ti.f32, 1),
    floats: ti.types.ndarray(ti.f32, 1),
    bytes_: ti.types.ndarray(ti.u8, 1),
    offsets: ti.types.ndarray(ti.i32, 1),
    params: ti.types.ndarray(ti.f32, 1),
    num_agents: ti.i32,
    columns: ti.i32,
    slot_columns: ti.i32,
    seed: ti.i32,
    partners: ti.template(),
    pad: ti.template(),
):
    for i in range(world.shape[0] * num_agents * pad):
        n = i // pad
        w = n // num_agents
        a = n % num_agents
        if i % pad == 0 and worlds[w] != 0:
            at = some_agents(w * num_agents, num_agents, columns, slot_columns)
            row = row_of(at, a)
            slot = slot_of(at, a)
            status = slots[slot + SlotCol.STATUS]
            bytes_[begin(offsets, Leaf.LIVE, n)] = ti.cast(status == Status.LIVE, ti.u8)
            # an agent that ran out of time no longer acts, but its last observation is what a bootstrap needs
            if status == Status.LIVE or status == Status.TIMED_OUT:
                observe_ego(agents, row, floats, begin(offsets, Leaf.EGO, n), begin(offsets, Leaf.PROPRIO, n))
                observe_condition(agents, row, params, floats, begin(offsets, Leaf.CONDITION, n))
                yaw = agents[row + AgentCol.YAW]
                x = agents[row + AgentCol.X]
                y = agents[row + AgentCol.Y]
                ego = frame5(x, y, agents[row + AgentCol.Z], ti.cos(yaw), ti.sin(yaw))
                observe_route(agents, slots, bank_i, bank_f, ego, n, row, slot, params, floats, bytes_, offsets)
                turn = next_turn(agents, slots, bank_i, row, slot, params[ObserveCol.MANOEUVRE_M])
                for k in range(MANOEUVRE):
                    floats[begin(offsets, Leaf.MANOEUVRE, n) + k] = ti.cast(k == turn, ti.f32)
                far = params[ObserveCol.LIGHT_M]
                observe_lights(
                    agents, slots, world, bank_i, bank_f, ego, n, w, row, slot, seed, far, floats, bytes_, offsets
                )
                radius = params[ObserveCol.PARTNER_RADIUS]
                observe_partners(agents, slots, ego, n, at, a, radius, floats, bytes_, offsets, partners)
                cell = near_cell(bank_i, bank_f, world[w, WorldCol.MAP], x, y)
                observe_pieces(bank_i, bank_f, ego, n, cell, floats, bytes_, offsets)
                key = key_world(seed, world[w, WorldCol.ID], world[w, WorldCol.EPISODE], world[w, WorldCol.STEP])
                key = key_agent(key, a, Stream.DRAW)
                floats[begin(offsets, Leaf.DRAW, n)] = uniform(key, 0)
                floats[begin(offsets, Leaf.DRAW, n) + 1] = uniform(key, 1)
            else:
                for leaf in ti.static(range(Leaf.REWARD)):
                    clear(floats, begin(offsets, leaf, n), begin(offsets, leaf, n + 1))
                for leaf in ti.static(range(Leaf.ROUTE_MASK, Leaf.LIVE)):
                    set_mask(bytes_, begin(offsets, leaf, n), offsets[2 * leaf + 1], 0)


def observe(
    agents: torch.Tensor,
    slots: torch.Tensor,
    world: torch.Tensor,
    mask: torch.Tensor,
    bank_ints: torch.Tensor,
    bank_floats: torch.Tensor,
    buffers: ObservationBuffers,
    params: ObserveParams,
    seed: int,
) -> None:
    """Fill the rows of every agent in the masked worlds; reward and flags are left alone.

    Agents that act next get full rows, and so do those whose time has run out, for a bootstrap needs their true last
    observation; `live` is true for the former only. All other rows of masked worlds become zero, their masks false.

    Args:
        agents: f32 [W, A, AgentCol.ROUTE + 3 R]; the state is not changed.
        slots: i32 [W, A, SlotCol.ROUTE + 2 R].
        world: i32 [W, len(WorldCol)].
        mask: u8 [W], 1 to observe; the other worlds' rows stay bitwise as they are.
        bank_ints: i32 [..], the maps.
        bank_floats: f32 [..].
        buffers: of W worlds and A agents.
        params: of the same configuration as the buffers.
        seed: non-negative; of `draw` and of the lights.
    """
    pad = GRAIN if agents.device.type == "cpu" else 1
    _observe(
        agents.view(-1),
        slots.view(-1),
        world,
        mask,
        bank_ints,
        bank_floats,
        buffers.floats,
        buffers.bytes,
        buffers.offsets,
        params.values,
        agents.shape[1],
        agents.shape[2],
        slots.shape[2],
        seed,
        buffers.config.partners,
        pad,
    )
