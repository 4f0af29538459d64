"""Twenty noisy readings of one hidden bit; outliers read its opposite in the first five (Eqs.
11-12), and an isolation forest finds them. An explanation is wrong unless these five features have
the five largest Shapley values. The paper does not give the settings of its forests, on which the
share of wrong explanations depends more than on the noise.
"""

from collections.abc import Sequence
from statistics import mean
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from scipy.stats import wasserstein_distance
from sklearn.ensemble import IsolationForest
from torch import Tensor

import manifold_shap as ms
from benchmarks import draw
from benchmarks.report import Claim, Figures, Found, cell, number, spread
from manifold_shap import _random
from manifold_shap.coalitions import Coalitions, Listed
from manifold_shap.imputers.base import Completions

TITLE = "Outliers are explained wrongly off the manifold"
SOURCE = "Frye et al. (2021), Section 3.2, Fig. 3"
ERRORS = "standard errors, over coalitions or over forests"
QUICK = {"sigmas": [0.01, 0.05, 0.15], "more_trees": [400], "number_of_forests": 3,
         "outliers": 10, "orders": 256, "learned": [0.05], "epochs": 5}  # fmt: skip
FEATURES, BROKEN = 20, 5
ROWS, SHARE = 10_000, 0.01
OFF, ON = GAMES = ("off manifold", "on manifold")
# Coalitions without the five features that are broken, and with all of them.
INLIER, OUTLIER = KINDS = ("inlier", "outlier")
# How many of the other features join them: a uniform share, or as many as in random orders.
EVEN, ORDERS = LAWS = ("uniform share of the other features", "as in random orders of all features")
EACH, INLIERS, BINS = 16, 1000, 50  # Coalitions of an outlier, actual inliers, of the histograms.
SHOWN = 0.05  # The noise of Figs. 3(e) and (f).
# Of wrong explanations off the manifold, told of Fig. 3(d) in the text at the least and most noise.
BOUNDS = {"a quarter": 0.25, "two thirds": 2 / 3}
SCATTER = "scatter of the five"  # Standard deviation of their values, over their mean lead.
# Ours: "dramatically" fewer are wrong, "fabricated" outliers, none, and far scores.
FEWER, FABRICATED, AGREED, FARTHER = 1 / 3, 0.1, 0.01, 2.0


class TrueConditional(ms.imputers.Imputer):
    """p(x'|x_S) of Eqs. (11) and (12): a component by what is present, and noise around its mean.

    The components have one scale, so that this is quicker than `ms.oracles.OracleImputer`.
    """

    name = "true_conditional"

    def __init__(self, means: Tensor, sigma: float, reference: Tensor) -> None:
        super().__init__(reference)
        self.means, self.sigma = means, sigma
        self.log_weights = torch.tensor([1 - SHARE, 1 - SHARE, SHARE, SHARE]).log()

    def impute(self, x: Tensor, coalitions: Coalitions, draws: range) -> Completions:
        """See `Imputer.impute`."""
        mask, keys = coalitions.masks(), coalitions.each_key()
        apart = (x[:, None] - self.means).square() / (-2 * self.sigma**2)
        weights = (self.log_weights + mask.float() @ apart.mT).softmax(-1)
        uniform = _random.uniform(_random.fold(keys, 0), (), draws)
        component = torch.searchsorted(weights.cumsum(-1), uniform).clamp(max=3)
        noise = self.sigma * _random.normal(_random.fold(keys, 1), (FEATURES,), draws)
        return Completions(self.splice(x, mask, self.means[component] + noise))


