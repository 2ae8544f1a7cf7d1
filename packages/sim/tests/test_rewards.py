"""Each reward term alone, with values worked out by hand, and the whole against the twin."""

import math

import pytest
import torch
from step_bank import Stage, plain_town
from terapixel_sim.config import CONDITION_BOUNDS, RewardConfig, RouteConfig
from terapixel_sim.layout import AgentCol, Condition, Event, Status
from terapixel_sim.reference import rewards as twin

DT = 0.25
KEEP = 7
NO_GOAL = RewardConfig(goal=0.0)


def reward(y=0.0, yaw=0.0, speed=0.0, action=KEEP, rewards=NO_GOAL, stage=None, **cols):
    s = stage or Stage(plain_town(), 1, 1, infraction="ignore", rewards=rewards)
    s.world.zero_()
    s.put(0, 0.0, y, yaw, speed, **cols)
    s.step(torch.tensor([[action]]))
    return float(s.reward[0, 0]), s


def test_nothing_is_nothing():
    assert reward(speed=5.0)[0] == 0.0


@pytest.mark.parametrize(
    ("yaw", "speed", "expected"),
    [
        (0.0, 8.0, 0.0025),
        (math.pi / 4, 0.0, 0.0025 * 0.5),
        (math.pi, 0.0, -1.0 - 0.0025),
        (math.pi, 4.0, -1.0 - 0.5 * 4.0 - 0.0025),
        (math.pi, -1.0, -1.0 - 0.0025),  # backing along the lane's direction is not driving against it
    ],
)
def test_lane_align(yaw, speed, expected):
    assert reward(yaw=yaw, speed=speed, lane_align=0.02, vel_align=0.5)[0] == pytest.approx(
        0.02 * DT * expected, rel=1e-4
    )


@pytest.mark.parametrize(
    ("y", "yaw", "bias", "expected"),
    [
        (0.0, 0.0, 0.0, 0.05 * math.exp(0.5)),
        (1.0, 0.0, 0.0, -(1.0 - 0.05 * math.exp(-0.5))),
        (1.0, 0.0, 0.5, -(0.5 - 0.05)),
        (1.0, math.pi / 2, 0.0, 0.05 * math.exp(-0.5)),  # across the lane the offset is not charged
        (7.0, 0.0, 0.0, -(6.0 - 0.05 * math.exp(-5.5))),
        (9.0, 0.0, 0.0, -(6.0 - 0.05 * math.exp(-5.5))),
    ],
)
def test_lane_center(y, yaw, bias, expected):
    value, _ = reward(y=y, yaw=yaw, lane_center=0.005, center_bias=bias)
    assert value == pytest.approx(0.005 * DT * expected, rel=1e-4)


def test_leaving_the_lanes_is_never_cheaper():
    weights = {"lane_center": 0.005, "lane_align": 0.02, "center_bias": 0.4}
    far, s = reward(y=60.0, **weights)
    assert s.slot("LANE") == -1
    assert far == pytest.approx(-0.005 * DT * (6.0 - 0.05 * math.exp(-5.5)), rel=1e-4)
    assert far < min(reward(y=y, **weights)[0] for y in (0.0, 1.0, 3.0, 5.0))


@pytest.mark.parametrize(
    ("action", "accel", "count"), [(7, 0.0, 0), (7, -4.0, 1), (1, 0.0, 2), (1, -4.0, 1), (10, 0.0, 0)]
)
def test_comfort_counts_discomforts(action, accel, count):
    """Stamping on the brake is jerk 15 and -3.75 m/s2; what the limit of -5 m/s2 leaves of it is jerk 4."""
    assert reward(speed=9.0, action=action, comfort=0.05, ACCEL=accel)[0] == pytest.approx(-0.05 * count)


def test_comfort_counts_lateral_acceleration():
    steer = math.atan(3.5 / 64 * 0.6 * 4.5)
    assert reward(speed=8.0, comfort=0.05, LAT_ACCEL=3.5, STEER=steer)[0] == pytest.approx(-0.05)


@pytest.mark.parametrize(
    ("speed", "yaw", "y", "expected"),
    [(3.0, 0.0, 0.0, 1.0), (2.4, 0.0, 0.0, 0.0), (3.0, math.pi, 0.0, 0.0), (3.0, 0.0, 2.5, 0.0)],
)
def test_velocity(speed, yaw, y, expected):
    assert reward(speed=speed, yaw=yaw, y=y, velocity=0.004)[0] == pytest.approx(0.004 * DT * expected, abs=1e-9)


