"""Explaining more rows than memory holds: block by block, on several devices, to be continued.

Lightning starts the processes and moves the value function to their devices; see `work` for why
the result does not depend on how many there are.
"""

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.utilities.exceptions import SIGTERMException
from torch import Tensor
from tqdm import tqdm

from manifold_shap.explanation import Explanation
from manifold_shap.io.blocks import Rows
from manifold_shap.io.ledger import Ledger
from manifold_shap.io.work import Work
from manifold_shap.tables.schema import Schema
from manifold_shap.training.runner import QUIET, make_runner, quiet


def explain_rows(
    path: str | Path,
    value: Callable[[Tensor, Tensor], Tensor],
    x: Any,
    estimator: Callable[..., Explanation],
    *,
    block: int = 1024,
    seed: int = 0,
    resume: bool = False,
    trainer: Mapping[str, Any] | None = None,
    instances: Sequence[int] | None = None,
    schema: Schema | None = None,
    progress: bool = False,
) -> int:
    """Explain rows block by block into a store that `Explanation.load` reads.

    Work in progress lives beside `path`, in `.<name>.partial`, and takes its place by a rename. One
    call at a time explains into a path, and another one is refused as long as it lives; where files
    cannot be locked, as on some network drives, the earlier one stops instead.

    With several devices, Lightning starts the script once more for each further one, or forks it
    (`strategy="ddp_fork"`): see its documentation on `ddp`. The call returns in every process when
    the store is complete.

    Args:
        path: the store.
        value: see `permutation_shapley`; moved to the devices of the trainer.
        x: rows `[instances, *event]`: a tensor, or an array that may be a file in disguise
            (`numpy.memmap`, zarr), of which one block at a time is read.
        estimator: from `value` and rows to an explanation; it is given a `seed` if it takes one.
            For settings: `functools.partial(permutation_shapley, permutations=64)`.
        block: rows explained, and stored, together. Each block has a seed of its own: unlike a
            batch size, this changes the numbers that are drawn.
        seed: of all blocks. Same seed and block, same bytes, whatever the number of processes, as
            long as each has the same number of threads.
        resume: go on with what an interrupted call has left, if it has; otherwise that is removed,
            with a warning. What was left is read back, and blocks that are not what was written
            are explained again. Where nothing is left, all rows are explained; if a finished store
            stands at `path`, with a warning, and it is replaced at the end.
        trainer: arguments of `lightning.Trainer` (`accelerator`, `devices`, `strategy`, ...); by
            default the device of `value`.
        instances: labels of the rows; by default 0, 1, ...
        schema: columns of the table that the rows come from.
        progress: show a bar with rate and time left on work of more than two seconds.

    Returns:
        How many rows this call explained: all but those that an interrupted one had done.

    Raises:
        TypeError, ValueError: settings that the estimator or Lightning refuses, rows that are not
            finite, labels that are not one per row; or an interrupted call to resume that had
            other rows or settings, or whose store is damaged.
        FileExistsError: something that is not an explanation stands at `path`, or another call
            is explaining into it.
        OSError: no space or no permission; what was finished before stays, to be resumed.
        KeyboardInterrupt: on Ctrl-C, with a message; the same.
    """
    ledger = Ledger(Path(path), Rows(x, block, instances, schema))
    work = Work(ledger, value, estimator, seed)
    bars = [RowsBar()] if progress else []
    with quiet():
        runner, task = _runner(value, ledger.path.parent, trainer, bars), BlockTask(work)
        if not runner.is_global_zero:
            _predict(runner, task)
            return task.explained
        with ledger.claimed():
            work.begin(resume)
            # Where processes are forked, only they will know, and this one does not wait for any.
            left = len(work.rows) - ledger.rows_done()
            _predict(runner, task)
        return left


def check_trainer(value: Any, trainer: Mapping[str, Any]) -> None:
    """Raise ValueError if `explain_rows` would refuse these settings."""
    with quiet():
        _runner(value, Path(), trainer, [])


