"""Plane curves and the pieces that procedural towns are laid with: roads, bends and junctions (right-hand traffic)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from .edges import drivable_edges
from .road_map import Lane, Marking, Points, RoadMap, Signal, StopLine, Turn

Vector = NDArray[np.float64]

LANE_WIDTH_M = 3.5
TURN_LIMIT_MPS = 8.33
_EDGE_LINE_M = 0.15
_STEP_M = 0.5
_STOP_M, _STOP_WIDTH_M, _LAMP_M = 1.0, 0.4, 5.0


@dataclass(frozen=True)
class Path:
    """A smooth plane curve by samples."""

    xy: Vector
    """[n, 2] m"""
    heading: Vector
    """[n] rad, of the tangent"""

    def offset(self, distance: float) -> Points:
        """The parallel curve `distance` to the left, as points [n, 3] on the ground z = 0."""
        normal = np.stack([-np.sin(self.heading), np.cos(self.heading)], axis=1)
        return np.column_stack([self.xy + distance * normal, np.zeros(len(self.xy))])

    def shifted(self, distance: float) -> Path:
        """The parallel path `distance` to the left."""
        return Path(self.offset(distance)[:, :2], self.heading)

    def reversed(self) -> Path:
        """The same curve the other way."""
        return Path(self.xy[::-1], self.heading[::-1] + np.pi)


def direction(heading: float) -> Vector:
    """Unit vector of a heading [rad]."""
    return np.array([np.cos(heading), np.sin(heading)])


def wrap(angle: float) -> float:
    """The same angle in [-pi, pi)."""
    return float((angle + np.pi) % (2 * np.pi) - np.pi)


def arc(centre: Vector, radius: float, start: float, turn: float) -> Path:
    """A circular arc from polar angle `start` over `turn` (positive counter-clockwise) [rad]."""
    angles = start + np.linspace(0.0, turn, max(2, int(np.ceil(abs(turn) * radius / _STEP_M)) + 1))
    xy = centre + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return Path(xy, angles + np.copysign(np.pi / 2, turn))


def spline(points: Vector, heading0: float, heading1: float) -> tuple[Path, float]:
    """The clamped cubic spline through `points` [n, 2], parametrised by chord length, and its least radius [m]."""
    chords = np.linalg.norm(np.diff(points, axis=0), axis=1)
    t = np.concatenate([[0.0], np.cumsum(chords)])
    curve = CubicSpline(t, points, bc_type=((1, direction(heading0)), (1, direction(heading1))))
    u = np.linspace(0.0, t[-1], int(np.ceil(t[-1] / _STEP_M)) + 1)
    (dx, dy), (ddx, ddy) = curve(u, 1).T, curve(u, 2).T
    curvature = np.abs(dx * ddy - dy * ddx) / np.maximum(np.hypot(dx, dy), 1e-9) ** 3
    heading = np.unwrap(np.arctan2(dy, dx))
    return Path(curve(u), heading), float(1.0 / max(curvature.max(), 1e-9))


def fillet(p0: Vector, heading0: float, p1: Vector, heading1: float) -> Path:
    """From one pose to another: straight, one arc as wide as fits, straight; a spline where they are nearly in line."""
    turn = wrap(heading1 - heading0)
    if abs(turn) < np.radians(30.0):
        return spline(np.stack([p0, p1]), heading0, heading0 + turn)[0]
    d0, d1 = direction(heading0), direction(heading1)
    before, after = np.linalg.solve(np.stack([d0, d1], axis=1), p1 - p0)
    tangent = min(before, after)
    if tangent <= 0:
        raise ValueError(f"fillet: the tangents from {p0} and {p1} do not meet between them")
    radius = tangent / np.tan(abs(turn) / 2)
    side = np.copysign(1.0, turn)
    start = p0 + (before - tangent) * d0
    centre = start + side * radius * np.array([-d0[1], d0[0]])
    bend = arc(centre, radius, heading0 - side * np.pi / 2, turn)
    pieces = [bend.xy], [bend.heading]
    if before - tangent > 1e-6:
        pieces = [p0[None], *pieces[0]], [np.array([heading0]), *pieces[1]]
    if after - tangent > 1e-6:
        pieces = [*pieces[0], p1[None]], [*pieces[1], bend.heading[-1:]]
    return Path(np.concatenate(pieces[0]), np.concatenate(pieces[1]))


@dataclass(frozen=True)
class Arm:
    """A road as seen from the junction at one of its ends."""

    point: Vector
    """Where the road's middle ends."""
    heading: float
    """Out of the junction [rad]."""
    incoming: tuple[int, ...]
    """Lanes into the junction, from the middle of the road outwards."""
    outgoing: tuple[int, ...]


