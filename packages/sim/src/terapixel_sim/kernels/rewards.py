"""Terms of the reward, one function each. Twin: `reference/rewards.py`.

Equations as published for the Gigaflow simulator (Cusumano-Towner et al. 2025) and its open re-implementations; alpha
is the agent's own coefficient (`layout.Condition`), th the heading error and x the offset from the lane, v the signed
speed.

| term | a step | scales with dt |
|---|---|---|
| collision | -(alpha + 0.1 abs(v)) | no: an event |
| offroad | -alpha | no: an event |
| red light | -alpha (stop_line) | no: an event |
| goal | RewardConfig.goal; 0 at the last goal faster than the goal speed | no: an event |
| progress | RewardConfig.progress times the metres gained | through the metres |
| lane_align | alpha dt (min(cos th, 0) + a_vel min(v cos th, 0) + 0.0025 (1 - abs(th) / (pi/2))) | yes |
| lane_center | -alpha dt ([cos th > 0.5] d - 0.05 / exp(d - 0.5)), d = min(abs(x - bias), 6 m) | yes |
| velocity | alpha dt max(cos th, 0) on a lane, if v > 2.5 m/s | yes |
| timestep | -alpha dt, when moving | yes |
| reverse | -alpha dt, if v < 0 | yes |
| comfort | -alpha ([abs(a_long) > 3] + [abs(a_lat) > 3] + [abs(jerk) > 5]) | no: counts steps |
| overspeed | -alpha, if v > limit + 2 m/s | no: counts steps |

The offset counts as 6 m where there is no lane within reach, so that leaving the lanes is never cheaper than staying.
"""

from ..runtime import ti
from .geometry import exponential

HALF_PI = 1.5707963267948966
FAR_M = 6.0
"""Lane offset from which the centre term grows no more; also what an agent without a lane is given."""
COMFORT_MPS2 = 3.0
COMFORT_MPS3 = 5.0
CRUISE_MPS = 2.5
OVERSPEED_MPS = 2.0


@ti.func
def collision_reward(weight: ti.f32, speed: ti.f32) -> ti.f32:
    return -(weight + 0.1 * ti.abs(speed))


@ti.func
def offroad_reward(weight: ti.f32) -> ti.f32:
    return -weight


@ti.func
def red_light_reward(weight: ti.f32) -> ti.f32:
    return -weight


@ti.func
def goal_reward(goal: ti.f32, last: ti.i32, speed: ti.f32, goal_speed: ti.f32) -> ti.f32:
    return ti.select(last == 1 and speed > goal_speed, 0.0, goal)


@ti.func
def lane_align_reward(
    weight: ti.f32, vel_align: ti.f32, heading: ti.f32, cosine: ti.f32, speed: ti.f32, dt: ti.f32
) -> ti.f32:
    along = speed * cosine
    against = ti.select(cosine < 0.0, cosine, 0.0) + vel_align * ti.select(along < 0.0, along, 0.0)
    return weight * dt * (against + 0.0025 * (1.0 - ti.abs(heading) / HALF_PI))


@ti.func
def lane_center_reward(weight: ti.f32, bias: ti.f32, offset: ti.f32, cosine: ti.f32, dt: ti.f32) -> ti.f32:
    d = ti.abs(offset - bias)
    d = ti.select(d < FAR_M, d, FAR_M)
    return -weight * dt * (ti.select(cosine > 0.5, d, 0.0) - 0.05 * exponential(0.5 - d))


@ti.func
def comfort_reward(weight: ti.f32, accel: ti.f32, lat_accel: ti.f32, jerk: ti.f32) -> ti.f32:
    count = ti.select(ti.abs(accel) > COMFORT_MPS2, 1.0, 0.0)
    count += ti.select(ti.abs(lat_accel) > COMFORT_MPS2, 1.0, 0.0)
    count += ti.select(jerk > COMFORT_MPS3, 1.0, 0.0)
    return -weight * count


@ti.func
def velocity_reward(weight: ti.f32, cosine: ti.f32, speed: ti.f32, on_lane: ti.i32, dt: ti.f32) -> ti.f32:
    return ti.select((on_lane == 1) & (speed > CRUISE_MPS), weight * dt * ti.select(cosine > 0.0, cosine, 0.0), 0.0)


@ti.func
def timestep_reward(weight: ti.f32, moving: ti.i32, dt: ti.f32) -> ti.f32:
    return ti.select(moving == 1, -weight * dt, 0.0)


@ti.func
def reverse_reward(weight: ti.f32, speed: ti.f32, dt: ti.f32) -> ti.f32:
    return ti.select(speed < 0.0, -weight * dt, 0.0)


@ti.func
def overspeed_reward(weight: ti.f32, speed: ti.f32, limit: ti.f32) -> ti.f32:
    return ti.select(speed > limit + OVERSPEED_MPS, -weight, 0.0)


@ti.func
def progress_reward(weight: ti.f32, gained: ti.f32) -> ti.f32:
    return weight * gained
