"""Small OpenDRIVE files, each with one feature that real files have."""

import gzip

import numpy as np
import pytest
from terapixel_sim.maps.opendrive import load_opendrive
from terapixel_sim.maps.road_map import Turn

LINE = '<geometry s="0" x="0" y="0" hdg="0" length="100"><line/></geometry>'


def width(a, b=0.0, c=0.0, d=0.0, s=0.0):
    return f'<width sOffset="{s}" a="{a}" b="{b}" c="{c}" d="{d}"/>'


def lane(i, *, kind="driving", body=None, pre=None, suc=None):
    links = "".join(f'<{n} id="{v}"/>' for n, v in (("predecessor", pre), ("successor", suc)) if v is not None)
    return f'<lane id="{i}" type="{kind}"><link>{links}</link>{width(3.5) if body is None else body}</lane>'


def section(*lanes, s=0.0, centre=""):
    left = "".join(x for x in lanes if 'id="-' not in x.split(">")[0])
    right = "".join(x for x in lanes if 'id="-' in x.split(">")[0])
    return (
        f'<laneSection s="{s}"><left>{left}</left><center><lane id="0" type="none">{centre}</lane></center>'
        f"<right>{right}</right></laneSection>"
    )


def road(sections, *, i="1", geometry=LINE, link="", attributes="", extra="", offset=""):
    return (
        f'<road id="{i}" {attributes}><link>{link}</link>{extra}<planView>{geometry}</planView>'
        f"<lanes>{offset}{sections}</lanes></road>"
    )


@pytest.fixture
def load(tmp_path):
    def _load(*parts, namespace="", name="map.xodr"):
        path = tmp_path / name
        data = f"<OpenDRIVE{namespace}>{''.join(parts)}</OpenDRIVE>".encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return load_opendrive(path)

    return _load


def by_source(road_map):
    return {x.source: x for x in road_map.lanes}


def test_two_way_road_with_dead_ends(load):
    lanes = by_source(load(road(section(lane(1), lane(-1)))))
    ahead, back = lanes["road 1 section 0 lane -1"], lanes["road 1 section 0 lane 1"]
    np.testing.assert_allclose(ahead.centre[[0, -1], :2], [[0, -1.75], [100, -1.75]])
    np.testing.assert_allclose(back.centre[[0, -1], :2], [[100, 1.75], [0, 1.75]])
    np.testing.assert_allclose([ahead.left[0, 1], ahead.right[0, 1]], [0.0, -3.5])
    np.testing.assert_allclose([back.left[0, 1], back.right[0, 1]], [0.0, 3.5])
    assert ahead.successors == back.successors == ahead.predecessors == ()
    assert ahead.speed_limit == 13.89
    assert np.diff(ahead.centre[:, 0]).max() <= 5.0


def test_left_hand_rule_turns_the_directions_round(load):
    lanes = by_source(load(road(section(lane(1), lane(-1)), attributes='rule="LHT"')))
    ahead, back = lanes["road 1 section 0 lane 1"], lanes["road 1 section 0 lane -1"]
    np.testing.assert_allclose(ahead.centre[[0, -1], :2], [[0, 1.75], [100, 1.75]])
    np.testing.assert_allclose([ahead.left[0, 1], ahead.right[0, 1]], [3.5, 0.0])
    np.testing.assert_allclose(back.centre[[0, -1], :2], [[100, -1.75], [0, -1.75]])
    np.testing.assert_allclose([back.left[0, 1], back.right[0, 1]], [-3.5, 0.0])


def test_namespace_string_ids_gzip_and_name(load):
    m = load(road(section(lane(-1)), i="main road"), namespace=' xmlns="urn:x"', name="city.xodr.gz")
    assert m.name == "city"
    assert m.lanes[0].source == "road main road section 0 lane -1"


