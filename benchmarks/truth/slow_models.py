"""A model that takes seconds for some hundreds of rows, as TabPFN does, allows few of them. Beside
the error of Shapley values stand the rows that the model was asked about: to learn the value
function, and for each explained row. The law of the data is a Gaussian mixture, so that the true
values are known; the model is a small network, whose calls are counted.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.neural_network import MLPClassifier
from torch import Tensor

import manifold_shap as ms
from benchmarks.report import Found, Table, parts, records

TITLE = "Models that are slow: how many rows they are asked about"
CAPTION = "relative error of Shapley values, and rows of the model to learn and for each row"
QUICK = {"seeds": [0], "train": 300, "explained": 4, "ways": ["a mixture, 1 draw", "a surrogate"]}
COLUMNS, COMPONENTS = 8, 4
# The truth has errors of this share of the spread of v at most.
ERROR = 0.02


class Counted:
    """A classifier that counts the rows that it is asked about."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.network = MLPClassifier((64, 64), max_iter=200, random_state=0).fit(x.numpy(), y)
        self.rows = 0

    def __call__(self, frame: Any) -> np.ndarray:
        self.rows += len(frame)
        return self.network.predict_proba(np.asarray(frame, dtype=np.float32))


Way = Callable[[ms.Model, pd.DataFrame], Callable[[pd.DataFrame], ms.Explanation]]


def explainer(model: ms.Model, frame: pd.DataFrame) -> Callable[..., ms.Explanation]:
    return ms.Explainer(model.predictor.model, frame, returns="probabilities", progress=False)


def mixture(draws: int, evaluations: int) -> Way:
    def way(model: ms.Model, frame: pd.DataFrame) -> Callable[..., ms.Explanation]:
        imputer = ms.imputers.MixtureImputer(frame)
        value = ms.imputed_value(model, imputer, draws=draws)
        return lambda rows: ms.kernel_shapley(value, rows, evaluations=evaluations)

    return way


def taught(pairs: int | None, guided: bool = False) -> Way:
    def way(model: ms.Model, frame: pd.DataFrame) -> Callable[..., ms.Explanation]:
        imputer, settings = ms.imputers.MixtureImputer(frame), dict[str, Any]()
        if pairs is not None:
            teacher = ms.imputed_value(model, imputer, draws=1)
            settings = {"teacher": teacher, "teacher_pairs": pairs}
        if guided:
            settings["guide"] = imputer
        value = ms.fit_surrogate(model, frame.to_numpy(), progress=False, **settings)
        return lambda rows: ms.auto_shapley(value, rows.to_numpy())

    return way


WAYS: dict[str, Way] = {
    "`ms.Explainer`, its defaults": explainer,
    "a mixture, 8 draws": mixture(8, 2**COLUMNS - 2),
    "a mixture, 1 draw": mixture(1, 2**COLUMNS - 2),
    "a mixture, 1 draw of 100 coalitions": mixture(1, 100),
    "a surrogate": taught(None),
    "a surrogate, taught 8,000 values of a mixture": taught(8000),
    "a guided surrogate, taught 8,000 values": taught(8000, guided=True),
}


def run(
    seeds: Sequence[int] = (0, 1, 2),
    train: int = 1200,  # rows to learn from
    explained: int = 20,
    ways: Sequence[str] = tuple(WAYS),
) -> dict[str, Any]:
    """By way: the error, and rows of the model."""
    found = parts(list(map(str, seeds)), measure, train=train, explained=explained, ways=ways)
    means = {}
    for way in ways:
        of_seeds = [one[way] for one in found.values()]
        means[way] = {key: float(np.mean([one[key] for one in of_seeds])) for key in of_seeds[0]}
    return {"ways": means, "seeds": found}


def measure(
    seed: str, train: int, explained: int, ways: Sequence[str]
) -> dict[str, dict[str, float]]:
    law = ms.oracles.GaussianMixture.random(COLUMNS, COMPONENTS, seed=int(seed))
    (x, y), (rows, _) = law.sample(train, seed=1), law.sample(explained, seed=2)
    counted = Counted(x, y)
    names = [f"x{k}" for k in range(COLUMNS)]
    frame, few = (pd.DataFrame(each.numpy(), columns=names) for each in (x, rows))
    model = ms.as_model(counted, x[:64], returns="probabilities")
    truth = ms.oracles.true_value(model, law, space="probability", rows=2000)
    phi = ms.oracles.true_shapley(truth, rows, error=ERROR).phi
    size, found = phi.square().sum((1, 2)), dict[str, dict[str, float]]()
    for way in ways:
        counted.rows = 0
        explain = WAYS[way](model, frame)
        learned, counted.rows = counted.rows, 0
        far = (explain(few).phi - phi).square().sum((1, 2)) / size
        found[way] = {
            "relative error": far.mean().sqrt().item(),
            "rows to learn": learned,
            "for each row": counted.rows / len(few),
        }
    return found


def tables(found: Found) -> list[Table]:
    return [records("way", found["ways"])]


def summary(found: Found) -> dict[str, Any]:
    return {way: one["relative error"] for way, one in found["ways"].items()}
