"""Configuration, run folders and mistakes: a mistake is one line that says what, where and what is allowed."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from _config import load
from _progress import ProgressBar
from _run import Named, cli, open_run
from _structure import ConfigError, structure
from terapixel_sim import SimConfig, Simulator

CONFIGS = Path(__file__).resolve().parent.parent / "tools" / "configs"
SMALL = ("simulator.num_worlds=1", "simulator.num_agents=2", "simulator.maps=[grid:0]")


def one_line(err):
    assert len(err.splitlines()) == 1, err
    assert "Traceback" not in err
    return err.removeprefix("error: ").rstrip()


# -- configuration ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            {"spawn": {"sped_mps": [0, 3]}},
            "spawn.sped_mps: unknown key; did you mean speed_mps? allowed: brake_mps2, clearance_m",
        ),
        ({"dt_s": "fast"}, "dt_s: expected a number, got 'fast'"),
        ({"dt_s": True}, "dt_s: expected a number, got True"),
        ({"dt_s": 5}, "dt_s: expected a number from 0.02 to 1, got 5.0"),
        ({"spawn": [1]}, "spawn: expected a mapping of SpawnConfig, got [1]"),
        ({"spawn": {"length_m": [1, 2, 3]}}, "spawn.length_m: expected a list of 2, got [1, 2, 3]"),
        ({"spawn": {"length_m": [1, "x"]}}, "spawn.length_m[1]: expected a number, got 'x'"),
        ({"route": {"num_goals": 2.5}}, "route.num_goals: expected a whole number, got 2.5"),
        ({"condition": {"collision": 7}}, "condition: condition.collision: expected a number from 0 to 3, got 7"),
    ],
)
def test_a_wrong_value_is_named_with_its_full_key(node, message):
    with pytest.raises(ConfigError) as error:
        structure(SimConfig, node, "")
    assert str(error.value).startswith(message)


def test_right_values_become_the_dataclass():
    node = {"dt_s": 0.1, "infraction": {"collision": "stop", "offroad": "remove", "red_light": "ignore"}}
    config = structure(
        SimConfig, {**node, "condition": {"velocity": 2e-3, "collision": [1, 2]}, "route": {"num_goals": 4.0}}, ""
    )
    assert config.dt_s == 0.1
    assert config.infraction["offroad"] == "remove"
    assert config.condition.velocity == (2e-3, 2e-3)
    assert config.condition.collision == (1.0, 2.0)
    assert config.route.num_goals == 4


def test_overrides_and_interpolation(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("name: a\nseed: ${shift}\nshift: 3\n")
    with pytest.raises(ConfigError, match="shift: unknown key"):
        load(Named, [str(path)])
    path.write_text("name: a-${seed}\nseed: 3\n")
    config, resolved = load(Named, [str(path), "seed=5"])
    assert config == Named(name="a-5", seed=5)
    assert resolved == {"name": "a-5", "seed": 5}


@pytest.mark.parametrize(
    ("text", "argv", "message"),
    [
        ("name: a\nname: b\n", [], "duplicate key name"),
        ("name: [\n", [], "x.yaml"),
        ("- 1\n", [], "expected a mapping"),
        ("name: a\n", ["seed"], "seed: expected key.sub=value"),
        ("seed: 1\n", [], "name: is required"),
        ("name: ${nobody}\n", [], "nobody"),
    ],
)
def test_a_malformed_file_is_one_line(tmp_path, capsys, text, argv, message):
    path = tmp_path / "x.yaml"
    path.write_text(text)
    assert cli(lambda words: load(Named, words), [str(path), *argv]) == 2
    assert message in one_line(capsys.readouterr().err)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda p: p.stem)
def test_every_configuration_that_is_shipped_loads(path):
    from adapt import AdaptRun
    from demo import DemoRun
    from evaluate import EvaluateRun
    from train_student import StudentRun
    from train_teacher import TeacherRun

    kinds = {"adapt": AdaptRun, "demo": DemoRun, "evaluate": EvaluateRun, "student": StudentRun, "teacher": TeacherRun}
    config, _ = load(kinds[path.stem.split("_")[0]], [str(path)])
    assert config.name == path.stem


# -- run folders ------------------------------------------------------------------------------------------------------


def test_a_run_writes_what_it_ran_with_and_refuses_a_second_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = open_run("mine", {"name": "mine", "seed": 4})
    assert (folder / "config.yaml").read_text() == "name: mine\nseed: 4\n"
    versions = json.loads((folder / "versions.json").read_text())
    assert versions["seed"] == 4
    assert versions["packages"]["torch"].startswith(torch.__version__.split("+")[0])
    open_run("mine", {"name": "mine", "seed": 5})  # nothing was begun
    assert (folder / "config.yaml").read_text() == "name: mine\nseed: 5\n"
    (folder / "kept").touch()
    with pytest.raises(ConfigError, match=r"runs/mine exists; choose another name, or resume=true"):
        open_run("mine", {})
    assert open_run("mine", {}, resume=True) == folder
    assert (folder / "kept").exists()
    open_run("mine", {}, replace=True)
    assert not (folder / "kept").exists()
    with pytest.raises(ConfigError, match="there is no run runs/other"):
        open_run("other", {}, resume=True)


@pytest.mark.parametrize("name", ["", "..", "a/b", "/tmp"])
def test_a_run_stays_in_its_folder(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="plain folder name"):
        open_run(name, {}, replace=True)


def test_interruption_says_how_to_go_on(capsys, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["tools/train_teacher.py"])
    assert cli(interrupted, ["my.yaml", "seed=3", "resume=false"], resumes=True) == 130
    assert "go on with: python tools/train_teacher.py my.yaml seed=3 resume=true" in capsys.readouterr().err
    assert cli(interrupted, ["my.yaml"]) == 130
    assert capsys.readouterr().err.strip() == "interrupted"


@pytest.mark.parametrize("name", ["train_teacher", "train_student", "adapt", "evaluate", "demo"])
@pytest.mark.parametrize("words", [["--help"], ["my.yaml", "-h"]])
def test_help_says_how_a_tool_is_called(capsys, name, words):
    assert importlib.import_module(name).main(words) == 0
    out, err = capsys.readouterr()
    assert f"python tools/{name}.py tools/configs/" in out
    assert "key.sub=value" in out
    assert not err


def test_progress_ends_at_all_of_it(capsys):
    bar = ProgressBar("bc", "labels", "total")
    bar({"labels": 10, "total": 1000})
    bar({"labels": 1012, "total": 1000})
    assert capsys.readouterr().err.splitlines()[-1].startswith("bc: 100 %, 0 s left")


def test_progress_in_a_log_file_is_a_few_lines(capsys):
    bar = ProgressBar("teacher", "steps", "total", ("loss",))
    for i in range(1001):
        bar({"steps": i, "total": 1000, "loss": 0.5, "other": 1})
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[-1].startswith("teacher: 100 %")
    assert lines[-1].endswith("loss=0.5")


# -- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ("simulator.config.spawn.sped_mps=[0,1]",),
            "simulator.config.spawn.sped_mps: unknown key; did you mean speed_mps?",
        ),
        (("simulator.num_agents=0",), "num_agents: expected an integer from 1 to 2147483647, got 0"),
        (("simulator.num_agents=5000",), "num_agents: map "),
        (("simulator.maps=[nowhere.xodr]",), "map 'nowhere.xodr': no such file"),
        (("simulator.maps=[grid:x]",), "grid:x"),
        (("simulator.device=tpu",), "device: expected cpu or cuda, got 'tpu'"),
        (("algorithm.config.total_steps=0",), "total_steps: expected a whole number >= 1, got 0"),
        (("algorithm.config.ppo.gama=0.9",), "algorithm.config.ppo.gama: unknown key; did you mean gamma?"),
        (("resume=true",), "there is no run runs/teacher"),
    ],
)
def test_a_mistake_in_the_training_configuration(run_tool, overrides, message):
    status, _, err = run_tool("train_teacher", CONFIGS / "teacher.yaml", *SMALL, *overrides)
    assert status == 2
    assert message in one_line(err)


def test_a_run_that_failed_before_it_began_leaves_its_name_free(run_tool):
    for town in ("one.xodr", "two.xodr"):
        status, _, err = run_tool("train_teacher", CONFIGS / "teacher.yaml", *SMALL, f"simulator.maps=[{town}]")
        assert status == 2
        assert f"map '{town}': no such file" in one_line(err)


OPENDRIVE = """<?xml version="1.0"?>
<OpenDRIVE><header revMajor="1" revMinor="4" name="t"/>
<road id="1" length="50" junction="-1"><planView>
<geometry s="0" x="0" y="0" hdg="0" length="50"><line/></geometry></planView>
<lanes><laneSection s="0"><center><lane id="0" type="none"/></center>
<right><lane id="-1" type="sidewalk">
<width sOffset="0" a="3.5" b="0" c="0" d="0"/></lane></right></laneSection></lanes></road>
</OpenDRIVE>"""


@pytest.mark.parametrize(
    ("content", "message"),
    [(OPENDRIVE, "drivable"), (OPENDRIVE[: len(OPENDRIVE) // 2], "town.xodr"), ("", "town.xodr")],
    ids=["no drivable lane", "truncated", "empty"],
)
def test_a_map_that_cannot_be_used(run_tool, tmp_path, content, message):
    (tmp_path / "town.xodr").write_text(content)
    status, _, err = run_tool("import_map", "town.xodr", "town.npz")
    assert status == 2
    assert message in one_line(err)
    assert "town" in err
    assert not (tmp_path / "town.npz").exists()


ONE_POLICY = """
name: judged
agents: 2
simulator: {class: "terapixel_sim:Simulator", config: {}, maps: ["grid:0"], num_worlds: 1, num_agents: 2}
policies: {mine: {policy: {class: "terapixel_student:load_policy", path: mine.pt}}}
"""


@pytest.mark.parametrize("kind", ["absent", "a teacher's", "not a checkpoint"])
def test_a_checkpoint_of_another_network(run_tool, tmp_path, kind):
    from terapixel_teacher.checkpoint import save_checkpoint

    (tmp_path / "one.yaml").write_text(ONE_POLICY)
    if kind == "a teacher's":
        save_checkpoint(tmp_path / "mine.pt", {})
    elif kind == "not a checkpoint":
        (tmp_path / "mine.pt").write_bytes(b"nonsense")
    messages = {
        "absent": "mine.pt: no such checkpoint",
        "a teacher's": "mine.pt: expected a checkpoint of terapixel-student, got one of terapixel-teacher",
        "not a checkpoint": "mine.pt: not a readable checkpoint of terapixel-student",
    }
    status, _, err = run_tool("evaluate", "one.yaml")
    assert status == 2
    assert one_line(err).splitlines()[-1] == messages[kind]


@pytest.mark.slow
def test_a_driver_of_rules_is_a_row_like_any_other(run_tool, tmp_path):
    text = ONE_POLICY.replace("terapixel_student:load_policy", "_policies:IDM").replace(", path: mine.pt", "")
    (tmp_path / "one.yaml").write_text(text.replace("num_worlds: 1", "num_worlds: 4"))
    status, _, err = run_tool("evaluate", "one.yaml", "name=rules")
    assert status == 0, err
    row = json.loads((tmp_path / "runs" / "rules" / "metrics.json").read_text())["rows"][0]
    assert row["completion"]["mean"] > 0.5


def test_a_student_needs_cameras(run_tool, tmp_path):
    (tmp_path / "one.yaml").write_text(ONE_POLICY)
    status, _, err = run_tool("evaluate", "one.yaml", "policies.mine.sees=sensors")
    assert status == 2
    assert "policies.mine: sees sensors, but the simulator has no cameras" in one_line(err)


def test_a_typo_in_a_late_stage_of_the_demo_shows_at_the_start(run_tool, tmp_path):
    status, _, err = run_tool("demo", CONFIGS / "demo.yaml", "adapt.algorithm.config.stepz=3")
    assert status == 2
    assert one_line(err).startswith("adapt.algorithm.config.stepz: unknown key; did you mean steps?")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (torch.zeros(1, 3, dtype=torch.int64), "action: expected int64 [1, 2] on cpu, got int64 [1, 3] on cpu"),
        (torch.zeros(1, 2), "action: expected int64 [1, 2] on cpu, got float32 [1, 2] on cpu"),
        (torch.full((1, 2), 12), "action[0, 0]: expected 0 to 11, got 12"),
    ],
)
def test_a_wrong_action_is_refused(action, message):
    sim = Simulator(SimConfig(), ["grid:0"], num_worlds=1, num_agents=2)
    sim.reset()
    with pytest.raises(ValueError) as error:
        sim.step(action)
    assert str(error.value) == message


def test_a_non_finite_action_is_refused():
    sim = Simulator(SimConfig(action="jerk_continuous"), ["grid:0"], num_worlds=1, num_agents=2)
    sim.reset()
    action = torch.zeros(1, 2, 2)
    action[0, 1, 0] = torch.nan
    with pytest.raises(ValueError, match=r"action\[0, 1\]: expected finite numbers in \[-1, 1\]"):
        sim.step(action)


def test_a_tool_that_fails_in_its_own_process_prints_one_line(tmp_path):
    tool = CONFIGS.parent / "train_teacher.py"
    done = subprocess.run([sys.executable, tool, "no.yaml"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert one_line(done.stderr).startswith("no.yaml: no such file")


# -- the other tools --------------------------------------------------------------------------------------------------


def test_describe_prints_every_column(run_tool):
    from terapixel_sim.observation import describe

    status, out, _ = run_tool("describe")
    assert status == 0
    for column in describe():
        assert f" {column.name} " in out
    status, out, _ = run_tool("describe", "ego")
    assert "ROUTE_LEFT" in out
    assert "JERK_LONG" not in out
    status, _, err = run_tool("describe", "egg")
    assert status == 2
    assert one_line(err).startswith("LEAF: expected some of ego")


def colours(picture):
    return len(np.unique(np.asarray(picture).reshape(-1, 3), axis=0))


def test_import_map_writes_a_map_that_loads(run_tool, tmp_path):
    status, out, err = run_tool("import_map", "grid:3", "maps/town.npz", "--preview", "maps/town.png", "--check")
    assert status == 0, err
    assert "agents" in out
    from PIL import Image
    from terapixel_sim import load_map

    assert len(load_map(tmp_path / "maps/town.npz").lanes) == len(load_map("grid:3").lanes)
    assert colours(Image.open(tmp_path / "maps/town.png")) > 5


def test_render_writes_a_picture_of_an_agents_view(run_tool, tmp_path):
    status, _, err = run_tool("render", "view.png", "--agents", 4)
    assert status == 0, err
    from PIL import Image

    picture = Image.open(tmp_path / "view.png")
    assert picture.size == (1072, 432)
    assert colours(picture.crop((0, 0, 640, 432))) > 20  # a road, not one colour
    status, _, err = run_tool("render", "view.txt")
    assert status == 2
    assert ".png, .jpg or .mp4" in one_line(err)


def test_bench_lines_say_what_was_measured(run_tool, tmp_path):
    status, _, err = run_tool("bench", "step", "render", "--worlds", 2, "--json", "b.jsonl")
    assert status == 0, err
    lines = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()]
    assert [line["metric"] for line in lines] == ["step without observation", "render 64x64 rgb"]
    for line in lines:
        assert line["value"] > 0
        assert line["ratio"] == pytest.approx(line["value"] / line["yardstick_per_s"])
        assert {"unit", "git", "cores", "threads", "worlds", "agents"} <= set(line)
