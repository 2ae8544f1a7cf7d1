"""A toy simulator: points steer to goals they see as green blobs in a 16 x 16 picture of their surroundings.

It speaks the whole tensor batch with fork and state, so the student package needs no driving simulator for its tests.
"""

import math

import torch
from tensordict import TensorDict

ACCEL = torch.tensor([-2.0, -1.0, 0.0, 1.0])  # [m/s2], of action // 3
YAW_RATE = torch.tensor([-1.0, 0.0, 1.0])  # [rad/s], of action % 3
REACH, BORDER, BLOB = 1.0, 14.0, 1.5  # [m]


class PixelPoints:
    """`num_worlds` x `num_agents` points; one that reaches its goal or leaves the square terminates."""

    interface = 1
    dt_s = 0.25
    device = torch.device("cpu")

    def __init__(self, num_worlds=16, num_agents=4, time_limit_s=15.0, seed=0):
        self.num_worlds, self.num_agents, self.time_limit_s, self.seed = num_worlds, num_agents, time_limit_s, seed
        shape = (num_worlds, num_agents)
        agents = {"pose": torch.zeros(*shape, 3), "speed": torch.zeros(shape), "goal": torch.zeros(*shape, 2)}
        counters = {"live": torch.zeros(shape, dtype=torch.bool), "won": torch.zeros(shape, dtype=torch.bool)}
        world = {k: torch.zeros(num_worlds, dtype=torch.int64) for k in ("episode", "step")}
        world |= {"id": torch.arange(num_worlds), "done": torch.zeros(num_worlds, dtype=torch.bool)}
        self.state = TensorDict({**agents, **counters, **world}, batch_size=[num_worlds])

    @property
    def world_done(self):
        return self.state["done"]

    def load_state(self, state):
        self.state = state.clone()

    def fork(self, num_worlds=None, cameras=None, time_limit=None):
        other = PixelPoints(num_worlds or self.num_worlds, self.num_agents, time_limit or math.inf, self.seed)
        if num_worlds is None:
            other.load_state(self.state)
        return other

    def reset(self, mask=None):
        s = self.state
        mask = torch.ones(self.num_worlds, dtype=torch.bool) if mask is None else mask
        s["episode"] += mask
        s["step"].masked_fill_(mask, 0)
        s["done"] &= ~mask
        u = torch.stack([self._draw(s, stream) for stream in range(10, 15)], -1)
        angle, distance = 2 * math.pi * u[..., 2], 3 + 5 * u[..., 3]
        pose = torch.stack([6 * u[..., 0] - 3, 6 * u[..., 1] - 3, 2 * math.pi * u[..., 4] - math.pi], -1)
        goal = pose[..., :2] + distance.unsqueeze(-1) * torch.stack([angle.cos(), angle.sin()], -1)
        for key, value in {"pose": pose, "speed": torch.ones_like(angle), "goal": goal}.items():
            s[key][mask] = value[mask]
        s["live"][mask], s["won"][mask] = True, False
        return self._batch()

    def step(self, action):
        s, before = self.state, self.state["live"].clone()
        speed = (s["speed"] + ACCEL[action // 3] * self.dt_s).clamp(0.0, 4.0)
        yaw = s["pose"][..., 2] + YAW_RATE[action % 3] * self.dt_s
        move = (speed * self.dt_s).unsqueeze(-1) * torch.stack([yaw.cos(), yaw.sin()], -1)
        yaw = torch.atan2(yaw.sin(), yaw.cos())
        pose = torch.cat([s["pose"][..., :2] + move, yaw.unsqueeze(-1)], -1)
        s["pose"], s["speed"] = (
            torch.where(before.unsqueeze(-1), pose, s["pose"]),
            torch.where(before, speed, s["speed"]),
        )
        won = before & ((s["pose"][..., :2] - s["goal"]).norm(dim=-1) < REACH)
        terminated = won | (before & (s["pose"][..., :2].abs().amax(-1) > BORDER))
        s["won"] |= won
        s["live"] &= ~terminated
        s["step"] += ~s["done"]
        late = s["step"] * self.dt_s >= self.time_limit_s
        truncated = s["live"] & late.unsqueeze(1)
        s["live"] &= ~truncated
        s["done"] |= ~s["live"].any(1)
        flags = {"reward": won.float(), "terminated": terminated, "truncated": truncated}
        return self._batch().update(flags)

    def observe(self, state):
        goal = to_ego(state["goal"], state["pose"])
        ego = torch.cat([goal, state["speed"].unsqueeze(-1)], -1)
        draw = torch.stack([self._draw(state, 0), self._draw(state, 1)], -1)
        leaves = {"ego": ego, "proprio": state["speed"].unsqueeze(-1) / 4, "draw": draw, "live": state["live"].clone()}
        return TensorDict(leaves, batch_size=list(goal.shape[:2]))

    def render(self, state, cameras=None):
        goal = to_ego(state["goal"], state["pose"]).clamp(-7.5, 7.5)
        others = to_ego(state["pose"][:, None, :, :2], state["pose"].unsqueeze(2))  # [W, A, A, 2]
        red = torch.stack([blob(others[:, :, i]) for i in range(others.shape[2])]).amax(0)
        image = torch.stack([red, blob(goal), torch.zeros_like(red)], 2)
        leaves = {"camera": {"above": (255 * image).to(torch.uint8)}}
        return TensorDict(leaves, batch_size=list(goal.shape[:2]))

    def sensors(self, batch):
        return batch.select("camera", "proprio", "draw", "live", strict=False)

    def rear_axle(self):
        return self.state["pose"]

    def _batch(self):
        return self.observe(self.state).update(self.render(self.state))

    def _draw(self, state, stream):
        world = (self.seed * 1009 + state["id"]) * 1009 + state["episode"]
        x = ((world * 1009 + state["step"]) * 1009 + stream).unsqueeze(1) * 64 + torch.arange(self.num_agents)
        for _ in range(3):
            x = (x * 6364136223846793005 + 1442695040888963407) ^ ((x >> 29) & 0x7FFFFFFFF)
        return ((x >> 20) & 0xFFFFFF).float() / 2**24


class Controller(torch.nn.Module):
    """The expert: turns to the goal and slows down while it lies aside; reads the privileged `ego`."""

    def encode(self, batch):
        return batch["ego"]

    def head(self, latent):
        x, y, speed = latent.unbind(-1)
        bearing = torch.atan2(y, x)
        accel = (2 * (3 * bearing.cos().clamp(min=0.2) - speed)).clamp(-2.0, 1.0)
        turn = (2 * bearing).clamp(-1.0, 1.0)
        along = -(((ACCEL - accel.unsqueeze(-1)) / 0.7) ** 2)
        across = -(((YAW_RATE - turn.unsqueeze(-1)) / 0.5) ** 2)
        return {"action_logits": (along.unsqueeze(-1) + across.unsqueeze(-2)).flatten(-2)}

    def act(self, batch, greedy=False):
        logits = self.head(self.encode(batch))["action_logits"]
        if greedy:
            return logits.argmax(-1)
        return (logits.softmax(-1).cumsum(-1)[..., :-1] <= batch["draw"][..., :1]).sum(-1)


def to_ego(point, pose):
    d = point - pose[..., :2]
    cos, sin = pose[..., 2].cos(), pose[..., 2].sin()
    return torch.stack([cos * d[..., 0] + sin * d[..., 1], cos * d[..., 1] - sin * d[..., 0]], -1)


def blob(centre):
    axis = torch.linspace(8, -8, 16)  # rows from ahead to behind, columns from left to right
    dx, dy = axis - centre[..., :1], axis - centre[..., 1:]
    return torch.exp(-(dx.square().unsqueeze(-1) + dy.square().unsqueeze(-2)) / (2 * BLOB**2))


def success(policy, worlds=64, seed=99):
    """Share of agents that reach their goal when `policy` drives greedily, in worlds it has not seen."""
    env = PixelPoints(worlds, seed=seed)
    batch = env.reset()
    while not env.world_done.all():
        batch = env.step(policy.act(batch, greedy=True))
    return env.state["won"].float().mean().item()
