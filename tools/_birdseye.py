"""A drive seen from above, drawn with Pillow."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from terapixel_sim import AgentCol, RoadMap, SlotCol, Status

FloatArray = NDArray[np.float64]

GROUND, ROAD, EDGE = (96, 112, 84), (70, 70, 74), (200, 120, 60)
PAINT = {"white": (235, 235, 235), "yellow": (235, 200, 40)}
CAR, WRECK, EGO, PLAN, GOAL = (150, 170, 210), (120, 60, 60), (225, 66, 60), (80, 230, 120), (250, 220, 90)
SUPERSAMPLE = 2


class BirdsEye:
    """Draws a road map and the cars on it around one point, that point's heading up."""

    def __init__(self, road_map: RoadMap, *, size_px: int = 432, span_m: float = 90.0) -> None:
        self.size, self.scale = size_px * SUPERSAMPLE, size_px * SUPERSAMPLE / span_m
        self.reach = span_m
        self.areas = _areas(road_map)
        self.paint = [(m.points[:, :2], PAINT[m.colour], m.dash, m.gap) for m in road_map.markings]
        self.edges = [e[:, :2] for e in road_map.edges]

    def draw(
        self,
        pose: FloatArray,  # x, y, yaw of the view's centre
        agents: FloatArray,  # [A, AgentCol]
        slots: NDArray[np.int64],  # [A, SlotCol]
        ego: int,
        plan: FloatArray | None = None,  # [n, 2], world frame
        goals: FloatArray | None = None,  # [n, 2], world frame
    ) -> Image.Image:
        """One picture, RGB."""
        image = Image.new("RGB", (self.size, self.size), GROUND)
        pen = ImageDraw.Draw(image)
        for area, colour in self.areas:
            if _within(area, pose, self.reach):
                pen.polygon(self._to_px(area, pose), fill=colour)
        for points, colour, dash, gap in self.paint:
            if _within(points, pose, self.reach):
                for piece in dashes(points, dash, gap):
                    pen.line(self._to_px(piece, pose), fill=colour, width=SUPERSAMPLE)
        for edge in self.edges:
            if _within(edge, pose, self.reach):
                pen.line(self._to_px(edge, pose), fill=EDGE, width=SUPERSAMPLE)
        for goal in goals if goals is not None else ():
            (x, y), r = self._to_px(goal[None], pose)[0], 1.2 * self.scale
            pen.ellipse((x - r, y - r, x + r, y + r), outline=GOAL, width=2 * SUPERSAMPLE)
        for i, row in enumerate(agents):
            status = slots[i, SlotCol.STATUS]
            if status in (Status.LIVE, Status.STOPPED, Status.TIMED_OUT):
                colour = EGO if i == ego else WRECK if status == Status.STOPPED else CAR
                pen.polygon(self._to_px(box_corners(row), pose), fill=colour, outline=(20, 20, 20))
        if plan is not None:
            pen.line(self._to_px(plan, pose), fill=PLAN, width=2 * SUPERSAMPLE)
            for x, y in self._to_px(plan, pose):
                pen.ellipse((x - 4, y - 4, x + 4, y + 4), fill=PLAN)
        return image.resize((self.size // SUPERSAMPLE,) * 2, Image.Resampling.BOX)

    def _to_px(self, points: FloatArray, pose: FloatArray) -> list[tuple[float, float]]:
        c, s = math.cos(pose[2]), math.sin(pose[2])
        dx, dy = points[:, 0] - pose[0], points[:, 1] - pose[1]
        ahead, left = c * dx + s * dy, c * dy - s * dx
        # the centre of the view lies low, so that more is seen of what is ahead
        return list(zip(self.size / 2 - left * self.scale, 0.7 * self.size - ahead * self.scale, strict=True))


def overview(road_map: RoadMap, size_px: int = 1000) -> Image.Image:
    """The whole map, north up."""
    points = np.vstack([np.vstack([lane.left, lane.right])[:, :2] for lane in road_map.lanes])
    low, high = points.min(0), points.max(0)
    span = float((high - low).max()) * 1.05
    view = BirdsEye(road_map, size_px=size_px, span_m=span)
    centre = (low + high) / 2 - np.array([0.0, 0.2 * span])  # `draw` puts its pose at 0.7 of the height
    nobody = np.zeros((0, AgentCol.CONDITION)), np.zeros((0, SlotCol.ROUTE), dtype=np.int64)
    return view.draw(np.array([*centre, math.pi / 2]), *nobody, ego=-1)


def box_corners(row: FloatArray) -> FloatArray:
    """Corners [4, 2] of an agent's box [m]."""
    half = np.array([[1, 1], [1, -1], [-1, -1], [-1, 1]]) * 0.5 * row[[AgentCol.LENGTH, AgentCol.WIDTH]]
    c, s = math.cos(row[AgentCol.YAW]), math.sin(row[AgentCol.YAW])
    corners: FloatArray = row[[AgentCol.X, AgentCol.Y]] + half @ np.array([[c, s], [-s, c]])
    return corners


def dashes(points: FloatArray, dash: float, gap: float) -> list[FloatArray]:
    """Cut a line [n, 2] into its painted pieces; `dash` 0 is a solid line."""
    if dash <= 0:
        return [points]
    s = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(points, axis=0).T))])
    pieces = []
    for start in np.arange(0.0, s[-1], dash + gap):
        at = np.unique(np.concatenate([[start], s[(s > start) & (s < start + dash)], [min(start + dash, s[-1])]]))
        if len(at) > 1:
            pieces.append(np.column_stack([np.interp(at, s, points[:, k]) for k in (0, 1)]))
    return pieces


def _areas(road_map: RoadMap) -> list[tuple[FloatArray, tuple[int, int, int]]]:
    """Polygons and their colours in drawing order: lanes, then what closed edges enclose, an island after its road.

    A closed edge that runs counter-clockwise has the road inside, one that runs clockwise has it outside.
    """
    lanes = [(np.vstack([lane.left[:, :2], lane.right[::-1, :2]]), ROAD) for lane in road_map.lanes]
    rings = [e[:, :2] for e in road_map.edges if np.array_equal(e[0], e[-1])]
    sizes = [_signed_area(ring) for ring in rings]
    order = sorted(range(len(rings)), key=lambda i: -abs(sizes[i]))
    return lanes + [(rings[i], ROAD if sizes[i] > 0 else GROUND) for i in order]


def _signed_area(ring: FloatArray) -> float:
    x, y = ring.T
    return 0.5 * float(x[:-1] @ y[1:] - x[1:] @ y[:-1])


def _within(points: FloatArray, pose: FloatArray, reach: float) -> bool:
    low, high = points.min(0), points.max(0)
    return bool((low <= pose[:2] + reach).all() and (high >= pose[:2] - reach).all())
