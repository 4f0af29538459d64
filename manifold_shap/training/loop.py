"""Trains a task on rows."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from manifold_shap.training.batches import Parts
from manifold_shap.training.task import Task


def train(
    task: Task,
    rows: Parts,
    validation: Parts,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Train a task until the last epoch, or until the validation loss no longer falls.

    After every epoch `best.ckpt` and `last.ckpt` are written. Where there is a `last.ckpt` of the
    same training, it is continued, with the same result as without the interruption.

    On several devices a step is on `batch_size` rows of all of them together, the same rows as on
    one; what the loss draws differs between them. Lightning starts the processes (`ddp_spawn`), or
    `torchrun` and the like do; then each of them has to call this, and ends with the same weights.

    Args:
        task: what to train; it ends on the CPU, with the weights that were kept.
        rows: tensors with one common first axis, or `StoredRows`; a batch is a tuple with a part
            of each.
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
    from manifold_shap.training.runner import fit

    if options["directory"] is not None:
        task.recognise(*rows, *validation)
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(options["directory"] or scratch)
        kept, epochs, seconds = fit(task, rows, validation, directory, options)
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
