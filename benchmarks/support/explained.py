"""Explains rows exactly with repeated draws, and makes explanations of what a file has kept."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import manifold_shap as ms

MARGINAL, GAUSSIAN, COPULA, EMPIRICAL = "marginal", "Gaussian", "copula", "empirical"
ASYMMETRIC, CAUSAL, BOTH = "asymmetric", "causal", "asymmetric causal"
# Those of Carballo's thesis, and one more.
WAYS = (MARGINAL, GAUSSIAN, COPULA, EMPIRICAL, ASYMMETRIC, CAUSAL, BOTH)
OF_MARGINAL = "asymmetric, of the marginal game"
# Those that it compares by the order of causes.
FOUR = (MARGINAL, CAUSAL, OF_MARGINAL, BOTH)
IMPUTERS: dict[str, type[ms.imputers.Imputer]] = {
    MARGINAL: ms.imputers.MarginalImputer,
    GAUSSIAN: ms.imputers.GaussianImputer,
    COPULA: ms.imputers.CopulaImputer,
    EMPIRICAL: ms.imputers.EmpiricalImputer,
}


def repeated(
    model: Any,
    imputer: ms.imputers.Imputer,
    x: Any,
    draws: int,
    repeats: int,
    space: str = "identity",
    ordering: Sequence[Sequence[str]] | None = None,
) -> ms.Explanation:
    """Over all coalitions, or those of orders that `ordering` allows; the mean of repeats.

    Standard errors are by the scatter of the repeats, which have other draws.
    """
    found = []
    for seed in range(repeats):
        value = ms.imputed_value(model, imputer, space, imputer.distinct_draws or draws, seed)
        found.append(ms.exact_shapley(value, x, ordering=ordering))
        if not value.spec.work.sampled:
            return found[0]
    phi = torch.stack([one.phi for one in found])
    return replace(found[0], phi=phi.mean(0), standard_error=phi.std(0) / repeats**0.5)


def explanation(
    phi: Any,
    x: Any,
    names: Sequence[str],
    output: str,
    error: Any = None,
    base: float = 0.0,
    labels: Sequence[Any] | None = None,
) -> ms.Explanation:
    """Of one output, from Shapley values and standard errors `[rows, players]`."""
    values: Tensor = torch.as_tensor(phi)[..., None]
    errors = 0 * values if error is None else torch.as_tensor(error)[..., None]
    start, space = torch.full((len(values), 1), base), ms.spaces.as_space("identity")
    players = ms.Players.of_elements((len(names),), names)
    rows, end = torch.as_tensor(x), start + values.sum(1)
    names_of = tuple(labels or range(len(values)))
    return ms.Explanation(values, errors, start, end, rows, players, (output,), space, names_of)
