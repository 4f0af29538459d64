"""Keyed random numbers: functions of a key and a position, and as good as a generator's."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from manifold_shap import _random as noise

COUNT = 20_000
INTEGERS = st.integers(-(2**63), 2**63 - 1)


def distance_from_uniform(numbers: Tensor) -> float:
    """Kolmogorov-Smirnov statistic times √n: above 1.95 in one case of a thousand."""
    ordered = numbers.flatten().double().sort().values
    count = len(ordered)
    steps = torch.arange(count + 1, dtype=torch.float64) / count
    largest = torch.maximum((ordered - steps[:-1]).abs(), (ordered - steps[1:]).abs()).max()
    return largest.item() * count**0.5


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
    assert distance_from_uniform(first) < 1.95
    for lag in (1, 2, 3, 64):
        assert abs(correlation(first[lag:], first[:-lag])) < most
        assert abs(correlation((first[lag:] - 0.5) ** 2, (first[:-lag] - 0.5) ** 2)) < most


def test_normal_numbers_have_the_moments_of_a_normal_law() -> None:
    numbers = noise.normal(torch.arange(COUNT), ()).double()
    assert abs(numbers.mean()) < 5 / COUNT**0.5
    assert abs(numbers.var() - 1) < 5 * (2 / COUNT) ** 0.5
    assert abs((numbers**3).mean()) < 5 * (15 / COUNT) ** 0.5
    assert abs((numbers**4).mean() - 3) < 5 * (96 / COUNT) ** 0.5
    below = 0.5 * (1 + torch.erf(numbers / math.sqrt(2)))
    assert distance_from_uniform(below) < 1.95


@pytest.mark.gpu
def test_a_device_gives_the_same_numbers() -> None:
    keys = torch.arange(100).reshape(20, 5)
    here, there = (
        noise.uniform(noise.fold(keys.to(device), 3), (4,), range(2, 9)).cpu()
        for device in ("cpu", "cuda")
    )
    assert torch.equal(here, there)
