"""Which lane follows which: links within a road, between roads and through junctions, checked against the geometry."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .opendrive_geometry import Array, reference_line
from .opendrive_lanes import Key, Strip
from .opendrive_records import Connection, Records, Road, RoadLink

JOINT_GAP = 0.5  # [m]
JOINT_ANGLE = np.deg2rad(45.0)
SNAP = 0.05  # joined vertices this close become one [m]

End = tuple[Key, bool]
"""A lane and one of its ends: True is the end with the larger station."""


def link(records: Records, strips: dict[Key, Strip], forward: dict[Key, bool], short: set[Key]) -> None:
    """Fill `successors` and `predecessors` of all strips.

    Links are taken from both sides of every joint; lanes in `short` are replaced by what lies beyond them. A link whose
    ends are more than 0.5 m or 45 degrees apart is dropped and counted in `records.skipped`.

    Args:
        records: the file's records.
        strips: the lanes that are kept.
        forward: whether a drivable lane travels along its road's stations, for kept and short lanes.
        short: lanes too short to keep.
    """
    follows: dict[Key, set[Key]] = {}
    for (a, a_end), (b, b_end) in sorted(set(_joints(records))):
        if a not in forward or b not in forward:
            records.skipped["links to lanes that are not part of the map"] += a in forward or b in forward
            continue
        leaves_a, leaves_b = a_end == forward[a], b_end == forward[b]
        if leaves_a == leaves_b:
            records.skipped["links between opposite directions of travel"] += 1
            continue
        source, target = (a, b) if leaves_a else (b, a)
        follows.setdefault(source, set()).add(target)
    for key, strip in strips.items():
        for target in sorted(_beyond(key, follows, short)):
            fault = _fault(strip, strips[target])
            if fault:
                records.skipped[f"links dropped: {fault}"] += 1
            else:
                strip.successors.add(target)
                strips[target].predecessors.add(key)
    _snap(strips)


def _beyond(key: Key, follows: dict[Key, set[Key]], short: set[Key]) -> set[Key]:
    """Successors of a lane, with short lanes replaced by their own successors."""
    reached: set[Key] = set()
    seen: set[Key] = set()
    stack = list(follows.get(key, ()))
    while stack:
        target = stack.pop()
        if target not in short:
            reached.add(target)
        elif target not in seen:
            seen.add(target)
            stack.extend(follows.get(target, ()))
    return reached


def _joints(records: Records) -> Iterator[tuple[End, End]]:
    """Every pair of lane ends that the file joins, the smaller first."""
    for road in records.roads.values():
        last = len(road.sections) - 1
        for index, section in enumerate(road.sections):
            for lane in section.lanes.values():
                for far, other in ((True, lane.successor), (False, lane.predecessor)):
                    if other is None or lane.id == 0:
                        continue
                    end: End = ((road.id, index, lane.id), far)
                    neighbour = index + (1 if far else -1)
                    if 0 <= neighbour <= last:
                        yield _ordered(end, ((road.id, neighbour, other), not far))
                        continue
                    touched = _touched(records, road, far)
                    if touched is not None:
                        yield _ordered(end, _end_of(*touched, other))
    for connection in records.connections:
        yield from _junction_joints(records, connection)


def _junction_joints(records: Records, connection: Connection) -> Iterator[tuple[End, End]]:
    incoming = records.roads.get(connection.incoming)
    connecting = records.roads.get(connection.connecting)
    if incoming is None or connecting is None or not incoming.sections or not connecting.sections:
        records.skipped["junction connections to missing roads"] += 1
        return
    contact = _nearer_end(connecting, incoming) if connection.contact is None else connection.contact == "end"
    ends = [
        far for far, touch in ((False, incoming.predecessor), (True, incoming.successor)) if _enters(touch, connection)
    ]
    far = ends[0] if len(ends) == 1 else _nearer_to(incoming, _reference_end(connecting, contact))
    for lane, other in connection.lanes:
        yield _ordered(_end_of(incoming, far, lane), _end_of(connecting, contact, other))


def _enters(touch: RoadLink | None, connection: Connection) -> bool:
    return touch is not None and touch.kind == "junction" and touch.id == connection.junction


def _touched(records: Records, road: Road, far: bool) -> tuple[Road, bool] | None:
    """The road and its end (True: larger station) that the given end of a road is linked to, if it is a road."""
    touch = road.successor if far else road.predecessor
    if touch is None or touch.kind != "road":
        return None
    other = records.roads.get(touch.id)
    if other is None or not other.sections:
        records.skipped["links to missing roads"] += 1
        return None
    if touch.contact is None:
        return other, _nearer_to(other, _reference_end(road, far))
    return other, touch.contact == "end"


def _ordered(a: End, b: End) -> tuple[End, End]:
    return (a, b) if a <= b else (b, a)


def _end_of(road: Road, far: bool, lane: int) -> End:
    return (road.id, len(road.sections) - 1 if far else 0, lane), far


def _reference_end(road: Road, far: bool) -> Array:
    first, last = road.geometries[0], road.geometries[-1]
    x, y, _ = reference_line(road.geometries, np.array([last.s + last.length if far else first.s]))
    return np.array([x[0], y[0]])


def _nearer_to(road: Road, point: Array) -> bool:
    """Which end of a road lies nearer to a point; True is the end with the larger station."""
    start, end = (float(np.linalg.norm(_reference_end(road, far) - point)) for far in (False, True))
    return end < start


def _nearer_end(road: Road, other: Road) -> bool:
    gaps = {far: min(_gap(road, far, other, end) for end in (False, True)) for far in (False, True)}
    return gaps[True] < gaps[False]


def _gap(a: Road, a_far: bool, b: Road, b_far: bool) -> float:
    return float(np.linalg.norm(_reference_end(a, a_far) - _reference_end(b, b_far)))


def _fault(source: Strip, target: Strip) -> str:
    """Why the end of one lane does not meet the beginning of the next; empty when it does."""
    if source.cut[1] or target.cut[0]:
        return "the lane is narrower than 1 m at the joint"
    if np.linalg.norm(source.centre[-1] - target.centre[0]) > JOINT_GAP:
        return "the ends are more than 0.5 m apart"
    before, after = source.centre[-1] - source.centre[-2], target.centre[1] - target.centre[0]
    cross, dot = before[0] * after[1] - before[1] * after[0], before[:2] @ after[:2]
    return "the ends are more than 45 degrees apart" if abs(np.arctan2(cross, dot)) > JOINT_ANGLE else ""


def _snap(strips: dict[Key, Strip]) -> None:
    """Give joined lanes the same end vertices where rounding in the file keeps them a few centimetres apart."""
    # Roads outside junctions keep theirs: several connecting lanes end at each of them.
    for key in sorted(strips):
        strip = strips[key]
        for target in sorted(strip.successors):
            other = strips[target]
            moves = strip.junction != "-1" and other.junction == "-1"
            for mine, theirs in ((strip.left, other.left), (strip.centre, other.centre), (strip.right, other.right)):
                if np.linalg.norm(mine[-1] - theirs[0]) <= SNAP:
                    if moves:
                        mine[-1] = theirs[0]
                    else:
                        theirs[0] = mine[-1]
