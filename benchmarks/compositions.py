"""Shapley compositions against the paper, against a closed form, and on MNIST.

    MANIFOLD_SHAP_DATA=... python benchmarks/compositions.py --out benchmarks/results

Three parts (`--parts`), each on its own figures:

- `iris`: the example of Noé et al. (2024), Section 6, over seeds of the SVM's calibration: norms
  and cosines off the manifold, exact; how far permutation and adaptive sampling are from these.
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
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import all_coalitions

CONF = Path(__file__).resolve().parent.parent / "conf"
PAPER_NORMS = {
    "petal width (cm)": 1.27,
    "petal length (cm)": 1.02,
    "sepal width (cm)": 0.36,
    "sepal length (cm)": 0.28,
}
VERSICOLOR = 13


def iris(seeds: int) -> dict[str, Any]:
    """Norms and cosines of the paper's instance, and how far sampling is from exact values."""
    table = load_iris()
    parts = train_test_split(table.data, table.target, test_size=0.2, random_state=0)
    scale = StandardScaler().fit(parts[0])
    x_train, x = (torch.from_numpy(scale.transform(part)).float() for part in parts[:2])
    players = ms.Players.of_elements((4,), table.feature_names)
    imputer = ms.MarginalImputer(x_train, players)
    norms, cosines, gaps = [], [], []
    for seed in range(seeds):
        svm = SVC(probability=True, random_state=seed).fit(x_train.numpy(), parts[2])
        value = ms.imputed_value(svm, imputer, "ilr", draws=len(x_train))
        exact = ms.exact_shapley(value, x[VERSICOLOR, None])
        norms.append(exact.norms()[0])
        cosines.append(exact.cosines()[0, 2, 3].item())
        if seed < 5:
            gaps.append(_gaps(value, x[VERSICOLOR, None], exact, seed))
    norm = torch.stack(norms)
    return {
        "seeds": seeds,
        "norms": {
            name: {
                "paper": PAPER_NORMS[name],
                "mean": norm[:, k].mean().item(),
                "standard_deviation": norm[:, k].std().item(),
                "least": norm[:, k].min().item(),
                "largest": norm[:, k].max().item(),
            }
            for k, name in enumerate(players.names)
        },
        "cosine of petal length and width": {"paper": 0.99, **_spread(cosines)},
        "largest gap to exact, in standard errors": {
            name: max(gap[name] for gap in gaps) for name in gaps[0]
        },
    }


def _gaps(value: Any, x: Tensor, exact: ms.Explanation, seed: int) -> dict[str, float]:
    """Largest |phi - exact| in standard errors: all donors count, only orders are drawn."""
    found = {
        "permutation": ms.permutation_shapley(value, x, permutations=22, seed=seed),
        "adaptive": ms.adaptive_shapley(value, x, samples=200, seed=seed),
    }
    return {
        name: ((e.phi - exact.phi).abs() / e.standard_error).max().item()
        for name, e in found.items()
    }


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
    with initialize_config_dir(str(CONF), version_base="1.3"):
        chosen = compose("train", ["data=mnist", "value_function.output=ilr"])
    data = instantiate(chosen.data)
    data.setup()
    model = _classifier(data, instantiate(chosen.classifier))
    drop = ("name", "teacher", "teacher_draws", "zero_replacement")
    settings = OmegaConf.to_container(chosen.value_function, resolve=True)
    rows = {key: getattr(data, key) for key in ("x_train", "x_validation", "players")}
    start = time.perf_counter()
    value = ms.fit_surrogate(
        model,
        **rows,
        **{key: entry for key, entry in settings.items() if key not in drop},
        trainer={"accelerator": "cpu", "precision": precision},
    )
    seconds = time.perf_counter() - start
    off = ms.imputed_value(model, ms.MarginalImputer(data.x_train, data.players), "ilr", draws=64)
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


def _classifier(data: Any, recipe: Any) -> Any:
    import tempfile

    from manifold_shap.training.classifier import fit_classifier, load_classifier

    with tempfile.TemporaryDirectory() as place:
        fit_classifier(recipe, data, place, {"accelerator": "cpu"})
        return load_classifier(Path(place), data)


def _spread(figures: list[float]) -> dict[str, float]:
    return {
        "mean": statistics.mean(figures),
        "standard_deviation": statistics.stdev(figures),
        "least": min(figures),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = {
        "iris": lambda chosen: iris(chosen.seeds),
        "closed_form": lambda chosen: closed_form(players=6, classes=4, rows=4000, instances=50),
        "mnist": lambda chosen: mnist(chosen.precision),
    }
    parser.add_argument("--parts", nargs="+", default=list(parts), choices=list(parts))
    parser.add_argument("--seeds", type=int, default=30, help="of the SVM's calibration")
    parser.add_argument("--precision", default="32-true", help="of the training on MNIST")
    parser.add_argument("--out", type=Path, help="folder of the results")
    chosen = parser.parse_args()
    # scikit-learn has announced the end of probabilities by pairwise coupling.
    warnings.filterwarnings("ignore", message="The `probability` parameter", category=FutureWarning)
    for name in chosen.parts:
        text = json.dumps(parts[name](chosen), indent=2)
        print(name, text)
        if chosen.out:
            (chosen.out / f"compositions_{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
