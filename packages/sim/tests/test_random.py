import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from terapixel_sim.kernels import random as kernel
from terapixel_sim.layout import Stream
from terapixel_sim.reference import random as twin
from terapixel_sim.runtime import start, ti

counter = st.integers(0, 2**31 - 1)


@pytest.fixture(scope="module", autouse=True)
def _taichi():
    start("cpu")


@ti.kernel
def _draw(keys: ti.types.ndarray(ti.i32, 1), out: ti.types.ndarray(ti.f32, 1)):
    for _ in range(1):
        key = kernel.key_world(keys[0], keys[1], keys[2], keys[3])
        key = kernel.key_agent(key, keys[4], keys[5])
        for k in range(out.shape[0]):
            out[k] = kernel.uniform(key, keys[6] + k)


@settings(deadline=None)  # the first example compiles the kernel
@given(st.tuples(counter, counter, counter, counter, st.integers(0, 255), st.integers(0, 7), st.integers(0, 1000)))
def test_kernel_and_twin_draw_exactly_the_same_numbers(keys):
    out = torch.zeros(4)
    _draw(torch.tensor(keys, dtype=torch.int32), out)
    key = twin.key_agent(twin.key_world(*keys[:4]), *keys[4:6])
    assert out.tolist() == [twin.uniform(key, keys[6] + k) for k in range(4)]
    assert ((out >= 0) & (out < 1)).all()


def test_numbers_are_uniform_and_neighbouring_counters_independent():
    u = np.array(
        [
            [
                twin.uniform(twin.key_agent(twin.key_world(1, world, 0, 0), agent, Stream.SPAWN), 0)
                for agent in range(32)
            ]
            for world in range(128)
        ]
    )
    counts = np.histogram(u, 16, (0, 1))[0]
    expected = u.size / 16
    assert ((counts - expected) ** 2 / expected).sum() < 37.7  # 99.9 % quantile, 15 degrees of freedom
    for a, b in ((u[1:], u[:-1]), (u[:, 1:], u[:, :-1])):
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 4 / np.sqrt(a.size)


@pytest.mark.parametrize("place", range(6))
def test_each_counter_changes_the_stream(place):
    keys = [3, 5, 7, 11, 13, 2]
    other = list(keys)
    other[place] += 1
    first, second = (twin.key_agent(twin.key_world(*k[:4]), *k[4:]) for k in (keys, other))
    assert first != second
