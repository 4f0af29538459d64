"""A game and estimators that processes of an engine import, without a test framework."""

import os
from functools import partial
from pathlib import Path
from typing import Any

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


def dies(value: Any, x: Tensor, seed: int = 0) -> ms.Explanation:
    """An estimator that kills the process that it is called in by the last block."""
    if len(x) == len(ROWS) % BLOCK:
        os._exit(9)
    return FEW(value, x, seed=seed)
