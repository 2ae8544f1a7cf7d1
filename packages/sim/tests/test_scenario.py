import dataclasses

import numpy as np
import pytest
from terapixel_sim.maps.road_map import Lane, RoadMap, Signal
from terapixel_sim.scenario import Scenario, Tracks


def scene():
    line, up = np.array([[0.0, 0, 0], [40, 0, 0]]), np.array([0, 1.75, 0])
    lane = Lane(id=0, centre=line, left=line + up, right=line - up)
    signal = Signal(position=np.array([40.0, 4, 5]), heading=0.0)
    valid = np.array([[True, True, True], [False, True, False]])
    pose = np.zeros((2, 3, 4))
    pose[0, :, 0] = [1, 2, 3]
    pose[1, 1] = [9, 0.5, 0, np.pi]
    tracks = Tracks(
        ids=("a", "b"),
        kind=np.array([0, 3]),
        size=np.ones((2, 3)),
        pose=pose,
        velocity=np.zeros((2, 3, 2)),
        valid=valid,
    )
    return Scenario(
        name="s",
        road_map=RoadMap(name="m", lanes=(lane,), signals=(signal,)),
        dt_s=0.1,
        tracks=tracks,
        goal=np.array([[3.0, 0, 0], [9, 0.5, 0]]),
        lights=np.array([[1, 1, 3]]),
    )


def changed(array, place, value):
    array = array.copy()
    array[place] = value
    return array


def test_a_sound_scenario_validates():
    assert scene().validate().tracks.ids == ("a", "b")


@pytest.mark.parametrize(
    ("field", "place", "value", "message"),
    [
        ("pose", (1, 0, 2), -1.0, r"scenario s: tracks\.pose\[1, 0, 2\]: expected 0 where not valid, got -1"),
        ("pose", (0, 2, 0), np.nan, r"tracks\.pose\[0, 2, 0\]: expected finite numbers, got nan"),
        ("pose", (0, 1, 3), 4.0, r"tracks\.pose yaw\[0, 1\]: expected an angle in \(-pi, pi\], got 4"),
        ("velocity", (1, 2, 0), 3.0, r"tracks\.velocity\[1, 2, 0\]: expected 0 where not valid"),
        ("size", (1, 1), 0.0, r"tracks\.size\[1, 1\]: expected lengths > 0"),
        ("kind", (0,), 9, r"tracks\.kind\[0\]: expected an AgentKind, got 9"),
        ("valid", (1, 1), False, r"0 where not valid|a valid time"),
    ],
)
def test_a_bad_track_is_named(field, place, value, message):
    tracks = dataclasses.replace(scene().tracks, **{field: changed(getattr(scene().tracks, field), place, value)})
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(scene(), tracks=tracks).validate()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ego": 2}, "ego: expected -1 or a track, of which there are 2, got 2"),
        ({"start": 3}, "start: expected a time from 0 to 2, got 3"),
        ({"dt_s": 0.0}, "dt_s: expected a positive number"),
        ({"lights": np.zeros((0, 3), np.int64)}, r"lights: expected int64 \[1, 3\], got int64 \[0, 3\]"),
        ({"lights": np.array([[1, 5, 0]])}, r"lights\[0, 1\]: expected a LightColour, got 5"),
        ({"goal": np.zeros((2, 2))}, r"goal: expected float64 \[2, 3\]"),
    ],
)
def test_a_bad_scenario_is_named(fields, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(scene(), **fields).validate()
