"""The end of a step: what the events of a world's agents entail, the rewards, and who and what ends."""

from enum import IntEnum

from ..config import RESPONSES
from ..layout import AgentCol, Condition, Event, SlotCol, Status, WorldCol
from ..runtime import ti
from .dynamics import MOVING_MPS
from .geometry import cosine_sine
from .rewards import (
    collision_reward,
    comfort_reward,
    goal_reward,
    lane_align_reward,
    lane_center_reward,
    offroad_reward,
    overspeed_reward,
    progress_reward,
    red_light_reward,
    reverse_reward,
    timestep_reward,
    velocity_reward,
)
from .rows import At, row_of, slot_of, some_agents

LIVE, STOPPED, REMOVED, EMPTY = int(Status.LIVE), int(Status.STOPPED), int(Status.REMOVED), int(Status.EMPTY)
FINISHED, TIMED_OUT = int(Status.FINISHED), int(Status.TIMED_OUT)
COLLISION, OFFROAD, RED_LIGHT = int(Event.COLLISION), int(Event.OFFROAD), int(Event.RED_LIGHT)
GOAL, FINISH = int(Event.GOAL), int(Event.FINISH)
STOP, REMOVE, IGNORE = (float(RESPONSES.index(name)) for name in ("stop", "remove", "ignore"))


class Param(IntEnum):
    """Places in `StepParams.values`."""

    DT = 0
    STEPS = 1  # of an episode
    EARLY_RESET = 2
    ON_COLLISION = 3  # index in config.RESPONSES
    ON_OFFROAD = 4
    NUM_GOALS = 5
    GOAL = 6
    PROGRESS = 7
    ON_RED_LIGHT = 8
    SEED = 9  # the bits of an int32


@ti.func
def settle(
    agents: ti.template(),
    slots: ti.template(),
    world: ti.template(),
    reward: ti.template(),
    terminated: ti.template(),
    truncated: ti.template(),
    params: ti.template(),
    w: ti.i32,
    at: some_agents,
):
    """Apply what the events of a world's agents entail, then end the world if it is due."""
    present = 0
    live = 0
    failed = 0
    for k in range(at[At.COUNT]):
        slot = slot_of(at, k)
        if slots[slot + SlotCol.STATUS] == LIVE:
            settle_agent(agents, slots, reward, terminated, params, row_of(at, k), slot, at[At.FIRST] + k)
        status = slots[slot + SlotCol.STATUS]
        present += ti.select(status != EMPTY, 1, 0)
        live += ti.select(status == LIVE, 1, 0)
        failed += ti.select(status == STOPPED or status == REMOVED, 1, 0)
    count = world[w, WorldCol.STEP] + 1
    world[w, WorldCol.STEP] = count
    # the tolerance keeps 0.4 of 5 at 2 in spite of rounding
    early = ti.cast(failed, ti.f32) >= params[Param.EARLY_RESET] * ti.cast(present, ti.f32) - 1e-4
    if ti.cast(count, ti.f32) >= params[Param.STEPS] or early or live == 0:
        world[w, WorldCol.DONE] = 1
        for k in range(at[At.COUNT]):
            slot = slot_of(at, k)
            if slots[slot + SlotCol.STATUS] == LIVE:
                slots[slot + SlotCol.STATUS] = TIMED_OUT
                truncated[at[At.FIRST] + k] = ti.u8(1)


@ti.func
def settle_agent(
    agents: ti.template(),
    slots: ti.template(),
    reward: ti.template(),
    terminated: ti.template(),
    params: ti.template(),
    row: ti.i32,
    slot: ti.i32,
    n: ti.i32,
):
    """Reward a live agent and end it if an infraction or its last goal says so.

    Of several infractions in one step only one is charged and responded to: leaving the road goes before a collision,
    and that before a red light, but one that is ignored goes behind one that is not. The event bits tell all.
    """
    event = slots[slot + SlotCol.EVENT]
    charged = 0
    response = IGNORE
    if (event & RED_LIGHT) != 0:
        charged = RED_LIGHT
        response = params[Param.ON_RED_LIGHT]
    if (event & COLLISION) != 0 and (response == IGNORE or params[Param.ON_COLLISION] != IGNORE):
        charged = COLLISION
        response = params[Param.ON_COLLISION]
    if (event & OFFROAD) != 0 and (response == IGNORE or params[Param.ON_OFFROAD] != IGNORE):
        charged = OFFROAD
        response = params[Param.ON_OFFROAD]
    last_goal = slots[slot + SlotCol.GOAL] == ti.cast(params[Param.NUM_GOALS], ti.i32)
    if last_goal and charged == 0:
        event |= FINISH
    slots[slot + SlotCol.EVENT] = event
    slots[slot + SlotCol.EVER] = slots[slot + SlotCol.EVER] | event
    total = reward[n]
    weights = AgentCol.CONDITION
    speed = agents[row + AgentCol.SPEED]
    if (event & GOAL) != 0:
        goal_speed = agents[row + weights + Condition.GOAL_SPEED]
        total += goal_reward(params[Param.GOAL], ti.cast(last_goal, ti.i32), speed, goal_speed)
    if charged == COLLISION:
        total += collision_reward(agents[row + weights + Condition.COLLISION], speed)
    elif charged == OFFROAD:
        total += offroad_reward(agents[row + weights + Condition.OFFROAD])
    elif charged == RED_LIGHT:
        total += red_light_reward(agents[row + weights + Condition.STOP_LINE])
    reward[n] = total
    if response != IGNORE:
        slots[slot + SlotCol.STATUS] = ti.select(response == STOP, STOPPED, REMOVED)
        terminated[n] = ti.u8(1)
        if response == STOP:
            agents[row + AgentCol.SPEED] = 0.0
            agents[row + AgentCol.ACCEL] = 0.0
            agents[row + AgentCol.LAT_ACCEL] = 0.0
            agents[row + AgentCol.STEER] = 0.0
            agents[row + AgentCol.YAW_RATE] = 0.0
    elif (event & FINISH) != 0:
        slots[slot + SlotCol.STATUS] = FINISHED
        terminated[n] = ti.u8(1)


