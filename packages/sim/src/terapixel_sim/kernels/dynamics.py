"""How a car moves: a kinematic bicycle driven by jerk. Twin: `reference/dynamics.py`.

Longitudinal and lateral accelerations integrate the commanded jerks; the lateral one asks for a curvature, which the
steering follows at its own pace. The rear axle moves along an exact arc; the agent's pose is the box centre, half a
wheelbase ahead of it. Equations as published for the Gigaflow simulator (Cusumano-Towner et al. 2025, "Robust
autonomy emerges from self-play", appendix).
"""

from ..layout import AgentCol, Condition
from ..runtime import ti
from .geometry import arctan2, cosine_sine, wrap
from .rows import At, row_of, some_agents

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
def bicycle(
    x: ti.f32,
    y: ti.f32,
    yaw: ti.f32,
    speed: ti.f32,
    accel: ti.f32,
    lat_accel: ti.f32,
    steer: ti.f32,
    length: ti.f32,
    gain_throttle: ti.f32,
    gain_steer: ti.f32,
    gain_accel: ti.f32,
    gain_speed: ti.f32,
    j_long: ti.f32,
    j_lat: ti.f32,
    dt: ti.f32,
):
    """Drive a car for one step; free of branches, so that many cars are driven side by side.

    Returns:
        (x, y, yaw, speed, accel, lat_accel, steer, yaw rate, signed distance driven by the rear axle [m], magnitude of
        the mean jerk felt [m/s3]: that of the change of both accelerations after gains and limits, not the commanded
        one).
    """
    wheelbase = WHEELBASE * length
    new_accel = integrate(accel, gain_throttle * j_long * dt, ACCEL_MIN, ACCEL_MAX * gain_accel)
    lateral = integrate(lat_accel, gain_steer * j_lat * dt, -LAT_ACCEL_MAX, LAT_ACCEL_MAX)
    new_speed = integrate(speed, 0.5 * (accel + new_accel) * dt, SPEED_MIN, SPEED_MAX * gain_speed)
    # below 1 m/s a lateral acceleration asks for no sharper a curve than at 1 m/s
    floor = ti.abs(new_speed)
    floor = ti.select(floor > 1.0, floor, 1.0)
    turn = clip(arctan2(lateral * wheelbase, floor * floor) - steer, STEER_RATE * dt)
    new_steer = clip(steer + turn, STEER_MAX)
    cos_steer, sin_steer = cosine_sine(new_steer)
    curvature = sin_steer / (cos_steer * wheelbase)
    new_lat_accel = new_speed * new_speed * curvature
    distance = 0.5 * (speed + new_speed) * dt
    yaw_change = distance * curvature

    # the chord of an arc of length d that turns by 2 h is d sin(h) / h long and points at the mean heading
    h = 0.5 * yaw_change
    _, sin_h = cosine_sine(h)
    sharp = ti.abs(h) > 0.01
    chord = distance * ti.select(sharp, sin_h / ti.select(sharp, h, 1.0), 1.0 - h * h / 6.0)
    axle = 0.5 * wheelbase
    # the axle's mean heading; the line from it to the centre turns by 2 sin(h) across that
    c, s = cosine_sine(yaw + h)
    change_long = new_accel - accel
    change_lat = new_lat_accel - lat_accel
    return (
        x + chord * c - axle * 2.0 * sin_h * s,
        y + chord * s + axle * 2.0 * sin_h * c,
        wrap(yaw + yaw_change),
        new_speed,
        new_accel,
        new_lat_accel,
        new_steer,
        yaw_change / dt,
        distance,
        ti.sqrt(change_long * change_long + change_lat * change_lat) / dt,
    )


@ti.func
def clip(value: ti.f32, limit: ti.f32) -> ti.f32:
    """`value` held in [-limit, limit]."""
    value = ti.select(value > -limit, value, -limit)
    return ti.select(value < limit, value, limit)


