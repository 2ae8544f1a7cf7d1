"""Import a road map and write it as .npz.

python tools/import_map.py town.xodr town.npz --preview town.png --check
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from _birdseye import overview
from _run import cli
from terapixel_sim import RoadMap, SimConfig, load_map
from terapixel_sim.maps.bank import build_bank


def tool(argv: Sequence[str]) -> None:
    """Read IN, write OUT and what else is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "source", metavar="IN", help="grid:SEED, signals:SEED, curvy:SEED, or a .xodr, .xodr.gz or .npz file"
    )
    parser.add_argument("out", metavar="OUT", help="the .npz file to write")
    parser.add_argument("--preview", metavar="PNG", help="draw the map from above")
    parser.add_argument("--check", action="store_true", help="check the map and say how many agents it holds")
    words = parser.parse_args(argv)
    road_map = load_map(words.source)
    for line in report(road_map):
        print(line)
    if words.check:
        print(f"holds     {capacity(road_map)} agents")
    Path(words.out).parent.mkdir(parents=True, exist_ok=True)
    road_map.save(words.out)
    if words.preview:
        Path(words.preview).parent.mkdir(parents=True, exist_ok=True)
        overview(road_map).save(words.preview)


def report(road_map: RoadMap) -> list[str]:
    """What is on the map and what the importer left out."""
    km = sum(float(np.linalg.norm(np.diff(lane.centre, axis=0), axis=1).sum()) for lane in road_map.lanes) / 1000
    points = np.vstack([lane.centre for lane in road_map.lanes])
    size = np.ptp(points, axis=0)
    dead_ends = sum(not lane.successors for lane in road_map.lanes)
    return [
        f"name      {road_map.name}",
        f"lanes     {len(road_map.lanes)}, {km:.1f} km, {dead_ends} without a successor",
        f"markings  {len(road_map.markings)}",
        f"edges     {len(road_map.edges)}",
        f"size      {size[0]:.0f} x {size[1]:.0f} m, heights {points[:, 2].min():.1f} to {points[:, 2].max():.1f} m",
        *(f"note      {note}" for note in road_map.notes),
    ]


def capacity(road_map: RoadMap) -> int:
    """How many agents can start on the map.

    Raises:
        ValueError: The map is not sound, or has room for nobody.
    """
    road_map.validate()
    return build_bank([road_map], SimConfig(), "cpu").capacity[0]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    return cli(tool, argv)


if __name__ == "__main__":
    sys.exit(main())
