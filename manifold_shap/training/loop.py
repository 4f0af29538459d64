"""Trains a task on rows in memory, and says which rows and players a training is of."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manifold_shap._checks import check_rows, to_tensor
from manifold_shap.io.files import load_checkpoint
from manifold_shap.players import Players
from manifold_shap.tables.schema import Schema
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


def training_rows(
    x_train: Any,
    x_validation: Any,
    seed: int,
    players: Players | None = None,
    schema: Schema | None = None,
) -> tuple[Players, Tensor, Tensor]:
    """The players, and the rows to train and to validate on, checked.

    Args:
        x_train: rows.
        x_validation: rows, or None to hold out a tenth of the others by the seed.
        players: by default the columns of the schema, or else the elements of a row.

    Raises:
        TypeError, ValueError: rows that are not finite, of another shape than `players` own or the
            schema encodes, or fewer than two; players that are none, or differ from row to row.
    """
    if not isinstance(players, Players | None):
        raise TypeError(
            f"Expected `players` to be a Players but got {type(players).__name__}; name columns "
            "of numbers by `Players.of_elements((columns,), names)`."
        )
    if players is not None and players.by_row:
        raise ValueError(
            "Expected `players` that own the same elements in every row but got some by row; train "
            "with a player for each element, and group these by `value.grouped(labels)`."
        )
    event = to_tensor(x_train, "x_train").shape[1:]
    if schema is not None and event.numel() != schema.width:
        raise ValueError(
            f"Expected `x_train` with {schema.width} elements in a row, as `schema` encodes a "
            f"table, but got shape {tuple(x_train.shape)}; encode the table by `schema.encode`."
        )
    players = players or (schema.players if schema else Players.of_columns(x_train, event))
    x_train = check_rows(x_train, players, "x_train")
    if x_validation is not None:
        return players, x_train, check_rows(x_validation, players, "x_validation")
    if len(x_train) < 2:
        raise ValueError(
            f"Expected at least 2 training rows but got {len(x_train)}; one of them is held out "
            "for validation."
        )
    order = torch.randperm(len(x_train), generator=torch.Generator().manual_seed(seed))
    held_out = max(1, round(0.1 * len(x_train)))
    return players, x_train[order[held_out:]], x_train[order[:held_out]]


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
