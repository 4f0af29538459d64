"""Each row has a product game of 14 players, whose Shapley values are known in closed form; their
mean over 200,000 other rows is the true global value. Were rows evaluated at the same coalitions,
the errors of all rows would be one error, which the scatter between rows does not show. Beside each
coverage is that of the exact values of the same rows.
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import mean
from typing import Any

import numpy as np
import torch
from torch import Tensor

import manifold_shap as ms
from benchmarks.report import Found, Table, records, spread

TITLE = "Coverage of intervals of global values where coalitions are sampled"
CAPTION = "coverage of 95 % intervals"
ERRORS = "standard errors over repetitions"
QUICK = {"rows": [60], "repetitions": 4}
PLAYERS, SCALE, LEVEL = 14, 0.002, 0.95
# Estimators with what each row may take.
RUNS: dict[str, tuple[Any, dict[str, int]]] = {
    "kernel": (ms.kernel_shapley, {}),
    "kernel, 200 evaluations": (ms.kernel_shapley, {"evaluations": 200}),
    "odd, 140 evaluations": (ms.odd_shapley, {"evaluations": 140}),
    "permutation, a pair": (ms.permutation_shapley, {"permutations": 2}),
    "auto, 140 evaluations": (ms.auto_shapley, {"evaluations": 140}),
    "auto, 60 evaluations": (ms.auto_shapley, {"evaluations": 60}),
}

OVER = {"estimators": tuple(RUNS)}


def products(x: Tensor, mask: Tensor) -> Tensor:
    """P(yes) = .5 + c (Π (1 + a_i) - 1) over the players of a coalition, with a the row."""
    yes = 0.5 + SCALE * (torch.where(mask, 1 + x[:, None], 1.0).prod(-1) - 1)
    return torch.stack((1 - yes, yes), -1)


def measure(name: str, rows: Sequence[int] = (60, 1000), repetitions: int = 60) -> dict[str, Any]:
    """Coverage of an estimator's intervals, by number of rows."""
    centre = 0.6 * torch.randn(PLAYERS, generator=torch.Generator().manual_seed(9)).double()
    truth = exact(drawn(centre, 200_000, 0)).mean(0)
    estimator, how = RUNS[name]
    found: dict[str, Any] = {}
    for count in rows:
        held, held_if_exact = [], []
        for seed in range(1, 1 + repetitions):
            x = drawn(centre, count, seed)
            value = ms.as_value_function(products, x, None, ["no", "yes"], "probability")
            explanation = estimator(value, x, outputs=["yes"], seed=seed, **how)
            values = ms.global_values(explanation, ["yes"] * count)
            held.append(share_held(values, truth))
            phi = exact(x)  # Their only error is that of rows.
            errors = phi.std(0) / len(phi) ** 0.5
            alone = replace(values, phi=phi.mean(0), standard_error=errors)
            held_if_exact.append(share_held(alone, truth))
        found[f"{count:,} rows"] = {
            "coverage": spread(held, of_mean=True),
            "with exact values": mean(held_if_exact),
        }
    return found


def share_held(values: ms.GlobalValues | ms.Explanation, truth: Tensor) -> float:
    """Of the values, those whose interval holds the truth."""
    low, high = values.interval(LEVEL)
    return ((low <= truth) & (truth <= high)).double().mean().item()


def drawn(centre: Tensor, rows: int, seed: int) -> Tensor:
    """Rows around a centre."""
    generator = torch.Generator().manual_seed(seed)
    return centre + 0.25 * torch.randn(rows, PLAYERS, generator=generator).double()


def exact(a: Tensor) -> Tensor:
    """Shapley values of the rows' games, by quadrature of a polynomial."""
    nodes, weights = map(torch.from_numpy, np.polynomial.legendre.leggauss(PLAYERS))
    factors = 1 + a[..., None] * (nodes + 1) / 2
    others = torch.stack(
        [factors[:, [j for j in range(PLAYERS) if j != i]].prod(1) for i in range(PLAYERS)], 1
    )
    return SCALE * a * (others * weights / 2).sum(-1)


def tables(found: Found) -> list[Table]:
    return [records("95 %", by_rows(found))]


def summary(found: Found) -> dict[str, Any]:
    return {name: one["coverage"][0] for name, one in by_rows(found).items()}


def by_rows(found: Found) -> dict[str, Any]:
    """Of each estimator and number of rows."""
    return {f"{name}, {count}": one for name, by in found.items() for count, one in by.items()}
