"""Keyed random numbers: functions of a key and a position, and as good as a generator's."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from manifold_shap import _random as noise

COUNT = 20_000
INTEGERS = st.integers(-(2**63), 2**63 - 1)


def correlation(a: Tensor, b: Tensor) -> float:
    return torch.corrcoef(torch.stack((a.flatten(), b.flatten())))[0, 1].item()


@given(INTEGERS, INTEGERS, st.integers(0, 1000), st.integers(1, 30))
def test_numbers_depend_on_the_key_and_the_draw_alone(
    key: int, other: int, first: int, count: int
) -> None:
    alone = noise.uniform(torch.tensor([key]), (3,), range(first + count))[0, first:]
    keys = torch.tensor([[other, key], [key, 0]])
    among = noise.uniform(keys, (3,), range(first, first + count))
    assert among.shape == (2, 2, count, 3)
    assert torch.equal(among[0, 1], alone)
    assert torch.equal(among[1, 0], alone)
    assert torch.equal(among[0, 0], alone) == (key == other)


@pytest.mark.parametrize("step", [1, -1, 2**8, 2**24, 2**32, 2**40, 2**48])
def test_neighbouring_keys_give_uniform_numbers_that_are_unrelated(step: int) -> None:
    first = noise.uniform(torch.arange(COUNT) * step, ())
    # Five standard errors of a correlation of independent numbers.
    most = 5 / COUNT**0.5
    assert stats.kstest(first.double().numpy(), "uniform").pvalue > 1e-3
    for lag in (1, 2, 3, 64):
        assert abs(correlation(first[lag:], first[:-lag])) < most
        assert abs(correlation((first[lag:] - 0.5) ** 2, (first[:-lag] - 0.5) ** 2)) < most
