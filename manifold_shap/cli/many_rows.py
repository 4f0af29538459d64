"""Explaining more test rows than are drawn: streamed, on several devices, to be continued."""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch

from manifold_shap._checks import check_seed, check_whole
from manifold_shap.cli.run import Settings
from manifold_shap.data.base import TensorDataModule
from manifold_shap.explanation import Explanation
from manifold_shap.io import zarr as storage
from manifold_shap.io.streaming import explain_rows
from manifold_shap.values import ValueFunction

# Figures and tables show no more, and other value functions are compared on these.
SHOWN_ROWS = 200


class Streamed(NamedTuple):
    """What came of it.

    Attributes:
        shown: the explanation of the first rows.
        facts: about all rows, for `summary.json`.
    """

    shown: Explanation
    facts: dict[str, Any]


@dataclass(frozen=True)
class ManyRows:
    """How rows are explained that are more than one block.

    Attributes:
        block: rows explained, and stored, together.
        seed: of all blocks.
        resume: go on with what an interrupted run has left.
        trainer: further arguments of `lightning.Trainer`; one device is that of the value function.
        progress: show a bar.
    """

    block: int = 1024
    seed: int = 0
    resume: bool = False
    trainer: Settings = field(default_factory=dict)
    progress: bool = False

    def __post_init__(self) -> None:
        check_whole("block", self.block)

    def check(self, value: ValueFunction, rows: Sequence[int]) -> None:
        """Raise what is wrong with the settings, and say which of them do nothing for these rows.

        Raises:
            ValueError: no seed of 63 bits.
        """
        if self.suit(rows):
            check_seed(self.seed)
            return
        idle = ["resume=true"] if self.resume else []
        if "devices" in self._trainer():
            idle.insert(0, f"trainer.devices={self.trainer['devices']}")
        if idle:
            print(
                f"No effect of {' and '.join(idle)}: {len(rows)} rows fit one block of "
                f"{self.block}, and are explained at once."
            )

    def suit(self, rows: Sequence[int]) -> bool:
        """Whether rows are as many as to be streamed."""
        return len(rows) > self.block

    def explain(
        self,
        path: Path,
        value: ValueFunction,
        data: TensorDataModule,
        rows: Sequence[int],
        estimator: Callable[..., Explanation],
    ) -> Streamed | None:
        """Explain test rows into the store at `path`; None in the processes beside the first."""
        start = time.perf_counter()
        explained = explain_rows(
            path,
            value,
            data.x_test[list(rows)],
            estimator,
            block=self.block,
            seed=self.seed,
            resume=self.resume,
            executor=self._executor(),
            instances=rows,
            schema=data.schema,
            progress=self.progress,
        )
        if not is_first_process():
            return None
        return self._read(path, len(rows), explained, time.perf_counter() - start)

    def _trainer(self) -> dict[str, Any]:
        """Arguments of the trainer; the one device is the one that the value function is on."""
        trainer = dict(self.trainer)
        if trainer.get("devices") == 1 and not isinstance(trainer["devices"], bool):
            del trainer["devices"]
        return trainer

    def _executor(self) -> Executor | None:
        """As many processes as the trainer has devices, if these are several."""
        devices = self._trainer().get("devices", 1)
        if devices == 1:
            return None
        return ProcessPoolExecutor(devices, mp_context=multiprocessing.get_context("spawn"))

    def _read(self, path: Path, rows: int, explained: int, seconds: float) -> Streamed:
        """Look through the store, a block at a time."""
        errors, gaps = [], []
        for start in range(0, rows, self.block):
            part = Explanation.from_xarray(storage.load_rows(path, start, start + self.block))
            errors.append(part.standard_error.max())
            gaps.append(part.efficiency_gap)
        shown = Explanation.from_xarray(storage.load_rows(path, 0, min(rows, SHOWN_ROWS)))
        share = explained / rows / seconds
        facts = {
            "seconds": seconds,
            "rows_per_second": shown.made_by["evaluations"] * share,
            "instances_per_second": rows * share,
            "instances_resumed": rows - explained,
            "largest_standard_error": torch.stack(errors).max().item(),
            "efficiency_gap": max(gaps),
        }
        return Streamed(shown, facts)


def is_first_process() -> bool:
    """Whether this is the process that draws and prints."""
    return True