class Detector:
    """A data set, its forest, and the two games of the paper.

    Args:
        sigma: noise of the data.
        trees: of the forest.
        seed: of the data set, of the forest, and of what is learned.
        outliers: how many are explained.
        orders: of the players, with their reverses, for each of them.

    Attributes:
        x, is_outlier: rows of the data set, and which are outliers: exactly a hundredth.
        misjudged: rows that the forest takes for the wrong kind.
        values: games of its score, off and on the manifold.
    """

    def __init__(self, sigma: float, trees: int, seed: int, outliers: int, orders: int) -> None:
        self.seed, self.outliers, self.orders = seed, outliers, orders
        bit = torch.tensor([0.0, 1.0])[:, None].expand(2, FEATURES)
        means = torch.cat((bit, torch.where(torch.arange(FEATURES) < BROKEN, 1 - bit, bit)))
        generator = torch.Generator().manual_seed(seed)
        self.is_outlier = torch.arange(ROWS) < SHARE * ROWS
        component = 2 * self.is_outlier + torch.randint(2, (ROWS,), generator=generator)
        self.x = means[component] + sigma * torch.randn(ROWS, FEATURES, generator=generator)
        self.forest = IsolationForest(n_estimators=trees, contamination=SHARE, random_state=seed)
        said = torch.from_numpy(self.forest.fit_predict(self.x.numpy()) == -1)
        self.misjudged = int((said != self.is_outlier).sum())
        self.model = ms.Model(self.score, ("outlier score",), "values")
        self.values = {
            OFF: self.imputed(ms.imputers.MarginalImputer(self.x)),
            ON: self.imputed(TrueConditional(means, sigma, self.x)),
        }

    def score(self, x: Tensor) -> Float[Tensor, "rows 1"]:
        """Positive where the forest says outlier."""
        return -torch.from_numpy(self.forest.decision_function(x.numpy())).float()[:, None]

    def imputed(self, imputer: ms.imputers.Imputer) -> ms.ImputedValue:
        # One draw is enough: completions in other orders are others.
        return ms.imputed_value(self.model, imputer, space="identity", draws=1)

    def learned(self, epochs: int) -> dict[str, ms.ValueFunction]:
        """A surrogate and a VAE of these rows, each trained for so many epochs."""
        settings: Any = {"max_epochs": epochs, "seed": self.seed, "trainer": {"accelerator": "cpu"}}
        surrogate = ms.fit_surrogate(self.model, self.x, space="identity", **settings)
        vae = ms.fit_imputer(self.x, posterior="encoder", least_scale=0.01, **settings)
        return {"surrogate": surrogate, "VAE": self.imputed(vae)}

    def explain(self, value: ms.ValueFunction) -> ms.Explanation:
        """The first outliers."""
        x = self.x[self.is_outlier][: self.outliers]
        return ms.permutation_shapley(value, x, permutations=self.orders, seed=self.seed)

    def wrong(self, epochs: int) -> dict[str, float]:
        """Shares of wrong explanations, also of what is learned where there are epochs for it.

        And how much the five values scatter off the manifold, over their lead.
        """
        values = self.values | (self.learned(epochs) if epochs else {})
        phi = {name: self.explain(one).phi[..., 0] for name, one in values.items()}
        five, others = phi[OFF][:, :BROKEN], phi[OFF][:, BROKEN:]
        scatter = float(five.std(1).mean() / (five.mean() - others.mean()))
        return {name: error_rate(one) for name, one in phi.items()} | {SCATTER: scatter}

    def scores(self, law: str) -> dict[str, dict[str, Any]]:
        """By kind: shares taken for the other kind, and histograms.

        And distances of outlier coalitions from actual outliers, of all and of those that hold more
        than the five features; and the share of the others.
        """
        x = self.x[self.is_outlier]
        keys = torch.arange(len(x))[:, None].expand(-1, EACH)
        actual = {INLIER: self.x[~self.is_outlier][:INLIERS], OUTLIER: x}
        outputs: dict[str, dict[str, np.ndarray]] = {}
        for kind in KINDS:
            some = Listed(coalitions(len(x), kind, law), keys)
            outputs[kind] = {"data": self.score(actual[kind])[:, 0].numpy()}
            for name in GAMES:
                completed = self.values[name].imputer.impute(x, some, range(1)).rows
                outputs[kind][name] = self.score(completed.flatten(0, 2))[:, 0].numpy()
        joined = coalitions(len(x), OUTLIER, law)[..., BROKEN:].any(-1).flatten().numpy()
        apart = {n: [wasserstein_distance(outputs[OUTLIER][n][some], outputs[OUTLIER]["data"])
                     for some in (joined | True, joined)] for n in GAMES}  # fmt: skip
        every = np.concatenate([each for by in outputs.values() for each in by.values()])
        edges = np.histogram_bin_edges(every, BINS)
        shown: dict[str, dict[str, Any]] = {
            kind: {
                "mistaken": {n: float(((by[n] > 0) != (kind == OUTLIER)).mean()) for n in GAMES},
                "edges": edges.tolist(),
                "density": {
                    n: np.histogram(s, edges, density=True)[0].tolist() for n, s in by.items()
                },
            }
            for kind, by in outputs.items()
        }
        shown[OUTLIER] |= {"distance": apart, "alone": float(1 - joined.mean())}
        return shown


