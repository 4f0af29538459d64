"""The training loop that every task shares: Lightning with our callbacks."""

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import lightning as L
import torch
from lightning.pytorch.callbacks import (
    Callback,
    EarlyStopping,
    ModelCheckpoint,
    WeightAveraging,
)
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn
from torch.utils.data import DataLoader

from manifold_shap._checks import check_rows
from manifold_shap.io.files import load_checkpoint
from manifold_shap.players import Players
from manifold_shap.training.batches import epoch_rows, loader
from manifold_shap.training.runner import QUIET, StepsBar, make_runner, quiet

SCHEDULES = ("one_cycle", "cosine", "constant")


class Task(L.LightningModule):
    """Optimiser and schedule, shared by what we train.

    Hyperparameters `learning_rate`, `weight_decay` and `schedule` are read from `self.hparams`.
    """

    kind: str
    # When the training began, had it never been interrupted.
    started: float = 0.0

    def configure_optimizers(self) -> Any:
        """AdamW, with the learning rate scheduled over all steps."""
        rate = self.hparams["learning_rate"]
        optimizer = torch.optim.AdamW(
            self.parameters(), rate, weight_decay=self.hparams["weight_decay"], fused=True
        )
        steps = int(self.trainer.estimated_stepping_batches)
        scheduler = _scheduler(self.hparams["schedule"], optimizer, rate, steps)
        if scheduler is None:
            return optimizer
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Say what the file holds, how good it is, and how long it took."""
        checkpoint["kind"] = self.kind
        checkpoint["validation"] = float(self.trainer.callback_metrics["validation"])
        checkpoint["seconds"] = time.perf_counter() - self.started


AnyTask = TypeVar("AnyTask", bound=Task)


def load_task(
    path: str | Path, of: type[AnyTask], name: str | None = None
) -> tuple[AnyTask, dict[str, Any]]:
    """What was trained, from a checkpoint; no code in it is run.

    Args:
        path: the checkpoint.
        of: the class of the task.
        name: what to call it in errors; by default its kind.

    Returns:
        The task with its weights, and all that the file holds.

    Raises:
        FileNotFoundError: no file is there.
        ValueError: it is damaged or foreign.
    """
    checkpoint = load_checkpoint(path, of.kind)
    try:
        task = of(**checkpoint["hyper_parameters"])
        task.load_state_dict(checkpoint["state_dict"])
    except (KeyError, TypeError, RuntimeError) as error:
        raise ValueError(
            f"Expected the {name or of.kind} in {path} to be complete but it does not fit together "
            f"({str(error).splitlines()[0]}); train it again."
        ) from error
    return task, checkpoint


def _scheduler(
    schedule: str, optimizer: torch.optim.Optimizer, rate: float, steps: int
) -> torch.optim.lr_scheduler.LRScheduler | None:
    if schedule == "one_cycle":
        return torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, steps)
    if schedule == "cosine":
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    if schedule == "constant":
        return None
    raise ValueError(f"Expected `schedule` to be one of {SCHEDULES} but got {schedule!r}.")


@dataclass(frozen=True)
class Training:
    """What came of a training.

    Attributes:
        task: the trained module, with the weights that were kept.
        checkpoint: the file that holds them.
        epochs: epochs trained, those before an interruption included.
        seconds: wall time, that before an interruption included.
        validation: validation loss of these weights.
    """

    task: Task
    checkpoint: Path
    epochs: int
    seconds: float
    validation: float

    @property
    def record(self) -> dict[str, Any]:
        """What is told of it beside the results."""
        return {
            "epochs": self.epochs,
            "train_seconds": self.seconds,
            "validation": self.validation,
        }


def train(
    task: Task,
    batches: DataLoader,
    validation: DataLoader,
    directory: str | Path,
    *,
    max_epochs: int,
    patience: int | None = 20,
    weight_averaging: float | None = 0.99,
    trainer: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> Training:
    """Train until `max_epochs`, or until the validation loss has not fallen for `patience` epochs.

    `directory` receives `best.ckpt` and `last.ckpt` after every epoch. A `last.ckpt` that is there
    already is an interrupted training: it is continued, with the same result as without the
    interruption.

    Args:
        task: what to train.
        batches: training batches.
        validation: validation batches.
        directory: where the checkpoints go.
        max_epochs: passes over `batches`, at most.
        patience: epochs without improvement before training stops; the weights of the best epoch
            are kept. None trains to the end, and keeps the last.
        weight_averaging: decay of the exponential moving average of the weights that is validated
            and kept; None for the plain weights.
        trainer: further arguments of `lightning.Trainer` (`accelerator`, `precision`, ...).
        progress: show a bar on work of more than two seconds.

    Raises:
        ValueError: settings that Lightning or this machine refuses.
        OSError: no space for the checkpoints; the earlier ones stay.
        KeyboardInterrupt: on Ctrl-C; the best checkpoint so far stays in `directory`.
    """
    directory = Path(directory)
    callbacks: list[Callback] = [
        _keep(
            directory, "best", *(("epoch", "max") if patience is None else ("validation", "min"))
        ),
        _keep(directory, "last"),
    ]
    if patience is not None:
        _check_count("patience", patience)
        stop = EarlyStopping("validation", patience=patience, check_on_train_epoch_end=False)
        callbacks.insert(0, stop)
    if weight_averaging is not None:
        # Averaging goes first: the checkpoints must see what it has swapped in.
        average = get_ema_multi_avg_fn(weight_averaging)
        callbacks.insert(0, WeightAveraging(use_buffers=False, multi_avg_fn=average))
    if progress:
        callbacks.append(StepsBar())
    last = directory / "last.ckpt"
    _check_count("max_epochs", max_epochs)
    before: dict[str, Any] = {"seconds": 0.0}
    if last.exists():
        before = load_checkpoint(last, task.kind)
    if _stopped_early(before):
        max_epochs = before["epoch"] + 1
    task.started = time.perf_counter() - before["seconds"]
    with quiet():
        settings = {**QUIET, "enable_progress_bar": progress, **(trainer or {})}
        runner = make_runner(
            max_epochs=max_epochs, callbacks=callbacks, default_root_dir=directory, **settings
        )
        _fit(runner, task, batches, validation, last if last.exists() else None)
    kept = directory / "best.ckpt"
    checkpoint = load_checkpoint(kept, task.kind)
    task.load_state_dict(checkpoint["state_dict"])
    return Training(
        task=task.eval().cpu(),
        checkpoint=kept,
        epochs=runner.current_epoch,
        seconds=time.perf_counter() - task.started,
        validation=checkpoint["validation"],
    )


def train_on(
    task: Task,
    rows: tuple[Tensor, ...],
    validation: tuple[Tensor, ...],
    directory: str | Path | None,
    *,
    batch_size: int,
    seed: int,
    trainer: Mapping[str, Any] | None,
    progress: bool,
    **loop: Any,
) -> Training:
    """`train` on tensors in memory, in `directory` or in a place that is removed afterwards.

    Args:
        task: what to train.
        rows: tensors with one common first axis; a batch is a tuple with one part of each.
        validation: the same, held out.
        directory: keeps checkpoints; None for none.
        batch_size, seed: of the batches.
        trainer, progress, loop: see `train`.
    """
    length = epoch_rows(len(rows[0]), batch_size)
    batches = loader(*rows, batch_size=batch_size, shuffle=True, seed=seed, rows_per_epoch=length)
    check = loader(*validation, batch_size=max(batch_size, 1024))
    with tempfile.TemporaryDirectory() as scratch:
        place = directory or scratch
        return train(task, batches, check, place, **loop, trainer=trainer, progress=progress)


def check_continues(file: Path, kind: str, task: Task, described: Sequence[str]) -> None:
    """Raise if an interrupted training is one of other settings or other data.

    Args:
        file: what it left; nothing is checked where there is none.
        kind: of that file.
        task: the training to come.
        described: names of the buffers that hold what the task knows of its data.
    """
    if not file.exists():
        return
    checkpoint = load_checkpoint(file, kind)
    here, there = dict(task.hparams), checkpoint["hyper_parameters"]
    changed = [name for name in here if here[name] != there.get(name)]
    state = checkpoint["state_dict"]
    if not changed and not all(torch.equal(state[name], getattr(task, name)) for name in described):
        changed = ["the training rows, or the model's outputs on them"]
    if changed:
        raise ValueError(
            f"Expected {file.parent} to be empty or to hold an interrupted training of this "
            f"{task.kind}, but it is one that differs in: {', '.join(changed)}. Name another "
            "`directory`, or remove that one."
        )


def hold_out(x: Tensor, seed: int, share: float = 0.1) -> tuple[Tensor, Tensor]:
    """Training rows, and a share of them to validate on.

    Raises:
        ValueError: fewer than 2 rows.
    """
    if len(x) < 2:
        raise ValueError(f"Expected at least 2 training rows but got {len(x)}.")
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    held_out = max(1, round(share * len(x)))
    return x[order[held_out:]], x[order[:held_out]]


def training_rows(
    x_train: Any, x_validation: Any, players: Players, seed: int
) -> tuple[Tensor, Tensor]:
    """Rows to train and to validate on, checked; without the latter, a tenth is held out.

    Raises:
        TypeError, ValueError: rows that are not finite or of another shape than `players` own.
    """
    x_train = check_rows(x_train, players, "x_train")
    if x_validation is None:
        x_train, x_validation = hold_out(x_train, seed)
    return x_train, check_rows(x_validation, players, "x_validation")


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generators, and leave them afterwards as they were before."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield


def _check_count(name: str, count: Any) -> None:
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"Expected `{name}` to be an integer of at least 1 but got {count}.")


def _stopped_early(checkpoint: Mapping[str, Any]) -> bool:
    states = checkpoint.get("callbacks", {}).values()
    return any(state.get("stopped_epoch", 0) > 0 for state in states)


def _keep(
    directory: Path, name: str, monitor: str | None = None, mode: str = "min"
) -> ModelCheckpoint:
    return ModelCheckpoint(
        directory,
        name,
        monitor=monitor,
        mode=mode,
        enable_version_counter=False,
        save_on_train_epoch_end=False,
    )


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
            "goes on from the last one that was written.",
        ) from error
