"""A value function with as many draws as the imputer has donors is exact. Intervals of Shapley
values by the default draws are to hold the exact ones: over rows, players, outputs and seeds. The
tables are categories that go together, abalone and bike; the model has two smooth outputs of random
directions.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

import manifold_shap as ms
from benchmarks import draw
from benchmarks.report import Figures, Found, number, spread
from benchmarks.truth.shared_error import LEVEL, share_held
from manifold_shap.data import load
from manifold_shap.tables.rows import elements_of, encoded

TITLE = "Coverage of intervals with draws of donors"
CAPTION = "coverage of 95 % intervals"
QUICK = {"tables": ["categories"], "rows": 4, "seeds": 2}


def run(
    tables: Sequence[str] = ("categories", "abalone", "bike"),
    rows: int = 20,  # explained
    donors: int = 1000,  # of abalone and bike
    seeds: int = 10,  # of draws and coalitions
) -> dict[str, Any]:
    """Coverage by table, imputer, estimator."""
    found = {}
    for table in tables:
        reference, x, players = data_of(table, rows, donors)
        model = model_of(reference)
        for name, imputer in imputers_of(table, reference, players).items():
            value = ms.imputed_value(model, imputer, "identity")
            every = ms.imputed_value(model, imputer, "identity", draws=len(reference))
            truth = ms.exact_shapley(every, x).phi.double()
            for estimator, explain in estimators_of(len(value.players)).items():
                held = []
                for value.seed in range(seeds):
                    held.append(share_held(explain(value, x, seed=value.seed), truth))
                which = f"{table}, {name}, {estimator}"
                found[which] = {"coverage": spread(held, of_mean=True)}
    return {"intervals": found}


def data_of(table: str, rows: int, donors: int) -> tuple[Tensor, Tensor, ms.Players | None]:
    """Donors, the rows to explain, and players."""
    generator = torch.Generator().manual_seed(29)
    if table == "categories":
        both = torch.randn(3000, 1, generator=generator) * 0.8
        numbers = both + torch.randn(3000, 6, generator=generator)
        levels = torch.bucketize(numbers, torch.tensor([0.3, 1.2])).float()
        return levels, levels[:rows], None
    data = load(table)
    chosen = torch.randperm(len(data.x_train), generator=generator)[:donors]
    known, explained = (encoded(x, data.table) for x in (data.x_train[chosen], data.x_test[:rows]))
    return known, explained, elements_of(data.players, data.table)


def model_of(reference: Tensor) -> Callable[[Tensor], Tensor]:
    """Two sums of smooth functions of random directions."""
    generator = torch.Generator().manual_seed(0)
    mean, scale = reference.mean(0), reference.std(0).clamp(min=1e-6)
    directions = torch.randn(reference.shape[1], 8, generator=generator)
    weight = torch.randn(8, 2, generator=generator)
    return lambda x: ((x - mean) / scale @ directions).tanh() @ weight


def imputers_of(
    table: str, reference: Tensor, players: ms.Players | None
) -> dict[str, ms.imputers.Imputer]:
    off = {"marginal": ms.imputers.MarginalImputer(reference, players)}
    if table == "categories":
        return {"exact match": ms.imputers.ExactMatchImputer(reference, players), **off}
    empirical = partial(ms.imputers.EmpiricalImputer, reference, players)
    return {"empirical": empirical(), "empirical by AICc": empirical(bandwidth="aicc"), **off}


def estimators_of(players: int) -> dict[str, Callable[..., ms.Explanation]]:
    every = 2**players - 2
    return {
        "auto": ms.auto_shapley,
        "exact, each four times": partial(ms.exact_shapley, evaluations=4 * every),
        "permutation": partial(ms.permutation_shapley, permutations=64),
        "kernel": partial(ms.kernel_shapley, evaluations=every // 3 * 2),
        "odd": partial(ms.odd_shapley, evaluations=every // 3 * 2),
    }


def figures(found: Found) -> Figures:
    panels: dict[str, Any] = {}
    for which, one in found["intervals"].items():
        table, imputer, estimator = which.split(", ", 2)
        panels.setdefault(estimator, {})[f"{table}, {imputer}"] = one["coverage"]
    return {"": draw.dots({"coverage of 95 % intervals": panels}, "", line=LEVEL)}


def summary(found: Found) -> dict[str, Any]:
    """The least and the most coverage by estimator."""
    by: dict[str, list[float]] = {}
    for which, one in found["intervals"].items():
        by.setdefault(which.split(", ", 2)[2], []).append(one["coverage"][0])
    return {
        estimator: f"{number(min(some))} to {number(max(some))}" for estimator, some in by.items()
    }
