"""Trains a task with Lightning: checkpoints, early stopping, averaged weights, resumption."""

import logging
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import (
    Callback,
    EarlyStopping,
    ModelCheckpoint,
    ProgressBar,
    WeightAveraging,
)
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn
from torch.utils.data import DataLoader
from tqdm import tqdm

from manifold_shap._checks import check_rows, to_tensor
from manifold_shap.io.files import load_checkpoint
from manifold_shap.players import Players
from manifold_shap.tables.schema import Schema
from manifold_shap.training.batches import epoch_rows, loader
from manifold_shap.training.task import Task


@dataclass(frozen=True)
class Training:
    """The result of a training.

    Attributes:
        task: the trained task on the CPU, with the weights that were kept.
        epochs: epochs trained, those before an interruption included.
        seconds: wall time, that before an interruption included.
        validation: validation loss of these weights.
    """

    task: Task
    epochs: int
    seconds: float
    validation: float

    @property
    def record(self) -> dict[str, Any]:
        """Epochs, seconds and validation loss, in plain numbers."""
        return {
            "epochs": self.epochs,
            "train_seconds": self.seconds,
            "validation": self.validation,
        }


def train(
    task: Task, batches: DataLoader, validation: DataLoader, options: Mapping[str, Any]
) -> Training:
    """Train until the last epoch, or until the validation loss no longer falls.

    After every epoch `best.ckpt` and `last.ckpt` are written. Where there is a `last.ckpt` of the
    same training, it is continued, with the same result as without the interruption.

    Args:
        task: what to train.
        batches: training batches.
        validation: validation batches.
        options: see `training_options`.

    Raises:
        ValueError: the loss is not finite; settings that Lightning or this machine refuses; the
            directory holds another training.
        OSError: no space for the checkpoints; the earlier ones stay.
        KeyboardInterrupt: on Ctrl-C; the best checkpoint so far stays in the directory.
    """
    with tempfile.TemporaryDirectory() as scratch, quiet():
        directory = Path(options["directory"] or scratch)
        last, epochs = directory / "last.ckpt", options["max_epochs"]
        before = task.interrupted(last) or {"seconds": 0.0}
        if _stopped_early(before):
            epochs = before["epoch"] + 1
        task.started = time.perf_counter() - before["seconds"]
        runner = _runner(directory, epochs, _callbacks(task, directory, options), options)
        _fit(runner, task, batches, validation, last if last.exists() else None)
        # Only what can be read back counts as trained.
        kept = load_checkpoint(directory / "best.ckpt", task.kind)
    task.load_state_dict(kept["state_dict"])
    seconds = time.perf_counter() - task.started
    return Training(task.eval().cpu(), runner.current_epoch, seconds, kept["validation"])


def train_on(
    task: Task,
    rows: tuple[Tensor, ...],
    validation: tuple[Tensor, ...],
    options: Mapping[str, Any],
) -> Training:
    """`train` on tensors in memory.

    Args:
        task: what to train.
        rows: tensors with one common first axis; a batch is a tuple with a part of each.
        validation: the same, held out.
        options: see `training_options`.
    """
    size = options["batch_size"]
    length = epoch_rows(len(rows[0]), size)
    seed = options["seed"]
    batches = loader(*rows, batch_size=size, shuffle=True, seed=seed, rows_per_epoch=length)
    return train(task, batches, loader(*validation, batch_size=max(size, 1024)), options)


def players_of(x: Any, players: Players | None, schema: Schema | None) -> Players:
    """The players given; by default the columns of the schema, or else the elements of a row.

    Raises:
        TypeError: `x` is no tensor or array of numbers.
        ValueError: the rows have another number of elements than the schema encodes.
    """
    event = to_tensor(x, "x_train").shape[1:]
    if schema is not None and event.numel() != schema.width:
        raise ValueError(
            f"Expected `x_train` with {schema.width} elements in a row, as `schema` encodes a "
            f"table, but got shape {tuple(x.shape)}; encode the table by `schema.encode`."
        )
    if players is not None:
        return players
    if schema is not None:
        return schema.players
    return Players.of_elements(event)