def test_timestep_only_when_moving():
    assert reward(speed=0.05, timestep=5e-5)[0] == 0.0
    assert reward(speed=1.0, timestep=5e-5)[0] == pytest.approx(-5e-5 * DT)


def test_reverse():
    assert reward(speed=-1.0, reverse=0.004)[0] == pytest.approx(-0.004 * DT)
    assert reward(speed=1.0, reverse=0.004)[0] == 0.0


def test_overspeed_above_the_limit_and_two():
    assert reward(speed=17.5, overspeed=0.5)[0] == -0.5
    assert reward(speed=16.9, overspeed=0.5)[0] == 0.0


def test_progress_pays_each_metre():
    value, s = reward(
        speed=8.0, rewards=RewardConfig(goal=0.0, progress=0.5), ROUTE_S=88.0, PROGRESS=90.0, ROUTE_LENGTH=180.0
    )
    assert s.col("PROGRESS_STEP") == pytest.approx(2.0, abs=1e-4)
    assert value == pytest.approx(1.0, abs=1e-4)


def test_collision_and_offroad_by_hand():
    s = Stage(plain_town(), 1, 2, infraction="ignore", rewards=NO_GOAL)
    s.put(0, 0.0, 0.0, speed=4.0, collision=2.0, offroad=1.5)
    s.put(1, 4.8, 0.0, speed=0.0, collision=1.0)
    s.step()
    assert s.reward[0].tolist() == pytest.approx([-2.4, -1.0])
    s = Stage(plain_town(), 1, 1, infraction="ignore", rewards=NO_GOAL)
    s.put(0, 500.0, 0.0, offroad=1.5)
    assert float(s.step().reward[0, 0]) == -1.5


@pytest.mark.parametrize(("goal", "speed", "expected"), [(0, 9.0, 2.0), (1, 3.0, 2.0), (1, 9.0, 0.0)])
def test_goal_and_the_last_one_taken_too_fast(goal, speed, expected):
    s = Stage(plain_town(), 1, 1, rewards=RewardConfig(goal=2.0), route=RouteConfig(num_goals=2))
    x = -90 + 20.0 * (goal + 1)
    s.put(0, x - 1.0, 0.0, speed=speed, goal_speed=5.0, ROUTE_LENGTH=40.0, ROUTE_S=x + 89.0, goal=goal)
    s.step()
    assert float(s.reward[0, 0]) == expected
    assert s.slot("EVENT") & Event.GOAL
    assert s.slot("STATUS") == (Status.FINISHED if goal == 1 else Status.LIVE)


def test_all_terms_together_equal_the_twin():
    generator = torch.Generator().manual_seed(1)
    stage = Stage(plain_town(), 1, 1, infraction="ignore", rewards=NO_GOAL)
    for _ in range(60):
        draw = torch.rand(24, generator=generator).tolist()
        weights = {
            c.name.lower(): draw[c] * CONDITION_BOUNDS[c.name.lower()][1]
            for c in Condition
            if c < Condition.GAIN_THROTTLE
        }
        start = {"accel": 8 * draw[18] - 5, "speed": 18 * draw[19] - 2}
        _, s = reward(
            y=6 * draw[20] - 3, yaw=6 * draw[21] - 3, speed=start["speed"], action=int(12 * draw[22]),
            stage=stage, lane=0, ACCEL=start["accel"], LAT_ACCEL=0.0, STEER=0.0, **weights,
        )  # fmt: skip
        jerk = math.hypot(s.col("ACCEL") - min(start["accel"], 3.0), s.col("LAT_ACCEL")) / DT
        if abs(jerk - 5) < 1e-3:
            continue
        terms = twin.terms(
            weights, dt=DT, speed=s.col("SPEED"), accel=s.col("ACCEL"), lat_accel=s.col("LAT_ACCEL"),
            jerk=jerk, on_lane=True, offset=s.col("LANE_OFFSET"), heading=s.col("LANE_HEADING"),
            lane_width=4.0, limit=15.0,
        )  # fmt: skip
        assert float(s.reward[0, 0]) == pytest.approx(sum(terms.values()), abs=1e-6)
        assert float(s.agents[0, 0, AgentCol.LANE_LIMIT]) == 15.0