def test_lane_offset_width_cubic_and_elevation(load):
    extra = '<elevationProfile><elevation s="0" a="3" b="0.1" c="0" d="0"/></elevationProfile>'
    offset = '<laneOffset s="0" a="2" b="0" c="0" d="0"/>'
    m = load(road(section(lane(-1, body=width(3, 0, 3e-4, 2e-6))), extra=extra, offset=offset))
    x = m.lanes[0].centre[:, 0]
    right = 2.0 - (3.0 + 3e-4 * x**2 + 2e-6 * x**3)
    np.testing.assert_allclose(m.lanes[0].left[:, 1], 2.0)
    np.testing.assert_allclose(m.lanes[0].right[:, 1], right, atol=1e-9)
    np.testing.assert_allclose(m.lanes[0].centre[:, 1], 0.5 * (2.0 + right), atol=1e-9)
    np.testing.assert_allclose(m.lanes[0].centre[:, 2], 3.0 + 0.1 * x, atol=1e-9)


def test_border_records_replace_widths(load):
    border = '<border sOffset="0" a="{}" b="0" c="0" d="0"/>'.format
    m = load(road(section(lane(-1, body=border(-3.0)), lane(-2, body=border(-7.0)))))
    assert [round(float(x.centre[0, 1]), 6) for x in m.lanes] == [-1.5, -5.0]


def test_curve_is_sampled_within_two_centimetres(load):
    arc = '<geometry s="0" x="0" y="0" hdg="0" length="31"><arc curvature="0.1"/></geometry>'
    outer = load(road(section(lane(-1)), geometry=arc)).lanes[0].right
    middle = 0.5 * (outer[1:] + outer[:-1])
    sagitta = 13.5 - np.hypot(middle[:, 0], middle[:, 1] - 10.0)
    assert 0.0 < sagitta.max() <= 0.02


def test_zero_length_geometry_is_counted_and_skipped(load):
    geometry = '<geometry s="0" x="0" y="0" hdg="2" length="0"><line/></geometry>' + LINE
    m = load(road(section(lane(-1)), geometry=geometry))
    np.testing.assert_allclose(m.lanes[0].centre[0, :2], [0, -1.75])
    assert "zero-length geometries: 1" in m.notes


def test_sections_where_nothing_changes_become_one_lane(load):
    m = load(road(section(lane(-1, suc=-1), lane(1, suc=1)) + section(lane(-1, pre=-1), lane(1, pre=1), s=40)))
    assert len(m.lanes) == 2
    assert sorted(float(x.centre[0, 0]) for x in m.lanes) == [0.0, 100.0]


def test_lane_that_tapers_away_ends_at_one_metre(load):
    first = section(lane(-1, suc=-1), lane(-2))
    second = section(lane(-1, pre=-1), lane(-2, body=width(3.5, -0.07)), s=50)
    lanes = by_source(load(road(first + second)))
    taper = lanes["road 1 section 1 lane -2"]
    assert taper.centre[-1, 0] == pytest.approx(50 + 2.5 / 0.07, abs=1e-6)
    assert np.linalg.norm(taper.left[-1] - taper.right[-1]) == pytest.approx(1.0)
    assert lanes["road 1 section 0 lane -1"].successors == (lanes["road 1 section 1 lane -1"].id,)


def test_link_into_a_lane_without_width_is_dropped_with_a_note(load):
    first = section(lane(-1, suc=-1), lane(-2, body=width(3.5, -0.07), suc=-2))
    second = section(lane(-1, pre=-1), lane(-2, body=width(0, 0.07), pre=-2), s=50)
    m = load(road(first + second))
    lanes = by_source(m)
    assert lanes["road 1 section 0 lane -2"].successors == ()
    assert len(lanes["road 1 section 0 lane -1"].successors) == 1


def test_tiny_section_is_linked_through(load):
    # the lane changes its limit, so that the long sections stay apart
    fast = width(3.5) + '<speed sOffset="0" max="20"/>'
    sections = (
        section(lane(-1, suc=-2))
        + section(lane(-2, pre=-1, suc=-1), s=50)
        + section(lane(-1, pre=-2, body=fast), s=50.01)
    )
    m = load(road(sections))
    assert [x.successors for x in m.lanes] == [(1,), ()]
    assert [x.predecessors for x in m.lanes] == [(), (0,)]
    assert "lanes shorter than 0.1 m, linked through: 1" in m.notes


