"""Perturbs what agents observe and do: noise, dropout, spells of blindness and of braking.

All is drawn from the counters, so a world alone is perturbed as it is among many.
"""

import math
from dataclasses import dataclass
from enum import IntEnum

import torch

from ..config import SimConfig
from ..layout import Stream, WorldCol
from ..observation import COLUMNS, PartnerObs
from ..observation_buffers import Leaf, ObservationBuffers
from ..runtime import ti
from .observe_rows import begin
from .random import key_agent, key_world, uniform

ROWS_MAX = 1024
"""Room for the rows of a leaf in the numbering of draws."""
DROPPED = (Leaf.PARTNERS, Leaf.LANES, Leaf.EDGES, Leaf.LIGHTS)
MASKS = (Leaf.PARTNERS_MASK, Leaf.LANES_MASK, Leaf.EDGES_MASK, Leaf.LIGHTS_MASK)
NOISY = {PartnerObs.X: 0, PartnerObs.Y: 0, PartnerObs.SPEED: 1, PartnerObs.VX: 1, PartnerObs.VY: 1}
"""Columns of `partners` with noise: of a place (0) or of a speed (1)."""
NOISY_COLUMNS = tuple(int(c) for c in NOISY)
NUM_NOISY = len(NOISY)
NOISE_DRAWS = len(DROPPED) * ROWS_MAX
"""The draws of noise come after those of dropout."""


class PerturbCol(IntEnum):
    """Places in `Perturbation.values`."""

    BLIND = 0
    BRAKE = 1
    SPELL = 2  # in steps
    EPISODE = 3  # the latest step at which a spell begins, plus one
    DROPOUT = 4  # of DROPPED
    NOISE = 8  # standard deviation of each of NOISY, in the units of its column


@dataclass(frozen=True)
class Perturbation:
    """What the kernels need of a configuration, packed as f32 in the order of `PerturbCol`."""

    values: torch.Tensor

    @classmethod
    def from_config(cls, config: SimConfig, device: torch.device | str) -> "Perturbation":
        """Pack `config` for kernels on `device`."""
        p = config.perturb
        # an episode without a limit has its spells in the first minute
        steps = min(config.time_limit_s, 60.0) / config.dt_s
        spell = math.ceil(p.spell_s / config.dt_s - 1e-6)
        values = [p.blind, p.phantom_brake, spell, max(math.ceil(steps - 1e-6) - spell, 1)]
        values += [p.dropout_partners, p.dropout_lanes, p.dropout_edges, p.dropout_lights]
        scales = [scale for _, scale, _ in COLUMNS["partners"].values()]
        values += [(p.noise_m, p.noise_mps)[kind] / scales[column] for column, kind in NOISY.items()]
        return cls(torch.tensor(values, dtype=torch.float32, device=device))


@ti.func
def in_spell(params: ti.template(), world: ti.template(), w: ti.i32, a: ti.i32, seed: ti.i32, kind: ti.i32) -> ti.i32:
    """1 if an agent's spell of blindness (kind 0) or braking (1) is on: one in an episode at most, anywhere in it."""
    key = key_world(seed, world[w, WorldCol.ID], world[w, WorldCol.EPISODE], 0)
    key = key_agent(key, a, Stream.SPELLS)
    first = ti.cast(uniform(key, 2 * kind + 1) * params[PerturbCol.EPISODE], ti.i32)
    step = world[w, WorldCol.STEP]
    drawn = uniform(key, 2 * kind) < params[PerturbCol.BLIND + kind]
    return ti.cast(drawn and step >= first and step < first + ti.cast(params[PerturbCol.SPELL], ti.i32), ti.i32)


@ti.func
def normal(key: ti.u32, index: ti.i32) -> ti.f32:
    """A standard normal number from two uniform ones (Box and Muller 1958)."""
    return ti.sqrt(-2.0 * ti.log(1.0 - uniform(key, index))) * ti.cos(2.0 * math.pi * uniform(key, index + 1))


