"""Small sound things that hostile inputs are made of; paths lie in the working directory."""

import os
import shutil
import sys
from contextlib import chdir
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch
from omegaconf import OmegaConf
from torch import Tensor

import manifold_shap as ms
from manifold_shap import cli

X = torch.tensor([[0.5, 1.0, -1.0], [2.0, 3.0, 0.0], [1.0, 0.0, 4.0], [0.2, 0.7, 1.5]])
WEIGHT = torch.tensor([[1.0, -1.0], [0.5, 0.5], [0.0, 2.0]])
MARGINAL = ms.imputers.MarginalImputer(X)
FEW: dict[str, Any] = {"hidden": [4], "max_epochs": 1, "progress": False}


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
def table() -> ms.Table:
    return ms.Table.fit(frame())


@cache
def imputed() -> ms.ValueFunction:
    """A value function with a model and two outputs."""
    return ms.imputed_value(model, MARGINAL, draws=4)


@cache
def explanation() -> ms.Explanation:
    return ms.exact_shapley(imputed(), X)


@cache
def trained() -> ms.SurrogateValue:
    return ms.fit_surrogate(model, X.repeat(10, 1), **FEW)


def explained(x: Any, **settings: Any) -> ms.Explanation:
    """Exact Shapley values of the sum."""
    return ms.exact_shapley(value, x, **settings)


def asked(answer: Any, **settings: Any) -> ms.Explanation:
    """Explains a model that answers so."""
    return ms.exact_shapley(ms.imputed_value(answer, MARGINAL, draws=2, **settings), X)


def written(name: str, content: str | bytes = b"") -> str:
    """A file with this content, whose name is given back."""
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name


# -- commands ----------------------------------------------------------------------------------


def typed(name: str, *words: str) -> object:
    """A command as it is typed; it exits with its message."""
    argv = [f"{name}.py", *words, "runs_dir=runs", "progress=false"]
    with patch.object(sys, "argv", argv), patch.dict(os.environ):
        return {"train": cli.main_train, "explain": cli.main_explain}[name]()


IRIS = ("data=iris", "classifier=random_forest", "classifier.n_estimators=3")
TINY = ("value_function.hidden=[8]", "value_function.max_epochs=1")


@cache
def _runs() -> Path:
    """A forest and a surrogate of irises."""
    place = Path(mkdtemp())
    with chdir(place):
        typed("train", *IRIS, *TINY)
    return place / "runs"


def tampered(**changes: Any) -> object:
    """Explain irises after a change of groups of settings in the record of their run."""
    shutil.copytree(_runs(), "runs")
    path = Path("runs", "iris", "surrogate", "config.yaml")
    OmegaConf.save({**OmegaConf.load(path), **changes}, path)
    few = ("instances=2", "estimator=permutation", "estimator.permutations=4")
    return typed("explain", "data=iris", *few)
