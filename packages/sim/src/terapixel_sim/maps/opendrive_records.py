"""Roads, lane sections, lanes and junctions of an OpenDRIVE file as plain records, not yet evaluated."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .opendrive_file import Cubic, Element, number, whole
from .opendrive_geometry import Geometry, read_geometries

DRIVABLE = frozenset(
    {"driving", "bidirectional", "entry", "exit", "onRamp", "offRamp", "connectingRamp", "mwyEntry", "mwyExit"}
)
"""Lane types that become lanes of the map."""

_TO_METRES_PER_SECOND = {"m/s": 1.0, "km/h": 1.0 / 3.6, "mph": 0.44704}


@dataclass(frozen=True)
class PaintLine:
    """One line of a detailed road mark: painted `length`, unpainted `space`, lateral offset and width [m]."""

    length: float
    space: float
    offset: float
    width: float


@dataclass(frozen=True)
class Mark:
    """A road mark record of a lane's outer border (or of the centre lane)."""

    s: float
    """Station where it begins [m]."""
    kind: str
    colour: str
    width: float
    lane_change: str | None
    lines: tuple[PaintLine, ...]


@dataclass(frozen=True)
class LaneRecord:
    """One lane of one lane section."""

    id: int
    kind: str
    width: Cubic
    border: Cubic | None
    """Distance of the outer border from the reference line, where a file gives that instead of a width."""
    marks: tuple[Mark, ...]
    predecessor: int | None
    successor: int | None
    speeds: tuple[tuple[float, float], ...]
    """(station, limit) [m, m/s]"""


@dataclass(frozen=True)
class Section:
    """Lanes between two stations of a road."""

    start: float
    end: float
    lanes: dict[int, LaneRecord]


@dataclass(frozen=True)
class RoadLink:
    """What a road's end touches: `kind` road or junction, its id, and for a road the contact `start` or `end`."""

    kind: str
    id: str
    contact: str | None


@dataclass(frozen=True)
class Road:
    """A road with its records read."""

    id: str
    junction: str
    left_hand: bool
    geometries: list[Geometry]
    elevation: Cubic
    offset: Cubic
    sections: list[Section]
    predecessor: RoadLink | None
    successor: RoadLink | None
    speeds: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Connection:
    """A junction connection; `contact` is the end of the connecting (or linked) road at the incoming road."""

    junction: str
    incoming: str
    connecting: str
    contact: str | None
    lanes: tuple[tuple[int, int], ...]


@dataclass
class Records:
    """All of a file that the importer uses, and a count of what it does not."""

    roads: dict[str, Road] = field(default_factory=dict)
    connections: list[Connection] = field(default_factory=list)
    junctions: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


def read_records(root: Element, where: str) -> Records:
    """Read every road and junction below the root element.

    Raises:
        ValueError: naming the file, road and record where a value is missing, not a number or not finite.
    """
    records = Records()
    for element in root.findall("road"):
        road = _read_road(element, where, records.skipped)
        if road is None:
            continue
        if road.id in records.roads:
            raise ValueError(f"{where}: road {road.id} occurs twice")
        records.roads[road.id] = road
    for element in root.findall("junction"):
        records.junctions.append(element.get("id", ""))
        records.connections += _read_connections(element, f"{where}: junction {element.get('id', '')}")
    return records


def _read_road(element: Element, where: str, skipped: Counter[str]) -> Road | None:
    name = element.get("id", "")
    where = f"{where}: road {name}"
    geometries, empty = read_geometries(element, where)
    skipped["zero-length geometries"] += empty
    if not geometries:
        skipped["roads without geometry"] += 1
        return None
    for tag in ("superelevation", "shape"):
        profile = element.findall(f"lateralProfile/{tag}")
        values = [number(e, key, f"{where}: {tag}", 0.0) for e in profile for key in "abcd"]
        skipped[f"roads with {tag}"] += any(abs(v) > 1e-9 for v in values)
    for tag in ("objects/object", "signals/signal"):
        skipped[tag.split("/")[0]] += len(element.findall(tag))
    end = geometries[-1].s + geometries[-1].length
    if abs(number(element, "length", where, end) - end) > 0.1:
        skipped["roads whose length differs from their geometry"] += 1
    return Road(
        id=name,
        junction=element.get("junction", "-1"),
        left_hand=element.get("rule", "RHT") == "LHT",
        geometries=geometries,
        elevation=Cubic.read(element.findall("elevationProfile/elevation"), "s", 0.0, f"{where}: elevation"),
        offset=Cubic.read(element.findall("lanes/laneOffset"), "s", 0.0, f"{where}: laneOffset"),
        sections=_read_sections(element, end, where, skipped),
        predecessor=_road_link(element.find("link/predecessor")),
        successor=_road_link(element.find("link/successor")),
        speeds=_speeds(element.findall("type"), "s", 0.0, where, skipped),
    )


