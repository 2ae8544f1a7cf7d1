"""The bicycle against its float64 twin and against closed forms."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from step_bank import Stage, plain_town
from terapixel_sim.layout import AgentCol
from terapixel_sim.reference import dynamics as twin

floats = lambda low, high: st.floats(low, high, width=32)  # noqa: E731
SCENE = Stage(plain_town(), 1, 1, infraction="ignore", time_limit_s=1e6, dt_s=0.25)


def drive(car: twin.Car, action: int, steps: int = 1) -> Stage:
    SCENE.world.zero_()
    SCENE.put(
        0, car.x, car.y, car.yaw, car.speed, length=car.length,
        ACCEL=car.accel, LAT_ACCEL=car.lat_accel, STEER=car.steer, gain_throttle=car.gain_throttle,
        gain_steer=car.gain_steer, gain_accel=car.gain_accel, gain_speed=car.gain_speed,
        DRIVEN=0.0, STOPPED=0.0, ROUTE_LENGTH=1e4, ROUTE_S=0.0,
    )  # fmt: skip
    for _ in range(steps):
        SCENE.step(torch.tensor([[action]]))
    return SCENE


cars = st.builds(
    twin.Car,
    x=floats(-20, 20),
    y=floats(-20, 20),
    yaw=floats(-3, 3),
    speed=floats(-2, 16),
    accel=floats(-5, 2),
    lat_accel=floats(-4, 4),
    steer=floats(-0.546875, 0.546875),
    length=floats(3, 8),
    gain_throttle=floats(0.8125, 1.25),
    gain_steer=floats(0.8125, 1.25),
    gain_accel=floats(0.75, 1.5),
    gain_speed=floats(0.8125, 1.5),
)


@settings(max_examples=150, deadline=None)
@given(car=cars, action=st.integers(0, 11))
def test_one_step_equals_the_twin(car, action):
    s = drive(car, action)
    after, distance, _ = twin.move(car, twin.jerk_of_action(action), 0.25)
    for name in ("x", "y", "speed", "accel", "lat_accel", "steer"):
        assert s.col(name.upper()) == pytest.approx(getattr(after, name), abs=2e-4), name
    assert abs(math.remainder(s.col("YAW") - after.yaw, 2 * math.pi)) < 1e-5
    assert s.col("DRIVEN") == pytest.approx(abs(distance), abs=1e-5)
    assert -math.pi < s.col("YAW") <= math.pi + 1e-6


def test_constant_steering_drives_a_circle():
    """The rear axle's radius is wheelbase / tan(steering angle) and it stays on that circle."""
    car = twin.Car(x=0.3 * 5.0, y=0.0, yaw=0.0, speed=5.0, length=5.0)
    radius = 12.0
    car = twin.Car(**{**car.__dict__, "lat_accel": 25.0 / radius, "steer": math.atan(3.0 / radius)})
    for steps in (1, 9, 40):
        s = drive(car, 7, steps)
        x, y = twin.rear_axle(twin.Car(s.col("X"), s.col("Y"), s.col("YAW"), 5.0, length=5.0))
        assert math.hypot(x, y - radius) == pytest.approx(radius, abs=1e-3)
        turned = 5.0 * 0.25 * steps / radius
        assert math.atan2(math.sin(turned), math.cos(turned)) == pytest.approx(s.col("YAW"), abs=1e-4)
    assert s.col("YAW_RATE") == pytest.approx(5.0 / radius, rel=1e-4)


def test_braking_stops_and_stays_stopped():
    s = drive(twin.Car(0, 0, 0, 3.0, accel=-5.0), 1, 12)
    assert s.col("SPEED") <= 0.0
    s = drive(twin.Car(0, 0, 0, 1.0, accel=-5.0), 7, 1)
    assert s.col("SPEED") == 0.0, "the speed is held at 0 for the step in which it would change sign"
    assert s.col("STOPPED") == pytest.approx(0.25)


@pytest.mark.parametrize(("gain", "top"), [(1.0, 20.0), (0.75, 15.0)])
def test_top_speed_is_held(gain, top):
    assert drive(twin.Car(-80, 0, 0, 14.0, gain_speed=gain), 10, 20).col("SPEED") == top


def test_action_tables():
    """3 * i_long + i_lat over (-15, -4, 0, 4) and (-4, 0, 4); the jerk is recorded before gains."""
    for action in range(12):
        s = drive(twin.Car(0, 0, 0, 5.0, gain_throttle=1.25), action)
        assert (s.col("JERK_LONG"), s.col("JERK_LAT")) == ((-15, -4, 0, 4)[action // 3], (-4, 0, 4)[action % 3])


def test_continuous_action_is_scaled_each_way():
    s = Stage(plain_town(), 1, 3, infraction="ignore", action="jerk_continuous")
    for a in range(3):
        s.put(a, 20.0 * a, 0.0, speed=5.0)
    s.step(torch.tensor([[[-1.0, -1.0], [0.5, 0.25], [-0.5, 0.0]]]))
    assert s.agents[0, :, AgentCol.JERK_LONG].tolist() == [-15.0, 2.0, -7.5]
    assert s.agents[0, :, AgentCol.JERK_LAT].tolist() == [-4.0, 1.0, 0.0]


def test_positive_lateral_jerk_turns_left():
    assert drive(twin.Car(0, 0, 0, 8.0), 8, 4).col("Y") > 0.05
    assert drive(twin.Car(0, 0, 0, 8.0), 6, 4).col("Y") < -0.05
