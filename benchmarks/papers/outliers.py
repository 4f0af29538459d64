"""Explanations of outliers off and on the manifold (Frye et al. 2021, Section 3.2, Fig. 3).

Twenty noisy readings of one hidden bit; outliers read its opposite in the first five (Eqs. 11-12).
An isolation forest finds them. The reason why a row is an outlier is known, so an explanation is
wrong unless these five features have the five largest Shapley values.
"""

from collections.abc import Sequence
from statistics import mean
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks import style
from benchmarks.plots import label_axes, legend_below
from benchmarks.report import Claim, Found, Table, number, records
from benchmarks.support import forests
from benchmarks.support.forests import EVEN, GAMES, INLIER, LAWS, OFF, ON, OUTLIER

TITLE = "Outliers are explained wrongly off the manifold"
SOURCE = "Frye et al. (2021), Section 3.2, Fig. 3"
ERRORS = "standard errors over forests"
QUICK = {
    "sigmas": [0.01, 0.05, 0.15], "more_trees": [400], "number_of_forests": 3, "outliers": 10,
    "orders": 256, "learned": [0.05], "epochs": 5,
}  # fmt: skip
SHOWN = 0.05  # The noise of Figs. 3(e) and (f).
# Of wrong explanations off the manifold, told of Fig. 3(d) in the text at the least and most noise.
BOUNDS = {"a quarter": 0.25, "two thirds": 2 / 3}
# Our bounds for "dramatically" fewer wrong explanations on the manifold; for "fabricated" outliers
# among completed inlier coalitions, and none; and for scores that "differ dramatically".
FEWER, FABRICATED, AGREED, FARTHER = 1 / 3, 0.1, 0.01, 2.0


def run(
    sigmas: Sequence[float] = (0.01, 0.03, 0.05, 0.07, 0.09, 0.11, 0.13, 0.15),  # of the noise
    trees: int = 100,  # of each forest
    more_trees: Sequence[int] = (200, 400),  # of more forests, at the least and the most noise
    number_of_forests: int = 5,  # of each kind, each with a data set of its own
    outliers: int = 20,  # how many to explain with each
    orders: int = 1024,  # of the players, half of them reverses of the others
    draws: int = 1,  # completions of a coalition; those of other orders are others
    learned: Sequence[float] = (0.05, 0.15),  # sigmas at which a surrogate and a VAE are trained
    epochs: int = 8,  # of their trainings
    seed: int = 0,  # of the first forest and its data; the others have the next ones
) -> dict[str, Any]:
    """Error rates of explanations by noise, and scores of completed coalitions."""
    if unknown := set(learned) - set(sigmas):
        raise ValueError(
            f"Expected `learned` to be some of `sigmas` but got {sorted(unknown)} too."
        )
    effort = {"outliers": outliers, "orders": orders, "draws": draws}
    seeds = range(seed, seed + number_of_forests)
    ends = sorted({min(sigmas), max(sigmas)})
    kinds = [(trees, s) for s in sigmas] + [(count, s) for count in more_trees for s in ends]
    wrong = []
    for count, sigma in kinds:
        made = [forests.Detector(sigma, count, each, **effort) for each in seeds]
        extra = epochs if count == trees and sigma in learned else 0
        games = [one.values | (one.learned(extra) if extra else {}) for one in made]
        shares = {
            name: [one.wrong(values[name]) for one, values in zip(made, games, strict=True)]
            for name in games[0]
        }
        misjudged = max(one.misjudged for one in made)
        wrong.append({"trees": count, "sigma": sigma, "misjudged": misjudged, "wrong": shares})
        print(wrong[-1], flush=True)
    shown = min(sigmas, key=lambda sigma: abs(sigma - SHOWN))
    data = forests.Detector(shown, trees, seed, **effort)
    return {
        "forests": wrong,
        "shown": shown,
        "scores": {law: forests.scores(data, law) for law in LAWS},
    }


def first_of(found: Found) -> list[Any]:
    """The forests of the first size."""
    return [one for one in found["forests"] if one["trees"] == found["forests"][0]["trees"]]


