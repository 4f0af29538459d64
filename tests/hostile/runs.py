"""What is killed: the commands and `explain_rows`, on few rows, each in a process of its own."""

import os
import time
from functools import partial
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

import manifold_shap as ms
from tests.hostile.things import MARGINAL, X, model, typed

TRAIN = (
    "classifier.hidden=[16]",
    "classifier.max_epochs=3",
    "value_function.hidden=[16]",
    "value_function.max_epochs=8",
)
EXPLAIN = ("estimator=permutation", "estimator.permutations=4", "instances=8")
BLOCKS, BLOCK = 6, 4

# Forked from a process that has imported what is imported here, and has no threads yet.
CONTEXT = get_context("forkserver")
CONTEXT.set_forkserver_preload(["lightning.pytorch", "zarr", "sklearn", "tests.hostile.runs"])


def slow_shapley(place: Path, value: Any, x: Tensor, **settings: Any) -> ms.Explanation:
    """An estimator that notes the blocks of rows that it has explained."""
    found = ms.permutation_shapley(value, x, permutations=4, **settings)
    if len(x) == BLOCK:
        time.sleep(0.1)
        with (place / "explained").open("a") as file:
            file.write(f"{x[0].tolist()}\n")
    return found


def stream(place: Path, again: bool) -> None:
    value = ms.imputed_value(model, MARGINAL, draws=4)
    rows = X.repeat(BLOCKS, 1) + torch.arange(len(X) * BLOCKS)[:, None] / 100
    estimator = partial(slow_shapley, place)
    ms.explain_rows(
        place / "rows.zarr", value, rows, estimator, block=BLOCK, resume=again, progress=False
    )


def run(what: str, place: Path, again: bool) -> None:
    """Do the work in this process, with what it says in a file."""
    torch.set_num_threads(1)
    said = os.open(place / f"{what}.said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.chdir(place)
    if what == "stream":
        stream(place, again)
    elif what == "train":
        typed("train", "data=iris", *TRAIN)
    else:
        typed("explain", "data=iris", *EXPLAIN, "block=1", f"resume={again}")


def started(what: str, place: Path, again: bool = False) -> ForkServerProcess:
    process = CONTEXT.Process(target=run, args=(what, place, again))
    process.start()
    return process


def results(what: str, place: Path) -> dict[str, Tensor]:
    """The numbers that a run ends with."""
    runs = place / "runs" / "iris"
    if what == "train":
        found = {}
        for path in runs.rglob("model.ckpt"):
            found |= torch.load(path, weights_only=True)["state_dict"]
        return found | load_file(runs / "surrogate" / "tensors.safetensors")
    stores = {"stream": place / "rows.zarr", "explain": runs / "surrogate" / "explanations.zarr"}
    found = ms.Explanation.load(stores[what])
    return {"phi": found.phi, "standard error": found.standard_error}
