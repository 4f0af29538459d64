"""Trainings of seconds: `python -m tests.hostile.training NAME PLACE DEVICES [STEP]`.

Before a step on the disk of that number there is no space left; see `tests.hostile.steps`.
"""

import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

import manifold_shap as ms
from tests.hostile.steps import watched
from tests.training.test_task import X, Y, fit, line

EPOCHS = 30
# Rows in a file, half a gigabyte, and the memory for all else that a process may take.
SHAPE, FILE, MEMORY = (640_000, 200), "rows.npy", 2**28


def of_a_line(place: Path, devices: int) -> None:
    """Weights in a file, which any number of devices should end with: drawn numbers move none."""
    x, y = torch.cat([X] * 4), torch.cat([Y] * 4)
    trained = fit(
        x,
        y,
        directory=place / "fit",
        trainer={"devices": devices, "accelerator": "cpu", "limit_train_batches": 5},
        max_epochs=EPOCHS,
        patience=None,
        schedule="constant",
        progress=False,
    )
    _keep(place, trained.record, line(trained))


def model(x: torch.Tensor) -> torch.Tensor:
    return (x[:, :3] + x[:, 3:6]).softmax(-1)


def write_rows(path: Path) -> None:
    """Rows of which no two in a thousand are alike."""
    some = np.random.default_rng(0).standard_normal((1000, SHAPE[1]), "float32")
    file = np.lib.format.open_memmap(path, "w+", "float32", SHAPE)
    for first in range(0, SHAPE[0], len(some)):
        file[first : first + len(some)] = some


def of_a_surrogate(place: Path, devices: int) -> None:
    """A surrogate for rows in a file that are more than the memory of a process."""
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY, used + MEMORY))
    rows = np.load(place.parent / FILE, mmap_mode="r")
    try:
        np.array(rows)
    except MemoryError:
        pass
    else:
        raise AssertionError("Expected the rows to be more than the memory.")
    value = ms.fit_surrogate(
        model,
        rows,
        x_validation=torch.from_numpy(rows[:512].copy()),
        hidden=[16],
        directory=place / "fit",
        trainer={"devices": devices, "accelerator": "cpu", "limit_train_batches": 5},
        max_epochs=EPOCHS,
        patience=None,
        progress=False,
    )
    weights = torch.cat([each.detach().flatten() for each in value.surrogate.parameters()])
    _keep(place, value.training_record, weights)


def _keep(place: Path, record: dict[str, Any], weights: torch.Tensor) -> None:
    assert record["epochs"] == EPOCHS
    torch.save({"weights": weights, "loss": record["validation"]}, place / "trained.pt")


TRAININGS = {"line": of_a_line, "surrogate": of_a_surrogate}


def main(name: str, place: str, devices: str, *step: str) -> None:
    def work() -> None:
        TRAININGS[name](Path(place), int(devices))

    if devices == "1":
        number, counted = int(step[0]) if step else None, Path(f"{place}.steps")
        watched(work, Path(place), number, "full", counted)
    else:
        work()


if __name__ == "__main__":
    torch.set_num_threads(1)
    # By its name: processes of other devices import what is sent to them.
    from tests.hostile import training

    training.main(*sys.argv[1:])
