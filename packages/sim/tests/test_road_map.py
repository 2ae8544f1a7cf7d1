import dataclasses
import zipfile

import numpy as np
import pytest
from terapixel_sim.config import SimConfig
from terapixel_sim.layout import EdgeCol, Head
from terapixel_sim.maps.bank import build_bank
from terapixel_sim.maps.road_map import Crosswalk, Lane, LaneKind, Marking, Obstacle, RoadMap, Signal, StopLine, Turn
from terapixel_sim.maps.sources import load_map


def straight(lane_id, x0, x1, y=0.0, **links):
    def line(dy):
        return np.array([[x, y + dy, 0.5 + x * x / 900] for x in (x0, (x0 + x1) / 2, x1)])

    return Lane(id=lane_id, centre=line(0.0), left=line(1.75), right=line(-1.75), source=f"road {lane_id}", **links)


def two_lanes():
    lanes = (
        straight(0, 0.0, 30.0, successors=(1,)),
        straight(1, 30.0, 50.0, predecessors=(0,), junction=3, turn=Turn.STRAIGHT, speed_limit=8.0),
    )
    markings = (Marking(points=lanes[0].left, colour="yellow", dash=3.0, gap=6.0),)
    ring = np.array([[0.0, -1.75, 0.0], [50.0, -1.75, 2.0], [50.0, 1.75, 2.0], [0.0, -1.75, 0.0]])
    across = np.array([[29.0, 1.75, 1.4], [29.0, -1.75, 1.4]])
    return RoadMap(
        name="two",
        lanes=lanes,
        markings=markings,
        edges=(ring,),
        crosswalks=(Crosswalk(polygon=ring[:3]),),
        signals=(Signal(position=np.array([55.0, -3.0, 6.0]), heading=0.1, controller=4, group=1, source="signal a"),),
        stop_lines=(StopLine(points=across, lanes=(0,), signal=0), StopLine(points=across, lanes=(1, 0))),
        obstacles=(
            Obstacle(position=np.array([9.0, 5.0, 0.0]), yaw=-0.5, size=np.array([4.0, 2.0, 1.5]), source="bin"),
        ),
        notes=("skipped 2 objects",),
    )


def same(a, b):
    """Equal values, arrays compared bit by bit."""
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if dataclasses.is_dataclass(a):
        return type(a) is type(b) and all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b and type(a) is type(b)


def test_a_saved_map_comes_back_bit_by_bit(tmp_path):
    road_map = two_lanes()
    road_map.save(tmp_path / "m.npz")
    assert same(load_map(tmp_path / "m.npz"), road_map)
    bare = RoadMap(name="", lanes=(straight(0, 0.0, 9.0),))
    bare.save(tmp_path / "bare.npz")
    assert same(load_map(str(tmp_path / "bare.npz")), bare)


def change(lane=0, **fields):
    road_map = two_lanes()
    lanes = list(road_map.lanes)
    lanes[lane] = dataclasses.replace(lanes[lane], **fields)
    return dataclasses.replace(road_map, lanes=tuple(lanes))


def thing(kind, **fields):
    """`two_lanes` with the first of a kind changed."""
    road_map = two_lanes()
    first, *others = getattr(road_map, kind)
    return dataclasses.replace(road_map, **{kind: (dataclasses.replace(first, **fields), *others)})


def nan_at(points, i):
    points = points.copy()
    points[i, 1] = np.nan
    return points


LINE = two_lanes().lanes[0].centre


@pytest.mark.parametrize(
    ("road_map", "message"),
    [
        (RoadMap(name="none", lanes=()), "map none: expected at least one lane"),
        (change(centre=nan_at(LINE, 2)), r"lane 0 \(road 0\): centre\[2\]: expected finite"),
        (change(left=LINE[:2]), "lane 0 .*left: expected 3 points as in centre, got 2"),
        (change(centre=LINE[:1], left=LINE[:1], right=LINE[:1]), "centre: expected at least 2 points, got 1"),
        (change(centre=LINE[[0, 1, 1]]), "centre: points 1 and 2 coincide"),
        (change(centre=LINE.astype(np.float32)), "centre: expected a float64 array"),
        (change(right=LINE[:, :2]), "right: expected a float64 array"),
        (change(id=7), "lane 0 .*id: expected its index 0, got 7"),
        (change(speed_limit=0.0), "speed_limit: expected a positive number"),
        (change(successors=(5,)), r"lane 0 .*successors\[0\]: lane 5 does not exist; lanes are 0 to 1"),
        (change(successors=(1, 1)), "successors: expected distinct lanes"),
        (change(lane=1, predecessors=()), r"lane 0 .*successors\[0\]: lane 1 does not list it among its predecessors"),
        (change(successors=()), r"lane 1 .*predecessors\[0\]: lane 0 does not list it among its successors"),
        (
            change(lane=1, centre=LINE + np.array([0, 0, 5]), left=LINE, right=LINE),
            r"lane 0 .*successors\[0\]: lane 1 begins \d+\.\d\d m from its end; allowed are 1 m",
        ),
        (change(left_neighbour=9), "left_neighbour: expected -1 or another lane"),
        (change(right_neighbour=0), "right_neighbour: expected -1 or another lane"),
        (dataclasses.replace(two_lanes(), edges=(LINE[:1],)), "map two: edge 0: expected at least 2 points"),
        (dataclasses.replace(two_lanes(), markings=(Marking(points=nan_at(LINE, 0)),)), r"marking 0: points\[0\]"),
        (dataclasses.replace(two_lanes(), markings=(Marking(points=LINE, colour="red"),)), "colour: expected white or"),
        (dataclasses.replace(two_lanes(), markings=(Marking(points=LINE, width=0.0),)), "width: expected"),
        (
            dataclasses.replace(two_lanes(), crosswalks=(Crosswalk(polygon=LINE[:2]),)),
            "crosswalk 0: polygon: .* least 3",
        ),
        (thing("signals", position=np.zeros(2)), r"signal 0 \(signal a\): position: expected a float64 array \[3\]"),
        (thing("signals", heading=np.nan), "signal 0 .*heading: expected a finite angle"),
        (thing("signals", group=-1), "signal 0 .*group: expected a number >= 0, got -1"),
        (thing("stop_lines", lanes=(0, 2)), r"stop line 0: lanes\[1\]: lane 2 does not exist; lanes are 0 to 1"),
        (thing("stop_lines", lanes=()), "stop line 0: lanes: expected distinct lanes, at least one"),
        (thing("stop_lines", signal=1), "stop line 0: signal: expected -1 or a signal; there are 1, got 1"),
        (thing("obstacles", size=np.array([4.0, 0.0, 1.0])), "obstacle 0 .bin.: size: expected lengths > 0"),
        (thing("obstacles", position=np.array([0.0, np.inf, 1.0])), "obstacle 0 .bin.: position: expected finite"),
    ],
)
def test_validate_names_what_is_wrong(road_map, message):
    with pytest.raises(ValueError, match=message):
        road_map.validate()


