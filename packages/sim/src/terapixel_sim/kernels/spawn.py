"""Starts episodes: which map, who stands where, how big and how fast, on which route, with which coefficients.

Every number is drawn from the counters of `random.py`, so a world's start depends on (seed, world id, episode) only.
The twin is `reference/spawn.py`.
"""

import math
from dataclasses import dataclass
from enum import IntEnum

import torch

from ..config import CONDITION_BOUNDS, SimConfig
from ..layout import AgentCol, Condition, Head, MapInt, SlotCol, Status, Stream, WorldCol
from ..runtime import ti
from .geometry import wrap
from .lane import lane_length, lane_limit, lane_point
from .lights import GREEN, light_colour, stop_ahead
from .locate import set_goal
from .random import key_agent, key_world, uniform
from .route import route_point
from .rows import At, row_of, slot_of, some_agents
from .walk import pick, walk

NUM_CONDITIONS = len(Condition)
FIRST_GAIN = int(Condition.GAIN_THROTTLE)
REDRAWS = 64
"""Random spawn slots tried before the next free one is taken; the jitter's numbers of Stream.SPAWN come after them."""
JITTER_ALONG_M, JITTER_ACROSS_M, JITTER_RAD = 0.4, 0.2, 0.03
"""Half ranges of an agent's displacement from its slot; slots are chosen with room for it."""
SIZE_NOISE = 0.3
"""How far a width may deviate from its length's place in the range, as a fraction of the range."""
CORRIDOR_M, CORRIDOR_SLOPE = 3.0, 0.15
"""Half width of the corridor of the speed rule at the car, and its growth with the distance ahead."""
BEND_M, BENDS, BEND_ACCEL = 4.0, 5, 2.5
"""Stretches of route that the speed rule looks at, how many, and the lateral acceleration [m/s2] that it allows in them."""
LIGHT_M = 200.0
"""How far ahead the speed rule minds a signal [m]."""
MAP_INTS = len(MapInt)
WHOLE_CHUNK = 512
"""Iterations that Taichi gives a CPU thread at least; a padded loop makes one world worth a thread."""


class SpawnCol(IntEnum):
    """Columns of `SpawnParams.values`."""

    LENGTH = 0  # low, high
    WIDTH = 2
    HEIGHT = 4
    SPEED = 6
    SPACING = 8
    CLEARANCE = 10
    BRAKE = 11
    NUM_GOALS = 12
    CHANGE_CHANCE = 13
    CHANGE_M = 14
    RANGES = 15  # 18 x (low, high)
    BOUNDS = 51  # 18 x (low, high)


@dataclass(frozen=True)
class SpawnParams:
    """What `reset` needs of a configuration, packed as f32 [87] in the order of `SpawnCol`."""

    values: torch.Tensor

    @classmethod
    def from_config(cls, config: SimConfig, device: torch.device | str) -> "SpawnParams":
        """Pack `config` for kernels on `device`."""
        spawn, route = config.spawn, config.route
        values = [*spawn.length_m, *spawn.width_m, *spawn.height_m, *spawn.speed_mps, *route.goal_spacing_m]
        values += [spawn.clearance_m, spawn.brake_mps2, route.num_goals, route.lane_change, route.lane_change_m]
        for pair in (*config.condition.ranges(), *CONDITION_BOUNDS.values()):
            values += pair
        return cls(torch.tensor(values, dtype=torch.float32, device=device))


@ti.func
def between(params: ti.template(), column: ti.template(), u: ti.f32) -> ti.f32:
    low = params[column]
    return low + u * (params[column + 1] - low)


@ti.func
def draw_coefficient(low: ti.f32, high: ti.f32, gain: ti.i32, coin: ti.f32, u: ti.f32) -> ti.f32:
    """U(low, high), or for a gain around 1 U(low, 1) or U(1, high), each with probability 1/2."""
    a = low
    b = high
    if gain == 1 and low < 1.0 and high > 1.0:
        if coin < 0.5:
            b = 1.0
        else:
            a = 1.0
    value = a + u * (b - a)
    return ti.select(value < b, value, b)


@ti.func
def unscale(scaled: ti.f32, low: ti.f32, high: ti.f32, gain: ti.i32) -> ti.f32:
    """The physical value that the policy sees as `scaled` in [-1, 1]."""
    t = 0.5 * (scaled + 1.0)
    value = low + t * (high - low)
    if gain == 1:
        value = low * ti.exp(t * ti.log(high / low))
    value = ti.select(value < high, value, high)
    return ti.select(value > low, value, low)


