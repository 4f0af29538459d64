"""Japanese vowels: a learned value function of series, beside those that fill in zeros and means.

Series of 12 channels and 7 to 29 time points, of nine speakers; the model is the convolutional
classifier of the commands. All value functions are scored on the same test rows and coalitions of
time points (Frye et al. 2021, Eq. 16). Along time, asymmetric Shapley values are those of orders in
which earlier time points come first; their sum is compared with v(N) - v(∅).
"""

import os
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.timing import timed
from manifold_shap.data import Data, load
from manifold_shap.training.classifier import NetworkRecipe, fit_classifier, load_classifier

TITLE = "Japanese vowels"
QUICK = {"model_epochs": 2, "epochs": 1, "scored": 20, "explained": 2}
FILES = "series/JapaneseVowels_{}.ts"


def run(
    network: str = "conv",  # of the surrogate
    model_epochs: int = 30,  # of the model
    epochs: int = 20,  # of the surrogate
    scored: int = 370,  # test series in each error
    explained: int = 20,  # test series whose asymmetric values are summed
    seed: int = 0,
) -> dict[str, Any]:
    """Accuracy of the model, errors of the value functions, and the efficiency along time."""
    folder = Path(os.environ.get("MANIFOLD_SHAP_DATA", "."))
    train, test = (str(folder / FILES.format(part)) for part in ("TRAIN", "TEST"))
    # No training series is longer than that.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # One test series is longer, and cut off.
        data = load("series", path=train, test_path=test, length=26, seed=seed)
    with TemporaryDirectory() as place:
        recipe = NetworkRecipe("conv", max_epochs=model_epochs)
        fit_classifier(recipe, data, place, {"accelerator": "cpu"})
        model = load_classifier(Path(place), data)
    right = model(data.x_test).argmax(1) == data.y_test
    learned, seconds = timed(
        lambda: ms.fit_surrogate(
            model,
            data.x_train,
            x_validation=data.x_validation,
            network=network,
            players=data.players,
            max_epochs=epochs,
            batch_size=64,
            trainer={"accelerator": "cpu"},
        )
    )
    values = {"learned": learned} | filled(model, data)
    x = data.x_test[:scored]
    mask = ms.metrics.shapley_pairs(
        len(x), len(data.players), 50 * len(x), counts=learned.counts(learned.rows(x))
    )
    errors = {}
    for name, value in values.items():
        score = ms.metrics.mean_squared_error(value, x, mask)
        errors[name] = {"mse": score.mse, "standard error": score.standard_error}
        print(name, errors[name], flush=True)
    along = ms.permutation_shapley(
        learned, x[:explained], ordering=[[name] for name in data.players.names], permutations=2
    )
    best = min(errors[name]["mse"] for name in errors if name != "learned")
    figures = {
        "accuracy": right.float().mean().item(),
        "learned over the best": errors["learned"]["mse"] / best,
        "efficiency gap along time": along.efficiency_gap,
        "seconds of the surrogate": seconds,
    }
    return {"errors": errors, "figures": figures}


def filled(model: ms.Model, data: Data) -> dict[str, ms.ImputedValue]:
    """Value functions that fill absent time points in, with zeros or with means of channels."""
    x, players = data.x_train, data.players
    inside = players.owners(x) >= 0
    mean = torch.where(inside, x, 0.0).sum((0, 2)) / inside.sum((0, 2))
    rows = {"zero": torch.zeros_like(x[0]), "mean": mean[:, None].expand_as(x[0]).clone()}
    return {
        name: ms.imputed_value(model, ms.imputers.BaselineImputer(row, players))
        for name, row in rows.items()
    }


def tables(found: Found) -> list[Table]:
    return [records("value function", found["errors"]), records("", {"": found["figures"]})]
