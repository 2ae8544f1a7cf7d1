"""The one road map type: lanes, paint, edges, signals and obstacles in 3-D.

Frame: x east, y north, z up [m], angles counter-clockwise from x [rad]. A lane's points run in its direction of travel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
"""A polyline, float64 [n, 3]: x, y, z [m]."""

LINK_GAP_M = 1.0
"""A lane begins no farther than this from the end of one that leads into it; a route would jump."""


class LaneKind(IntEnum):
    """Who a lane is for. Cars drive on DRIVING lanes alone."""

    DRIVING = 0
    BUS = 1
    BIKE = 2
    WALK = 3
    PARKING = 4


ASPHALT = frozenset({LaneKind.DRIVING, LaneKind.BUS, LaneKind.PARKING})
"""Kinds that make up the drivable area."""


class Turn(IntEnum):
    """Where a junction lane leads; NONE outside junctions."""

    NONE = 0
    LEFT = 1
    STRAIGHT = 2
    RIGHT = 3


@dataclass(frozen=True, kw_only=True)
class Lane:
    """One lane of one direction of travel."""

    id: int
    """Its index in `RoadMap.lanes`."""
    centre: Points
    """Centre line [n, 3] in the direction of travel, n >= 2, consecutive points distinct."""
    left: Points
    """Left boundary [n, 3]; row i lies beside row i of `centre`."""
    right: Points
    """Right boundary [n, 3]."""
    speed_limit: float = 13.89
    """[m/s]"""
    successors: tuple[int, ...] = ()
    """Lanes that begin where this one ends."""
    predecessors: tuple[int, ...] = ()
    """Lanes that end where this one begins."""
    left_neighbour: int = -1
    """Lane of the same direction to the left that may be changed into, or -1."""
    right_neighbour: int = -1
    """Lane of the same direction to the right that may be changed into, or -1."""
    junction: int = -1
    """Junction the lane is part of, or -1."""
    turn: Turn = Turn.NONE
    kind: LaneKind = LaneKind.DRIVING
    source: str = ""
    """Name in the imported file, such as `road 12 section 0 lane -1`, for messages."""


@dataclass(frozen=True, kw_only=True)
class Marking:
    """A painted line."""

    points: Points
    """Centre of the paint [n, 3]."""
    width: float = 0.12
    """[m]"""
    colour: str = "white"
    """white | yellow"""
    dash: float = 0.0
    """Painted length of a dash [m]; 0 is a solid line."""
    gap: float = 0.0
    """Unpainted length between dashes [m]."""


@dataclass(frozen=True, kw_only=True)
class Crosswalk:
    """Where people cross."""

    polygon: Points
    """Its corners in order [n, 3], n >= 3, the first one not repeated."""


@dataclass(frozen=True, kw_only=True)
class Signal:
    """A traffic light with its own lamps."""

    position: NDArray[np.float64]
    """Of the lamps [3]."""
    heading: float
    """Of the traffic that it governs [rad]; the lamps face the other way."""
    controller: int = 0
    """Signals of one controller, usually a junction, take turns."""
    group: int = 0
    """Signals of one controller and group always show the same; the groups 0, 1, .. of a controller are green in turn."""
    source: str = ""
    """Name in the imported file, for messages."""


@dataclass(frozen=True, kw_only=True)
class StopLine:
    """Where the traffic of some lanes has to stop."""

    points: Points
    """The line [n, 3], n >= 2, from the left of the traffic to its right."""
    lanes: tuple[int, ...]
    """Lanes that it crosses or that end at it."""
    signal: int = -1
    """The signal whose red holds the traffic, an index in `RoadMap.signals`; -1 for a sign."""


@dataclass(frozen=True, kw_only=True)
class Obstacle:
    """A box that never moves."""

    position: NDArray[np.float64]
    """Middle of its bottom [3]."""
    yaw: float
    size: NDArray[np.float64]
    """Length, width, height [3] [m]."""
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class RoadMap:
    """A whole map. Immutable; `validate()` has passed for every map that the package hands out."""

    name: str
    lanes: tuple[Lane, ...]
    markings: tuple[Marking, ...] = ()
    edges: tuple[Points, ...] = ()
    """Boundary of the union of drivable areas: polylines [n, 3] with the drivable side on the left; closed where
    first == last."""
    crosswalks: tuple[Crosswalk, ...] = ()
    signals: tuple[Signal, ...] = ()
    stop_lines: tuple[StopLine, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    notes: tuple[str, ...] = ()
    """What an importer skipped, with counts."""

    def validate(self) -> RoadMap:
        """Check everything that the simulator relies on.

        Returns:
            The map itself.

        Raises:
            ValueError: names the map, the lane or line, the field and the index at fault.
        """
        if not self.lanes:
            raise ValueError(f"map {self.name}: expected at least one lane, got none")
        for index, lane in enumerate(self.lanes):
            self._check_lane(index, lane)
        for lane in self.lanes:
            self._check_links(lane)
        for i, marking in enumerate(self.markings):
            self._check_marking(f"map {self.name}: marking {i}", marking)
        for i, edge in enumerate(self.edges):
            _check_points(edge, f"map {self.name}: edge {i}")
        for i, crosswalk in enumerate(self.crosswalks):
            _check_points(crosswalk.polygon, f"map {self.name}: crosswalk {i}: polygon", least=3)
        for i, signal in enumerate(self.signals):
            self._check_signal(f"map {self.name}: signal {i} ({signal.source or 'no source'})", signal)
        for i, stop_line in enumerate(self.stop_lines):
            self._check_stop_line(f"map {self.name}: stop line {i}", stop_line)
        for i, obstacle in enumerate(self.obstacles):
            self._check_obstacle(f"map {self.name}: obstacle {i} ({obstacle.source or 'no source'})", obstacle)
        return self

    def only(self, *kinds: LaneKind) -> RoadMap:
        """The map with lanes of these kinds alone, numbered anew; links and stop lines of the others are left out."""
        if all(lane.kind in kinds for lane in self.lanes):
            return self
        kept = [lane for lane in self.lanes if lane.kind in kinds]
        new = {lane.id: i for i, lane in enumerate(kept)}

        def renumber(ids: Sequence[int]) -> tuple[int, ...]:
            return tuple(new[i] for i in ids if i in new)

        lanes = tuple(
            replace(
                lane,
                id=i,
                successors=renumber(lane.successors),
                predecessors=renumber(lane.predecessors),
                left_neighbour=new.get(lane.left_neighbour, -1),
                right_neighbour=new.get(lane.right_neighbour, -1),
            )
            for i, lane in enumerate(kept)
        )
        lines = [replace(line, lanes=renumber(line.lanes)) for line in self.stop_lines]
        return replace(self, lanes=lanes, stop_lines=tuple(line for line in lines if line.lanes))

    def save(self, path: str | Path) -> None:
        """Write the map as `.npz`, see `map_file`.

        Raises:
            ValueError: `path` does not end in `.npz`, or the map is not valid.
        """
        from .map_file import save_map

        save_map(self.validate(), Path(path))

    def _check_marking(self, where: str, marking: Marking) -> None:
        _check_points(marking.points, f"{where}: points")
        if marking.colour not in ("white", "yellow"):
            raise ValueError(f"{where}: colour: expected white or yellow, got {marking.colour!r}")
        for name in ("width", "dash", "gap"):
            value = getattr(marking, name)
            if not (np.isfinite(value) and value >= 0) or (name == "width" and value == 0):
                raise ValueError(f"{where}: {name}: expected a finite length >= 0 (width > 0), got {value!r}")

    def _check_signal(self, where: str, signal: Signal) -> None:
        _check_triple(signal.position, f"{where}: position")
        if not np.isfinite(signal.heading):
            raise ValueError(f"{where}: heading: expected a finite angle, got {signal.heading!r}")
        for name in ("controller", "group"):
            if getattr(signal, name) < 0:
                raise ValueError(f"{where}: {name}: expected a number >= 0, got {getattr(signal, name)}")

    def _check_stop_line(self, where: str, line: StopLine) -> None:
        _check_points(line.points, f"{where}: points")
        if np.hypot(*(line.points[-1] - line.points[0])[:2]) < 0.1:
            raise ValueError(f"{where}: points: expected ends at least 0.1 m apart in plan")
        if not line.lanes or len(set(line.lanes)) != len(line.lanes):
            raise ValueError(f"{where}: lanes: expected distinct lanes, at least one, got {line.lanes}")
        for i, lane in enumerate(line.lanes):
            if not 0 <= lane < len(self.lanes):
                raise ValueError(
                    f"{where}: lanes[{i}]: lane {lane} does not exist; lanes are 0 to {len(self.lanes) - 1}"
                )
        if not -1 <= line.signal < len(self.signals):
            raise ValueError(
                f"{where}: signal: expected -1 or a signal; there are {len(self.signals)}, got {line.signal}"
            )

    def _check_obstacle(self, where: str, obstacle: Obstacle) -> None:
        _check_triple(obstacle.position, f"{where}: position")
        _check_triple(obstacle.size, f"{where}: size")
        if not (obstacle.size > 0).all():
            raise ValueError(f"{where}: size: expected lengths > 0, got {obstacle.size.tolist()}")
        if not np.isfinite(obstacle.yaw):
            raise ValueError(f"{where}: yaw: expected a finite angle, got {obstacle.yaw!r}")

    def _check_lane(self, index: int, lane: Lane) -> None:
        where = f"map {self.name}: lane {index} ({lane.source or 'no source'})"
        if lane.id != index:
            raise ValueError(f"{where}: id: expected its index {index}, got {lane.id}")
        for name in ("centre", "left", "right"):
            points = getattr(lane, name)
            _check_points(points, f"{where}: {name}")
            if len(points) != len(lane.centre):
                raise ValueError(f"{where}: {name}: expected {len(lane.centre)} points as in centre, got {len(points)}")
        same = np.flatnonzero(np.hypot(*np.diff(lane.centre[:, :2], axis=0).T) < 1e-6)
        if same.size:
            raise ValueError(f"{where}: centre: points {same[0]} and {same[0] + 1} coincide in x, y")
        if not (np.isfinite(lane.speed_limit) and lane.speed_limit > 0):
            raise ValueError(f"{where}: speed_limit: expected a positive number, got {lane.speed_limit!r}")

    def _check_links(self, lane: Lane) -> None:
        where = f"map {self.name}: lane {lane.id} ({lane.source or 'no source'})"
        n = len(self.lanes)
        for name, back in (("successors", "predecessors"), ("predecessors", "successors")):
            targets = getattr(lane, name)
            if len(set(targets)) != len(targets):
                raise ValueError(f"{where}: {name}: expected distinct lanes, got {targets}")
            for i, target in enumerate(targets):
                if not 0 <= target < n:
                    raise ValueError(f"{where}: {name}[{i}]: lane {target} does not exist; lanes are 0 to {n - 1}")
                if lane.id not in getattr(self.lanes[target], back):
                    raise ValueError(f"{where}: {name}[{i}]: lane {target} does not list it among its {back}")
            for i, target in enumerate(targets if name == "successors" else ()):
                gap = float(np.linalg.norm(self.lanes[target].centre[0] - lane.centre[-1]))
                if gap > LINK_GAP_M:
                    raise ValueError(
                        f"{where}: {name}[{i}]: lane {target} begins {gap:.2f} m from its end; allowed are {LINK_GAP_M:g} m"
                    )
        for name in ("left_neighbour", "right_neighbour"):
            target = getattr(lane, name)
            if target != -1 and (not 0 <= target < n or target == lane.id):
                raise ValueError(f"{where}: {name}: expected -1 or another lane from 0 to {n - 1}, got {target}")


def _check_triple(values: NDArray[np.float64], where: str) -> None:
    if not isinstance(values, np.ndarray) or values.dtype != np.float64 or values.shape != (3,):
        raise ValueError(
            f"{where}: expected a float64 array [3], got {getattr(values, 'shape', type(values).__name__)}"
        )
    if not np.isfinite(values).all():
        raise ValueError(f"{where}: expected finite numbers, got {values.tolist()}")


def _check_points(points: Points, where: str, least: int = 2) -> None:
    if not isinstance(points, np.ndarray) or points.dtype != np.float64 or points.ndim != 2 or points.shape[1] != 3:
        shape = getattr(points, "shape", type(points).__name__)
        raise ValueError(f"{where}: expected a float64 array [n, 3], got {shape}")
    if len(points) < least:
        raise ValueError(f"{where}: expected at least {least} points, got {len(points)}")
    bad = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if bad.size:
        raise ValueError(f"{where}[{bad[0]}]: expected finite numbers, got {points[bad[0]].tolist()}")
