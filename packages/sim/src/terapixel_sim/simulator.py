"""The simulator: owns the packed tensors and says in which order the kernels run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import torch
from tensordict import TensorDict
from torch import Tensor

from . import runtime
from .camera import CameraRig
from .config import SimConfig
from .ground import Ground, build_ground
from .kernels.dynamics import JERK_BRAKE, JERK_STEP
from .kernels.idm import idm
from .kernels.observe import ObserveParams, observe
from .kernels.perturb import Perturbation, brake_phantoms, perturb
from .kernels.spawn import SpawnParams
from .kernels.spawn import reset as spawn
from .kernels.step import StepParams, step
from .layout import AgentCol, Condition, SlotCol, WorldCol
from .maps.bank import MapBank, build_bank
from .maps.road_map import RoadMap
from .maps.sources import load_map
from .observation import sensors
from .observation_buffers import ObservationBuffers
from .renderer import Renderer

INTERFACE = 1
NUM_ACTIONS = 12
WHEELBASE = 0.6
"""Wheelbase as a share of the box length."""


class Simulator:
    """`num_worlds` independent road worlds with `num_agents` cars each, stepped in lockstep on one device.

    Batches, frames and keys are those of docs/interface.md. Everything random comes from counters (seed, world id, episode,
    step, agent, stream), so a world behaves the same alone as among many, and the same seed gives the same run.
    """

    interface = INTERFACE

    def __init__(
        self,
        config: SimConfig,
        maps: Sequence[RoadMap | str | Path],
        *,
        num_worlds: int,
        num_agents: int,
        cameras: CameraRig | None = None,
        device: str = "cpu",
        seed: int = 0,
        first_world: int = 0,
    ) -> None:
        """Build the maps' tables and allocate the state; call `reset()` next.

        Args:
            config: What the worlds are like.
            maps: Road maps, or what `load_map` accepts; world i uses map (i + episode) mod len(maps).
            num_worlds: W.
            num_agents: A, in every world.
            cameras: What to render for every agent at every reset and step; None renders nothing.
            device: cpu or cuda.
            seed: Of all random streams.
            first_world: Number of the first world; ranks that share a seed use disjoint numbers.

        Raises:
            ValueError: A size out of range, `maps` is no list or empty, or a map with room for fewer than `num_agents`.
            RuntimeError: No GPU for `device="cuda"`.
        """
        for name, value, low in (
            ("num_worlds", num_worlds, 1),
            ("num_agents", num_agents, 1),
            ("seed", seed, 0),
            ("first_world", first_world, 0),
        ):
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value < 2**31:
                raise ValueError(f"{name}: expected an integer from {low} to 2147483647, got {value!r}")
        if isinstance(maps, (str, Path, RoadMap)) or not maps:
            raise ValueError(f"maps: expected a list of at least one map, got {maps!r:.80}")
        runtime.start(device)
        bank = build_bank([m if isinstance(m, RoadMap) else load_map(m) for m in maps], config, device)
        for road_map, capacity in zip(bank.maps, bank.capacity, strict=True):
            if num_agents > capacity:
                raise ValueError(f"num_agents: map {road_map.name} holds at most {capacity} agents, got {num_agents}")
        self._allocate(config, bank, None, num_worlds, num_agents, cameras, device, seed, first_world)

    def _allocate(
        self,
        config: SimConfig,
        bank: MapBank,
        ground: Ground | None,
        num_worlds: int,
        num_agents: int,
        cameras: CameraRig | None,
        device: str,
        seed: int,
        first_world: int,
    ) -> None:
        self.config, self.num_worlds, self.num_agents = config, num_worlds, num_agents
        self.cameras, self.device, self.seed, self.first_world = cameras, torch.device(device), seed, first_world
        self._bank, self._ground = bank, ground
        entries = config.route.entries
        floats, ints = AgentCol.ROUTE + 3 * entries, SlotCol.ROUTE + 2 * entries
        if num_worlds * num_agents * floats >= 2**31:
            raise ValueError(
                f"num_worlds: {num_worlds} x {num_agents} agents need more than 2^31 state elements; use fewer"
            )
        self._agents = torch.zeros(num_worlds, num_agents, floats, device=device)
        self._slots = torch.zeros(num_worlds, num_agents, ints, dtype=torch.int32, device=device)
        self._world = torch.zeros(num_worlds, len(WorldCol), dtype=torch.int32, device=device)
        self._world[:, WorldCol.ID] = torch.arange(first_world, first_world + num_worlds, dtype=torch.int32)
        self._world[:, WorldCol.EPISODE] = -1
        self._world[:, WorldCol.DONE] = 1
        self._all_worlds = torch.ones(num_worlds, dtype=torch.uint8, device=device)
        self._spawn_params = SpawnParams.from_config(config, device)
        self._step_params = StepParams.from_config(config, device, seed)
        self._perturbation = Perturbation.from_config(config, device) if config.perturb.active else None
        self._observe_params = ObserveParams.from_config(config, device)
        self._renderers: list[Renderer] = []
        self._images: list[dict[str, Tensor]] = [{}, {}]
        if cameras is not None:
            renderer = self._renderer(cameras)
            self._images = [renderer.allocate(num_worlds, num_agents) for _ in range(2)]
        self._buffers = [self._new_buffers(num_worlds) for _ in range(2)]
        self._scratch: ObservationBuffers | None = None
        self._current = 0
        self._started = False

    # -- the environment ---------------------------------------------------------------------------------------------

    def reset(self, mask: Tensor | None = None, *, condition: Tensor | None = None) -> TensorDict:
        """Restart the worlds where `mask` is true; the leaves of the others stay bitwise equal.

        Args:
            mask: bool [W]; None restarts all.
            condition: f32 [W, A, 18] in [-1, 1], the conditioning of the restarted agents as the policy sees it; NaN, or
                None for all, draws from the configured ranges.

        Returns:
            Batch [W, A], borrowed until the next-but-one call.

        Raises:
            ValueError: `mask` or `condition` has another shape or type, or lies out of range.
            RuntimeError: The first reset has a mask.
        """
        shape = (self.num_worlds, self.num_agents, len(Condition))
        if condition is None:
            condition = torch.full(shape, float("nan"), device=self.device)
        else:
            self._check("condition", condition, torch.float32, shape)
            if bool((condition.abs() > 1).any()):
                raise ValueError("condition: expected values in [-1, 1] or NaN")
        if mask is None:
            chosen = self._all_worlds
        else:
            self._check("mask", mask, torch.bool, (self.num_worlds,))
            if not self._started:
                raise RuntimeError("reset: the first reset must restart all worlds (mask=None)")
            chosen = mask.to(torch.uint8)
        self._turn(keep=mask is not None)
        spawn(
            self._agents, self._slots, self._world, chosen, condition.contiguous(), self._bank.ints, self._bank.floats,
            self._spawn_params, self.seed,
        )  # fmt: skip
        self._started = True
        self._look(chosen)
        return self._batch(stepped=False)

    def step(self, action: Tensor) -> TensorDict:
        """Advance every world by `config.dt_s`. Never resets; a world that is done stays as it is.

        Args:
            action: int64 [W, A] in 0..11 (`action: jerk`) or f32 [W, A, 2] in [-1, 1] (`jerk_continuous`).

        Returns:
            Batch [W, A] at t + dt with `reward`, `terminated` and `truncated`, borrowed until the next-but-one call.

        Raises:
            ValueError: Another shape or type, or a value out of range on a live slot.
            RuntimeError: Called before `reset`.
        """
        if not self._started:
            raise RuntimeError("step: call reset() first")
        self._check_action(action)
        action = action.contiguous()
        if self._perturbation is not None and self.config.perturb.phantom_brake > 0:
            action = brake_phantoms(action, self._world, self._perturbation, self.seed)
        self._turn(keep=False)
        out = self._buffers[self._current]
        step(
            self._agents, self._slots, self._world, self._bank.ints, self._bank.floats, action,
            out.reward, out.terminated, out.truncated, self._step_params,
        )  # fmt: skip
        self._look(self._all_worlds)
        return self._batch(stepped=True)

    @property
    def world_done(self) -> Tensor:
        """Worlds whose episode is over, bool [W]."""
        return self._world[:, WorldCol.DONE] != 0

    @staticmethod
    def sensors(batch: TensorDict) -> TensorDict:
        """The keys that a student may see: nothing privileged."""
        return sensors(batch)

    # -- states ------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> TensorDict:
        """Everything mutable: `agents`, `slots`, `world` (see `layout`), batch size [W]. Live tensors: clone to keep."""
        return TensorDict(
            {"agents": self._agents, "slots": self._slots, "world": self._world}, batch_size=[self.num_worlds]
        )

    def load_state(self, state: TensorDict) -> None:
        """Go on from `state`, a copy of which is taken.

        Raises:
            ValueError: A leaf is missing or has another shape.
        """
        self._check_state(state, self.num_worlds)
        for name, own in self.state.items():
            own.copy_(state[name])
        self._started = True

    def fork(
        self,
        num_worlds: int | None = None,
        cameras: CameraRig | None = None,
        time_limit: float | None = None,
        early_reset: bool = False,
    ) -> Simulator:
        """Make a second simulator on the same maps; running it leaves this one bitwise unchanged.

        Args:
            num_worlds: Its W; it is then empty until `load_state`. None starts as a copy of the current state.
            cameras: What it renders; None is nothing.
            time_limit: Episode limit [s]; None is no limit.
            early_reset: Whether worlds end early as configured, or only when nobody is live.
        """
        config = dataclasses.replace(
            self.config,
            time_limit_s=1e6 if time_limit is None else time_limit,
            early_reset=self.config.early_reset if early_reset else 1.0,
        )
        other = object.__new__(type(self))
        other._allocate(
            config, self._bank, self._ground, num_worlds or self.num_worlds, self.num_agents, cameras, self.device.type,
            self.seed, self.first_world,
        )  # fmt: skip
        if num_worlds is None:
            other.load_state(self.state)
        return other

    def observe(self, state: TensorDict) -> TensorDict:
        """What the agents of any number of worlds observe, without their images. Stateless; borrowed until the next call.

        Args:
            state: As `state` gives it, batch size [any].
        """
        self._check_state(state, None)
        worlds = state.batch_size[0]
        if self._scratch is None or self._scratch.num_worlds != worlds:
            self._scratch = self._new_buffers(worlds)
        everywhere = torch.ones(worlds, dtype=torch.uint8, device=self.device)
        self._observe(state["agents"], state["slots"], state["world"], everywhere, self._scratch)
        return self._scratch.batch()

    def render(self, state: TensorDict, cameras: CameraRig | None = None) -> TensorDict:
        """The images of all agents in `state`, leaves (`camera`, name). Stateless; a new batch each time.

        Args:
            state: As `state` gives it, batch size [any].
            cameras: A rig; None is the simulator's own.

        Raises:
            ValueError: No rig is given and the simulator has none.
        """
        rig = cameras if cameras is not None else self.cameras
        if rig is None:
            raise ValueError("cameras: this simulator has no rig of its own; name one")
        self._check_state(state, None)
        renderer = self._renderer(rig)
        images = renderer.allocate(state.batch_size[0], self.num_agents)
        renderer.render(state["agents"], state["slots"], state["world"], images)
        return TensorDict({"camera": images}, batch_size=[state.batch_size[0], self.num_agents])

    def rear_axle(self) -> Tensor:
        """Pose of every agent's rear axle in the world frame: x, y [m], yaw [rad], f32 [W, A, 3]."""
        back = (0.5 * WHEELBASE) * self._agents[..., AgentCol.LENGTH]
        yaw = self._agents[..., AgentCol.YAW]
        x = self._agents[..., AgentCol.X] - back * yaw.cos()
        y = self._agents[..., AgentCol.Y] - back * yaw.sin()
        return torch.stack([x, y, yaw], dim=-1)

    def idm_action(self) -> Tensor:
        """What a driver of rules would do now in every live slot, see `kernels/idm.py`: an action for `step`.

        Actions of the jerk table are the entries nearest to what it wants.
        """
        wanted = idm(self._agents, self._slots, self._world, self._bank.ints, self._bank.floats, self.seed)
        if self.config.action == "jerk_continuous":
            return wanted
        table = wanted.new_tensor([[-1.0, -JERK_STEP / JERK_BRAKE, 0.0, 1.0], [-1.0, 0.0, 1.0, torch.inf]])
        nearest = (wanted.unsqueeze(-1) - table).abs().argmin(-1)
        return 3 * nearest[..., 0] + nearest[..., 1]

    @property
    def dt_s(self) -> float:
        """Length of a step [s]."""
        return self.config.dt_s

    @property
    def maps(self) -> tuple[RoadMap, ...]:
        """The road maps, in the order of `WorldCol.MAP`."""
        return self._bank.maps

    # -- inside ------------------------------------------------------------------------------------------------------

    def _new_buffers(self, worlds: int) -> ObservationBuffers:
        return ObservationBuffers(
            worlds, self.num_agents, self.config.observation, self.config.route.num_goals, self.device
        )

    def _turn(self, *, keep: bool) -> None:
        """Switch to the other buffers, so that the last batch survives this call."""
        old = self._current
        self._current = 1 - old
        if keep:
            self._buffers[self._current].floats.copy_(self._buffers[old].floats)
            self._buffers[self._current].bytes.copy_(self._buffers[old].bytes)
            for name, image in self._images[self._current].items():
                image.copy_(self._images[old][name])

    def _look(self, mask: Tensor) -> None:
        """Observe and render the masked worlds into the current buffers."""
        self._observe(self._agents, self._slots, self._world, mask, self._buffers[self._current])
        if self.cameras is not None:
            images = self._images[self._current]
            self._renderer(self.cameras).render(self._agents, self._slots, self._world, images, mask)

    def _observe(self, agents: Tensor, slots: Tensor, world: Tensor, mask: Tensor, out: ObservationBuffers) -> None:
        observe(
            agents.contiguous(), slots.contiguous(), world.contiguous(), mask, self._bank.ints, self._bank.floats, out,
            self._observe_params, self.seed,
        )  # fmt: skip
        if self._perturbation is not None:
            perturb(out, slots, world, mask, self._perturbation, self.seed)

    def _batch(self, *, stepped: bool) -> TensorDict:
        batch = self._buffers[self._current].batch(stepped=stepped)
        if self.cameras is not None:
            batch["camera"] = TensorDict(self._images[self._current], batch_size=batch.batch_size)
        return batch

    def _renderer(self, rig: CameraRig) -> Renderer:
        for renderer in self._renderers:
            if renderer.rig == rig:
                return renderer
        if self._ground is None:
            self._ground = build_ground(self._bank.maps, self.device.type)
        self._renderers.append(Renderer(self._ground, rig, self.device.type))
        return self._renderers[-1]

    def _check(self, name: str, value: Tensor, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}: expected a tensor, got {type(value).__name__}")
        if value.dtype != dtype or tuple(value.shape) != shape or value.device.type != self.device.type:
            want = f"{str(dtype).removeprefix('torch.')} {list(shape)} on {self.device}"
            got = f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)} on {value.device}"
            raise ValueError(f"{name}: expected {want}, got {got}")

    def _check_action(self, action: Tensor) -> None:
        live = self._slots[..., SlotCol.STATUS] == 1
        if self.config.action == "jerk":
            self._check("action", action, torch.int64, (self.num_worlds, self.num_agents))
            bad, allowed = live & ((action < 0) | (action >= NUM_ACTIONS)), f"0 to {NUM_ACTIONS - 1}"
        else:
            self._check("action", action, torch.float32, (self.num_worlds, self.num_agents, 2))
            bad, allowed = live & ~(action.abs() <= 1).all(-1), "finite numbers in [-1, 1]"
        if bool(bad.any()):
            w, a = (int(i) for i in bad.nonzero()[0])
            raise ValueError(f"action[{w}, {a}]: expected {allowed}, got {action[w, a].tolist()}")

    def _check_state(self, state: TensorDict, worlds: int | None) -> None:
        for name, own in self.state.items():
            if name not in state.keys():  # noqa: SIM118 - a TensorDict has no __contains__
                raise ValueError(f"state: leaf {name!r} is missing; it has {sorted(state.keys())}")
            self._check(f"state.{name}", state[name], own.dtype, (worlds or state.batch_size[0], *own.shape[1:]))
