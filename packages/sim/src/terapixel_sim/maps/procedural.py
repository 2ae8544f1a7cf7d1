"""Procedural towns, so that everything runs without a download: `grid_town`, `signal_town` and `curvy_town`.

All are strongly connected, flat, and driven on the right. The same seed gives the same town, bit by bit.
"""

from __future__ import annotations

import numpy as np

from .road_map import RoadMap, Turn
from .roads import Arm, Builder, Path, Vector, arc, direction, lane_point, spline, wrap

_NODES = 4
_BLOCK_M = 80.0
_DROPPED = 2
_MIN_RADIUS_M = 14.0
_RING_WIDTH_M = 4.5


def _check_seed(seed: int) -> None:
    if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool) or seed < 0:
        raise ValueError(f"seed: expected a non-negative integer, got {seed!r}")


def grid_town(seed: int) -> RoadMap:
    """A town of 3 x 3 blocks of about 80 m with uncontrolled crossings.

    Streets have one or two lanes each way and bend gently; nodes are jittered and a few links are missing, so that
    T-junctions occur. The outer streets have one lane each way.

    Args:
        seed: a non-negative integer.
    """
    return _grid(seed, f"grid:{seed}", lights=False)


def signal_town(seed: int) -> RoadMap:
    """`grid_town` of the same seed with traffic lights at all crossings: opposite arms are green together."""
    return _grid(seed, f"signals:{seed}", lights=True)


def _grid(seed: int, name: str, *, lights: bool) -> RoadMap:
    _check_seed(seed)
    rng = np.random.default_rng([seed, 1])
    n = _NODES
    nodes = {(i, j): _BLOCK_M * np.array([i, j]) + rng.uniform(-6.0, 6.0, 2) for i in range(n) for j in range(n)}
    tilt = {node: rng.uniform(-0.1, 0.1) for node in nodes}
    inner = rng.permutation([2, 2, 1, *rng.integers(1, 3, 2 * (n - 2) - 3)])
    columns, rows = [1, *inner[: n - 2], 1], [1, *inner[n - 2 :], 1]
    links = [((i, j), (i + 1, j)) for j in range(n) for i in range(n - 1)]
    links += [((i, j), (i, j + 1)) for i in range(n) for j in range(n - 1)]
    links = _drop_links(rng, links)

    lanes = {(a, b): int(rows[a[1]] if a[1] == b[1] else columns[a[0]]) for a, b in links}
    setback = {v: 14.0 if max(k for link, k in lanes.items() if v in link) > 1 else 11.0 for v in nodes}
    builder = Builder(limit_mps=13.89)
    arms: dict[tuple[int, int], list[Arm]] = {node: [] for node in nodes}
    for a, b in links:
        base = np.arctan2(b[1] - a[1], b[0] - a[0])
        headings = [wrap(base + tilt[v] + rng.uniform(-0.06, 0.06)) for v in (a, b)]
        ends = nodes[a] + setback[a] * direction(headings[0]), nodes[b] - setback[b] * direction(headings[1])
        path, _ = spline(np.stack(ends), headings[0], headings[1])
        forward, backward = builder.road(path, lanes[a, b], f"street {a} to {b}")
        arms[a].append(Arm(ends[0], headings[0], backward, forward))
        arms[b].append(Arm(ends[1], wrap(headings[1] + np.pi), forward, backward))
    for node, there in arms.items():
        if len(there) == 2:
            builder.bend(there[0], there[1], f"bend {node}")
        else:
            junction = builder.crossing(there, f"crossing {node}")
            if lights:
                builder.lights(there, junction)
    return builder.finish(name)


Link = tuple[tuple[int, int], tuple[int, int]]


def _drop_links(rng: np.random.Generator, links: list[Link]) -> list[Link]:
    """Leave out two inner links; inner nodes keep three arms, outer ones two in line, so the town stays connected."""
    last = _NODES - 1
    outer = {(i, j) for i in range(_NODES) for j in range(_NODES) if i in (0, last) or j in (0, last)}
    dropped: list[Link] = []
    for k in rng.permutation(len(links)):
        a, b = links[k]
        if len(dropped) == _DROPPED or (a in outer and b in outer):
            continue
        if all(v in outer or not any(v in link for link in dropped) for v in (a, b)):
            dropped.append(links[k])
    return [link for link in links if link not in dropped]


