"""The one road map type: lanes, markings and edges in 3-D, with a versioned `.npz` file format.

Frame: x east, y north, z up [m]. A lane's points run in its direction of travel.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
"""A polyline, float64 [n, 3]: x, y, z [m]."""


MAGIC = "terapixel-map"
VERSION = 1
"""Of the `.npz` format."""
LINK_GAP_M = 1.0
"""A lane begins no farther than this from the end of one that leads into it; a route would jump."""


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
    """Boundary of the union of drivable areas: polylines [n, 3] with the drivable side on the left; closed where
    first == last."""
    notes: tuple[str, ...] = field(default=())
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
            where = f"map {self.name}: marking {i}"
            _check_points(marking.points, f"{where}: points")
            if marking.colour not in ("white", "yellow"):
                raise ValueError(f"{where}: colour: expected white or yellow, got {marking.colour!r}")
            for name in ("width", "dash", "gap"):
                value = getattr(marking, name)
                if not (np.isfinite(value) and value >= 0) or (name == "width" and value == 0):
                    raise ValueError(f"{where}: {name}: expected a finite length >= 0 (width > 0), got {value!r}")
        for i, edge in enumerate(self.edges):
            _check_points(edge, f"map {self.name}: edge {i}")
        return self

    def save(self, path: str | Path) -> None:
        """Write the map as `.npz` (format version 1): ragged arrays end to end with their offsets, no pickle.

        Raises:
            ValueError: `path` does not end in `.npz`, or the map is not valid.
        """
        if Path(path).suffix != ".npz":
            raise ValueError(f"{path}: expected a file name that ends in .npz")
        self.validate()
        ints = [(a.left_neighbour, a.right_neighbour, a.junction, int(a.turn)) for a in self.lanes]
        arrays: dict[str, Any] = {
            "magic": np.array(MAGIC),
            "version": np.array(VERSION),
            "name": np.array(self.name),
            "notes": np.array(self.notes, dtype=np.str_),
            "lane_ints": np.array(ints, dtype=np.int64),
            "lane_limit": np.array([a.speed_limit for a in self.lanes], dtype=np.float64),
            "lane_source": np.array([a.source for a in self.lanes], dtype=np.str_),
            "marking_floats": np.array([(m.width, m.dash, m.gap) for m in self.markings], np.float64).reshape(-1, 3),
            "marking_colour": np.array([m.colour for m in self.markings], dtype=np.str_),
        }
        for name in ("centre", "left", "right"):
            _pack(arrays, f"lane_{name}", [getattr(a, name) for a in self.lanes])
        for name in ("successors", "predecessors"):
            _pack(arrays, f"lane_{name}", [np.array(getattr(a, name), dtype=np.int64) for a in self.lanes])
        _pack(arrays, "marking_points", [m.points for m in self.markings])
        _pack(arrays, "edge_points", self.edges)
        np.savez_compressed(path, **arrays)

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


def load_map(source: str | Path) -> RoadMap:
    """Load a map from a file or make a procedural one.

    Args:
        source: a `.npz` file written by `RoadMap.save`, an OpenDRIVE file `.xodr` or `.xodr.gz`, or `grid:SEED` or
            `curvy:SEED` for a procedural town, SEED a non-negative integer.

    Raises:
        ValueError: an unknown kind of source, or a file that is damaged or not valid.
        FileNotFoundError: no such file.
    """
    text = str(source)
    kind, _, seed = text.partition(":")
    if kind in ("grid", "curvy") and seed.isascii() and seed.isdigit():
        from . import procedural

        return (procedural.grid_town if kind == "grid" else procedural.curvy_town)(int(seed))
    if text.endswith((".npz", ".xodr", ".xodr.gz")) and not Path(source).is_file():
        raise FileNotFoundError(f"map {text!r}: no such file")
    if text.endswith(".npz"):
        return _load_npz(Path(source))
    if text.endswith((".xodr", ".xodr.gz")):
        from .opendrive import load_opendrive

        return load_opendrive(Path(source)).validate()
    raise ValueError(
        f"map {text!r}: expected a file .npz, .xodr or .xodr.gz, or grid:SEED or curvy:SEED with a non-negative integer"
    )


def _load_npz(path: Path) -> RoadMap:
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such map file")
    try:
        with path.open("rb") as stream, zipfile.ZipFile(stream) as archive:
            data = {Path(name).stem: np.lib.format.read_array(archive.open(name)) for name in archive.namelist()}
        if "magic" not in data or str(data["magic"]) != MAGIC:
            raise ValueError(f"not a map file (no magic {MAGIC!r})")
        if int(data["version"]) != VERSION:
            raise ValueError(f"format version {int(data['version'])}, this program reads {VERSION}")
        road_map = _unpack_map(data)
    except (ValueError, TypeError, LookupError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path}: damaged or foreign map file: {' '.join(str(error).split())}") from None
    return road_map.validate()


def _unpack_map(data: dict[str, Any]) -> RoadMap:
    ints, limits, sources = data["lane_ints"], data["lane_limit"], data["lane_source"]
    n = len(ints)
    lanes = {k: _unpack(data, f"lane_{k}", n) for k in ("centre", "left", "right", "successors", "predecessors")}
    floats, colours = data["marking_floats"], data["marking_colour"]
    lines = _unpack(data, "marking_points", len(floats))
    return RoadMap(
        name=str(data["name"]),
        lanes=tuple(
            Lane(
                id=i,
                centre=lanes["centre"][i],
                left=lanes["left"][i],
                right=lanes["right"][i],
                speed_limit=float(limits[i]),
                successors=tuple(lanes["successors"][i].tolist()),
                predecessors=tuple(lanes["predecessors"][i].tolist()),
                left_neighbour=int(ints[i, 0]),
                right_neighbour=int(ints[i, 1]),
                junction=int(ints[i, 2]),
                turn=Turn(int(ints[i, 3])),
                source=str(sources[i]),
            )
            for i in range(n)
        ),
        markings=tuple(
            Marking(points=p, width=float(f[0]), colour=str(c), dash=float(f[1]), gap=float(f[2]))
            for p, f, c in zip(lines, floats, colours, strict=True)
        ),
        edges=tuple(_unpack(data, "edge_points", None)),
        notes=tuple(str(note) for note in data["notes"]),
    )


def _pack(arrays: dict[str, Any], name: str, rows: Sequence[NDArray[Any]]) -> None:
    arrays[f"{name}_offsets"] = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    arrays[name] = np.concatenate(rows) if rows else np.zeros((0, 3))


def _unpack(data: dict[str, Any], name: str, count: int | None) -> list[NDArray[Any]]:
    offsets, flat = data[f"{name}_offsets"], data[name]
    fits = offsets[0] == 0 and offsets[-1] == len(flat) and (np.diff(offsets) >= 0).all()
    if not fits or (count is not None and len(offsets) != count + 1):
        raise ValueError(f"{name}: offsets do not fit")
    return [flat[a:b] for a, b in pairwise(offsets)]


def _check_points(points: Points, where: str) -> None:
    if not isinstance(points, np.ndarray) or points.dtype != np.float64 or points.ndim != 2 or points.shape[1] != 3:
        shape = getattr(points, "shape", type(points).__name__)
        raise ValueError(f"{where}: expected a float64 array [n, 3], got {shape}")
    if len(points) < 2:
        raise ValueError(f"{where}: expected at least 2 points, got {len(points)}")
    bad = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if bad.size:
        raise ValueError(f"{where}[{bad[0]}]: expected finite numbers, got {points[bad[0]].tolist()}")
