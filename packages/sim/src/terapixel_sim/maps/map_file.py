"""The `.npz` file of a `RoadMap`: one array for each field of each kind of thing, no pickle.

A field that is a number, a word or three floats is an array with a row for each thing, named like `lane_speed_limit`. One
whose length varies is two, the rows end to end and where each begins: `lane_centre` and `lane_centre_offsets`.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .road_map import Crosswalk, Lane, LaneKind, Marking, Obstacle, RoadMap, Signal, StopLine, Turn

MAGIC = "terapixel-map"
VERSION = 2

_THINGS: dict[str, tuple[type, dict[str, Any]]] = {
    "lane": (
        Lane,
        {
            "id": int, "centre": "points", "left": "points", "right": "points", "speed_limit": float,
            "successors": "ids", "predecessors": "ids", "left_neighbour": int, "right_neighbour": int,
            "junction": int, "turn": Turn, "kind": LaneKind, "source": str,
        },
    ),
    "marking": (Marking, {"points": "points", "width": float, "colour": str, "dash": float, "gap": float}),
    "crosswalk": (Crosswalk, {"polygon": "points"}),
    "signal": (Signal, {"position": "triple", "heading": float, "controller": int, "group": int, "source": str}),
    "stop_line": (StopLine, {"points": "points", "lanes": "ids", "signal": int}),
    "obstacle": (Obstacle, {"position": "triple", "yaw": float, "size": "triple", "source": str}),
}  # fmt: skip
"""Each kind of thing, in the tuple of a map named by its plural, with its class and how each field is kept."""


def save_map(road_map: RoadMap, path: Path) -> None:
    """Write a valid map.

    Raises:
        ValueError: `path` does not end in `.npz`.
    """
    if path.suffix != ".npz":
        raise ValueError(f"{path}: expected a file name that ends in .npz")
    arrays: dict[str, NDArray[Any]] = {
        "magic": np.array(MAGIC),
        "version": np.array(VERSION),
        "name": np.array(road_map.name),
        "notes": np.array(road_map.notes, dtype=np.str_),
    }
    for thing, (_, fields) in _THINGS.items():
        rows = getattr(road_map, f"{thing}s")
        arrays[f"{thing}_count"] = np.array(len(rows))
        for name, kept in fields.items():
            _pack(arrays, f"{thing}_{name}", kept, [getattr(row, name) for row in rows])
    _pack(arrays, "edge", "points", road_map.edges)
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]  # its second parameter is a flag


def read_map(path: Path) -> RoadMap:
    """Read a map; whether it is sound is left to `RoadMap.validate`.

    Raises:
        ValueError: the file is damaged, no map, or of another version.
        OSError: it cannot be read.
    """
    try:
        with path.open("rb") as stream, zipfile.ZipFile(stream) as archive:
            arrays = {Path(name).stem: np.lib.format.read_array(archive.open(name)) for name in archive.namelist()}
        return _unpack_map(arrays)
    except (ValueError, TypeError, LookupError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path}: damaged or foreign map file: {' '.join(str(error).split())}") from None


def _unpack_map(arrays: dict[str, NDArray[Any]]) -> RoadMap:
    if "magic" not in arrays or str(arrays["magic"]) != MAGIC:
        raise ValueError(f"not a map file (no magic {MAGIC!r})")
    if int(arrays["version"]) != VERSION:
        raise ValueError(f"format version {int(arrays['version'])}, this program reads {VERSION}; import the map again")
    things = {}
    for thing, (kind, fields) in _THINGS.items():
        count = int(arrays[f"{thing}_count"])
        columns = [_unpack(arrays, f"{thing}_{name}", kept, count) for name, kept in fields.items()]
        things[f"{thing}s"] = tuple(kind(**dict(zip(fields, row, strict=True))) for row in zip(*columns, strict=True))
    return RoadMap(
        name=str(arrays["name"]),
        edges=tuple(_rows(arrays, "edge")),
        notes=tuple(str(note) for note in arrays["notes"]),
        **things,
    )


def _pack(arrays: dict[str, NDArray[Any]], name: str, kept: Any, values: Sequence[Any]) -> None:
    if kept in ("points", "ids"):
        empty = np.zeros((0, 3)) if kept == "points" else np.zeros(0, np.int64)
        arrays[f"{name}_offsets"] = np.cumsum([0, *map(len, values)], dtype=np.int64)
        arrays[name] = np.concatenate([empty, *(np.asarray(value, empty.dtype) for value in values)])
    elif kept == "triple":
        arrays[name] = np.array(values, np.float64).reshape(-1, 3)
    else:
        arrays[name] = np.array(values, np.str_ if kept is str else np.float64 if kept is float else np.int64)


def _unpack(arrays: dict[str, NDArray[Any]], name: str, kept: Any, count: int) -> list[Any]:
    if kept in ("points", "ids"):
        rows: list[Any] = _rows(arrays, name)
        rows = [tuple(row.tolist()) for row in rows] if kept == "ids" else rows
    else:
        rows = list(arrays[name]) if kept == "triple" else [kept(value) for value in arrays[name].tolist()]
    if len(rows) != count:
        raise ValueError(f"{name}: expected {count} rows, got {len(rows)}")
    return rows


def _rows(arrays: dict[str, NDArray[Any]], name: str) -> list[NDArray[Any]]:
    offsets, flat = arrays[f"{name}_offsets"], arrays[name]
    if offsets[0] != 0 or offsets[-1] != len(flat) or (np.diff(offsets) < 0).any():
        raise ValueError(f"{name}: offsets do not fit")
    return [flat[a:b] for a, b in pairwise(offsets)]
