"""Runs a training with Lightning: checkpoints, early stopping, averaged weights, resumption."""

import copy
import logging
import re
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
from lightning.pytorch.strategies import DDPStrategy
from torch.optim.swa_utils import get_ema_multi_avg_fn

from manifold_shap._memory import lacks_memory
from manifold_shap._messages import shown
from manifold_shap._progress import progress_bar
from manifold_shap._stored import reraise_worker_errors
from manifold_shap.io.files import load_checkpoint, save_checkpoint
from manifold_shap.training.batches import Parts
from manifold_shap.training.devices import broadcast_from_first, on_devices
from manifold_shap.training.shell import Batches, Shell
from manifold_shap.training.task import Task

# What libraries say where another process has ended.
_LOST_CONNECTION = r"gloo|NCCL|[Cc]onnection (closed|reset)|ProcessGroup"

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
    with _quiet():
        runner = _runner(directory, options["max_epochs"], [], options)
    count = _processes_to_start(runner)
    if count == 1:
        return _fit(task, rows, validation, directory, options)
    # In a process that was started nobody would be looking, and no more are to be started.
    shown = {"progress": not progress_bar(options["progress"]).disable}
    given = dict(options["trainer"] or {})
    if isinstance(strategy := given.get("strategy"), str):
        given["strategy"] = re.sub("_(spawn|fork|notebook)", "", strategy)
    trainer = {"trainer": given}
    own = (task, rows, validation, directory, {**options, **shown, **trainer})
    epochs, seconds = on_devices(count, _fit_apart, *own)
    return load_checkpoint(directory / "best.ckpt", task.kind), epochs, seconds


def _fit_apart(task: Task, *others: Any) -> tuple[int, float]:
    # Tensors come here in shared memory: rows stay there, but each process has its own weights.
    _, epochs, seconds = _fit(copy.deepcopy(task), *others)
    return epochs, seconds


def _fit(
    task: Task,
    rows: Parts,
    validation: Parts,
    directory: Path,
    options: Mapping[str, Any],
) -> tuple[dict[str, Any], int, float]:
    """The same in this process, or in its part of those of the training."""
    last, epochs = directory / "last.ckpt", options["max_epochs"]
    before = task.interrupted(last)
    if before is not None and _stopped_early(before):
        epochs = before["epoch"] + 1
    started = time.perf_counter() - (before["seconds"] if before else 0.0)
    about = (task.kind, task.settings, len(rows[0]), len(validation[0]), before and before["epoch"])
    shell = Shell(task, about, started, options["progress"])
    batches = Batches(rows, validation, options["batch_size"], options["seed"])
    with _quiet(), reraise_worker_errors(), _translate_errors(options["batch_size"]):
        callbacks = _callbacks(directory, options)
        runner = _runner(directory, epochs, callbacks, options)
        try:
            resumed = last if before else None
            runner.fit(shell, datamodule=batches, ckpt_path=resumed, weights_only=True)
        finally:
            shell.bar.close()

    def found() -> tuple[dict[str, Any], int, float]:
        # Only what can be read back counts as trained.
        kept = load_checkpoint(directory / "best.ckpt", task.kind)
        return kept, runner.current_epoch, time.perf_counter() - started

    return found() if runner.world_size == 1 else broadcast_from_first(found)


@contextmanager
def _translate_errors(size: int) -> Iterator[None]:
    """Raise errors that say what to do: lack of space or memory, a lost process, an interruption.

    Raises:
        KeyboardInterrupt, MemoryError, OSError: those.
    """
    try:
        yield
    except SystemExit as error:
        # What Lightning makes of Ctrl-C; it would end a notebook.
        raise KeyboardInterrupt from error
    except (RuntimeError, MemoryError) as error:
        reason = (str(error).splitlines() or [""])[0]
        if lacks_memory(error):
            raise MemoryError(
                f"Expected batches of {size} rows to fit the memory of the training's device but "
                f"they do not ({reason}); choose a smaller `batch_size`, which is another training "
                "and begins anew, or a smaller network. The checkpoints so far stay."
            ) from error
        if re.search(_LOST_CONNECTION, reason):
            raise ChildProcessError(
                "Expected every process of the training to come to its end but another one has "
                f"ended ({reason.partition('. This is')[0]}). Checkpoints in `directory` stay, and "
                "the same call continues from the last."
            ) from error
        raise


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
    given = dict(options["trainer"] or {})
    silent = dict.fromkeys(("logger", "enable_model_summary", "enable_progress_bar"), False)
    usual = {"callbacks": callbacks, "default_root_dir": directory, "max_epochs": epochs}
    # An epoch may have fewer steps than Lightning expects between two points of a curve.
    usual["log_every_n_steps"] = 1
    try:
        # Batches are cut into the parts of several processes by their own sampler.
        always = {"num_sanity_val_steps": 0, **given, "use_distributed_sampler": False}
        runner = L.Trainer(**{**silent, **usual, **always})
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
        save_checkpoint(path, checkpoint)


def _processes_to_start(runner: L.Trainer) -> int:
    """Processes of this machine that the training needs; 1 if this is one, or someone starts them.

    Lightning would run the whole program again for each, and what comes before and after with it.
    """
    strategy = runner.strategy
    if not isinstance(strategy, DDPStrategy) or runner.num_nodes > 1:
        return 1
    environment = strategy.cluster_environment
    is_started = environment is not None and environment.creates_processes_externally
    return 1 if is_started else runner.num_devices


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