def claims(found: Found) -> list[Claim]:
    first = first_of(found)
    trees, misjudged = first[0]["trees"], max(one["misjudged"] for one in first)
    made = [Claim(f"{trees} trees separate all outliers from all inliers", "100 %",
                  f"up to {misjudged} rows wrong", not misjudged,
                  "outliers and inliers overlap at the largest noise")]  # fmt: skip
    for count in dict.fromkeys(one["trees"] for one in found["forests"]):
        of = {o["sigma"]: mean(o["wrong"][OFF]) for o in found["forests"] if o["trees"] == count}
        for sigma, (words, bound) in zip((min(of), max(of)), BOUNDS.items(), strict=True):
            text = f"{count} trees, σ = {sigma}: {words} or more are wrong off the manifold"
            why = "larger forests split all features about as often"
            made.append(Claim(text, number(bound), number(of[sigma]), of[sigma] >= bound, why))
    off, on = ([mean(one["wrong"][game]) for one in first] for game in GAMES)
    worst = max(b / a if a else 1.0 for a, b in zip(off, on, strict=True))
    made.append(Claim(
        f"{trees} trees: at every noise at most a third as many are wrong on the manifold as off "
        "it", "Fig. 3(d)", f"up to {number(worst)} times as many", worst <= FEWER,
    ))  # fmt: skip
    for law, kinds in found["scores"].items():
        taken, apart = kinds[INLIER]["mistaken"], kinds[OUTLIER]["distance"]
        are = "of the inlier coalitions are taken for outliers"
        made += [
            Claim(f"{OFF}: a tenth or more {are} ({law})", "Fig. 3(e)", number(taken[OFF]),
                  taken[OFF] >= FABRICATED),
            Claim(f"{ON}: less than a hundredth {are} ({law})", "Fig. 3(e)", number(taken[ON]),
                  taken[ON] < AGREED),
            Claim("scores of outlier coalitions are more than twice as far from those of actual "
                  f"outliers off the manifold as on it ({law})", "Fig. 3(f)",
                  f"{number(apart[OFF])} against {number(apart[ON])} (Wasserstein)",
                  apart[OFF] > FARTHER * apart[ON],
                  "the five broken features alone rightly look like an inlier"),
        ]  # fmt: skip
    return made


def tables(found: Found) -> list[Table]:
    of_scores = {
        f"{kind} coalitions, {law}": {
            "taken for the other kind": by["mistaken"],
            "distance from actual rows": by["distance"],
        }
        for law, kinds in found["scores"].items()
        for kind, by in kinds.items()
    }
    return [records(f"scores, σ = {found['shown']}", of_scores)]


def figures(found: Found) -> dict[str, Figure]:
    """Means over forests with whiskers from the least to the most, and scores of coalitions."""
    figure = style.laid_out(2.9, 7.5)
    left, *right = figure.subplots(1, 3)
    style.strip(left, grid="y")
    first = first_of(found)
    names = dict.fromkeys(name for one in first for name in one["wrong"])
    for k, (name, colour, marker) in enumerate(zip(names, style.SERIES, "os^D", strict=False)):
        has = [(one["sigma"], one["wrong"][name]) for one in first if name in one["wrong"]]
        middle = np.array([mean(shares) for _, shares in has])
        ends = np.array([(min(shares), max(shares)) for _, shares in has]).T
        # Methods stand side by side; those at a few scales of the noise have no line.
        where = np.array([sigma for sigma, _ in has]) + 0.003 * (k - len(names) / 2 + 0.5)
        look: dict[str, Any] = {"color": colour, "label": name, "markersize": 3.5}
        look["fmt"] = f"{marker}-" if name in GAMES else marker
        left.errorbar(where, middle, abs(ends - middle), elinewidth=0.8, **look)
    left.set_ylim(-0.02, 1.02)
    label_axes(left, "Share of wrong explanations", "noise σ")
    for axes, (kind, by) in zip(right, found["scores"][EVEN].items(), strict=True):
        style.strip(axes, grid="y")
        for colour, density in zip(
            (style.INK, *style.SERIES), by["density"].values(), strict=False
        ):
            axes.stairs(density, by["edges"], color=colour)
        axes.set_yticks([])
        label_axes(
            axes, f"Model on {kind} coalitions", f"outlier score, σ = {found['shown']}", "density"
        )
    left.plot([], [], color=style.INK, label="data")
    drawn, labels = left.get_legend_handles_labels()
    whiskers = "from the lowest to the highest of the forests"
    legend_below(figure, dict(zip(labels, drawn, strict=True)), len(labels), whiskers)
    return {"": figure}
