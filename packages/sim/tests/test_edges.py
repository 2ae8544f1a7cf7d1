import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from terapixel_sim.maps.edges import drivable_area, drivable_edges
from terapixel_sim.maps.road_map import Lane


def strip(lane_id, start, end, width=4.0, z=(0.0, 0.0)):
    start, end = np.array(start, dtype=float), np.array(end, dtype=float)
    d = (end - start) / np.hypot(*(end - start))
    side = np.array([-d[1], d[0]]) * width / 2

    def line(offset):
        return np.column_stack([np.stack([start + offset, end + offset]), z])

    return Lane(id=lane_id, centre=line(0 * side), left=line(side), right=line(-side))


def signed_area(ring):
    x, y = ring[:-1, 0], ring[:-1, 1]
    return 0.5 * np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))


def test_one_lane_gives_its_own_outline_counter_clockwise():
    (ring,) = drivable_edges([strip(0, (0, 0), (30, 0))])
    assert np.array_equal(ring[0], ring[-1])
    assert signed_area(ring) == pytest.approx(120.0, abs=1e-6)
    assert sorted(map(tuple, ring[:-1, :2].round(9))) == [(0, -2), (0, 2), (30, -2), (30, 2)]


def test_a_hairline_seam_is_closed_and_straight_borders_stay():
    lanes = [strip(0, (0, 0), (30, 0)), strip(1, (0, 4.03), (30, 4.03)), strip(2, (30.02, 0), (60, 0))]
    (ring,) = drivable_edges(lanes)
    wanted = shapely.union_all([shapely.box(0, -2, 30, 6.03), shapely.box(30, -2, 60, 2)])
    assert shapely.Polygon(ring[:, :2]).symmetric_difference(wanted).area < 0.01


def test_a_wide_gap_stays_open():
    rings = drivable_edges([strip(0, (0, 0), (30, 0)), strip(1, (0, 4.5), (30, 4.5))])
    assert len(rings) == 2


def frame(side, width=4.0):
    h = side / 2 + width / 2
    corners = [(-h, -h), (h, -h), (h, h), (-h, h)]
    ends = zip(corners, corners[1:] + corners[:1], strict=True)
    d = width / 2
    return [
        strip(i, np.subtract(a, d * np.sign(np.subtract(b, a))), np.add(b, d * np.sign(np.subtract(b, a))), width)
        for i, (a, b) in enumerate(ends)
    ]


@pytest.mark.parametrize(("side", "holes"), [(4.9, 0), (5.1, 1)])
def test_only_holes_under_25_square_metres_are_filled(side, holes):
    rings = drivable_edges(frame(side))
    assert len(rings) == 1 + holes
    assert [np.sign(signed_area(r)) for r in rings[1:]] == [-1.0] * holes


def test_extra_areas_join_and_nothing_is_refused():
    bay = np.array([[10.0, 2.0], [20.0, 2.0], [20.0, 8.0], [10.0, 8.0]])
    assert drivable_area([strip(0, (0, 0), (30, 0))], [bay]).area == pytest.approx(180.0, abs=0.01)
    with pytest.raises(ValueError, match="at least one lane or area"):
        drivable_area([])


def test_height_comes_from_the_nearest_lane_boundary():
    (ring,) = drivable_edges([strip(0, (0, 0), (30, 0), z=(1.0, 4.0))])
    assert {(x, z) for x, _, z in ring.round(9)} == {(0.0, 1.0), (30.0, 4.0)}


def test_a_lane_whose_boundary_folds_back_still_counts_whole():
    angle = np.linspace(0.0, np.pi, 30)
    circle = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    # the inner boundary of a bend of radius 1.5 m lies 2 m to its left: beyond the centre
    lane = Lane(id=0, centre=1.5 * circle, left=-0.5 * circle, right=3.5 * circle)
    assert drivable_area([lane]).area == pytest.approx(np.pi / 2 * 3.5**2, rel=0.05)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(*[st.integers(-40, 40)] * 4), min_size=1, max_size=6))
def test_edges_keep_within_two_centimetres_and_have_the_road_on_their_left(ends):
    lanes = [strip(i, (a, b), (c, d)) for i, (a, b, c, d) in enumerate(ends) if (a, b) != (c, d)]
    if not lanes:
        return
    rings = drivable_edges(lanes)
    union = shapely.union_all([shapely.Polygon(np.concatenate([x.left, x.right[::-1]])[:, :2]) for x in lanes])
    area = drivable_area(lanes)
    lines = shapely.linestrings([p for r in rings for p in np.stack([r[:-1, :2], r[1:, :2]], axis=1)])
    # no border strays from the true one, but where a wedge narrower than a seam was closed
    seamless = shapely.buffer(shapely.buffer(union, 0.03, join_style="mitre"), -0.03, join_style="mitre")
    assert shapely.distance(shapely.boundary(seamless), shapely.points(shapely.get_coordinates(lines))).max() < 0.021
    assert area.buffer(0.021).covers(union)
    middle = np.concatenate([(r[1:, :2] + r[:-1, :2]) / 2 for r in rings])
    d = np.concatenate([np.diff(r[:, :2], axis=0) for r in rings])
    left = 1e-6 * np.stack([-d[:, 1], d[:, 0]], axis=1) / np.hypot(*d.T)[:, None]
    assert shapely.covers(area, shapely.points(middle + left)).all()
    assert not shapely.contains(area, shapely.points(middle - left)).any()
