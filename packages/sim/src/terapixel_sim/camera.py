"""Pinhole cameras and rigs. Vehicle frame: x forward, y left, z up, at the box centre projected to the road [m]."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Camera:
    """One pinhole camera; pixel (0, 0) has its centre at image coordinates (0.5, 0.5)."""

    width: int = 64
    height: int = 64
    fov_deg: float = 90.0
    """Horizontal field of view; with `fx` given it is ignored."""
    x_m: float = 0.5
    y_m: float = 0.0
    z_m: float = 1.6
    yaw_deg: float = 0.0
    """Positive left."""
    pitch_deg: float = -6.0
    """Positive up."""
    roll_deg: float = 0.0
    """Positive clockwise as seen along the view (right side down)."""
    fx: float | None = None
    """Focal lengths and principal point [px]; None derives square pixels from `fov_deg` and the image centre."""
    fy: float | None = None
    cx: float | None = None
    cy: float | None = None

    def __post_init__(self) -> None:
        for name in ("width", "height"):
            v = getattr(self, name)
            if not isinstance(v, int) or not 4 <= v <= 4096:
                raise ValueError(f"camera.{name}: expected 4 to 4096 pixels, got {v!r}")
        if not 1.0 <= self.fov_deg <= 170.0:
            raise ValueError(f"camera.fov_deg: expected 1 to 170, got {self.fov_deg!r}")
        for name in ("x_m", "y_m", "z_m", "yaw_deg", "pitch_deg", "roll_deg"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"camera.{name}: expected a finite number, got {getattr(self, name)!r}")
        for name in ("fx", "fy"):
            f = getattr(self, name)
            if f is not None and not (math.isfinite(f) and f > 0):
                raise ValueError(f"camera.{name}: expected a positive number or null, got {f!r}")

    def intrinsics(self) -> tuple[float, float, float, float]:
        """(fx, fy, cx, cy) in pixels."""
        fx = self.fx if self.fx is not None else 0.5 * self.width / math.tan(math.radians(self.fov_deg) / 2)
        fy = self.fy if self.fy is not None else fx
        cx = self.cx if self.cx is not None else 0.5 * self.width
        cy = self.cy if self.cy is not None else 0.5 * self.height
        return fx, fy, cx, cy

    def mount(self) -> NDArray[np.float64]:
        """Position in the vehicle frame [3] (m)."""
        return np.array([self.x_m, self.y_m, self.z_m])

    def axes(self) -> NDArray[np.float64]:
        """Unit vectors right, down and forward in the vehicle frame, as the rows of a rotation matrix [3, 3]."""
        yaw, pitch, roll = (math.radians(a) for a in (self.yaw_deg, self.pitch_deg, self.roll_deg))
        forward = np.array([math.cos(pitch) * math.cos(yaw), math.cos(pitch) * math.sin(yaw), math.sin(pitch)])
        right = np.array([math.sin(yaw), -math.cos(yaw), 0.0])
        down = np.cross(forward, right)
        c, s = math.cos(roll), math.sin(roll)
        return np.stack([c * right + s * down, c * down - s * right, forward])


@dataclass(frozen=True, kw_only=True)
class Appearance:
    """Colours (r, g, b) 0-255 and air. Two appearances of one scene differ in nothing else."""

    sky: tuple[int, int, int] = (150, 180, 215)
    terrain: tuple[int, int, int] = (96, 112, 84)
    road: tuple[int, int, int] = (70, 70, 74)
    white: tuple[int, int, int] = (235, 235, 235)
    yellow: tuple[int, int, int] = (235, 200, 40)
    edge: tuple[int, int, int] = (200, 120, 60)
    """Road edges."""
    car: tuple[int, int, int] = (225, 66, 60)
    face_shade: tuple[float, float, float, float, float] = (1.0, 0.72, 0.86, 0.62, 0.95)
    """Brightness of a box's front, back, left, right and top."""
    haze_m: float = 0.0
    """Distance at which haze has replaced 63 % of a surface's colour by the sky's [m]; 0 is clear air."""

    def __post_init__(self) -> None:
        for name in ("sky", "terrain", "road", "white", "yellow", "edge", "car"):
            v = tuple(getattr(self, name))
            if len(v) != 3 or not all(isinstance(c, int) and 0 <= c <= 255 for c in v):
                raise ValueError(f"appearance.{name}: expected three integers from 0 to 255, got {v!r}")
            object.__setattr__(self, name, v)
        shade = tuple(float(s) for s in self.face_shade)
        if len(shade) != 5 or not all(0 <= s <= 1 for s in shade):
            raise ValueError(f"appearance.face_shade: expected five numbers from 0 to 1, got {self.face_shade!r}")
        object.__setattr__(self, "face_shade", shade)
        if not (math.isfinite(self.haze_m) and self.haze_m >= 0):
            raise ValueError(f"appearance.haze_m: expected 0 or a positive distance, got {self.haze_m!r}")


@dataclass(frozen=True, kw_only=True)
class CameraRig:
    """One to four named cameras on every agent."""

    cameras: Mapping[str, Camera] = field(default_factory=lambda: {"front": Camera()})
    frames: int = 1
    """1, or 2 to add the frame of one step earlier (first; repeated after a reset)."""
    far_m: float = 120.0
    """Nothing beyond this z-depth is drawn but terrain and sky colour."""
    appearance: Appearance = field(default_factory=Appearance)

    def __post_init__(self) -> None:
        if not 1 <= len(self.cameras) <= 4:
            raise ValueError(f"rig.cameras: expected one to four cameras, got {len(self.cameras)}")
        for name, camera in self.cameras.items():
            if not isinstance(camera, Camera):
                raise TypeError(f"rig.cameras.{name}: expected a Camera, got {type(camera).__name__}")
        if self.frames not in (1, 2):
            raise ValueError(f"rig.frames: expected 1 or 2, got {self.frames!r}")
        if not 5.0 <= self.far_m <= 1000.0:
            raise ValueError(f"rig.far_m: expected 5 to 1000, got {self.far_m!r}")

    @classmethod
    def from_dict(cls, options: Mapping[str, Any]) -> CameraRig:
        """Build a rig from plain mappings, as a YAML gives them.

        Raises:
            TypeError: an unknown key, with the allowed ones.
        """
        options = dict(options)
        if "cameras" in options:
            options["cameras"] = {str(k): _build(Camera, v, f"rig.cameras.{k}") for k, v in options["cameras"].items()}
        if "appearance" in options:
            options["appearance"] = _build(Appearance, options["appearance"], "rig.appearance")
        rig: CameraRig = _build(cls, options, "rig")
        return rig


def _build(cls: Any, options: Mapping[str, Any], where: str) -> Any:
    if isinstance(options, cls):
        return options
    known = set(cls.__dataclass_fields__)
    unknown = sorted(set(options) - known)
    if unknown:
        raise TypeError(f"{where}.{unknown[0]}: unknown key; allowed: {', '.join(sorted(known))}")
    return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in options.items()})
