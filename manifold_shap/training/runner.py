"""Lightning's trainer, with our bar and without its advertisements."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import lightning as L
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import ProgressBar
from tqdm import tqdm

# Settings of a trainer that says nothing of its own accord.
QUIET = {"logger": False, "enable_model_summary": False, "num_sanity_val_steps": 0}


def make_runner(**settings: Any) -> L.Trainer:
    """A `lightning.Trainer`.

    Raises:
        ValueError: settings that Lightning or this machine refuses.
    """
    try:
        return L.Trainer(**settings)
    except (MisconfigurationException, ImportError, RuntimeError, ValueError, TypeError) as error:
        raise ValueError(
            f"Expected `trainer` settings that Lightning and this machine can run but got "
            f"{ {k: v for k, v in settings.items() if k not in ('callbacks', *QUIET)} }: {error}"
        ) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Without Lightning's advertisements and the warnings that do not apply here."""
    loggers = [logging.getLogger(f"lightning.{name}") for name in ("pytorch", "fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            # Batches are gathers from memory: worker processes would only slow them down.
            warnings.filterwarnings("ignore", ".*does not have many workers.*")
            warnings.filterwarnings("ignore", ".*Checkpoint directory .* exists and is not empty.*")
            # Lightning 2.6 still uses a check that torch 2.10 deprecated.
            warnings.filterwarnings("ignore", ".*treespec, LeafSpec.*", FutureWarning)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


class StepsBar(ProgressBar):
    """One bar over all training steps, shown on trainings of more than two seconds."""

    def __init__(self, name: str, every: int = 20) -> None:
        super().__init__()
        self.name, self.every = name, every
        self.bar: tqdm | None = None

    def on_train_start(self, trainer: L.Trainer, task: L.LightningModule) -> None:
        steps = int(trainer.estimated_stepping_batches)
        start = trainer.global_step
        self.bar = tqdm(total=steps, initial=start, desc=self.name, unit="step", delay=2)

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        if self.bar is not None and trainer.global_step % self.every == 0:
            self.bar.update(trainer.global_step - self.bar.n)

    def on_validation_end(self, trainer: L.Trainer, task: L.LightningModule) -> None:
        if self.bar is not None:
            loss = float(trainer.callback_metrics["validation"])
            self.bar.set_postfix(
                epoch=trainer.current_epoch + 1, validation=f"{loss:.5f}", refresh=False
            )

    def on_train_end(self, trainer: L.Trainer, task: L.LightningModule) -> None:
        self._close()

    def on_exception(self, trainer: L.Trainer, task: L.LightningModule, error: Any) -> None:
        self._close()

    def _close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None
