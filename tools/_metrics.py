"""Closed-loop evaluation: whole episodes of whole worlds, rates per agent and per kilometre, and a composite score.

The score follows nuPlan's closed-loop score in form (Caesar et al. 2021; weights as in PufferDrive 3.0). For each agent

    score = no_at_fault_collision * no_offroad * no_red_light * [progress > 0.2] * direction
            * (5 ttc + 5 progress + 4 speed + 3 lane + 2 comfort) / 19

with, over the steps in which the agent drove,

- progress: route length made good / (10 m/s * time driven), at most 1;
- direction: 1 if at most 2 m were driven against the lanes, 0.5 up to 6 m, else 0;
- ttc: 1 unless, going straight on at constant speed, it would have hit a car ahead of it within 0.95 s at some step;
- speed: 1 - mean excess over the limit / 2.23 m/s, at least 0;
- lane: 1 if it was never more than 3.4 m from its lane's centre line, 0.5 up to 5.7 m, else 0;
- comfort: share of its 10 s windows in which acceleration stayed in [-4.05, 2.4] m/s2 along and 4.89 m/s2 across, jerk
  within 4.13 m/s3 along, and yaw rate within 0.95 rad/s.

A collision is the agent's fault if it was moving and what it touched stood still or had its centre ahead. What it
touched is taken to be the car with the least gap after the step. These are approximations, not nuPlan's own.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from _geometry import about_to_hit, in_frame, separated
from _policies import Policy, act_live
from terapixel_sim import AgentCol, Event, SlotCol, Status
from torch import Tensor

REFERENCE_MPS = 10.0
MOVING_MPS = 0.1
WINDOW_S = 10.0
RATES = {
    "collision": Event.COLLISION,
    "offroad": Event.OFFROAD,
    "red_light": Event.RED_LIGHT,
    "wrong_way": Event.WRONG_WAY,
}
INFRACTIONS = Event.COLLISION | Event.OFFROAD | Event.RED_LIGHT


def evaluate(sim: Any, policy: Policy, *, num_agents_total: int, greedy: bool = True) -> dict[str, Any]:
    """Drive at least `num_agents_total` agents to the end of their worlds' episodes.

    Every world runs until it is done, so that short episodes do not count for more.

    Args:
        sim: A `terapixel_sim.Simulator`; its configuration says what an infraction leads to.
        policy: Drives every agent.
        num_agents_total: Least number of agents; whole rounds of all worlds are driven.
        greedy: Take the most likely action instead of a sample.

    Returns:
        A row of metrics.json: `success`, `completion`, `collision`, `offroad`, `red_light`, `wrong_way` and `score`,
        each {mean, low, high} with a 95 % interval clustered by world; `per_km` of the four rates; `km`, `n_agents` and
        `n_worlds`.
    """
    if num_agents_total < 1:
        raise ValueError(f"num_agents_total: expected at least 1, got {num_agents_total}")
    rounds = math.ceil(num_agents_total / (sim.num_worlds * sim.num_agents))
    episodes = [_episode(sim, policy, greedy) for _ in range(rounds)]
    return row({k: torch.cat([e[k] for e in episodes]) for k in episodes[0]})


def row(agents: dict[str, Tensor]) -> dict[str, Any]:
    """Summarise per-agent outcomes f64 [worlds, A], `nan` in slots that held nobody."""
    km = float(agents["km"].nansum())
    held = ~agents["success"].isnan()
    out: dict[str, Any] = {k: interval(v) for k, v in agents.items() if k != "km"}
    out["per_km"] = {k: float(agents[k].nansum()) / km if km > 0 else 0.0 for k in RATES}
    out.update(km=km, n_agents=int(held.sum()), n_worlds=int(held.any(1).sum()))
    return out


def interval(values: Tensor) -> dict[str, float]:
    """Mean of values in [0, 1] with a 95 % interval whose unit is the world: agents of one are not independent.

    Args:
        values: f64 [worlds, A]; `nan` does not count.

    Returns:
        mean, low and high: mean -+ 1.96 standard errors of the ratio (sum of values) / (number of agents) over worlds.
    """
    count = (~values.isnan()).sum(1).double()
    total, worlds = values.nansum(1), int((count > 0).sum())
    mean = float(total.sum() / count.sum())
    residual = total - mean * count
    error = 1.0
    if worlds > 1:
        error = 1.96 * math.sqrt(float((residual**2).sum()) * worlds / (worlds - 1)) / float(count.sum())
    return {"mean": mean, "low": max(0.0, mean - error), "high": min(1.0, mean + error)}


def _episode(sim: Any, policy: Policy, greedy: bool) -> dict[str, Tensor]:
    batch = sim.reset()
    drive = _Drive(sim)
    while not bool(sim.world_done.all()):
        drive.before()
        batch = sim.step(act_live(policy, batch, greedy))
        drive.after()
    return drive.outcomes()


class _Drive:
    """Watches the states of one round of episodes, step by step."""

    def __init__(self, sim: Any) -> None:
        self.sim = sim
        self.held = self._slots[..., SlotCol.STATUS] == Status.LIVE
        zero = torch.zeros(self.held.shape, dtype=torch.float64)
        self.time, self.excess, self.offset = zero.clone(), zero.clone(), zero.clone()
        self.close, self.fault = torch.zeros_like(self.held), torch.zeros_like(self.held)
        windows = math.ceil(sim.config.time_limit_s / WINDOW_S)
        self.driven = torch.zeros(*self.held.shape, windows, dtype=torch.bool)
        self.harsh = torch.zeros_like(self.driven)
        self.steps = 0

    @property
    def _agents(self) -> Tensor:
        agents: Tensor = self.sim.state["agents"].cpu()
        return agents

    @property
    def _slots(self) -> Tensor:
        slots: Tensor = self.sim.state["slots"].cpu()
        return slots

    def before(self) -> None:
        """Remember what a step starts from, and judge the distance kept."""
        agents, status = self._agents, self._slots[..., SlotCol.STATUS]
        self.live = status == Status.LIVE
        solid = self.live | (status == Status.STOPPED) | (status == Status.TIMED_OUT)
        self.speed = agents[..., AgentCol.SPEED].clone()
        self.accel = agents[..., AgentCol.ACCEL].clone()
        x, y, yaw = (agents[..., c] for c in (AgentCol.X, AgentCol.Y, AgentCol.YAW))
        hit = about_to_hit(x, y, yaw, self.speed, agents[..., AgentCol.LENGTH], agents[..., AgentCol.WIDTH])
        level = (agents[..., None, :, AgentCol.Z] - agents[..., :, None, AgentCol.Z]).abs() < 2.0
        moving = self.live & (self.speed.abs() > MOVING_MPS)
        self.close |= (hit & level & _ahead(x, y, yaw) & moving[:, :, None] & solid[:, None, :]).any(2)

    def after(self) -> None:
        """Judge the step that was taken."""
        agents, slots = self._agents, self._slots
        live, dt = self.live, self.sim.dt_s
        self.time += live * dt
        over = (agents[..., AgentCol.SPEED] - agents[..., AgentCol.LANE_LIMIT]).clamp(min=0)
        self.excess += live * over * dt
        self.offset = torch.where(
            live, torch.maximum(self.offset, agents[..., AgentCol.LANE_OFFSET].abs().double()), self.offset
        )
        accel = agents[..., AgentCol.ACCEL]
        harsh = (accel < -4.05) | (accel > 2.4) | (agents[..., AgentCol.LAT_ACCEL].abs() > 4.89)
        harsh |= ((accel - self.accel).abs() / dt > 4.13) | (agents[..., AgentCol.YAW_RATE].abs() > 0.95)
        window = min(int(self.steps * dt / WINDOW_S), self.driven.shape[2] - 1)
        self.driven[..., window] |= live
        self.harsh[..., window] |= live & harsh
        crashed = live & ((slots[..., SlotCol.EVENT] & int(Event.COLLISION)) != 0)
        if bool(crashed.any()):
            self.fault |= crashed & self._at_fault(agents, slots)
        self.steps += 1

    def _at_fault(self, agents: Tensor, slots: Tensor) -> Tensor:
        x, y, yaw = (agents[..., c] for c in (AgentCol.X, AgentCol.Y, AgentCol.YAW))
        gap = separated(x, y, yaw, agents[..., AgentCol.LENGTH], agents[..., AgentCol.WIDTH])
        hidden = ~(self.live | (slots[..., SlotCol.STATUS] == Status.STOPPED))
        gap = gap.masked_fill(hidden[:, None, :], math.inf)
        gap = gap.masked_fill(torch.eye(gap.shape[1], dtype=torch.bool), math.inf)
        other = gap.argmin(2)
        stood = self.speed.abs().gather(1, other) <= MOVING_MPS
        ahead = _ahead(x, y, yaw).gather(2, other[..., None])[..., 0]
        return (self.speed.abs() > MOVING_MPS) & (stood | ahead)

    def outcomes(self) -> dict[str, Tensor]:
        """Per-agent outcomes, f64 [W, A]."""
        agents, slots = self._agents.double(), self._slots
        ever = slots[..., SlotCol.EVER]
        happened = {k: ((ever & int(event)) != 0).double() for k, event in RATES.items()}
        finished = (slots[..., SlotCol.STATUS] == Status.FINISHED) & ((ever & int(INFRACTIONS)) == 0)
        made_good = agents[..., AgentCol.PROGRESS]
        completion = torch.where(
            finished, 1.0, (made_good / agents[..., AgentCol.ROUTE_LENGTH].clamp(min=1.0)).clamp(0, 1)
        )
        time = self.time.clamp(min=self.sim.dt_s)
        progress = (made_good / (REFERENCE_MPS * time)).clamp(0, 1)
        against = agents[..., AgentCol.WRONG_WAY_DRIVEN]
        speed = (1 - self.excess / time / 2.23).clamp(min=0)
        comfort = (self.driven & ~self.harsh).sum(2) / self.driven.sum(2).clamp(min=1)
        parts = 5 * (~self.close).double() + 5 * progress + 4 * speed + 3 * _steps(self.offset, 3.4, 5.7) + 2 * comfort
        gates = (~self.fault).double() * (1 - happened["offroad"]) * (1 - happened["red_light"]) * (progress > 0.2)
        score = gates * _steps(against, 2.0, 6.0) * parts / 19
        out = {"success": finished.double(), "completion": completion, **happened, "score": score}
        out["km"] = agents[..., AgentCol.DRIVEN] / 1000
        return {k: v.masked_fill(~self.held, math.nan) for k, v in out.items()}


def _ahead(x: Tensor, y: Tensor, yaw: Tensor) -> Tensor:
    """Whether the second car's centre lies ahead of the first's, bool [W, A, A]."""
    ahead, _ = in_frame(x[:, None, :] - x[:, :, None], y[:, None, :] - y[:, :, None], yaw[:, :, None])
    return ahead > 0


def _steps(value: Tensor, full: float, half: float) -> Tensor:
    return torch.where(value <= full, 1.0, torch.where(value <= half, 0.5, 0.0)).double()
