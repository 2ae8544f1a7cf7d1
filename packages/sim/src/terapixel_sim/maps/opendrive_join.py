"""From strips to lanes: neighbours for lane changes, sections of a road joined into one lane, turns."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .opendrive_geometry import Array
from .opendrive_lanes import Key, SectionFrame, Strip
from .opendrive_marks import may_cross
from .road_map import Lane, Turn

TURN_ANGLE = np.deg2rad(30.0)
U_TURN_ANGLE = np.deg2rad(150.0)


def set_neighbours(frame: SectionFrame, strips: dict[Key, Strip]) -> None:
    """Name the lanes of a section that may be changed into: adjacent, same direction, no junction, mark permitting."""
    if frame.road.junction != "-1":
        return
    for inner_id, lane in frame.section.lanes.items():
        if inner_id == 0:
            continue
        outer_id = inner_id + (1 if inner_id > 0 else -1)
        inner = strips.get((frame.road.id, frame.index, inner_id))
        outer = strips.get((frame.road.id, frame.index, outer_id))
        # Both directions use a bidirectional lane (a central turn lane), so no lane change leads along it.
        if inner is None or outer is None or "bidirectional" in (inner.kind, outer.kind):
            continue
        start, end = frame.section.start, frame.section.end
        outwards, inwards = (may_cross(lane.marks, start, end, outwards=out, lane=inner_id) for out in (True, False))
        outer_is_left = (outer_id > inner_id) == inner.forward
        if outwards:
            _set_side(inner, outer.key, left=outer_is_left)
        if inwards:
            _set_side(outer, inner.key, left=not outer_is_left)


def _set_side(strip: Strip, key: Key, *, left: bool) -> None:
    if left:
        strip.left_neighbour = key
    else:
        strip.right_neighbour = key


def chains(strips: dict[Key, Strip], section_counts: dict[str, int]) -> list[list[Strip]]:
    """Group strips into lanes: consecutive sections of a road are joined where nothing but the section ends.

    That is where all lanes of both sections are linked one to one, with the same speed limits and neighbours.

    Returns:
        The strips of each lane in the direction of travel, lanes in order of their first strip in the file.
    """
    by_section: dict[tuple[str, int], list[Strip]] = {}
    for strip in strips.values():
        by_section.setdefault(strip.key[:2], []).append(strip)
    following: dict[Key, Key] = {}
    for road, count in section_counts.items():
        for index in range(count - 1):
            pairs = _one_to_one(by_section.get((road, index), []), by_section.get((road, index + 1), []), strips)
            following.update(pairs)
    heads = [key for key in strips if key not in set(following.values())]
    lanes = []
    for head in heads:
        chain = [strips[head]]
        while chain[-1].key in following:
            chain.append(strips[following[chain[-1].key]])
        lanes.append(chain)
    return lanes


def _one_to_one(before: list[Strip], after: list[Strip], strips: dict[Key, Strip]) -> dict[Key, Key]:
    """Successor of each strip across the border of two sections, or nothing if the sections differ in any lane."""
    across: dict[Key, Key] = {}
    for strip in before:
        there = strip.successors if strip.forward else strip.predecessors
        if len(there) != 1:
            return {}
        across[strip.key] = next(iter(there))
    if sorted(across.values()) != sorted(strip.key for strip in after):
        return {}
    for strip in before:
        other = strips[across[strip.key]]
        back = other.predecessors if strip.forward else other.successors
        sides = [None if k is None else across.get(k) for k in (strip.left_neighbour, strip.right_neighbour)]
        same = strip.speed == other.speed and sides == [other.left_neighbour, other.right_neighbour]
        if not same or len(back) != 1 or strip.forward != other.forward:
            return {}
    return {a if strips[a].forward else b: b if strips[a].forward else a for a, b in across.items()}


def build_lanes(lanes: list[list[Strip]], junctions: dict[str, int]) -> tuple[Lane, ...]:
    """Number the chains and make them lanes.

    Args:
        lanes: strips of each lane in the direction of travel.
        junctions: number of each junction id; roads outside have the id `-1`.
    """
    first = {chain[0].key: i for i, chain in enumerate(lanes)}
    last = {chain[-1].key: i for i, chain in enumerate(lanes)}
    owner = {strip.key: i for i, chain in enumerate(lanes) for strip in chain}
    made = []
    for i, chain in enumerate(lanes):
        head, tail = chain[0], chain[-1]
        road, section, lane_id = head.key
        centre = _joined(strip.centre for strip in chain)
        made.append(
            Lane(
                id=i,
                centre=centre,
                left=_joined(strip.left for strip in chain),
                right=_joined(strip.right for strip in chain),
                speed_limit=head.speed,
                successors=tuple(sorted(first[key] for key in tail.successors)),
                predecessors=tuple(sorted(last[key] for key in head.predecessors)),
                left_neighbour=-1 if head.left_neighbour is None else owner[head.left_neighbour],
                right_neighbour=-1 if head.right_neighbour is None else owner[head.right_neighbour],
                junction=junctions.get(head.junction, -1),
                turn=turn_of(centre) if head.junction in junctions else Turn.NONE,
                source=f"road {road} section {section} lane {lane_id}",
            )
        )
    return tuple(made)


def _joined(parts: Iterable[Array]) -> Array:
    lines = list(parts)
    return np.concatenate([lines[0], *(line[1:] for line in lines[1:])])


def turn_of(centre: Array) -> Turn:
    """Turn of a junction lane by its change of heading: over 30 degrees is a turn, over 150 a U-turn, which is LEFT."""
    steps = np.diff(centre[:, :2], axis=0)
    cross = steps[:-1, 0] * steps[1:, 1] - steps[:-1, 1] * steps[1:, 0]
    change = float(np.sum(np.arctan2(cross, np.sum(steps[:-1] * steps[1:], axis=1))))
    if change > TURN_ANGLE or change < -U_TURN_ANGLE:
        return Turn.LEFT
    return Turn.RIGHT if change < -TURN_ANGLE else Turn.STRAIGHT
