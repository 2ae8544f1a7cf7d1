"""What the reward makes worth while, worked out for every conditioning that can be drawn."""

import itertools

import numpy as np
import pytest
from terapixel_sim.config import ConditionConfig, SimConfig
from terapixel_sim.layout import Condition
from terapixel_sim.reference.rewards import infraction, terms

CONFIG = SimConfig()
STEPS = round(CONFIG.time_limit_s / CONFIG.dt_s)
WEIGHTS = [c.name.lower() for c in Condition if not c.name.startswith("GAIN")]


def conditionings():
    """All corners of the ranges that matter to driving, then random draws."""
    ranges = {name: getattr(ConditionConfig(), name) for name in WEIGHTS}
    middle = {name: sum(pair) / 2 for name, pair in ranges.items()}
    corners = ("collision", "offroad", "lane_align", "lane_center", "center_bias", "vel_align", "comfort")
    for chosen in itertools.product((0, 1), repeat=len(corners)):
        yield {**middle, **{name: ranges[name][k] for name, k in zip(corners, chosen, strict=True)}}
    rng = np.random.default_rng(0)
    for _ in range(200):
        yield {name: rng.uniform(*pair) for name, pair in ranges.items()}


def driving(weights, speed):
    """The reward of an episode in the middle of a lane at a steady speed, without goals."""
    step = terms(
        weights, dt=CONFIG.dt_s, speed=speed, accel=0.0, lat_accel=0.0, jerk=0.0, on_lane=True, offset=0.0, heading=0.0,
        lane_width=3.5, limit=13.9,
    )  # fmt: skip
    return STEPS * sum(step.values())


@pytest.mark.parametrize("discount", [1.0, 0.99])
def test_slow_driving_beats_parking_beats_leaving_the_road_and_crashing(discount):
    """Ending an episode is never an escape, whatever was drawn."""
    share = 1.0 if discount == 1.0 else (1 - discount**STEPS) / (1 - discount) / STEPS
    for weights in conditionings():
        slow, parked = (share * driving(weights, speed) for speed in (3.0, 0.0))
        ends = [
            infraction(weights, collided=collided, left_road=not collided, speed=speed)
            for collided, speed in ((True, 0.0), (True, 8.0), (False, 3.0))
        ]
        assert slow > parked > max(ends), weights


def test_the_floor_under_the_infraction_weights_is_what_holds_that():
    """Without it, an episode's lane terms could make a crash the better choice."""
    weights = dict.fromkeys(WEIGHTS, 0.0) | {"lane_center": 7.5e-3, "center_bias": 0.5}
    free = infraction(weights, collided=False, left_road=True, speed=0.0)
    assert driving(weights, 0.0) < free
    assert all(getattr(ConditionConfig(), name)[0] >= 0.25 for name in ("collision", "offroad", "stop_line"))
