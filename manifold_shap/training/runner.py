"""Runs a training with Lightning: checkpoints, early stopping, averaged weights, resumption."""

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import lightning as L
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import (
    Callback,
    EarlyStopping,
    ModelCheckpoint,
    WeightAveraging,
)
from torch.optim.swa_utils import get_ema_multi_avg_fn

from manifold_shap._messages import shown
from manifold_shap._progress import progress_bar
from manifold_shap.io.files import load_checkpoint, save_checkpoint
from manifold_shap.training.batches import Parts
from manifold_shap.training.shell import LOGGERS, Batches, Shell, silence
from manifold_shap.training.task import Task

_PRECISIONS = ("32-true", "64-true", "bf16-mixed", "16-mixed")


def fit(
    task: Task,
    rows: Parts,
    validation: Parts,
    directory: Path,
    options: Mapping[str, Any],
) -> tuple[dict[str, Any], int, float]:
    """Train a task, or resume a training that was interrupted; see `train`.

    Returns:
        The checkpoint that was kept; epochs and seconds, those before an interruption included.
    """
    last, epochs = directory / "last.ckpt", options["max_epochs"]
    before = task.interrupted(last)
    if before is not None and _stopped_early(before):
        epochs = before["epoch"] + 1
    started = time.perf_counter() - (before["seconds"] if before else 0.0)
    # In a process that Lightning starts nobody would be looking.
    shell = Shell(task, started, not progress_bar(options["progress"]).disable)
    batches = Batches(rows, validation, options["batch_size"], options["seed"])
    with _quiet():
        runner = _runner(directory, epochs, options)
        try:
            resumed = last if before else None
            runner.fit(shell, datamodule=batches, ckpt_path=resumed, weights_only=True)
        except SystemExit as error:
            # What Lightning makes of Ctrl-C; it would end a notebook.
            raise KeyboardInterrupt from error
        finally:
            shell.bar.close()
    found: Any = None
    if runner.is_global_zero:
        # Only what can be read back counts as trained.
        kept = load_checkpoint(directory / "best.ckpt", task.kind)
        found = kept, load_checkpoint(last, task.kind)["epoch"] + 1
    kept, epochs = runner.strategy.broadcast(found)
    return kept, epochs, time.perf_counter() - started


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Lightning's advertisements and the warnings that do not apply here."""
    levels = [logger.level for logger in LOGGERS]
    try:
        with warnings.catch_warnings():
            silence()
            yield
    finally:
        for logger, level in zip(LOGGERS, levels, strict=True):
            logger.setLevel(level)


def _runner(directory: Path, epochs: int, options: Mapping[str, Any]) -> L.Trainer:
    given = dict(options["trainer"] or {})
    more = given.pop("callbacks", None) or []
    silent = dict.fromkeys(("logger", "enable_model_summary", "enable_progress_bar"), False)
    usual: dict[str, Any] = {"default_root_dir": directory, "max_epochs": epochs}
    # An epoch may have fewer steps than Lightning expects between two points of a curve.
    usual |= {"log_every_n_steps": 1, "num_sanity_val_steps": 0}

    def made(**own: Any) -> L.Trainer:
        # Batches are cut into the parts of several processes by their own sampler.
        always = {"use_distributed_sampler": False, **own}
        callbacks = _callbacks(directory, options)
        callbacks += [more] if isinstance(more, Callback) else more
        return L.Trainer(**{**silent, **usual, "callbacks": callbacks, **given, **always})

    try:
        runner = made()
        if "strategy" not in given and _runs_the_program_again(runner):
            runner = made(strategy="ddp_spawn")
    except (MisconfigurationException, ImportError, RuntimeError, ValueError, TypeError) as error:
        raise ValueError(
            "Expected `trainer` settings that Lightning and this machine can run but got "
            f"{given}: {error}"
        ) from error
    if runner.precision not in _PRECISIONS:
        raise ValueError(
            f"Expected trainer={{'precision': ...}} among {shown(_PRECISIONS)}, which keep weights "
            f"in single precision or double, but got {runner.precision!r}; 'bf16-mixed' is as fast."
        )
    if type(runner.strategy.checkpoint_io) is TorchCheckpointIO:
        runner.strategy.checkpoint_io = _WholeFiles()
    return runner


class _WholeFiles(TorchCheckpointIO):
    """Writes a checkpoint beside its place; Lightning does in `/tmp`, often on another disk."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        if "kind" in checkpoint:
            save_checkpoint(path, checkpoint)
        else:  # Weights by which a process of Lightning's hands over what it has trained.
            super().save_checkpoint(checkpoint, path, storage_options)


def _runs_the_program_again(runner: L.Trainer) -> bool:
    """Whether Lightning would start the whole program once more for each further device."""
    if runner.num_devices == 1:
        return False
    strategy: Any = runner.strategy
    external = strategy.cluster_environment.creates_processes_externally
    return not (strategy.launcher.is_interactive_compatible or external)


def _callbacks(directory: Path, options: Mapping[str, Any]) -> list[Callback]:
    patience, decay = options["patience"], options["weight_averaging"]
    callbacks: list[Callback] = []
    if decay is not None:
        # Averaging comes first: the checkpoints must see the weights that it has swapped in.
        average = partial(_average, decay)
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


def _average(decay: float, *lists: Any) -> None:
    """One step of a moving average; other processes take it by its name."""
    get_ema_multi_avg_fn(decay)(*lists)
