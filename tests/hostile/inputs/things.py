"""Small sound things that hostile inputs are made of."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

import manifold_shap as ms

ROWS = torch.tensor([[0.5, 1.0, -1.0], [2.0, 3.0, 0.0], [1.0, 0.0, 4.0], [0.2, 0.7, 1.5]])
NAMES = ["age", "size", "price"]
WEIGHT = torch.tensor([[1.0, -1.0], [0.5, 0.5], [0.0, 2.0]])


def value(x: Tensor, mask: Tensor) -> Tensor:
    """The sum of the elements in the coalition."""
    return (x[:, None] * mask).sum(-1, keepdim=True)


def model(x: Tensor) -> Tensor:
    """Probabilities of two classes."""
    return (x @ WEIGHT).softmax(-1)


def frame(**columns: Any) -> pd.DataFrame:
    """Forty rows of a table of numbers and words, with columns replaced or added."""
    draws = np.random.default_rng(0)
    usual = {
        "age": draws.integers(20, 60, 40),
        "price": draws.normal(size=40),
        "town": draws.choice(["Rome", "Oslo"], 40),
    }
    return pd.DataFrame({**usual, **columns})


def of_frame(rows: pd.DataFrame) -> np.ndarray:
    """A model of frames: probabilities of two classes."""
    odds = rows["price"].to_numpy(float) + (rows["town"] == "Rome") - rows["age"] / 30
    one = 1 / (1 + np.exp(-odds.to_numpy(float)))
    return np.stack((1 - one, one), 1)


@cache
def codebook() -> ms.Codebook:
    return ms.Codebook.fit(frame())


@cache
def imputed() -> ms.ValueFunction:
    """A value function with a model and two outputs."""
    return ms.imputed_value(model, ms.MarginalImputer(ROWS), draws=4)


@cache
def explanation() -> ms.Explanation:
    return ms.exact_shapley(imputed(), ROWS)


def explained(x: Any, **settings: Any) -> ms.Explanation:
    """Exact Shapley values of the sum."""
    return ms.exact_shapley(value, x, **settings)


def given(mask: Any) -> Tensor:
    """Values of coalitions of the four rows."""
    return imputed()(ROWS, mask)
