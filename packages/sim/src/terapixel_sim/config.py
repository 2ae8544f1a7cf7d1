"""What a simulator can be told, as frozen dataclasses. Units stand in the names; every value is checked when it is set."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from .layout import Condition

INFRACTIONS = ("collision", "offroad", "red_light")
RESPONSES = ("stop", "remove", "ignore")
ACTIONS = ("jerk", "jerk_continuous")

CONDITION_BOUNDS: dict[str, tuple[float, float]] = {
    "goal_radius": (0.5, 12.0),
    "goal_speed": (0.0, 20.0),
    "collision": (0.0, 3.0),
    "offroad": (0.0, 3.0),
    "comfort": (0.0, 0.1),
    "lane_align": (0.0, 2.5e-2),
    "vel_align": (0.0, 1.0),
    "lane_center": (0.0, 7.5e-3),
    "center_bias": (-0.5, 0.5),
    "velocity": (0.0, 5e-3),
    "reverse": (0.0, 7.5e-3),
    "stop_line": (0.0, 1.0),
    "timestep": (0.0, 5e-5),
    "overspeed": (0.0, 1.0),
    "gain_throttle": (0.8, 1.25),
    "gain_steer": (0.8, 1.25),
    "gain_accel": (1 / 1.5, 1.5),
    "gain_speed": (1 / 1.5, 1.5),
}
"""Allowed values of each coefficient, in the order of `Condition`. The policy sees them scaled from these bounds to [-1, 1];
gains are scaled by their logarithm, so that 1 is seen as 0."""


def _check(ok: bool, name: str, value: object, allowed: str) -> None:
    if not ok:
        raise ValueError(f"{name}: expected {allowed}, got {value!r}")


def _number(name: str, value: Any, low: float, high: float) -> None:
    ok = (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and math.isfinite(value)
        and low <= value <= high
    )
    _check(ok, name, value, f"a number from {low:g} to {high:g}")


def _pair(name: str, value: Any, low: float, high: float) -> tuple[float, float]:
    ok = isinstance(value, (list, tuple)) and len(value) == 2
    _check(ok, name, value, "two numbers, low and high")
    for v in value:
        _number(name, v, low, high)
    _check(value[0] <= value[1], name, value, "low <= high")
    return float(value[0]), float(value[1])


@dataclass(frozen=True, kw_only=True)
class SpawnConfig:
    """How agents enter a world. Pairs are uniform ranges."""

    length_m: tuple[float, float] = (4.0, 5.4)
    width_m: tuple[float, float] = (1.8, 2.1)
    height_m: tuple[float, float] = (1.4, 1.9)
    speed_mps: tuple[float, float] = (0.0, 8.0)
    """Initial speed, lowered where `brake_mps2` would not stop the car `clearance_m` short of a car ahead, or slow it enough
    for a bend just ahead."""
    clearance_m: float = 2.0
    """Least gap between two spawn slots on a lane, and the gap that the speed rule keeps."""
    brake_mps2: float = 2.5

    def __post_init__(self) -> None:
        for name, high in (("length_m", 20.0), ("width_m", 4.0), ("height_m", 6.0)):
            object.__setattr__(self, name, _pair(f"spawn.{name}", getattr(self, name), 0.2, high))
        object.__setattr__(self, "speed_mps", _pair("spawn.speed_mps", self.speed_mps, 0.0, 20.0))
        _number("spawn.clearance_m", self.clearance_m, 0.5, 100.0)
        _number("spawn.brake_mps2", self.brake_mps2, 0.1, 10.0)


@dataclass(frozen=True, kw_only=True)
class RouteConfig:
    """The way an agent is asked to go: `num_goals` sparse goals on a random walk over the lane graph."""

    num_goals: int = 3
    goal_spacing_m: tuple[float, float] = (20.0, 60.0)
    """Drawn once an agent; where a map's border ends the walk early, the goals are spread over what there is."""
    min_length_m: float = 20.0
    """A spawn slot needs at least this much road ahead."""
    lane_change: float = 0.2
    """Probability of a lane change on each lane that has a neighbour and is long enough."""
    lane_change_m: float = 25.0
    entries: int = 32
    """Most lanes and lane changes a route may have; a longer walk ends there."""

    def __post_init__(self) -> None:
        _check(
            isinstance(self.num_goals, int) and 1 <= self.num_goals <= 16, "route.num_goals", self.num_goals, "1 to 16"
        )
        object.__setattr__(self, "goal_spacing_m", _pair("route.goal_spacing_m", self.goal_spacing_m, 5.0, 200.0))
        _number("route.min_length_m", self.min_length_m, 5.0, 500.0)
        _number("route.lane_change", self.lane_change, 0.0, 1.0)
        _number("route.lane_change_m", self.lane_change_m, 10.0, 100.0)
        _check(isinstance(self.entries, int) and 4 <= self.entries <= 128, "route.entries", self.entries, "4 to 128")


