"""Runs a training with Lightning: its steps, checkpoints, early stopping, averages, resumption."""

import logging
import math
import multiprocessing
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
from jaxtyping import Float
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

from manifold_shap._messages import UnfitError
from manifold_shap._progress import announce, progress_bar, watched
from manifold_shap.training.batches import IndexBatches, Parts, loader
from manifold_shap.training.task import SCHEDULES, Task, TrainingOptions, read_checkpoint

# Steps between checks of the training loss, and between updates of a progress bar: on an
# accelerator each waits for its step.
_EVERY = 20
# Steps that are timed, and seconds of a training from which it is announced.
_TIMED, _LONG = 5, 10.0

LOGGERS = [logging.getLogger(f"lightning.{name}") for name in ("pytorch", "fabric")]


def run(
    task: Task, data: tuple[Parts, Parts], directory: Path, options: TrainingOptions
) -> tuple[dict[str, Any], int, float]:
    """Train a task, or resume a training that was interrupted; see `learn`.

    Returns:
        The checkpoint that was kept; epochs and seconds, those before an interruption included.
    """
    last, epochs = directory / "last.ckpt", options.max_epochs
    before = task.interrupted(last)
    if before is not None and _stopped_early(before):
        epochs = before["epoch"] + 1
    started = time.perf_counter() - (before["seconds"] if before else 0.0)
    # In a process that Lightning starts nobody would be looking.
    progress = options.progress
    module = LightningTask(task, started, (watched() or None) if progress is None else progress)
    batches = Batches(*data, options.batch_size, options.seed, options.least_batches)
    with _quiet():
        runner = _runner(directory, epochs, options)
        try:
            resumed = last if before else None
            runner.fit(module, datamodule=batches, ckpt_path=resumed, weights_only=True)
        except SystemExit as error:
            # What Lightning makes of Ctrl-C; it would end a notebook.
            raise KeyboardInterrupt from error
        finally:
            module.bar.close()
    found: Any = None
    if runner.is_global_zero:
        # Only what can be read back counts as trained.
        found = read_checkpoint(directory / "best.ckpt"), read_checkpoint(last)["epoch"] + 1
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


def _runner(directory: Path, epochs: int, options: TrainingOptions) -> L.Trainer:
    given = dict(options.trainer or {})
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

    runner = made()
    if "strategy" not in given and _runs_the_program_again(runner):
        runner = made(strategy="ddp_spawn")
    averaged = options.weight_averaging is not None
    if runner.precision in ("16-true", "bf16-true", *(("64-true",) if averaged else ())):
        raise ValueError(
            "Expected a `trainer` precision with weights in single precision, such as "
            "'bf16-mixed', or '64-true' with weight_averaging=None, but got "
            f"{runner.precision!r}."
        )
    return runner


def _runs_the_program_again(runner: L.Trainer) -> bool:
    """Whether Lightning would start the whole program once more for each further device."""
    if runner.num_devices == 1:
        return False
    strategy: Any = runner.strategy
    external = strategy.cluster_environment.creates_processes_externally
    return not (strategy.launcher.is_interactive_compatible or external)


def _callbacks(directory: Path, options: TrainingOptions) -> list[Callback]:
    patience, decay = options.patience, options.weight_averaging
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


def silence() -> None:
    """Silence Lightning's advertisements and the warnings that do not apply here."""
    for logger in LOGGERS:
        logger.setLevel(logging.WARNING)
    # Batches are gathered from memory: worker processes would only slow them down.
    warnings.filterwarnings("ignore", ".*does not have many workers.*")
    warnings.filterwarnings("ignore", ".*Checkpoint directory .* exists and is not empty.*")
    # Every device is used by default; whoever names the CPU means it.
    warnings.filterwarnings("ignore", "GPU available but not used.*")
    # Lightning 2.6 still uses a check that torch 2.10 deprecated.
    warnings.filterwarnings("ignore", ".*treespec, LeafSpec.*", FutureWarning)


