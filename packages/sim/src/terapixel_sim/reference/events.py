"""Twin of `kernels/events.py`, float64: off-road and goal."""

from __future__ import annotations

from ..layout import EdgeCol, Head, MapFloat, MapInt
from .geometry import Box, corners, path_distance, segment_meets_box, segments_cross
from .lane import LEVEL_M, Bank


def off_road(bank: Bank, map_id: int, before: Box, box: Box, z: float, on_lane: bool) -> bool:
    """Whether a box meets a road edge, a corner crossed one on the way, or the centre is outside the road.

    Args:
        bank: the map bank.
        map_id: index of the map.
        before: the previous box.
        box: the present box.
        z: road height of the agent; edges of other levels do not count.
        on_lane: the centre lies within half a width of a lane of its level, and so inside.
    """
    cell = bank.cell(map_id, box[0], box[1])
    if cell < 0:
        return True
    mi = int(bank.ints[Head.MAPS]) + map_id * len(MapInt)
    mf = int(bank.ints[Head.F_MAPS]) + map_id * len(MapFloat)
    iy, ix = divmod(cell - int(bank.ints[mi + MapInt.CELL0]), int(bank.ints[mi + MapInt.NX]))
    side = float(bank.floats[mf + MapFloat.CELL])
    middle = (
        float(bank.floats[mf + MapFloat.ORIGIN_X]) + (ix + 0.5) * side,
        float(bank.floats[mf + MapFloat.ORIGIN_Y]) + (iy + 0.5) * side,
    )
    inside = bank.inside(cell)
    for item in bank.edge_items(cell)[0]:
        q = int(bank.ints[Head.F_EDGES]) + item * len(EdgeCol)
        x0, y0, x1, y1, ze = (float(v) for v in bank.floats[q : q + len(EdgeCol)])
        if abs(ze - z) >= LEVEL_M:
            continue
        a, b = (x0, y0), (x1, y1)
        if segment_meets_box(a, b, box):
            return True
        if any(segments_cross(p, q, a, b) for p, q in zip(corners(before), corners(box), strict=True)):
            return True
        inside ^= segments_cross(middle, (box[0], box[1]), a, b)
    return not (inside or on_lane)


def reaches_goal(before: Box, box: Box, goal: tuple[float, float], radius: float) -> bool:
    """Whether the centre's path passed within `radius` of a goal [m], in plan."""
    return path_distance((before[0], before[1]), (box[0], box[1]), goal) <= radius
