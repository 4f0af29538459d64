"""Shapley compositions against a closed form, and on MNIST.

    MANIFOLD_SHAP_DATA=... python benchmarks/compositions.py --out benchmarks/results

Two parts (`--parts`), each on its own figures; `papers/compositions.py` has the paper's examples.

- `closed_form`: a linear softmax model on normal data, whose on-manifold composition is known:
  error of phi for several value functions, relative to the size of the true phi.
- `mnist`: a surrogate with output=ilr, its error in Aitchison distance beside the off-manifold
  one on the same pairs, and the seconds of explaining 16 digits by 64 pairs of permutations.

`--out` names a folder for `compositions_<part>.json`.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import manifold_shap as ms
from benchmarks.papers.trained import Trained
from manifold_shap.coalitions import all_coalitions


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
        slopes = torch.stack([_slope(covariance, mask) for mask in masks])
        power = 2 ** torch.arange(len(mean))
        number = {int((mask * power).sum()): k for k, mask in enumerate(masks)}
        position = torch.tensor([number[code] for code in range(len(masks))])

        def v(x: Tensor, mask: Tensor) -> Tensor:
            which = position[(mask * power).sum(-1)]
            expected = mean + torch.einsum("bmij,bj->bmi", slopes[which], x.double() - mean)
            return ms.simplex.ilr(expected @ self.weight.T)

        return v


def _slope(covariance: Tensor, mask: Tensor) -> Tensor:
    """What E[X | x_S] - E[X] is of x - E[X]."""
    slope = torch.zeros_like(covariance)
    if bool(mask.any()):
        inside = covariance[mask][:, mask]
        slope[:, mask] = torch.linalg.solve(inside, covariance[mask]).T
    return slope


def closed_form(players: int, classes: int, rows: int, instances: int) -> dict[str, Any]:
    """Relative errors of phi against the truth, for value functions fitted to a sample."""
    model = LinearSoftmax(players, classes, seed=0)
    x_train, x = model.sample(rows), model.sample(instances)
    true = ms.exact_shapley(model.value(model.mean, model.covariance), x).phi
    moments = x_train.double().mean(0), x_train.double().T.cov()
    of_sample = ms.exact_shapley(model.value(*moments), x)
    trainer = {"accelerator": "cpu"}
    imputer = ms.fit_imputer(x_train, model=model, output="ilr", seed=0, trainer=trainer)
    games = {
        "gaussian": ms.imputed_value(model, ms.GaussianImputer(x_train), "ilr", draws=64),
        "vae": ms.imputed_value(model, imputer, "ilr", draws=64),
        "off manifold": ms.imputed_value(model, ms.MarginalImputer(x_train), "ilr", draws=64),
        "surrogate": ms.fit_surrogate(model, x_train, output="ilr", seed=0, trainer=trainer),
    }
    size = true.square().mean().sqrt()
    errors, norms = {}, {}
    for name, value in games.items():
        explanation = ms.permutation_shapley(value, x, permutations=512)
        errors[name] = ((explanation.phi - true).square().mean().sqrt() / size).item()
        norms[name] = np.corrcoef(explanation.norms().flatten(), true.norm(dim=-1).flatten())[0, 1]
        if name == "gaussian":
            gap = (explanation.phi - of_sample.phi) / explanation.standard_error
    return {
        "players": players,
        "classes": classes,
        "training rows": rows,
        "relative error of phi": errors,
        "correlation of norms": norms,
        "gaussian against the closed form of its own moments": {
            "root mean square gap, in standard errors": gap.square().mean().sqrt().item(),
            "share beyond three": (gap.abs() > 3).float().mean().item(),
        },
    }


def mnist(precision: str) -> dict[str, Any]:
    """Aitchison error on the manifold and off it, and the speed of an explanation."""
    trained = Trained("mnist", seed=0)
    data, trainer = trained.data, {"accelerator": "cpu", "precision": precision}
    start = time.perf_counter()
    value = trained.surrogate(output="ilr", trainer=trainer)
    seconds = time.perf_counter() - start
    marginal = ms.MarginalImputer(data.x_train, data.players)
    off = ms.imputed_value(trained.model, marginal, "ilr", draws=64)
    mask = ms.shapley_pairs(len(data.x_test), len(data.players))
    on, spliced = (ms.mean_squared_error(v, data.x_test, mask) for v in (value, off))
    times = []
    for _ in range(3):
        start = time.perf_counter()
        explanation = ms.permutation_shapley(value, data.x_test[:16], permutations=128)
        times.append(time.perf_counter() - start)
    return {
        "train_seconds": seconds,
        "surrogate": {"mse": on.mse, "standard_error": on.standard_error},
        "off manifold": {"mse": spliced.mse, "standard_error": spliced.standard_error},
        "ratio": on.mse / spliced.mse,
        "seconds of 16 digits by 64 pairs": statistics.median(times),
        "efficiency_gap": explanation.efficiency_gap,
        "median norm error / norm": (explanation.norm_errors() / explanation.norms())
        .nanmedian()
        .item(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = {
        "closed_form": lambda chosen: closed_form(players=6, classes=4, rows=4000, instances=50),
        "mnist": lambda chosen: mnist(chosen.precision),
    }
    parser.add_argument("--parts", nargs="+", default=list(parts), choices=list(parts))
    parser.add_argument("--precision", default="32-true", help="of the training on MNIST")
    parser.add_argument("--out", type=Path, help="folder of the results")
    chosen = parser.parse_args()
    for name in chosen.parts:
        text = json.dumps(parts[name](chosen), indent=2)
        print(name, text)
        if chosen.out:
            (chosen.out / f"compositions_{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
