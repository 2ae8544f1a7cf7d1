"""A crossing with traffic lights, by hand: two roads of one lane each way, along x and along y."""

import numpy as np
from terapixel_sim.maps.road_map import Lane, RoadMap, Signal, StopLine

HALF, ARM = 10.0, 110.0  # of the junction's square, and where the arms end [m]
OFFSET = 1.75  # of a lane from its road's middle, to the right


def line(start, end, offset):
    start, end = np.array(start), np.array(end)
    d = (end - start) / np.linalg.norm(end - start)
    right = np.array([d[1], -d[0]])
    n = int(np.linalg.norm(end - start) / 5) + 1
    xy = np.linspace(start, end, n) + offset * right
    return np.column_stack([xy, np.zeros(n)])


def light_town(groups=(0, 1, 0, 1), controller=3):
    """Approaches from west, south, east and north: lanes 3 k (in), 3 k + 1 (straight across), 3 k + 2 (out)."""
    lanes, signals, stops = [], [], []
    for k, angle in enumerate(np.radians([0, 90, 180, 270])):
        way = np.array([np.cos(angle), np.sin(angle)])
        places = [-ARM, -HALF, HALF, ARM]
        for part in range(3):
            ends = [places[part] * way, places[part + 1] * way]
            lanes.append(
                Lane(
                    id=len(lanes),
                    centre=line(*ends, OFFSET),
                    left=line(*ends, 0.0),
                    right=line(*ends, 2 * OFFSET),
                    successors=(len(lanes) + 1,) if part < 2 else (),
                    predecessors=(len(lanes) - 1,) if part else (),
                    junction=0 if part == 1 else -1,
                    speed_limit=13.0,
                )
            )
        right = np.array([way[1], -way[0]])
        at = -(HALF + 1.0) * way
        ends = np.array([[*at, 0.0], [*(at + 2 * OFFSET * right), 0.0]])
        stops.append(StopLine(points=ends, lanes=(3 * k,), signal=k))
        head = np.array([*(HALF * way + 5.0 * right), 5.0])
        signals.append(
            Signal(position=head, heading=float(np.arctan2(way[1], way[0])), controller=controller, group=groups[k])
        )
    return RoadMap(name="lights", lanes=tuple(lanes), signals=tuple(signals), stop_lines=tuple(stops)).validate()
