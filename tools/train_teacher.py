"""Train a privileged teacher by self-play.

python tools/train_teacher.py tools/configs/teacher.yaml key.sub=value ...
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

ENVIRONMENT = ("interface", "num_worlds", "num_agents", "device", "reset", "step")


@dataclass(frozen=True, kw_only=True)
class TeacherStage:
    """What to train on what."""

    simulator: Part
    """An environment of docs/interface.md, such as terapixel_sim:Simulator."""
    algorithm: Part
    """Called as algorithm(env, run_dir=, resume=, progress=, policy=), such as terapixel_teacher:train."""
    policy: Part | None = None
    """A network of one's own, called as policy(example batch); none lets the algorithm build its own."""

    def __post_init__(self) -> None:
        self.simulator.check()
        self.algorithm.check(1, ("run_dir", "resume", "progress", "policy"))
        if self.policy is not None:
            self.policy.check(1)

    def run(self, folder: Path, *, resume: bool = False) -> Any:
        """Train in `folder` and return the policy."""
        folder.mkdir(parents=True, exist_ok=True)
        env = self.simulator.build(needs=ENVIRONMENT)
        policy = None if self.policy is None else self.policy.build(env.reset(), needs=("encode", "head", "act"))
        return self.algorithm.build(
            env,
            run_dir=folder,
            resume=resume,
            progress=ProgressBar("teacher", "steps", "total_steps", ("reward/mean", "policy/entropy")),
            policy=policy,
        )


@dataclass(frozen=True, kw_only=True)
class TeacherRun(TeacherStage, Named):
    """The YAML of this tool."""


def tool(argv: Sequence[str]) -> None:
    """Train into `runs/NAME`."""
    config, resolved = load(TeacherRun, argv)
    config.run(open_run(config.name, resolved, resume=config.resume), resume=config.resume)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    return cli(tool, argv, resumes=True, usage=__doc__)


if __name__ == "__main__":
    sys.exit(main())