@ti.kernel
def _perturb(
    slots: ti.types.ndarray(ti.i32, 3),
    world: ti.types.ndarray(ti.i32, 2),
    worlds: ti.types.ndarray(ti.u8, 1),
    floats: ti.types.ndarray(ti.f32, 1),
    bytes_: ti.types.ndarray(ti.u8, 1),
    offsets: ti.types.ndarray(ti.i32, 1),
    params: ti.types.ndarray(ti.f32, 1),
    seed: ti.i32,
):
    for n in range(slots.shape[0] * slots.shape[1]):
        w = n // slots.shape[1]
        a = n % slots.shape[1]
        if worlds[w] != 0:
            blind = in_spell(params, world, w, a, seed, 0)
            perturbed = (blind | in_spell(params, world, w, a, seed, 1)) & ti.cast(
                bytes_[begin(offsets, Leaf.LIVE, n)], ti.i32
            )
            bytes_[begin(offsets, Leaf.PERTURBED, n)] = ti.cast(perturbed, ti.u8)
            key = key_world(seed, world[w, WorldCol.ID], world[w, WorldCol.EPISODE], world[w, WorldCol.STEP])
            key = key_agent(key, a, Stream.NOISE)
            for k in ti.static(range(len(DROPPED))):
                mask = begin(offsets, MASKS[k], n)
                rows = offsets[2 * MASKS[k] + 1]
                columns = offsets[2 * DROPPED[k] + 1] // rows
                for r in range(rows):
                    gone = uniform(key, k * ROWS_MAX + r) < params[PerturbCol.DROPOUT + k]
                    if ti.static(k == 0):
                        gone = gone or blind == 1
                    if bytes_[mask + r] != 0:
                        o = begin(offsets, DROPPED[k], n) + columns * r
                        if gone:
                            bytes_[mask + r] = ti.u8(0)
                            for c in range(columns):
                                floats[o + c] = 0.0
                        elif ti.static(k == 0):
                            for c in ti.static(range(len(NOISY_COLUMNS))):
                                error = normal(key, NOISE_DRAWS + 2 * (NUM_NOISY * r + c))
                                place = o + NOISY_COLUMNS[c]
                                floats[place] = floats[place] + params[PerturbCol.NOISE + c] * error


@ti.kernel
def _phantoms(
    world: ti.types.ndarray(ti.i32, 2),
    brakes: ti.types.ndarray(ti.u8, 2),
    params: ti.types.ndarray(ti.f32, 1),
    seed: ti.i32,
):
    for w, a in brakes:
        brakes[w, a] = ti.cast(in_spell(params, world, w, a, seed, 1), ti.u8)


def perturb(
    buffers: ObservationBuffers,
    slots: torch.Tensor,
    world: torch.Tensor,
    mask: torch.Tensor,
    perturbation: Perturbation,
    seed: int,
) -> None:
    """Change the observations of the masked worlds in place, and set `perturbed`.

    Args:
        buffers: as `observe` has just filled them.
        slots: i32 [W, A, ..].
        world: i32 [W, ..].
        mask: u8 [W].
        perturbation: of the same configuration.
        seed: non-negative.
    """
    _perturb(
        slots.contiguous(),
        world.contiguous(),
        mask,
        buffers.floats,
        buffers.bytes,
        buffers.offsets,
        perturbation.values,
        seed,
    )


def brake_phantoms(action: torch.Tensor, world: torch.Tensor, perturbation: Perturbation, seed: int) -> torch.Tensor:
    """The actions with full braking, straight on, in the slots that brake for no reason now.

    Args:
        action: int64 [W, A] or f32 [W, A, 2].
        world: i32 [W, ..], before the step.
        perturbation: of the simulator's configuration.
        seed: non-negative.
    """
    brakes = torch.empty(action.shape[:2], dtype=torch.uint8, device=action.device)
    _phantoms(world, brakes, perturbation.values, seed)
    now = brakes.bool()
    if action.dim() == 2:
        return torch.where(now, 1, action)  # full braking, no lateral jerk
    return torch.where(now.unsqueeze(-1), action.new_tensor([-1.0, 0.0]), action)