def error_rate(phi: Float[Tensor, "rows features"]) -> float:
    """Share of rows in which the first five features do not have the five largest values."""
    return (phi[:, :BROKEN].amin(1) <= phi[:, BROKEN:].amax(1)).double().mean().item()


def coalitions(count: int, kind: str, law: str) -> Bool[Tensor, "count coalitions features"]:
    """Of one kind, for so many rows."""
    generator = torch.Generator().manual_seed(0)
    each = torch.rand(count, EACH, FEATURES, generator=generator)
    share = torch.rand(count, EACH, 1, generator=generator)
    if law == ORDERS:
        # A uniform share p of all features holds these five with probability p^5: given that it
        # does, p^6 is uniform; and given that it has none of them, (1 - p)^6 is.
        share = share ** (1 / (BROKEN + 1))
        share = share if kind == OUTLIER else 1 - share
    others, first = each < share, torch.arange(FEATURES) < BROKEN
    return others | first if kind == OUTLIER else others & ~first


def run(
    sigmas: Sequence[float] = (0.01, 0.03, 0.05, 0.07, 0.09, 0.11, 0.13, 0.15),  # of the noise
    trees: int = 100,  # of each forest
    more_trees: Sequence[int] = (200, 400),  # of more forests, at the least and the most noise
    number_of_forests: int = 5,  # of each kind, each with a data set of its own
    outliers: int = 20,  # how many to explain with each
    orders: int = 1024,  # of the players, half of them reverses of the others
    learned: Sequence[float] = (0.05, 0.15),  # sigmas at which a surrogate and a VAE are trained
    epochs: int = 8,  # of their trainings
) -> dict[str, Any]:
    """Error rates of explanations by noise, and scores of completed coalitions."""
    ends = sorted({min(sigmas), max(sigmas)})
    kinds = [(trees, s) for s in sigmas] + [(count, s) for count in more_trees for s in ends]
    wrong = []
    for count, sigma in kinds:
        made = [Detector(sigma, count, each, outliers, orders) for each in range(number_of_forests)]
        longest = epochs if count == trees and sigma in learned else 0
        shares = pd.DataFrame([one.wrong(longest) for one in made]).to_dict("list")
        point = {"trees": count, "sigma": sigma, "misjudged": max(one.misjudged for one in made)}
        wrong.append({**point, SCATTER: mean(shares.pop(SCATTER)), "wrong": shares})
    shown = min(sigmas, key=lambda sigma: abs(sigma - SHOWN))
    data = Detector(shown, trees, 0, outliers, orders)
    return {"forests": wrong, "shown": shown, "scores": {law: data.scores(law) for law in LAWS}}


def first_of(found: Found) -> list[Any]:
    """The forests of the first size."""
    return [one for one in found["forests"] if one["trees"] == found["forests"][0]["trees"]]


