"""A model learns a table, and `ms.Explainer` chooses among its candidates, by default those that
fit in seconds. All candidates are then compared on other rows, with the same coalitions: by Eq.
(16) of Frye et al. (2021), and on known laws by the distance to the true v, both without the
variance of draws.
"""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

import manifold_shap as ms
from benchmarks import draw
from benchmarks.laws.latent import LatentClasses
from benchmarks.laws.network import model_of
from benchmarks.report import Found, Table, parts, records
from benchmarks.support import lemaire, table_models
from benchmarks.truth.global_values import law_of
from manifold_shap import candidates
from manifold_shap.data import SOURCES
from manifold_shap.oracles import ConditionalLaw, true_value
from manifold_shap.quality import OFF_MANIFOLD, STACKED

TITLE = "Which value function is good on what"
ERRORS = "paired standard errors over rows"
QUICK = {"names": ["iris", "asia"], "train": 60, "scored": 40, "pairs": 200,
         "fitted": ["gaussian", "empirical", "surrogate"]}  # fmt: skip
PUBLIC: tuple[str, ...] = ("iris", "wine", "breast_cancer", "diabetes", "digits")
PUBLIC += ("abalone", "bike", "census", "drug", "crx")
KNOWN = ("mixture", "latent_classes", "asia", "sachs", "child", "insurance")


# Of imputers when they are compared, and of true values that are not summed.
DRAWS = 64


class Data(NamedTuple):
    """A table with its labels, and the law where it is known."""

    frame: pd.DataFrame
    y: Any
    regression: bool = False
    law: ConditionalLaw | None = None


def run(
    names: Sequence[str] = (*PUBLIC, *KNOWN),
    train: int = 3000,  # rows, at most, of the model and the explainer; 70 % of small tables
    scored: int = 500,  # rows, at most, that neither has seen
    pairs: int = 2000,  # of a row and a coalition, at least
    fitted: Sequence[str] = (*candidates.FAST, *candidates.SLOW),  # what is compared
) -> dict[str, Any]:
    """Errors and distances of all value functions, by data set."""
    settings: dict[str, Any] = {"train": train, "scored": scored, "pairs": pairs}
    return {"data": parts(names, measure, **settings, fitted=list(fitted))}


def measure(
    name: str, train: int, scored: int, pairs: int, fitted: Sequence[str]
) -> dict[str, Any]:
    """Of one data set."""
    # Of laws as many that rare states are among them.
    data = data_of(name, max(train + scored, 2000))
    order = np.random.default_rng(0).permutation(len(data.frame))
    # First the rows that have other cells than the first: no column of few rows is constant.
    differ = (data.frame.iloc[order] != data.frame.iloc[order[0]]).to_numpy().argmax(0)
    order = order[[*dict.fromkeys([0, *differ.tolist(), *range(len(order))])]]
    train = min(train, max(len(order) - scored, round(0.7 * len(order))))
    own, other = order[:train], order[train : train + scored]
    frame, test = (data.frame.iloc[rows].reset_index(drop=True) for rows in (own, other))
    kind = "boosted regression" if data.regression else "boosting"
    model = table_models.fitted(kind, frame, data.y[own])
    chosen, values = chosen_and_all(model, frame, fitted)
    mask = ms.metrics.shapley_pairs(len(test), len(values[OFF_MANIFOLD].players), pairs, seed=1)
    # Of many draws, whose variance is small: what is left of it would be noise of the comparison.
    precise = {name: value.with_draws(DRAWS) for name, value in values.items()}
    errors = {n: ms.metrics.mean_squared_error(v, test, mask).by_row for n, v in precise.items()}
    found: dict[str, Any] = {"chosen": chosen, "error": compared(errors)}
    if data.law is not None:
        # Sums where the whole table of states is small, elsewhere draws.
        truth = true_value(model_of(data.law, model), data.law, draws=DRAWS, rows=2**12)
        score = partial(ms.metrics.mean_squared_error, x=test, mask=mask, truth=truth)
        scores = {name: score(each) for name, each in precise.items()}
        found["distance"] = compared({n: score.by_row for n, score in scores.items()})
    return found


