"""Threads and processes that share a value function get the numbers of one alone."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.ensemble import RandomForestClassifier

import manifold_shap as ms
from tests.hostile.processes import forked

THREADS, PROCESSES = 16, 8
X = torch.randn(THREADS * 3, 4, generator=torch.Generator().manual_seed(5))


def _of_forest() -> ms.ValueFunction:
    x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)).numpy()
    forest = RandomForestClassifier(5, random_state=0).fit(x, (x.sum(1) > 0).astype(int))
    return ms.imputed_value(forest, ms.GaussianImputer(torch.tensor(x)), "probability", 8)


VALUES: dict[str, Callable[[Any], Any]] = {
    "surrogate": lambda make: make("surrogate"),
    "marginal": lambda make: make("marginal"),
    "a forest, Gaussian": lambda _: _of_forest(),
    "grouped": lambda make: make("marginal").grouped({"both": ["x0", "x1"]}),
    "a function": lambda _: lambda x, mask: (x[:, None] * mask).cumsum(-1).tanh(),
}
ESTIMATORS = {
    "exact": ms.exact_shapley,
    "permutation": partial(ms.permutation_shapley, permutations=8),
    "kernel": partial(ms.kernel_shapley, evaluations=32),
}


same = partial(torch.testing.assert_close, rtol=0, atol=0, equal_nan=True)


def explained(value: Any, estimator: Callable[..., ms.Explanation], part: int) -> torch.Tensor:
    found = estimator(value, X[3 * part : 3 * part + 3], seed=part)
    return torch.cat((found.phi, found.standard_error), dim=1)


@pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)
@pytest.mark.parametrize("kind", VALUES)
def test_sixteen_threads_share_a_value_function(
    kind: str, estimator: Callable[..., ms.Explanation], make_value: Any
) -> None:
    value = VALUES[kind](make_value)
    one = partial(explained, value, estimator)
    alone = [one(part) for part in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        for found, expected in zip(pool.map(one, range(THREADS)), alone, strict=True):
            same(found, expected)


@pytest.mark.parametrize("kind", VALUES)
def test_eight_processes_share_a_value_function(kind: str, make_value: Any, tmp_path: Path) -> None:
    value, estimator = VALUES[kind](make_value), ESTIMATORS["permutation"]

    def work(part: int) -> None:
        torch.save(explained(value, estimator, part), tmp_path / f"{part}.pt")

    children = [forked(partial(work, part), tmp_path / f"{part}.said") for part in range(PROCESSES)]
    for part, child in enumerate(children):
        assert child.wait() == 0, child.said.read_text()
        found = torch.load(tmp_path / f"{part}.pt", weights_only=True)
        same(found, explained(value, estimator, part))
