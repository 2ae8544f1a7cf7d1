"""One step of all worlds in one kernel: move every agent, judge what happened, then reward and end.

In order: agents move and find their place on lanes and route (each on its own); collisions of a world; responses,
rewards and ends of a world. All infractions of a step are found before any takes effect, so no agent's fate depends on
the order of the slots.

On a CPU one loop over worlds does it all, a block of agents at a time and stage by stage: what a stage does for one agent
does not wait for what it did for another, so the compiler vectorises it and the processor waits for many cache misses at
once. On a GPU there is a loop for each of the three, and a block is one agent.
"""

import math
from dataclasses import dataclass

import torch

from ..config import RESPONSES, SimConfig
from ..layout import AgentCol, Event, Head, MapInt, SlotCol, WorldCol
from ..runtime import padding, ti
from .dynamics import move
from .events import WRONG_WAY_MPS, collide_pair, collide_world, leave_road, solid, swept_circle
from .lights import run_red_lights
from .lane import MAP_INTS
from .locate import find_lane, find_route, reach_goals
from .rows import At, rest_of, row_of, slot_of, some_agents
from .settle import LIVE, Param, drive_rewards, settle

BLOCK = 16
"""Agents, or pieces of road, that a CPU computes side by side."""
OFFROAD, WRONG_WAY, GOAL = int(Event.OFFROAD), int(Event.WRONG_WAY), int(Event.GOAL)
RED_LIGHT = int(Event.RED_LIGHT)


@dataclass(frozen=True)
class StepParams:
    """The scalars of a step in one small tensor, since each kernel argument costs time."""

    values: torch.Tensor
    """f32 [len(Param)], on the simulator's device."""

    @classmethod
    def from_config(cls, config: SimConfig, device: str = "cpu", seed: int = 0) -> "StepParams":
        """Pack what a step needs to know.

        Args:
            config: the simulator's configuration.
            device: where the kernel runs, "cpu" or "cuda".
            seed: the simulator's, 0 to 2^31 - 1; the lights depend on it.
        """
        collision, offroad, red_light = config.responses()
        values = [0.0] * len(Param)
        values[Param.DT] = config.dt_s
        # the last step is the first that reaches the limit; the tolerance forgives 0.1 + 0.2
        values[Param.STEPS] = math.ceil(config.time_limit_s / config.dt_s - 1e-6)
        values[Param.EARLY_RESET] = config.early_reset
        values[Param.ON_COLLISION] = RESPONSES.index(collision)
        values[Param.ON_OFFROAD] = RESPONSES.index(offroad)
        values[Param.ON_RED_LIGHT] = RESPONSES.index(red_light)
        values[Param.NUM_GOALS] = config.route.num_goals
        values[Param.GOAL] = config.rewards.goal
        values[Param.PROGRESS] = config.rewards.progress
        packed = torch.tensor(values, dtype=torch.float32)
        packed.view(torch.int32)[Param.SEED] = seed
        return cls(packed.to(device))


def step(
    agents: torch.Tensor,
    slots: torch.Tensor,
    world: torch.Tensor,
    bank_ints: torch.Tensor,
    bank_floats: torch.Tensor,
    action: torch.Tensor,
    reward: torch.Tensor,
    terminated: torch.Tensor,
    truncated: torch.Tensor,
    params: StepParams,
    block: int | None = None,
) -> None:
    """Advance every running world by one step, in place; worlds that are done keep their state.

    Args:
        agents: the state, f32 [W, A, ..], columns in `layout`.
        slots: i32 [W, A, ..].
        world: i32 [W, ..].
        bank_ints: the map bank, see `layout.Head`.
        bank_floats: likewise.
        action: int64 [W, A] in 0..11, or f32 [W, A, 2] in [-1, 1]; ignored for slots that are not live.
        reward: f32 [W, A], overwritten; 0 for slots that did not act.
        terminated: bool or u8 [W, A], overwritten.
        truncated: likewise; exactly one of both is set, once, when an agent's episode ends.
        params: the scalars, on the same device.
        block: how many agents are computed side by side, at least 1; the result is the same. None: `BLOCK` on a CPU, 1 on
            a GPU.
    """
    cpu = agents.device.type == "cpu"
    pad = padding(len(world)) if cpu else 1
    _step(
        agents.view(-1),
        slots.view(-1),
        world,
        bank_ints,
        bank_floats,
        action.view(-1, *action.shape[2:]),
        reward.view(-1),
        terminated.view(torch.uint8).view(-1),
        truncated.view(torch.uint8).view(-1),
        params.values,
        agents.shape[1],
        agents.shape[2],
        slots.shape[2],
        pad,
        block or (BLOCK if cpu else 1),
    )


