"""Where agents' rows lie in the state, which kernels get flat: an index of several dimensions costs more than it holds."""

from enum import IntEnum

from ..runtime import ti


class At(IntEnum):
    """Some agents of one world, one after another."""

    FIRST = 0  # number of the first of them among all agents of all worlds
    COUNT = 1  # how many they are
    COLUMNS = 2  # of `agents`
    SLOT_COLUMNS = 3  # of `slots`


some_agents = ti.types.vector(len(At), ti.i32)


@ti.func
def row_of(at: some_agents, k: ti.i32) -> ti.i32:
    """Where the row of the k-th of them begins in `agents`."""
    return (at[At.FIRST] + k) * at[At.COLUMNS]


@ti.func
def slot_of(at: some_agents, k: ti.i32) -> ti.i32:
    """Where the row of the k-th of them begins in `slots`."""
    return (at[At.FIRST] + k) * at[At.SLOT_COLUMNS]


@ti.func
def rest_of(at: some_agents, k: ti.i32) -> some_agents:
    """Those from the k-th on."""
    return some_agents(at[At.FIRST] + k, at[At.COUNT] - k, at[At.COLUMNS], at[At.SLOT_COLUMNS])
