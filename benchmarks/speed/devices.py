"""Training in two processes beside one, each with one thread (gloo on processors).

The same surrogate of MNIST, the same rows in every step. To be run as `OMP_NUM_THREADS=1 python
benchmarks/reproduce.py speed/devices` on a machine with two free cores.
"""

from functools import partial
from typing import Any

import torch

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.support.trained import Trained
from benchmarks.timing import timed

TITLE = "Training on several devices"
QUICK = {"epochs": 1, "pairs": 2000}


def run(
    data: str = "mnist",
    network: str = "conv",
    epochs: int = 8,
    batch_size: int = 512,  # rows of a step, of all processes together
    devices: tuple[int, ...] = (1, 2),
    pairs: int = 20_000,  # of a row and a coalition, in each error
) -> dict[str, Any]:
    """Seconds and errors by the number of processes."""
    torch.set_num_threads(1)
    trained = Trained(data, seed=0)
    x = trained.data.x_test
    mask = ms.metrics.shapley_pairs(len(x), len(trained.data.players), pairs)
    found: dict[str, Any] = {}
    for count in devices:
        trainer = {"accelerator": "cpu", "devices": count}
        changes: dict[str, Any] = {"network": network, "max_epochs": epochs, "trainer": trainer}
        fit = partial(trained.surrogate, batch_size=batch_size, **changes)
        value, seconds = timed(fit)
        score = ms.metrics.mean_squared_error(value, x, mask)
        figures = {"mse": score.mse, "standard error": score.standard_error}
        found[f"{count} processes"] = {"seconds": seconds, **figures}
        print(count, found[f"{count} processes"], flush=True)
    return found


def tables(found: Found) -> list[Table]:
    first = next(iter(found.values()))["seconds"]
    rows = {name: {**one, "times as fast": first / one["seconds"]} for name, one in found.items()}
    return [records("", rows)]
