"""Real OpenDRIVE files: counts, links and the drivable area. Skipped where the files are absent."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import shapely
from terapixel_sim.maps.opendrive import load_opendrive
from terapixel_sim.maps.road_map import Turn

SHARED = Path(os.environ.get("TERAPIXEL_SHARED", Path(__file__).parents[4] / "shared"))
FOLDER = SHARED / "data" / "maps_opendrive"
slow = pytest.mark.slow

# file, lanes, lanes without successor, without predecessor, total length [m]
MAPS = [
    pytest.param("esmini_fabriksgatan.xodr", 20, 4, 4, 1216.6, id="fabriksgatan"),
    pytest.param("carla_Town02.xodr.gz", 88, 0, 0, 2918.6, id="Town02"),
    pytest.param("carla_Town01.xodr.gz", 124, 0, 0, 6402.0, id="Town01", marks=slow),
    pytest.param("carla_Town03.xodr.gz", 409, 13, 12, 14847.0, id="Town03", marks=slow),
    pytest.param("carla_Town06.xodr.gz", 424, 1, 4, 25445.0, id="Town06", marks=slow),
    pytest.param("carla_Town10HD.xodr.gz", 168, 0, 0, 5932.0, id="Town10HD", marks=slow),
]


def path_of(name):
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"{name} is not in {FOLDER}")
    return path


@cache
def load(name):
    return load_opendrive(path_of(name))


def length(lane):
    return np.linalg.norm(np.diff(lane.centre, axis=0), axis=1).sum()


def area_of(m):
    """The ground that the edges enclose: outer rings run counter-clockwise, holes clockwise."""
    rings = [shapely.LinearRing(e[:, :2]) for e in m.edges]
    outer = shapely.union_all([shapely.Polygon(r) for r in rings if r.is_ccw])
    return shapely.difference(outer, shapely.union_all([shapely.Polygon(r) for r in rings if not r.is_ccw]))


def poses(lane, step=1.0):
    """Points along a lane where it is at least 2.4 m wide, with the heading of the chord around each.

    A car longer than the lane's dead end would stand beyond it: 2.6 m are left free there.
    """
    s = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(lane.centre[:, :2], axis=0).T))])
    at = np.arange(0.0 if lane.predecessors else 2.6, s[-1] - (0.0 if lane.successors else 2.6), step)

    def on(line, q):
        return np.stack([np.interp(q, s, line[:, k]) for k in (0, 1)], axis=1)

    chord = on(lane.centre, at + 0.5) - on(lane.centre, at - 0.5)
    ahead = chord / np.linalg.norm(chord, axis=1, keepdims=True)
    wide = np.linalg.norm(on(lane.left, at) - on(lane.right, at), axis=1) >= 2.4
    return on(lane.centre, at)[wide], ahead[wide]


def corners(point, ahead, car_length=5.0, car_width=2.0):
    side = np.stack([-ahead[:, 1], ahead[:, 0]], axis=1)
    signs = [(a, b) for a in (0.5, -0.5) for b in (0.5, -0.5)]
    return np.concatenate([point + a * car_length * ahead + b * car_width * side for a, b in signs])


@pytest.mark.parametrize(("name", "lanes", "dead_ends", "sources", "total"), MAPS)
def test_counts(name, lanes, dead_ends, sources, total):
    m = load(name)
    assert len(m.lanes) == lanes
    assert sum(not x.successors for x in m.lanes) == dead_ends
    assert sum(not x.predecessors for x in m.lanes) == sources
    assert sum(map(length, m.lanes)) == pytest.approx(total, abs=1.0)


@pytest.mark.parametrize(("name", "lanes", "dead_ends", "sources", "total"), MAPS)
def test_a_car_on_any_lane_is_on_the_road(name, lanes, dead_ends, sources, total):
    m = load(name)
    area = area_of(m)
    every = np.concatenate([corners(*poses(lane)) for lane in m.lanes])
    assert shapely.distance(area, shapely.points(every)).max() < 0.02


@pytest.mark.parametrize(("name", "lanes", "dead_ends", "sources", "total"), MAPS)
def test_edges_bound_the_road_and_cross_no_lane(name, lanes, dead_ends, sources, total):
    m = load(name)
    strips = shapely.union_all([shapely.Polygon(np.concatenate([x.left, x.right[::-1]])[:, :2]) for x in m.lanes])
    edges = shapely.MultiLineString([e[:, :2] for e in m.edges])
    inner = [shapely.LineString(x.centre[:, :2]) for x in m.lanes]
    # a dead end's own edge lies across its very end
    ends = shapely.buffer(shapely.points([p for x in m.lanes for p in (x.centre[0, :2], x.centre[-1, :2])]), 0.1)
    crossings = shapely.difference(
        shapely.intersection(shapely.multilinestrings(inner), edges), shapely.union_all(ends)
    )
    assert crossings.is_empty
    for ring in m.edges:
        step = np.diff(ring[:, :2], axis=0)
        keep = np.linalg.norm(step, axis=1) > 4.0
        middle = 0.5 * (ring[1:, :2] + ring[:-1, :2])[keep]
        left = np.stack([-step[:, 1], step[:, 0]], axis=1)[keep] / np.linalg.norm(step[keep], axis=1, keepdims=True)
        assert not shapely.contains_xy(strips, *(middle - 0.1 * left).T).any()


@pytest.mark.parametrize(("name", "lanes", "dead_ends", "sources", "total"), MAPS)
def test_links_meet_and_neighbours_lie_beside(name, lanes, dead_ends, sources, total):
    m = load(name)
    for lane in m.lanes:
        for target in lane.successors:
            assert np.linalg.norm(lane.centre[-1] - m.lanes[target].centre[0]) <= 0.5
        if lane.left_neighbour >= 0:
            other = m.lanes[lane.left_neighbour]
            i = len(lane.centre) // 2
            gap = np.linalg.norm(other.right[:, :2] - lane.left[i, :2], axis=1).min()
            assert gap < 2.5  # the nearest vertex of the shared border
            assert lane.junction == other.junction == -1


def test_fabriksgatan_junction_has_every_turn_once_a_road():
    m = load("esmini_fabriksgatan.xodr")
    turns = [x.turn for x in m.lanes if x.junction == 4]
    assert sorted(turns) == [Turn.LEFT] * 4 + [Turn.STRAIGHT] * 4 + [Turn.RIGHT] * 4
    entering = [x for x in m.lanes if x.junction == -1 and x.successors]
    assert [len(x.successors) for x in entering] == [3] * 4


def test_left_hand_copy_of_a_road_drives_the_other_way():
    right, left = load("esmini_e6mini.xodr"), load("esmini_e6mini-lht.xodr")
    assert len(right.lanes) == len(left.lanes) == 6
    for a, b in zip(right.lanes, left.lanes, strict=True):
        np.testing.assert_allclose(a.centre, b.centre[::-1])
        np.testing.assert_allclose(a.left, b.right[::-1])


def test_hills_are_kept():
    z = np.concatenate([x.centre[:, 2] for x in load("esmini_curves_elevation.xodr").lanes])
    assert np.ptp(z) > 5.0


def test_direct_junction_of_a_ramp():
    m = load("esmini_soderleden.xodr")
    assert sum(not x.successors for x in m.lanes) == 3


def test_nan_is_refused_by_place():
    with pytest.raises(ValueError, match=r"NanValues\.xodr: road 5383: superelevation: a is not finite"):
        load("maliput_SingleRoadNanValues.xodr")


@slow
@pytest.mark.parametrize(
    ("name", "lanes"),
    [
        ("asam_Ex_Entry_Exit.xodr", 17),
        ("chatt.xodr", 246),
        ("crd_CrossingComplex8Course.xodr", 28),
        ("crd_MONAEast.xodr", 39),
        ("crd_roundabout.xodr", 48),
        ("esmini_two_plus_one.xodr", 17),
        ("maliput_GapInLaneWidthNonDrivableLane.xodr", 2),
        ("maliput_SmallTownRoads.xodr", 346),
    ],
)
def test_other_files_load(name, lanes):
    assert len(load(name).lanes) == lanes
