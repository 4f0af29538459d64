"""Outliers of known cause (Frye et al. 2021, Section 3.2), and isolation forests that find them."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.stats import wasserstein_distance
from sklearn.ensemble import IsolationForest
from torch import Tensor

import manifold_shap as ms
from manifold_shap import _random
from manifold_shap.coalitions import Coalitions, Listed
from manifold_shap.imputers.base import Completions

FEATURES, BROKEN = 20, 5
ROWS, SHARE = 10_000, 0.01
OFF, ON = GAMES = ("off manifold", "on manifold")
# Coalitions without the five features that are broken, and with all of them.
INLIER, OUTLIER = KINDS = ("inlier", "outlier")
# How many of the other features join the five, or the coalition that is without them: a uniform
# share, or as many as in random orders of all features.
EVEN, ORDERS = LAWS = ("uniform share of the other features", "as in random orders of all features")
EACH, INLIERS, BINS = 16, 1000, 50  # Coalitions of an outlier, actual inliers, of the histograms.


class Mixture:
    """Eqs. (11) and (12): four normal components of known means and one scale."""

    def __init__(self, sigma: float) -> None:
        opposite = torch.arange(FEATURES) < BROKEN
        z = torch.tensor([0.0, 1.0])[:, None].expand(2, FEATURES)
        self.sigma = sigma
        self.means = torch.cat((z, torch.where(opposite, 1 - z, z)))
        self.log_weights = torch.tensor([1 - SHARE, 1 - SHARE, SHARE, SHARE]).div(2).log()

    def draw(self, seed: int) -> tuple[Float[Tensor, "rows features"], Bool[Tensor, " rows"]]:
        """Rows, and which of them are outliers: exactly a hundredth."""
        generator = torch.Generator().manual_seed(seed)
        outlier = torch.arange(ROWS) < SHARE * ROWS
        component = 2 * outlier + torch.randint(2, (ROWS,), generator=generator)
        x = torch.randn(ROWS, FEATURES, generator=generator)
        return self.means[component] + self.sigma * x, outlier


class TrueConditional(ms.imputers.Imputer):
    """p(x'|x_S) of the mixture: a component by what is present, and noise of its own."""

    name = "true_conditional"

    def __init__(self, mixture: Mixture, reference: Tensor) -> None:
        super().__init__(reference)
        self.mixture = mixture

    def impute(self, x: Tensor, coalitions: Coalitions, draws: range) -> Completions:
        """See `Imputer.impute`."""
        mask, keys = coalitions.masks(), coalitions.each_key()
        mixture = self.mixture
        apart = (x[:, None] - mixture.means).square() / (-2 * mixture.sigma**2)
        weights = (mixture.log_weights + mask.float() @ apart.mT).softmax(-1)
        u = _random.uniform(_random.fold(keys, 0), (), draws)
        component = torch.searchsorted(weights.cumsum(-1), u).clamp(max=3)
        fresh = mixture.sigma * _random.normal(_random.fold(keys, 1), (FEATURES,), draws)
        return Completions(self.splice(x, mask, mixture.means[component] + fresh))


class Detector:
    """A data set, its forest, and the two games of the paper.

    Args:
        sigma: noise of the data.
        trees: of the forest.
        seed: of the data set, of the forest, and of what is learned.
        outliers: how many are explained.
        orders: of the players, with their reverses, for each of them.
        draws: completions of a coalition.

    Attributes:
        x: rows of the data set.
        is_outlier: which of them are outliers.
        misjudged: rows that the forest takes for the wrong kind.
        values: games of its score, off and on the manifold.
    """

    def __init__(
        self, sigma: float, trees: int, seed: int, outliers: int, orders: int, draws: int = 1
    ) -> None:
        mixture = Mixture(sigma)
        self.seed, self.outliers, self.orders, self.draws = seed, outliers, orders, draws
        self.x, self.is_outlier = mixture.draw(seed)
        self.forest = IsolationForest(n_estimators=trees, contamination=SHARE, random_state=seed)
        said = torch.from_numpy(self.forest.fit_predict(self.x.numpy()) == -1)
        self.misjudged = int((said != self.is_outlier).sum())
        self.values = {
            OFF: self.imputed(ms.imputers.MarginalImputer(self.x)),
            ON: self.imputed(TrueConditional(mixture, self.x)),
        }

    def score(self, x: Tensor) -> Float[Tensor, "rows 1"]:
        """Positive where the forest says outlier."""
        return -torch.from_numpy(self.forest.decision_function(x.numpy())).float()[:, None]

    @property
    def model(self) -> ms.Model:
        return ms.Model(self.score, ("outlier score",), "values")

    def imputed(self, imputer: ms.imputers.Imputer) -> ms.ImputedValue:
        return ms.imputed_value(self.model, imputer, space="identity", draws=self.draws)

    def learned(self, epochs: int) -> dict[str, ms.ValueFunction]:
        """A surrogate and a VAE of these rows, each trained for so many epochs."""
        settings: dict[str, Any] = {"max_epochs": epochs, "seed": self.seed}
        settings["trainer"] = {"accelerator": "cpu"}
        surrogate = ms.fit_surrogate(self.model, self.x, space="identity", **settings)
        vae = ms.fit_imputer(self.x, posterior="encoder", least_scale=0.01, **settings)
        return {"surrogate": surrogate, "VAE": self.imputed(vae)}

    def wrong(self, value: ms.ValueFunction) -> float:
        """Share of outliers of which this game gives a wrong explanation."""
        x = self.x[self.is_outlier][: self.outliers]
        found = ms.permutation_shapley(value, x, permutations=self.orders, seed=self.seed)
        return error_rate(found.phi[..., 0])


def error_rate(phi: Float[Tensor, "rows features"]) -> float:
    """Share of rows in which the first five features do not have the five largest values."""
    wrong = phi[:, :BROKEN].amin(1) <= phi[:, BROKEN:].amax(1)
    return int(wrong.sum()) / len(wrong)


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


def scores(found: Detector, law: str) -> dict[str, dict[str, Any]]:
    """By kind: shares taken for the other kind, distances from actual rows, and histograms."""
    x = found.x[found.is_outlier]
    keys = torch.arange(len(x))[:, None].expand(-1, EACH)
    actual = {INLIER: found.x[~found.is_outlier][:INLIERS], OUTLIER: x}
    outputs: dict[str, dict[str, np.ndarray]] = {}
    for kind in KINDS:
        mask = coalitions(len(x), kind, law)
        outputs[kind] = {"data": found.score(actual[kind])[:, 0].numpy()}
        for name in GAMES:
            completed = found.values[name].imputer.impute(x, Listed(mask, keys), range(1)).rows
            outputs[kind][name] = found.score(completed.flatten(0, 2))[:, 0].numpy()
    every = np.concatenate([each for by in outputs.values() for each in by.values()])
    edges = np.histogram_bin_edges(every, BINS)
    return {
        kind: {
            "mistaken": {n: float(((by[n] > 0) != (kind == OUTLIER)).mean()) for n in GAMES},
            "distance": {n: float(wasserstein_distance(by[n], by["data"])) for n in GAMES},
            "edges": edges.tolist(),
            "density": {n: np.histogram(s, edges, density=True)[0].tolist() for n, s in by.items()},
        }
        for kind, by in outputs.items()
    }
