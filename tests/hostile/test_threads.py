"""Threads that share a value function get the numbers of one alone."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import manifold_shap as ms
from tests.examples import VALUES

THREADS = 8


@pytest.mark.parametrize("name", ["surrogate", "grouped", "imputed, nested", "retrained"])
def test_threads_share_a_value_function(name: str) -> None:
    value, x, *_ = VALUES[name]()

    def part(seed: int) -> torch.Tensor:
        found = ms.permutation_shapley(value, x + seed, permutations=8, seed=seed)
        return torch.cat((found.phi, found.standard_error), dim=1)

    alone = [part(seed) for seed in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        for found, expected in zip(pool.map(part, range(THREADS)), alone, strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
