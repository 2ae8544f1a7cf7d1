"""A driver of rules: the intelligent driver model along the route, steering by pure pursuit. Twin: `reference/idm.py`.

Acceleration after Treiber, Hennecke and Helbing 2000 ("Congested traffic states in empirical observations and microscopic
simulations", equations 1 to 3): a (1 - (v / v0)^4 - (s* / s)^2) with s* = s0 + v T + v dv / (2 sqrt(a b)). The leader is
the first agent whose box reaches into the corridor along the route, however that bends, or a stop line that is red, or
yellow where there is room to stop. The desired speed v0 is the lane's limit, and less before bends. It knows no right of
way: crossing traffic is seen only once it is in the corridor.

Steering after Coulter 1992 ("Implementation of the pure pursuit path tracking algorithm"): the rear axle takes the arc that
leads to a point of the route some way ahead.
"""

import math
from enum import IntEnum

import torch

from ..layout import AgentCol, Condition, Head, LightColour, MapFloat, SlotCol, Status, WorldCol
from ..runtime import ti
from .dynamics import ACCEL_MAX, ACCEL_MIN, JERK_BRAKE, JERK_STEP, LAT_ACCEL_MAX, WHEELBASE
from .lane import LEVEL_M, MAP_FLOATS
from .lights import light_colour, stop_ahead
from .route import route_point
from .rows import At, row_of, slot_of, some_agents

ACCEL, BRAKE = 2.0, 3.0
"""a and b [m/s2]."""
ROOT_AB = math.sqrt(ACCEL * BRAKE)
GAP_M, HEADWAY_S = 2.0, 1.5
"""s0 and T."""
STEP_M = 2.0
"""Between the points of the route that are looked at."""
LOOK_S, LOOK_M = 5.0, (20.0, 80.0)
"""How far it looks along the route: as far as it drives in this time, within these bounds."""
BESIDE_M = 0.3
"""Room it wants on each side."""
BEND_ACCEL = 1.2
"""Lateral acceleration that it allows itself [m/s2]."""
PURSUIT_S, PURSUIT_M = 0.6, (3.0, 15.0)
"""The point pursued: as far ahead as it drives in this time, within these bounds."""
FREE_M = 1e4
"""Gap to a leader that is not there."""


class Leader(IntEnum):
    """What `leader_of` returns."""

    GAP = 0  # from bumper to bumper [m]
    SPEED = 1  # its speed along the route [m/s]
    DESIRED = 2  # the speed that the road allows [m/s]


leader3 = ti.types.vector(3, ti.f32)


@ti.func
def idm_accel(v: ti.f32, v0: ti.f32, gap: ti.f32, leader_speed: ti.f32) -> ti.f32:
    """The model's acceleration, held to what a car can do [m/s2]."""
    wanted = GAP_M + ti.max(0.0, v * HEADWAY_S + v * (v - leader_speed) / (2.0 * ROOT_AB))
    free = v / ti.max(v0, 0.1)
    near = wanted / ti.max(gap, 0.1)
    return ti.min(ti.max(ACCEL * (1.0 - free * free * free * free - near * near), ACCEL_MIN), ACCEL_MAX)


@ti.func
def leader_of(
    agents: ti.template(),
    slots: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    at: some_agents,
    a: ti.i32,
) -> leader3:
    """The first agent on an agent's route ahead, and the speed that the bends allow."""
    row = row_of(at, a)
    slot = slot_of(at, a)
    v = ti.max(agents[row + AgentCol.SPEED], 0.0)
    half_width = 0.5 * agents[row + AgentCol.WIDTH] + BESIDE_M
    half_length = 0.5 * agents[row + AgentCol.LENGTH]
    far = ti.min(ti.max(LOOK_S * v, LOOK_M[0]), LOOK_M[1])
    s = agents[row + AgentCol.ROUTE_S]
    p = route_point(agents, slots, bank_i, bank_f, row, slot, s)
    out = leader3(FREE_M, 0.0, p[6])
    ahead = ti.f32(0.0)
    while ahead < far:
        q = route_point(agents, slots, bank_i, bank_f, row, slot, s + ahead + STEP_M)
        turn = ti.abs(ti.atan2(p[3] * q[4] - p[4] * q[3], p[3] * q[3] + p[4] * q[4]))
        # slow enough there, and braking at b on the way
        bend = ti.min(BEND_ACCEL * STEP_M / ti.max(turn, 1e-4), q[6] * q[6])
        out[Leader.DESIRED] = ti.min(out[Leader.DESIRED], ti.sqrt(bend + 2.0 * BRAKE * ahead))
        for b in range(at[At.COUNT]):
            status = slots[slot_of(at, b) + SlotCol.STATUS]
            if b != a and (status == Status.LIVE or status == Status.STOPPED):
                other = row_of(at, b)
                dx = agents[other + AgentCol.X] - p[0]
                dy = agents[other + AgentCol.Y] - p[1]
                along = dx * p[3] + dy * p[4]
                aside = ti.abs(dy * p[3] - dx * p[4])
                yaw = agents[other + AgentCol.YAW]
                c = ti.cos(yaw) * p[3] + ti.sin(yaw) * p[4]
                n = ti.sin(yaw) * p[3] - ti.cos(yaw) * p[4]
                l = 0.5 * agents[other + AgentCol.LENGTH]
                w = 0.5 * agents[other + AgentCol.WIDTH]
                level = ti.abs(agents[other + AgentCol.Z] - p[2]) < LEVEL_M
                if level and along > 0.0 and along <= STEP_M and aside < half_width + l * ti.abs(n) + w * ti.abs(c):
                    gap = ahead + along - half_length - l * ti.abs(c) - w * ti.abs(n)
                    if gap < out[Leader.GAP]:
                        out[Leader.GAP] = gap
                        out[Leader.SPEED] = agents[other + AgentCol.SPEED] * c
        p = q
        ahead += STEP_M
    return out