@ti.func
def drive_rewards(
    agents: ti.template(),
    slots: ti.template(),
    reward: ti.template(),
    live: ti.template(),
    jerk: ti.template(),
    params: ti.template(),
    at: some_agents,
    block: ti.template(),
):
    """Reward the live ones of the first `block` agents, who felt a jerk, for how they drove; events not counted."""
    weights = AgentCol.CONDITION
    dt = params[Param.DT]
    lane = ti.Vector.zero(ti.i32, block)
    speed = ti.Vector.zero(ti.f32, block)
    accel = ti.Vector.zero(ti.f32, block)
    lat_accel = ti.Vector.zero(ti.f32, block)
    offset = ti.Vector.zero(ti.f32, block)
    heading = ti.Vector.zero(ti.f32, block)
    lane_width = ti.Vector.zero(ti.f32, block)
    limit = ti.Vector.zero(ti.f32, block)
    gained = ti.Vector.zero(ti.f32, block)
    comfort = ti.Vector.zero(ti.f32, block)
    lane_align = ti.Vector.zero(ti.f32, block)
    vel_align = ti.Vector.zero(ti.f32, block)
    lane_center = ti.Vector.zero(ti.f32, block)
    center_bias = ti.Vector.zero(ti.f32, block)
    velocity = ti.Vector.zero(ti.f32, block)
    reverse = ti.Vector.zero(ti.f32, block)
    timestep = ti.Vector.zero(ti.f32, block)
    overspeed = ti.Vector.zero(ti.f32, block)
    for k in range(block):
        row = row_of(at, ti.min(k, at[At.COUNT] - 1))
        lane[k] = slots[slot_of(at, ti.min(k, at[At.COUNT] - 1)) + SlotCol.LANE]
        speed[k] = agents[row + AgentCol.SPEED]
        accel[k] = agents[row + AgentCol.ACCEL]
        lat_accel[k] = agents[row + AgentCol.LAT_ACCEL]
        offset[k] = agents[row + AgentCol.LANE_OFFSET]
        heading[k] = agents[row + AgentCol.LANE_HEADING]
        lane_width[k] = agents[row + AgentCol.LANE_WIDTH]
        limit[k] = agents[row + AgentCol.LANE_LIMIT]
        gained[k] = agents[row + AgentCol.PROGRESS_STEP]
        comfort[k] = agents[row + weights + Condition.COMFORT]
        lane_align[k] = agents[row + weights + Condition.LANE_ALIGN]
        vel_align[k] = agents[row + weights + Condition.VEL_ALIGN]
        lane_center[k] = agents[row + weights + Condition.LANE_CENTER]
        center_bias[k] = agents[row + weights + Condition.CENTER_BIAS]
        velocity[k] = agents[row + weights + Condition.VELOCITY]
        reverse[k] = agents[row + weights + Condition.REVERSE]
        timestep[k] = agents[row + weights + Condition.TIMESTEP]
        overspeed[k] = agents[row + weights + Condition.OVERSPEED]
    total = ti.Vector.zero(ti.f32, block)
    progress = params[Param.PROGRESS]
    for k in range(block):
        cosine, _ = cosine_sine(heading[k])
        there = lane[k] >= 0
        bias = ti.select(there, center_bias[k], 0.0)
        align = lane_align_reward(lane_align[k], vel_align[k], heading[k], cosine, speed[k], dt)
        on_lane = ti.cast(there & (ti.abs(offset[k]) <= 0.5 * lane_width[k]), ti.i32)
        moving = ti.cast(ti.abs(speed[k]) > MOVING_MPS, ti.i32)
        total[k] = (
            lane_center_reward(lane_center[k], bias, offset[k], cosine, dt)
            + ti.select(there, align, 0.0)
            + velocity_reward(velocity[k], cosine, speed[k], on_lane, dt)
            + timestep_reward(timestep[k], moving, dt)
            + reverse_reward(reverse[k], speed[k], dt)
            + overspeed_reward(overspeed[k], speed[k], limit[k])
            + progress_reward(progress, gained[k])
            + comfort_reward(comfort[k], accel[k], lat_accel[k], jerk[k])
        )
    for k in range(block):
        if live[k] == 1:
            reward[at[At.FIRST] + k] = total[k]
