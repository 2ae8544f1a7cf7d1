"""The whole pipeline in one run: teacher, student, behaviour cloning, adaptation, a table on an unseen town, a film.

python tools/demo.py tools/configs/demo.yaml key.sub=value ...
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _config import load
from _parts import ConfigError, Part
from _run import Named, cli, open_run
from _video import SUBFRAMES, film, write_mp4
from adapt import AdaptStage
from evaluate import EvaluateStage, table
from train_student import SIMULATOR, StudentStage
from train_teacher import TeacherStage


@dataclass(frozen=True, kw_only=True)
class FilmStage:
    """What to show."""

    simulator: Part
    """One world, with cameras."""
    policy: Part
    seconds: float = 20.0

    def __post_init__(self) -> None:
        self.simulator.check()
        self.policy.check()

    def run(self, path: Path) -> None:
        """Write an MP4."""
        sim = self.simulator.build(needs=SIMULATOR)
        policy = self.policy.build(needs=("act",))
        write_mp4(path, film(sim, policy, self.seconds), SUBFRAMES / sim.dt_s)


@dataclass(frozen=True, kw_only=True)
class DemoRun(Named):
    """The YAML of this tool: one entry a stage, in the order in which they run."""

    shared: dict[str, Any] = field(default_factory=dict)
    """Whatever the stages refer to with YAML anchors or `${shared...}`."""
    teacher: TeacherStage
    student: StudentStage
    bc: StudentStage
    adapt: AdaptStage
    evaluate: EvaluateStage
    film: FilmStage


def tool(argv: Sequence[str]) -> None:
    """Run all stages into `runs/NAME`, which is replaced, and print the table."""
    config, resolved = load(DemoRun, argv)
    if config.resume:
        raise ConfigError("resume: the demo starts anew; the training tools can resume")
    folder = open_run(config.name, resolved, replace=True)
    stages = {
        "teacher": lambda: config.teacher.run(folder / "teacher"),
        "student": lambda: config.student.run(folder / "student"),
        "bc": lambda: config.bc.run(folder / "bc", label="bc"),
        "adapt": lambda: config.adapt.run(folder / "adapt"),
        "evaluate": lambda: config.evaluate.run(folder),
        "film": lambda: config.film.run(folder / "student.mp4"),
    }
    minutes, results = {}, {}
    for name, stage in stages.items():
        began = time.monotonic()
        results[name] = stage()
        minutes[name] = (time.monotonic() - began) / 60
    print(table(results["evaluate"]["rows"]))
    print("minutes: " + ", ".join(f"{name} {spent:.1f}" for name, spent in minutes.items()))
    print(f"see {folder}/metrics.json, table.md and student.mp4; tensorboard --logdir {folder}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    return cli(tool, argv, usage=__doc__)


if __name__ == "__main__":
    sys.exit(main())
