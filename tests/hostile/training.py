"""A training of seconds on some devices: `python -m tests.hostile.training PLACE DEVICES`."""

import sys
from pathlib import Path

import torch

from tests.training.test_task import X, Y, fit, line

EPOCHS = 30


def train(place: Path, devices: int) -> None:
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
    assert trained.record["epochs"] == EPOCHS
    torch.save(line(trained), place / "line.pt")


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(Path(sys.argv[1]), int(sys.argv[2]))