@ti.func
def take_slots(slots: ti.template(), at: some_agents, first: ti.i32, count: ti.i32, world_key: ti.u32):
    """Leave a distinct spawn slot for each agent in SlotCol.LANE."""
    for a in range(at[At.COUNT]):
        key = key_agent(world_key, a, Stream.SPAWN)
        slot = -1
        tries = 0
        taken = 1
        while taken == 1 and tries < REDRAWS + count:
            slot = ti.select(tries < REDRAWS, first + pick(uniform(key, tries), count), slot + 1)
            slot = ti.select(slot < first + count, slot, first)
            taken = 0
            for b in range(a):
                if slots[slot_of(at, b) + SlotCol.LANE] == slot:
                    taken = 1
            tries += 1
        slots[slot_of(at, a) + SlotCol.LANE] = slot


@ti.func
def place(
    agents: ti.template(),
    slots: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    params: ti.template(),
    at: some_agents,
    a: ti.i32,
    world_key: ti.u32,
):
    """Pose, size, speed and lane of an agent whose spawn slot stands in SlotCol.LANE, and its route."""
    row = row_of(at, a)
    slot = slot_of(at, a)
    chosen = slots[slot + SlotCol.LANE]
    lane = bank_i[bank_i[Head.SLOT_LANE] + chosen]
    slot_s = bank_f[bank_i[Head.F_SLOT_S] + chosen]
    key = key_agent(world_key, a, Stream.SPAWN)
    along = JITTER_ALONG_M * (2.0 * uniform(key, REDRAWS) - 1.0)
    across = JITTER_ACROSS_M * (2.0 * uniform(key, REDRAWS + 1) - 1.0)
    turn = JITTER_RAD * (2.0 * uniform(key, REDRAWS + 2) - 1.0)
    p = lane_point(bank_i, bank_f, lane, slot_s)
    x = p[0] + along * p[3] - across * p[4]
    y = p[1] + along * p[4] + across * p[3]
    yaw = wrap(ti.atan2(p[4], p[3]) + turn)

    length = lane_length(bank_i, bank_f, lane)
    s = ti.min(ti.max(slot_s + along, 0.0), length)
    q = lane_point(bank_i, bank_f, lane, s)
    offset = (y - q[1]) * q[3] - (x - q[0]) * q[4]
    heading = wrap(yaw - ti.atan2(q[4], q[3]))

    size = key_agent(world_key, a, Stream.SIZE)
    u = uniform(size, 0)
    v = ti.min(ti.max(u + SIZE_NOISE * (uniform(size, 1) - 0.5), 0.0), 1.0)
    speed = between(params, SpawnCol.SPEED, uniform(key_agent(world_key, a, Stream.SPEED), 0))
    limit = lane_limit(bank_i, bank_f, lane)

    for c in range(AgentCol.CONDITION):
        agents[row + c] = 0.0
    agents[row + AgentCol.X] = x
    agents[row + AgentCol.Y] = y
    agents[row + AgentCol.Z] = q[2]
    agents[row + AgentCol.YAW] = yaw
    agents[row + AgentCol.SPEED] = ti.min(speed, limit)
    agents[row + AgentCol.LENGTH] = between(params, SpawnCol.LENGTH, u)
    agents[row + AgentCol.WIDTH] = between(params, SpawnCol.WIDTH, v)
    agents[row + AgentCol.HEIGHT] = between(params, SpawnCol.HEIGHT, uniform(size, 2))
    agents[row + AgentCol.PREV_X] = x
    agents[row + AgentCol.PREV_Y] = y
    agents[row + AgentCol.PREV_Z] = q[2]
    agents[row + AgentCol.PREV_YAW] = yaw
    agents[row + AgentCol.LANE_OFFSET] = offset
    agents[row + AgentCol.LANE_HEADING] = heading
    agents[row + AgentCol.LANE_WIDTH] = q[5]
    agents[row + AgentCol.LANE_LIMIT] = limit
    agents[row + AgentCol.ROUTE_OFFSET] = offset
    agents[row + AgentCol.ROUTE_HEADING] = heading
    agents[row + AgentCol.GRADE] = q[6] * ti.cos(heading)

    for c in range(SlotCol.ROUTE):
        slots[slot + c] = 0
    slots[slot + SlotCol.STATUS] = Status.LIVE
    slots[slot + SlotCol.PREV_STATUS] = Status.LIVE
    slots[slot + SlotCol.LANE] = lane

    goals = params[SpawnCol.NUM_GOALS]
    target = goals * between(params, SpawnCol.SPACING, uniform(key_agent(world_key, a, Stream.GOALS), 0))
    chance = params[SpawnCol.CHANGE_CHANCE]
    change = params[SpawnCol.CHANGE_M]
    route_key = key_agent(world_key, a, Stream.ROUTE)
    capacity = (at[At.SLOT_COLUMNS] - SlotCol.ROUTE) // 2
    walk(agents, slots, bank_i, bank_f, row, slot, lane, s, capacity, target, chance, change, route_key)
    bend = bend_cap(agents, slots, bank_i, bank_f, row, slot, params[SpawnCol.BRAKE])
    agents[row + AgentCol.SPEED] = ti.min(agents[row + AgentCol.SPEED], bend)
    set_goal(agents, slots, bank_i, bank_f, row, slot, ti.cast(goals, ti.i32))


