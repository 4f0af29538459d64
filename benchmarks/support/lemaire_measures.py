"""Compares exact Shapley values of naive Bayes with weight of evidence and with KernelSHAP."""

import logging
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

import manifold_shap as ms
from benchmarks.report import spread
from benchmarks.support.modl import Discretised
from benchmarks.timing import timed

_RESAMPLES = 200
# Differences below this part of the largest figure are rounding, and count as ties.
_TIE = 1e-4


def pearson(one: Float[Tensor, " figures"], other: Float[Tensor, " figures"]) -> float:
    """NaN where all figures of either are equal."""
    return torch.corrcoef(torch.stack((one, other)))[0, 1].item()


def kendall(one: Float[Tensor, " figures"], other: Float[Tensor, " figures"]) -> float:
    """Tau-b; NaN where all figures of either are equal."""
    return kendall_by_row(one[None], other[None]).item()


def kendall_by_row(
    one: Float[Tensor, "rows figures"], other: Float[Tensor, "rows figures"]
) -> Float[Tensor, " rows"]:
    """Kendall's tau-b of each row; NaN where all entries of either are equal."""
    first, second = torch.triu_indices(one.shape[1], one.shape[1], 1)
    signs, others = ((v[:, first] - v[:, second]).sign() for v in (_tied(one), _tied(other)))
    untied = signs.square().sum(1) * others.square().sum(1)
    return (signs * others).sum(1) / untied.sqrt()


def _tied(figures: Tensor) -> Tensor:
    """Equal where they differ by rounding alone, as those of variables with equal roles do."""
    return (figures / (_TIE * figures.abs().max())).round()


def compare(bayes: Discretised, rows: int, donors: int, seed: int) -> dict[str, Any]:
    """All measures of one classifier; pairs are a figure and its standard error.

    `tau` is Kendall's between exact values and weights of evidence of a row, the mean over rows;
    `offset` the share of |E[evidence]|, by which both differ, in the mean |phi|, over variables.
    `pearson`, `kendall` are between the variables' mean |phi|, exact and of KernelSHAP. `shares`
    are mean |phi| over their sum.

    Args:
        bayes: fitted; all of its rows are explained exactly.
        rows: explained by KernelSHAP, at most.
        donors: of its background, at most.
        seed: of the choice of rows and donors, and of coalitions.
    """
    model, x, weights = bayes.model, bayes.x, bayes.weights
    values, of_exact = timed(
        lambda: ms.naive_bayes.naive_bayes_shapley(model, x, x, weights=weights)
    )
    added = ms.naive_bayes.weight_of_evidence(model, x, weights=weights).phi[..., 0]
    phi = values.phi[..., 0]
    tau = kendall_by_row(phi, added)
    tau = tau[~tau.isnan()]
    generator = torch.Generator().manual_seed(seed)
    explained, background = (
        added[torch.randperm(len(added), generator=generator)[:count]] for count in (rows, donors)
    )
    game, count = AdditiveOdds(bayes.prior, background, "probability"), _coalitions(x.shape[1])
    kernel = ms.kernel_shapley(game, explained, evaluations=count, seed=seed).phi[..., 0]
    exact, magnitude = phi.abs().mean(0), kernel.abs().mean(0)
    return {
        "seconds": {"exact": of_exact},
        "tau": (tau.mean().item(), tau.std().item() / len(tau) ** 0.5),
        "offset": (added.mean(0).abs().sum() / exact.sum()).item(),
        "pearson": _with_error(pearson, exact, kernel, seed),
        "kendall": _with_error(kendall, exact, kernel, seed),
        "shares": {
            "exact": (exact / exact.sum()).tolist(),
            "KernelSHAP": (magnitude / magnitude.sum()).tolist(),
        },
    }


def _with_error(
    correlation: Callable[[Tensor, Tensor], float],
    exact: Float[Tensor, " variables"],
    sampled: Float[Tensor, "rows variables"],
    seed: int,
) -> tuple[float, float]:
    """Of mean magnitudes; the error by resampling the rows that were explained by sampling."""
    generator = torch.Generator().manual_seed(seed)
    magnitudes = sampled.abs()
    again = [
        correlation(exact, magnitudes[chosen].mean(0))
        for chosen in torch.randint(
            len(magnitudes), (_RESAMPLES, len(magnitudes)), generator=generator
        )
    ]
    # A sample in which all variables are alike has no correlation.
    known = [figure for figure in again if not math.isnan(figure)]
    return correlation(exact, magnitudes.mean(0)), float(np.std(known))


