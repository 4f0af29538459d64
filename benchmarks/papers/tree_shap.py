"""TreeSHAP beside marginal and conditional values (Carballo, Section 3.6.2).

The thesis says that TreeSHAP explains by the conditional expectation. Here are both forms of it
that the package shap has, path-dependent and interventional, beside marginal and conditional values
of the same trees, for bicycles rented per day. One model has never seen the season: what a method
gives to it nevertheless, it gives because the weather tells it.
"""

from typing import Any

import torch
from matplotlib.figure import Figure

from benchmarks import style
from benchmarks.plots import LEGEND, grouped_bars
from benchmarks.report import Claim, Found, Table, number, records
from benchmarks.support.differences import apart, gap, sure
from benchmarks.support.packages import require
from benchmarks.support.tree_values import (
    BLIND,
    BOOSTED,
    CONDITIONAL,
    FOREST,
    INTERVENTIONAL,
    MARGINAL,
    PATH,
    days_of,
    explained,
    fitted,
    of_season,
    values,
)

TITLE = "TreeSHAP beside marginal and conditional values"
SOURCE = "Carballo, Section 3.6.2; Lundberg et al. (2020)"
ERRORS = "standard errors of means over days"
QUICK = {"trees": 10, "draws": 16, "days": 20}
ROUNDING = 1e-6


def run(
    trees: int = 50,  # of each ensemble
    draws: int = 64,  # completions of a coalition, where they are random
    days: int | None = None,  # to explain, two or more; None: all that the model has not seen
    seed: int = 0,  # of the split, the models and the draws
) -> dict[str, Any]:
    """Values of the same days by all methods for each ensemble, and processor seconds."""
    require("shap", "shap")
    if (days or 2) < 2:
        raise ValueError(f"Expected 2 or more `days` but got {days}.")
    data = days_of(seed, days)
    return {
        "days": len(data.dates),
        "ensembles": {
            name: explained(fitted(name, data, trees, seed), data, draws, seed)
            for name in (FOREST, BOOSTED, BLIND)
        },
    }


def claims(found: Found) -> list[Claim]:
    made = []
    phi = {name: values(one) for name, one in found["ensembles"].items()}
    for name in (FOREST, BOOSTED):
        off, *on = (apart(phi[name][PATH], phi[name][way]) for way in (MARGINAL, *CONDITIONAL))
        told = ", ".join(number(each.mean().item()) for each in on)
        text = f"{name}: path-dependent values are nearer to conditional than to marginal ones"
        ours = f"{told} bicycles from conditional, {number(off.mean().item())} from marginal ones"
        why = "at a split on an absent feature both branches count, whatever others say of it"
        holds = all(sure(gap(off, each)) for each in on)
        made.append(Claim(text, "by the conditional expectation", ours, holds, why))
    tree, *shares = (of_season(phi[BLIND][way]) for way in (PATH, *CONDITIONAL))
    sums, gaps, times = [], [], []
    for name, one in found["ensembles"].items():
        own, prediction = phi[name], torch.tensor(one["prediction"])
        left = prediction - one["base"][PATH] - own[PATH].sum(1)
        sums.append(float(left.abs().max() / prediction.abs().max()))
        apart_most = (own[INTERVENTIONAL] - own[MARGINAL]).abs().max()
        gaps.append(float(apart_most / own[MARGINAL].abs().max()))
        fastest = min(one["seconds"][way] for way in (MARGINAL, *CONDITIONAL))
        times.append(fastest / one["seconds"][PATH])
    return [
        *made,
        Claim("a season that the model does not use has a value, as the weather tells it: at least "
              "half of the share that conditional values give to it",
              "by the conditional expectation",
              f"{tree:.0%} of Σ|φ| against {min(shares):.0%} or more", tree > min(shares) / 2,
              "no tree splits on the season, so none follows it"),
        Claim("given all features, the expectation is the prediction", "Section 3.6.2",
              f"up to {number(max(sums))} of the largest apart", max(sums) < ROUNDING),
        Claim("interventional values, added tree by tree, are those of our marginal game of the "
              "whole ensemble", "additivity; Lundberg et al. (2020)",
              f"up to {number(max(gaps))} of the largest apart", max(gaps) < ROUNDING),
        Claim("path-dependent values take less time than the enumeration of all coalitions",
              "more efficient", f"{number(min(times))} times less, or better", min(times) > 1),
    ]  # fmt: skip


def tables(found: Found) -> list[Table]:
    bases = {name: one["base"] for name, one in found["ensembles"].items()}
    return [records("prediction given no feature, bicycles", bases)]


def figures(found: Found) -> dict[str, Figure]:
    """How far the others are from path-dependent TreeSHAP, and what each takes."""
    distances, times = {}, {}
    for name in (FOREST, BOOSTED):
        phi, took = values(found["ensembles"][name]), found["ensembles"][name]["seconds"]
        far = {way: apart(own, phi[PATH]).mean().item() for way, own in phi.items()}
        distances[name] = {way: each for way, each in far.items() if way != PATH}
        times[name] = {way: 1000 * each / found["days"] for way, each in took.items()}
    figure = style.laid_out(3.8, 8.0)
    left, right = figure.subplots(1, 2)
    title = "How far from path-dependent TreeSHAP"
    grouped_bars(left, distances, title, "bicycles at other features, mean over days")
    grouped_bars(right, times, "What each takes", "processor time (ms per day)", log=True)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2, **LEGEND)
    return {"": figure}
