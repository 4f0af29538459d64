"""A game and estimators that processes of an engine import, without a test framework."""

import os
import time
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from torch import Tensor

import manifold_shap as ms

ROWS = torch.randn(22, 4, generator=torch.Generator().manual_seed(1))
FEW = partial(ms.permutation_shapley, permutations=4)
# Blocks of 8, 8 and 6 rows.
BLOCK = 8


def game(x: Tensor, mask: Tensor) -> Tensor:
    return (x[:, None] * mask).cumsum(-1).tanh()


def run(path: Any, **changes: Any) -> int:
    """Explain the rows in three blocks, unless something else is said."""
    call = {"value": game, "x": ROWS, "estimator": FEW, "block": BLOCK}
    return ms.explain_rows(path, **{**call, **changes})


def contents(store: Path) -> dict[str, bytes]:
    """Every file of a store, by its name in it."""
    files = [path for path in sorted(store.rglob("*")) if path.is_file()]
    return {str(path.relative_to(store)): path.read_bytes() for path in files}


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
