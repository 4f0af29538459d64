"""Compares values of a forest with those of forests retrained on each coalition."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from sklearn.ensemble import RandomForestClassifier
from torch import Tensor

from benchmarks.support.trained import Trained

RETRAINED, TABLE, TREE, OFF = "model retraining", "on manifold, table", "Tree SHAP", "off manifold"
SURROGATE, VAE = "on manifold, surrogate", "on manifold, VAE"
ON = (TABLE, SURROGATE, VAE)
RESAMPLES = 1000


def forest(trees: int, seed: int) -> RandomForestClassifier:
    """Of the paper: default settings and all features at every split."""
    return RandomForestClassifier(trees, max_features=None, random_state=seed)


def tree_shap(trained: Trained, rows: int) -> Float[Tensor, "rows players"]:
    """Path-dependent Tree SHAP of the forest, for the true class of the first test rows.

    Raises:
        ValueError: the package shap is not installed.
    """
    try:
        import shap
    except ModuleNotFoundError as error:
        raise ValueError(
            "Expected the package shap, for Tree SHAP: pip install 'manifold_shap[shap]'."
        ) from error
    x, y = trained.data.x_test[:rows], trained.data.y_test[:rows]
    explainer = shap.TreeExplainer(trained.fitted, feature_perturbation="tree_path_dependent")
    return torch.as_tensor(explainer.shap_values(x.numpy()))[torch.arange(rows), :, y]


def pearson(one: Tensor, other: Tensor) -> float:
    return torch.corrcoef(torch.stack((one, other)))[0, 1].item()


def of_ranks(one: Tensor, other: Tensor) -> float:
    """Spearman's correlation."""
    return pearson(one.argsort().argsort().double(), other.argsort().argsort().double())


def of_the_rest(one: Tensor, other: Tensor) -> float:
    """Pearson's correlation without the player of the largest value to retrained models."""
    rest = torch.arange(len(other)) != other.argmax()
    return pearson(one[rest], other[rest])


def distance(one: Tensor, other: Tensor) -> float:
    """Relative to the other's length."""
    return ((one - other).norm() / other.norm()).item()


MEASURES: dict[str, Callable[[Tensor, Tensor], float]] = {
    "correlation with retraining": pearson,
    "rank correlation with retraining": of_ranks,
    "correlation with retraining, without the drug of the largest value": of_the_rest,
    "distance from retraining": distance,
}
*CORRELATIONS, DISTANCE = MEASURES


def tracking(rows: Mapping[str, Float[Tensor, "rows players"]], seed: int) -> dict[str, Any]:
    """Each measure of each method with its error, and how often those on the manifold are ahead."""
    count, generator = len(rows[RETRAINED]), torch.Generator().manual_seed(seed)
    chosen = torch.randint(count, (RESAMPLES, count), generator=generator)
    means = {n: torch.stack([phi[some].mean(0) for some in chosen]) for n, phi in rows.items()}
    target = means.pop(RETRAINED)
    tracks: dict[str, dict[str, Any]] = {}
    ahead = {}
    for what, measure in MEASURES.items():
        again = {
            name: torch.tensor([measure(*pair) for pair in zip(phi, target, strict=True)])
            for name, phi in means.items()
        }
        tracks[what] = {
            name: [measure(rows[name].mean(0), rows[RETRAINED].mean(0)), figures.std().item()]
            for name, figures in again.items()
        }
        if what != DISTANCE:
            least = torch.stack([again[name] for name in ON]).amin(0)
            ahead[what] = (least > torch.maximum(again[OFF], again[TREE])).double().mean().item()
    return {"tracking": tracks, "ahead": ahead}