def data_of(name: str, rows: int) -> Data:
    """A public table, or so many rows of a law."""
    sklearn = {"wine": load_wine, "breast_cancer": load_breast_cancer, "digits": load_digits}
    published = ("iris", "diabetes", "abalone", "bike", "census", "drug")
    if name in sklearn:
        bunch = sklearn[name](as_frame=True)
        return Data(bunch.data, bunch.target.to_numpy())
    if name in published or name == "crx":
        table = lemaire.read(name) if name == "crx" else SOURCES[name]()
        features: Any = table.features
        return Data(features, table.labels.numpy(), name in ("diabetes", "bike"))
    law = LatentClasses() if name == "latent_classes" else law_of(name)
    x, y = law.sample(rows)
    return Data(law.frame(x), y.numpy(), law=law)


def chosen_and_all(
    model: Any, frame: pd.DataFrame, fitted: Sequence[str]
) -> tuple[str, dict[str, ms.ValueFunction]]:
    """The choice of `ms.Explainer`, and the value functions that are compared."""
    with warnings.catch_warnings():
        # What they say is in `quality`.
        warnings.simplefilter("ignore", UserWarning)
        explainer = ms.Explainer(model, frame, progress=False)
        fits = explainer.candidates
        assert isinstance(fits, candidates.Fits)
        names = [OFF_MANIFOLD, *fitted, *([STACKED] if fits.weights else [])]
        values = dict(candidates.Fits(fits.task, names, fits.x, weights=fits.weights))
    return explainer.quality.chosen, values


def compared(by_row: Mapping[str, Any]) -> dict[str, Any]:
    """Means over rows, and their ratios to that of the best candidate, with standard errors."""
    means = {name: error.mean().item() for name, error in by_row.items()}
    best = best_of(means)
    ratios = {}
    for name, error in by_row.items():
        ratio = means[name] / means[best]
        gap = (error - ratio * by_row[best]).std().item() / len(error) ** 0.5
        ratios[name] = [ratio, gap / means[best]]
    return {"mean": means, "over the best": ratios}


def best_of(means: Mapping[str, float]) -> str:
    """The candidate with the least; the value function off the manifold is none."""
    return min((name for name in means if name != OFF_MANIFOLD), key=means.__getitem__)


def tables(found: Found) -> list[Table]:
    about = {
        name: {
            "chosen": one["chosen"].replace("_", " "),
            "its error over the best": one["error"]["over the best"].get(one["chosen"]),
            **({"squared distance over best": one["distance"]["over the best"].get(one["chosen"]),
                "over that off the manifold": share(one["distance"]["mean"]).get(one["chosen"])}
               if "distance" in one else {}),
        }
        for name, one in found["data"].items()
    }  # fmt: skip
    data = found["data"].items()
    errors = {name: one["error"]["over the best"] for name, one in data}
    far = {name: share(one["distance"]["mean"]) for name, one in data if "distance" in one}
    heading = "squared distance to the true v over that off the manifold"
    return [records("data", about), records("error over the best", errors), records(heading, far)]


def share(means: Mapping[str, float]) -> dict[str, float]:
    """Of what there is off the manifold."""
    return {name: one / means[OFF_MANIFOLD] for name, one in means.items()}


def figures(found: Found) -> dict[str, Any]:
    """Shares of what there is off the manifold, the distance where it is known."""
    panels = {}
    for what, title in (("error", "error, Eq. (16)"), ("distance", "squared distance to true v")):
        of = {name: share(one[what]["mean"]) for name, one in found["data"].items() if what in one}
        panels[title] = {
            kind.replace("_", " "): {name: one[kind] for name, one in of.items() if kind in one}
            for kind in (*candidates.CANDIDATES, STACKED)
        }
    return {"": draw.dots(panels, "over that off the manifold", line=1.0)}


def summary(found: Found) -> dict[str, Any]:
    """The mean of ratios, over data sets."""
    each = found["data"].values()
    rows = [one["error"]["over the best"][one["chosen"]][0] for one in each]
    far = [share(one["distance"]["mean"])[one["chosen"]] for one in each if "distance" in one]
    heading = "its squared distance to the true v over that off the manifold, mean of known laws"
    return {
        f"error of the choice over the best, mean of {len(rows)} data sets": sum(rows) / len(rows),
        heading: sum(far) / len(far),
    }
