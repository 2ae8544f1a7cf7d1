"""What an agent observes: the columns of every leaf with unit and scale, and the buffers that hold them.

A column holds `value / scale`; it is not clipped unless the table says so.
"""

from __future__ import annotations

from enum import IntEnum


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
