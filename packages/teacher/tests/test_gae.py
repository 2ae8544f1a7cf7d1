import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from terapixel_teacher import gae


def column(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype).unsqueeze(1)


def test_hand_computed():
    # gamma 0.5, lam 0.5; errors 1 + .5*4 - 2 = 1, 2 + .5*6 - 4 = 1, 3 + .5*8 - 6 = 1
    no = column(False, False, False, dtype=torch.bool)
    advantage = gae(column(1, 2, 3), column(2, 4, 6), column(4, 6, 8), no, no, gamma=0.5, lam=0.5)
    torch.testing.assert_close(advantage, column(1 + 0.25 * 1.25, 1.25, 1.0))


def test_terminated_cuts_bootstrap_and_recursion():
    end = column(False, True, False, dtype=torch.bool)
    advantage = gae(column(1, 2, 3), column(2, 4, 6), column(4, 6, 8), end, end, gamma=0.5, lam=0.5)
    # the middle error is 2 - 4 = -2 and takes nothing from what follows
    torch.testing.assert_close(advantage, column(1 - 0.25 * 2, -2.0, 1.0))


def test_truncated_keeps_bootstrap_and_cuts_recursion():
    no, end = column(False, False, False, dtype=torch.bool), column(False, True, False, dtype=torch.bool)
    advantage = gae(column(1, 2, 3), column(2, 4, 6), column(4, 6, 8), no, end, gamma=0.5, lam=0.5)
    torch.testing.assert_close(advantage, column(1 + 0.25 * 1, 1.0, 1.0))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0, 1), st.floats(0, 1))
def test_equals_the_sum_of_discounted_errors(seed, gamma, lam):
    generator = torch.Generator().manual_seed(seed)
    reward, value, following = torch.randn(3, 6, 2, generator=generator, dtype=torch.float64)
    terminated, truncated = torch.rand(2, 6, 2, generator=generator) < 0.25
    done = terminated | truncated
    got = gae(reward, value, following, terminated, done, gamma=gamma, lam=lam)
    error = reward + gamma * following * ~terminated - value
    for n in range(2):
        for t in range(6):
            total, weight = 0.0, 1.0
            for k in range(t, 6):
                total += weight * error[k, n].item()
                if done[k, n]:
                    break
                weight *= gamma * lam
            assert got[t, n].item() == pytest.approx(total, abs=1e-9)


def test_lambda_one_is_the_return_less_the_value():
    no = torch.zeros(4, 1, dtype=torch.bool)
    reward, value = torch.arange(4.0).unsqueeze(1), torch.randn(5, 1)
    advantage = gae(reward, value[:-1], value[1:], no, no, gamma=0.9, lam=1.0)
    full = sum(0.9**k * k for k in range(4)) + 0.9**4 * value[4, 0]
    torch.testing.assert_close(advantage[0, 0] + value[0, 0], full)


def test_shapes_must_agree():
    no = torch.zeros(4, 2, dtype=torch.bool)
    with pytest.raises(ValueError, match="value: expected the reward's shape"):
        gae(torch.zeros(4, 2), torch.zeros(4, 2, 1), torch.zeros(4, 2), no, no, gamma=1.0, lam=1.0)
