"""What an agent observes: the columns of every leaf with unit and scale; `observation_buffers` holds them.

A column holds `value / scale`; it is not clipped unless the table says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

from tensordict import TensorDict

from .config import CONDITION_BOUNDS


class EgoObs(IntEnum):
    """Columns of `ego`."""

    SPEED = 0
    ACCEL = 1
    LAT_ACCEL = 2
    STEER = 3
    YAW_RATE = 4
    LENGTH = 5
    WIDTH = 6
    LANE_OFFSET = 7
    LANE_COS = 8
    LANE_SIN = 9
    LANE_LIMIT = 10
    ROUTE_OFFSET = 11
    ROUTE_COS = 12
    ROUTE_SIN = 13
    ROUTE_LEFT = 14
    STOPPED = 15


class RouteObs(IntEnum):
    """Columns of `route`."""

    X = 0
    Y = 1
    COS = 2
    SIN = 3
    WIDTH = 4
    LIMIT = 5


class PartnerObs(IntEnum):
    """Columns of `partners`."""

    X = 0
    Y = 1
    Z = 2
    LENGTH = 3
    WIDTH = 4
    COS = 5
    SIN = 6
    SPEED = 7
    VX = 8
    VY = 9


class LaneObs(IntEnum):
    """Columns of `lanes`."""

    X = 0
    Y = 1
    Z = 2
    HALF_LENGTH = 3
    COS = 4
    SIN = 5
    WIDTH = 6
    LIMIT = 7


class EdgeObs(IntEnum):
    """Columns of `edges`."""

    X = 0
    Y = 1
    Z = 2
    HALF_LENGTH = 3
    COS = 4
    SIN = 5


class LightObs(IntEnum):
    """Columns of `lights`."""

    X0 = 0
    Y0 = 1
    X1 = 2
    Y1 = 3
    RED = 4
    YELLOW = 5
    GREEN = 6


class ProprioObs(IntEnum):
    """Columns of `proprio`."""

    SPEED = 0
    STEER = 1
    ACCEL = 2
    LAT_ACCEL = 3
    YAW_RATE = 4
    LENGTH = 5
    WIDTH = 6
    JERK_LONG = 7
    JERK_LAT = 8


COLUMNS: dict[str, dict[str, tuple[str, float, str]]] = {
    "ego": {
        "SPEED": ("m/s", 20.0, "signed speed of the rear axle"),
        "ACCEL": ("m/s2", 5.0, "longitudinal acceleration"),
        "LAT_ACCEL": ("m/s2", 4.0, "lateral acceleration, positive left"),
        "STEER": ("rad", 0.55, "front wheel angle, positive left"),
        "YAW_RATE": ("rad/s", 1.0, "mean yaw rate of the last step"),
        "LENGTH": ("m", 10.0, "box length"),
        "WIDTH": ("m", 5.0, "box width"),
        "LANE_OFFSET": ("m", 4.0, "lateral offset from the current lane, positive left, clipped to [-1, 1]"),
        "LANE_COS": ("", 1.0, "cosine of yaw minus lane heading"),
        "LANE_SIN": ("", 1.0, "sine of yaw minus lane heading"),
        "LANE_LIMIT": ("m/s", 20.0, "speed limit of the current lane"),
        "ROUTE_OFFSET": ("m", 4.0, "lateral offset from the route, positive left, clipped to [-2, 2]"),
        "ROUTE_COS": ("", 1.0, "cosine of yaw minus route heading"),
        "ROUTE_SIN": ("", 1.0, "sine of yaw minus route heading"),
        "ROUTE_LEFT": ("m", 100.0, "route length still to go"),
        "STOPPED": ("s", 60.0, "time since it last moved, clipped to [0, 1]"),
    },
    "route": {
        "X": ("m", 50.0, "point in the ego frame"),
        "Y": ("m", 50.0, "point in the ego frame"),
        "COS": ("", 1.0, "cosine of the route heading there minus yaw"),
        "SIN": ("", 1.0, "sine of the route heading there minus yaw"),
        "WIDTH": ("m", 5.0, "lane width there"),
        "LIMIT": ("m/s", 20.0, "speed limit there"),
    },
    "partners": {
        "X": ("m", 50.0, "box centre in the ego frame"),
        "Y": ("m", 50.0, "box centre in the ego frame"),
        "Z": ("m", 10.0, "road height minus the ego's"),
        "LENGTH": ("m", 10.0, "box length"),
        "WIDTH": ("m", 5.0, "box width"),
        "COS": ("", 1.0, "cosine of relative yaw"),
        "SIN": ("", 1.0, "sine of relative yaw"),
        "SPEED": ("m/s", 20.0, "its signed speed"),
        "VX": ("m/s", 20.0, "its velocity minus the ego's, along the ego's x"),
        "VY": ("m/s", 20.0, "its velocity minus the ego's, along the ego's y"),
    },
    "lanes": {
        "X": ("m", 50.0, "middle of the piece in the ego frame"),
        "Y": ("m", 50.0, "middle of the piece in the ego frame"),
        "Z": ("m", 10.0, "height minus the ego's"),
        "HALF_LENGTH": ("m", 10.0, "half the piece's length"),
        "COS": ("", 1.0, "cosine of its direction minus yaw"),
        "SIN": ("", 1.0, "sine of its direction minus yaw"),
        "WIDTH": ("m", 5.0, "lane width"),
        "LIMIT": ("m/s", 20.0, "speed limit"),
    },
    "edges": {
        "X": ("m", 50.0, "middle of the piece in the ego frame"),
        "Y": ("m", 50.0, "middle of the piece in the ego frame"),
        "Z": ("m", 10.0, "height minus the ego's"),
        "HALF_LENGTH": ("m", 10.0, "half the piece's length"),
        "COS": ("", 1.0, "cosine of its direction minus yaw; the road lies on its left"),
        "SIN": ("", 1.0, "sine of its direction minus yaw"),
    },
    "lights": {
        "X0": ("m", 50.0, "left end of the stop line in the ego frame"),
        "Y0": ("m", 50.0, "left end of the stop line in the ego frame"),
        "X1": ("m", 50.0, "right end of the stop line in the ego frame"),
        "Y1": ("m", 50.0, "right end of the stop line in the ego frame"),
        "RED": ("", 1.0, "1 if it shows red"),
        "YELLOW": ("", 1.0, "1 if it shows yellow"),
        "GREEN": ("", 1.0, "1 if it shows green; none of the three is 1 where the colour is not known"),
    },
    "proprio": {
        "SPEED": ("m/s", 20.0, "signed speed"),
        "STEER": ("rad", 0.55, "front wheel angle, positive left"),
        "ACCEL": ("m/s2", 5.0, "longitudinal acceleration"),
        "LAT_ACCEL": ("m/s2", 4.0, "lateral acceleration"),
        "YAW_RATE": ("rad/s", 1.0, "mean yaw rate of the last step"),
        "LENGTH": ("m", 10.0, "box length"),
        "WIDTH": ("m", 5.0, "box width"),
        "JERK_LONG": ("m/s3", 15.0, "last commanded longitudinal jerk"),
        "JERK_LAT": ("m/s3", 4.0, "last commanded lateral jerk"),
    },
}
"""Leaf -> column -> (unit, scale, meaning); the kernels read the scales from here."""

SENSOR_KEYS = ("condition", "draw", "command", "command_mask", "manoeuvre", "proprio", "live")
"""Leaves that a real car could have; cameras come on top."""

MANOEUVRES = ("follow", "left", "straight", "right")
"""Columns of `manoeuvre`; they equal `maps.road_map.Turn`."""

GAINS = ("gain_throttle", "gain_steer", "gain_accel", "gain_speed")
"""Coefficients that are scaled by their logarithm."""

LIGHTS = 4
"""Rows of `lights`."""

_RANGES: dict[str, tuple[float, float]] = {
    "SPEED": (-2.0, 30.0),
    "ACCEL": (-5.0, 3.75),
    "LAT_ACCEL": (-4.0, 4.0),
    "STEER": (-0.55, 0.55),
    "JERK_LONG": (-15.0, 4.0),
    "JERK_LAT": (-4.0, 4.0),
    "LENGTH": (0.2, 20.0),
    "HALF_LENGTH": (0.0, 4.0),
    "LANE_OFFSET": (-4.0, 4.0),
    "ROUTE_OFFSET": (-8.0, 8.0),
    "ROUTE_LEFT": (0.0, math.inf),
    "STOPPED": (0.0, 60.0),
    "WIDTH": (0.0, math.inf),
    "LIMIT": (0.0, math.inf),
    "LANE_LIMIT": (0.0, math.inf),
    "RED": (0.0, 1.0),
    "YELLOW": (0.0, 1.0),
    "GREEN": (0.0, 1.0),
}
"""Limits of a column in its unit, where it has any; cosines and sines are known by name."""


@dataclass(frozen=True)
class Column:
    """One column of a leaf: it holds `value / scale`, and `low` .. `high` limit the value in its unit."""

    leaf: str
    name: str
    unit: str
    scale: float
    low: float
    high: float
    meaning: str


def describe() -> list[Column]:
    """Every float column that an agent observes, leaf by leaf in the order of its buffer.

    Conditioning coefficients are scaled from `low` .. `high` to [-1, 1] instead (gains by their logarithm), which
    `scale` 0 marks.
    """
    rows = [
        Column(leaf, name, unit, scale, *_range(leaf, name), meaning)
        for leaf, columns in COLUMNS.items()
        for name, (unit, scale, meaning) in columns.items()
    ]
    for name, (low, high) in CONDITION_BOUNDS.items():
        by = "by logarithm" if name in GAINS else "linearly"
        rows.append(
            Column("condition", name.upper(), "", 0.0, low, high, f"coefficient {name}, scaled {by} to [-1, 1]")
        )
    uniform = "uniform number of this agent and step"
    rows += [Column("draw", name, "", 1.0, 0.0, 1.0, uniform) for name in ("FIRST", "SECOND")]
    rows += [Column("command", name, "m", 100.0, -math.inf, math.inf, "goal in the ego frame") for name in ("X", "Y")]
    rows += [Column("manoeuvre", name.upper(), "", 1.0, 0.0, 1.0, f"next junction: {name}") for name in MANOEUVRES]
    return rows


def _range(leaf: str, name: str) -> tuple[float, float]:
    if name.split("_")[-1] in ("COS", "SIN"):
        return -1.0, 1.0
    return _RANGES.get(name, (-math.inf, math.inf))


def sensors(batch: TensorDict) -> TensorDict:
    """The part of a batch that a real car could have: `SENSOR_KEYS` and the cameras, sharing memory with `batch`."""
    keys = [*SENSOR_KEYS, "camera"] if "camera" in batch.keys() else SENSOR_KEYS  # noqa: SIM118
    return batch.select(*keys)
