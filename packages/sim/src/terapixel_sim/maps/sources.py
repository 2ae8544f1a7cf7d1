"""What a map is loaded from: files of several formats, told apart by their suffix, and procedural towns."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from .road_map import RoadMap

_READERS = {
    ".npz": "map_file:read_map",
    ".xodr": "opendrive:load_opendrive",
    ".xodr.gz": "opendrive:load_opendrive",
}
"""Module and function that read a file of each suffix; imported when first needed, for some need an extra."""
_TOWNS = {"grid": "procedural:grid_town", "signals": "procedural:signal_town", "curvy": "procedural:curvy_town"}


def load_map(source: str | Path) -> RoadMap:
    """Load a map from a file or make a procedural one.

    Args:
        source: a `.npz` file written by `RoadMap.save`, an OpenDRIVE file `.xodr` or `.xodr.gz`, or `grid:SEED`,
            `signals:SEED` or `curvy:SEED` for a procedural town, SEED a non-negative integer.

    Raises:
        ValueError: an unknown kind of source, or a file that is damaged or not valid.
        FileNotFoundError: no such file.
    """
    text = str(source)
    kind, _, seed = text.partition(":")
    if kind in _TOWNS and seed.isascii() and seed.isdigit():
        made: RoadMap = _find(_TOWNS[kind])(int(seed))
        return made
    suffix = next((s for s in sorted(_READERS, key=len, reverse=True) if text.endswith(s)), None)
    if suffix is None:
        raise ValueError(
            f"map {text!r}: expected a file {_listed(_READERS)}, or {_listed(f'{town}:SEED' for town in _TOWNS)} "
            "with a non-negative integer"
        )
    if not Path(source).is_file():
        raise FileNotFoundError(f"map {text!r}: no such file")
    read: RoadMap = _find(_READERS[suffix])(Path(source))
    return read.validate()


def _find(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(import_module(f".{module}", __package__), function)


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
