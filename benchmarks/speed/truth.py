"""Shapley values of every value function against the truth, on messy tables of known laws.

Each seed is another law of `LatentClasses`, another table of 3,000 rows and another xgboost
classifier (native categories and missing values). Prior distributions of the laws were chosen
before any value function was tried on them, and not changed since. The truth is the exact sum over
all coalitions, each value a mean over exact draws; its own squared error is taken off those that
are reported.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from torch import Tensor
from xgboost import XGBClassifier

import manifold_shap as ms
from benchmarks.laws.frames import model_of
from benchmarks.laws.latent import VALUES
from benchmarks.laws.table import mixture
from benchmarks.report import Found, Table, records, spread
from benchmarks.timing import timed
from manifold_shap.oracles import true_value

TITLE = "Shapley values against the truth"
ERRORS = "standard errors over seeds"
QUICK = {"seeds": [0], "rows": 10, "draws": 64}
OFF, DEFAULT = "marginal", "the default choice"
# Rows on which the model is tested, of which some are explained.
TEST = 2000


def run(
    seeds: Sequence[int] = (0, 1, 2, 3, 4),  # of the law, the table, the model and the explainer
    rows: int = 50,  # explained
    train: int = 3000,  # of the model and the explainer
    draws: int = 256,  # of a coalition, for the truth
    repeats: int = 2,  # of the truth, at least two
) -> dict[str, Any]:
    """Errors of all value functions, by seed."""
    found = {}
    for seed in seeds:
        found[str(seed)] = measure(seed, rows, train, draws, repeats)
        print(seed, found[str(seed)], flush=True)
    return found


def measure(seed: int, rows: int, train: int, draws: int, repeats: int) -> dict[str, Any]:
    """Of one law: root mean squared errors of Shapley values, over rows and players."""
    table, law = mixture(rows=train + TEST, law=seed, seed=seed)
    frame: Any = table.features
    test, labels = frame[train:], table.labels.numpy()
    model = classifier(seed).fit(frame[:train], labels[:train])
    p = model.predict_proba(test)[:, 1]
    scores = {"model": p, "law": law.score(test).numpy()}
    auc = {name: float(roc_auc_score(labels[train:], score)) for name, score in scores.items()}
    explained = test[:rows]
    of_rows = model_of(law, lambda of: model.predict_proba(of)[:, 1:], ["buys"], "values")
    value, rows_of_law = true_value(of_rows, law, "identity", draws=draws), law.rows(explained)
    budget = repeats * (2 ** len(value.players) - 2)
    truth, seconds = timed(lambda: ms.exact_shapley(value, rows_of_law, evaluations=budget))
    explainer, fitting = timed(lambda: ms.Explainer(model, frame[:train], seed=seed))
    own, explaining = timed(lambda: explainer(explained))
    x = explainer.codebook.rows(explained)
    # By the estimator that the explainer takes: all have the noise of as many draws.
    phi = {name: ms.auto_shapley(v, x).phi for name, v in explainer.candidates.items()}
    return {
        "auc": auc,
        "spread": float(truth.phi.square().mean().sqrt()),
        "truth_error": float(truth.standard_error.square().mean().sqrt()),
        "chosen": explainer.quality.chosen,
        "mse": dict(explainer.quality.mse),
        "rmse": {name: rmse(one, truth) for name, one in {**phi, DEFAULT: own.phi}.items()},
        "seconds": {"truth": seconds, "Explainer": fitting, "explanation": explaining},
    }


def classifier(seed: int = 0) -> Pipeline:
    """Boosted trees that split categories and missing cells natively; dates are days to them."""
    trees = XGBClassifier(
        n_estimators=100, max_depth=4, learning_rate=0.1, enable_categorical=True,
        n_jobs=1, random_state=seed,
    )  # fmt: skip
    return make_pipeline(FunctionTransformer(native), trees)


def native(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame in types that xgboost takes."""
    days = (frame["since"] - pd.Timestamp("2020-01-01")) / pd.Timedelta(days=1)
    kinds = {name: pd.CategoricalDtype([*VALUES[name]]) for name in ("region", "product")}
    return frame.astype(kinds).assign(since=days)


def rmse(phi: Tensor, truth: ms.Explanation) -> float:
    """Of the last output, the truth's own error taken off."""
    squares = (phi[..., -1:] - truth.phi).square() - truth.standard_error.square()
    return float(squares.mean().clamp(min=0).sqrt())


def ratio(one: Found, name: str = DEFAULT) -> float:
    """Of an error to that off the manifold."""
    return one["rmse"][name] / one["rmse"][OFF]


def tables(found: Found) -> list[Table]:
    names = next(iter(found.values()))["rmse"]
    ratios = {
        f"{name} / off the manifold": {
            "mean": spread([ratio(one, name) for one in found.values()], of_mean=True),
            **{seed: ratio(one, name) for seed, one in found.items()},
        }
        for name in names
        if name != OFF
    }
    errors = {name: {seed: one["rmse"][name] for seed, one in found.items()} for name in names}
    about = {
        what: {seed: one[what] for seed, one in found.items()}
        for what in ("chosen", "spread", "truth_error")
    }
    flat = {
        f"{kind}, {name}": {seed: one[kind][name] for seed, one in found.items()}
        for kind in ("auc", "seconds")
        for name in next(iter(found.values()))[kind]
    }
    return [
        records("ratio of root mean squared errors, by seed", ratios),
        records("root mean squared error, by seed", errors),
        records("about the table, by seed", about | flat),
    ]
