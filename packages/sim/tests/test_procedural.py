import numpy as np
import pytest
import shapely
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from terapixel_sim.maps.centre_lines import centre_line
from terapixel_sim.maps.edges import drivable_area
from terapixel_sim.maps.procedural import curvy_town, grid_town, signal_town
from terapixel_sim.maps.road_map import Turn

TOWNS = {f"{make.__name__} {seed}": make(seed) for make in (grid_town, signal_town, curvy_town) for seed in (0, 4)}


@pytest.fixture(params=TOWNS)
def town(request):
    return TOWNS[request.param]


def length(lane):
    return np.hypot(*np.diff(lane.centre[:, :2], axis=0).T).sum()


def test_a_box_driven_along_every_lane_stays_on_the_road(town):
    area = drivable_area(town.lanes)
    shapely.prepare(area)
    corners = np.array([[2.5, 1.0], [-2.5, 1.0], [-2.5, -1.0], [2.5, -1.0]])
    for lane in town.lanes:
        points = centre_line(lane).points
        cos, sin = points[:, 3, None], points[:, 4, None]
        x = points[:, :1] + cos * corners[:, 0] - sin * corners[:, 1]
        y = points[:, 1:2] + sin * corners[:, 0] + cos * corners[:, 1]
        inside = shapely.covers(area, shapely.polygons(np.stack([x, y], axis=-1)))
        assert inside.all(), (lane.source, np.flatnonzero(~inside))


def test_everyone_can_drive_from_every_lane_to_every_lane(town):
    links = np.array([(lane.id, s) for lane in town.lanes for s in lane.successors])
    n = len(town.lanes)
    graph = coo_matrix((np.ones(len(links)), links.T), shape=(n, n))
    assert connected_components(graph, connection="strong")[0] == 1


def test_lanes_are_smooth_and_links_join(town):
    limit = np.cos(np.radians(12.0))
    lines = [centre_line(lane).points for lane in town.lanes]
    for lane, points in zip(town.lanes, lines, strict=True):
        tangent = points[:, 3:5]
        assert (tangent[1:] * tangent[:-1]).sum(axis=1).min() > limit, lane.source
        for s in lane.successors:
            assert np.hypot(*(lines[s][0, :2] - points[-1, :2])) < 0.01
            assert lines[s][0, 3:5] @ points[-1, 3:5] > limit


def test_bends_are_wide_enough_for_a_car(town):
    for lane in town.lanes:
        points = centre_line(lane).points
        if len(points) > 2:
            turn = np.diff(np.unwrap(np.arctan2(points[:, 4], points[:, 3])))
            step = np.hypot(*np.diff(points[:, :2], axis=0).T)
            least = 6.0 if lane.junction >= 0 else 7.0
            assert (step / np.maximum(np.abs(turn), 1e-6)).min() > least, lane.source


def test_lanes_are_wide_and_neighbours_lie_beside(town):
    for lane in town.lanes:
        assert np.hypot(*(lane.left - lane.right)[:, :2].T).min() >= 2.4
        assert np.allclose((lane.left + lane.right) / 2, lane.centre)
        if lane.left_neighbour >= 0:
            other = town.lanes[lane.left_neighbour]
            assert other.right_neighbour == lane.id
            assert np.allclose(other.right, lane.left)


def test_the_same_seed_gives_the_same_town_and_others_differ():
    for make in (grid_town, curvy_town):
        a, b, c = make(5), make(5), make(6)
        assert all(np.array_equal(x.centre, y.centre) for x, y in zip(a.lanes, b.lanes, strict=True))
        assert all(np.array_equal(x, y) for x, y in zip(a.edges, b.edges, strict=True))
        assert not np.array_equal(a.lanes[0].centre, c.lanes[0].centre)


def test_a_grid_has_its_size_lanes_turns_and_blocks():
    for name, town in TOWNS.items():
        if "grid" in name:
            assert 4500 < sum(map(length, town.lanes)) < 5700
            assert {lane.turn for lane in town.lanes} == set(Turn)
            assert all((lane.junction >= 0) == (lane.turn != Turn.NONE) for lane in town.lanes)
            assert any(lane.left_neighbour >= 0 for lane in town.lanes)
            # one outline and one hole for each of 9 blocks, less one for each of the two links left out
            assert len(town.edges) == 8


