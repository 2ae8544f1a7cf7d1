from dataclasses import replace

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from render_scenes import line, straight_road
from terapixel_sim.coverage import area_cells, dash_pieces, strip_cells
from terapixel_sim.ground import FULL, Surface, build_ground
from terapixel_sim.kernels.render_math import LEVELS, MapHead
from terapixel_sim.maps.procedural import grid_town
from terapixel_sim.maps.road_map import Marking, RoadMap


def level_of(ground, level, index=0):
    """A level of a map as (class, coverage) [ny, nx], its lower left corner and its texel side."""
    tiles, texels = ground.tiles.numpy(), ground.texels.numpy()
    head = tiles[index * MapHead.SIZE : (index + 1) * MapHead.SIZE]
    nx, ny = int(head[MapHead.NX]), int(head[MapHead.NY])
    table = tiles[head[MapHead.TILES] :][: 2 * ny * nx].reshape(2 * ny, nx)
    row = 2 * ny - ((2 * ny) >> level)
    part = table[row : row + (ny >> level), : nx >> level]
    image = texels[part[..., None] + np.arange(256)].reshape(*part.shape, 16, 16).transpose(0, 2, 1, 3)
    image = image.reshape(part.shape[0] * 16, part.shape[1] * 16)
    return image >> 5, ((image & 31) / FULL) ** 2, head[: MapHead.NX], 0.125 * 2**level


def column_at(ground, level, x):
    """The texels across the road at x: class, coverage, and the y of their centres."""
    kind, cover, corner, side = level_of(ground, level)
    k = int((x - corner[0]) / side)
    return kind[:, k], cover[:, k], corner[1] + (np.arange(len(kind)) + 0.5) * side


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_polygons_cover_what_they_cover(seed):
    rng = np.random.default_rng(seed)
    ring = shapely.Polygon(rng.uniform(1, 9, (7, 2))).convex_hull.exterior.coords
    ring = np.array(shapely.orient_polygons(shapely.Polygon(ring)).exterior.coords)
    cells = area_cells(ring[:-1], ring[1:], np.ones(len(ring) - 1))
    seen = np.cumsum(cells.band(0, 10, 10), axis=1)
    shape = shapely.Polygon(ring)
    true = [[shapely.intersection(shape, shapely.box(x, y, x + 1, y + 1)).area for x in range(10)] for y in range(10)]
    np.testing.assert_allclose(seen, true, atol=1e-9)


@given(angle=st.floats(0, 6.28), length=st.floats(4, 8), half=st.floats(0.4, 2.0))
@settings(max_examples=50, deadline=None)
def test_strips_keep_their_area_at_any_angle(angle, length, half):
    a = np.array([[20.3, 20.7]])
    b = a + length * np.array([[np.cos(angle), np.sin(angle)]])
    area = strip_cells(a, b, np.array([half])).value.sum()
    assert area == pytest.approx(2 * half * length, rel=0.15)  # sampled on cell centres


