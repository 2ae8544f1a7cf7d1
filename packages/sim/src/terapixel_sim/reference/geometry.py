"""Twin of `kernels/geometry.py`: boxes, segments and angles in the plane, float64."""

from __future__ import annotations

import math

Box = tuple[float, float, float, float, float]
"""x, y of the centre [m], yaw [rad], half length, half width [m]."""
Point = tuple[float, float]

TOUCH_M = 1e-3


def wrap(angle: float) -> float:
    """The same angle in (-pi, pi]."""
    return angle - 2 * math.pi * math.ceil(angle / (2 * math.pi) - 0.5)


def box_gap(i: Box, j: Box) -> tuple[float, float, float]:
    """The largest separation of two boxes over their four axes, and that axis pointing from i to j."""
    dx, dy = j[0] - i[0], j[1] - i[1]
    best = (-math.inf, 0.0, 0.0)
    for yaw in (i[2], i[2] + math.pi / 2, j[2], j[2] + math.pi / 2):
        nx, ny = math.cos(yaw), math.sin(yaw)
        extent = sum(
            b[3] * abs(nx * math.cos(b[2]) + ny * math.sin(b[2]))
            + b[4] * abs(ny * math.cos(b[2]) - nx * math.sin(b[2]))
            for b in (i, j)
        )
        along = dx * nx + dy * ny
        if abs(along) - extent > best[0]:
            sign = 1.0 if along >= 0 else -1.0
            best = (abs(along) - extent, sign * nx, sign * ny)
    return best


def swept_boxes_touch(
    i: Box, j: Box, motion_i: tuple[float, float, float], motion_j: tuple[float, float, float]
) -> bool:
    """Whether two boxes touch while both move by (dx, dy, dyaw), straight and evenly, by conservative advancement.

    Args:
        i: a box at the beginning.
        j: the other.
        motion_i: change of x, y [m] and yaw [rad] of i over the step.
        motion_j: that of j.
    """
    turning = math.hypot(i[3], i[4]) * abs(motion_i[2]) + math.hypot(j[3], j[4]) * abs(motion_j[2])
    t = 0.0
    while True:
        gap, nx, ny = box_gap(_moved(i, motion_i, t), _moved(j, motion_j, t))
        closing = -((motion_j[0] - motion_i[0]) * nx + (motion_j[1] - motion_i[1]) * ny)
        rate = turning + max(closing, 0.0)
        if gap <= TOUCH_M:
            return True
        if not rate * (1 - t) > gap:
            return False
        t += gap / rate


def _moved(box: Box, motion: tuple[float, float, float], t: float) -> Box:
    return (box[0] + t * motion[0], box[1] + t * motion[1], box[2] + t * motion[2], box[3], box[4])


def corners(box: Box) -> list[Point]:
    """The corners of a box: front left, front right, rear left, rear right."""
    x, y, yaw, length, width = box
    c, s = math.cos(yaw), math.sin(yaw)
    return [
        (x + sl * length * c - sw * width * s, y + sl * length * s + sw * width * c) for sl in (1, -1) for sw in (1, -1)
    ]


def segment_meets_box(a: Point, b: Point, box: Box) -> bool:
    """Whether segment a-b meets a box."""
    x, y, yaw, length, width = box
    c, s = math.cos(yaw), math.sin(yaw)
    px, py = (a[0] - x) * c + (a[1] - y) * s, (a[1] - y) * c - (a[0] - x) * s
    qx, qy = (b[0] - x) * c + (b[1] - y) * s, (b[1] - y) * c - (b[0] - x) * s
    nx, ny = py - qy, qx - px
    return (
        max(min(px, qx), -max(px, qx)) <= length
        and max(min(py, qy), -max(py, qy)) <= width
        and abs(nx * px + ny * py) <= length * abs(nx) + width * abs(ny)
    )


def left_of(p: Point, a: Point, b: Point) -> bool:
    """Whether p lies on the line a-b or left of it."""
    return (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]) >= 0


def segments_cross(p: Point, q: Point, a: Point, b: Point) -> bool:
    """Whether path p-q crosses segment a-b, half open: at the joint of two segments it crosses just one of them."""
    return left_of(a, p, q) != left_of(b, p, q) and left_of(p, a, b) != left_of(q, a, b)


def path_distance(p: Point, q: Point, point: Point) -> float:
    """Distance from a point to the path p-q [m]."""
    ex, ey = q[0] - p[0], q[1] - p[1]
    t = ((point[0] - p[0]) * ex + (point[1] - p[1]) * ey) / max(ex * ex + ey * ey, 1e-12)
    t = min(max(t, 0.0), 1.0)
    return math.hypot(point[0] - p[0] - t * ex, point[1] - p[1] - t * ey)
