"""Reading an OpenDRIVE file into plain elements, with errors that say where a bad number stands."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from lxml import etree
from numpy.typing import NDArray

Element = etree._Element


def read_tree(path: Path) -> Element:
    """Parse a plain or gzip-compressed file and strip XML namespaces.

    Args:
        path: the `.xodr` or `.xodr.gz` file; compression is recognised by content.

    Returns:
        The `OpenDRIVE` root element, all tags without namespace.

    Raises:
        ValueError: the file is truncated, not XML, or its root is not `OpenDRIVE`.
        OSError: it cannot be read.
    """
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(f"{path}: damaged gzip file: {error}") from None
    # Some writers put a licence above the XML declaration, which XML forbids but readers accept.
    start = data.find(b"<?xml ")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
    try:
        root = etree.fromstring(data[max(start, 0) :], parser)
    except etree.XMLSyntaxError as error:
        raise ValueError(f"{path}: not well-formed XML: {error.msg}") from None
    for element in root.iter(etree.Element):
        if element.tag.startswith("{"):
            element.tag = etree.QName(element).localname
    if root.tag != "OpenDRIVE":
        raise ValueError(f"{path}: the root element is {root.tag}, expected OpenDRIVE")
    return root


def number(element: Element, name: str, where: str, default: float | None = None) -> float:
    """Read one finite number from an attribute.

    Args:
        element: element that carries the attribute.
        name: attribute name.
        where: file, road and record, for the message.
        default: value of a missing attribute; without it a missing attribute is an error.

    Raises:
        ValueError: the attribute is missing without a default, is no number, or is not finite.
    """
    text = element.get(name)
    if text is None:
        if default is None:
            raise ValueError(f"{where}: {name} is missing")
        return default
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{where}: {name} is not a number: {text!r}") from None
    if not math.isfinite(value):
        raise ValueError(f"{where}: {name} is not finite")
    return value


def whole(element: Element, name: str, where: str) -> int:
    """Read one required integer attribute; raises `ValueError` naming the place otherwise."""
    text = element.get(name)
    try:
        return int(text or "")
    except ValueError:
        raise ValueError(f"{where}: {name} is not an integer: {text!r}") from None


class Cubic:
    """Piecewise cubics a + b ds + c ds2 + d ds3 over a station, as OpenDRIVE writes widths, offsets and elevation."""

    def __init__(self, starts: NDArray[np.float64], coefficients: NDArray[np.float64]) -> None:
        """`starts` [n] stations [m], ascending; `coefficients` [n, 4], columns a b c d; n = 0 is zero everywhere."""
        self.starts = starts
        self.coefficients = coefficients

    @classmethod
    def read(cls, elements: list[Element], key: str, origin: float, where: str) -> Cubic:
        """Read records whose start is `origin` + attribute `key` [m]; a missing attribute counts as 0."""
        rows = [
            [number(e, name, f"{where} {i}", 0.0) for name in (key, "a", "b", "c", "d")] for i, e in enumerate(elements)
        ]
        table = np.array(rows, np.float64).reshape(-1, 5)
        table = table[np.argsort(table[:, 0], kind="stable")]
        return cls(table[:, 0] + origin, table[:, 1:])

    def _record(self, s: NDArray[np.float64]) -> NDArray[np.intp]:
        return np.maximum(np.searchsorted(self.starts, s, side="right") - 1, 0)

    def __call__(self, s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values at a lane section's ascending stations `s` [m].

        Files let offsets and widths jump where a section ends. There the last station belongs to the record that ends
        and the first to the one that begins, a tenth of a millimetre being the same place.
        """
        if not len(self.starts):
            return np.zeros_like(s)
        inside = s.copy()
        inside[0] += 1e-4
        inside[-1] -= 1e-4
        record = self._record(inside)
        k = self.coefficients[record]
        # Before the first record its start value holds: files begin records a hair late.
        ds = np.maximum(s - self.starts[record], 0.0)
        return k[:, 0] + ds * (k[:, 1] + ds * (k[:, 2] + ds * k[:, 3]))

    def bend(self, low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
        """Largest absolute second derivative on intervals [low, high] that hold no record start inside [1/m]."""
        if not len(self.starts):
            return np.zeros_like(low)
        record = self._record(low)
        k, ds = self.coefficients[record], np.maximum(low - self.starts[record], 0.0)
        end = ds + (high - low)
        return np.maximum(np.abs(2 * k[:, 2] + 6 * k[:, 3] * ds), np.abs(2 * k[:, 2] + 6 * k[:, 3] * end))
