"""Train a student that drives from its cameras, labelled by a teacher.

python tools/train_student.py tools/configs/student.yaml key.sub=value ...
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _config import load
from _parts import Part
from _progress import ProgressBar
from _run import Named, cli, open_run
from train_teacher import ENVIRONMENT

SIMULATOR = (*ENVIRONMENT, "state", "load_state", "fork", "observe", "render", "sensors", "rear_axle", "dt_s")


@dataclass(frozen=True, kw_only=True)
class StudentStage:
    """Who learns from whom, where."""

    simulator: Part
    """A simulator with cameras."""
    expert: Part
    """A policy on privileged batches, such as terapixel_teacher:load_policy with its path."""
    algorithm: Part
    """Called as algorithm(env, expert, run_dir=, resume=, progress=), such as terapixel_student:train."""

    def __post_init__(self) -> None:
        self.simulator.check()
        self.expert.check()
        self.algorithm.check(2, ("run_dir", "resume", "progress"))

    def run(self, folder: Path, *, resume: bool = False, label: str = "student") -> Any:
        """Train in `folder` and return the policy."""
        folder.mkdir(parents=True, exist_ok=True)
        expert = self.expert.build(needs=("encode", "head", "act"))
        env = self.simulator.build(needs=SIMULATOR)
        return self.algorithm.build(
            env, expert, run_dir=folder, resume=resume, progress=ProgressBar(label, "labels", "total", ("beta", "loss"))
        )


@dataclass(frozen=True, kw_only=True)
class StudentRun(StudentStage, Named):
    """The YAML of this tool."""


def tool(argv: Sequence[str]) -> None:
    """Train into `runs/NAME`."""
    config, resolved = load(StudentRun, argv)
    config.run(open_run(config.name, resolved, resume=config.resume), resume=config.resume)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    return cli(tool, argv, resumes=True, usage=__doc__)


if __name__ == "__main__":
    sys.exit(main())
