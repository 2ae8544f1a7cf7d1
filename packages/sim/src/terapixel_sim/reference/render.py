"""A slow and plain ray caster: the specification of the renderer and its test oracle.

Every pixel is the mean of S x S rays. A ray takes the nearest of the boxes it enters (slab test), the ground plane
(exact polygons of lanes and paint) and the sky. Nothing is shared with the kernels but the camera.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import shapely
import shapely.ops
from numpy.typing import NDArray

from ..camera import Camera, CameraRig
from ..maps.road_map import RoadMap

Array = NDArray[np.float64]
EDGE_WIDTH_M = 0.2


@dataclass(frozen=True)
class Box:
    """An upright box in the viewer's frame: x forward, y left, z up from its box centre on the road."""

    x: float
    """Centre [m]."""
    y: float
    z: float
    """Lower face over the viewer's ground plane [m]."""
    yaw: float
    """[rad]"""
    length: float
    width: float
    height: float


@dataclass(frozen=True)
class GroundShapes:
    """Exact polygons of what lies on a map's ground, in pieces (world frame)."""

    pieces: dict[str, shapely.STRtree]
    """road, edge, white, yellow"""

    def covers(self, kind: str, xy: Array) -> NDArray[np.bool_]:
        """Whether each point [n, 2] lies on this kind."""
        inside = np.zeros(len(xy), bool)
        inside[self.pieces[kind].query(shapely.points(xy), predicate="intersects")[0]] = True
        return inside


def ground_shapes(road_map: RoadMap) -> GroundShapes:
    """Polygons of the road and its paint; dashes are cut by arc length."""
    pieces: dict[str, list[Array]] = {"road": [], "edge": [], "white": [], "yellow": []}
    for lane in road_map.lanes:
        left, right = lane.left[:, :2], lane.right[:, :2]
        pieces["road"] += list(np.stack([left[:-1], right[:-1], right[1:], left[1:]], 1))
    for marking in road_map.markings:
        line = shapely.LineString(marking.points[:, :2])
        dashed = marking.dash > 0 and marking.gap > 0
        for s in np.arange(0.0, line.length, marking.dash + marking.gap) if dashed else [0.0]:
            piece = shapely.ops.substring(line, s, s + marking.dash) if dashed else line
            pieces[marking.colour] += _strips(np.array(piece.coords), marking.width / 2, -marking.width / 2)
    for edge in road_map.edges:
        pieces["edge"] += _strips(edge[:, :2], EDGE_WIDTH_M, 0.0)
    return GroundShapes({kind: shapely.STRtree([shapely.Polygon(q) for q in quads]) for kind, quads in pieces.items()})


def _strips(points: Array, left: float, right: float) -> list[Array]:
    """Rectangles along the segments of a polyline, between two offsets to its left."""
    a, b = points[:-1], points[1:]
    length = np.hypot(*(b - a).T)
    a, b, length = a[length > 0], b[length > 0], length[length > 0]
    normal = np.stack([(a - b)[:, 1], (b - a)[:, 0]], 1) / length[:, None]
    return list(np.stack([a + left * normal, a + right * normal, b + right * normal, b + left * normal], 1))


def draw(
    camera: Camera,
    rig: CameraRig,
    pose: tuple[float, float, float],
    boxes: list[Box],
    ground: GroundShapes,
    samples: int = 8,
) -> Array:
    """One view, f64 [3, height, width], 0 to 255.

    Args:
        camera: the camera, one of the rig's or not.
        rig: for its far depth and appearance.
        pose: x, y, yaw of the viewer (world).
        boxes: all boxes but the viewer's own.
        ground: of the viewer's map.
        samples: S, rays along each side of a pixel.
    """
    right, down, forward = camera.axes()
    fx, fy, cx, cy = camera.intrinsics()
    x = (np.arange(camera.width * samples) + 0.5) / samples
    y = (np.arange(camera.height * samples) + 0.5) / samples
    u, v = np.meshgrid((x - cx) / fx, (y - cy) / fy)
    rays = (forward + u[..., None] * right + v[..., None] * down).reshape(-1, 3)  # 1 along the optical axis
    depth, colour = _background(camera, rig, rays, pose, ground)
    look = rig.appearance
    for box in boxes:
        hit_depth, face = _enter(camera.mount(), rays, box)
        hit = hit_depth < np.minimum(depth, rig.far_m)
        depth = np.where(hit, hit_depth, depth)
        shades = np.array([*look.face_shade, min(look.face_shade)])
        colour = np.where(hit[:, None], np.rint(shades[face][:, None] * np.array(look.car)), colour)
    if look.haze_m > 0:
        clear = np.exp(-np.minimum(depth, rig.far_m) / look.haze_m)[:, None]
        colour = colour * clear + np.array(look.sky) * (1 - clear)
    shape = (camera.height, samples, camera.width, samples, 3)
    return colour.reshape(shape).mean((1, 3)).transpose(2, 0, 1)


def _background(
    camera: Camera, rig: CameraRig, rays: Array, pose: tuple[float, float, float], ground: GroundShapes
) -> tuple[Array, Array]:
    """Depth and colour of ground and sky."""
    look = rig.appearance
    falling = rays[:, 2] < 0
    depth = np.where(falling, camera.z_m / np.where(falling, -rays[:, 2], 1.0), np.inf)
    colour = np.where(falling[:, None], np.array(look.terrain, float), np.array(look.sky, float))
    near = np.flatnonzero(depth < rig.far_m)
    local = camera.mount()[:2] + depth[near, None] * rays[near, :2]
    c, s = np.cos(pose[2]), np.sin(pose[2])
    px, py = pose[0] + c * local[:, 0] - s * local[:, 1], pose[1] + s * local[:, 0] + c * local[:, 1]
    for kind in ("road", "edge", "white", "yellow"):
        colour[near[ground.covers(kind, np.stack([px, py], 1))]] = getattr(look, kind)
    return depth, colour


def _enter(origin: Array, rays: Array, box: Box) -> tuple[Array, NDArray[np.int64]]:
    """Depth at which each ray enters a box or inf, and the face: front, back, left, right, top, bottom."""
    c, s = np.cos(box.yaw), np.sin(box.yaw)
    turn = np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])
    o = turn @ (origin - np.array([box.x, box.y, box.z + box.height / 2]))
    d = rays @ turn.T
    half = np.array([box.length, box.width, box.height]) / 2
    if np.linalg.norm(np.maximum(np.abs(o) - half, 0)) <= 0.1:
        return np.full(len(rays), np.inf), np.zeros(len(rays), np.int64)
    d = np.where(np.abs(d) < 1e-12, 1e-12, d)
    a, b = (half - o) / d, (-half - o) / d
    near, far = np.minimum(a, b), np.maximum(a, b)
    axis = near.argmax(1)
    enter, leave = near.max(1), far.min(1)
    hit = (enter < leave) & (enter > 0)
    return np.where(hit, enter, np.inf), 2 * axis + (o[axis] < 0)
