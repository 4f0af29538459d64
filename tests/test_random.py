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


@given(INTEGERS, st.integers(0, 1000), st.integers(1, 30), st.integers(1, 30))
def test_any_chunk_of_the_draws_gives_the_same_numbers(
    key: int, first: int, one: int, other: int
) -> None:
    keys, last = torch.tensor([key, 5]), first + one + other
    whole = noise.uniform(keys, (3,), range(first, last))
    parts = [range(first, first + one), range(first + one, last)]
    together = torch.cat([noise.uniform(keys, (3,), part) for part in parts], dim=1)
    assert torch.equal(together, whole)
    assert torch.equal(noise.uniform(keys, (3,), range(last))[:, first:], whole)


@given(INTEGERS, INTEGERS)
def test_numbers_depend_on_nothing_but_the_key(key: int, other: int) -> None:
    alone = noise.uniform(torch.tensor([key]), (4,), range(3))
    among = noise.uniform(torch.tensor([[other, key], [key, 0]]), (4,), range(3))
    assert among.shape == (2, 2, 3, 4)
    assert torch.equal(among[0, 1], alone[0])
    assert torch.equal(among[1, 0], alone[0])
    assert torch.equal(among[0, 0], alone[0]) == (key == other)


@pytest.mark.parametrize("step", [1, -1, 2**8, 2**24, 2**32, 2**40, 2**48])
def test_neighbouring_keys_give_uniform_numbers_that_are_unrelated(step: int) -> None:
    first = noise.uniform(torch.arange(COUNT) * step, ())
    # Five standard errors of a correlation of independent numbers.
    most = 5 / COUNT**0.5
    assert stats.kstest(first.double().numpy(), "uniform").pvalue > 1e-3
    for lag in (1, 2, 3, 64):
        assert abs(correlation(first[lag:], first[:-lag])) < most
        assert abs(correlation((first[lag:] - 0.5) ** 2, (first[:-lag] - 0.5) ** 2)) < most