def test_width_jump_at_a_section_border_keeps_the_lane_straight(load):
    """The lane offset jumps where the section begins, as where a turning lane opens on the left."""
    offset = '<laneOffset s="0" a="0" b="0" c="0" d="0"/><laneOffset s="50" a="3.5" b="0" c="0" d="0"/>'
    m = load(road(section(lane(-1, suc=-2)) + section(lane(-1), lane(-2, pre=-1), s=50), offset=offset))
    old = by_source(m)["road 1 section 0 lane -1"]
    np.testing.assert_allclose(old.centre[:, 1], -1.75)
    assert len(old.successors) == 1


CROSS = [  # a west-to-east road in two halves, a road to the north, connecting roads through junction 9
    road(section(lane(1), lane(-1)), i="10", link='<successor elementType="junction" elementId="9"/>'),
    road(
        section(lane(1), lane(-1)),
        i="20",
        geometry='<geometry s="0" x="120" y="0" hdg="0" length="50"><line/></geometry>',
        link='<predecessor elementType="junction" elementId="9"/>',
    ),
    road(
        section(lane(1), lane(-1)),
        i="30",
        geometry='<geometry s="0" x="110" y="10" hdg="1.5707963267948966" length="50"><line/></geometry>',
        link='<predecessor elementType="junction" elementId="9"/>',
    ),
    road(
        section(lane(-1, pre=-1, suc=-1)),
        i="91",
        attributes='junction="9"',
        geometry='<geometry s="0" x="100" y="0" hdg="0" length="20"><line/></geometry>',
        link='<predecessor elementType="road" elementId="10" contactPoint="end"/>'
        '<successor elementType="road" elementId="20" contactPoint="start"/>',
    ),
    road(
        section(lane(-1, pre=-1, suc=-1)),
        i="92",
        attributes='junction="9"',
        geometry='<geometry s="0" x="100" y="0" hdg="0" length="15.707963267948966"><arc curvature="0.1"/></geometry>',
        link='<predecessor elementType="road" elementId="10" contactPoint="end"/>'
        '<successor elementType="road" elementId="30" contactPoint="start"/>',
    ),
    road(  # from the north to the west, drawn against its traffic
        section(lane(1, pre=1, suc=1)),
        i="93",
        attributes='junction="9"',
        geometry='<geometry s="0" x="100" y="0" hdg="0" length="15.707963267948966"><arc curvature="0.1"/></geometry>',
        link='<predecessor elementType="road" elementId="10" contactPoint="end"/>'
        '<successor elementType="road" elementId="30" contactPoint="start"/>',
    ),
    '<junction id="9"><connection id="0" incomingRoad="10" connectingRoad="91" contactPoint="start">'
    '<laneLink from="-1" to="-1"/></connection><connection id="1" incomingRoad="10" connectingRoad="92" '
    'contactPoint="start"><laneLink from="-1" to="-1"/></connection><connection id="2" incomingRoad="30" '
    'connectingRoad="93" contactPoint="end"><laneLink from="1" to="1"/></connection></junction>',
]


@pytest.mark.parametrize("without", [None, "junction", "lane links"])
def test_junction_connects_roads_by_either_record(load, without):
    """Incoming links stand both at the connecting road and in the junction; one of them is enough."""
    parts = CROSS[:-1] if without == "junction" else CROSS
    if without == "lane links":
        parts = [p.replace('<predecessor id="-1"/>', "") for p in parts]
    m = load(*parts)
    lanes = by_source(m)
    through, left, right = (lanes[f"road {r} section 0 lane {i}"] for r, i in ((91, -1), (92, -1), (93, 1)))
    west, west_back = lanes["road 10 section 0 lane -1"], lanes["road 10 section 0 lane 1"]
    assert west.successors == tuple(sorted((through.id, left.id)))
    assert through.predecessors == left.predecessors == (west.id,)
    assert through.successors == (lanes["road 20 section 0 lane -1"].id,)
    assert left.successors == (lanes["road 30 section 0 lane -1"].id,)
    assert right.predecessors == (lanes["road 30 section 0 lane 1"].id,)
    assert right.successors == (west_back.id,)
    assert (through.turn, left.turn, right.turn) == (Turn.STRAIGHT, Turn.LEFT, Turn.RIGHT)
    assert (west.turn, west.junction, left.junction) == (Turn.NONE, -1, 9)


