"""Shapley compositions against a closed form, and on MNIST.

`closed form`: a linear softmax model on normal data, whose on-manifold composition is known: error
of phi for several value functions, relative to the size of the true phi. `mnist`: a surrogate in
log-ratio coordinates, its error in Aitchison distance beside the off-manifold one on the same
pairs, and the seconds of explaining 16 digits by 64 pairs of permutations.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

import manifold_shap as ms
from benchmarks.report import Experiment, Found, Table
from benchmarks.support.scores import scored
from benchmarks.support.trained import Trained
from benchmarks.timing import seconds, timed
from manifold_shap.coalitions import all_coalitions


def run(
    parts: Sequence[str] = ("closed form", "mnist"),  # one of them, or both
    players: int = 6,  # of the closed form
    classes: int = 4,  # of the closed form
    rows: int = 4000,  # of the closed form
    instances: int = 50,  # of the closed form
    epochs: int | None = None,  # of the trainings; None: those by default
) -> dict[str, Any]:
    """Both parts."""
    shorter = {} if epochs is None else {"max_epochs": epochs}
    found = {}
    if "closed form" in parts:
        found["closed form"] = closed_form(players, classes, rows, instances, shorter)
    if "mnist" in parts:
        found["mnist"] = mnist(shorter)
    return found


class LinearSoftmax:
    """Softmax of a linear map of normal data: E[ilr f | x_S] is linear in E[X | x_S]."""

    def __init__(self, players: int, classes: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        draw = torch.randn(players, players, generator=generator, dtype=torch.float64)
        self.covariance = draw @ draw.T / players + 0.1 * torch.eye(players, dtype=torch.float64)
        self.mean = torch.randn(players, generator=generator, dtype=torch.float64)
        weight = torch.randn(classes, players, generator=generator, dtype=torch.float64)
        self.weight = weight / players**0.5 * 2
        self.generator = generator

    def sample(self, rows: int) -> Tensor:
        draw = torch.randn(rows, len(self.mean), generator=self.generator, dtype=torch.float64)
        return (self.mean + draw @ torch.linalg.cholesky(self.covariance).T).float()

    def __call__(self, x: Tensor) -> Tensor:
        return x @ self.weight.to(x).T

    def value(self, mean: Tensor, covariance: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        """v(S) in closed form, for normal data of these moments."""
        masks = all_coalitions(len(mean))
        slopes = torch.zeros(len(masks), len(mean), len(mean), dtype=torch.float64)
        for slope, mask in zip(slopes, masks, strict=True):
            if mask.any():  # E[X | x_S] - E[X] is this slope times x - E[X].
                slope[:, mask] = torch.linalg.solve(covariance[mask][:, mask], covariance[mask]).T
        power = 2 ** torch.arange(len(mean))
        position = (masks * power).sum(1).argsort()

        def v(x: Tensor, mask: Tensor) -> Tensor:
            which = position[(mask * power).sum(-1)]
            expected = mean + torch.einsum("bmij,bj->bmi", slopes[which], x.double() - mean)
            return ms.simplex.ilr(expected @ self.weight.T)

        return v


def closed_form(
    players: int, classes: int, rows: int, instances: int, shorter: dict[str, int]
) -> dict[str, Any]:
    """Relative errors of phi against the truth, for value functions fitted to a sample."""
    model = LinearSoftmax(players, classes, seed=0)
    x_train, x = model.sample(rows), model.sample(instances)
    true = ms.exact_shapley(model.value(model.mean, model.covariance), x).phi
    moments = x_train.double().mean(0), x_train.double().T.cov()
    of_sample = ms.exact_shapley(model.value(*moments), x)
    settings: dict[str, Any] = {"seed": 0, "trainer": {"accelerator": "cpu"}, **shorter}
    imputers = {
        "Gaussian": ms.GaussianImputer(x_train),
        "VAE": ms.fit_imputer(x_train, model=model, output="ilr", **settings),
        "off the manifold": ms.MarginalImputer(x_train),
    }
    games: dict[str, Any] = {n: ms.imputed_value(model, i, "ilr", 64) for n, i in imputers.items()}
    games["surrogate"] = ms.fit_surrogate(model, x_train, output="ilr", **settings)
    size, errors, norms = true.square().mean().sqrt(), {}, {}
    for name, value in games.items():
        explanation = ms.permutation_shapley(value, x, permutations=512)
        errors[name] = ((explanation.phi - true).square().mean().sqrt() / size).item()
        pair = explanation.norms().flatten(), true.norm(dim=-1).flatten()
        norms[name] = float(np.corrcoef(*pair)[0, 1])
        if name == "Gaussian":
            gap = (explanation.phi - of_sample.phi) / explanation.standard_error
    return {
        "relative error of phi": errors,
        "correlation of norms": norms,
        "Gaussian against the closed form of its own moments": {
            "root mean square gap, in standard errors": gap.square().mean().sqrt().item(),
            "share beyond three": (gap.abs() > 3).float().mean().item(),
        },
    }


def mnist(shorter: dict[str, int]) -> dict[str, Any]:
    """Aitchison error on the manifold and off it, and the speed of an explanation."""
    trained = Trained("mnist", seed=0)
    x, players = trained.data.x_test, trained.data.players
    trainer = {"accelerator": "cpu"}
    value, took = timed(lambda: trained.surrogate(output="ilr", trainer=trainer, **shorter))
    marginal = ms.MarginalImputer(trained.data.x_train, players)
    off = ms.imputed_value(trained.model, marginal, "ilr", draws=64)
    mask = ms.shapley_pairs(len(x), len(players))
    on, spliced = (scored(v, x, mask) for v in (value, off))
    explain = lambda: ms.permutation_shapley(value, x[:16], permutations=128)  # noqa: E731
    return {
        "error, surrogate": on["mse"],
        "error, off the manifold": spliced["mse"],
        "ratio": on["mse"] / spliced["mse"],
        "seconds of the training": took,
        "seconds of 16 digits by 64 pairs": seconds({0: explain}, 3)[0],
    }


def tables(found: Found) -> list[Table]:
    made = []
    if closed := found.get("closed form"):
        *errors, gaps = closed.items()
        rows = [[what, *of.values()] for what, of in errors]
        made = [
            Table(["closed form", *errors[0][1]], rows),
            Table([gaps[0], ""], list(gaps[1].items())),
        ]
    if "mnist" in found:
        made.append(Table(["MNIST, log-ratios", ""], list(found["mnist"].items())))
    return made


EXPERIMENT = Experiment(
    title="Shapley compositions",
    run=run,
    quick={"parts": ["closed form"], "rows": 500, "instances": 5, "epochs": 2},
    tables=tables,
)
