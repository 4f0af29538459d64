"""How good every value function is on public tables, and on laws whose true values are known.

Boosted trees learn a table, and `ms.Explainer` chooses among its candidates, by default those that
fit in seconds. All candidates, fitted to the same rows, are then compared on rows that neither has
seen, with the same coalitions: by Eq. (16) of Frye et al. (2021), and on known laws by the distance
to the true v, both without the variance of draws.
"""

import time
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.pipeline import Pipeline, make_pipeline

import manifold_shap as ms
from benchmarks import plots
from benchmarks.laws.frames import model_of
from benchmarks.laws.latent import LatentClasses
from benchmarks.report import Found, Table, kept, records
from benchmarks.support import lemaire_data
from benchmarks.truth.global_values import law_of
from manifold_shap import _random, candidates
from manifold_shap.data import SOURCES
from manifold_shap.oracles import ConditionalLaw, TrueValue, true_value
from manifold_shap.quality import OFF_MANIFOLD, STACKED

TITLE = "Which value function is good on what"
ERRORS = "paired standard errors over rows"
QUICK = {"names": ["iris", "asia"], "train": 60, "scored": 40, "pairs": 200,
         "parts": "runs/value_functions_quick"}  # fmt: skip
PUBLIC: tuple[str, ...] = ("iris", "wine", "breast_cancer", "diabetes", "digits")
PUBLIC += ("abalone", "bike", "census", "drug", "crx")
KNOWN = ("mixture", "latent_classes", "asia", "sachs", "child", "insurance")
# How far from the best one the choice may be, and what part of the distance off the manifold.
WITHIN, PART = 1.05, 0.5
SHOWN = {
    OFF_MANIFOLD: "off the manifold", "gaussian": "Gaussian", "copula": "copula",
    "empirical": "empirical", "mixture": "mixture", "vae": "VAE", "surrogate": "surrogate",
    "guided_surrogate": "guided surrogate", STACKED: "stacked",
}  # fmt: skip


class Data(NamedTuple):
    """A table with its labels, and the law where it is known."""

    frame: pd.DataFrame
    y: Any
    regression: bool = False
    law: ConditionalLaw | None = None


class Numbered(TransformerMixin, BaseEstimator):
    """Numbers for dates and texts; a missing cell is not a number."""

    def fit(self, frame: pd.DataFrame, y: Any = None) -> "Numbered":
        texts = frame.columns[[not _has_numbers(frame[name]) for name in frame]]
        self.values_ = {
            name: pd.Index(frame[name].dropna().unique().astype(object)) for name in texts
        }
        return self

    def transform(self, frame: pd.DataFrame) -> Any:
        columns: list[Any] = []
        for name in frame:
            column = frame[name]
            if name in self.values_:
                place = self.values_[name].get_indexer(column.astype(object))
                columns.append(np.where(place < 0, np.nan, place))
            elif pd.api.types.is_datetime64_any_dtype(column):
                columns.append((column - pd.Timestamp("2020-01-01")) / pd.Timedelta(days=1))
            else:
                columns.append(column.to_numpy(dtype=float, na_value=np.nan))
        return np.stack(columns, 1)


def _has_numbers(column: "pd.Series[Any]") -> bool:
    kinds = pd.api.types
    return kinds.is_numeric_dtype(column) or kinds.is_datetime64_any_dtype(column)


def run(
    names: Sequence[str] = (*PUBLIC, *KNOWN),
    train: int = 3000,  # rows, at most, of the model and the explainer; 70 % of small tables
    scored: int = 500,  # rows, at most, that neither has seen
    pairs: int = 2000,  # of a row and a coalition, at least
    draws: int = 64,  # of true values that are not summed
    scored_draws: int = 64,  # of imputers, when they are compared
    fitted: Sequence[str] = candidates.CANDIDATES,  # what is compared
    seed: int = 0,
    parts: str = "runs/value_functions",  # where finished data sets are kept
) -> dict[str, Any]:
    """Errors, distances and seconds of all value functions, by data set."""
    found = {}
    for name in names:
        settings: dict[str, Any] = {
            "train": train, "scored": scored, "pairs": pairs, "draws": draws,
            "scored_draws": scored_draws, "fitted": list(fitted), "seed": seed,
        }  # fmt: skip
        make = partial(measure, name, **settings)
        found[name] = kept(Path(parts, f"{name}.json"), {"data": name, **settings}, make)
        print(name, found[name], flush=True)
    return {"seconds": sum(one["seconds"] for one in found.values()), "data": found}