def test_joined_lanes_share_their_end_vertices(load):
    parts = [p.replace('x="120"', 'x="120.01"') for p in CROSS]
    lanes = by_source(load(*parts))
    through, after = lanes["road 91 section 0 lane -1"], lanes["road 20 section 0 lane -1"]
    for name in ("left", "centre", "right"):
        assert np.array_equal(getattr(through, name)[-1], getattr(after, name)[0])


def test_link_across_a_gap_is_dropped_with_a_note(load):
    m = load(*[p.replace('x="120"', 'x="121"') for p in CROSS])
    assert by_source(m)["road 91 section 0 lane -1"].successors == ()
    assert "links dropped: the ends are more than 0.5 m apart: 1" in m.notes


def test_direct_junction_links_roads_without_a_connecting_road(load):
    west = road(section(lane(-1)), i="10", link='<successor elementType="junction" elementId="9"/>')
    east = road(
        section(lane(-1)),
        i="20",
        geometry=LINE.replace('x="0"', 'x="100"'),
        link='<predecessor elementType="junction" elementId="9"/>',
    )
    junction = (
        '<junction id="9" type="direct"><connection id="0" incomingRoad="10" linkedRoad="20" contactPoint="start">'
        '<laneLink from="-1" to="-1"/></connection></junction>'
    )
    m = load(west, east, junction)
    assert [x.successors for x in m.lanes] == [(1,), ()]


def mark(kind, attributes=""):
    return f'<roadMark sOffset="0" type="{kind}" {attributes}/>'


@pytest.mark.parametrize(
    ("paint", "out", "back"),
    [
        (mark("broken"), True, True),
        (mark("solid"), False, False),
        (mark("solid", 'laneChange="both"'), True, True),
        (mark("broken", 'laneChange="none"'), False, False),
        (mark("broken", 'laneChange="decrease"'), True, False),  # from -1 to -2 the id decreases
        (mark("broken solid"), True, False),  # named from the inside: broken on the side of -1
        ("", False, False),
    ],
)
def test_lane_changes_follow_the_mark(load, paint, out, back):
    lanes = by_source(load(road(section(lane(-1, body=width(3.5) + paint), lane(-2), lane(1)))))
    inner, outer = lanes["road 1 section 0 lane -1"], lanes["road 1 section 0 lane -2"]
    assert (inner.right_neighbour == outer.id, outer.left_neighbour == inner.id) == (out, back)
    assert inner.left_neighbour == outer.right_neighbour == -1
    assert lanes["road 1 section 0 lane 1"].left_neighbour == -1


def test_lane_changes_on_the_opposite_side_are_mirrored(load):
    lanes = by_source(load(road(section(lane(1, body=width(3.5) + mark("broken")), lane(2)))))
    inner, outer = lanes["road 1 section 0 lane 1"], lanes["road 1 section 0 lane 2"]
    assert (inner.right_neighbour, outer.left_neighbour) == (outer.id, inner.id)


@pytest.mark.parametrize(
    ("unit", "value"), [('unit="mph"', 8.9408), ('unit="km/h"', 20 / 3.6), ('unit="m/s"', 20.0), ("", 20.0)]
)
def test_speed_units_and_lane_before_road(load, unit, value):
    extra = f'<type s="0"><speed max="20" {unit}/></type>'
    body = width(3.5) + '<speed sOffset="0" max="7"/>'
    m = load(road(section(lane(-1), lane(-2, body=body)), extra=extra))
    assert [x.speed_limit for x in m.lanes] == pytest.approx([value, 7.0])


