"""Twin of `kernels/lights.py`, float64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from ..layout import Head, LaneInt, LightColour, MapFloat, StopFloat, StopInt, Stream, WorldCol
from ..maps.stops import EXTEND_M
from .lane import LEVEL_M, Bank
from .random import key_agent, key_world, uniform
from .route import Entry


@dataclass(frozen=True)
class StopRow:
    """A stop line of the bank [m, rad]."""

    x: float
    y: float
    z: float
    heading: float
    half: float

    def end(self, side: int) -> tuple[float, float]:
        """Its left (side 1) or right (-1) end."""
        reach = side * self.half
        return self.x - reach * math.sin(self.heading), self.y + reach * math.cos(self.heading)


def stop_line(bank: Bank, stop: int) -> StopRow:
    """A stop line of the bank."""
    q = int(bank.ints[Head.F_STOPS]) + stop * len(StopFloat)
    x, y, z, cos, sin, half = (float(v) for v in bank.floats[q : q + len(StopFloat)])
    return StopRow(x, y, z, math.atan2(sin, cos), half)


def light_colour(bank: Bank, world: Sequence[int] | NDArray[np.int32], seed: int, stop: int) -> LightColour:
    """What the signal of a stop line shows in a world now."""
    return phase_of(bank, world, seed, stop)[0]


def phase_of(bank: Bank, world: Sequence[int] | NDArray[np.int32], seed: int, stop: int) -> tuple[LightColour, float]:
    """What the signal of a stop line shows in a world now, and how far the nearest change is [s]."""
    frame = int(bank.ints[Head.F_MAPS]) + int(world[WorldCol.MAP]) * len(MapFloat)
    low, high, yellow, all_red, dt = (
        float(bank.floats[frame + c])
        for c in (MapFloat.GREEN_LOW, MapFloat.GREEN_HIGH, MapFloat.YELLOW, MapFloat.ALL_RED, MapFloat.DT)
    )
    q = int(bank.ints[Head.STOPS]) + stop * len(StopInt)
    controller, group, groups = (int(bank.ints[q + c]) for c in (StopInt.CONTROLLER, StopInt.GROUP, StopInt.NUM_GROUPS))
    key = key_world(seed, int(world[WorldCol.ID]), int(world[WorldCol.EPISODE]), 0)
    key = key_agent(key, controller, Stream.LIGHTS)
    greens = [low + (high - low) * uniform(key, g + 1) for g in range(groups)]
    starts = [0.0, *accumulate(green + yellow + all_red for green in greens)]
    cycle = starts[-1]
    now = (int(world[WorldCol.STEP]) * dt + uniform(key, 0) * cycle) % cycle
    amber = starts[group] + greens[group]
    changes = [starts[group], amber, amber + yellow]
    left = min(abs(now - c - k * cycle) for c in changes for k in (-1, 0, 1))
    if not changes[0] <= now < changes[2]:
        return LightColour.RED, left
    return (LightColour.GREEN if now < changes[1] else LightColour.YELLOW), left


def crosses(line: StopRow, before: tuple[float, float], after: tuple[float, float], z: float, yaw: float) -> float:
    """How far beside a line's end a centre came over it [m], negative within it; infinite where it did not."""
    c, s = math.cos(line.heading), math.sin(line.heading)
    (px, py), (x, y) = ((p[0] - line.x, p[1] - line.y) for p in (before, after))
    behind, ahead = px * c + py * s, x * c + y * s
    if not (behind < 0 <= ahead) or abs(z - line.z) >= LEVEL_M or math.cos(yaw - line.heading) <= 0.5:
        return math.inf
    t = behind / (behind - ahead)
    return abs((py + t * (y - py)) * c - (px + t * (x - px)) * s) - line.half


def runs_red(
    bank: Bank,
    stops: Sequence[int],
    colours: Sequence[LightColour],
    route_lanes: set[int],
    before: tuple[float, float],
    after: tuple[float, float],
    z: float,
    yaw: float,
) -> bool:
    """Whether a centre came over a red stop line: by the lines of its route if it came over any of them, else by others.

    Args:
        bank: the map bank.
        stops: all stop lines of the map.
        colours: what each showed before the step.
        route_lanes: lanes on the agent's route.
        before: centre a step ago [m].
        after: centre now [m].
        z: its height [m].
        yaw: its heading now [rad].
    """
    own: list[tuple[LightColour, float]] = []
    others: list[tuple[LightColour, float]] = []
    for stop, colour in zip(stops, colours, strict=True):
        beside = crosses(stop_line(bank, stop), before, after, z, yaw)
        if beside <= EXTEND_M:
            q = int(bank.ints[Head.STOPS]) + stop * len(StopInt)
            first = int(bank.ints[Head.STOP_LANES]) + int(bank.ints[q + StopInt.LANE0])
            lanes = {int(v) for v in bank.ints[first : first + int(bank.ints[q + StopInt.NUM_LANES])]}
            (own if lanes & route_lanes else others).append((colour, beside))
    if own:
        return any(colour == LightColour.RED for colour, _ in own)
    within = any(colour != LightColour.RED and beside <= 0 for colour, beside in others)
    return any(colour == LightColour.RED for colour, _ in others) and not within


def stops_ahead(bank: Bank, entries: Sequence[Entry], after: float, far: float) -> list[tuple[float, int]]:
    """(arc length on the route, stop line) of those with after < s <= far, in order, one for each arc length."""
    found: dict[float, int] = {}
    start = 0.0
    for entry in entries:
        changes = entry.lane_a != entry.lane_b
        lane, begin = (entry.lane_b, entry.start_b) if changes else (entry.lane_a, entry.start_a)
        first = bank.lane_int(lane, LaneInt.STOP0)
        for k in range(first, first + bank.lane_int(lane, LaneInt.NUM_STOPS)):
            on_lane = float(bank.floats[int(bank.ints[Head.F_LANE_STOPS]) + k]) - begin
            if 0 <= on_lane <= entry.length and after < start + on_lane <= far:
                found.setdefault(start + on_lane, int(bank.ints[int(bank.ints[Head.LANE_STOPS]) + k]))
        start += entry.length
    return sorted(found.items())
