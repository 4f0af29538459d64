"""Threads that share a value function get the numbers of one alone."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import torch
from sklearn.ensemble import RandomForestClassifier

import manifold_shap as ms

THREADS = 8
X = torch.randn(THREADS * 3, 4, generator=torch.Generator().manual_seed(5))


def of_forest() -> ms.ValueFunction:
    x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)).numpy()
    forest = RandomForestClassifier(5, random_state=0).fit(x, (x.sum(1) > 0).astype(int))
    return ms.imputed_value(forest, ms.imputers.GaussianImputer(torch.tensor(x)), "probability", 8)


@pytest.mark.parametrize("kind", ["surrogate", "grouped", "a forest, Gaussian"])
def test_threads_share_a_value_function(kind: str, make_value: Any) -> None:
    if kind == "grouped":
        value = make_value("marginal").grouped({"both": ["x0", "x1"]})
    else:
        value = make_value(kind) if kind == "surrogate" else of_forest()
    explain = partial(ms.permutation_shapley, value, permutations=8)

    def part(number: int) -> torch.Tensor:
        found = explain(X[3 * number : 3 * number + 3], seed=number)
        return torch.cat((found.phi, found.standard_error), dim=1)

    alone = [part(number) for number in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        for found, expected in zip(pool.map(part, range(THREADS)), alone, strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
