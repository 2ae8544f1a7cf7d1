"""One step of all worlds in one kernel: move every agent, judge what happened, then reward and end.

In order: agents move and find their place on lanes and route (each on its own); collisions of a world; responses,
rewards and ends of a world. On a CPU one loop over worlds does it all, on a GPU there is a loop for each. All
infractions of a step are found before any takes effect, so no agent's fate depends on the order of the slots.
"""

import math
from dataclasses import dataclass

import torch

from ..config import RESPONSES, SimConfig
from ..layout import AgentCol, Condition, Event, SlotCol, WorldCol
from ..runtime import ti
from .dynamics import jerk_of_action, jerk_of_control, move
from .events import WRONG_WAY_MPS, collide_pair, collide_world, off_road, reach_goal, solid, swept_circle
from .geometry import cosine_sine
from .lane import lane_limit, nearest_lane
from .rewards import FAR_M, comfort_reward
from .route import route_project
from .settle import LIVE, Param, settle

OFF_ROUTE_M = 10.0
"""Farther from the route than this, an agent makes no progress on it."""

OFFROAD, WRONG_WAY, GOAL = int(Event.OFFROAD), int(Event.WRONG_WAY), int(Event.GOAL)


@dataclass(frozen=True)
class StepParams:
    """The scalars of a step in one small tensor, since each kernel argument costs time."""

    values: torch.Tensor
    """f32 [len(Param)], on the simulator's device."""

    @classmethod
    def from_config(cls, config: SimConfig, device: str = "cpu") -> "StepParams":
        """Pack what a step needs to know.

        Args:
            config: the simulator's configuration.
            device: where the kernel runs, "cpu" or "cuda".
        """
        collision, offroad, _ = config.responses()
        values = [0.0] * len(Param)
        values[Param.DT] = config.dt_s
        # the last step is the first that reaches the limit; the tolerance forgives 0.1 + 0.2
        values[Param.STEPS] = math.ceil(config.time_limit_s / config.dt_s - 1e-6)
        values[Param.EARLY_RESET] = config.early_reset
        values[Param.ON_COLLISION] = RESPONSES.index(collision)
        values[Param.ON_OFFROAD] = RESPONSES.index(offroad)
        values[Param.NUM_GOALS] = config.route.num_goals
        values[Param.GOAL] = config.rewards.goal
        values[Param.PROGRESS] = config.rewards.progress
        return cls(torch.tensor(values, dtype=torch.float32, device=device))


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
    """
    cpu = agents.device.type == "cpu"
    # Taichi gives a CPU thread at least 512 iterations; idle ones in between spread few worlds over all threads
    _step(
        agents,
        slots,
        world,
        bank_ints,
        bank_floats,
        action,
        reward,
        terminated.view(torch.uint8),
        truncated.view(torch.uint8),
        params.values,
        512 if cpu else 1,
    )


@ti.kernel
def _step(
    agents: ti.types.ndarray(dtype=ti.f32, ndim=3),
    slots: ti.types.ndarray(dtype=ti.i32, ndim=3),
    world: ti.types.ndarray(dtype=ti.i32, ndim=2),
    bank_i: ti.types.ndarray(dtype=ti.i32, ndim=1),
    bank_f: ti.types.ndarray(dtype=ti.f32, ndim=1),
    action: ti.types.ndarray(),
    reward: ti.types.ndarray(dtype=ti.f32, ndim=2),
    terminated: ti.types.ndarray(dtype=ti.u8, ndim=2),
    truncated: ti.types.ndarray(dtype=ti.u8, ndim=2),
    params: ti.types.ndarray(dtype=ti.f32, ndim=1),
    world_pad: ti.template(),
):
    if ti.static(world_pad > 1):
        # one loop, in which the rows of a world's agents stay in the cache
        for ww in range(agents.shape[0] * world_pad):
            if ww % world_pad == 0:
                w = ww // world_pad
                for a in range(agents.shape[1]):
                    advance(agents, slots, world, bank_i, bank_f, action, reward, terminated, truncated, params, w, a)
                if world[w, WorldCol.DONE] == 0:
                    collide_world(agents, slots, w)
                    settle(agents, slots, world, reward, terminated, truncated, params, w)
    else:
        # a GPU has threads to spare: one an agent, then one a first partner, each with all later ones
        for i in range(agents.shape[0] * agents.shape[1]):
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
                i // agents.shape[1],
                i % agents.shape[1],
            )
        for i in range(agents.shape[0] * agents.shape[1]):
            w = i // agents.shape[1]
            a = i % agents.shape[1]
            if world[w, WorldCol.DONE] == 0 and solid(slots, w, a) == 1:
                x, y, r = swept_circle(agents, w, a)
                for b in range(a + 1, agents.shape[1]):
                    if solid(slots, w, b) == 1:
                        x2, y2, r2 = swept_circle(agents, w, b)
                        if (x2 - x) * (x2 - x) + (y2 - y) * (y2 - y) < (r + r2) * (r + r2):
                            collide_pair(agents, slots, w, a, b)
        for w in range(agents.shape[0]):
            if world[w, WorldCol.DONE] == 0:
                settle(agents, slots, world, reward, terminated, truncated, params, w)


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
    a: ti.i32,
):
    """Clear a slot's outputs, and where it drives move it and judge all but collisions."""
    reward[w, a] = 0.0
    terminated[w, a] = ti.u8(0)
    truncated[w, a] = ti.u8(0)
    if world[w, WorldCol.DONE] == 0:
        remember(agents, slots, w, a)
        if slots[w, a, SlotCol.STATUS] == LIVE:
            j_long = 0.0
            j_lat = 0.0
            if ti.static(len(action.shape) == 2):
                j_long, j_lat = jerk_of_action(ti.cast(action[w, a], ti.i32))
            else:
                j_long, j_lat = jerk_of_control(action[w, a, 0], action[w, a, 1])
            distance, jerk = move(agents, w, a, j_long, j_lat, params[Param.DT])
            # the only term that needs the accelerations of before
            reward[w, a] = comfort_reward(
                agents[w, a, AgentCol.CONDITION + Condition.COMFORT],
                agents[w, a, AgentCol.ACCEL],
                agents[w, a, AgentCol.LAT_ACCEL],
                jerk,
            )
            locate(agents, slots, bank_i, bank_f, params, w, a, world[w, WorldCol.MAP], ti.abs(distance))


