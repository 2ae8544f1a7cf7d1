"""Adapt a trained student to another look of the world, its planner frozen.

python tools/adapt.py tools/configs/adapt.yaml key.sub=value ...
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _config import load
from _look import LookPairs, NewLook
from _parts import Part
from _progress import ProgressBar
from _run import Named, cli, open_run
from train_student import SIMULATOR


@dataclass(frozen=True, kw_only=True)
class AdaptStage:
    """Which policy to adapt to which look."""

    simulator: Part
    """A simulator with cameras in the look that the policy knows."""
    policy: Part
    """The policy, such as terapixel_student:load_policy with its path."""
    algorithm: Part
    """Called as algorithm(policy, pairs, run_dir=, resume=, progress=), such as terapixel_adapt:align."""
    new_look: NewLook
    pair_every_s: float = 1.0
    """Driving time between two pairs of batches [s]."""

    def __post_init__(self) -> None:
        self.simulator.check()
        self.policy.check()
        self.algorithm.check(2, ("run_dir", "resume", "progress"))

    def run(self, folder: Path, *, resume: bool = False) -> Any:
        """Adapt in `folder` and return the adapted policy."""
        folder.mkdir(parents=True, exist_ok=True)
        policy = self.policy.build(needs=("encode", "head", "act"))
        pairs = LookPairs(self.simulator.build(needs=SIMULATOR), policy, self.new_look, every_s=self.pair_every_s)
        return self.algorithm.build(
            policy, pairs, run_dir=folder, resume=resume, progress=ProgressBar("adapt", "step", "steps", ("loss", "r2"))
        )


@dataclass(frozen=True, kw_only=True)
class AdaptRun(AdaptStage, Named):
    """The YAML of this tool."""


def tool(argv: Sequence[str]) -> None:
    """Adapt into `runs/NAME`."""
    config, resolved = load(AdaptRun, argv)
    config.run(open_run(config.name, resolved, resume=config.resume), resume=config.resume)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    return cli(tool, argv, resumes=True, usage=__doc__)


if __name__ == "__main__":
    sys.exit(main())