def test_a_damaged_file_is_refused_in_one_line_that_names_it(tmp_path):
    path = tmp_path / "m.npz"
    two_lanes().save(path)
    whole = path.read_bytes()
    damaged = {"empty": b"", "half": whole[: len(whole) // 2], "text": b"not a map at all"}
    for name, data in damaged.items():
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"m\.npz: damaged or foreign map file") as error:
            load_map(path)
        assert "\n" not in str(error.value), name


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("magic", np.array("other"), "no magic 'terapixel-map'"),
        ("version", np.array(1), "format version 1, this program reads 2"),
        ("lane_centre_offsets", np.array([0, 3, 4]), "lane_centre: offsets do not fit"),
        ("lane_left", None, "lane_left"),
    ],
)
def test_a_foreign_or_inconsistent_file_is_refused(tmp_path, field, value, message):
    path = tmp_path / "m.npz"
    two_lanes().save(path)
    with np.load(path) as file:
        data = {k: file[k] for k in file.files}
    del data[field]
    if value is not None:
        data[field] = value
    np.savez(path, **data)
    with pytest.raises(ValueError, match=message):
        load_map(path)


def test_a_file_needs_no_pickle(tmp_path):
    two_lanes().save(tmp_path / "m.npz")
    with zipfile.ZipFile(tmp_path / "m.npz") as file:
        assert all(b"'|O'" not in file.read(name)[:128] for name in file.namelist())


@pytest.mark.parametrize("source", ["town.osm", "grid:", "grid:-1", "grid:1.5", "hex:3", "", "curvy:x"])
def test_an_unknown_source_lists_what_is_allowed(source):
    with pytest.raises(
        ValueError, match=r"expected a file \.npz, \.xodr or \.xodr\.gz, or grid:SEED, signals:SEED or curvy:SEED"
    ):
        load_map(source)


def test_a_missing_file_and_a_wrong_suffix_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent\.npz"):
        load_map(tmp_path / "absent.npz")
    with pytest.raises(ValueError, match=r"ends in \.npz"):
        two_lanes().save(tmp_path / "map.zip")


def test_only_keeps_lanes_of_a_kind_and_renumbers_what_names_them():
    road_map = change(lane=0, kind=LaneKind.BIKE)
    driving = road_map.only(LaneKind.DRIVING).validate()
    assert [lane.source for lane in driving.lanes] == ["road 1"]
    assert driving.lanes[0].predecessors == ()
    assert [line.lanes for line in driving.stop_lines] == [(0,)]  # the one across the bicycle lane alone is gone
    assert road_map.only(LaneKind.DRIVING, LaneKind.BIKE) is road_map


def test_only_driving_lanes_are_driven_on_but_all_asphalt_is_road():
    bus, driving = straight(0, 0.0, 100.0, y=3.5, kind=LaneKind.BUS), straight(1, 0.0, 100.0)
    bank = build_bank([RoadMap(name="mixed", lanes=(bus, driving))], SimConfig())
    assert len(bank.table(Head.LANES)) == 1
    assert float(bank.table(Head.F_EDGES)[:, EdgeCol.Y0].max()) == pytest.approx(5.25)
    with pytest.raises(ValueError, match="map buses: expected at least one driving lane"):
        build_bank([RoadMap(name="buses", lanes=(bus,))], SimConfig())


def test_load_map_makes_procedural_towns():
    assert load_map("grid:3").name == "grid:3"
    assert load_map("signals:3").name == "signals:3"
    assert load_map("curvy:0").name == "curvy:0"
