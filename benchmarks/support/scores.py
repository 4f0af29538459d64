"""Scores value functions by the mean squared error of Frye et al. (2021), Eq. (16)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import manifold_shap as ms
from benchmarks.report import Found
from benchmarks.support.trained import Trained, of_paper, shorter
from benchmarks.timing import timed

OFF, VAE, SURROGATE, TABLE = "off manifold", "unsupervised", "supervised", "empirical"
TRAINING_ROWS, PUBLISHED = "empirical, of training rows", "unsupervised, as published"
METHODS = (OFF, PUBLISHED, VAE, SURROGATE, TABLE, TRAINING_ROWS)
# Frye et al., Table 2, of the unsupervised method: layers of this size, dimensions of a code, β.
PUBLISHED_SIZES = {
    "drug": (128, 4, 0.5),
    "abalone": (256, 2, 0.05),
    "census": (128, 8, 1.0),
    "mnist": (512, 16, 1.0),
}
# Its Table 1: means, and standard deviations of ten trainings.
PAPER: dict[str, dict[str, tuple[float, float | None]]] = {
    "drug": {
        OFF: (0.0634, None),
        VAE: (0.0536, 0.0007),
        SURROGATE: (0.0441, 0.0002),
        TABLE: (0.0436, None),
    },
    "abalone": {OFF: (0.0647, None), VAE: (0.0293, 0.0009), SURROGATE: (0.0200, 0.0001)},
    "census": {OFF: (0.0344, None), VAE: (0.0300, 0.0006), SURROGATE: (0.0250, 0.0001)},
    "mnist": {OFF: (0.0448, None), VAE: (0.0257, 0.0005), SURROGATE: (0.0121, 0.0001)},
}


def prepared(name: str, split: int) -> Trained:
    """A data set with the classifier of the paper; of binary rows, as a table of all of them."""
    trained = Trained(name, split, of_paper(name, split))
    if name == "drug":
        trained.tabulate()
    return trained


def measure(
    trained: Callable[[], Trained], kind: str, seed: int | None, epochs: int | None, **fixed: Any
) -> dict[str, Any]:
    """Scores by method.

    Args:
        trained: gives the data set and its classifier.
        kind: `fixed` for what needs no training, `seed` for the trainings of a seed, `published`
            for the VAE of App. A (but for as many epochs, at 1e-3 on one cycle).
        seed: of the trainings.
        epochs: of them; None: those of the commands.
        fixed: `pairs`, `draws` and `split`, see `scored`.
    """
    own, draws = trained(), fixed["draws"]
    changes: dict[str, Any] = {"seed": seed, **shorter(epochs)}
    makers: dict[str, Callable[[], ms.ValueFunction]] = {}
    if kind == "fixed":
        makers[OFF] = lambda: own.off_manifold(draws)
        if own.name == "drug":
            for name, rows in ((TABLE, own.data.x_test), (TRAINING_ROWS, own.data.x_train)):
                imputer = ms.imputers.ExactMatchImputer(rows, own.data.players)
                makers[name] = partial(own.imputed, imputer, len(rows))
    elif kind == "seed":
        makers[VAE] = lambda: own.vae(draws, **changes)
        makers[SURROGATE] = lambda: own.surrogate(**changes)
    else:
        hidden, latent, beta = PUBLISHED_SIZES[own.name]
        changes |= {"hidden": [hidden, hidden], "latent": latent, "beta": beta}
        changes |= {"learning_rate": 1e-3, "schedule": "one_cycle"}
        makers[PUBLISHED] = lambda: own.vae(draws, "experiment=paper_vae", **changes)
    scores, total = timed(
        lambda: {name: _made(own, make, **fixed) for name, make in makers.items()}
    )
    told = ", ".join(f"{name} {score['mse']:.4f}" for name, score in scores.items())
    print(f"{own.name} {kind} {seed}: {told}, {total:.0f} s", flush=True)
    return {"accuracy": own.accuracy, "scores": scores, "seconds": total}


def _made(own: Trained, make: Callable[[], Any], pairs: int, split: int, **_: Any) -> Found:
    """The score of what `make` makes, on the same test rows and coalitions for all methods."""
    value, seconds = timed(make)
    order = torch.randperm(len(own.data.x_test), generator=torch.Generator().manual_seed(split))
    x = own.data.x_test[order[:pairs]]
    mask = ms.metrics.shapley_pairs(len(x), len(own.data.players), least=pairs, seed=split)
    return {"seconds": seconds, **scored(value, x, mask)}


def scored(value: ms.ValueFunction, x: torch.Tensor, mask: torch.Tensor) -> dict[str, float]:
    """Eq. (16): as it is, with the noise of the draws, and without (`debiased`)."""
    found = ms.metrics.mean_squared_error(value, x, mask, batch_size=2**16)
    error = {"error_over_rows": found.standard_error}
    return {"mse": found.mse, **error, "debiased": found.debiased}