@ti.func
def move(
    agents: ti.template(),
    action: ti.template(),
    live: ti.template(),
    at: some_agents,
    dt: ti.f32,
    block: ti.template(),
):
    """Drive the live ones of the first `block` agents for one step.

    Returns:
        (distance driven [m], jerk felt [m/s3]), both as in `bicycle`, one of each for every agent.
    """
    gain = AgentCol.CONDITION
    x = ti.Vector.zero(ti.f32, block)
    y = ti.Vector.zero(ti.f32, block)
    yaw = ti.Vector.zero(ti.f32, block)
    speed = ti.Vector.zero(ti.f32, block)
    accel = ti.Vector.zero(ti.f32, block)
    lat_accel = ti.Vector.zero(ti.f32, block)
    steer = ti.Vector.zero(ti.f32, block)
    length = ti.Vector.zero(ti.f32, block)
    gain_throttle = ti.Vector.zero(ti.f32, block)
    gain_steer = ti.Vector.zero(ti.f32, block)
    gain_accel = ti.Vector.zero(ti.f32, block)
    gain_speed = ti.Vector.zero(ti.f32, block)
    j_long = ti.Vector.zero(ti.f32, block)
    j_lat = ti.Vector.zero(ti.f32, block)
    choice = ti.Vector.zero(ti.i32, block)
    for k in range(block):
        row = row_of(at, ti.min(k, at[At.COUNT] - 1))
        x[k] = agents[row + AgentCol.X]
        y[k] = agents[row + AgentCol.Y]
        yaw[k] = agents[row + AgentCol.YAW]
        speed[k] = agents[row + AgentCol.SPEED]
        accel[k] = agents[row + AgentCol.ACCEL]
        lat_accel[k] = agents[row + AgentCol.LAT_ACCEL]
        steer[k] = agents[row + AgentCol.STEER]
        length[k] = agents[row + AgentCol.LENGTH]
        gain_throttle[k] = agents[row + gain + Condition.GAIN_THROTTLE]
        gain_steer[k] = agents[row + gain + Condition.GAIN_STEER]
        gain_accel[k] = agents[row + gain + Condition.GAIN_ACCEL]
        gain_speed[k] = agents[row + gain + Condition.GAIN_SPEED]
        n = at[At.FIRST] + ti.min(k, at[At.COUNT] - 1)
        if ti.static(len(action.shape) == 1):
            choice[k] = ti.cast(action[n], ti.i32)
        else:
            j_long[k], j_lat[k] = jerk_of_control(action[n, 0], action[n, 1])
    yaw_rate = ti.Vector.zero(ti.f32, block)
    distance = ti.Vector.zero(ti.f32, block)
    jerk = ti.Vector.zero(ti.f32, block)
    for k in range(block):
        if ti.static(len(action.shape) == 1):
            j_long[k], j_lat[k] = jerk_of_action(choice[k])
        x[k], y[k], yaw[k], speed[k], accel[k], lat_accel[k], steer[k], yaw_rate[k], distance[k], jerk[k] = bicycle(
            x[k],
            y[k],
            yaw[k],
            speed[k],
            accel[k],
            lat_accel[k],
            steer[k],
            length[k],
            gain_throttle[k],
            gain_steer[k],
            gain_accel[k],
            gain_speed[k],
            j_long[k],
            j_lat[k],
            dt,
        )
    for k in range(block):
        if live[k] == 1:
            row = row_of(at, k)
            agents[row + AgentCol.X] = x[k]
            agents[row + AgentCol.Y] = y[k]
            agents[row + AgentCol.YAW] = yaw[k]
            agents[row + AgentCol.SPEED] = speed[k]
            agents[row + AgentCol.ACCEL] = accel[k]
            agents[row + AgentCol.LAT_ACCEL] = lat_accel[k]
            agents[row + AgentCol.STEER] = steer[k]
            agents[row + AgentCol.YAW_RATE] = yaw_rate[k]
            agents[row + AgentCol.JERK_LONG] = j_long[k]
            agents[row + AgentCol.JERK_LAT] = j_lat[k]
            agents[row + AgentCol.DRIVEN] = agents[row + AgentCol.DRIVEN] + ti.abs(distance[k])
            stopped = agents[row + AgentCol.STOPPED] + dt
            agents[row + AgentCol.STOPPED] = ti.select(ti.abs(speed[k]) > MOVING_MPS, 0.0, stopped)
    return distance, jerk
