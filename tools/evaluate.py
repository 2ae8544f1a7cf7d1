"""Compare policies in closed loop and write metrics.json and a table.

python tools/evaluate.py tools/configs/evaluate.yaml key.sub=value ...
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from _config import load
from _look import NewLook
from _metrics import evaluate
from _parts import ConfigError, Part
from _policies import Seeing, black
from _progress import ProgressBar
from _run import Named, cli, open_run
from tensordict import TensorDict
from train_student import SIMULATOR

COLUMNS = ("success", "completion", "collision", "offroad", "score")


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """One row of the table."""

    policy: Part
    sees: Literal["all", "sensors", "black"] = "all"
    """Everything; only what a student may see; or that with black cameras. Only `all` drives without cameras."""
    new_look: bool = False
    """Drives in the new look."""

    def __post_init__(self) -> None:
        self.policy.check()


@dataclass(frozen=True, kw_only=True)
class EvaluateStage:
    """Who drives where."""

    simulator: Part
    policies: Mapping[str, Entrant]
    """Rows by name."""
    agents: int = 1024
    """Least number of agents a row; whole rounds of all worlds are driven."""
    greedy: bool = True
    new_look: NewLook | None = None

    def __post_init__(self) -> None:
        self.simulator.check()
        if not self.policies:
            raise ConfigError("policies: expected at least one")
        if self.agents < 1:
            raise ConfigError(f"agents: expected at least 1, got {self.agents}")

    def run(self, folder: Path) -> dict[str, Any]:
        """Drive every entrant through the same episodes; write and return metrics.json's content."""
        sim = self.simulator.build(needs=SIMULATOR)
        self._check_cameras(sim)
        policies = {name: entrant.policy.build(needs=("act",)) for name, entrant in self.policies.items()}
        progress = ProgressBar("evaluate", "done", "total", ("policy",))
        rows = []
        for i, (name, policy) in enumerate(policies.items()):
            progress({"done": i, "total": len(policies), "policy": name})
            env, seeing = self._enter(sim, self.policies[name], policy)
            rows.append({"name": name, **evaluate(env, seeing, num_agents_total=self.agents, greedy=self.greedy)})
        progress({"done": len(rows), "total": len(rows)})
        metrics = {
            "infraction": sim.config.infraction,
            "maps": [m.name for m in sim.maps],
            "greedy": self.greedy,
            "rows": rows,
        }
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n")
        (folder / "table.md").write_text(table(rows))
        return metrics

    def _check_cameras(self, sim: Any) -> None:
        for name, entrant in self.policies.items():
            if entrant.sees != "all" and sim.cameras is None:
                raise ConfigError(f"policies.{name}: sees {entrant.sees}, but the simulator has no cameras")
            if entrant.new_look and (self.new_look is None or entrant.sees == "all"):
                raise ConfigError(f"policies.{name}: new_look needs the key new_look, and sees: sensors or black")

    def _enter(self, sim: Any, entrant: Entrant, policy: Any) -> tuple[Any, Any]:
        """A simulator that starts from the first episode, and the policy as it sees that simulator."""
        rig = None if entrant.sees == "all" else sim.cameras
        change: Callable[[TensorDict], TensorDict] | None = black if entrant.sees == "black" else None
        if entrant.new_look and self.new_look is not None:
            rig, change = self.new_look.rig(sim.cameras), change or self.new_look.change()
        env = sim.fork(num_worlds=sim.num_worlds, cameras=rig, time_limit=sim.config.time_limit_s, early_reset=True)
        if hasattr(policy, "enter"):
            policy.enter(env)
        if entrant.sees != "all":
            policy = Seeing(policy, lambda batch: change(sim.sensors(batch)) if change else sim.sensors(batch))
        return env, policy


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a Markdown table: means with half the width of their 95 % intervals."""
    lines = [
        f"| policy | {' | '.join(COLUMNS)} | km | agents | worlds |",
        f"|---|{'---|' * (len(COLUMNS) + 3)}",
    ]
    for row in rows:
        cells = [f"{row[c]['mean']:.3f} ± {(row[c]['high'] - row[c]['low']) / 2:.3f}" for c in COLUMNS]
        lines.append(
            f"| {row['name']} | {' | '.join(cells)} | {row['km']:.1f} | {row['n_agents']} | {row['n_worlds']} |"
        )
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, kw_only=True)
class EvaluateRun(EvaluateStage, Named):
    """The YAML of this tool."""


def tool(argv: Sequence[str]) -> None:
    """Evaluate into `runs/NAME` and print the table."""
    config, resolved = load(EvaluateRun, argv)
    if config.resume:
        raise ConfigError("resume: an evaluation starts anew; choose another name")
    metrics = config.run(open_run(config.name, resolved))
    print(table(metrics["rows"]))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    return cli(tool, argv, usage=__doc__)


if __name__ == "__main__":
    sys.exit(main())