@ti.func
def remember(agents: ti.template(), slots: ti.template(), w: ti.i32, a: ti.i32):
    """Keep the pose and status of before; events are those of this step alone."""
    agents[w, a, AgentCol.PREV_X] = agents[w, a, AgentCol.X]
    agents[w, a, AgentCol.PREV_Y] = agents[w, a, AgentCol.Y]
    agents[w, a, AgentCol.PREV_Z] = agents[w, a, AgentCol.Z]
    agents[w, a, AgentCol.PREV_YAW] = agents[w, a, AgentCol.YAW]
    agents[w, a, AgentCol.PROGRESS_STEP] = 0.0
    slots[w, a, SlotCol.PREV_STATUS] = slots[w, a, SlotCol.STATUS]
    slots[w, a, SlotCol.EVENT] = 0


@ti.func
def locate(
    agents: ti.template(),
    slots: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    params: ti.template(),
    w: ti.i32,
    a: ti.i32,
    map_id: ti.i32,
    driven: ti.f32,
):
    """Find a moved agent's lane, height and place on the route, and its events but collisions."""
    # written out, since Taichi makes `+=` on an array atomic, which is slow
    slots[w, a, SlotCol.STEPS] = slots[w, a, SlotCol.STEPS] + 1
    lane, _, offset, heading, on_lane, aligned, p = nearest_lane(
        bank_i,
        bank_f,
        map_id,
        agents[w, a, AgentCol.X],
        agents[w, a, AgentCol.Y],
        agents[w, a, AgentCol.Z],
        agents[w, a, AgentCol.YAW],
        slots[w, a, SlotCol.LANE],
    )
    cosine, _ = cosine_sine(heading)
    slots[w, a, SlotCol.LANE] = lane
    if lane >= 0:
        agents[w, a, AgentCol.Z] = p[2]
        agents[w, a, AgentCol.GRADE] = p[6] * cosine
        agents[w, a, AgentCol.LANE_OFFSET] = offset
        agents[w, a, AgentCol.LANE_HEADING] = heading
        agents[w, a, AgentCol.LANE_WIDTH] = p[5]
        agents[w, a, AgentCol.LANE_LIMIT] = lane_limit(bank_i, bank_f, lane)
    else:  # height, width and limit stay those of the last lane
        agents[w, a, AgentCol.GRADE] = 0.0
        agents[w, a, AgentCol.LANE_OFFSET] = FAR_M
        agents[w, a, AgentCol.LANE_HEADING] = 0.0

    event = 0
    if on_lane == 1 and aligned == 0 and agents[w, a, AgentCol.SPEED] > WRONG_WAY_MPS:
        event |= WRONG_WAY
        agents[w, a, AgentCol.WRONG_WAY_DRIVEN] = agents[w, a, AgentCol.WRONG_WAY_DRIVEN] + driven
    if off_road(agents, bank_i, bank_f, w, a, map_id, on_lane) == 1:
        event |= OFFROAD

    s, entry, distance, route_offset, route_heading = route_project(agents, slots, bank_i, bank_f, w, a, driven)
    agents[w, a, AgentCol.ROUTE_S] = s
    agents[w, a, AgentCol.ROUTE_OFFSET] = route_offset
    agents[w, a, AgentCol.ROUTE_HEADING] = route_heading
    slots[w, a, SlotCol.ENTRY] = entry
    gained = s - agents[w, a, AgentCol.PROGRESS]
    if distance <= OFF_ROUTE_M and gained > 0.0:
        agents[w, a, AgentCol.PROGRESS] = s
        agents[w, a, AgentCol.PROGRESS_STEP] = gained
    if reach_goal(agents, slots, bank_i, bank_f, w, a, ti.cast(params[Param.NUM_GOALS], ti.i32)) == 1:
        event |= GOAL
    slots[w, a, SlotCol.EVENT] = event
