"""Measure speed, as JSON lines.

    python tools/bench.py render step observe ppo --json benchmarks/mine.jsonl

Every line has a ratio to a yardstick, a gather-and-multiply kernel timed in the same run, because absolute speed
depends on the machine and on what else it does. One thread unless `--threads` says otherwise. Compiling is not timed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

Line = dict[str, Any]

MAPS = ["grid:0", "grid:1", "grid:2", "curvy:0"]
REPEATS = 5


def tool(argv: Sequence[str]) -> None:
    """Run the benchmarks that are named and print or write their lines."""
    benchmarks: dict[str, Callable[[argparse.Namespace], Iterator[Line]]] = {
        "render": _render, "step": _step, "observe": _observe, "ppo": _ppo,
    }  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmarks", metavar="NAME", nargs="+", choices=sorted(benchmarks), help=", ".join(benchmarks))
    parser.add_argument("--json", metavar="FILE", help="append the lines to FILE")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--worlds", type=int, help="number of worlds instead of each benchmark's own")
    words = parser.parse_args(argv)
    os.environ["TERAPIXEL_THREADS"] = str(words.threads)  # read when Taichi starts, so before anything is built
    import torch

    torch.set_num_threads(words.threads)
    from _run import git_hash

    host = {"git": git_hash(), "cpu": _cpu(), "cores": os.cpu_count(), "threads": words.threads, "device": words.device}
    for name in words.benchmarks:
        yardstick = _yardstick(words.device)
        for line in benchmarks[name](words):
            whole = {**line, "ratio": line["value"] / yardstick, "yardstick_per_s": yardstick, **host}
            print(json.dumps(whole))
            if words.json:
                Path(words.json).parent.mkdir(parents=True, exist_ok=True)
                with open(words.json, "a") as file:
                    file.write(json.dumps(whole) + "\n")


def _yardstick(device: str) -> float:
    """Elements a second of y[i] = x[index[i]] * y[i] over 2^22 shuffled elements."""
    import torch
    from _yardstick import gather_multiply
    from terapixel_sim import runtime

    runtime.start(device)
    n = 1 << 22
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(n, generator=generator).to(device), torch.ones(n, device=device)
    index = torch.randperm(n, generator=generator).int().to(device)
    return n / _best(lambda: gather_multiply(x, index, y), device)


def _render(words: argparse.Namespace) -> Iterator[Line]:
    from terapixel_sim import Camera, CameraRig

    rig = CameraRig(cameras={"front": Camera(width=64, height=64)})
    sim = _simulator(words.worlds or 64, 32, words.device)
    sim.reset()
    images = sim.num_worlds * sim.num_agents
    seconds = _best(lambda: sim.render(sim.state, rig), words.device)
    yield _line("render 64x64 rgb", images / seconds, "images/s", sim)


def _step(words: argparse.Namespace) -> Iterator[Line]:
    """The step kernel alone, 32,768 agents."""
    import torch
    from terapixel_sim.kernels.step import step

    sim = _simulator(words.worlds or 1024, 32, words.device)
    sim.reset()
    action = torch.full((sim.num_worlds, sim.num_agents), 7, device=words.device)
    start, maps = sim.state.clone(), (sim._bank.ints, sim._bank.floats)
    reward = torch.zeros(action.shape, device=words.device)
    terminated, truncated = [torch.zeros(action.shape, dtype=torch.bool, device=words.device) for _ in range(2)]

    def once() -> None:
        s = sim.state
        step(s["agents"], s["slots"], s["world"], *maps, action, reward, terminated, truncated, sim._step_params)

    seconds = _best(once, words.device, before=lambda: sim.load_state(start))
    yield _line("step without observation", action.numel() / seconds, "agent-steps/s", sim)


def _observe(words: argparse.Namespace) -> Iterator[Line]:
    """A whole step of the environment, vectors but no images, 32,768 agents."""
    import torch

    sim = _simulator(words.worlds or 1024, 32, words.device)
    sim.reset()
    action = torch.full((sim.num_worlds, sim.num_agents), 7, device=words.device)
    start = sim.state.clone()
    seconds = _best(lambda: sim.step(action), words.device, before=lambda: sim.load_state(start))
    yield _line("step with observation", action.numel() / seconds, "agent-steps/s", sim)


def _ppo(words: argparse.Namespace) -> Iterator[Line]:
    """PPO self-play as the demo trains its teacher, rollouts and updates."""
    import dataclasses

    from _config import load
    from demo import DemoRun

    config, _ = load(DemoRun, [str(Path(__file__).parent / "configs" / "demo.yaml")])
    stage = config.teacher
    algorithm = dataclasses.replace(
        stage.algorithm, options={"config": {**stage.algorithm.options["config"], "total_steps": 250_000}}
    )
    sim = stage.simulator.build()
    reports: list[tuple[float, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        algorithm.build(
            sim, run_dir=Path(folder), resume=False, policy=None,
            progress=lambda info: reports.append((time.perf_counter(), info["steps"])),
        )  # fmt: skip
    # the first update pays for compiling
    (began, first), (ended, last) = reports[0], reports[-1]
    yield _line("ppo training", (last - first) / (ended - began), "agent-steps/s", sim)


def _simulator(worlds: int, agents: int, device: str) -> Any:
    from terapixel_sim import SimConfig, Simulator

    return Simulator(SimConfig(), MAPS, num_worlds=worlds, num_agents=agents, device=device)


def _best(once: Callable[[], object], device: str, before: Callable[[], object] = lambda: None) -> float:
    """Least time of some repeats, after one that compiles [s]."""
    import torch

    times = []
    for _ in range(REPEATS + 1):
        before()
        if device == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        once()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return min(times[1:])


def _line(metric: str, value: float, unit: str, sim: Any) -> Line:
    return {"metric": metric, "value": value, "unit": unit, "worlds": sim.num_worlds, "agents": sim.num_agents}


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    names = (
        [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        if info.is_file()
        else []
    )
    return names[0] if names else platform.processor()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    from _run import cli

    return cli(tool, argv)


if __name__ == "__main__":
    sys.exit(main())
