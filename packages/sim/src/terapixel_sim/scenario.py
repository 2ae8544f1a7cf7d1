"""Scenarios: a map with what was recorded on it, ready to be replayed or driven anew.

Frame and units as in `maps.road_map`. What a log does not know is masked, never marked by a number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .layout import AgentKind, LightColour
from .maps.road_map import RoadMap


@dataclass(frozen=True, kw_only=True)
class Tracks:
    """What moved: N agents at T times. Rows where `valid` is false are zero."""

    ids: tuple[str, ...]
    """Names in the log [N], distinct."""
    kind: NDArray[np.int64]
    """`layout.AgentKind` [N]."""
    size: NDArray[np.float64]
    """Length, width, height [N, 3] [m]; one for the whole log, the median of what it says."""
    pose: NDArray[np.float64]
    """x, y, z, yaw [N, T, 4]: middle of the box in plan, its bottom in height, yaw in (-pi, pi]."""
    velocity: NDArray[np.float64]
    """Along x and y of the map [N, T, 2] [m/s]."""
    valid: NDArray[np.bool_]
    """[N, T]"""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A recorded scene: road map, tracks, lights, goals."""

    name: str
    road_map: RoadMap
    dt_s: float
    """Between two times [s]."""
    tracks: Tracks
    ego: int = -1
    """Track of the recording car, or -1."""
    start: int = 0
    """Time at which a simulation begins; what lies before is history."""
    goal: NDArray[np.float64]
    """Where each track is bound [N, 3]: its goal in the log, else its last valid position."""
    lights: NDArray[np.int64]
    """`layout.LightColour` of each of the map's signals [S, T]; UNKNOWN where the log does not say."""
    notes: tuple[str, ...] = ()
    """What the importer skipped or made up, with counts."""

    def validate(self) -> Scenario:
        """Check everything that the simulator relies on.

        Returns:
            The scenario itself.

        Raises:
            ValueError: names the scenario, the field and the index at fault.
        """
        where = f"scenario {self.name}"
        self.road_map.validate()
        if not (np.isfinite(self.dt_s) and self.dt_s > 0):
            raise ValueError(f"{where}: dt_s: expected a positive number, got {self.dt_s!r}")
        tracks = self.tracks
        n, times = len(tracks.ids), tracks.valid.shape[-1] if tracks.valid.ndim == 2 else 0
        if n == 0 or times == 0:
            raise ValueError(f"{where}: expected at least one track and one time, got {n} and {times}")
        if len(set(tracks.ids)) != n:
            raise ValueError(f"{where}: tracks: expected distinct ids")
        _check(where, "tracks.kind", tracks.kind, np.int64, (n,))
        _check(where, "tracks.size", tracks.size, np.float64, (n, 3))
        _check(where, "tracks.pose", tracks.pose, np.float64, (n, times, 4))
        _check(where, "tracks.velocity", tracks.velocity, np.float64, (n, times, 2))
        _check(where, "tracks.valid", tracks.valid, np.bool_, (n, times))
        _check(where, "goal", self.goal, np.float64, (n, 3))
        _check(where, "lights", self.lights, np.int64, (len(self.road_map.signals), times))
        _refuse(where, "tracks.kind", ~np.isin(tracks.kind, list(AgentKind)), tracks.kind, "an AgentKind")
        _refuse(where, "tracks.size", tracks.size <= 0, tracks.size, "lengths > 0")
        yaw = tracks.pose[..., 3]
        _refuse(where, "tracks.pose yaw", np.abs(yaw) > np.pi + 1e-9, yaw, "an angle in (-pi, pi]")
        _refuse(where, "lights", ~np.isin(self.lights, list(LightColour)), self.lights, "a LightColour")
        for name in ("pose", "velocity"):
            values = getattr(tracks, name)
            _refuse(where, f"tracks.{name}", (values != 0) & ~tracks.valid[..., None], values, "0 where not valid")
        _refuse(where, "tracks.valid", ~tracks.valid.any(axis=1), tracks.valid, "a valid time in each track")
        if not -1 <= self.ego < n:
            raise ValueError(f"{where}: ego: expected -1 or a track, of which there are {n}, got {self.ego}")
        if not 0 <= self.start < times:
            raise ValueError(f"{where}: start: expected a time from 0 to {times - 1}, got {self.start}")
        return self


def _check(where: str, name: str, array: NDArray[np.generic], dtype: type, shape: tuple[int, ...]) -> None:
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.shape != shape:
        got = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
        raise ValueError(f"{where}: {name}: expected {np.dtype(dtype)} {list(shape)}, got {got}")
    if dtype is np.float64:
        _refuse(where, name, ~np.isfinite(array), array, "finite numbers")


def _refuse(where: str, name: str, bad: ArrayLike, array: NDArray[np.generic], expected: str) -> None:
    places = np.argwhere(bad)
    if len(places):
        place = places[0].tolist()
        raise ValueError(f"{where}: {name}{place}: expected {expected}, got {array[tuple(place)]}")
