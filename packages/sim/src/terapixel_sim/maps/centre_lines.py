"""Centre lines as kernels read them: evenly spaced points with unit tangents and widths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..layout import ObsSegment, PointCol
from .road_map import Lane

Array = NDArray[np.float64]

SAGITTA_M = 0.01
SPACING_M = (0.5, 4.0)
PIECE_M = 6.0
"""Longest observed piece of a lane [m]."""
_TANGENT_M = 1.0


@dataclass(frozen=True)
class CentreLine:
    """One lane's centre line."""

    points: Array
    """[n, len(PointCol)], evenly spaced in arc length in the ground plane"""
    spacing: float
    pieces: Array
    """[m, len(ObsSegment)]"""

    @property
    def length(self) -> float:
        """Arc length [m]."""
        return (len(self.points) - 1) * self.spacing


def centre_line(lane: Lane) -> CentreLine:
    """Resample a lane's centre line.

    The spacing lies within `SPACING_M` (a lane shorter than that is one segment) and is the widest of a falling
    sequence at which the chords pass within `SAGITTA_M` of the points given.
    """
    xy = lane.centre[:, :2]
    s = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(xy, axis=0).T))])
    length = float(s[-1])
    most = max(1, int(length / SPACING_M[0]))
    count = min(most, max(1, int(np.ceil(length / SPACING_M[1] - 1e-9))))
    while count < most and _deviation(xy, s, count) > SAGITTA_M:
        count = min(most, int(np.ceil(1.2 * count)))

    width = np.hypot(*(lane.left - lane.right)[:, :2].T)
    at = np.linspace(0.0, length, count + 1)
    points = np.empty((count + 1, len(PointCol)))
    points[:, [PointCol.X, PointCol.Y, PointCol.Z]] = _along(lane.centre, s, at)
    points[:, [PointCol.COS, PointCol.SIN]] = _tangents(xy, s, at)
    points[:, PointCol.WIDTH] = np.interp(at, s, width)

    cuts = np.linspace(0.0, length, max(1, int(np.ceil(length / PIECE_M - 1e-9))) + 1)
    middle = (cuts[1:] + cuts[:-1]) / 2
    chord = np.diff(_along(xy, s, cuts), axis=0)
    chord_length = np.maximum(np.hypot(*chord.T), 1e-6)
    pieces = np.empty((len(middle), len(ObsSegment)))
    pieces[:, [ObsSegment.X, ObsSegment.Y, ObsSegment.Z]] = _along(lane.centre, s, middle)
    pieces[:, ObsSegment.HALF_LENGTH] = chord_length / 2
    pieces[:, [ObsSegment.COS, ObsSegment.SIN]] = chord / chord_length[:, None]
    pieces[:, ObsSegment.WIDTH] = np.interp(middle, s, width)
    pieces[:, ObsSegment.LIMIT] = lane.speed_limit
    return CentreLine(points, length / count, pieces)


def _along(points: Array, s: Array, at: Array) -> Array:
    return np.stack([np.interp(at, s, column) for column in points.T], axis=-1)


def _deviation(xy: Array, s: Array, count: int) -> float:
    """Largest distance of the given points from `count` equal chords [m]."""
    ends = _along(xy, s, np.linspace(0.0, s[-1], count + 1))
    i = np.minimum((s * count / s[-1]).astype(int), count - 1)
    chord, offset = ends[i + 1] - ends[i], xy - ends[i]
    cross = chord[:, 0] * offset[:, 1] - chord[:, 1] * offset[:, 0]
    return float(np.abs(cross / np.maximum(np.hypot(*chord.T), 1e-9)).max())


def _tangents(xy: Array, s: Array, at: Array) -> Array:
    """Unit tangents by central differences over up to 1 m each way, and by second-order one-sided ones at the ends."""
    length = s[-1]
    reach = np.minimum(_TANGENT_M, np.minimum(at, length - at))
    tangent = _along(xy, s, at + reach) - _along(xy, s, at - reach)
    step = min(_TANGENT_M, length / 2)
    first, last = _along(xy, s, step * np.arange(3)), _along(xy, s, length - step * np.arange(3))
    tangent[0] = -3 * first[0] + 4 * first[1] - first[2]
    tangent[-1] = 3 * last[0] - 4 * last[1] + last[2]
    return tangent / np.maximum(np.hypot(*tangent.T), 1e-12)[:, None]