def test_markings(load):
    double = mark("solid broken", 'color="yellow" width="0.2"')
    edge = mark("solid", 'color="standard"') + '<roadMark sOffset="60" type="curb"/>'
    m = load(road(section(lane(-1, body=width(3.5) + edge), lane(1, body=width(3.5) + mark("none")), centre=double)))
    left, right, outer = m.markings
    assert (left.colour, left.dash, left.width) == ("yellow", 0.0, 0.2)
    assert (right.dash, right.gap) == (3.0, 6.0)
    np.testing.assert_allclose([left.points[0, 1], right.points[0, 1]], [0.2, -0.2])
    assert (outer.colour, outer.width) == ("white", 0.12)
    np.testing.assert_allclose(outer.points[[0, -1], :2], [[0, -3.5], [60, -3.5]])
    assert "road marks of type curb: 1" in m.notes


def test_other_lanes_are_counted(load):
    m = load(road(section(lane(-1), lane(-2, kind="shoulder"), lane(-3, kind="sidewalk"))))
    assert len(m.lanes) == 1
    assert {"lanes of type shoulder: 1", "lanes of type sidewalk: 1"} <= set(m.notes)
    assert np.concatenate(m.edges)[:, 1].min() == pytest.approx(-3.5)


@pytest.mark.parametrize(("junction", "kind", "inner"), [("9", "none", 0.0), ("-1", "none", 3.5), ("9", "median", 3.5)])
def test_unmarked_ground_inside_a_junction_is_drivable(load, junction, kind, inner):
    """A central turning lane goes on through a junction as a lane of type none, inside the lanes that pass it."""
    m = load(road(section(lane(1, kind=kind), lane(2), lane(3, kind="none")), attributes=f'junction="{junction}"'))
    y = np.concatenate(m.edges)[:, 1]
    np.testing.assert_allclose([y.min(), y.max()], [inner, 7.0], atol=1e-6)


def test_missing_optional_attributes(load):
    """No lane links, no road link, no road length, no rule, no mark attributes, bare width."""
    m = load(
        '<road id="1"><planView><geometry s="0" x="0" y="0" hdg="0" length="10"><line/></geometry></planView><lanes>'
        '<laneSection s="0"><right><lane id="-1" type="driving"><width a="3"/><roadMark type="solid"/></lane></right>'
        "</laneSection></lanes></road>"
    )
    np.testing.assert_allclose(m.lanes[0].right[:, 1], -3.0)
    assert len(m.markings) == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('hdg="0"', 'hdg="nan"', "road 1: geometry 0: hdg is not finite"),
        ('length="100"', 'length="inf"', "road 1: geometry 0: length is not finite"),
        ('a="3.5"', 'a="NaN"', "road 1: lane section 0: lane -1: width 0: a is not finite"),
        ('a="3.5"', 'a="0.000000+0"', "a is not a number: '0.000000\\+0'"),
        ('x="0"', "", "road 1: geometry 0: x is missing"),
        ("<line/>", "", "road 1: geometry 0: has none of line"),
        ('lane id="-1"', 'lane id="one"', "id is not an integer: 'one'"),
        ("driving", "sidewalk", "no drivable lane"),
    ],
)
def test_broken_values_name_their_place(load, old, new, message):
    with pytest.raises(ValueError, match=message) as error:
        load(road(section(lane(-1))).replace(old, new, 1))
    assert "map.xodr: " in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["map.xodr", "map.xodr.gz"])
def test_truncated_file(tmp_path, name):
    data = f"<OpenDRIVE>{road(section(lane(-1)))}</OpenDRIVE>".encode()
    data = gzip.compress(data) if name.endswith(".gz") else data
    path = tmp_path / name
    path.write_bytes(data[: len(data) * 2 // 3])
    with pytest.raises(ValueError, match=r"map\.xodr.*(not well-formed|damaged gzip)"):
        load_opendrive(path)


def test_another_kind_of_xml(tmp_path):
    (tmp_path / "a.xodr").write_text("<osm/>")
    with pytest.raises(ValueError, match="root element is osm, expected OpenDRIVE"):
        load_opendrive(tmp_path / "a.xodr")
