"""What is made of values: scores, global values, intervals and errors of learning."""

from typing import Any

import torch

import manifold_shap as ms
from tests.reference.examples import (
    GAUSSIAN,
    MIXED,
    MODEL,
    NUMBERS,
    PLAYERS,
    RIDGE,
)


def scores() -> dict[str, Any]:
    """Errors of value functions, raw and without the variance of draws; leakage; distances."""
    x, mask, reference = MIXED["x"], MIXED["mask"], MIXED["reference"]
    made = {
        "marginal": ms.imputers.MarginalImputer(reference, PLAYERS),
        "gaussian": GAUSSIAN,
        "empirical": ms.imputers.EmpiricalImputer(reference, PLAYERS, 0.5, regularisation=RIDGE),
    }
    values = {name: ms.imputed_value(MODEL, each, draws=12, seed=1) for name, each in made.items()}
    numbers = ms.imputed_value(NUMBERS, GAUSSIAN, "identity", draws=12)
    found: dict[str, Any] = {
        "numbers": ms.metrics.mean_squared_error(numbers, x, mask),
        "distance": ms.metrics.mean_squared_error(
            values["marginal"], x, mask, truth=values["gaussian"]
        ),
    }
    for name, value in values.items():
        found[name] = ms.metrics.mean_squared_error(value, x, mask)
        found[f"{name}, leakage"] = ms.metrics.leakage(value, x, mask, seed=1)
    return {"scores": found}


def global_figures() -> dict[str, Any]:
    """Global values of classes and of a regression; the error of learning."""
    reference = MIXED["reference"]
    x, y = reference[:30], MIXED["labels"][:30]
    half, other, whole = (
        ms.permutation_shapley(
            ms.imputed_value(MODEL, ms.imputers.GaussianImputer(rows, PLAYERS, RIDGE), draws=8),
            x,
            permutations=4,
            seed=seed,
        )
        for seed, rows in enumerate((reference[::2], reference[1::2], reference))
    )
    learned = ms.with_learning_error(whole, [half, other])
    imputer = ms.imputers.MarginalImputer(reference, PLAYERS)
    value = ms.imputed_value(NUMBERS, imputer, "identity", draws=8)
    found = ms.permutation_shapley(value, x, permutations=4)
    target = reference[:30, 0].numpy()
    return {
        "global, classes": ms.global_values(half, y),
        "global, interval": torch.stack(ms.global_values(half, y).interval(0.9)),
        "learning error": learned,
        "learning error, interval": torch.stack(learned.interval(0.9)),
        "sampled, interval": torch.stack(half.interval(0.9)),
        "global, learning error": ms.global_values(learned, y),
        "global, numbers": ms.global_values(found, target, found.outputs[1]),
    }
