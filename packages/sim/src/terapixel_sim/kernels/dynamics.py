"""How a car moves: a kinematic bicycle driven by jerk. Twin: `reference/dynamics.py`.

Longitudinal and lateral accelerations integrate the commanded jerks; the lateral one asks for a curvature, which the
steering follows at its own pace. The rear axle moves along an exact arc; the agent's pose is the box centre, half a
wheelbase ahead of it. Equations as published for the Gigaflow simulator (Cusumano-Towner et al. 2025, "Robust
autonomy emerges from self-play", appendix).
"""

from ..layout import AgentCol, Condition
from ..runtime import ti
from .geometry import arctan2, cosine_sine, wrap

WHEELBASE = 0.6
"""Wheelbase as a part of the length."""
JERK_BRAKE = 15.0
JERK_STEP = 4.0
ACCEL_MIN = -5.0
ACCEL_MAX = 2.5
LAT_ACCEL_MAX = 4.0
SPEED_MIN = -2.0
SPEED_MAX = 20.0
STEER_MAX = 0.55
STEER_RATE = 0.6
MOVING_MPS = 0.1
"""An agent faster than this is moving."""


@ti.func
def integrate(old: ti.f32, change: ti.f32, low: ti.f32, high: ti.f32) -> ti.f32:
    """`old + change` held in [low, high], and 0 where it would change sign (a stop is a state, not a moment)."""
    new = old + change
    # by comparison, since the product of two small numbers underflows
    new = ti.select((old > 0.0) & (new < 0.0) | (old < 0.0) & (new > 0.0), 0.0, new)
    new = ti.select(new > low, new, low)
    return ti.select(new < high, new, high)


@ti.func
def jerk_of_action(action: ti.i32):
    """The commanded jerks of a discrete action 3 * i_long + i_lat [m/s3]: (-15, -4, 0, 4) and (-4, 0, 4)."""
    i_long = action // 3
    i_lat = action % 3
    j_long = ti.select(i_long == 0, -JERK_BRAKE, JERK_STEP * ti.cast(i_long - 2, ti.f32))
    return j_long, JERK_STEP * ti.cast(i_lat - 1, ti.f32)


@ti.func
def jerk_of_control(u_long: ti.f32, u_lat: ti.f32):
    """The commanded jerks of a continuous action in [-1, 1] x [-1, 1] [m/s3]."""
    return u_long * ti.select(u_long < 0.0, JERK_BRAKE, JERK_STEP), u_lat * JERK_STEP


@ti.func
def move(agents: ti.template(), w: ti.i32, a: ti.i32, j_long: ti.f32, j_lat: ti.f32, dt: ti.f32):
    """Drive an agent for one step.

    Returns:
        (signed distance driven by the rear axle [m], magnitude of the mean jerk felt [m/s3]: that of the change of both
        accelerations after gains and limits, not the commanded one).
    """
    gain = AgentCol.CONDITION
    speed = agents[w, a, AgentCol.SPEED]
    accel = agents[w, a, AgentCol.ACCEL]
    lat_accel = agents[w, a, AgentCol.LAT_ACCEL]
    steer = agents[w, a, AgentCol.STEER]
    yaw = agents[w, a, AgentCol.YAW]
    wheelbase = WHEELBASE * agents[w, a, AgentCol.LENGTH]

    new_accel = integrate(
        accel,
        agents[w, a, gain + Condition.GAIN_THROTTLE] * j_long * dt,
        ACCEL_MIN,
        ACCEL_MAX * agents[w, a, gain + Condition.GAIN_ACCEL],
    )
    lateral = integrate(
        lat_accel, agents[w, a, gain + Condition.GAIN_STEER] * j_lat * dt, -LAT_ACCEL_MAX, LAT_ACCEL_MAX
    )
    new_speed = integrate(
        speed, 0.5 * (accel + new_accel) * dt, SPEED_MIN, SPEED_MAX * agents[w, a, gain + Condition.GAIN_SPEED]
    )
    floor = ti.max(
        ti.abs(new_speed), 1.0
    )  # below 1 m/s a lateral acceleration asks for no sharper a curve than at 1 m/s
    turn = arctan2(lateral * wheelbase, floor * floor) - steer
    turn = ti.max(ti.min(turn, STEER_RATE * dt), -STEER_RATE * dt)
    steer = ti.max(ti.min(steer + turn, STEER_MAX), -STEER_MAX)
    cos_steer, sin_steer = cosine_sine(steer)
    curvature = sin_steer / (cos_steer * wheelbase)
    new_lat_accel = new_speed * new_speed * curvature
    distance = 0.5 * (speed + new_speed) * dt
    yaw_change = distance * curvature

    # the chord of an arc of length d that turns by 2 h is d sin(h) / h long and points at the mean heading
    h = 0.5 * yaw_change
    _, sin_h = cosine_sine(h)
    chord = distance * (1.0 - h * h / 6.0)
    if ti.abs(h) > 0.01:
        chord = distance * sin_h / h
    axle = 0.5 * wheelbase
    x = agents[w, a, AgentCol.X]
    y = agents[w, a, AgentCol.Y]
    # the axle's mean heading; the line from it to the centre turns by 2 sin(h) across that
    c, s = cosine_sine(yaw + h)
    agents[w, a, AgentCol.X] = x + chord * c - axle * 2.0 * sin_h * s
    agents[w, a, AgentCol.Y] = y + chord * s + axle * 2.0 * sin_h * c
    agents[w, a, AgentCol.YAW] = wrap(yaw + yaw_change)
    agents[w, a, AgentCol.SPEED] = new_speed
    agents[w, a, AgentCol.ACCEL] = new_accel
    agents[w, a, AgentCol.LAT_ACCEL] = new_lat_accel
    agents[w, a, AgentCol.STEER] = steer
    agents[w, a, AgentCol.YAW_RATE] = yaw_change / dt
    agents[w, a, AgentCol.JERK_LONG] = j_long
    agents[w, a, AgentCol.JERK_LAT] = j_lat
    agents[w, a, AgentCol.DRIVEN] = agents[w, a, AgentCol.DRIVEN] + ti.abs(distance)
    agents[w, a, AgentCol.STOPPED] = ti.select(ti.abs(new_speed) > MOVING_MPS, 0.0, agents[w, a, AgentCol.STOPPED] + dt)
    change_long = new_accel - accel
    change_lat = new_lat_accel - lat_accel
    return distance, ti.sqrt(change_long * change_long + change_lat * change_lat) / dt