class AdditiveOdds:
    """v(S) off the manifold of a model whose log-odds are a sum over variables.

    The log-odds of a row spliced from two are the sum of what each adds to them, so that no such
    row is ever built.

    Args:
        prior: log-odds of the second class without any variable.
        donors: what each variable adds to them, in rows of the background.
        output: `probability` of the second class, or `log_odds`.
    """

    # What a cache holds.
    batch_size = 2**17

    def __init__(
        self, prior: float, donors: Float[Tensor, "donors variables"], output: str
    ) -> None:
        self.prior, self.donors, self.output = prior, donors, output
        # Model rows behind each value.
        self.draws = len(donors)

    def __call__(
        self, x: Float[Tensor, "batch variables"], mask: Bool[Tensor, "batch m variables"]
    ) -> Float[Tensor, "batch m outputs"]:
        present = mask.to(x.dtype)
        own = present @ x[..., None]
        odds = self.prior + own + (1 - present) @ self.donors.T
        output = odds.sigmoid() if self.output == "probability" else odds
        return output.mean(-1, keepdim=True)


def _coalitions(variables: int) -> int:
    """Coalitions of a row, as many as shap takes by default."""
    return 2 * variables + 2048


def by_shap(
    model: Callable[[np.ndarray], np.ndarray],
    donors: Float[np.ndarray, "donors variables"],
    x: Float[np.ndarray, "rows variables"],
    seed: int,
) -> Float[np.ndarray, "rows variables"]:
    """Values of rows by KernelSHAP of the package shap, with its defaults before version 0.47."""
    import shap

    # It warns of more than 100 donors.
    logging.getLogger("shap").setLevel(logging.ERROR)
    # Variables are selected where coalitions are few of all.
    few = _coalitions(x.shape[1]) < 0.2 * (2 ** x.shape[1] - 2)
    settings = {"l1_reg": "aic" if few else False, "silent": True}
    before = np.random.get_state()  # The global one, which shap draws from.
    np.random.seed(seed)
    try:
        return shap.KernelExplainer(model, donors).shap_values(x, **settings)
    finally:
        np.random.set_state(before)


def rows_near(bayes: Discretised, probabilities: Sequence[float], within: float) -> dict[str, Any]:
    """Of the rows nearest to these probabilities, of all rows near these, and what all obey."""
    x, weights = bayes.x, bayes.weights
    explained = ms.naive_bayes.naive_bayes_shapley(bayes.model, x, x, weights=weights)
    phi, odds = explained.phi[..., 0].double(), explained.prediction[:, 0].double()
    turned = Discretised.of(x, 1 - bayes.y, bayes.names, weights)
    of_other = ms.naive_bayes.naive_bayes_shapley(turned.model, x, x, weights=weights).phi[..., 0]
    constant = odds - phi.sum(1)
    gaps = {
        "mean of a variable's values (Section 3: zero)": phi.mean(0).abs().max(),
        "log-odds less the sum of values (Eq. 12: a constant)": constant.max() - constant.min(),
        "values for both classes, added (Section 3: zero)": (phi + of_other).abs().max(),
    }
    rows = {}
    for probability in probabilities:
        apart = (odds.sigmoid() - probability).abs()
        # The nearest row itself in any case.
        near, row = apart <= max(within, apart.min().item()), apart.argmin()
        shares = phi[near] / phi[near].sum(1, keepdim=True)
        rows[str(probability)] = {
            "probability": odds[row].sigmoid(),
            "phi": phi[row],
            "near": near.sum(),
            "phi of near rows": [spread(column.tolist(), of_mean=True) for column in phi[near].T],
            "shares of near rows": [spread(column.tolist(), of_mean=True) for column in shares.T],
        }
    sizes = {"variables": bayes.names, "mean |phi|": phi.abs().mean(0)}
    return {**sizes, "rows": rows, "gaps": {k: gap / phi.abs().max() for k, gap in gaps.items()}}


def rows_asked(bayes: Discretised, sizes: Sequence[int], seed: int) -> dict[str, Any]:
    """Rows that shap asks of the classifier to explain one row, and seconds, by background."""
    order = np.random.default_rng(seed).permutation(len(bayes.x))
    counts: list[int] = []

    def model(rows: np.ndarray) -> np.ndarray:
        counts.append(len(rows))
        return bayes.model.predict_proba(rows.astype(np.int64))[:, 1]

    table, seconds = [], []
    by_shap(model, bayes.x[:2], bayes.x[:1], seed)  # The first time takes longer.
    for size in sizes:
        counts.clear()
        donors, x = bayes.x[order[:size]], bayes.x[order[:1]]
        seconds.append(timed(partial(by_shap, model, donors, x, seed))[1])
        # The background and the row itself come first.
        table.append(sum(counts) - size - 1)
    exact = timed(lambda: ms.naive_bayes.naive_bayes_shapley(bayes.model, bayes.x, bayes.x))[1]
    of_all = {"rows": len(bayes.x), "variables": bayes.x.shape[1], "exact seconds": exact}
    return {"sizes": list(sizes), "table": table, "seconds": seconds, **of_all}
