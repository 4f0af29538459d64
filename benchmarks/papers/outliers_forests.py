"""Isolation forests, games of their scores, and how many outliers these explain wrongly."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from sklearn.ensemble import IsolationForest
from torch import Tensor

import manifold_shap as ms
from benchmarks.papers.mixture import BROKEN, SHARE, Mixture, TrueConditional

OFF, ON = GAMES = ("off manifold", "on manifold")


@dataclass(frozen=True)
class Effort:
    """What goes into the explanations of a forest.

    Attributes:
        outliers: how many are explained.
        orders: of the players, with their reverses, for each of them.
        draws: completions of a coalition.
        seed: of the data set, of the forest, and of what is learned.
    """

    outliers: int
    orders: int
    draws: int
    seed: int


@dataclass(frozen=True)
class Judged:
    """Forests of one size at one noise.

    Attributes:
        misjudged: rows that a forest takes for the wrong kind, at most.
        wrong: share of wrong explanations of each forest, by game.
    """

    misjudged: int
    wrong: dict[str, list[float]]


class Found:
    """A data set, its forest, and the two games of the paper.

    Attributes:
        x: rows of the data set.
        is_outlier: which of them are outliers.
        forest: fitted to them.
        misjudged: rows that it takes for the wrong kind.
        values: games of its score, off and on the manifold.
    """

    def __init__(self, sigma: float, trees: int, effort: Effort) -> None:
        mixture = Mixture(sigma)
        self.effort = effort
        self.x, self.is_outlier = mixture.draw(effort.seed)
        self.forest = IsolationForest(
            n_estimators=trees, contamination=SHARE, random_state=effort.seed
        )
        said = torch.from_numpy(self.forest.fit_predict(self.x.numpy()) == -1)
        self.misjudged = int((said != self.is_outlier).sum())
        self.values = {
            OFF: self.imputed(ms.MarginalImputer(self.x)),
            ON: self.imputed(TrueConditional(mixture, self.x)),
        }

    def score(self, x: Tensor) -> Float[Tensor, "rows 1"]:
        """Positive where the forest says outlier."""
        return -torch.from_numpy(self.forest.decision_function(x.numpy())).float()[:, None]

    @property
    def model(self) -> ms.Model:
        return ms.Model(self.score, ("outlier score",), "values")

    def imputed(self, imputer: ms.Imputer) -> ms.ImputedValue:
        return ms.imputed_value(self.model, imputer, output="identity", draws=self.effort.draws)

    def learned(self, epochs: int) -> dict[str, ms.ValueFunction]:
        """A surrogate and a VAE of these rows, each trained for so many epochs."""
        settings: dict[str, Any] = {"max_epochs": epochs, "seed": self.effort.seed}
        settings["trainer"] = {"accelerator": "cpu"}
        surrogate = ms.fit_surrogate(self.model, self.x, output="identity", **settings)
        vae = ms.fit_imputer(self.x, posterior="encoder", least_scale=0.01, **settings)
        return {"surrogate": surrogate, "VAE": self.imputed(vae)}

    def wrong(self, value: ms.ValueFunction) -> float:
        """Share of outliers of which this game gives a wrong explanation."""
        x, effort = self.x[self.is_outlier][: self.effort.outliers], self.effort
        found = ms.permutation_shapley(value, x, permutations=effort.orders, seed=effort.seed)
        return error_rate(found.phi[..., 0])


def judge(sigma: float, trees: int, efforts: Sequence[Effort], epochs: int | None = None) -> Judged:
    """One forest for each effort; with `epochs`, a surrogate and a VAE are learned, too."""
    found = [Found(sigma, trees, effort) for effort in efforts]
    every = [one.values | (one.learned(epochs) if epochs else {}) for one in found]
    wrong = {
        name: [one.wrong(values[name]) for one, values in zip(found, every, strict=True)]
        for name in every[0]
    }
    print(f"{trees} trees, sigma {sigma}: {wrong}", flush=True)
    return Judged(max(one.misjudged for one in found), wrong)


def error_rate(phi: Float[Tensor, "rows features"]) -> float:
    """Share of rows in which the first five features do not have the five largest values."""
    wrong = phi[:, :BROKEN].amin(1) <= phi[:, BROKEN:].amax(1)
    return int(wrong.sum()) / len(wrong)
