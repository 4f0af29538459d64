"""Exact Shapley values of naive Bayes on census: all rows, all features, against permutations.

    MANIFOLD_SHAP_DATA=... python benchmarks/naive_bayes.py

All 48,842 rows, with the mean over all of them as reference: a CategoricalNB on 13 columns, numbers
cut at their deciles, and a GaussianNB on the encoded columns, grouped to 13 players. Lemaire et al.
(2023) report less than 10 s for that table. Beside it, `permutation_shapley` with marginal values
of the CategoricalNB for some of the rows. There both sides have the same few reference rows, all of
which donate (by default), so that the game is additive and few orders are exact: what the two have
in common is checked by rank correlations, over the features of each row and over the features'
mean |phi|. Sides alternate; figures are medians.
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import sklearn
import torch
from scipy import stats
from sklearn.naive_bayes import CategoricalNB, GaussianNB

import manifold_shap as ms
from benchmarks.timing import seconds
from manifold_shap.data.tables import Census

OUTPUTS = ("log_odds", "ilr")
Side = Callable[[], ms.Explanation]


def codes(features: pd.DataFrame, bins: int) -> np.ndarray:
    """Whole numbers from zero up: categories, and numbers by the quantiles that they exceed."""
    shares = np.arange(1, bins) / bins
    columns = [
        np.searchsorted(np.unique(column.quantile(shares)), column)
        if pd.api.types.is_numeric_dtype(column)
        else column.astype("category").cat.codes
        for _, column in features.items()
    ]
    return np.stack(columns, axis=1).astype(np.float32)


def exact_sides(features: pd.DataFrame, x: np.ndarray, y: np.ndarray) -> dict[str, Side]:
    """Exact values of every row, by classifier and output space."""
    schema = ms.Schema.fit(features)
    encoded = schema.encode(features).numpy()
    players = schema.players
    categorical = CategoricalNB().fit(x, y)
    gaussian = GaussianNB(var_smoothing=1e-3).fit(encoded, y)
    shapley = ms.naive_bayes_shapley
    return {
        **{f"categorical_{t}": partial(shapley, categorical, x, x, t) for t in OUTPUTS},
        **{
            f"gaussian_{t}": partial(shapley, gaussian, encoded, encoded, t, players=players)
            for t in OUTPUTS
        },
    }


def compared_sides(
    x: np.ndarray, y: np.ndarray, rows: int, reference: int, draws: int, permutations: int
) -> dict[str, Side]:
    """The same values of some rows, exact and from permutations."""
    chosen = np.random.default_rng(0).permutation(len(x))[: rows + reference]
    explained, donors = x[chosen[:rows]], x[chosen[rows:]]
    model = CategoricalNB().fit(x, y)
    value = ms.imputed_value(model, ms.MarginalImputer(donors), "log_odds", draws)
    return {
        "exact": partial(ms.naive_bayes_shapley, model, explained, donors),
        "permutation": partial(ms.permutation_shapley, value, explained, permutations=permutations),
    }


def agreement(exact: torch.Tensor, sampled: torch.Tensor) -> dict[str, object]:
    """Rank correlations of values `[instances, players]`, and how far they are apart."""
    figures: dict[str, object] = {"largest_difference": (exact - sampled).abs().max().item()}
    for name, rank in (("spearman", stats.spearmanr), ("kendall", stats.kendalltau)):
        by_row = [rank(*pair).statistic for pair in zip(exact, sampled, strict=True)]
        overall = rank(exact.abs().mean(0), sampled.abs().mean(0)).statistic
        figures[name] = {
            "rows_mean": float(np.mean(by_row)),
            "rows_least": float(np.min(by_row)),
            "mean_magnitude": float(overall),
        }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bins", type=int, default=10, help="of each numeric column")
    parser.add_argument("--rows", type=int, default=100, help="explained by permutations")
    parser.add_argument("--reference", type=int, default=200, help="rows, for the comparison")
    parser.add_argument("--draws", type=int, help="donors per coalition; by default all of them")
    parser.add_argument("--permutations", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="also write the figures to this JSON file")
    arguments = parser.parse_args()
    census = Census().read()
    x, y = codes(census.features, arguments.bins), census.labels.numpy()
    draws = arguments.draws or arguments.reference
    every = exact_sides(census.features, x, y)
    compared = compared_sides(
        x, y, arguments.rows, arguments.reference, draws, arguments.permutations
    )
    medians = seconds({**every, **compared}, arguments.repeats)
    exact, sampled = (compared[name]().phi[..., 0] for name in ("exact", "permutation"))
    per_second = {
        "exact": len(x) / medians["categorical_log_odds"],
        "permutation": arguments.rows / medians["permutation"],
    }
    figures = {
        "rows": len(x),
        "features": x.shape[1],
        "seconds": {name: medians[name] for name in every},
        "rows_per_second": per_second,
        "ratio": per_second["exact"] / per_second["permutation"],
        "compared": {
            "rows": arguments.rows,
            "reference": arguments.reference,
            "draws": draws,
            "permutations": arguments.permutations,
            "seconds": {name: medians[name] for name in compared},
            **agreement(exact, sampled),
        },
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "scikit-learn": sklearn.__version__,
    }
    print(json.dumps(figures, indent=2))
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