@ti.func
def bend_cap(
    agents: ti.template(),
    slots: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    row: ti.i32,
    slot: ti.i32,
    brake: ti.f32,
) -> ti.f32:
    """The speed from which braking slows an agent enough for every bend of the route that lies just ahead."""
    cap = ti.f32(math.inf)
    cos = ti.cos(agents[row + AgentCol.YAW])
    sin = ti.sin(agents[row + AgentCol.YAW])
    for k in range(BENDS):
        p = route_point(agents, slots, bank_i, bank_f, row, slot, BEND_M * ti.cast(k + 1, ti.f32))
        turn = ti.abs(ti.atan2(cos * p[4] - sin * p[3], cos * p[3] + sin * p[4]))
        cos = p[3]
        sin = p[4]
        fit = BEND_ACCEL * BEND_M / ti.max(turn, 1e-3) + 2.0 * brake * BEND_M * ti.cast(k, ti.f32)
        cap = ti.min(cap, ti.sqrt(fit))
    return cap


@ti.func
def set_condition(
    agents: ti.template(),
    condition: ti.template(),
    params: ti.template(),
    at: some_agents,
    a: ti.i32,
    world_key: ti.u32,
):
    """Physical coefficients: those the caller gave, and drawn ones where it gave NaN."""
    key = key_agent(world_key, a, Stream.CONDITION)
    row = row_of(at, a)
    for c in range(NUM_CONDITIONS):
        gain = ti.cast(c >= FIRST_GAIN, ti.i32)
        given = condition[(at[At.FIRST] + a) * NUM_CONDITIONS + c]
        value = unscale(given, params[SpawnCol.BOUNDS + 2 * c], params[SpawnCol.BOUNDS + 2 * c + 1], gain)
        if ti.math.isnan(given):
            low = params[SpawnCol.RANGES + 2 * c]
            high = params[SpawnCol.RANGES + 2 * c + 1]
            value = draw_coefficient(low, high, gain, uniform(key, 2 * c), uniform(key, 2 * c + 1))
        agents[row + AgentCol.CONDITION + c] = value


@ti.func
def speed_cap(agents: ti.template(), at: some_agents, a: ti.i32, brake: ti.f32, clearance: ti.f32) -> ti.f32:
    """The speed from which braking stops an agent short of everyone ahead of it, as if they stood still."""
    row = row_of(at, a)
    x = agents[row + AgentCol.X]
    y = agents[row + AgentCol.Y]
    length = agents[row + AgentCol.LENGTH]
    cos = ti.cos(agents[row + AgentCol.YAW])
    sin = ti.sin(agents[row + AgentCol.YAW])
    cap = ti.f32(math.inf)
    for b in range(at[At.COUNT]):
        other = row_of(at, b)
        dx = agents[other + AgentCol.X] - x
        dy = agents[other + AgentCol.Y] - y
        ahead = dx * cos + dy * sin
        aside = ti.abs(dy * cos - dx * sin)
        if b != a and ahead > 0.0 and aside < CORRIDOR_M + CORRIDOR_SLOPE * ahead:
            gap = ti.sqrt(dx * dx + dy * dy) - 0.5 * (length + agents[other + AgentCol.LENGTH])
            cap = ti.min(cap, ti.sqrt(2.0 * brake * ti.max(gap - clearance, 0.0)))
    return cap


@ti.func
def light_cap(
    agents: ti.template(),
    slots: ti.template(),
    world: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    row: ti.i32,
    slot: ti.i32,
    w: ti.i32,
    seed: ti.i32,
    brake: ti.f32,
) -> ti.f32:
    """The speed from which braking stops an agent's front short of the next stop line, unless its signal is green."""
    cap = ti.f32(math.inf)
    found = stop_ahead(agents, slots, bank_i, bank_f, row, slot, 0.0, LIGHT_M)
    if found.stop >= 0 and light_colour(bank_i, bank_f, world, w, seed, found.stop) != GREEN:
        cap = ti.sqrt(2.0 * brake * ti.max(found.s - 0.5 * agents[row + AgentCol.LENGTH], 0.0))
    return cap


