"""Keyed random numbers: as good as a generator's."""

import pytest
import torch
from scipy import stats
from torch import Tensor

from manifold_shap import _random as noise

COUNT = 20_000


def correlation(a: Tensor, b: Tensor) -> float:
    return torch.corrcoef(torch.stack((a.flatten(), b.flatten())))[0, 1].item()


@pytest.mark.parametrize("step", [1, -1, 2**8, 2**24, 2**32, 2**40, 2**48])
def test_neighbouring_keys_give_uniform_numbers_that_are_unrelated(step: int) -> None:
    first = noise.uniform(torch.arange(COUNT) * step, ())
    # Five standard errors of a correlation of independent numbers.
    most = 5 / COUNT**0.5
    assert stats.kstest(first.double().numpy(), "uniform").pvalue > 1e-3
    for lag in (1, 2, 3, 64):
        assert abs(correlation(first[lag:], first[:-lag])) < most
        assert abs(correlation((first[lag:] - 0.5) ** 2, (first[:-lag] - 0.5) ** 2)) < most
