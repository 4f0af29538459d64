"""Runs a training with Lightning: checkpoints, early stopping, averaged weights, resumption."""

import logging
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
    WeightAveraging,
)
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn
from torch.utils.data import DataLoader
from tqdm import tqdm

from manifold_shap._progress import progress_bar
from manifold_shap._words import UnfitError
from manifold_shap.training.task import SCHEDULES, Task

# Steps between checks of the training loss, and between updates of a progress bar: on an
# accelerator each waits for its step.
_EVERY = 20


class Shell(L.LightningModule):
    """Gives a task the steps, the optimiser and the random numbers that all trainings share.

    What a loss draws is a function of the seed and the step, so that a training that was
    interrupted and resumed draws the same. In validation it is a function of the seed and the
    batch: every epoch draws the same.

    Args:
        task: what to train.
        started: when the training would have begun had it never been interrupted.
        progress: whether a training of more than two seconds shows a bar over all of its steps.
    """

    # Of the class until a training starts: averaged weights are those of a copy of the shell.
    bar = tqdm(disable=True)

    def __init__(self, task: Task, started: float, progress: bool | None) -> None:
        super().__init__()
        self.task, self.started, self.progress = task, started, progress
        self._losses: list[Tensor] = []

    def on_train_start(self) -> None:
        steps, done = int(self.trainer.estimated_stepping_batches), self.global_step
        self.bar = progress_bar(self.progress, steps, self.task.kind, "step", initial=done)

    def training_step(self, batch: tuple[Tensor, ...], batch_idx: int) -> Tensor:
        loss = self.task.loss(batch, self._generator(self.global_step)).mean()
        if batch_idx % _EVERY == 0:
            self._check_finite(loss, "training")
        return loss

    def on_train_batch_end(self, *_: Any) -> None:
        if self.global_step % _EVERY == 0:
            self.bar.update(self.global_step - self.bar.n)

    def on_train_end(self) -> None:
        self.bar.update(self.global_step - self.bar.n)

    def on_validation_epoch_start(self) -> None:
        self._losses = []

    def validation_step(self, batch: tuple[Tensor, ...], batch_idx: int) -> None:
        # No training step has a negative number.
        self._losses.append(self.task.loss(batch, self._generator(-1 - batch_idx)))

    def on_validation_epoch_end(self) -> None:
        validation = torch.cat(self._losses).mean()
        self._check_finite(validation, "validation")
        self.log("validation", validation)
        shown = {"epoch": self.current_epoch + 1, "validation": f"{validation:.4g}"}
        self.bar.set_postfix(shown, refresh=False)

    def configure_optimizers(self) -> Any:
        """AdamW, with the learning rate scheduled over all steps."""
        own = self.task.settings
        rate, decay = own["learning_rate"], own["weight_decay"]
        optimizer = torch.optim.AdamW(self.parameters(), rate, weight_decay=decay, fused=True)
        steps = int(self.trainer.estimated_stepping_batches)
        scheduler = SCHEDULES[own["schedule"]](optimizer, rate, steps)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Record what `load_task` reads, the validation loss, and the time it took."""
        checkpoint["kind"] = self.task.kind
        checkpoint["hyper_parameters"] = self.task.settings
        checkpoint["validation"] = float(self.trainer.callback_metrics["validation"])
        checkpoint["seconds"] = time.perf_counter() - self.started
        _rename(checkpoint, lambda name: name.removeprefix("task."))

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        _rename(checkpoint, lambda name: f"task.{name}")

    def _generator(self, step: int) -> torch.Generator:
        seed = (self.task.settings["seed"] * 1_000_003 + step) % 2**63
        return torch.Generator(self.device).manual_seed(seed)

    def _check_finite(self, loss: Tensor, part: str) -> None:
        found = loss.item()
        if not math.isfinite(found):
            rate = self.task.settings["learning_rate"]
            raise UnfitError(
                f"Expected a finite {part} loss of the {self.task.kind} but it is {found} in step "
                f"{self.global_step}: the training diverged, and nothing of it counts as finished. "
                f"Choose a smaller `learning_rate` (it is {rate:g}), or clip gradients by "
                "trainer={'gradient_clip_val': 1.0}."
            )


def _rename(checkpoint: dict[str, Any], name_of: Callable[[str], str]) -> None:
    """Rename the weights of a checkpoint: in a file they are those of the task."""
    for part in {"state_dict", "current_model_state"} & checkpoint.keys():
        checkpoint[part] = {name_of(name): weight for name, weight in checkpoint[part].items()}


def fit(
    task: Task,
    batches: DataLoader,
    validation: DataLoader,
    directory: Path,
    options: Mapping[str, Any],
) -> tuple[int, float]:
    """Train a task, or resume a training that was interrupted; see `train`.

    Returns:
        Epochs and seconds, those before an interruption included.
    """
    last, epochs = directory / "last.ckpt", options["max_epochs"]
    before = task.interrupted(last)
    if before is not None and _stopped_early(before):
        epochs = before["epoch"] + 1
    started = time.perf_counter() - (before["seconds"] if before else 0.0)
    shell = Shell(task, started, options["progress"])
    with _quiet():
        runner = _runner(directory, epochs, _callbacks(directory, options), options)
        try:
            runner.fit(
                shell, batches, validation, ckpt_path=last if before else None, weights_only=True
            )
        except SystemExit as error:
            # What Lightning makes of Ctrl-C; it would end a notebook.
            raise KeyboardInterrupt from error
        except OSError as error:
            raise type(error)(
                error.errno,
                f"Could not write the checkpoints of the training to {directory} "
                f"({error.strerror or error}); free some space or choose another place. The same "
                "call continues from the last one that was written.",
            ) from error
        finally:
            shell.bar.close()
    return runner.current_epoch, time.perf_counter() - shell.started


@contextmanager
def _quiet() -> Iterator[None]:
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


def _runner(
    directory: Path, epochs: int, callbacks: list[Callback], options: Mapping[str, Any]
) -> L.Trainer:
    own = dict(options["trainer"] or {})
    silent = dict.fromkeys(("logger", "enable_model_summary", "enable_progress_bar"), False)
    usual = {"callbacks": callbacks, "default_root_dir": directory, "max_epochs": epochs}
    try:
        return L.Trainer(**{**silent, **usual, "num_sanity_val_steps": 0, **own})
    except (MisconfigurationException, ImportError, RuntimeError, ValueError, TypeError) as error:
        raise ValueError(
            "Expected `trainer` settings that Lightning and this machine can run but got "
            f"{own}: {error}"
        ) from error


def _callbacks(directory: Path, options: Mapping[str, Any]) -> list[Callback]:
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
    return callbacks


def _stopped_early(checkpoint: Mapping[str, Any]) -> bool:
    states = checkpoint.get("callbacks", {}).values()
    return any(state.get("stopped_epoch", 0) > 0 for state in states)