@given(dash=st.floats(0.5, 5), gap=st.floats(0.5, 5), seed=st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_dashes_follow_the_arc_length(dash, gap, seed):
    points = np.cumsum(np.random.default_rng(seed).uniform(0.1, 3, (12, 2)), axis=0)
    a, b = dash_pieces(points, dash, gap, longest=1.0)
    total = np.hypot(*np.diff(points, axis=0).T).sum()
    whole, rest = divmod(total, dash + gap)
    assert np.hypot(*(b - a).T).max() <= 1 + 1e-9
    assert np.hypot(*(b - a).T).sum() == pytest.approx(whole * dash + min(rest, dash), abs=1e-6)
    np.testing.assert_allclose(a[0], points[0])


def test_dashes_lie_where_they_should():
    a, b = dash_pieces(line(0, 0, 20, 0)[:, :2], 3.0, 6.0, longest=10.0)
    painted = [(lo, hi) for lo, hi in zip(a[:, 0], b[:, 0], strict=True)]
    for x, on in ((1.5, True), (2.9, True), (3.1, False), (8.9, False), (9.1, True), (18.5, True)):
        assert any(lo <= x <= hi for lo, hi in painted) == on, x


def test_across_a_road_lie_terrain_edge_road_line_road_edge_terrain():
    ground = build_ground([straight_road([Marking(points=line(-20, 1.0, 150, 1.0), width=0.25)])])
    kind, cover, y = column_at(ground, 0, 50.0)
    assert (kind[np.abs(y) > 8.2] == Surface.TERRAIN).all()
    assert (kind[(np.abs(y) < 7.7) & (np.abs(y - 1) > 0.3)] == Surface.ROAD).all()
    assert (cover[kind == Surface.ROAD][2:-2] == 1).all()
    white = kind == Surface.WHITE
    assert (cover * white).sum() * 0.125 == pytest.approx(0.25, rel=0.05)
    assert np.abs(y[white] - 1.0).max() < 0.2
    edge = (kind == Surface.EDGE) | (kind == Surface.VERGE)
    assert (cover * edge).sum() * 0.125 == pytest.approx(2 * 0.2, rel=0.1)
    assert (np.abs(y[edge]) < 8.05).all()


@pytest.mark.parametrize("level", range(LEVELS))
def test_a_line_keeps_its_width_on_every_level(level):
    ground = build_ground(
        [straight_road([Marking(points=line(-20, y, 150, y), colour="yellow") for y in (-3.03, 0.4, 2.97)])]
    )
    kind, cover, _ = column_at(ground, level, 50.0)
    yellow = (cover * (kind == Surface.YELLOW)).sum() * 0.125 * 2**level
    assert yellow == pytest.approx(3 * 0.12, rel=0.2)


def test_paint_at_the_rim_lies_on_terrain():
    """A texel half beyond the road must not darken to road there."""
    ground = build_ground([straight_road(half=8.0625)])
    kind, cover, y = column_at(ground, 0, 50.0)
    rim = np.flatnonzero((np.abs(y) < 8.13) & (np.abs(y) > 8.0))
    assert (kind[rim] == Surface.VERGE).all()
    np.testing.assert_allclose(cover[rim], 0.5, atol=0.04)


def test_lanes_that_overlap_and_bend_back_leave_no_hole():
    road = straight_road()
    backward = [np.ascontiguousarray(p[::-1]) for p in (road.lanes[0].right, road.lanes[0].left)]
    other = replace(road.lanes[0], id=1, left=backward[0], right=backward[1], centre=road.lanes[0].centre[::-1])
    one = level_of(build_ground([replace(road, edges=())]), 0)
    two = level_of(build_ground([replace(road, lanes=(road.lanes[0], other), edges=())]), 0)
    assert (one[0] == two[0]).all()


def test_closed_edges_enclose_road_and_holes():
    outer = np.array([[0, 0, 0], [30, 0, 0], [30, 30, 0], [0, 30, 0], [0, 0, 0]], float)
    hole = np.array([[10, 10, 0], [10, 20, 0], [20, 20, 0], [20, 10, 0], [10, 10, 0]], float)
    ground = build_ground([RoadMap(name="ring", lanes=(), edges=(outer, hole))])
    kind, cover, corner, side = level_of(ground, 0)
    iy, ix = (np.array([[5, 15, 25, 35], [15, 15, 15, 15]]) - corner[:, None][::-1]) / side
    assert kind[iy.astype(int), ix.astype(int)].tolist() == [
        Surface.ROAD,
        Surface.TERRAIN,
        Surface.ROAD,
        Surface.TERRAIN,
    ]
    road = (
        (cover * (kind == Surface.ROAD)).sum() + (kind == Surface.EDGE).sum() + (cover * (kind == Surface.VERGE)).sum()
    )
    assert road * side**2 == pytest.approx(800, rel=0.01)


def test_borders_of_all_levels_are_terrain():
    ground = build_ground([straight_road(), grid_town(seed=3)])
    for index in range(2):
        for level in range(LEVELS):
            kind = level_of(ground, level, index)[0]
            assert not np.concatenate([kind[0], kind[-1], kind[:, 0], kind[:, -1]]).any()


def test_a_town_stays_small_and_maps_are_independent():
    town = grid_town(seed=3)
    alone, both = build_ground([town]), build_ground([straight_road(), town])
    assert alone.texels.numel() + 4 * alone.tiles.numel() < 4e6
    for level in (0, 3):
        np.testing.assert_array_equal(level_of(alone, level)[0], level_of(both, level, 1)[0])


def test_bad_maps_are_named():
    with pytest.raises(ValueError, match="at least one map"):
        build_ground([])
    with pytest.raises(ValueError, match="map empty: expected lanes or edges"):
        build_ground([RoadMap(name="empty", lanes=())])
    with pytest.raises(ValueError, match="'blue'; allowed: white, yellow"):
        build_ground([straight_road([Marking(points=line(0, 0, 9, 0), colour="blue")])])