@ti.func
def curvature_to(x: ti.f32, y: ti.f32) -> ti.f32:
    """Curvature of the arc from the rear axle, heading along x, to a point in its frame."""
    return 2.0 * y / ti.max(x * x + y * y, 1e-3)


@ti.kernel
def _idm(
    agents: ti.types.ndarray(ti.f32, 1),
    slots: ti.types.ndarray(ti.i32, 1),
    world: ti.types.ndarray(ti.i32, 2),
    bank_i: ti.types.ndarray(ti.i32, 1),
    bank_f: ti.types.ndarray(ti.f32, 1),
    control: ti.types.ndarray(ti.f32, 2),
    num_agents: ti.i32,
    columns: ti.i32,
    slot_columns: ti.i32,
    seed: ti.i32,
):
    for n in range(world.shape[0] * num_agents):
        w = n // num_agents
        a = n % num_agents
        at = some_agents(w * num_agents, num_agents, columns, slot_columns)
        row = row_of(at, a)
        slot = slot_of(at, a)
        control[n, 0] = 0.0
        control[n, 1] = 0.0
        if slots[slot + SlotCol.STATUS] == Status.LIVE:
            v = agents[row + AgentCol.SPEED]
            s = agents[row + AgentCol.ROUTE_S]
            dt = bank_f[bank_i[Head.F_MAPS] + world[w, WorldCol.MAP] * MAP_FLOATS + MapFloat.DT]
            leader = leader_of(agents, slots, bank_i, bank_f, at, a)
            accel = idm_accel(v, leader[Leader.DESIRED], leader[Leader.GAP], leader[Leader.SPEED])
            found = stop_ahead(agents, slots, bank_i, bank_f, row, slot, s, s + LOOK_M[1])
            if found.stop >= 0:
                colour = light_colour(bank_i, bank_f, world, w, seed, found.stop)
                gap = found.s - s - 0.5 * agents[row + AgentCol.LENGTH]
                stops = colour == LightColour.YELLOW and gap >= v * v / (2.0 * BRAKE)
                if colour == LightColour.RED or stops:
                    accel = ti.min(accel, idm_accel(v, leader[Leader.DESIRED], gap, 0.0))
            if v < 0.05 and accel < 0.0:
                accel = 0.0

            reach = ti.min(ti.max(PURSUIT_S * v, PURSUIT_M[0]), PURSUIT_M[1])
            p = route_point(agents, slots, bank_i, bank_f, row, slot, s + reach)
            c = ti.cos(agents[row + AgentCol.YAW])
            sine = ti.sin(agents[row + AgentCol.YAW])
            dx = p[0] - agents[row + AgentCol.X]
            dy = p[1] - agents[row + AgentCol.Y]
            axle = 0.5 * WHEELBASE * agents[row + AgentCol.LENGTH]
            pace = ti.max(ti.abs(v), 1.0)
            lateral = curvature_to(dx * c + dy * sine + axle, dy * c - dx * sine) * pace * pace
            lateral = ti.min(ti.max(lateral, -LAT_ACCEL_MAX), LAT_ACCEL_MAX)

            weights = row + AgentCol.CONDITION
            j_long = (accel - agents[row + AgentCol.ACCEL]) / (dt * agents[weights + Condition.GAIN_THROTTLE])
            j_lat = (lateral - agents[row + AgentCol.LAT_ACCEL]) / (dt * agents[weights + Condition.GAIN_STEER])
            control[n, 0] = ti.min(ti.max(j_long / ti.select(j_long < 0.0, JERK_BRAKE, JERK_STEP), -1.0), 1.0)
            control[n, 1] = ti.min(ti.max(j_lat / JERK_STEP, -1.0), 1.0)


def idm(
    agents: torch.Tensor,
    slots: torch.Tensor,
    world: torch.Tensor,
    bank_ints: torch.Tensor,
    bank_floats: torch.Tensor,
    seed: int,
) -> torch.Tensor:
    """What the driver of rules does in every live slot.

    Args:
        agents: f32 [W, A, ..]; the state is not changed.
        slots: i32 [W, A, ..].
        world: i32 [W, ..].
        bank_ints: the map bank.
        bank_floats: likewise.
        seed: of the lights.

    Returns:
        Continuous jerk actions f32 [W, A, 2] in [-1, 1]; 0 for slots that are not live.
    """
    control = torch.empty(agents.shape[0] * agents.shape[1], 2, device=agents.device)
    _idm(
        agents.view(-1),
        slots.view(-1),
        world,
        bank_ints,
        bank_floats,
        control,
        agents.shape[1],
        agents.shape[2],
        slots.shape[2],
        seed,
    )
    return control.view(*agents.shape[:2], 2)
