"""Error for as many evaluations per player (Musco & Witter 2025): |phi - exact| / |exact|, a mean
over seeds, each with another row. Games are boosted trees with the mean of a column for absent
players, and a random forest on census. Needs `.[peers]`; sides that the installed
shapiq lacks are left out.
"""

import warnings
from collections.abc import Mapping, Sequence
from statistics import geometric_mean
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

import manifold_shap as ms
from benchmarks import draw
from benchmarks.report import Claim, Figures, Found, Table, records, spread
from benchmarks.support.measures import SHAPIQ, by_shapiq
from manifold_shap.data import census

TITLE = "LeverageSHAP's benchmark"
CAPTION = "error of `auto` over LeverageSHAP's, mean over budgets"
SOURCE = "Musco & Witter (2025); Witter, Liu & Musco (2025)"
ERRORS = "standard errors over seeds"
QUICK = {"data": ["diabetes"], "seeds": [3, 3, 3], "budgets": [5, 20]}
PAPER = ("iris", "diabetes", "census", "independent", "correlated")
OVER = {"data": (*PAPER, "forest")}
LEVERAGE, REGRESSION, AUTO = "LeverageSHAP", "RegressionMSR", "ours, auto"


class Games(NamedTuple):
    """Rows of a model with one output, each of them a game.

    Attributes:
        value: of rows and coalitions.
        x: rows, `[rows, players]`.
        phi: their Shapley values, `[rows, players]`.
    """

    value: Any
    x: Tensor
    phi: Float[Tensor, "rows players"]


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Columns as numbers, and what is to be predicted."""
    import shap.datasets
    from sklearn import datasets

    if name == "census":
        data = census()
        frame: Any = data.features
        codes = frame.select_dtypes(exclude="number").columns
        frame = frame.assign(**{c: frame[c].astype("category").cat.codes for c in codes})
        return frame.to_numpy(float), np.asarray(data.labels, dtype=float)
    if name in ("iris", "diabetes"):
        found = getattr(datasets, f"load_{name}")()
        return found.data, found.target.astype(float)
    of = {"independent": "independentlinear60", "correlated": "corrgroups60"}
    x, y = getattr(shap.datasets, of[name])()
    return x.to_numpy(), y


def games(name: str, rows: int) -> Games:
    """Random rows of a table, explained of a model that is fitted here."""
    import shap
    import xgboost
    from sklearn.ensemble import RandomForestRegressor

    boosted = xgboost.XGBRegressor(n_estimators=100, max_depth=4, n_jobs=1)
    forest = RandomForestRegressor(20, max_depth=12, random_state=0)
    x, y = table("census" if name == "forest" else name)
    model = (forest if name == "forest" else boosted).fit(x, y)
    random, baseline = np.random.default_rng(0), x.mean(0)
    chosen = x[random.integers(len(x), size=rows)]
    # Every player has another value than the baseline, as in the benchmark.
    while (same := chosen == baseline).any():
        chosen = np.where(same, x[random.integers(len(x), size=rows)], chosen)
    explainer = shap.TreeExplainer(
        model, data=baseline[None], feature_perturbation="interventional"
    )
    phi = torch.from_numpy(np.asarray(explainer.shap_values(chosen), dtype=np.float64))

    def value(x: Float[Tensor, "b n"], mask: Bool[Tensor, "b m n"]) -> Float[Tensor, "b m 1"]:
        rows = np.where(mask.numpy(), x[:, None].numpy(), baseline)
        found = model.predict(rows.reshape(-1, rows.shape[2])).astype(np.float64)
        return torch.from_numpy(found).reshape(*mask.shape[:2], 1)

    return Games(value, torch.from_numpy(chosen), phi)


def estimated(side: str, played: Games, budget: int, seed: int) -> Tensor:
    x = played.x[[seed]]
    if side == AUTO:
        return ms.auto_shapley(played.value, x, evaluations=budget, seed=seed).phi[0, :, 0]
    return by_shapiq(side, lambda m: played.value(x, m)[0, :, 0], x.shape[1], budget, seed)


def measure(
    name: str,
    seeds: Sequence[int] = (100, 40, 20),  # rows and seeds for up to 10, up to 20, more players
    budgets: Sequence[int] = (5, 10, 20, 40, 80, 160),  # evaluations per player
) -> dict[str, Any]:
    """Errors of all sides on one data set."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        played = games(name, max(seeds))
        players = played.phi.shape[1]
        several = seeds[(players > 10) + (players > 20)]
        found: dict[str, list[dict[str, Any]]] = {}
        for side in (AUTO, *SHAPIQ):
            for budget in budgets:
                errors = []
                try:
                    for seed in range(several):
                        phi = estimated(side, played, budget * players // 2 * 2, seed)
                        gap = phi.double() - played.phi[seed]
                        errors.append(float(gap.norm() / played.phi[seed].norm()))
                except (ValueError, IndexError):
                    # Too few values, more than coalitions, or an older shapiq.
                    continue
                error, standard = spread(errors, of_mean=True)
                point = {"budget": budget, "error": error, "standard_error": standard}
                found.setdefault(side, []).append(point)
    return {"players": players, "sides": found}


def against(entry: Mapping[str, Any], other: str) -> dict[int, float]:
    """Error of `auto` over that of another side, by budget, where coalitions are sampled."""
    by = {one["budget"]: one["error"] for one in entry["sides"].get(other, [])}
    return {
        one["budget"]: one["error"] / by[one["budget"]]
        for one in entry["sides"].get(AUTO, [])
        if one["budget"] in by and not whole(entry, one["budget"])
    }


def whole(entry: Mapping[str, Any], budget: int) -> bool:
    """Whether so many evaluations are those of all coalitions: errors are of rounding."""
    return budget * entry["players"] >= 2 ** entry["players"] - 2


def means(found: Found) -> dict[str, float | None]:
    """Error of `auto` over LeverageSHAP's, geometric mean over budgets; None: both are exact."""
    ratios = {n: against(e, LEVERAGE) for n, e in found.items() if LEVERAGE in e["sides"]}
    return {name: geometric_mean(by.values()) if by else None for name, by in ratios.items()}


def claims(found: Found) -> list[Claim]:
    text = "error of `auto` over LeverageSHAP's, mean over budgets, at most 1/2.6"
    made = []
    for name, ratio in means(found).items():
        if name in PAPER:
            rival = against(found[name], REGRESSION)
            ours = "both exact" if ratio is None else f"{ratio:.3f}"
            its = ratio / geometric_mean(rival.values()) if ratio and rival else None
            why = f"RegressionMSR's error is {its:.3g} times LeverageSHAP's here" if its else ""
            holds = ratio is None or ratio <= 1 / 2.6
            made.append(Claim(f"{name}: {text}", "RegressionMSR: 1/2.6", ours, holds, why))
    return made


def tables(found: Found) -> list[Table]:
    """Errors of all sides by evaluations per player."""
    errors = {
        f"{name}, {one['players']} players, {side}": {
            str(p["budget"]): (p["error"], p["standard_error"]) for p in points}
        for name, one in found.items() for side, points in one["sides"].items()
    }  # fmt: skip
    return [records("evaluations per player", errors)]


def summary(found: Found) -> dict[str, Any]:
    return {name: ratio for name, ratio in means(found).items() if ratio is not None}


def figures(found: Found) -> Figures:
    """Error of `auto` and of the peers against budget; exact values are left out."""
    panels = []
    for name, entry in found.items():
        drawn = {
            side: [(p["budget"], p["error"]) for p in points if not whole(entry, p["budget"])]
            for side, points in entry["sides"].items()
        }
        drawn = {side: points for side, points in drawn.items() if points}
        if len(drawn) > 1:
            title = f"{name}, {entry['players']} players"
            panels.append(draw.Panel(title, "evaluations per player", "relative error", drawn))
    return {"": draw.curves(panels)} if panels else {}