class BlockTask(L.LightningModule):
    """One process's share of the blocks: every so manieth of those that are left.

    Args:
        work: what is to be done; `begin` has been called.

    Attributes:
        work: the same.
        explained: rows that all processes of this call explain.
    """

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.work = work
        self.explained = 0

    def setup(self, stage: str) -> None:
        # All processes of a call are one: the first has begun in its name.
        token = self.trainer.strategy.broadcast(self.work.ledger.token)
        self.work = replace(self.work, ledger=replace(self.work.ledger, token=token))

    def predict_dataloader(self) -> "_Share":
        """Numbers of blocks. Until all processes have theirs, Lightning lets none of them begin."""
        left = sorted(set(range(self.work.rows.blocks)) - self.work.ledger.done())
        self.explained = self.work.rows.count(left)
        return _Share(left[self.trainer.global_rank :: self.trainer.world_size])

    def on_predict_start(self) -> None:
        if hasattr(self.work.value, "to"):
            self.work.value.to(self.device)

    def predict_step(self, batch: int, batch_idx: int) -> int:
        if self.trainer.received_sigterm:  # Of which Lightning takes notice in a training only.
            raise SIGTERMException
        self.work.explain(batch)
        return batch

    def on_predict_epoch_end(self) -> None:
        self.trainer.strategy.barrier("all blocks are done")

    def on_predict_end(self) -> None:
        if self.trainer.is_global_zero:
            self.work.finish()
        self.trainer.strategy.barrier("the store is complete")


class _Share:
    """Numbers, without a length: Lightning skips a process that it knows to have none."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = numbers

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers)


class RowsBar(Callback):
    """One bar over the rows of all processes, shown by the first on work of over two seconds."""

    def __init__(self) -> None:
        self.bar: tqdm | None = None

    def on_predict_start(self, trainer: L.Trainer, task: Any) -> None:
        if trainer.is_global_zero:
            total, done = len(task.work.rows), task.work.ledger.rows_done()
            self.bar = tqdm(total=total, initial=done, desc="rows", unit="row", delay=2)

    def on_predict_batch_end(self, trainer: L.Trainer, task: Any, *_: Any) -> None:
        if self.bar is not None:
            self.bar.update(task.work.ledger.rows_done() - self.bar.n)

    def on_predict_end(self, trainer: L.Trainer, task: Any) -> None:
        self.on_predict_batch_end(trainer, task)
        self._close()

    def on_exception(self, trainer: L.Trainer, task: Any, error: Any) -> None:
        self._close()

    def _close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None


def _where(value: Any) -> dict[str, Any]:
    """Trainer arguments for the device that a value function is on."""
    device = getattr(value, "device", torch.device("cpu"))
    if device.type == "cpu":
        return {"accelerator": "cpu", "devices": 1}
    return {"accelerator": "gpu", "devices": [device.index or 0]}


def _runner(
    value: Any, place: Path, trainer: Mapping[str, Any] | None, bars: Sequence[Callback]
) -> L.Trainer:
    # Values decide on their own gradients, and a retrained one needs some.
    settings = {**QUIET, "inference_mode": False, **_where(value), **(trainer or {})}
    settings |= {"enable_progress_bar": False, "enable_checkpointing": False}
    settings["callbacks"] = [*settings.get("callbacks", ()), *bars]
    return make_runner(default_root_dir=place, **settings)


def _predict(runner: L.Trainer, task: BlockTask) -> None:
    handler, ledger = signal.getsignal(signal.SIGINT), task.work.ledger
    try:
        runner.predict(task, return_predictions=False)
    except (SystemExit, KeyboardInterrupt) as error:
        # Lightning makes an exit of Ctrl-C, which would end a notebook, and is deaf to it then.
        signal.signal(signal.SIGINT, handler)
        raise KeyboardInterrupt(
            f"{ledger.rows_done()} of {len(ledger.rows)} rows are kept in {ledger.path}; "
            "the same call with resume=True goes on from there."
        ) from error
