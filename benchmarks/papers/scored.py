"""What is measured for Table 1 of Frye et al. (2021): value functions, scored in parts.

Each part is a training seed of a data set, or what has none. A part takes from the one split and
the one classifier of its data set, and scores on the same test rows and coalitions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier
from torch import Tensor

import manifold_shap as ms
from benchmarks.papers.trained import Trained
from benchmarks.timing import timed

OFF, VAE, SURROGATE, TABLE = "off manifold", "unsupervised", "supervised", "empirical"
TRAINING_ROWS, PUBLISHED = "empirical, of training rows", "unsupervised, as published"
# Table 2, of the unsupervised method: layers of this size, dimensions of a code, β.
PUBLISHED_SIZES = {
    "drug": (128, 4, 0.5),
    "abalone": (256, 2, 0.05),
    "census": (128, 8, 1.0),
    "mnist": (512, 16, 1.0),
}


@dataclass(frozen=True)
class Unit:
    """What decides on the figures that are measured, and kept, together.

    Attributes:
        data: the data set.
        split: seed of its split and of its classifier.
        kind: what is measured; see `MEASURES`.
        seed: of the trainings; None where nothing is trained.
        pairs: of test rows and coalitions.
        draws: completions of a coalition.
        epochs: of the trainings; None for those of the commands.
    """

    data: str
    split: int
    kind: str
    seed: int | None
    pairs: int
    draws: int
    epochs: int | None

    @property
    def name(self) -> str:
        return "_".join(str(word) for word in (self.data, self.kind, self.seed) if word is not None)


def classifier(name: str, seed: int) -> Callable[[Tensor, Tensor], Any] | None:
    """How App. B fits the classifier of a data set."""
    hidden = {"abalone": 100, "census": 50, "mnist": 512}
    if name == "drug":
        recipe: Any = RandomForestClassifier(max_features=None, random_state=seed)
    elif name in hidden:
        recipe = MLPClassifier((hidden[name],), early_stopping=True, random_state=seed)
    else:
        return None
    return lambda x, y: recipe.fit(x.flatten(1).numpy(), y.numpy())


def prepared(name: str, split: int) -> Trained:
    trained = Trained(name, split, classifier(name, split))
    if name == "drug":
        trained.tabulate()
    return trained


def measure(trained: Callable[[], Trained], unit: Unit) -> dict[str, Any]:
    """The figures of a unit, by method, and the seconds that it took."""
    scores, seconds = timed(lambda: MEASURES[unit.kind](trained(), unit))
    print(
        f"{unit.name}: "
        + ", ".join(f"{name} {score['mse']:.4f}" for name, score in scores.items())
        + f", {seconds:.0f} s",
        flush=True,
    )
    return {"accuracy": trained().accuracy, "scores": scores, "seconds": seconds}


def _fixed(trained: Trained, unit: Unit) -> dict[str, Any]:
    """Without training."""
    values = {OFF: trained.off_manifold(unit.draws)}
    if unit.data == "drug":
        rows = {TABLE: trained.data.x_test, TRAINING_ROWS: trained.data.x_train}
        for name, table in rows.items():
            imputer = ms.ExactMatchImputer(table, trained.data.players)
            values[name] = trained.imputed(imputer, len(table))
    return {name: _score(trained, value, unit) for name, value in values.items()}


def _of_seed(trained: Trained, unit: Unit) -> dict[str, Any]:
    changes: dict[str, Any] = {"seed": unit.seed}
    if unit.epochs is not None:
        changes["max_epochs"] = unit.epochs
    makers = {
        VAE: lambda: trained.vae(unit.draws, **changes),
        SURROGATE: lambda: trained.surrogate(**changes),
    }
    return {name: _made_and_scored(trained, make, unit) for name, make in makers.items()}


def _published(trained: Trained, unit: Unit) -> dict[str, Any]:
    """App. A with the sizes of Table 2, but for as many epochs, on one cycle of the rate."""
    hidden, latent, beta = PUBLISHED_SIZES[unit.data]
    changes: dict[str, Any] = {
        "hidden": [hidden, hidden],
        "latent": latent,
        "beta": beta,
        "learning_rate": 1e-3,
        "schedule": "one_cycle",
        "max_epochs": unit.epochs,
        "seed": unit.seed,
    }
    make = partial(trained.vae, unit.draws, "experiment=paper_vae", **changes)
    return {PUBLISHED: _made_and_scored(trained, make, unit)}


MEASURES: dict[str, Callable[[Trained, Unit], dict[str, Any]]] = {
    "fixed": _fixed,
    "seed": _of_seed,
    "published": _published,
}


def _made_and_scored(trained: Trained, make: Callable[[], Any], unit: Unit) -> dict[str, Any]:
    value, seconds = timed(make)
    return {"seconds": seconds, **_score(trained, value, unit)}


def _score(trained: Trained, value: ms.ValueFunction, unit: Unit) -> dict[str, Any]:
    """Eq. (16) on the same test rows and coalitions for all methods."""
    every, players = trained.data.x_test, len(trained.data.players)
    order = torch.randperm(len(every), generator=torch.Generator().manual_seed(unit.split))
    x = every[order[: unit.pairs]]
    mask = ms.shapley_pairs(len(x), players, least=unit.pairs, seed=unit.split)
    found = ms.mean_squared_error(value, x, mask, batch_size=2**16)
    return {
        "mse": found.mse,
        "error_over_rows": found.standard_error,
        "debiased": found.debiased,
    }
