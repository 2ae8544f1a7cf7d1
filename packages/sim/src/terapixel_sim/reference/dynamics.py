"""Twin of `kernels/dynamics.py`: the jerk-driven kinematic bicycle, float64."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from .geometry import wrap


@dataclass(frozen=True)
class Car:
    """What the bicycle needs of an agent; fields as the columns of `layout.AgentCol`."""

    x: float
    y: float
    yaw: float
    speed: float
    accel: float = 0.0
    lat_accel: float = 0.0
    steer: float = 0.0
    length: float = 4.5
    gain_throttle: float = 1.0
    gain_steer: float = 1.0
    gain_accel: float = 1.0
    gain_speed: float = 1.0


def jerk_of_action(action: int) -> tuple[float, float]:
    """The commanded (longitudinal, lateral) jerk of a discrete action [m/s3]."""
    return (-15.0, -4.0, 0.0, 4.0)[action // 3], (-4.0, 0.0, 4.0)[action % 3]


def jerk_of_control(u_long: float, u_lat: float) -> tuple[float, float]:
    """The commanded jerks of a continuous action in [-1, 1] x [-1, 1] [m/s3]."""
    return u_long * (15.0 if u_long < 0 else 4.0), u_lat * 4.0


def rear_axle(car: Car) -> tuple[float, float]:
    """Position of the rear axle [m]: half a wheelbase, 0.3 of the length, behind the box centre."""
    return car.x - 0.3 * car.length * math.cos(car.yaw), car.y - 0.3 * car.length * math.sin(car.yaw)


def move(car: Car, jerk: tuple[float, float], dt: float) -> tuple[Car, float, float]:
    """Drive for one step.

    Args:
        car: the state before.
        jerk: commanded longitudinal and lateral jerk [m/s3].
        dt: length of the step [s].

    Returns:
        (the state after, signed distance driven by the rear axle [m], magnitude of the mean jerk felt [m/s3]).
    """
    wheelbase = 0.6 * car.length
    accel = _integrate(car.accel, car.gain_throttle * jerk[0] * dt, -5.0, 2.5 * car.gain_accel)
    lateral = _integrate(car.lat_accel, car.gain_steer * jerk[1] * dt, -4.0, 4.0)
    speed = _integrate(car.speed, 0.5 * (car.accel + accel) * dt, -2.0, 20.0 * car.gain_speed)
    target = math.atan(lateral / max(abs(speed), 1.0) ** 2 * wheelbase)
    steer = car.steer + min(max(target - car.steer, -0.6 * dt), 0.6 * dt)
    steer = min(max(steer, -0.55), 0.55)
    curvature = math.tan(steer) / wheelbase
    lat_accel = speed**2 * curvature
    distance = 0.5 * (car.speed + speed) * dt
    turn = distance * curvature
    x, y = rear_axle(car)
    if abs(turn) < 1e-9:
        x, y = x + distance * math.cos(car.yaw), y + distance * math.sin(car.yaw)
    else:  # about the centre of the arc
        x += (math.sin(car.yaw + turn) - math.sin(car.yaw)) / curvature
        y -= (math.cos(car.yaw + turn) - math.cos(car.yaw)) / curvature
    yaw = car.yaw + turn
    after = replace(
        car,
        x=x + 0.5 * wheelbase * math.cos(yaw),
        y=y + 0.5 * wheelbase * math.sin(yaw),
        yaw=wrap(yaw),
        speed=speed,
        accel=accel,
        lat_accel=lat_accel,
        steer=steer,
    )
    return after, distance, math.hypot(accel - car.accel, lat_accel - car.lat_accel) / dt


def _integrate(old: float, change: float, low: float, high: float) -> float:
    new = old + change
    if old * new < 0:
        return 0.0
    return min(max(new, low), high)
