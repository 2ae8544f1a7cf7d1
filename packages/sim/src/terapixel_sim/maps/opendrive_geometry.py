"""The reference line of a road: lines, arcs, spirals and cubics evaluated at stations.

Formulas follow the ASAM OpenDRIVE 1.7 standard, chapter 9 (geometry); u and v are a record's local axes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import fresnel

from .opendrive_file import Element, number

Array = NDArray[np.float64]

STRAIGHT_STEP = 5.0  # [m]
CURVE_STEP = 2.0  # [m]
SAGITTA = 0.02  # [m]
SHORTEST_STEP = 0.1  # [m]; a radius that would ask for less is no road


@dataclass(frozen=True)
class Geometry:
    """One plan-view record."""

    s: float
    """Station of its start [m]."""
    x: float
    y: float
    heading: float
    length: float
    kind: str
    """line | arc | spiral | poly3 | paramPoly3"""
    parameters: tuple[float, ...]
    """arc: curvature; spiral: curvature at start and end [1/m]; poly3: a to d; paramPoly3: aU to dV, p per metre."""

    def local(self, ds: Array) -> tuple[Array, Array, Array]:
        """Position u, v [m] and heading [rad] in the record's frame, `ds` [m] after its start."""
        if self.kind == "line":
            return ds, np.zeros_like(ds), np.zeros_like(ds)
        if self.kind == "arc":
            return arc(ds, self.parameters[0])
        if self.kind == "spiral":
            return spiral(ds, self.parameters[0], self.parameters[1], self.length)
        if self.kind == "poly3":
            u = self._poly3_u(ds)
            a, b, c, d = self.parameters
            return u, a + u * (b + u * (c + u * d)), np.arctan(b + u * (2 * c + 3 * d * u))
        k = self.parameters
        p = ds * k[8]
        u = k[0] + p * (k[1] + p * (k[2] + p * k[3]))
        v = k[4] + p * (k[5] + p * (k[6] + p * k[7]))
        du, dv = k[1] + p * (2 * k[2] + 3 * p * k[3]), k[5] + p * (2 * k[6] + 3 * p * k[7])
        return u, v, np.arctan2(dv, du)

    def _poly3_u(self, ds: Array) -> Array:
        # The record's parameter is u but stations are arc length: invert s(u), the integral of sqrt(1 + v'(u)^2).
        _, b, c, d = self.parameters
        u = np.linspace(0.0, self.length, max(64, int(self.length / 0.05)) + 1)
        middle = 0.5 * (u[1:] + u[:-1])
        speed = np.hypot(1.0, b + u * (2 * c + 3 * d * u))
        speed_middle = np.hypot(1.0, b + middle * (2 * c + 3 * d * middle))
        simpson = (u[1] - u[0]) / 6.0 * (speed[1:] + 4.0 * speed_middle + speed[:-1])
        return np.interp(ds, np.concatenate([[0.0], np.cumsum(simpson)]), u)

    def curvature(self) -> float:
        """Largest absolute curvature along the record [1/m]."""
        if self.kind == "line":
            return 0.0
        if self.kind in ("arc", "spiral"):
            return max(abs(k) for k in self.parameters)
        heading = np.unwrap(self.local(np.linspace(0.0, self.length, 33))[2])
        return float(np.max(np.abs(np.diff(heading)))) * 32.0 / self.length


def arc(ds: Array, curvature: float) -> tuple[Array, Array, Array]:
    """Circle through the origin along +u: u, v [m] and heading [rad] after arc length `ds` [m]."""
    turn = curvature * ds
    # sinc keeps tiny curvatures exact where sin(x)/k and (1 - cos(x))/k would lose their digits.
    half = np.sinc(0.5 * turn / np.pi)
    return ds * np.sinc(turn / np.pi), 0.5 * curvature * ds * ds * half * half, turn


def spiral(ds: Array, start: float, end: float, length: float) -> tuple[Array, Array, Array]:
    """Clothoid whose curvature runs linearly from `start` to `end` [1/m] over `length` [m].

    The heading is start*s + rate*s^2/2. Completing the square turns the position into Fresnel integrals
    (Abramowitz and Stegun, Handbook of Mathematical Functions, 7.3).

    Returns:
        u, v [m] and heading [rad] after arc length `ds` [m].
    """
    if abs(end - start) * length < 1e-7:
        return arc(ds, 0.5 * (start + end))
    rate = (end - start) / length
    scale = np.sqrt(abs(rate) / np.pi)
    sine, cosine = fresnel(scale * (ds + start / rate))
    sine0, cosine0 = fresnel(scale * start / rate)
    z = (cosine - cosine0) + 1j * np.sign(rate) * (sine - sine0)
    z = z / scale * np.exp(-0.5j * start * start / rate)
    return z.real, z.imag, ds * (start + 0.5 * rate * ds)


def read_geometries(road: Element, where: str) -> tuple[list[Geometry], int]:
    """Read the plan view of a road element.

    Returns:
        The records in order of station, and the number of zero-length records that were skipped.

    Raises:
        ValueError: a number is missing or not finite, or a record has no known shape.
    """
    records: list[Geometry] = []
    skipped = 0
    for i, element in enumerate(road.findall("planView/geometry")):
        place = f"{where}: geometry {i}"
        s, x, y, heading, length = (number(element, name, place) for name in ("s", "x", "y", "hdg", "length"))
        shape = next((c for c in element if c.tag in ("line", "arc", "spiral", "poly3", "paramPoly3")), None)
        if shape is None:
            raise ValueError(f"{place}: has none of line, arc, spiral, poly3, paramPoly3")
        parameters = _parameters(shape, length, place)
        if length <= 1e-9:
            skipped += 1
            continue
        records.append(Geometry(s, x, y, heading, length, str(shape.tag), parameters))
    return sorted(records, key=lambda g: g.s), skipped


def _parameters(shape: Element, length: float, where: str) -> tuple[float, ...]:
    if shape.tag == "arc":
        return (number(shape, "curvature", where),)
    if shape.tag == "spiral":
        return (number(shape, "curvStart", where), number(shape, "curvEnd", where))
    if shape.tag == "poly3":
        return tuple(number(shape, name, where) for name in "abcd")
    if shape.tag == "paramPoly3":
        names = ("aU", "bU", "cU", "dU", "aV", "bV", "cV", "dV")
        # The standard's default for a missing pRange is normalized: p runs from 0 to 1.
        per_metre = 1.0 if shape.get("pRange") == "arcLength" else 1.0 / max(length, 1e-9)
        return (*(number(shape, name, where) for name in names), per_metre)
    return ()


def reference_line(records: list[Geometry], s: Array) -> tuple[Array, Array, Array]:
    """Evaluate a road's reference line.

    Args:
        records: the road's geometries in order of station.
        s: stations [n], ascending [m].

    Returns:
        x [n], y [n] [m] and heading [n] [rad].
    """
    x, y, heading = np.empty_like(s), np.empty_like(s), np.empty_like(s)
    owner = np.maximum(np.searchsorted([g.s for g in records], s, side="right") - 1, 0)
    first = np.searchsorted(owner, np.arange(len(records) + 1))
    for g, low, high in zip(records, first[:-1], first[1:], strict=True):
        if low == high:
            continue
        u, v, turn = g.local(s[low:high] - g.s)
        cos, sin = np.cos(g.heading), np.sin(g.heading)
        x[low:high], y[low:high] = g.x + cos * u - sin * v, g.y + sin * u + cos * v
        heading[low:high] = g.heading + turn
    return x, y, heading