@dataclass(frozen=True, kw_only=True)
class ConditionConfig:
    """Ranges of the conditioning coefficients, `low, high` or one fixed number; `CONDITION_BOUNDS` limits them.

    Defaults are Gigaflow's published ranges, with a floor of 0.25 under the infraction weights so that ending an episode is
    never an escape. The gains are drawn from Xmix(a) = U(1/a, 1) or U(1, a), each with probability 1/2, as `1/a, a` says.
    """

    goal_radius: Any = (2.0, 12.0)
    goal_speed: Any = (0.0, 20.0)
    collision: Any = (0.25, 3.0)
    offroad: Any = (0.25, 3.0)
    comfort: Any = (0.0, 0.1)
    lane_align: Any = (2.5e-4, 2.5e-2)
    vel_align: Any = (0.0, 1.0)
    lane_center: Any = (2.5e-4, 7.5e-3)
    center_bias: Any = (-0.5, 0.5)
    velocity: Any = 2.5e-3
    reverse: Any = (2.5e-4, 7.5e-3)
    stop_line: Any = (0.25, 1.0)
    timestep: Any = 2.5e-5
    overspeed: Any = (0.0, 1.0)
    gain_throttle: Any = (0.8, 1.25)
    gain_steer: Any = (0.8, 1.25)
    gain_accel: Any = (1 / 1.5, 1.5)
    gain_speed: Any = (1 / 1.5, 1.5)

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, (int, float)):
                value = (value, value)
            object.__setattr__(self, f.name, _pair(f"condition.{f.name}", value, *CONDITION_BOUNDS[f.name]))

    def ranges(self) -> list[tuple[float, float]]:
        """(low, high) of each coefficient in the order of `Condition`."""
        return [getattr(self, c.name.lower()) for c in Condition]


@dataclass(frozen=True, kw_only=True)
class RewardConfig:
    """The terms that are not conditioned."""

    goal: float = 1.0
    """For each goal; nothing at the last one when passed faster than the agent's goal speed."""
    progress: float = 0.0
    """For each metre by which the largest route arc length grew."""

    def __post_init__(self) -> None:
        _number("rewards.goal", self.goal, 0.0, 100.0)
        _number("rewards.progress", self.progress, 0.0, 10.0)


@dataclass(frozen=True, kw_only=True)
class LightConfig:
    """How traffic lights change: each group of a controller is green in turn, then yellow, then all are red."""

    green_s: tuple[float, float] = (6.0, 15.0)
    """Drawn for each group and episode."""
    yellow_s: float = 3.0
    all_red_s: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "green_s", _pair("lights.green_s", self.green_s, 0.5, 1000.0))
        _number("lights.yellow_s", self.yellow_s, 0.0, 100.0)
        _number("lights.all_red_s", self.all_red_s, 0.0, 100.0)


@dataclass(frozen=True, kw_only=True)
class PerturbConfig:
    """What makes training harder than life: noise, gaps, and agents that fail for a while. All off by default.

    An agent that is blind or brakes for no reason stands for drivers that others must cope with; its `perturbed` is true
    then, so that nobody learns from it.
    """

    noise_m: float = 0.0
    """Standard deviation of the places of `partners` as observed, drawn anew for each agent, row and step."""
    noise_mps: float = 0.0
    """Likewise of their speeds and velocities."""
    dropout_partners: float = 0.0
    """Probability with which each row of `partners` is missing in a step; the next three likewise."""
    dropout_lanes: float = 0.0
    dropout_edges: float = 0.0
    dropout_lights: float = 0.0
    blind: float = 0.0
    """Probability with which an agent sees no partners for `spell_s` once in an episode."""
    phantom_brake: float = 0.0
    """Probability with which it brakes as hard as it can for `spell_s` once in an episode, whatever its action."""
    spell_s: float = 3.0

    def __post_init__(self) -> None:
        for name in ("noise_m", "noise_mps"):
            _number(f"perturb.{name}", getattr(self, name), 0.0, 100.0)
        for f in fields(self):
            if f.name.startswith("dropout") or f.name in ("blind", "phantom_brake"):
                _number(f"perturb.{f.name}", getattr(self, f.name), 0.0, 1.0)
        _number("perturb.spell_s", self.spell_s, 0.0, 1000.0)

    @property
    def active(self) -> bool:
        """Whether anything is perturbed at all."""
        return any(getattr(self, f.name) > 0 for f in fields(self) if f.name != "spell_s")


