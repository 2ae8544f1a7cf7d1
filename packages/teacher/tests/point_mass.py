"""A small environment of the contract: points that accelerate towards the origin."""

import torch
from tensordict import TensorDict


def uniform(*counters):
    """Numbers in [0, 1) that depend on nothing but the counters (integers or int64 tensors)."""
    value = torch.tensor(7)
    for counter in counters:
        value = (value * 1103515245 + torch.as_tensor(counter) * 12345 + 11) % 2147483647
        value = value ^ (value >> 13)
    return (value * 48271 % 2147483647 % 16777216).float() / 16777216


class PointMass:
    interface = 1
    device = torch.device("cpu")

    def __init__(self, num_worlds=8, num_agents=3, limit=12, seed=0):
        self.num_worlds, self.num_agents, self.limit, self.seed = num_worlds, num_agents, limit, seed
        self.world, self.agent = torch.arange(num_worlds).view(-1, 1, 1), torch.arange(num_agents).view(1, -1, 1)
        lead = (num_worlds, num_agents)
        self.motion = torch.zeros(*lead, 4)
        self.live = torch.zeros(lead, dtype=torch.bool)
        self.step_count, self.episode = torch.zeros(2, num_worlds, dtype=torch.int64)
        self.finished = self.ended = 0

    @property
    def world_done(self):
        return ~self.live.any(1)

    @property
    def state(self):
        leaves = {"motion": self.motion, "live": self.live, "step": self.step_count, "episode": self.episode}
        return TensorDict(leaves, batch_size=[self.num_worlds])

    def load_state(self, state):
        for name, leaf in self.state.items():
            leaf.copy_(state[name])

    def reset(self, mask=None):
        mask = torch.ones(self.num_worlds, dtype=torch.bool) if mask is None else mask.clone()
        self.episode += mask
        self.step_count[mask] = 0
        start = uniform(self.seed, self.world, self.episode.view(-1, 1, 1), self.agent, torch.arange(4)) * 2 - 1
        self.motion[mask] = (start * torch.tensor([2.0, 2.0, 0.5, 0.5]))[mask]
        self.live[mask] = True
        return self._observe()

    def step(self, action):
        before, acting = self.motion[..., :2].norm(dim=-1), self.live.clone()
        force = torch.stack([action // 3 - 1.5, action % 3 - 1.0], -1) * 0.4
        velocity = self.motion[..., 2:] * 0.7 + force
        moved = torch.cat([self.motion[..., :2] + 0.5 * velocity, velocity], -1)
        self.motion = torch.where(acting.unsqueeze(-1), moved, self.motion)
        self.step_count += acting.any(1)
        distance = self.motion[..., :2].norm(dim=-1)
        finished, lost = acting & (distance < 0.4), acting & (distance > 4.0)
        reward = ((before - distance) * 0.5 + finished * 1.0 - lost * 1.0) * acting
        terminated = finished | lost
        truncated = acting & ~terminated & (self.step_count >= self.limit).view(-1, 1)
        self.live = acting & ~terminated & ~truncated
        self.finished += int(finished.sum())
        self.ended += int((terminated | truncated).sum())
        batch = self._observe()
        return batch.update({"reward": reward, "terminated": terminated, "truncated": truncated})

    def _observe(self):
        when = (self.seed, self.world, self.episode.view(-1, 1, 1), self.step_count.view(-1, 1, 1), self.agent)
        others = torch.stack([torch.arange(self.num_agents).roll(-i)[1:] for i in range(self.num_agents)])
        mask = self.live.unsqueeze(-1) & self.live[:, others]
        partners = (self.motion[:, others] - self.motion.unsqueeze(2)) * mask.unsqueeze(-1)
        leaves = {
            "ego": self.motion * self.live.unsqueeze(-1),
            "partners": partners,
            "partners_mask": mask,
            "draw": uniform(*when, 99 + torch.arange(2)),
            "live": self.live.clone(),
        }
        return TensorDict(leaves, batch_size=[self.num_worlds, self.num_agents])
