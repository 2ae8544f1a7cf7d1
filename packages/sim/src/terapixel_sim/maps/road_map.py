"""The one road map type: lanes, markings and edges in 3-D, with a versioned `.npz` file format.

Frame: x east, y north, z up [m]. A lane's points run in its direction of travel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
"""A polyline, float64 [n, 3]: x, y, z [m]."""


class Turn(IntEnum):
    """Where a junction lane leads; NONE outside junctions."""

    NONE = 0
    LEFT = 1
    STRAIGHT = 2
    RIGHT = 3


@dataclass(frozen=True, kw_only=True)
class Lane:
    """One drivable lane of one direction of travel."""

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
class RoadMap:
    """A whole map. Immutable; `validate()` has passed for every map that the package hands out."""

    name: str
    lanes: tuple[Lane, ...]
    markings: tuple[Marking, ...] = ()
    edges: tuple[Points, ...] = ()
    """Boundary of the union of drivable areas: polylines [n, 3] with the drivable side on the left; closed where first == last."""
    notes: tuple[str, ...] = field(default=())
    """What an importer skipped, with counts."""