@dataclass(frozen=True, kw_only=True)
class ObservationConfig:
    """How much an agent sees of each kind; see docs/interface.md for the columns."""

    partners: int = 16
    partner_radius_m: float = 100.0
    lanes: int = 32
    edges: int = 32
    route_points_m: tuple[float, ...] = (2.0, 5.0, 8.0, 12.0, 16.0, 20.0, 26.0, 32.0, 40.0, 50.0)
    """Distances ahead along the route at which its centre line is sampled."""
    manoeuvre_m: float = 60.0
    """How far ahead the next junction is announced."""
    light_m: float = 100.0
    """How far ahead along the route traffic lights are seen."""

    def __post_init__(self) -> None:
        for name in ("partners", "lanes", "edges"):
            value = getattr(self, name)
            _check(isinstance(value, int) and 1 <= value <= 256, f"observation.{name}", value, "1 to 256")
        _number("observation.partner_radius_m", self.partner_radius_m, 1.0, 500.0)
        _number("observation.manoeuvre_m", self.manoeuvre_m, 1.0, 500.0)
        _number("observation.light_m", self.light_m, 1.0, 500.0)
        points = tuple(float(p) for p in self.route_points_m)
        ok = len(points) >= 1 and all(p >= 0 for p in points) and list(points) == sorted(points)
        _check(ok, "observation.route_points_m", self.route_points_m, "one or more ascending distances")
        object.__setattr__(self, "route_points_m", points)


@dataclass(frozen=True, kw_only=True)
class SimConfig:
    """Everything about a simulator that is not a map, a camera or a size."""

    dt_s: float = 0.25
    time_limit_s: float = 40.0
    early_reset: float = 0.4
    """A world ends when at least this fraction of its agents ended by an infraction; 1 means when all have."""
    infraction: Any = "remove"
    """stop | remove | ignore, one word or a mapping {collision, offroad, red_light}; evaluation uses stop."""
    action: str = "jerk"
    """jerk (4 x 3 table, int64 0..11) | jerk_continuous (f32 [W, A, 2] in [-1, 1])."""
    spawn: SpawnConfig = field(default_factory=SpawnConfig)
    route: RouteConfig = field(default_factory=RouteConfig)
    condition: ConditionConfig = field(default_factory=ConditionConfig)
    rewards: RewardConfig = field(default_factory=RewardConfig)
    lights: LightConfig = field(default_factory=LightConfig)
    perturb: PerturbConfig = field(default_factory=PerturbConfig)
    observation: ObservationConfig = field(default_factory=ObservationConfig)

    def __post_init__(self) -> None:
        _number("dt_s", self.dt_s, 0.02, 1.0)
        _number("time_limit_s", self.time_limit_s, self.dt_s, 1e6)
        _number("early_reset", self.early_reset, 0.01, 1.0)
        _check(self.action in ACTIONS, "action", self.action, " or ".join(ACTIONS))
        value = self.infraction
        if isinstance(value, str):
            _check(value in RESPONSES, "infraction", value, ", ".join(RESPONSES))
        else:
            ok = (
                isinstance(value, Mapping)
                and set(value) == set(INFRACTIONS)
                and all(v in RESPONSES for v in value.values())
            )
            _check(
                ok,
                "infraction",
                value,
                f"one of {', '.join(RESPONSES)}, or a mapping of {', '.join(INFRACTIONS)} to them",
            )
            object.__setattr__(self, "infraction", dict(value))

    def responses(self) -> tuple[str, str, str]:
        """The response to a collision, to leaving the road and to a red light."""
        if isinstance(self.infraction, str):
            return (self.infraction,) * 3
        return tuple(self.infraction[k] for k in INFRACTIONS)  # type: ignore[return-value]