@ti.kernel
def _reset(
    agents: ti.types.ndarray(ti.f32, 1),
    slots: ti.types.ndarray(ti.i32, 1),
    world: ti.types.ndarray(ti.i32, 2),
    mask: ti.types.ndarray(ti.u8, 1),
    condition: ti.types.ndarray(ti.f32, 1),
    bank_i: ti.types.ndarray(ti.i32, 1),
    bank_f: ti.types.ndarray(ti.f32, 1),
    params: ti.types.ndarray(ti.f32, 1),
    num_agents: ti.i32,
    columns: ti.i32,
    slot_columns: ti.i32,
    seed: ti.i32,
    pad: ti.template(),
):
    for i in range(world.shape[0] * pad):
        w = i // pad
        if i % pad == 0 and mask[w] != 0:
            identity = world[w, WorldCol.ID]
            episode = world[w, WorldCol.EPISODE] + 1
            chosen = (identity + episode) % bank_i[Head.NUM_MAPS]
            world[w, WorldCol.MAP] = chosen
            world[w, WorldCol.EPISODE] = episode
            world[w, WorldCol.STEP] = 0
            world[w, WorldCol.DONE] = 0
            record = bank_i[Head.MAPS] + chosen * MAP_INTS
            key = key_world(seed, identity, episode, 0)
            at = some_agents(w * num_agents, num_agents, columns, slot_columns)
            take_slots(slots, at, bank_i[record + MapInt.SLOT0], bank_i[record + MapInt.NUM_SLOTS], key)

    for i in range(world.shape[0] * num_agents):
        w = i // num_agents
        a = i % num_agents
        if mask[w] != 0:
            key = key_world(seed, world[w, WorldCol.ID], world[w, WorldCol.EPISODE], 0)
            at = some_agents(w * num_agents, num_agents, columns, slot_columns)
            place(agents, slots, bank_i, bank_f, params, at, a, key)
            set_condition(agents, condition, params, at, a, key)

    # a loop of its own, for it reads everyone's pose
    for i in range(world.shape[0] * num_agents):
        w = i // num_agents
        a = i % num_agents
        if mask[w] != 0:
            at = some_agents(w * num_agents, num_agents, columns, slot_columns)
            cap = speed_cap(agents, at, a, params[SpawnCol.BRAKE], params[SpawnCol.CLEARANCE])
            row = row_of(at, a)
            halt = light_cap(agents, slots, world, bank_i, bank_f, row, slot_of(at, a), w, seed, params[SpawnCol.BRAKE])
            agents[row + AgentCol.SPEED] = ti.min(agents[row + AgentCol.SPEED], ti.min(cap, halt))


def reset(
    agents: torch.Tensor,
    slots: torch.Tensor,
    world: torch.Tensor,
    mask: torch.Tensor,
    condition: torch.Tensor,
    bank_ints: torch.Tensor,
    bank_floats: torch.Tensor,
    params: SpawnParams,
    seed: int,
) -> None:
    """Start a new episode in every masked world, in place; the others stay bitwise as they are.

    Every slot gets a live agent: a spawn slot of the world's map drawn without replacement, a small displacement from
    it, a size (length and width correlated), a route, conditioning coefficients, and a speed from which braking at
    `SpawnConfig.brake_mps2` stops it short of everyone ahead and of a signal that is not green. World `w` plays map
    (id + episode) mod number of maps.

    Args:
        agents: f32 [W, A, AgentCol.ROUTE + 3 R].
        slots: i32 [W, A, SlotCol.ROUTE + 2 R].
        world: i32 [W, len(WorldCol)]; the ids are read, EPISODE grows by 1 (a new simulator holds -1).
        mask: u8 [W], 1 to restart.
        condition: f32 [W, A, 18] in [-1, 1] as the policy sees them, NaN where a coefficient is to be drawn.
        bank_ints: i32 [..], with a capacity of at least A spawn slots on every map.
        bank_floats: f32 [..].
        params: of the same configuration as the bank.
        seed: non-negative.
    """
    pad = WHOLE_CHUNK if agents.device.type == "cpu" else 1
    _reset(
        agents.view(-1),
        slots.view(-1),
        world,
        mask,
        condition.view(-1),
        bank_ints,
        bank_floats,
        params.values,
        agents.shape[1],
        agents.shape[2],
        slots.shape[2],
        seed,
        pad,
    )
