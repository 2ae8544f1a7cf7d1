"""OpenDRIVE importer: `.xodr` or `.xodr.gz` to a `RoadMap`.

Written against the ASAM OpenDRIVE standard (1.4 to 1.8). Superelevation and lateral shape are not applied, objects and
signals are not imported; `RoadMap.notes` counts them.
"""

from __future__ import annotations

from collections import Counter
from os import PathLike
from pathlib import Path

from .edges import drivable_edges
from .opendrive_file import read_tree
from .opendrive_join import build_lanes, chains, set_neighbours
from .opendrive_lanes import Key, SectionFrame, Strip, bare_areas, section_frames, strips
from .opendrive_links import link
from .opendrive_marks import markings
from .opendrive_records import Records, read_records
from .road_map import RoadMap


def load_opendrive(path: str | PathLike[str]) -> RoadMap:
    """Import an OpenDRIVE file.

    Each drivable lane (driving, bidirectional, entry, exit and the ramp types) becomes one `Lane` in its direction of
    travel, by the road's traffic rule; lane sections between which nothing changes are joined. Parts narrower than 1 m
    are cut off. A bidirectional lane takes the direction of its side of the road. Lane changes follow the road marks.

    Args:
        path: the file; gzip is recognised by content.

    Returns:
        The map, in the file's own coordinates; `notes` counts what was skipped.

    Raises:
        ValueError: the file is truncated, holds a value that is missing or not finite (the message names file, road and
            record), or has no drivable lane.
        OSError: the file cannot be read.
    """
    path = Path(path)
    records = read_records(read_tree(path), str(path))
    kept: dict[Key, Strip] = {}
    short: set[Key] = set()
    frames: list[SectionFrame] = []
    for road in records.roads.values():
        for frame in section_frames(road, records.skipped):
            found, brief = strips(frame, records.skipped)
            kept.update((strip.key, strip) for strip in found)
            short.update(brief)
            frames.append(frame)
    if not kept:
        raise ValueError(f"{path}: no drivable lane")
    directions = {key: strip.forward for key, strip in kept.items()}
    directions.update({key: (key[2] < 0) != records.roads[key[0]].left_hand for key in short})
    link(records, kept, directions, short)
    for frame in frames:
        set_neighbours(frame, kept)
    chained = chains(kept, {road.id: len(road.sections) for road in records.roads.values()})
    lanes = build_lanes(chained, _junction_numbers(records))
    paint = tuple(marking for frame in frames for marking in markings(frame, records.skipped))
    return RoadMap(
        name=path.name.removesuffix(".gz").removesuffix(".xodr"),
        lanes=lanes,
        markings=paint,
        edges=drivable_edges(lanes, [area for frame in frames for area in bare_areas(frame)]),
        notes=_notes(records.skipped),
    ).validate()


def _junction_numbers(records: Records) -> dict[str, int]:
    """Integers for junction ids: the id itself where all are integers, else their order in the file."""
    names = dict.fromkeys([*records.junctions, *(road.junction for road in records.roads.values())])
    names.pop("-1", None)
    if all(name.isdecimal() for name in names):
        return {name: int(name) for name in names}
    return {name: i for i, name in enumerate(names)}


def _notes(skipped: Counter[str]) -> tuple[str, ...]:
    return tuple(f"{what}: {count}" for what, count in sorted(skipped.items()) if count)
