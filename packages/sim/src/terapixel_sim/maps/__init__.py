"""Road maps: the data model, importers, procedural towns and the arrays that kernels read."""

from .road_map import Crosswalk, Lane, LaneKind, Marking, Obstacle, RoadMap, Signal, StopLine, Turn
from .sources import load_map

__all__ = [
    "Crosswalk",
    "Lane",
    "LaneKind",
    "Marking",
    "Obstacle",
    "RoadMap",
    "Signal",
    "StopLine",
    "Turn",
    "load_map",
]
