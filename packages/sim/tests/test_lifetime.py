"""Simulators that come, go, and go on elsewhere."""

import gc
import os
import subprocess
import sys

import pytest
import torch
from terapixel_sim import SimConfig, Simulator, load_map

CONTINUE = """
import sys, torch
from terapixel_sim import SimConfig, Simulator
sim = Simulator(SimConfig(), ["grid:0", "curvy:0"], num_worlds=4, num_agents=6, seed=9)
sim.load_state(torch.load(sys.argv[1], weights_only=False))
for k in range(10):
    batch = sim.step(torch.full((4, 6), k % 12))
torch.save({k: v for k, v in batch.items(True, True)}, sys.argv[2])
"""


def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc to read the memory in use")
def test_fifty_simulators_leave_nothing_behind():
    town = load_map("grid:0")
    sizes = []
    for k in range(50):
        sim = Simulator(SimConfig(), [town], num_worlds=64, num_agents=8, seed=k)
        sim.reset()
        sim.step(torch.full((64, 8), 7))
        del sim
        gc.collect()
        sizes.append(resident_mb())
    assert sizes[-1] - sizes[9] < 10.0, sizes


@pytest.mark.slow
def test_a_state_from_disk_goes_on_bitwise_in_another_process(tmp_path):
    sim = Simulator(SimConfig(), ["grid:0", "curvy:0"], num_worlds=4, num_agents=6, seed=9)
    sim.reset()
    for k in range(5):
        sim.step(torch.full((4, 6), (5 * k) % 12))
    torch.save(sim.state.clone(), tmp_path / "state.pt")
    for k in range(10):
        batch = sim.step(torch.full((4, 6), k % 12))
    here = {k: v.clone() for k, v in batch.items(True, True)}
    command = [sys.executable, "-c", CONTINUE, str(tmp_path / "state.pt"), str(tmp_path / "there.pt")]
    subprocess.run(command, check=True, timeout=300)
    there = torch.load(tmp_path / "there.pt", weights_only=True)
    assert here.keys() == there.keys()
    for key, value in here.items():
        assert torch.equal(value, there[key]), key