class Builder:
    """Collects lanes, links and paint, and hands out the map."""

    def __init__(self, limit_mps: float) -> None:
        self._limit = limit_mps
        self._lanes: list[dict[str, object]] = []
        self._links: list[tuple[int, int]] = []
        self._markings: list[Marking] = []
        self._signals: list[Signal] = []
        self._stop_lines: list[StopLine] = []
        self._junctions = 0

    def lane(
        self, path: Path, source: str, *, width: float = LANE_WIDTH_M, junction: int = -1, turn: Turn = Turn.NONE
    ) -> int:
        """Add a lane along `path` and return its id; lanes of junctions get the lower speed limit."""
        self._lanes.append(
            {
                "id": len(self._lanes),
                "centre": path.offset(0.0),
                "left": path.offset(width / 2),
                "right": path.offset(-width / 2),
                "speed_limit": self._limit if junction < 0 else TURN_LIMIT_MPS,
                "junction": junction,
                "turn": turn,
                "source": source,
            }
        )
        return len(self._lanes) - 1

    def link(self, lane: int, successor: int) -> None:
        """Let `successor` begin where `lane` ends."""
        self._links.append((lane, successor))

    def new_junction(self) -> int:
        """A junction id."""
        self._junctions += 1
        return self._junctions - 1

    def road(self, path: Path, lanes: int, source: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Add a two-way road with its paint, `lanes` each way.

        Returns:
            Lanes along the path and against it, both from the middle outwards.
        """
        ways = []
        for along, name in ((path, "forward"), (path.reversed(), "backward")):
            ids = tuple(
                self.lane(along.shifted(-(k + 0.5) * LANE_WIDTH_M), f"{source} {name} {k}") for k in range(lanes)
            )
            for inner, outer in pairwise(ids):
                self._lanes[inner]["right_neighbour"] = outer
                self._lanes[outer]["left_neighbour"] = inner
            ways.append(ids)
            for k in range(1, lanes):
                self._markings.append(Marking(points=along.offset(-k * LANE_WIDTH_M), dash=3.0, gap=6.0))
            self._markings.append(Marking(points=along.offset(-(lanes * LANE_WIDTH_M - _EDGE_LINE_M))))
        self._markings.append(Marking(points=path.offset(0.0), colour="yellow"))
        return ways[0], ways[1]

    def bend(self, a: Arm, b: Arm, source: str) -> None:
        """Join the ends of two roads that have equally many lanes by a piece of road."""
        path = fillet(a.point, a.heading + np.pi, b.point, b.heading)
        forward, backward = self.road(path, len(a.incoming), source)
        for chain in (
            zip(a.incoming, forward, b.outgoing, strict=True),
            zip(b.incoming, backward, a.outgoing, strict=True),
        ):
            for before, middle, after in chain:
                self.link(before, middle)
                self.link(middle, after)

    def crossing(self, arms: Sequence[Arm], source: str) -> int:
        """Join three or more roads by turning lanes: left from the innermost lane, right from the outermost one.

        Returns:
            The junction's id.
        """
        junction = self.new_junction()
        for a in arms:
            for b in arms:
                if a is b:
                    continue
                turn = wrap(b.heading - a.heading - np.pi)
                kind = Turn.STRAIGHT if abs(turn) < np.radians(45.0) else Turn.LEFT if turn > 0 else Turn.RIGHT
                if kind == Turn.STRAIGHT:
                    pairs = [(k, k) for k in range(min(len(a.incoming), len(b.outgoing)))]
                else:
                    pairs = [(0, 0)] if kind == Turn.LEFT else [(len(a.incoming) - 1, len(b.outgoing) - 1)]
                for k, m in pairs:
                    self.connect(
                        self._end(a, k), a.incoming[k], self._start(b, m), b.outgoing[m], junction, kind, source
                    )

        return junction

    def lights(self, arms: Sequence[Arm], junction: int) -> None:
        """Give each arm of a crossing a painted stop line, 1 m before its lanes end, and a signal behind the crossing.

        Arms that face each other share a group, so their left turns have to give way.
        """
        centre = np.mean([arm.point for arm in arms], axis=0)
        groups: list[Arm] = []
        for arm in arms:
            faced = [g for g, first in enumerate(groups) if abs(wrap(arm.heading - first.heading - np.pi)) < np.pi / 4]
            group = faced[0] if faced else len(groups)
            if not faced:
                groups.append(arm)
            out = direction(arm.heading)
            side = np.array([-out[1], out[0]])  # to the right of the traffic that comes in
            left = arm.point + _STOP_M * out
            right = left + len(arm.incoming) * LANE_WIDTH_M * side
            behind = 2 * centre - arm.point + (len(arm.incoming) * LANE_WIDTH_M + 1.0) * side
            line = np.column_stack([np.stack([left, right]), np.zeros(2)])
            inset = 2 * _EDGE_LINE_M / np.hypot(*(right - left))
            self._markings.append(Marking(points=shorten(line, inset), width=_STOP_WIDTH_M))
            self._stop_lines.append(StopLine(points=line, lanes=arm.incoming, signal=len(self._signals)))
            self._signals.append(
                Signal(
                    position=np.append(behind, _LAMP_M),
                    heading=wrap(arm.heading + np.pi),
                    controller=junction,
                    group=group,
                    source=f"junction {junction} arm {len(self._signals)}",
                )
            )

    def connect(
        self,
        start: tuple[Vector, float],
        before: int,
        end: tuple[Vector, float],
        after: int,
        junction: int,
        turn: Turn,
        source: str,
    ) -> None:
        """Add the junction lane from pose `start`, the end of lane `before`, to pose `end`, the start of `after`."""
        lane = self.lane(fillet(*start, *end), f"{source} {turn.name.lower()}", junction=junction, turn=turn)
        self.link(before, lane)
        self.link(lane, after)

    def finish(self, name: str) -> RoadMap:
        """The map, with the boundary of all lanes as its edges."""
        successors: list[list[int]] = [[] for _ in self._lanes]
        predecessors: list[list[int]] = [[] for _ in self._lanes]
        for a, b in self._links:
            successors[a].append(b)
            predecessors[b].append(a)
        lanes = tuple(
            Lane(**fields, successors=tuple(s), predecessors=tuple(p))  # type: ignore[arg-type]
            for fields, s, p in zip(self._lanes, successors, predecessors, strict=True)
        )
        edges = drivable_edges(lanes)
        return RoadMap(
            name=name,
            lanes=lanes,
            markings=tuple(self._markings),
            edges=edges,
            signals=tuple(self._signals),
            stop_lines=tuple(self._stop_lines),
        ).validate()

    def _end(self, arm: Arm, k: int) -> tuple[Vector, float]:
        """Pose of the end of incoming lane k; seen from the junction it lies left of the arm."""
        return lane_point(arm, k, 1.0), arm.heading + np.pi

    def _start(self, arm: Arm, k: int) -> tuple[Vector, float]:
        return lane_point(arm, k, -1.0), arm.heading


def shorten(line: Points, part: float) -> Points:
    """A line of two points without this part of its length at either end."""
    return np.stack([line[0] + part * (line[1] - line[0]), line[1] - part * (line[1] - line[0])])


def lane_point(arm: Arm, k: int, side: float) -> Vector:
    """Centre of the arm's k-th lane at the junction; `side` 1 is left of the arm's heading (incoming), -1 right."""
    d = direction(arm.heading)
    return arm.point + side * (k + 0.5) * LANE_WIDTH_M * np.array([-d[1], d[0]])
