"""Road edges: the boundary of the union of all that may be driven on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import shapely
from scipy.spatial import cKDTree
from shapely.geometry.base import BaseGeometry
from shapely.geometry.polygon import orient

from .road_map import ASPHALT, Lane, Points

SEAM_M = 0.03
"""Gaps up to twice this wide between neighbouring areas are closed [m]."""
MIN_HOLE_M2 = 25.0
"""Smaller holes are asphalt between turning paths and are filled [m2]."""
TOLERANCE_M = 0.02
"""Edges are simplified by at most this [m]."""


def _lane_polygon(lane: Lane) -> BaseGeometry:
    polygon = shapely.Polygon(np.concatenate([lane.left[:, :2], lane.right[::-1, :2]]))
    if shapely.is_valid(polygon):
        return polygon
    # a boundary that folds back on itself in a tight bend: take the strip piece by piece
    quads = np.stack([lane.left[:-1, :2], lane.left[1:, :2], lane.right[1:, :2], lane.right[:-1, :2]], axis=1)
    return shapely.union_all(shapely.convex_hull(shapely.polygons(quads)))


def _polygons(geometry: BaseGeometry) -> list[shapely.Polygon]:
    return [p for p in shapely.get_parts(geometry) if isinstance(p, shapely.Polygon) and p.area > 0.01]


def drivable_area(lanes: Iterable[Lane], areas: Iterable[Points] = ()) -> BaseGeometry:
    """Return the union of lanes and extra areas in the ground plane.

    Hairline seams are closed, holes under `MIN_HOLE_M2` filled and the boundary simplified by `TOLERANCE_M`; straight
    borders stay where they are. Roads on different levels merge where they cross.

    Args:
        lanes: lanes; each of `ASPHALT` covers what lies between its left and right boundary, others nothing.
        areas: further polygons [n, 2 or 3] in order, open or closed, such as junction corners or parking bays.

    Returns:
        A shapely Polygon or MultiPolygon (x, y) [m].

    Raises:
        ValueError: nothing to unite.
    """
    parts: list[BaseGeometry] = [_lane_polygon(lane) for lane in lanes if lane.kind in ASPHALT]
    parts += [shapely.make_valid(shapely.Polygon(np.asarray(a, dtype=np.float64)[:, :2])) for a in areas]
    if not parts:
        raise ValueError("drivable_area: expected at least one lane or area, got none")
    union = shapely.union_all(parts)
    # mitred joins bring straight borders back exactly; a rounded join would cut the corners
    grown = shapely.buffer(union, SEAM_M, join_style="mitre", mitre_limit=5.0)
    closed = shapely.buffer(grown, -SEAM_M, join_style="mitre", mitre_limit=5.0)
    filled = [
        shapely.Polygon(p.exterior, [h for h in p.interiors if shapely.Polygon(h).area >= MIN_HOLE_M2])
        for p in _polygons(closed)
    ]
    return shapely.simplify(shapely.union_all(filled), TOLERANCE_M, preserve_topology=True)


def drivable_edges(lanes: Sequence[Lane], areas: Iterable[Points] = ()) -> tuple[Points, ...]:
    """Return the closed boundary lines of `drivable_area`, with the drivable side on the left.

    Args:
        lanes: lanes; their boundary points also give the height of the nearest edge points.
        areas: see `drivable_area`.

    Returns:
        Rings float64 [n, 3] whose first and last points are equal; outer ones run counter-clockwise, holes clockwise.
    """
    rings = []
    for polygon in _polygons(drivable_area(lanes, areas)):
        oriented = orient(polygon)
        rings += [shapely.get_coordinates(r) for r in (oriented.exterior, *oriented.interiors)]
    border = np.concatenate([b for lane in lanes for b in (lane.left, lane.right)])
    tree = cKDTree(border[:, :2])
    return tuple(np.column_stack([r, border[tree.query(r)[1], 2]]) for r in rings)