def curvy_town(seed: int) -> RoadMap:
    """A winding ring road, three or four winding arms from it to a roundabout in the middle; one lane each way.

    Bends have radii from 12 m; the roundabout has one circulating lane around an island that is not drivable.

    Args:
        seed: a non-negative integer.
    """
    _check_seed(seed)
    rng = np.random.default_rng([seed, 2])
    count = int(rng.integers(3, 5))
    turn = 2 * np.pi / count
    angles = rng.uniform(0, turn) + turn * np.arange(count) + rng.uniform(-0.12, 0.12, count)
    distance = rng.uniform(100.0, 125.0, count)
    builder = Builder(limit_mps=11.11)

    centre = np.zeros(2)
    radius = float(rng.uniform(16.0, 20.0))
    hubs: list[Arm] = []
    nodes: list[list[Arm]] = [[] for _ in range(count)]
    setback = 11.0
    for k, angle in enumerate(angles):
        heading = float(angle)
        start, end = centre + (radius + 14.0) * direction(heading), (distance[k] - setback) * direction(heading)
        path = _winding(rng, start, heading, end, heading, amplitude=12.0)
        forward, backward = builder.road(path, 1, f"arm {k}")
        hubs.append(Arm(start, heading, backward, forward))
        nodes[k].append(Arm(end, heading + np.pi, forward, backward))
    for k in range(count):
        m = (k + 1) % count
        headings = float(angles[k]) + np.pi / 2, float(angles[m]) + np.pi / 2
        start = distance[k] * direction(angles[k]) + setback * direction(headings[0])
        end = distance[m] * direction(angles[m]) - setback * direction(headings[1])
        path = _winding(rng, start, headings[0], end, headings[1], amplitude=22.0)
        forward, backward = builder.road(path, 1, f"ring {k}")
        nodes[k].append(Arm(start, headings[0], backward, forward))
        nodes[m].append(Arm(end, headings[1] + np.pi, forward, backward))
    for k, there in enumerate(nodes):
        builder.crossing(there, f"crossing {k}")
    _roundabout(builder, centre, radius, hubs)
    return builder.finish(f"curvy:{seed}")


def _winding(
    rng: np.random.Generator, start: Vector, heading0: float, end: Vector, heading1: float, *, amplitude: float
) -> Path:
    """A road that swings about the gentle curve between two poses, as wildly as the least radius allows."""
    base, _ = spline(np.stack([start, end]), heading0, heading1)
    knots = max(4, round(len(base.xy) / 44))
    pick = np.linspace(0, len(base.xy) - 1, knots + 1).round().astype(int)[1:-1]
    sign = float(rng.choice([-1.0, 1.0])) * (-1.0) ** np.arange(len(pick))
    swing = sign * rng.uniform(0.4, 1.0, len(pick)) * amplitude
    normal = np.stack([-np.sin(base.heading[pick]), np.cos(base.heading[pick])], axis=1)
    for scale in 0.9 ** np.arange(60):
        middle = base.xy[pick] + (scale * swing)[:, None] * normal
        path, radius = spline(np.concatenate([start[None], middle, end[None]]), heading0, heading1)
        if radius >= _MIN_RADIUS_M:
            return path
    return base


def _roundabout(builder: Builder, centre: Vector, radius: float, arms: list[Arm]) -> None:
    """One lane around `centre`, counter-clockwise; at each arm the exit comes just before the entry."""
    junction = builder.new_junction()
    half = np.radians(28.0)
    gates = [(arm.heading - half, arm.heading + half) for arm in arms]
    across: list[int] = []
    between: list[int] = []
    for k, (leave, join) in enumerate(gates):
        following = gates[(k + 1) % len(gates)][0]
        for start, end, ids in ((leave, join, across), (join, following, between)):
            path = arc(centre, radius, start, (end - start) % (2 * np.pi))
            name = f"roundabout {k}"
            ids.append(builder.lane(path, name, width=_RING_WIDTH_M, junction=junction, turn=Turn.STRAIGHT))
    for k, (arm, (leave, join)) in enumerate(zip(arms, gates, strict=True)):
        builder.link(across[k], between[k])
        builder.link(between[k - 1], across[k])
        on = centre + radius * direction(join), join + np.pi / 2
        off = centre + radius * direction(leave), leave + np.pi / 2
        inbound = lane_point(arm, 0, 1.0), arm.heading + np.pi
        outbound = lane_point(arm, 0, -1.0), arm.heading
        builder.connect(inbound, arm.incoming[0], on, between[k], junction, Turn.STRAIGHT, f"entry {k}")
        builder.connect(off, between[k - 1], outbound, arm.outgoing[0], junction, Turn.RIGHT, f"exit {k}")