def _read_sections(road: Element, end: float, where: str, skipped: Counter[str]) -> list[Section]:
    elements = road.findall("lanes/laneSection")
    starts = [number(e, "s", f"{where}: lane section {i}", 0.0) for i, e in enumerate(elements)]
    order = sorted(range(len(elements)), key=lambda i: starts[i])
    sections = []
    for rank, i in enumerate(order):
        stop = starts[order[rank + 1]] if rank + 1 < len(order) else end
        place = f"{where}: lane section {i}"
        lanes = [_read_lane(e, starts[i], place, skipped) for e in elements[i].iterfind("*/lane")]
        sections.append(Section(min(starts[i], end), min(max(stop, starts[i]), end), {lane.id: lane for lane in lanes}))
    return sections


def _read_lane(element: Element, start: float, where: str, skipped: Counter[str]) -> LaneRecord:
    lane_id = whole(element, "id", where)
    where = f"{where}: lane {lane_id}"
    kind = element.get("type", "none")
    if kind not in DRIVABLE and lane_id != 0:
        skipped[f"lanes of type {kind}"] += 1
    border = element.findall("border")
    ends = {tag: element.find(f"link/{tag}") for tag in ("predecessor", "successor")}
    links = {tag: None if e is None else whole(e, "id", f"{where}: {tag}") for tag, e in ends.items()}
    width = element.findall("width")
    return LaneRecord(
        id=lane_id,
        kind=kind,
        width=Cubic.read(width, "sOffset", start, f"{where}: width"),
        border=Cubic.read(border, "sOffset", start, f"{where}: border") if border and not width else None,
        marks=_read_marks(element, start, where),
        predecessor=links["predecessor"],
        successor=links["successor"],
        speeds=_speeds([element], "sOffset", start, where, skipped),
    )


def _read_marks(lane: Element, start: float, where: str) -> tuple[Mark, ...]:
    marks = []
    for i, element in enumerate(lane.findall("roadMark")):
        place = f"{where}: roadMark {i}"
        width = number(element, "width", place, 0.12) or 0.12
        lines = tuple(
            PaintLine(
                number(e, "length", place, 0.0),
                number(e, "space", place, 0.0),
                number(e, "tOffset", place, 0.0),
                number(e, "width", place, width) or width,
            )
            for e in element.iterfind("type/line")
        )
        s = start + number(element, "sOffset", place, 0.0)
        kind, colour = element.get("type", "none"), element.get("color", "standard")
        marks.append(Mark(s, kind, colour, width, element.get("laneChange"), lines))
    return tuple(sorted(marks, key=lambda m: m.s))


def _speeds(
    parents: list[Element], key: str, origin: float, where: str, skipped: Counter[str]
) -> tuple[tuple[float, float], ...]:
    """Limits of `<speed>` children; the station stands on the parent for roads and on the child for lanes."""
    found = []
    for parent in parents:
        for element in parent.findall("speed"):
            station = origin + number(element if key == "sOffset" else parent, key, f"{where}: speed", 0.0)
            if element.get("max", "") in ("no limit", "undefined", ""):
                skipped["speed limits without a number"] += 1
                continue
            unit = element.get("unit", "m/s") or "m/s"
            if unit not in _TO_METRES_PER_SECOND:
                allowed = ", ".join(_TO_METRES_PER_SECOND)
                raise ValueError(f"{where}: speed has unit {unit!r}, allowed are {allowed}")
            limit = number(element, "max", f"{where}: speed") * _TO_METRES_PER_SECOND[unit]
            if limit > 0.0:
                found.append((station, limit))
            else:
                skipped["speed limits of zero or less"] += 1
    return tuple(sorted(found))


def _road_link(element: Element | None) -> RoadLink | None:
    if element is None or element.get("elementId") is None:
        return None
    return RoadLink(element.get("elementType", "road"), element.get("elementId", ""), element.get("contactPoint"))


def _read_connections(junction: Element, where: str) -> list[Connection]:
    found = []
    for i, element in enumerate(junction.findall("connection")):
        place = f"{where}: connection {i}"
        pairs = tuple((whole(e, "from", place), whole(e, "to", place)) for e in element.findall("laneLink"))
        # A direct junction names a linkedRoad and has no connecting road.
        other = element.get("connectingRoad") or element.get("linkedRoad") or ""
        incoming, contact = element.get("incomingRoad", ""), element.get("contactPoint")
        found.append(Connection(junction.get("id", ""), incoming, other, contact, pairs))
    return found
