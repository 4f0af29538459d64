"""Trains a task on rows in memory."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manifold_shap.io.files import load_checkpoint
from manifold_shap.training.batches import loader
from manifold_shap.training.task import Task

# An epoch ends with a validation: after every few batches it would cost more than the training.
_LEAST_BATCHES = 100


def train(
    task: Task,
    rows: tuple[Tensor, ...],
    validation: tuple[Tensor, ...],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Train a task until the last epoch, or until the validation loss no longer falls.

    After every epoch `best.ckpt` and `last.ckpt` are written. Where there is a `last.ckpt` of the
    same training, it is continued, with the same result as without the interruption.

    Args:
        task: what to train; it ends on the CPU, with the weights that were kept.
        rows: tensors with one common first axis; a batch is a tuple with a part of each.
        validation: the same, held out.
        options: see `training_options`.

    Returns:
        `epochs` and `train_seconds`, those before an interruption included, and `validation`, the
        loss of the weights that were kept.

    Raises:
        ValueError: the loss is not finite; settings that Lightning or this machine refuses; the
            directory holds another training.
        OSError: no space for the checkpoints; the earlier ones stay.
        KeyboardInterrupt: on Ctrl-C; the best checkpoint so far stays in the directory.
    """
    from manifold_shap.training.shell import fit

    size, seed = options["batch_size"], options["seed"]
    length = max(len(rows[0]), _LEAST_BATCHES * size)
    batches = loader(*rows, batch_size=size, shuffle=True, seed=seed, rows_per_epoch=length)
    held_out = loader(*validation, batch_size=max(size, 1024))
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(options["directory"] or scratch)
        epochs, seconds = fit(task, batches, held_out, directory, options)
        # Only what can be read back counts as trained.
        kept = load_checkpoint(directory / "best.ckpt", task.kind)
    task.load_state_dict(kept["state_dict"])
    task.eval().cpu()
    return {"epochs": epochs, "train_seconds": seconds, "validation": kept["validation"]}


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generators, and restore their state afterwards.

    >>> with seeded(0):
    ...     first = torch.rand(2)
    >>> with seeded(0):
    ...     assert torch.equal(torch.rand(2), first)
    """
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield
