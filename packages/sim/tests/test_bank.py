import dataclasses

import numpy as np
import pytest
import shapely
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from terapixel_sim.config import RouteConfig, SimConfig, SpawnConfig
from terapixel_sim.layout import EdgeCol, Head, LaneFloat, LaneInt, MapFloat, MapInt, ObsSegment, PointCol
from terapixel_sim.maps.bank import MapBank, build_bank, segment_rows
from terapixel_sim.maps.centre_lines import centre_line
from terapixel_sim.maps.edges import drivable_area
from terapixel_sim.maps.grid import make_grid
from terapixel_sim.maps.procedural import curvy_town, grid_town
from terapixel_sim.maps.road_map import Lane, RoadMap
from terapixel_sim.maps.slots import JITTER_ACROSS_M, JITTER_ALONG_M, JITTER_HEADING_RAD
from terapixel_sim.reference.lane import Bank

CONFIG = SimConfig()


def polyline_lane(lane_id, xy, width=4.0, **links):
    xy = np.asarray(xy, dtype=float)
    d = np.gradient(xy, axis=0)
    side = np.stack([-d[:, 1], d[:, 0]], axis=1) / np.hypot(*d.T)[:, None] * width / 2
    z = np.zeros(len(xy))
    centre, left, right = (np.column_stack([xy + k * side, z]) for k in (0, 1, -1))
    return Lane(id=lane_id, centre=centre, left=left, right=right, **links)


def straight_map(length=100.0, pieces=1):
    step = length / pieces
    lanes = tuple(
        polyline_lane(
            i,
            [(i * step, 0.0), ((i + 1) * step, 0.0)],
            successors=(i + 1,) if i + 1 < pieces else (),
            predecessors=(i - 1,) if i else (),
            speed_limit=10.0 + i,
        )
        for i in range(pieces)
    )
    return RoadMap(name="straight", lanes=lanes)


@pytest.fixture(scope="module")
def towns():
    return [curvy_town(0), grid_town(1)]


@pytest.fixture(scope="module")
def bank(towns):
    return build_bank(towns, CONFIG, "cpu")


def array(bank: MapBank, head: Head) -> np.ndarray:
    return bank.table(head).numpy().astype(np.float64 if head.name.startswith("F_") else np.int64)


def test_a_straight_road_by_hand():
    bank = build_bank([straight_map(100.0, 2)], CONFIG, "cpu")
    assert (bank.ints.dtype, bank.floats.dtype) == (torch.int32, torch.float32)
    assert array(bank, Head.LANES).tolist() == [[0, 14, 0, 1, -1, -1, 0, 0, 0], [14, 14, 1, 0, -1, -1, 0, 0, 0]]
    lanes = array(bank, Head.F_LANES)
    assert np.allclose(lanes, [[50.0, 50 / 13, 10.0, 50.0], [50.0, 50 / 13, 11.0, 0.0]])
    points = array(bank, Head.F_POINTS)
    assert np.allclose(points[:14, PointCol.X], np.linspace(0, 50, 14), atol=1e-5)
    assert np.allclose(points[:, [PointCol.COS, PointCol.SIN, PointCol.WIDTH]], [1.0, 0.0, 4.0], atol=1e-6)
    assert array(bank, Head.SUCCESSORS).tolist() == [1]
    assert array(bank, Head.POINT_LANE).tolist() == [0] * 14 + [1] * 14
    edges = array(bank, Head.F_EDGES)
    assert np.allclose(sorted(np.hypot(edges[:, 2] - edges[:, 0], edges[:, 3] - edges[:, 1])), [4.0, 4.0, 100.0, 100.0])
    pieces = array(bank, Head.F_OBS_EDGES)
    assert 2 * pieces[:, ObsSegment.HALF_LENGTH].sum() == pytest.approx(208.0, abs=1e-3)
    assert pieces[:, ObsSegment.HALF_LENGTH].max() <= 4.0
    lower = pieces[(pieces[:, ObsSegment.Y] < -1.9)]
    assert np.allclose(lower[:, [ObsSegment.COS, ObsSegment.SIN]], [1.0, 0.0])
    assert (bank.ints[Head.NUM_MAPS], bank.ints[Head.NUM_NEAR_LANES], bank.ints[Head.NUM_NEAR_EDGES]) == (1, 32, 32)
    # 7 slots fit on 50 m at 5.4 + 2 m each; on the last lane 20 m of road must lie ahead
    assert np.allclose(array(bank, Head.F_SLOT_S)[:6], (np.arange(6) + 0.5) * 50 / 6)
    assert array(bank, Head.SLOT_LANE).tolist() == [0] * 6 + [1] * 4


def test_reach_is_the_longest_way_and_capped(towns, bank):
    assert (array(bank, Head.F_LANES)[:, LaneFloat.REACH] == 1000.0).all()  # towns are endless
    reach = array(build_bank([straight_map(90.0, 3)], CONFIG), Head.F_LANES)[:, LaneFloat.REACH]
    assert np.allclose(reach, [60.0, 30.0, 0.0])


@settings(max_examples=30, deadline=None)
@given(radius=st.floats(6.0, 300.0), angle=st.floats(0.05, 3.0), side=st.sampled_from([-1.0, 1.0]))
@example(radius=6.0, angle=0.25, side=-1.0)  # two chords of 0.75 m, as three would be shorter than 0.5 m by a rounding
def test_an_arc_is_resampled_within_a_centimetre_with_true_tangents(radius, angle, side):
    count = max(3, int(angle * radius / 0.1) + 1)
    a = np.linspace(0.0, angle, count)
    line = centre_line(polyline_lane(0, np.stack([radius * np.sin(a), side * radius * (1 - np.cos(a))], axis=1), 3.5))
    x, y, tangent = line.points[:, 0], line.points[:, 1], line.points[:, 3:5]
    assert line.length == pytest.approx(angle * radius, rel=2e-3)
    assert line.spacing <= 4.0 + 1e-9
    assert line.spacing >= min(0.5, line.length) - 1e-9
    assert np.abs(np.hypot(x, y - side * radius) - radius).max() < 0.012
    if line.length / len(x) >= 0.5:  # one chord more would not have been too short
        assert line.spacing**2 / (8 * radius) < 0.011
    true = np.stack([1 - side * y / radius, side * x / radius], axis=1)
    assert np.abs(tangent - true).max() < 0.02
    assert np.abs(np.hypot(*tangent.T) - 1).max() < 1e-9


def test_lanes_point_into_the_tables_of_their_map(towns, bank):
    ints, floats, points = array(bank, Head.LANES), array(bank, Head.F_LANES), array(bank, Head.F_POINTS)
    successors, owner = array(bank, Head.SUCCESSORS), array(bank, Head.POINT_LANE)
    lane0 = 0
    for m, town in enumerate(towns):
        assert array(bank, Head.MAPS)[m, [MapInt.LANE0, MapInt.NUM_LANES]].tolist() == [lane0, len(town.lanes)]
        for lane in town.lanes:
            row = ints[lane0 + lane.id]
            first, last = row[LaneInt.POINT0], row[LaneInt.POINT0] + row[LaneInt.NUM_POINTS] - 1
            assert (owner[first : last + 1] == lane0 + lane.id).all()
            assert np.allclose(points[[first, last], :3], lane.centre[[0, -1]], atol=1e-4)
            assert floats[lane0 + lane.id, LaneFloat.LENGTH] == pytest.approx(
                (row[LaneInt.NUM_POINTS] - 1) * floats[lane0 + lane.id, LaneFloat.SPACING], rel=1e-5
            )
            s0, n = row[[LaneInt.SUCC0, LaneInt.NUM_SUCC]]
            assert (successors[s0 : s0 + n] - lane0).tolist() == list(lane.successors)
            for column, neighbour in ((LaneInt.LEFT, lane.left_neighbour), (LaneInt.RIGHT, lane.right_neighbour)):
                assert row[column] == (neighbour + lane0 if neighbour >= 0 else -1)
            assert row[LaneInt.TURN] == lane.turn
        lane0 += len(town.lanes)


def cells_of(bank, m):
    return grid_of(bank, m, (MapInt.NX, MapInt.NY, MapInt.CELL0), MapFloat.CELL)


def near_cells_of(bank, m):
    return grid_of(bank, m, (MapInt.NEAR_NX, MapInt.NEAR_NY, MapInt.NEAR0), MapFloat.NEAR_CELL)


def grid_of(bank, m, shape, side):
    """First row of a map's cells in their tables, and their centres."""
    nx, ny, cell0 = array(bank, Head.MAPS)[m, list(shape)]
    x0, y0, size = array(bank, Head.F_MAPS)[m, [MapFloat.ORIGIN_X, MapFloat.ORIGIN_Y, side]]
    iy, ix = np.divmod(np.arange(nx * ny), nx)
    return cell0, np.stack([x0 + (ix + 0.5) * size, y0 + (iy + 0.5) * size], axis=1)


def distances(point, segments):
    return shapely.distance(shapely.Point(point), shapely.linestrings(segments.reshape(-1, 2, 2)))


def lane_segments(bank, m):
    """First points of a map's lane segments."""
    owner = array(bank, Head.POINT_LANE)
    lane0, lanes = array(bank, Head.MAPS)[m, [MapInt.LANE0, MapInt.NUM_LANES]]
    return np.flatnonzero((owner[:-1] == owner[1:]) & (owner[:-1] >= lane0) & (owner[:-1] < lane0 + lanes))


@pytest.mark.parametrize("m", [0, 1])
def test_a_cell_lists_the_lane_segments_that_can_win_in_it(towns, bank, m):
    """For any pose and last lane the best score, and whether lanes hold the point or lead its way, are those of all."""
    rng = np.random.default_rng(m)
    cell0, centres = cells_of(bank, m)
    points, owner, starts = array(bank, Head.F_POINTS), array(bank, Head.POINT_LANE), lane_segments(bank, m)
    twin = Bank(bank.ints.numpy(), bank.floats.numpy())
    segments = np.hstack([points[starts, :2], points[starts + 1, :2]])
    checked = 0
    for c in rng.choice(len(centres), 400, replace=False):
        got = np.array(twin.lane_items(cell0 + c), dtype=np.int64)
        assert (np.diff(got) > 0).all()
        d = distances(centres[c], segments)
        if d.min() > np.sqrt(2.0) + 6.0:
            assert len(got) == (d.min() <= 24.0 + np.sqrt(2.0))
            assert not len(got) or d[np.searchsorted(starts, got[0])] <= d.min() + 1e-4
            continue
        reach = starts[d <= np.sqrt(2.0) + 6.0]
        assert np.isin(got, reach).all()
        listed = np.isin(reach, got)
        a, b = points[reach], points[reach + 1]
        e = b[:, :2] - a[:, :2]
        for _ in range(12):
            x = centres[c] + rng.uniform(-1.0, 1.0, 2)
            t = np.clip(((x - a[:, :2]) * e).sum(axis=1) / (e * e).sum(axis=1), 0, 1)[:, None]
            distance = np.hypot(*(x - a[:, :2] - t * e).T)
            bend = np.angle((b[:, 3] + 1j * b[:, 4]) / (a[:, 3] + 1j * a[:, 4]))
            error = rng.uniform(-np.pi, np.pi) - np.arctan2(e[:, 1], e[:, 0]) - np.arctan((t[:, 0] - 0.5) * bend)
            error = np.abs(np.remainder(error + np.pi, 2 * np.pi) - np.pi)
            score = 0.7 * distance / 4 + 0.3 * error / np.pi - 0.05 * (owner[reach] == rng.choice(owner[reach]))
            assert listed[score.argmin()]
            holds = distance <= a[:, 5] / 2
            assert listed[holds].all()
            checked += 1
    assert checked > 500
    assert max(len(twin.lane_items(cell0 + c)) for c in range(len(centres))) < 60


@pytest.mark.parametrize("m", [0, 1])
def test_cells_list_edges_by_distance_as_far_as_a_step_can_reach(towns, bank, m):
    cell0, centres = cells_of(bank, m)
    edges, twin = array(bank, Head.F_EDGES), Bank(bank.ints.numpy(), bank.floats.numpy())
    count = [sum(len(e) - 1 for e in town.edges) for town in towns]
    first_edge = sum(count[:m])
    own = edges[first_edge : first_edge + count[m], :4]
    # half a diagonal of the largest car, 0.25 s at 30 m/s, and what turning adds to that
    reach = 0.5 * np.hypot(5.4, 2.1) + 7.5 * np.hypot(1.0, 0.5 * np.tan(0.55))
    for c in np.random.default_rng(m).choice(len(centres), 100, replace=False):
        items, listed = twin.edge_items(cell0 + c)
        got = np.array(items, dtype=np.int64) - first_edge
        d = distances(centres[c], own)
        assert sorted(got.tolist()) == np.flatnonzero(d <= np.sqrt(2.0) + reach).tolist()
        assert np.allclose(listed, np.sort(d[got]), atol=1e-4)
        assert np.allclose(d[got], np.sort(d[got]), atol=1e-9)


@pytest.mark.parametrize("m", [0, 1])
def test_cell_centres_are_inside_exactly_where_the_road_is(towns, bank, m):
    cell0, centres = cells_of(bank, m)
    twin = Bank(bank.ints.numpy(), bank.floats.numpy())
    inside = np.array([twin.inside(cell0 + c) for c in range(len(centres))])
    area = drivable_area(towns[m].lanes)
    shapely.prepare(area)
    assert np.array_equal(inside, shapely.contains_properly(area, shapely.points(centres)))
    assert 0.05 < inside.mean() < 0.5


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_inside_is_the_parity_of_any_polygons(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 9))
    angle = np.sort(rng.uniform(0, 2 * np.pi, n))
    # vertices on a quarter-metre lattice hit rows and columns of centres often
    ring = np.round(4 * rng.uniform(3, 40, (n, 1)) * np.stack([np.cos(angle), np.sin(angle)], axis=1)) / 4
    ring = np.vstack([ring, ring[:1]])
    edges = np.hstack([ring[:-1], ring[1:]])
    edges = edges[np.any(edges[:, :2] != edges[:, 2:], axis=1)]
    grid = make_grid(ring, edges)
    boundary, centres = shapely.multilinestrings([[e[:2], e[2:]] for e in edges]), shapely.points(grid.centres())
    # a ray that dodges all vertices decides independently
    far = shapely.linestrings(np.stack([grid.centres(), grid.centres() + np.array([1000.0, 0.3819660113])], axis=1))
    crossings = [sum(e.intersects(ray) for e in boundary.geoms) for ray in far[:: max(1, len(far) // 60)]]
    got = grid.inside(edges)[:: max(1, len(far) // 60)]
    clear = shapely.distance(boundary, centres)[:: max(1, len(far) // 60)] > 1e-9
    assert np.array_equal(got[clear], np.array(crossings)[clear] % 2 == 1)


def test_the_grid_keeps_its_centres_off_axis_parallel_edges():
    bank = build_bank([straight_map(200.0)], CONFIG)
    edges, (_, centres) = array(bank, Head.F_EDGES)[:, :4], cells_of(bank, 0)
    assert min(distances(c, edges).min() for c in centres[:: max(1, len(centres) // 300)]) > 0.02


@pytest.mark.parametrize("m", [0, 1])
def test_near_pieces_are_the_nearest_in_order(towns, bank, m):
    cell0, centres = near_cells_of(bank, m)
    for near, pieces, first in ((Head.NEAR_LANES, Head.F_OBS_LANES, "lanes"), (Head.NEAR_EDGES, Head.F_OBS_EDGES, "")):
        table, rows = array(bank, near), array(bank, pieces)
        own = (
            rows
            if m == 0
            else rows[table[near_cells_of(bank, 1)[0] :][table[near_cells_of(bank, 1)[0] :] >= 0].min() :]
        )
        offset = len(rows) - len(own)
        if m == 0:
            own = rows[: table[: near_cells_of(bank, 1)[0]].max() + 1]
        for c in np.random.default_rng(m).choice(len(centres), 60, replace=False):
            got = table[cell0 + c]
            d = np.hypot(*(own[:, :2] - centres[c]).T)
            number = min(32, int((d <= 60.0).sum()))
            assert (got[:number] >= 0).all()
            assert (got[number:] == -1).all()
            assert np.allclose(d[got[:number] - offset], np.sort(d)[:number], atol=1e-4)
        assert rows[:, ObsSegment.HALF_LENGTH].max() <= (3.0 if first else 4.0) + 1e-6


def test_observed_edges_keep_near_the_edges(towns, bank):
    edges = shapely.multilinestrings([[e[:2], e[2:4]] for e in array(bank, Head.F_EDGES)])
    pieces = array(bank, Head.F_OBS_EDGES)
    assert shapely.distance(edges, shapely.points(pieces[:, :2])).max() < 0.26
    assert len(pieces) < 0.6 * len(edges.geoms)


def corners(x, y, yaw, length, width):
    c, s = np.cos(yaw), np.sin(yaw)
    box = np.array([[0.5, 0.5], [-0.5, 0.5], [-0.5, -0.5], [0.5, -0.5]]) * (length, width)
    return np.stack(
        [
            x[:, None] + c[:, None] * box[:, 0] - s[:, None] * box[:, 1],
            y[:, None] + s[:, None] * box[:, 0] + c[:, None] * box[:, 1],
        ],
        axis=-1,
    )


@pytest.mark.parametrize("m", [0, 1])
def test_every_jittered_car_on_every_slot_is_free_and_on_the_road(towns, bank, m):
    slot0, number = array(bank, Head.MAPS)[m, [MapInt.SLOT0, MapInt.NUM_SLOTS]]
    assert bank.capacity[m] == number
    lane = array(bank, Head.SLOT_LANE)[slot0 : slot0 + number]
    s = array(bank, Head.F_SLOT_S)[slot0 : slot0 + number]
    ints, floats, points = array(bank, Head.LANES), array(bank, Head.F_LANES), array(bank, Head.F_POINTS)
    i = np.minimum((s / floats[lane, LaneFloat.SPACING]).astype(int), ints[lane, LaneInt.NUM_POINTS] - 2)
    t = (s / floats[lane, LaneFloat.SPACING] - i)[:, None]
    p = ints[lane, LaneInt.POINT0] + i
    pose = points[p] + t * (points[p + 1] - points[p])
    yaw = np.arctan2(pose[:, PointCol.SIN], pose[:, PointCol.COS])
    area = drivable_area(towns[m].lanes).buffer(1e-3)
    shapely.prepare(area)
    rng = np.random.default_rng(m)
    for draw in range(12):
        u = rng.uniform(-1, 1, (3, number)) if draw < 6 else rng.choice([-1.0, 1.0], (3, number))
        along, across, turn = u * np.array([[JITTER_ALONG_M], [JITTER_ACROSS_M], [JITTER_HEADING_RAD]])
        x = pose[:, 0] + along * np.cos(yaw) - across * np.sin(yaw)
        y = pose[:, 1] + along * np.sin(yaw) + across * np.cos(yaw)
        boxes = shapely.polygons(corners(x, y, yaw + turn, 5.4, 2.1))
        assert shapely.covers(area, boxes).all()
        a, b = shapely.STRtree(boxes).query(boxes, predicate="intersects")
        assert (a == b).all()


def test_slots_cover_the_roads_and_need_road_ahead(towns, bank):
    for town, capacity in zip(towns, bank.capacity, strict=True):
        road = sum(centre_line(lane).length for lane in town.lanes if lane.junction < 0)
        assert capacity > 0.75 * road / 7.4
    lane = array(build_bank([straight_map(60.0)], SimConfig(route=RouteConfig(min_length_m=30.0))), Head.F_SLOT_S)
    assert lane.max() <= 30.0


def test_a_map_without_a_slot_is_named():
    with pytest.raises(ValueError, match="map straight: no spawn slot"):
        build_bank([straight_map(15.0)], CONFIG)
    narrow = RoadMap(name="path", lanes=(polyline_lane(0, [(0, 0), (100, 0)], width=2.4),))
    with pytest.raises(ValueError, match="map path: no spawn slot"):
        build_bank([narrow], CONFIG)
    small = SimConfig(spawn=SpawnConfig(length_m=(1.7, 1.8), width_m=(0.6, 0.8)))
    assert build_bank([narrow], small).capacity[0] > 20


def test_bad_input_is_refused(monkeypatch):
    road = straight_map()
    with pytest.raises(ValueError, match="maps: expected at least one map"):
        build_bank([], CONFIG)
    with pytest.raises(ValueError, match="edge 0 is open"):
        build_bank([dataclasses.replace(road, edges=(road.lanes[0].left,))], CONFIG)
    far = polyline_lane(0, [(6e5, 5e6), (6e5 + 100, 5e6)])
    with pytest.raises(ValueError, match=r"coordinates reach 5000002 m.*subtract an offset"):
        build_bank([RoadMap(name="utm", lanes=(far,))], CONFIG)
    with pytest.raises(ValueError, match="id: expected its index"):
        build_bank([dataclasses.replace(road, lanes=(dataclasses.replace(road.lanes[0], id=3),))], CONFIG)
    monkeypatch.setattr("terapixel_sim.maps.bank.MAX_LANES", 0)
    with pytest.raises(ValueError, match="maps: 1 lanes are more than 0; use fewer"):
        build_bank([road], CONFIG)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="expected a table of the bank"):
        build_bank([road], CONFIG).table(Head.NUM_MAPS)


def test_a_map_is_the_same_alone_and_among_others(towns, bank):
    alone = build_bank([towns[1]], CONFIG)
    for head in (Head.F_POINTS, Head.F_EDGES, Head.F_OBS_LANES, Head.F_OBS_EDGES, Head.F_SLOT_S):
        own = alone.table(head)
        assert torch.equal(bank.table(head)[-len(own) :], own)
    near, own = array(bank, Head.NEAR_LANES), array(alone, Head.NEAR_LANES)
    shift = len(bank.table(Head.F_OBS_LANES)) - len(alone.table(Head.F_OBS_LANES))
    assert np.array_equal(near[-len(own) :], np.where(own < 0, -1, own + shift))
    among, single = (Bank(b.ints.numpy(), b.floats.numpy()) for b in (bank, alone))
    point, edge = (len(bank.table(h)) - len(alone.table(h)) for h in (Head.F_POINTS, Head.F_EDGES))
    cell0, centres = cells_of(bank, 1)
    for c in np.random.default_rng(0).choice(len(centres), 200, replace=False):
        assert among.inside(cell0 + c) == single.inside(c)
        assert among.lane_items(cell0 + c) == [p + point for p in single.lane_items(c)]
        items, distance = single.edge_items(c)
        assert among.edge_items(cell0 + c) == ([e + edge for e in items], distance)


def test_segments_by_hand():
    """A quarter turn to the left in two chords, then the void row of a lane's last point."""
    points = np.zeros((5, len(PointCol)))
    points[:3, [PointCol.X, PointCol.Y]] = [(1, 2), (4, 6), (4, 9)]
    points[:3, PointCol.COS], points[:3, PointCol.SIN] = (1, np.sqrt(0.5), 0), (0, np.sqrt(0.5), 1)
    points[:, PointCol.WIDTH], points[:, PointCol.Z] = (4, 3, 3, 3, 3), (7, 8, 9, 0, 0)
    points[3:, PointCol.X], points[3:, PointCol.COS] = (0, 2), 1
    rows = segment_rows(points, np.array([5, 5, 5, 6, 6]))
    assert np.allclose(rows[0], [1, 2, 3, 4, np.pi / 4, 4, 7, 5])
    assert np.allclose(rows[1], [4, 6, 0, 3, np.pi / 4, 2.25, 8, 5])
    assert np.allclose(rows[2, 2:5], 0)
    assert np.allclose(rows[3, :5], [0, 0, 2, 0, 0])


def test_columns_of_edges_keep_the_road_on_their_left(towns, bank):
    area = drivable_area(towns[0].lanes).buffer(1e-3)
    shapely.prepare(area)
    edges = array(bank, Head.F_EDGES)[: sum(len(e) - 1 for e in towns[0].edges)]
    a, b = edges[:, [EdgeCol.X0, EdgeCol.Y0]], edges[:, [EdgeCol.X1, EdgeCol.Y1]]
    d = (b - a) / np.hypot(*(b - a).T)[:, None]
    side = 0.01 * np.stack([-d[:, 1], d[:, 0]], axis=1)
    assert shapely.contains(area, shapely.points((a + b) / 2 + side)).all()
    assert not shapely.contains(area, shapely.points((a + b) / 2 - side)).any()
