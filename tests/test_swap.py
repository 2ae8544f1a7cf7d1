"""A network and an environment from a file outside the repository, named in a YAML, go through the training tool."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

FILE = '''
import torch
from tensordict import TensorDict
from torch import nn


class Line:
    """One agent a world on a line; action 11 moves right, all others left; right pays."""

    interface, num_agents, device = 1, 1, torch.device("cpu")

    def __init__(self, num_worlds: int, length: int = 8) -> None:
        self.num_worlds, self.length = num_worlds, length
        self.generator = torch.Generator().manual_seed(0)

    @property
    def world_done(self):
        return self.time >= self.length

    def reset(self, mask=None):
        if mask is None:
            self.x = torch.zeros(self.num_worlds, 1)
            self.time = torch.zeros(self.num_worlds)
            mask = torch.ones(self.num_worlds, dtype=torch.bool)
        self.x[mask], self.time[mask] = 0.0, 0.0
        return self.observe()

    def observe(self):
        shape = (self.num_worlds, 1)
        return TensorDict(
            {
                "place": self.x[..., None] / self.length,
                "draw": torch.rand(*shape, 2, generator=self.generator),
                "live": (self.time < self.length)[:, None].clone(),
            },
            batch_size=shape,
        )

    def step(self, action):
        right = (action == 11).float()
        self.x, self.time = self.x + right, self.time + 1
        batch = self.observe()
        batch["reward"] = right
        batch["terminated"] = torch.zeros_like(batch["live"])
        batch["truncated"] = ~batch["live"]
        return batch


class Net(nn.Module):
    def __init__(self, example: TensorDict, hidden: int = 8) -> None:
        super().__init__()
        self.body = nn.Linear(example["place"].shape[-1], hidden)
        self.actor, self.critic = nn.Linear(hidden, 12), nn.Linear(hidden, 1)

    def encode(self, batch):
        return self.body(batch["place"]).tanh()

    def head(self, latent):
        return {"action_logits": self.actor(latent), "value": self.critic(latent)[..., 0]}

    def act(self, batch, greedy=False):
        logits = self.head(self.encode(batch))["action_logits"]
        if greedy:
            return logits.argmax(-1)
        passed = logits.softmax(-1).cumsum(-1) <= batch["draw"][..., :1]
        return passed.sum(-1).clamp(max=11)
'''

YAML = """
name: swapped
seed: 0
simulator: {class: "FILE:Line", num_worlds: 16}
policy: {class: "FILE:Net", hidden: 16}
algorithm:
  class: terapixel_teacher:train
  config:
    total_steps: 6000
    ppo: {horizon: 16, minibatch: 128, epochs: 4, lr: 0.02}
"""


@pytest.fixture
def yaml(tmp_path):
    parts = tmp_path / "parts.py"
    parts.write_text(FILE)
    path = tmp_path / "swap.yaml"
    path.write_text(YAML.replace("FILE", str(parts)))
    return path


def test_own_network_learns_in_own_environment(run_tool, yaml, tmp_path):
    status, _, err = run_tool("train_teacher", yaml)
    assert status == 0, err
    from _parts import find
    from terapixel_teacher import load_checkpoint

    path = tmp_path / "runs" / "swapped" / "teacher.pt"
    env = find(f"{tmp_path}/parts.py:Line", "env")(4)
    net = find(f"{tmp_path}/parts.py:Net", "net")(env.reset(), hidden=16)
    net.load_state_dict(load_checkpoint(path)["policy"])
    assert (net.act(env.reset(), greedy=True) == 11).all()  # it learned to go right


def test_an_unknown_option_of_a_part_names_the_nearest(run_tool, yaml):
    status, _, err = run_tool("train_teacher", yaml, "simulator.num_wrlds=3")
    assert status == 2
    assert err.startswith("error: simulator.num_wrlds: unknown key; did you mean num_worlds?")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("policy.class=parts.py:Nothing", "policy.class: parts.py has no class or function Nothing; it has: Line, Net"),
        ("policy.class=nowhere.py:Net", "policy.class: no such file: nowhere.py"),
        ("policy.class=no_such_package:Net", "policy.class: no module named 'no_such_package'"),
        ("policy.class=Net", "policy.class: expected package.module:Name or file.py:Name, got 'Net'"),
        ("simulator.class=parts.py:Net", "simulator.num_worlds: unknown key; allowed: example, hidden"),
    ],
)
def test_a_part_that_cannot_be_used_is_refused_at_the_start(run_tool, yaml, override, message):
    status, _, err = run_tool("train_teacher", yaml, override)
    assert status == 2
    assert err == f"error: {message}\n"


def test_an_environment_without_what_the_trainer_needs_is_refused(run_tool, yaml, tmp_path):
    (tmp_path / "poor.py").write_text(
        "class Poor:\n    def __init__(self, num_worlds: int):\n        self.num_worlds = num_worlds\n"
    )
    status, _, err = run_tool("train_teacher", yaml, "simulator.class=poor.py:Poor")
    assert status == 2
    assert "simulator: Poor has no interface, num_agents, device, reset, step; needed:" in err


@pytest.mark.slow
def test_ctrl_c_writes_a_checkpoint_and_the_printed_command_goes_on(yaml, tmp_path):
    tool = Path(__file__).resolve().parent.parent / "tools" / "train_teacher.py"
    command = [sys.executable, tool, yaml, "algorithm.config.total_steps=100_000_000"]
    # jobs of a script's background ignore SIGINT, and so would the tool
    heed = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, preexec_fn=heed) as running:
        assert "teacher:" in running.stderr.readline()  # the first update is done
        running.send_signal(signal.SIGINT)
        said = running.stderr.read()
    assert running.returncode == 130
    assert f"go on with: python {tool} {yaml} algorithm.config.total_steps=100_000_000 resume=true" in said
    from terapixel_teacher import load_checkpoint

    stopped = load_checkpoint(tmp_path / "runs" / "swapped" / "teacher.pt")["steps"]
    budget = f"algorithm.config.total_steps={stopped + 300}"
    resumed = subprocess.run([*command[:3], budget, "resume=true"], cwd=tmp_path, capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stderr
    assert stopped < load_checkpoint(tmp_path / "runs" / "swapped" / "teacher.pt")["steps"] < stopped + 1000


def test_the_example_network_trains_in_the_simulator(run_tool, tmp_path):
    root = Path(__file__).resolve().parent.parent
    part = f"policy.class={root / 'examples' / 'my_network.py'}:MyNetwork"
    small = ("simulator.maps=[grid:0]", "simulator.num_worlds=2", "simulator.num_agents=4")
    budget = ("algorithm.config.total_steps=50", "algorithm.config.ppo.horizon=8")
    status, _, err = run_tool(
        "train_teacher", root / "tools/configs/teacher.yaml", part, "policy.hidden=8", *small, *budget
    )
    assert status == 0, err
    assert (tmp_path / "runs" / "teacher" / "teacher.pt").is_file()