@ti.kernel
def _step(
    agents: ti.types.ndarray(dtype=ti.f32, ndim=1),
    slots: ti.types.ndarray(dtype=ti.i32, ndim=1),
    world: ti.types.ndarray(dtype=ti.i32, ndim=2),
    bank_i: ti.types.ndarray(dtype=ti.i32, ndim=1),
    bank_f: ti.types.ndarray(dtype=ti.f32, ndim=1),
    action: ti.types.ndarray(),
    reward: ti.types.ndarray(dtype=ti.f32, ndim=1),
    terminated: ti.types.ndarray(dtype=ti.u8, ndim=1),
    truncated: ti.types.ndarray(dtype=ti.u8, ndim=1),
    params: ti.types.ndarray(dtype=ti.f32, ndim=1),
    num_agents: ti.i32,
    columns: ti.i32,
    slot_columns: ti.i32,
    pad: ti.i32,
    block: ti.template(),
):
    if ti.static(block > 1):
        # one loop, in which the rows of a world's agents stay in the cache
        for ww in range(world.shape[0] * pad):
            if ww % pad == 0:
                w = ww // pad
                at = some_agents(w * num_agents, num_agents, columns, slot_columns)
                for part in range((num_agents + block - 1) // block):
                    advance(
                        agents,
                        slots,
                        world,
                        bank_i,
                        bank_f,
                        action,
                        reward,
                        terminated,
                        truncated,
                        params,
                        w,
                        rest_of(at, part * block),
                        block,
                    )
                if world[w, WorldCol.DONE] == 0:
                    collide_world(agents, slots, at)
                    settle(agents, slots, world, reward, terminated, truncated, params, w, at)
    else:
        # a GPU has threads to spare: one an agent, then one a first partner, each with all later ones
        for n in range(world.shape[0] * num_agents):
            w = n // num_agents
            at = some_agents(n, 1, columns, slot_columns)
            advance(agents, slots, world, bank_i, bank_f, action, reward, terminated, truncated, params, w, at, block)
        for n in range(world.shape[0] * num_agents):
            w = n // num_agents
            at = some_agents(w * num_agents, num_agents, columns, slot_columns)
            a = n % num_agents
            if world[w, WorldCol.DONE] == 0 and solid(slots, slot_of(at, a)) == 1:
                x, y, r = swept_circle(agents, row_of(at, a))
                for b in range(a + 1, num_agents):
                    if solid(slots, slot_of(at, b)) == 1:
                        x2, y2, r2 = swept_circle(agents, row_of(at, b))
                        if (x2 - x) * (x2 - x) + (y2 - y) * (y2 - y) < (r + r2) * (r + r2):
                            collide_pair(agents, slots, at, a, b)
        for w in range(world.shape[0]):
            if world[w, WorldCol.DONE] == 0:
                at = some_agents(w * num_agents, num_agents, columns, slot_columns)
                settle(agents, slots, world, reward, terminated, truncated, params, w, at)


@ti.func
def advance(
    agents: ti.template(),
    slots: ti.template(),
    world: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    action: ti.template(),
    reward: ti.template(),
    terminated: ti.template(),
    truncated: ti.template(),
    params: ti.template(),
    w: ti.i32,
    at: some_agents,
    block: ti.template(),
):
    """Clear the outputs of the first `block` agents; move those that drive and judge all but collisions."""
    live = ti.Vector.zero(ti.i32, block)
    any_live = 0
    running = world[w, WorldCol.DONE] == 0
    for k in range(ti.min(at[At.COUNT], block)):
        reward[at[At.FIRST] + k] = 0.0
        terminated[at[At.FIRST] + k] = ti.u8(0)
        truncated[at[At.FIRST] + k] = ti.u8(0)
        if running:
            slot = slot_of(at, k)
            remember(agents, slots, row_of(at, k), slot)
            live[k] = ti.cast(slots[slot + SlotCol.STATUS] == LIVE, ti.i32)
            any_live |= live[k]
    if any_live == 1:
        map_id = world[w, WorldCol.MAP]
        num_goals = ti.cast(params[Param.NUM_GOALS], ti.i32)
        distance, jerk = move(agents, action, live, at, params[Param.DT], block)
        cells, on_lane, aligned = find_lane(agents, slots, bank_i, bank_f, live, map_id, at, block)
        off = leave_road(agents, bank_i, bank_f, live, cells, on_lane, map_id, at, block)
        red = ti.Vector.zero(ti.i32, block)
        if bank_i[bank_i[Head.MAPS] + map_id * MAP_INTS + MapInt.NUM_STOPS] > 0:
            seed = ti.bit_cast(params[Param.SEED], ti.i32)
            red = run_red_lights(agents, slots, world, bank_i, bank_f, live, seed, w, at, block)
        find_route(agents, slots, bank_i, bank_f, live, distance, at, block)
        reached = reach_goals(agents, slots, bank_i, bank_f, live, num_goals, at, block)
        drive_rewards(agents, slots, reward, live, jerk, params, at, block)
        for k in range(block):
            if live[k] == 1:
                row = row_of(at, k)
                slot = slot_of(at, k)
                event = off[k] * OFFROAD + red[k] * RED_LIGHT + reached[k] * GOAL
                if on_lane[k] == 1 and aligned[k] == 0 and agents[row + AgentCol.SPEED] > WRONG_WAY_MPS:
                    event |= WRONG_WAY
                    # written out, since Taichi makes `+=` on an array atomic, which is slow
                    driven = agents[row + AgentCol.WRONG_WAY_DRIVEN] + ti.abs(distance[k])
                    agents[row + AgentCol.WRONG_WAY_DRIVEN] = driven
                slots[slot + SlotCol.EVENT] = event
                slots[slot + SlotCol.STEPS] = slots[slot + SlotCol.STEPS] + 1


@ti.func
def remember(agents: ti.template(), slots: ti.template(), row: ti.i32, slot: ti.i32):
    """Keep the pose and status of before; events are those of this step alone."""
    agents[row + AgentCol.PREV_X] = agents[row + AgentCol.X]
    agents[row + AgentCol.PREV_Y] = agents[row + AgentCol.Y]
    agents[row + AgentCol.PREV_Z] = agents[row + AgentCol.Z]
    agents[row + AgentCol.PREV_YAW] = agents[row + AgentCol.YAW]
    agents[row + AgentCol.PROGRESS_STEP] = 0.0
    slots[slot + SlotCol.PREV_STATUS] = slots[slot + SlotCol.STATUS]
    slots[slot + SlotCol.EVENT] = 0
