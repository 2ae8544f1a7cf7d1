"""Twin of `kernels/rewards.py`: the reward of one agent's step, float64."""

from __future__ import annotations

import math
from collections.abc import Mapping

FAR_M = 6.0


def terms(
    weights: Mapping[str, float],
    *,
    dt: float,
    speed: float,
    accel: float,
    lat_accel: float,
    jerk: float,
    on_lane: bool,
    offset: float,
    heading: float,
    lane_width: float,
    limit: float,
) -> dict[str, float]:
    """Every term of driving; the kernel's table says what they are.

    Args:
        weights: coefficients by the lower-case names of `layout.Condition`.
        dt: length of the step [s].
        speed: signed speed after the step, before an infraction stops the car [m/s].
        accel: longitudinal acceleration after the step [m/s2].
        lat_accel: lateral acceleration after the step [m/s2].
        jerk: magnitude of the mean jerk felt [m/s3].
        on_lane: whether there is a lane within reach.
        offset: lateral offset from that lane [m].
        heading: yaw minus that lane's heading [rad].
        lane_width: its width [m].
        limit: its speed limit [m/s].
    """
    cos = math.cos(heading)
    d = min(abs(offset - weights["center_bias"]), FAR_M)
    if not on_lane:
        d, cos = FAR_M, 1.0
    align = min(cos, 0.0) + weights["vel_align"] * min(speed * cos, 0.0) + 0.0025 * (1 - abs(heading) / (math.pi / 2))
    cruising = on_lane and abs(offset) <= lane_width / 2 and speed > 2.5
    return {
        "lane_center": -weights["lane_center"] * dt * ((d if cos > 0.5 else 0.0) - 0.05 / math.exp(d - 0.5)),
        "lane_align": weights["lane_align"] * dt * align if on_lane else 0.0,
        "velocity": weights["velocity"] * dt * max(cos, 0.0) if cruising else 0.0,
        "timestep": -weights["timestep"] * dt if abs(speed) > 0.1 else 0.0,
        "reverse": -weights["reverse"] * dt if speed < 0 else 0.0,
        "comfort": -weights["comfort"] * ((abs(accel) > 3) + (abs(lat_accel) > 3) + (jerk > 5)),
        "overspeed": -weights["overspeed"] if speed > limit + 2 else 0.0,
    }


def infraction(
    weights: Mapping[str, float], *, collided: bool, left_road: bool, speed: float, red_light: bool = False
) -> float:
    """The penalty of a step's infraction; leaving the road goes before a collision, that before a red light."""
    if left_road:
        return -weights["offroad"]
    if collided:
        return -(weights["collision"] + 0.1 * abs(speed))
    return -weights["stop_line"] if red_light else 0.0


def goal(value: float, *, last: bool, speed: float, goal_speed: float) -> float:
    """The reward of a goal; nothing at the last one when passed faster than the goal speed."""
    return 0.0 if last and speed > goal_speed else value
