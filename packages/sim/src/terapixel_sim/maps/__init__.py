"""Road maps: the data model, importers, procedural towns and the arrays that kernels read."""

from .road_map import Lane, Marking, RoadMap, Turn, load_map

__all__ = ["Lane", "Marking", "RoadMap", "Turn", "load_map"]
