"""A game and estimators that processes of an engine import, without a test framework."""

import os
import time
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

import manifold_shap as ms

ROWS = torch.randn(96, 4, generator=torch.Generator().manual_seed(1))
FRAME = pd.DataFrame(ROWS.numpy(), columns=list("abcd"))
FEW = partial(ms.permutation_shapley, permutations=4)


def game(x: Tensor, mask: Tensor) -> Tensor:
    return (x[:, None] * mask).cumsum(-1).tanh()


class Watched:
    """An estimator that takes its time, and leaves a file for every block that it begins.

    Args:
        place: a directory for these files.
        seconds: that a block takes.
    """

    def __init__(self, place: Path, seconds: float = 0.0) -> None:
        self.place, self.seconds = place, seconds

    def __call__(self, value: Any, x: Tensor, seed: int = 0) -> ms.Explanation:
        if len(x) > 1:  # The first row alone is explained beforehand, by the process that calls.
            (self.place / f"{seed}.{os.getpid()}.{uuid4().hex}").touch()
            time.sleep(self.seconds)
        return FEW(value, x, seed=seed)

    def begun(self) -> list[tuple[str, int]]:
        """Seed and process of every block that was begun."""
        parts = [path.name.split(".") for path in self.place.iterdir()]
        return [(seed, int(process)) for seed, process, _ in parts]


def stuck(value: Any, x: Tensor, seed: int = 0) -> ms.Explanation:
    """An estimator that kills the process that it is called in, but for a single row."""
    if len(x) > 1:
        os._exit(9)
    return FEW(value, x, seed=seed)


def allow_failures(dask_scheduler: Any, count: int = 3) -> None:
    """How many workers may die of a task."""
    dask_scheduler.allowed_failures = count


def drawn_value() -> ms.ValueFunction:
    """A value function of a logistic regression of four columns, which draws."""
    model = LogisticRegression().fit(ROWS.numpy(), (ROWS.sum(1) > 0).long().numpy())
    return ms.imputed_value(model, ms.MarginalImputer(FRAME), draws=2)