def training_rows(
    x_train: Any, x_validation: Any, players: Players, seed: int
) -> tuple[Tensor, Tensor]:
    """Rows to train and to validate on, checked; without the latter, a tenth is held out.

    Raises:
        TypeError, ValueError: rows that are not finite or of another shape than `players` own, or
            fewer than two.
    """
    x_train = check_rows(x_train, players, "x_train")
    if x_validation is not None:
        return x_train, check_rows(x_validation, players, "x_validation")
    if len(x_train) < 2:
        raise ValueError(
            f"Expected at least 2 training rows but got {len(x_train)}; one of them is held out "
            "for validation."
        )
    order = torch.randperm(len(x_train), generator=torch.Generator().manual_seed(seed))
    held_out = max(1, round(0.1 * len(x_train)))
    return x_train[order[held_out:]], x_train[order[:held_out]]


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


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Lightning's advertisements and the warnings that do not apply here."""
    loggers = [logging.getLogger(f"lightning.{name}") for name in ("pytorch", "fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            # Batches are gathered from memory: worker processes would only slow them down.
            warnings.filterwarnings("ignore", ".*does not have many workers.*")
            warnings.filterwarnings("ignore", ".*Checkpoint directory .* exists and is not empty.*")
            # Lightning 2.6 still uses a check that torch 2.10 deprecated.
            warnings.filterwarnings("ignore", ".*treespec, LeafSpec.*", FutureWarning)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


class StepsBar(ProgressBar):
    """One progress bar over all training steps, shown on trainings of more than two seconds.

    Args:
        name: what is trained.
        every: steps between updates.
    """

    def __init__(self, name: str, every: int = 20) -> None:
        super().__init__()
        self.name, self.every = name, every
        self.bar: tqdm | None = None

    def on_train_start(self, trainer: L.Trainer, task: L.LightningModule) -> None:
        steps, done = int(trainer.estimated_stepping_batches), trainer.global_step
        self.bar = tqdm(total=steps, initial=done, desc=self.name, unit="step", delay=2)

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        if self.bar is not None and trainer.global_step % self.every == 0:
            self.bar.update(trainer.global_step - self.bar.n)

    def on_validation_end(self, trainer: L.Trainer, task: L.LightningModule) -> None:
        if self.bar is not None:
            loss = float(trainer.callback_metrics["validation"])
            shown = {"epoch": trainer.current_epoch + 1, "validation": f"{loss:.5f}"}
            self.bar.set_postfix(shown, refresh=False)

    def on_train_end(self, trainer: L.Trainer, task: L.LightningModule) -> None:
        if self.bar is not None:
            self.bar.update(trainer.global_step - self.bar.n)
            self.bar.close()

    def on_exception(self, trainer: L.Trainer, task: L.LightningModule, error: Any) -> None:
        if self.bar is not None:
            self.bar.close()


def _runner(
    directory: Path, epochs: int, callbacks: list[Callback], options: Mapping[str, Any]
) -> L.Trainer:
    own = {"enable_progress_bar": options["progress"], **(options["trainer"] or {})}
    silent = {"logger": False, "enable_model_summary": False, "num_sanity_val_steps": 0}
    usual = {**silent, "callbacks": callbacks, "default_root_dir": directory, "max_epochs": epochs}
    try:
        return L.Trainer(**{**usual, **own})
    except (MisconfigurationException, ImportError, RuntimeError, ValueError, TypeError) as error:
        raise ValueError(
            "Expected `trainer` settings that Lightning and this machine can run but got "
            f"{own}: {error}"
        ) from error


def _callbacks(task: Task, directory: Path, options: Mapping[str, Any]) -> list[Callback]:
    patience, decay = options["patience"], options["weight_averaging"]
    callbacks: list[Callback] = []
    if decay is not None:
        # Averaging comes first: the checkpoints must see the weights that it has swapped in.
        average = get_ema_multi_avg_fn(decay)
        callbacks.append(WeightAveraging(use_buffers=False, multi_avg_fn=average))
    if patience is not None:
        stop = EarlyStopping("validation", patience=patience, check_on_train_epoch_end=False)
        callbacks.append(stop)
    checkpoint = partial(
        ModelCheckpoint, directory, enable_version_counter=False, save_on_train_epoch_end=False
    )
    monitor, mode = ("epoch", "max") if patience is None else ("validation", "min")
    callbacks += [checkpoint("best", monitor=monitor, mode=mode), checkpoint("last")]
    return [*callbacks, StepsBar(task.kind)] if options["progress"] else callbacks


def _stopped_early(checkpoint: Mapping[str, Any]) -> bool:
    states = checkpoint.get("callbacks", {}).values()
    return any(state.get("stopped_epoch", 0) > 0 for state in states)


def _fit(
    runner: L.Trainer, task: Task, batches: DataLoader, validation: DataLoader, last: Path | None
) -> None:
    try:
        runner.fit(task, batches, validation, ckpt_path=last, weights_only=True)
    except SystemExit as error:
        # What Lightning makes of Ctrl-C; it would end a notebook.
        raise KeyboardInterrupt from error
    except OSError as error:
        raise type(error)(
            error.errno,
            f"Could not write the checkpoints of the training to {runner.default_root_dir} "
            f"({error.strerror or error}); free some space or choose another place. The same call "
            "continues from the last one that was written.",
        ) from error