def test_turn_names_follow_the_geometry():
    for lane in grid_town(2).lanes:
        first, last = np.diff(lane.centre[:2, :2], axis=0)[0], np.diff(lane.centre[-2:, :2], axis=0)[0]
        turn = np.arctan2(first[0] * last[1] - first[1] * last[0], first @ last)
        if lane.turn != Turn.NONE:
            assert {Turn.LEFT: turn > 0.8, Turn.STRAIGHT: abs(turn) < 0.8, Turn.RIGHT: turn < -0.8}[lane.turn]


def test_the_roundabout_runs_counter_clockwise_around_an_island():
    for name, town in TOWNS.items():
        if "curvy" in name:
            ring = [lane for lane in town.lanes if lane.source.startswith("roundabout")]
            assert len(ring) in (6, 8)
            for lane in ring:
                x, y = lane.centre[0, :2]
                dx, dy = np.diff(lane.centre[:2, :2], axis=0)[0]
                assert x * dy - y * dx > 0
            assert not drivable_area(town.lanes).contains(shapely.Point(0, 0))
            assert any(shapely.Polygon(edge[:, :2]).contains(shapely.Point(0, 0)) for edge in town.edges[1:])


def test_curvy_roads_bend_by_various_radii_of_at_least_12_m():
    radii = []
    for lane in (lane for lane in curvy_town(3).lanes if lane.junction < 0):
        xy = lane.centre[:, :2]
        heading = np.unwrap(np.arctan2(*np.diff(xy, axis=0).T[::-1]))
        step = np.hypot(*np.diff(xy, axis=0).T)
        radii.append(((step[1:] + step[:-1]) / 2 / np.maximum(np.abs(np.diff(heading)), 1e-9)).min())
    assert min(radii) >= 12.0
    assert max(radii) > 1.3 * min(radii)


def test_paint_keeps_out_of_junctions_and_on_the_road(town):
    area = drivable_area(town.lanes)
    junctions = drivable_area([lane for lane in town.lanes if lane.junction >= 0])
    assert {m.colour for m in town.markings} == {"white", "yellow"}
    for marking in town.markings:
        line = shapely.LineString(marking.points[:, :2])
        assert line.within(area)
        assert line.intersection(junctions.buffer(-0.3)).length < 2.0


def test_a_bad_seed_is_refused():
    for seed in (-1, 1.5, True, "1"):
        with pytest.raises(ValueError, match="seed: expected a non-negative integer"):
            grid_town(seed)


@pytest.mark.parametrize("seed", range(6))
def test_every_way_into_a_crossing_has_one_light_and_ways_that_cross_take_turns(seed):
    town = signal_town(seed)
    into = [a for a in town.lanes if a.junction < 0 and any(town.lanes[s].junction >= 0 for s in a.successors)]
    lines = {lane: line for line in town.stop_lines for lane in line.lanes}
    assert sorted(lines) == sorted(lane.id for lane in into)
    assert sum(len(line.lanes) for line in town.stop_lines) == len(into)
    for lane in into:
        line, signal = lines[lane.id], town.signals[lines[lane.id].signal]
        way = lane.centre[-1, :2] - lane.centre[-2, :2]
        way /= np.hypot(*way)
        assert way @ [np.cos(signal.heading), np.sin(signal.heading)] > 0.98
        ahead = (signal.position[:2] - lane.centre[-1, :2]) @ way
        assert ahead > 10.0, "it hangs behind the crossing"
        gap = (lane.centre[-1, :2] - line.points[:, :2].mean(axis=0)) @ way
        assert gap == pytest.approx(1.0, abs=0.2)
        assert shapely.LineString(line.points[:, :2]).crosses(shapely.LineString(lane.centre[:, :2]))
        assert town.lanes[lane.successors[0]].junction == signal.controller
    straight = [(lane, s) for lane in into for s in lane.successors if town.lanes[s].turn == Turn.STRAIGHT]
    for i, (a, across_a) in enumerate(straight):
        for b, across_b in straight[:i]:
            one, other = (town.signals[lines[x.id].signal] for x in (a, b))
            paths = [shapely.LineString(town.lanes[k].centre[:, :2]) for k in (across_a, across_b)]
            if one.controller == other.controller and paths[0].crosses(paths[1]):
                assert one.group != other.group


def test_lights_change_nothing_else_in_a_town():
    plain, lit = grid_town(7), signal_town(7)
    assert len(plain.lanes) == len(lit.lanes)
    for a, b in zip(plain.lanes, lit.lanes, strict=True):
        assert np.array_equal(a.centre, b.centre)
        assert (a.successors, a.junction, a.turn) == (b.successors, b.junction, b.turn)
    assert not plain.signals
