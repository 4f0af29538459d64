"""Rows, players and models that all parts share, from stored tensors."""

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

import manifold_shap as ms

INPUTS = Path(__file__).parent / "inputs.pt"
STORED: dict[str, Any] = torch.load(INPUTS, weights_only=True)
MIXED, DIGITS, DISCRETE = (STORED[name] for name in ("mixed", "digits", "discrete"))

# One-hot columns are collinear; with more than a trace of it, results do not hang on rounding.
RIDGE = 0.05


def game_of(size: str) -> tuple[Callable[[Tensor, Tensor], Tensor], Tensor]:
    """v(S) of a small network on rows whose absent players are 0, and its rows."""
    weights = STORED["games"][size]

    def game(x: Tensor, mask: Tensor) -> Tensor:
        return torch.tanh((x[:, None] * mask) @ weights["first"] + 0.3) @ weights["second"]

    return game, weights["x"]


def network(weights: Mapping[str, Tensor]) -> nn.Module:
    """The classifier of the stored weights, which gives logits."""
    hidden, width = weights["1.weight"].shape
    layers = nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, len(weights["3.weight"]))
    module = nn.Sequential(nn.Flatten(), *layers)
    module.load_state_dict(weights)
    return module


def players_of(rows: Mapping[str, Any]) -> ms.Players:
    """Players as stored, an index and names."""
    return ms.Players(tuple(rows["names"]), rows["index"])


MODEL, PLAYERS = network(MIXED["model"]), players_of(MIXED)
# Two numbers in different units.
NUMBERS = ms.as_model(
    lambda x: MODEL(x).detach()[:, :2] * torch.tensor([100.0, 0.1]) + 5,
    MIXED["reference"],
    returns="values",
)
with warnings.catch_warnings(action="ignore"):  # Of the ridge.
    GAUSSIAN = ms.imputers.GaussianImputer(MIXED["reference"], PLAYERS, RIDGE)


class Pictures(nn.Module):
    """A convolutional classifier of pictures of 8 x 8."""

    def __init__(self) -> None:
        super().__init__()
        filters, last = DIGITS["own model"]["filters"], DIGITS["own model"]["last"]
        self.convolution = nn.Conv2d(1, len(filters), 3, 2)
        self.last = nn.Linear(last.shape[1], len(last))
        with torch.no_grad():
            self.convolution.weight.copy_(filters)
            self.convolution.bias.zero_()
            self.last.weight.copy_(last)
            self.last.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.convolution(x).relu().flatten(1))


class Tokens(nn.Module):
    """A mean of vectors of tokens and of their order, through a tanh."""

    def __init__(self) -> None:
        super().__init__()
        vectors, last = STORED["tokens"]["vectors"], STORED["tokens"]["last"]
        self.embedding = nn.Embedding(*vectors.shape, padding_idx=0)
        self.last = nn.Linear(vectors.shape[1], 1)
        with torch.no_grad():
            self.embedding.weight.copy_(vectors)
            self.last.weight.copy_(last)
            self.last.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        vectors = self.embedding(x)
        return self.last((vectors + 0.5 * vectors.cumsum(1)).sum(1).tanh())


# Rows of up to six tokens out of nine, padded by 0.
TOKENS = STORED["tokens"]["x"], ms.Players.tokens(6, padding=0)
# Series of two channels and up to twelve time points, padded.
PADDING = -9.0
SERIES = STORED["series"]["x"], ms.Players.segments((2, 12), 2, PADDING)


def level(x: Tensor) -> Tensor:
    """One number of series."""
    known = x.where(x != PADDING, 0.0)
    total = (known * STORED["series"]["weight"]).sum((1, 2))[:, None]
    return total.tanh() + known.mean((1, 2))[:, None]


LEVEL = ms.as_model(level, SERIES[0], returns="values")


def estimators(players: int) -> dict[str, Any]:
    """Each family once, for a game of so many players."""
    few = 10 * players
    return {
        "permutation": partial(ms.permutation_shapley, permutations=6, seed=1),
        "kernel": partial(ms.kernel_shapley, evaluations=few, seed=1),
        "odd": partial(ms.odd_shapley, evaluations=few, seed=1),
        "adaptive": partial(ms.adaptive_shapley, samples=8 * players, least=4, seed=1),
        "auto": partial(ms.auto_shapley, evaluations=few, seed=1),
    }


# -- frames ------------------------------------------------------------------------------------

TOWNS = np.array(["Bern", "Oslo", "Rome", "Ulm"], dtype=object)
LEVELS = ["low", "middle", "high"]


def people() -> pd.DataFrame:
    """Whole numbers, decimals with gaps, text with gaps, yes and no, ordered and zoned columns."""
    columns = {name: each.numpy() for name, each in STORED["people"].items()}
    town, weeks = columns["town"], pd.to_timedelta(columns["since"] * 7, unit="h")
    columns |= {
        "income": columns["income"].astype("float64"),
        "town": np.where(town < 0, None, TOWNS[town]),
        "level": pd.Categorical.from_codes(columns["level"], LEVELS, ordered=True),
        "since": pd.Timestamp("2020-03-28", tz="Europe/Berlin") + weeks,
    }
    return pd.DataFrame(columns, index=[f"p{k}" for k in range(len(town))])


def numbers(frame: pd.DataFrame) -> np.ndarray:
    """Two logits of people, from their cells."""
    town = frame["town"].map({"Oslo": 0.8, "Rome": -0.7, "Ulm": 0.1, "Bern": 0.0}).fillna(0.0)
    level = frame["level"].astype(str).map({name: k for k, name in enumerate(LEVELS)})
    income = frame["income"].fillna(-0.5) * (frame["member"].astype(float) * 1.4 - 0.4)
    first = income + 0.2 * level
    second = town * (frame["age"] / 20) - 0.05 * frame["since"].dt.hour
    return np.stack((first, second), axis=1).astype(float)


def probabilities(frame: pd.DataFrame) -> np.ndarray:
    """Of three classes."""
    odds = np.exp(np.concatenate((numbers(frame), np.zeros((len(frame), 1))), axis=1))
    return odds / odds.sum(1, keepdims=True)
