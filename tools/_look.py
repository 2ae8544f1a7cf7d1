"""Another look of the same world: colours, air and camera mounting by rendering anew, noise and blur in the image."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

from _parts import Part
from _policies import Policy, act_live
from tensordict import TensorDict
from terapixel_sim import Appearance, CameraRig


@dataclasses.dataclass(frozen=True, kw_only=True)
class NewLook:
    """How the world looks where a policy was not trained."""

    appearance: Appearance = dataclasses.field(default_factory=Appearance)
    """Palette and haze."""
    z_m: float = 0.0
    """Every camera is mounted this much higher [m], and turned by the angles below."""
    yaw_deg: float = 0.0
    pitch_deg: float = 0.0
    roll_deg: float = 0.0
    image: Part | None = None
    """Changes the images: called with a batch and a count of calls, returns a batch; `terapixel_adapt:Look` is one."""

    def __post_init__(self) -> None:
        if self.image is not None:
            self.image.check()

    def rig(self, rig: CameraRig) -> CameraRig:
        """The same cameras, mounted and coloured as here."""
        cameras = {
            name: dataclasses.replace(
                camera,
                z_m=camera.z_m + self.z_m,
                yaw_deg=camera.yaw_deg + self.yaw_deg,
                pitch_deg=camera.pitch_deg + self.pitch_deg,
                roll_deg=camera.roll_deg + self.roll_deg,
            )
            for name, camera in rig.cameras.items()
        }
        return dataclasses.replace(rig, cameras=cameras, appearance=self.appearance)

    def change(self) -> Callable[[TensorDict], TensorDict]:
        """What happens to the images after rendering, anew at each call where the look has noise."""
        if self.image is None:
            return lambda batch: batch
        look, calls = self.image.build(), itertools.count()
        return lambda batch: look(batch, next(calls))


class LookPairs:
    """Endless pairs of batches: the same moments of a policy's driving in the known look and in the new one."""

    def __init__(self, sim: Any, policy: Policy, look: NewLook, *, every_s: float = 1.0) -> None:
        """Start driving.

        Args:
            sim: A `terapixel_sim.Simulator` with cameras in the known look.
            policy: Drives, seeing only the sensors' keys in the known look.
            look: The new look.
            every_s: Time between two pairs [s].
        """
        self.sim, self.policy = sim, policy
        self.rig, self.change = look.rig(sim.cameras), look.change()
        self.steps = max(1, round(every_s / sim.dt_s))
        self.batch = sim.sensors(sim.reset())

    def next_pair(self) -> tuple[TensorDict, TensorDict]:
        """(known look, new look), both of the agents that are live, batch size [N]."""
        for _ in range(self.steps):
            self.batch = self.sim.sensors(self.sim.step(act_live(self.policy, self.batch, greedy=True)))
            if bool(self.sim.world_done.any()):
                self.batch = self.sim.sensors(self.sim.reset(self.sim.world_done))
        live = self.batch["live"]
        other = self.batch.copy()
        other["camera"] = self.sim.render(self.sim.state, self.rig)["camera"]
        return self.batch[live], self.change(other[live])
