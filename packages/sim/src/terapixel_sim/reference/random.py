"""Twin of `kernels/random.py`; exact, since every result is an integer or a multiple of 2^-24."""

from __future__ import annotations

_MASK = 0xFFFFFFFF


def pcg(value: int) -> int:
    """Mix 32 bits (Jarzynski and Olano 2020)."""
    state = (value * 747796405 + 2891336453) & _MASK
    word = (((state >> ((state >> 28) + 4)) ^ state) * 277803737) & _MASK
    return (word >> 22) ^ word


def key_world(seed: int, world: int, episode: int, step: int) -> int:
    """Key of a world at a step."""
    h = pcg(seed)
    for value in (world, episode, step):
        h = pcg(h ^ value)
    return h


def key_agent(world_key: int, agent: int, stream: int) -> int:
    """Key of one agent's stream."""
    return pcg(pcg(world_key ^ agent) ^ stream)


def uniform(key: int, index: int) -> float:
    """The index-th number of a stream, in [0, 1)."""
    return (pcg(key ^ index) >> 8) / 16777216.0
