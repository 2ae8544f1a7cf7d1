"""Where a camera samples the ground: points, levels of detail and their number, once per camera.

Cameras ride at a fixed height over their agent's ground plane, so the footprint of each pixel in the agent's frame is
the same for every agent and moment: it is worked out here in float64, and a kernel only rotates and shifts it into
the map.

A pixel is sampled by 1, 2 or 4 taps, spread over its long axis (toward the horizon) on a rotated grid, so that each
tap also has its own place across. A tap reads the level whose texels match the short axis of its own footprint: lines
running away from the camera stay sharp and fade by their true coverage (anisotropic filtering after McCormack et al.
1999, "Feline").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .camera import Camera
from .kernels.render_math import LEVELS, SKY_LEVEL, TEXEL_M

Array = NDArray[np.float64]

SHARPNESS = 1.0
"""Wanted side of a texel over the short axis of a tap's footprint."""
ELONGATION = 4.0
"""A tap's texel is never smaller than the long axis of its footprint divided by this."""
ACROSS = {1: (0.0,), 2: (-0.25, 0.25), 4: (-0.125, 0.375, -0.375, 0.125)}
"""Places of the taps across the pixel, in the order of their places along it."""
OUTSIDE_M = 1e6


@dataclass(frozen=True)
class GroundTaps:
    """Taps of all chunks of a camera, chunk by chunk.

    Attributes:
        values: f32 flat; a chunk's [taps, 3, chunk]: x and y in the agent's frame in texels of the tap's level,
            texels a metre.
        heads: i32 [height, chunks, 2]: number of taps (0: all sky) and where they begin in `values`.
    """

    values: NDArray[np.float32]
    heads: NDArray[np.int32]


def pixel_rays(camera: Camera) -> tuple[Array, Array, Array]:
    """(D0, DX, DY): the ray of pixel (0, 0) and its steps in the vehicle frame, with 1 along the optical axis."""
    right, down, forward = camera.axes()
    fx, fy, cx, cy = camera.intrinsics()
    dx, dy = right / fx, down / fy
    return forward + (0.5 - cx) * dx + (0.5 - cy) * dy, dx, dy


def ground_taps(camera: Camera, far_m: float, chunk: int) -> GroundTaps:
    """Work out a camera's taps for rows cut into chunks of `chunk` pixels."""
    chunks = -(-camera.width // chunk)
    x = np.minimum(np.arange(chunks * chunk), camera.width - 1).astype(float)  # padding repeats the last pixel
    y = np.arange(camera.height, dtype=float)
    px, py = np.meshgrid(x, y)
    needed = _taps_needed(camera, px, py, far_m).reshape(camera.height, chunks, chunk).max(-1)
    parts = {n: _sample(camera, px, py, n, far_m).reshape(n, 3, camera.height, chunks, chunk) for n in (1, 2, 4)}
    heads = np.zeros((camera.height, chunks, 2), np.int32)
    heads[..., 0] = needed
    sizes = (needed * 3 * chunk).ravel()
    heads[..., 1] = (np.cumsum(sizes) - sizes).reshape(needed.shape)
    values = [parts[int(n)][:, :, row, part].ravel() for (row, part), n in np.ndenumerate(needed) if n]
    return GroundTaps(np.concatenate(values or [np.zeros(0)]).astype(np.float32), heads)


def _along(camera: Camera) -> tuple[float, float]:
    """Unit vector in the image along which the ground recedes fastest."""
    _, dx, dy = pixel_rays(camera)
    norm = float(np.hypot(dx[2], dy[2]))
    return (float(dx[2]) / norm, float(dy[2]) / norm) if norm > 1e-9 else (0.0, 1.0)


def _footprint(camera: Camera, px: Array, py: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Ground point (x, y), its inverse depth, and the long and short sides of a pixel's footprint there [m]."""
    d0, dx, dy = pixel_rays(camera)
    mount = camera.mount()
    d = d0 + px[..., None] * dx + py[..., None] * dy
    w = -d[..., 2] / mount[2]
    safe = np.where(w > 1e-6, w, 1e-6)
    point = mount[:2] + d[..., :2] / safe[..., None]
    # the derivative of d / w
    jx = (dx[:2] * safe[..., None] + d[..., :2] * (dx[2] / mount[2])) / safe[..., None] ** 2
    jy = (dy[:2] * safe[..., None] + d[..., :2] * (dy[2] / mount[2])) / safe[..., None] ** 2
    u, v = _along(camera)
    long = np.linalg.norm(u * jx + v * jy, axis=-1)
    area = np.abs(jx[..., 0] * jy[..., 1] - jx[..., 1] * jy[..., 0])
    return point[..., 0], point[..., 1], w, long, area / np.maximum(long, 1e-12)


def _taps_needed(camera: Camera, px: Array, py: Array, far_m: float) -> NDArray[np.int64]:
    _, dx, dy = pixel_rays(camera)
    _, _, w, long, short = _footprint(camera, px, py)
    reach = 0.5 * (abs(dx[2]) + abs(dy[2])) / camera.z_m  # change of w within the pixel
    ratio = long / (SHARPNESS * np.maximum(short, TEXEL_M))
    needed = np.where(ratio > 3.0, 4, np.where(ratio > 1.5, 2, 1))
    needed = np.where(w - reach <= 1 / far_m, 4, needed)
    return np.where(w + reach <= 0, 0, needed)


def _sample(camera: Camera, px: Array, py: Array, taps: int, far_m: float) -> Array:
    """[taps, 3, height, width] for every pixel."""
    u, v = _along(camera)
    result = np.empty((taps, 3, *px.shape))
    for tap, across in enumerate(ACROSS[taps]):
        along = (tap + 0.5) / taps - 0.5
        x, y, w, long, short = _footprint(camera, px + along * u - across * v, py + along * v + across * u)
        texel = np.maximum(SHARPNESS * short, long / (taps * ELONGATION))
        level = np.clip(np.rint(np.log2(np.maximum(texel, 1e-9) / TEXEL_M)), 0, LEVELS - 1)
        far = (w > 0) & (w < 1 / far_m)
        x, y = np.where(far, OUTSIDE_M, x), np.where(far, OUTSIDE_M, y)  # terrain lies outside every map
        x, y, level = np.where(w <= 0, 0, x), np.where(w <= 0, 0, y), np.where(w <= 0, SKY_LEVEL, level)
        scale = 2.0**-level / TEXEL_M
        result[tap] = x * scale, y * scale, scale
    return result