class LightningTask(L.LightningModule):
    """Gives a task the steps, the optimiser and the random numbers that all trainings share.

    What a loss draws is a function of the seed and the step, so that a training that was
    interrupted and resumed draws the same. In validation it is a function of the seed and the
    batch: every epoch draws the same.

    Of several processes each draws numbers of its own, the first those of a training on one device.

    Args:
        task: what to train.
        started: when the training would have begun had it never been interrupted.
        progress: whether a training of more than two seconds shows a bar over all of its steps.
    """

    # Of the class until a training starts: averaged weights are those of a copy of this module.
    bar, begun = tqdm(disable=True), 0.0

    def __init__(self, task: Task, started: float = 0.0, progress: bool | None = False) -> None:
        super().__init__()
        self.task, self.started, self.progress = task.train(), started, progress

    def setup(self, stage: str) -> None:
        if multiprocessing.parent_process() is not None:
            silence()

    def on_train_start(self) -> None:
        steps, done = int(self.trainer.estimated_stepping_batches), self.global_step
        progress = self.progress if self.trainer.is_global_zero else False
        self.bar = progress_bar(progress, steps, self.task.kind, "step", initial=done)
        self.begun = time.perf_counter()

    def training_step(self, batch: tuple[Tensor, ...], batch_idx: int) -> Tensor:
        loss = self._loss(batch, self.global_step).mean()
        if (processes := self.trainer.world_size) > 1:
            batches: Any = self.trainer.train_dataloader
            own, every = batches.sampler.counts(batch_idx)
            # Lightning takes the mean over processes; their parts of a batch may differ by a row.
            loss = loss * (own * processes / every)
        if batch_idx % _EVERY == 0:
            found = self._finite(self.trainer.strategy.reduce(loss.detach()), "training")
            for logger in self.loggers:
                logger.log_metrics({"training": found}, self.global_step)
        return loss

    def on_train_batch_end(self, *_: Any) -> None:
        if self.global_step % _EVERY == 0:
            self.bar.update(self.global_step - self.bar.n)
        if self.global_step == _TIMED and self.progress is None and self.trainer.is_global_zero:
            steps = int(self.trainer.estimated_stepping_batches)
            seconds = steps * (time.perf_counter() - self.begun) / _TIMED
            if seconds > _LONG:
                what = f"the {self.task.kind}: {steps:,} steps at most, about {seconds:.0f} s"
                announce(None, f"Training {what}.")

    def on_train_end(self) -> None:
        self.bar.update(self.global_step - self.bar.n)

    def validation_step(self, batch: tuple[Tensor, ...], batch_idx: int) -> None:
        # No training step has a negative number.
        losses = self._loss(batch, -1 - batch_idx)
        batches: Any = self.trainer.val_dataloaders
        own, _ = batches.sampler.counts(batch_idx)
        # Of all batches and processes Lightning takes the mean over rows.
        mean = losses[:own].sum() / max(own, 1)
        self.log("validation", mean, batch_size=own, sync_dist=True)

    def on_validation_epoch_end(self) -> None:
        validation = self._finite(self.trainer.callback_metrics["validation"], "validation")
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
        """Record the settings, the validation loss, and the time it took."""
        checkpoint["hyper_parameters"] = self.task.settings
        checkpoint["validation"] = float(self.trainer.callback_metrics["validation"])
        checkpoint["seconds"] = time.perf_counter() - self.started

    def _loss(self, batch: tuple[Tensor, ...], step: int) -> Float[Tensor, " batch"]:
        generator = self._generator(step)
        # Layers of a user's module may draw from torch's own generators, as dropout does.
        kind, seed = self.device.type, generator.initial_seed()
        # Told the kind of device, torch need not look for those that there are.
        with torch.random.fork_rng([self.device] if kind == "cuda" else [], device_type="cuda"):
            # `torch.manual_seed` would note who has called it for each kind of device that is not
            # in use: a millisecond of every step, and memory that is never given back.
            torch.default_generator.manual_seed(seed)
            if kind != "cpu":
                torch.get_device_module(kind).manual_seed(seed)
            return self.task.loss(batch, generator)

    def _generator(self, step: int) -> torch.Generator:
        seed = (self.task.settings["seed"] * 1_000_003 + step) % 2**63
        if self.global_rank:
            seed = int(np.random.SeedSequence([seed, self.global_rank]).generate_state(1)[0])
        return torch.Generator(self.device).manual_seed(seed)

    def _finite(self, loss: Tensor, part: str) -> float:
        found = loss.item()
        if not math.isfinite(found):
            rate = self.task.settings["learning_rate"]
            raise UnfitError(
                f"Expected a finite {part} loss of the {self.task.kind} but it is {found} in step "
                f"{self.global_step}: the training diverged, and nothing of it counts as finished. "
                f"Choose a smaller `learning_rate` (it is {rate:g}), or clip gradients by "
                "trainer={'gradient_clip_val': 1.0}."
            )
        return found


class Batches(L.LightningDataModule):
    """Batches of a training and of its validation, of which every process has its part.

    Args:
        rows, validation: see `learn`.
        size: rows of a batch, those of all processes together.
        seed: of their order.
        least: batches of an epoch, see `TrainingOptions`.
    """

    def __init__(
        self, rows: Parts, validation: Parts, size: int, seed: int, least: int = 1
    ) -> None:
        super().__init__()
        self.rows, self.validation = rows, validation
        self.size, self.seed, self.least = size, seed, least

    def train_dataloader(self) -> DataLoader:
        total = max(len(self.rows[0]), self.least * self.size)
        return self._loader(self.rows, self.size, True, total)

    def val_dataloader(self) -> DataLoader:
        total = len(self.validation[0])
        return self._loader(self.validation, max(self.size, 1024), False, total)

    def _loader(self, parts: Parts, size: int, shuffle: bool, total: int) -> DataLoader:
        trainer: Any = self.trainer
        # Worker processes begin an epoch before Lightning says which.
        where = trainer.current_epoch, trainer.global_rank, trainer.world_size
        order = IndexBatches(len(parts[0]), size, shuffle, self.seed, total, *where)
        return loader(parts, order)
