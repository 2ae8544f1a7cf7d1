"""Twin of `kernels/route.py`, float64: points on a route, and the nearest of them by plain sampling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..layout import LaneFloat
from .geometry import wrap
from .lane import Bank, lane_point


@dataclass(frozen=True)
class Entry:
    """A piece of a route: a lane (a == b) or a lane change from a to b."""

    lane_a: int
    lane_b: int
    start_a: float
    start_b: float
    length: float


@dataclass(frozen=True)
class RoutePoint:
    """A point of a route [m, rad, m, m/s]."""

    x: float
    y: float
    z: float
    heading: float
    width: float
    limit: float


def route_point(bank: Bank, route: Sequence[Entry], s: float) -> RoutePoint:
    """The route at arc length `s`; straight on before its start and beyond its end."""
    k = 0
    while k < len(route) - 1 and s >= route[k].length:
        s -= route[k].length
        k += 1
    entry = route[k]
    u = min(max(s, 0.0), entry.length)
    a = lane_point(bank, entry.lane_a, entry.start_a + u)
    limit = bank.lane_float(entry.lane_a, LaneFloat.LIMIT)
    x, y, z, heading, width = a.x, a.y, a.z, a.heading, a.width
    if entry.lane_a != entry.lane_b:
        b = lane_point(bank, entry.lane_b, entry.start_b + u)
        t = u / entry.length
        w = 3 * t**2 - 2 * t**3
        dw = 6 * t * (1 - t) / entry.length
        dx = (1 - w) * math.cos(a.heading) + w * math.cos(b.heading) + dw * (b.x - a.x)
        dy = (1 - w) * math.sin(a.heading) + w * math.sin(b.heading) + dw * (b.y - a.y)
        x, y, z, width = ((1 - w) * p + w * q for p, q in ((a.x, b.x), (a.y, b.y), (a.z, b.z), (a.width, b.width)))
        heading = math.atan2(dy, dx)
        limit = limit if w < 0.5 else bank.lane_float(entry.lane_b, LaneFloat.LIMIT)
    over = s - u
    return RoutePoint(x + over * math.cos(heading), y + over * math.sin(heading), z, heading, width, limit)


def route_project(
    bank: Bank,
    route: Sequence[Entry],
    pose: tuple[float, float, float],
    last_s: float,
    travelled: float,
    samples: int = 4000,
) -> tuple[float, float, float, float]:
    """The route point nearest to a pose, within 5 m behind `last_s` and 10 m + `travelled` ahead of it.

    Returns:
        (arc length [m], distance [m], lateral offset positive left [m], yaw minus route heading [rad]).
    """
    low = max(last_s - 5.0, 0.0)
    high = min(last_s + travelled + 10.0, sum(e.length for e in route))
    x, y, yaw = pose
    best = (math.inf, low, route_point(bank, route, low))
    for k in range(samples + 1):
        s = low + (high - low) * k / samples
        p = route_point(bank, route, s)
        distance = math.hypot(x - p.x, y - p.y)
        if distance < best[0]:
            best = (distance, s, p)
    distance, s, p = best
    offset = math.cos(p.heading) * (y - p.y) - math.sin(p.heading) * (x - p.x)
    return s, distance, offset, wrap(yaw - p.heading)
