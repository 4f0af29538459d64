"""The R package shapr publishes MSEv of its approaches, the mean squared difference of v(S) from
the prediction over test rows and over coalitions, but the empty and the full one, of equal weight
(Frye et al. 2021, Eq. 16). `support/shapr.json` has the figures, the places in shapr's repository
that they are from, and the test rows. Here are the value functions of this package by the same
figure, without the variance of draws, for the same models of xgboost. Nothing is chosen on test
rows. `support/airquality.csv` is R's data set without its rows with missing cells.

Of the bicycles shapr averages over coalitions that it draws by Shapley's kernel with their
complements, until it has so many different ones: the fewer, the more of them are small or large.
Beside its figures, ours are of as many coalitions, a mean of many sets drawn in the same way. All
rows and coalitions share the 1,000 draws of shapr: other draws move its MSEv of airquality, of the
Gaussian, by a standard deviation of 2 %.
"""

import json
from collections.abc import Sequence
from math import comb
from typing import Any

import pandas as pd
import torch
from torch import Tensor
from xgboost import XGBRegressor

import manifold_shap as ms
from benchmarks.report import ROOT, Found, Table, records, spread
from benchmarks.truth.value_functions import chosen_and_all
from manifold_shap.candidates import FAST, SLOW
from manifold_shap.coalitions import all_coalitions
from manifold_shap.data import sources
from manifold_shap.quality import OFF_MANIFOLD

TITLE = "Beside the figures that shapr publishes"
CAPTION = "MSEv of the choice of `ms.Explainer` over the least of shapr's approaches"
ERRORS = "standard errors over test rows, or deviations over sets of coalitions"
QUICK = {"names": ["airquality"], "draws": 16, "fitted": ["gaussian"]}
SUPPORT = ROOT / "benchmarks/support"
DAYS = "https://raw.githubusercontent.com/NorskRegnesentral/shapr/master/inst/extdata/day.csv"
# By table: source, rounds of xgboost, rows that are explained, and MSEv of approaches with how many
# coalitions each used, the empty and the full one among them. Of some 25 variants of regressions
# there are the best of either kind, and those by trees and boosting with default settings.
PUBLISHED = json.loads((SUPPORT / "shapr.json").read_text())
OVER = {"names": tuple(PUBLISHED)}
SAME = {"independence": OFF_MANIFOLD, "vaeac": "vae"}  # What shapr calls our value functions.


def measure(
    name: str,
    draws: int = 500,  # of a coalition; off the manifold, all training rows
    fitted: Sequence[str] = (*FAST, *SLOW),
    sets: int = 2000,  # of coalitions, where shapr has not used all
) -> dict[str, Any]:
    """MSEv by value function, of one table."""
    published, (frame, y) = PUBLISHED[name], data_of(name)
    train = frame.index.difference(published["explained"])
    own, rows = (frame.loc[some].reset_index(drop=True) for some in (train, published["explained"]))
    model = XGBRegressor(n_estimators=published["rounds"]).fit(own, y[train])
    gap = model.predict(rows) - y[published["explained"]]
    chosen, values = chosen_and_all(model, own, fitted)
    every = all_coalitions(frame.shape[1])[1:-1]
    counts = sorted({used for _, used in published["figures"].values()} - {len(every) + 2})
    kept = {count: drawn(every, count - 2, sets) for count in counts}
    found = {}
    for which, value in values.items():
        precise = value.with_draws(len(own) if which == OFF_MANIFOLD else draws)
        error = by_coalition(precise, precise.rows(rows), every)
        means = {n: spread((some @ error.mean(0)).tolist()) for n, some in kept.items()}
        found[which] = {"all": spread(error.mean(1).tolist(), of_mean=True), "as many": means}
    return {"of model": float(gap.pow(2).mean() ** 0.5), "chosen": chosen, "ours": found}


def data_of(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Features and labels of all rows, as shapr has them."""
    if name == "airquality":
        frame = pd.read_csv(SUPPORT / "airquality.csv")
        return frame, frame.pop("Ozone")
    days = pd.read_csv(sources.require("bike/day.csv", DAYS), parse_dates=["dteday"])
    # The vignette's clock has summer time, the paper's has none.
    dates = days["dteday"].dt.tz_localize("Europe/Oslo" if name == "bike" else "UTC")
    trend = (dates - dates[0]) / pd.Timedelta(days=1)
    # Of an angle below a turn, as R has it: equal cosines are equal to the last digit.
    turn = torch.tensor(trend / 365 * 2)
    columns = {
        "trend": trend,
        "cosyear": (turn % 2 * torch.pi).cos(),
        "sinyear": (((turn + 1) % 2 - 1) * torch.pi).sin(),
        "temp": days["temp"] * 47 - 8,
        "atemp": days["atemp"] * 66 - 16,
        "windspeed": 67 * days["windspeed"],
        "hum": 100 * days["hum"],
    }
    return pd.DataFrame(columns), days["cnt"]


def by_coalition(value: ms.ValueFunction, x: Tensor, coalitions: Tensor) -> Tensor:
    """Squared errors without the variance of draws, `[rows, coalitions]`."""
    errors, prediction = [], value.prediction(x)[:, None]
    keys = torch.arange(len(coalitions) * len(x)).view(len(coalitions), len(x), 1)
    for key, mask in zip(keys, coalitions, strict=True):
        found = value.estimate(x, mask.expand(len(x), 1, -1), key)
        errors.append((found.values - prediction).square() - found.noise())
    return torch.cat(errors, 1)[..., 0].double()


def drawn(coalitions: Tensor, count: int, sets: int) -> Tensor:
    """Weights of coalitions in random sets of so many, with complements, `[sets, coalitions]`."""
    half, players = len(coalitions) // 2, coalitions.shape[1]
    sizes = coalitions[:half].sum(1).tolist()  # The complement of the first is the last.
    kernel = torch.tensor([1 / (size * (players - size) * comb(players, size)) for size in sizes])
    generator = torch.Generator().manual_seed(0)
    picked = kernel.expand(sets, -1).multinomial(count // 2, generator=generator)
    one_side = torch.zeros(sets, half).double().scatter(1, picked, 1 / count)
    return torch.cat((one_side, one_side.flip(1)), 1)


def beside(name: str, one: Found) -> dict[str, dict[str, Any]]:
    """By approach of shapr; ours over as many coalitions."""
    rows = {}
    for approach, (figure, used) in PUBLISHED[name]["figures"].items():
        ours = {k: v["as many"].get(str(used), v["all"]) for k, v in one["ours"].items()}
        same, choice = ours.get(SAME.get(approach, approach)), ours[one["chosen"]]
        rows[approach] = {"coalitions": used, "MSEv of shapr": float(figure), "here": same}
        rows[approach] |= {"choice of `ms.Explainer`": choice, "over shapr": choice[0] / figure}
    return rows


def tables(found: Found) -> list[Table]:
    made = []
    for name, one in found.items():
        made.append(records(f"{name}, shapr", beside(name, one)))
        means = {which.replace("_", " "): each["all"] for which, each in one["ours"].items()}
        off, here = means[OFF_MANIFOLD][0], dict[str, dict[str, Any]]()
        for which, mean in means.items():
            here[which] = {"MSEv, all coalitions": mean, "over off manifold": mean[0] / off}
        of_model = f"{name}, whose model has a root mean squared error of {one['of model']:.2f}"
        made.append(records(of_model, here))
    return made


def summary(found: Found) -> dict[str, Any]:
    rows = {name: beside(name, one).values() for name, one in found.items()}
    return {name: max(row["over shapr"] for row in of) for name, of in rows.items()}