def measure(
    name: str,
    train: int,
    scored: int,
    pairs: int,
    draws: int,
    scored_draws: int,
    fitted: Sequence[str],
    seed: int,
) -> dict[str, Any]:
    """Of one data set."""
    begun = time.process_time()
    data = data_of(name, train + scored, seed)
    order = np.random.default_rng(seed).permutation(len(data.frame))
    train = min(train, max(len(order) - scored, round(0.7 * len(order))))
    own, other = order[:train], order[train : train + scored]
    frame, test = (data.frame.iloc[rows].reset_index(drop=True) for rows in (own, other))
    model = trees(data.regression).fit(frame, data.y[own])
    with warnings.catch_warnings():
        # What they say is in `quality`.
        warnings.simplefilter("ignore", UserWarning)
        explainer = ms.Explainer(model, frame, seed=seed, progress=False)
        chosen = explainer.candidates
        assert isinstance(chosen, candidates.Fits)
        weights = chosen.weights
        names = [OFF_MANIFOLD, *fitted, *([STACKED] if weights else [])]
        values = dict(candidates.Fits(chosen.task, names, chosen.x, weights=weights))
    mask = ms.metrics.shapley_pairs(len(test), len(explainer.table.players), pairs, seed + 1)
    # Of many draws, whose variance is small: what is left of it would be noise of the comparison.
    precise = {name: with_draws(value, scored_draws) for name, value in values.items()}
    errors = {n: ms.metrics.mean_squared_error(v, test, mask).by_row for n, v in precise.items()}
    found: dict[str, Any] = {"chosen": explainer.quality.chosen, "error": compared(errors)}
    if data.law is not None:
        truth = truth_of(model, data.law, draws, seed)
        score = partial(ms.metrics.mean_squared_error, x=test, mask=mask, truth=truth)
        scores = {name: score(each) for name, each in precise.items()}
        found["distance"] = compared({n: score.by_row for n, score in scores.items()})
    return found | {"seconds": time.process_time() - begun}


def data_of(name: str, rows: int, seed: int) -> Data:
    """A public table, or so many rows of a law."""
    sklearn = {"wine": load_wine, "breast_cancer": load_breast_cancer, "digits": load_digits}
    published = ("iris", "diabetes", "abalone", "bike", "census", "drug")
    if name in sklearn:
        bunch = sklearn[name](as_frame=True)
        return Data(bunch.data, bunch.target.to_numpy())
    if name in published or name == "crx":
        table = lemaire_data.read(name) if name == "crx" else SOURCES[name]()
        features: Any = table.features
        return Data(features, table.labels.numpy(), name in ("diabetes", "bike"))
    if name == "latent_classes":
        latent = LatentClasses(seed)
        x = latent.sample(rows, seed).x
        noise = _random.uniform(_random.fold(torch.full((rows,), seed), torch.arange(rows)), ())
        return Data(
            latent.frame(x), (noise < latent.score(x).float().sigmoid()).long().numpy(), law=latent
        )
    law = law_of(name)
    x, y = law.sample(rows, seed)
    return Data(law.frame(x), y.numpy(), law=law)


def trees(regression: bool) -> Pipeline:
    """Boosted trees on numbers."""
    kind = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    return make_pipeline(Numbered(), kind(max_iter=60, random_state=0))


def with_draws(value: ms.ValueFunction, draws: int) -> ms.ValueFunction:
    """The same value function with more draws, if it has any."""
    if isinstance(value, ms.values.StackedValue):
        parts = [with_draws(part, draws) for part in value.parts]
        return ms.values.StackedValue(parts, value.weights)
    if isinstance(value, ms.ImputedValue):
        return ms.imputed_value(value.model, value.imputer, value.space, draws, value.seed)
    return value


def truth_of(model: Any, law: ConditionalLaw, draws: int, seed: int) -> TrueValue:
    """Sums where the whole table of states is small, elsewhere draws."""
    return true_value(model_of(law, model), law, draws=draws, rows=2**12, seed=seed)


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


def misses(found: Found) -> dict[str, list[str]]:
    """What the choice of the explainer does not reach, by data set."""
    missed: dict[str, list[str]] = {}
    for name, one in found["data"].items():
        chosen = one["chosen"]
        for what in ("error", "distance"):
            if what in one and one[what]["over the best"][chosen][0] > WITHIN:
                missed.setdefault(name, []).append(what)
        if "distance" in one:
            distance = one["distance"]["mean"]
            if distance[chosen] >= PART * distance[OFF_MANIFOLD]:
                missed.setdefault(name, []).append("off the manifold")
    return missed


def tables(found: Found) -> list[Table]:
    missed = misses(found)
    about = {
        name: {
            "chosen": SHOWN[one["chosen"]],
            "its error over the best": one["error"]["over the best"][one["chosen"]],
            **({"its distance over the best": one["distance"]["over the best"][one["chosen"]],
                "over that off the manifold": share(one["distance"]["mean"])[one["chosen"]]}
               if "distance" in one else {}),
            "missed": ", ".join(missed.get(name, [])),
        }
        for name, one in found["data"].items()
    }  # fmt: skip
    return [records("data", about)]


def share(means: Mapping[str, float]) -> dict[str, float]:
    """Of what there is off the manifold."""
    return {name: one / means[OFF_MANIFOLD] for name, one in means.items()}


def figures(found: Found) -> dict[str, Any]:
    """Shares of what there is off the manifold, the distance where it is known."""
    names = {name: name.replace("_", " ") for name in found["data"]}
    panels = {
        "error, Eq. (16)": ("error", found["data"]),
        "distance to the true v": (
            "distance", {n: one for n, one in found["data"].items() if "distance" in one}
        ),
    }  # fmt: skip
    sides = {
        title: {
            SHOWN[kind]: {
                name: (share(one[what]["mean"])[kind], None)
                for name, one in of.items()
                if kind in one[what]["mean"]
            }
            for kind in (*candidates.CANDIDATES, STACKED)
        }
        for title, (what, of) in panels.items()
    }
    return {"": plots.dots(sides, names, "share of off the manifold", zero=True)}