def claims(found: Found) -> list[Claim]:
    first = first_of(found)
    trees, misjudged = first[0]["trees"], max(one["misjudged"] for one in first)
    noisy = [one for one in found["forests"] if one["sigma"] == first[-1]["sigma"]]
    why = ", ".join(f"{o['misjudged']} with {o['trees']} trees" for o in noisy)
    made = [Claim(f"{trees} trees separate all outliers from all inliers", "100 %",
                  f"up to {misjudged} rows wrong", not misjudged,
                  f"at σ = {noisy[0]['sigma']}: {why}")]  # fmt: skip
    for count in dict.fromkeys(one["trees"] for one in found["forests"]):
        of = {one["sigma"]: one for one in found["forests"] if one["trees"] == count}
        for sigma, (words, bound) in zip((min(of), max(of)), BOUNDS.items(), strict=True):
            share, (few,) = mean(of[sigma]["wrong"][OFF]), (o for o in first if o["sigma"] == sigma)
            text = f"{count} trees, σ = {sigma}: {words} or more are wrong off the manifold"
            why = (f"the five values scatter by {of[sigma][SCATTER]:.0%} of their lead over the "
                   f"others, of {trees} trees by {few[SCATTER]:.0%}")  # fmt: skip
            made.append(Claim(text, number(bound), number(share), share >= bound, why))
    off, on = ([mean(one["wrong"][game]) for one in first] for game in GAMES)
    worst = max(b / a if a else 1.0 for a, b in zip(off, on, strict=True))
    text = f"{trees} trees: at every noise at most a third as many are wrong on the manifold"
    made.append(Claim(text, "Fig. 3(d)", f"up to {number(worst)} times as many", worst <= FEWER))
    for law, kinds in found["scores"].items():
        taken, apart = kinds[INLIER]["mistaken"], kinds[OUTLIER]["distance"]
        for game, words, bound in ((OFF, "a tenth or more", FABRICATED),
                                   (ON, "less than a hundredth", AGREED)):  # fmt: skip
            text = f"{game}: {words} of the inlier coalitions are taken for outliers ({law})"
            share, holds = taken[game], (taken[game] < bound) == (game == ON)
            error = (share * (1 - share) / (SHARE * ROWS * EACH)) ** 0.5
            why = f"by {number(abs(share - bound) / (error or 1.0))} standard errors"
            made.append(Claim(text, "Fig. 3(e)", cell((share, error or None)), holds, why))
        text = "scores of outlier coalitions are more than twice as far from those of outliers off "
        text += f"the manifold as on it ({law})"
        (off, on), without = zip(*map(apart.get, GAMES), strict=True)
        why = f"{kinds[OUTLIER]['alone']:.0%} are the five broken features alone, which an inlier "
        why += f"can have; without these it is {' against '.join(map(number, without))}"
        ours = f"{number(off)} against {number(on)} (Wasserstein)"
        made.append(Claim(text, "Fig. 3(f)", ours, off > FARTHER * on, why))
    return made


def figures(found: Found) -> Figures:
    """Shares of wrong explanations with errors over forests, and scores of coalitions."""
    figure, (left, *right) = draw.grid(3, 2.9)
    names = dict.fromkeys(name for one in first_of(found) for name in one["wrong"])
    for name, mark in zip(names, draw.MARKS, strict=False):
        has = {o["sigma"]: o["wrong"][name] for o in first_of(found) if name in o["wrong"]}
        middle, errors = zip(*(spread(s, of_mean=True) for s in has.values()), strict=True)
        left.errorbar(list(has), middle, 2 * np.nan_to_num(np.array(errors, float)),
                      fmt=f"{mark}-" if name in GAMES else mark, label=name)  # fmt: skip
    left.set(ylim=(-0.02, 1.02), title="Share of wrong explanations", xlabel="noise σ")
    colours = (draw.NEUTRAL, *draw.SERIES)
    for axes, (kind, by) in zip(right, found["scores"][EVEN].items(), strict=True):
        for (name, density), colour in zip(by["density"].items(), colours, strict=False):
            axes.stairs(density, by["edges"], color=colour, label=f"{name}, scores")
        axes.set(title=f"Model on {kind} coalitions", xlabel=f"score, σ = {found['shown']}")
    draw.legend(figure, "Whiskers: two standard errors.")
    return {"": figure}
