"""The whole pipeline, as `make demo` runs it, at toy size: every joint holds and every promised file is there."""

import json
import math
from pathlib import Path

import av
import pytest

DEMO = Path(__file__).resolve().parent.parent / "tools" / "configs" / "demo.yaml"
ROWS = [
    "random", "constant_velocity", "teacher", "student", "student_black", "bc", "student_new_look", "student_adapted",
]  # fmt: skip
TOY = [
    *(f"{stage}.simulator.num_worlds=2" for stage in ("teacher", "student", "bc", "adapt", "evaluate")),
    *(f"{stage}.simulator.num_agents=4" for stage in ("teacher", "student", "bc", "adapt", "evaluate", "film")),
    *(f"{stage}.simulator.maps=[grid:0]" for stage in ("teacher", "student", "bc", "adapt")),
    "teacher.algorithm.config.total_steps=300",
    "student.algorithm.config.total_labels=20",
    "bc.algorithm.config.total_labels=20",
    "adapt.algorithm.config.steps=3",
    "evaluate.agents=8",
    "film.seconds=2",
    "seed=3",
]


@pytest.fixture
def demo(run_tool, tmp_path):
    status, out, err = run_tool("demo", DEMO, *TOY)
    assert status == 0, err
    return tmp_path / "runs" / "demo", out


@pytest.mark.slow
def test_the_demo_from_end_to_end(demo, run_tool, tmp_path):
    folder, out = demo
    metrics = json.loads((folder / "metrics.json").read_text())
    assert [row["name"] for row in metrics["rows"]] == ROWS
    assert metrics["infraction"] == "stop"
    assert metrics["maps"] == ["grid:99"]
    for row in metrics["rows"]:
        assert (row["n_agents"], row["n_worlds"]) == (8, 2)
        assert row["km"] > 0
        for column in ("success", "completion", "collision", "offroad", "red_light", "wrong_way", "score"):
            value = row[column]
            assert 0 <= value["low"] <= value["mean"] <= value["high"] <= 1
            assert all(math.isfinite(v) for v in value.values())
        assert f"| {row['name']} |" in out
    with av.open(str(folder / "student.mp4")) as film:
        frames = list(film.decode(video=0))
        assert len(frames) / float(film.streams.video[0].average_rate) == pytest.approx(2.0, abs=0.3)
        picture = frames[-1].to_ndarray(format="rgb24")
    assert picture.shape == (432, 1072, 3)
    assert picture.std() > 10
    for name in (
        "config.yaml",
        "versions.json",
        "table.md",
        "teacher/teacher.pt",
        "student/student.pt",
        "adapt/adapter.pt",
    ):
        assert (folder / name).is_file(), name
    assert "seed: 3" in (folder / "config.yaml").read_text()

    # a tool goes on from what the demo left
    status, _, err = run_tool("render", "view.mp4", "--agents", 4, "--seconds", 1, "--policy",
                              "terapixel_student:load_policy", "--path", folder / "student" / "student.pt")  # fmt: skip
    assert status == 0, err
    assert (tmp_path / "view.mp4").stat().st_size > 1000
