"""Named camera rigs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .camera import Camera, CameraRig

REAR_AXLE_TO_CENTRE_M = 1.44
"""Rear axle to box centre of the car that Pictura's mounts were measured on: 0.3 of a length of 4.8 m [m]."""


def _front() -> CameraRig:
    return CameraRig(cameras={"front": Camera()})


def _pictura() -> CameraRig:
    """Four cameras of 1920 x 1080 pixels and a focal length of 1545, drawn at 96 x 54."""
    focal = 1545.0 * 96 / 1920
    mounts = {
        "front": (1.66, -0.01, 1.49, 0.0),
        "front_left": (1.63, 0.12, 1.48, 55.0),
        "front_right": (1.62, -0.16, 1.49, -55.0),
        "back": (-0.47, 0.02, 1.43, 180.0),
    }
    cameras = {
        name: Camera(
            width=96,
            height=54,
            fx=focal,
            fy=focal,
            x_m=x - REAR_AXLE_TO_CENTRE_M,
            y_m=y,
            z_m=z,
            yaw_deg=yaw,
            pitch_deg=0.0,
        )
        for name, (x, y, z, yaw) in mounts.items()
    }
    return CameraRig(cameras=cameras)


RIGS = {"front": _front, "pictura": _pictura}


def get_rig(rig: str | Mapping[str, Any] | CameraRig) -> CameraRig:
    """A rig by name, from a mapping, or as it is.

    `front` is one camera of 64 x 64 pixels, `pictura` four of 96 x 54 around the car.

    Raises:
        ValueError: an unknown name, or a value out of range.
        TypeError: an unknown key in a mapping, or another type.
    """
    if isinstance(rig, CameraRig):
        return rig
    if isinstance(rig, str):
        if rig not in RIGS:
            raise ValueError(f"rig: {rig!r} is unknown; allowed: {', '.join(RIGS)}, or a mapping with cameras")
        return RIGS[rig]()
    if isinstance(rig, Mapping):
        return CameraRig.from_dict(rig)
    raise TypeError(f"rig: expected a name, a mapping or a CameraRig, got {type(rig).__name__}")
