"""Counter-based random numbers: the same (seed, world, episode, step, agent, stream, index) always gives the same number.

The mixer is the PCG output function of Jarzynski and Olano 2020 ("Hash Functions for GPU Rendering", listing for pcg), applied
once a key. Its twin is `reference/random.py`.
"""

from ..runtime import ti


@ti.func
def pcg(value: ti.u32) -> ti.u32:
    state = value * ti.u32(747796405) + ti.u32(2891336453)
    shift = ti.bit_shr(state, ti.u32(28)) + ti.u32(4)
    word = (ti.bit_shr(state, shift) ^ state) * ti.u32(277803737)
    return ti.bit_shr(word, ti.u32(22)) ^ word


@ti.func
def key_world(seed: ti.i32, world: ti.i32, episode: ti.i32, step: ti.i32) -> ti.u32:
    """Key of a world at a step; `seed` .. `step` are non-negative."""
    h = pcg(ti.cast(seed, ti.u32))
    h = pcg(h ^ ti.cast(world, ti.u32))
    h = pcg(h ^ ti.cast(episode, ti.u32))
    return pcg(h ^ ti.cast(step, ti.u32))


@ti.func
def key_agent(world_key: ti.u32, agent: ti.i32, stream: ti.i32) -> ti.u32:
    """Key of one agent's stream."""
    return pcg(pcg(world_key ^ ti.cast(agent, ti.u32)) ^ ti.cast(stream, ti.u32))


@ti.func
def uniform(key: ti.u32, index: ti.i32) -> ti.f32:
    """The index-th number of a stream, in [0, 1), a multiple of 2^-24."""
    return ti.cast(ti.bit_shr(pcg(key ^ ti.cast(index, ti.u32)), ti.u32(8)), ti.f32) * ti.f32(1.0 / 16777216.0)
