"""Explains more rows than memory holds: block by block, on any executor, to be resumed.

Work in progress is a directory beside the store to come, `.<name>.partial`. Its `first.zarr` is the
explanation of the first row alone, with the settings of the call: it tells whether a later call
resumes the same work. Finished blocks are explanations, too, `000000.zarr` and so on, each
saved whole or not at all, in a directory named by the checksum of that record: a process that has
outlived its call cannot write among the blocks of another one. One call at a time has claimed it.
"""

import os
import pickle
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manifold_shap import _random
from manifold_shap._arrays import is_frame, row_labels
from manifold_shap._checks import check_seed
from manifold_shap._messages import check_flag, warn
from manifold_shap._progress import progress_bar
from manifold_shap._stored import stored
from manifold_shap.estimators.audited import accepted, check_explained
from manifold_shap.explanation import Explanation
from manifold_shap.io import joined, parquet, transfer
from manifold_shap.io import zarr as storage
from manifold_shap.io.blocks import Blocks
from manifold_shap.io.places import Claim, Place, place_of
from manifold_shap.io.reading import Encoded, TableRows, read_rows
from manifold_shap.io.sent import Send, sender
from manifold_shap.io.threads import blocks_at_once, check_executor, limited, pool_for
from manifold_shap.tables.codebook import Codebook
from manifold_shap.tables.schema import Schema
from manifold_shap.values.selected import Outputs, selected
from manifold_shap.values.wrapped import as_value_function

# In the directory of the work: the first row's explanation, which tells the work by its settings.
_RECORD = "first.zarr"
# Beyond what another number of threads moves a value by.
_SAME = 1e-3


def explain_rows(
    path: str | Path,
    value: Callable[[Tensor, Tensor], Tensor],
    x: Any,
    estimator: Callable[..., Explanation],
    *,
    outputs: Outputs = None,
    block: int = 1024,
    seed: int = 0,
    resume: bool = False,
    executor: Executor | None = None,
    instances: Iterable[Any] | None = None,
    schema: Schema | Codebook | None = None,
    progress: bool | None = None,
) -> int:
    """Explain rows block by block into a store that `Explanation.load` reads.

    The finished store takes the place of an earlier one at `path` by a rename, when it is whole; in
    an object store, by one small object. A path is written by one call at a time, and another one
    is refused while that one lives. After an error, too, what is finished stays, and a note on the
    error says how much.

    Args:
        path: the store: a path, or the text of a URL that fsspec knows, such as
            `s3://bucket/rows.zarr`. At a name that ends with `.parquet`, a folder of tables, one
            for each block, with a column for each player; `pandas.read_parquet` reads it.
        value: the value function.
        x: rows `[instances, *event]`: a tensor, a list, a frame, an array that may be in a file
            (`numpy.memmap`, zarr, h5py), a data set, or Parquet files or a zarr array by path or
            URL, see `read_rows`; one block of these at a time is read.
        estimator: from `value` and rows to an explanation; it is given a `seed` if it takes one.
            For settings: `functools.partial(permutation_shapley, permutations=64)`.
        outputs: those to explain, by default all; see `ValueFunction.select`. Those with the
            largest predictions are found on all rows, which are read once more for it.
        block: rows explained, and stored, together. Each block has a seed of its own: unlike a
            batch size, this changes the numbers that are drawn.
        seed: of all blocks. Same seed and block, same bytes, whatever the executor.
        resume: continue what an interrupted call has left, if it has; otherwise that is removed,
            with a warning. What was left is read back, and blocks that are damaged are explained
            again. Where nothing is left, all rows are explained; if a finished store stands at
            `path`, with a warning, and it is replaced at the end.
        executor: explains blocks at the same time: a `ThreadPoolExecutor`, a
            `ProcessPoolExecutor`, or any other one with their interface (loky's, mpi4py's, a Dask
            client's by `get_executor`). Other processes get the value function by a file that each
            reads once, compute on its device, and write their blocks beside `path`, which all of
            them have to see. Rows are sent, those of 64 blocks ahead at most. By default as many
            threads of this process as torch has (`torch.set_num_threads`), up to 8, explain a
            block each; one explains all where the value function is a callable or on an
            accelerator.
        instances: labels of the rows: whole numbers, text or dates; by default the index of a
            frame, or 0, 1, ...
        schema: columns of the table that the rows come from, where the value function knows none.
        progress: show a bar with rate and time left on work of more than two seconds; by default
            where a person looks.

    Returns:
        How many rows this call explained: all but those that an interrupted one had done.

    Raises:
        TypeError, ValueError: settings that the estimator refuses, rows that are not finite,
            labels that are not one per row, a value function that cannot be sent to the
            executor's processes; or an interrupted call to resume that had other rows or
            settings, or whose record is damaged.
        FileExistsError: something that is not an explanation stands at `path`, or another call
            is explaining into it.
        OSError: no space or no permission, or an object store that cannot be reached.
        ImportError: the package for a URL, or pyarrow for Parquet, is not installed.
        KeyboardInterrupt: on Ctrl-C, with what is kept as its message.

    >>> import tempfile
    >>> from manifold_shap import Explanation, exact_shapley
    >>> place = tempfile.TemporaryDirectory()
    >>> store = Path(place.name) / "sums.zarr"
    >>> def value(x, mask):
    ...     return (x[:, None] * mask).sum(-1, keepdim=True)
    >>> explain_rows(store, value, torch.ones(5, 3), exact_shapley, block=2)
    5
    >>> Explanation.load(store).phi.shape
    torch.Size([5, 3, 1])
    >>> place.cleanup()
    """
    if not callable(estimator):
        raise TypeError(
            "Expected `estimator` to be a function from a value function and rows to an "
            f"explanation, such as `ms.permutation_shapley`, but got {estimator!r:.100}."
        )
    place = place_of(path, fix="it comes first, then the value function")
    check_executor(executor)
    value, x, labels = _as_rows(value, x)
    instances = labels if instances is None else instances
    blocks = Blocks(stored(x, "x"), block, instances)
    value = _select_once(value, estimator, blocks, outputs)
    at_once = blocks_at_once(value, len(blocks.numbers))
    threads = torch.get_num_threads() // at_once
    task = _Task(value, estimator, check_seed(seed), schema, threads)
    is_table = place.name.endswith(".parquet")
    kind: Any = parquet if is_table else storage
    kind.check_replaceable(place)
    with place.claimed(_RECORD) as claim:
        send = None
        if not (executor is None or isinstance(executor, ThreadPoolExecutor)):
            send = sender(task, claim.work)
        parts = _begin(task, blocks, claim, check_flag("resume", resume))
        left = sorted(set(blocks.numbers) - set(_finished(parts)))
        explained = blocks.count(left)
        calls = (_call(task, send, _part(parts, k), k, *blocks[k]) for k in left)
        done = len(blocks) - explained
        try:
            with (
                pool_for(executor, at_once) as pool,
                progress_bar(progress, len(blocks), "rows", "row", initial=done) as bar,
            ):
                for rows in transfer.results(calls, pool):
                    bar.update(rows)
            _join(parts, task, blocks, claim, parquet.join if is_table else joined.join)
        except (Exception, KeyboardInterrupt) as error:
            kept = (
                f"{blocks.count(_finished(parts))} of {len(blocks)} rows are kept in {claim.work}; "
                "the same call with resume=True continues from there."
            )
            if isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt(kept) from error
            error.add_note(kept)
            raise
    return explained


def _as_rows(
    value: Callable[[Tensor, Tensor], Tensor], x: Any
) -> tuple[Callable[[Tensor, Tensor], Tensor], Any, Any]:
    """The value function, rows as it takes them, and their labels where they have any."""
    x = read_rows(x) if isinstance(x, str | os.PathLike) else x
    if isinstance(x, TableRows):
        value = as_value_function(value, x[:1])
        return value, Encoded(x, value.rows), x.labels
    if is_frame(x) or isinstance(x, list | tuple):
        value = as_value_function(value, x)
        return value, value.rows(x), row_labels(x)
    return value, x, None


def _select_once(
    value: Callable[[Tensor, Tensor], Tensor],
    estimator: Callable[..., Explanation],
    blocks: Blocks,
    outputs: Outputs,
) -> Callable[[Tensor, Tensor], Tensor]:
    """The value function, of chosen outputs, the same for all blocks."""
    if isinstance(estimator, partial) and isinstance(estimator.keywords.get("outputs"), Integral):
        raise ValueError(
            "Expected names of `outputs` in the settings of the estimator, or their positions, "
            "since the largest ones may differ from block to block; give "
            f"outputs={estimator.keywords['outputs']} to `explain_rows`."
        )
    value = as_value_function(value, blocks[0][0])
    if outputs is None:
        return value
    return selected(value, outputs, (blocks[number][0] for number in blocks.numbers))


@dataclass(frozen=True)
class _Task:
    """What explains each block, in this process or in another one."""

    value: Callable[[Tensor, Tensor], Tensor]
    estimator: Callable[..., Explanation]
    seed: int
    schema: Schema | Codebook | None
    threads: int = 1

    def explain(self, number: int, x: Any, labels: Sequence[Any]) -> Explanation:
        """The explanation of rows of a block."""
        seed = int(_random.fold(torch.tensor(self.seed), number)) & (2**63 - 1)
        settings = {"seed": seed, "progress": False}
        found = self.estimator(self.value, x, **accepted(self.estimator, settings))
        return check_explained(found).with_labels(labels, self.schema)

    def __call__(self, part: Place, number: int, x: Any, labels: Sequence[Any]) -> int:
        """Explain a block and save it; how many rows it has."""
        if part.find() is None:  # An executor may call again for a process that it has lost.
            with limited(self.threads):
                storage.save(self.explain(number, x, labels).to_xarray(), part)
        return len(labels)


def _call(
    task: _Task, send: Send | None, part: Place, number: int, x: Any, labels: Any
) -> Callable[[], int]:
    """What explains a block and saves it: here or, by what sends the task, elsewhere."""
    if send is None:
        return partial(task, part, number, x, labels)
    # Pickle would send the whole tensor of which a block is a view.
    given = pickle.dumps((part, number, x.clone() if isinstance(x, Tensor) else x, labels))
    return partial(send, task.threads, given)


def _begin(task: _Task, blocks: Blocks, claim: Claim, resume: bool) -> Place:
    """Resume what an interrupted call has left, or start again; the directory of the blocks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # The first block repeats them.
        first = task.explain(0, blocks.x[:1], blocks.labels[:1])
    settings = {
        "rows": len(blocks),
        "block": blocks.size,
        "seed": task.seed,
        "x or instances": blocks.fingerprint,
    }
    first = replace(first, made_by={**first.made_by, **settings})
    record, left = claim.work / _RECORD, claim.work.glob("*/[0-9]*.zarr")
    if resume and record.stands():
        _check_same(record, first, len(left), claim.work)
        _remove_damaged(left, blocks)
    else:
        if record.stands():
            message = (
                f"Removed what an interrupted call had left in {claim.work}: {len(left)} blocks. "
                "With resume=True it would have been continued."
            )
            warn(message)
        elif resume and not claim.place.is_free():
            message = (
                f"Nothing is left to resume beside the explanation in {claim.place}: all rows are "
                "explained again, and take its place at the end."
            )
            warn(message)
        claim.clear()
        storage.save(first.to_xarray(), record)
    parts: Place = claim.work / storage.load(record).attrs["sha256"]
    return parts


def _check_same(record: Place, first: Explanation, blocks: int, work: Place) -> None:
    """Raise ValueError if it was another call that was interrupted, or its record is damaged."""
    try:
        known = storage.load(record)
    except ValueError as error:
        raise ValueError(
            f"Expected work in progress that can be resumed in {work} but its record is damaged; "
            "start again with resume=False."
        ) from error
    changed = storage.differences(known, first.to_xarray(), _SAME)
    if changed:
        raise ValueError(
            f"Expected the rows and settings of the interrupted call, {blocks} blocks of which are "
            f"in {work}, but these differ: {', '.join(changed)}. Give the same ones again, or "
            "start from the first row with resume=False."
        )


def _remove_damaged(left: Iterable[Place], blocks: Blocks) -> None:
    """Of the blocks that an interrupted call has left."""
    damaged = []
    for part in left:
        try:
            storage.load(part)
        except ValueError:
            damaged.append(_number(part))
            part.remove()
    if damaged:
        warn(
            f"{blocks.count(damaged)} rows that an interrupted call had left are damaged; they are "
            "explained again.",
        )


def _part(parts: Place, number: int) -> Place:
    """Where a finished block lives."""
    return parts / f"{number:06d}.zarr"


def _number(part: Place) -> int:
    return int(part.name.removesuffix(".zarr"))


def _finished(parts: Place) -> list[int]:
    """Numbers of the finished blocks."""
    return sorted(map(_number, parts.glob("[0-9]*.zarr")))


def _join(
    parts: Place, task: _Task, blocks: Blocks, claim: Claim, join: Callable[..., dict[str, Any]]
) -> None:
    """Join all blocks, and only then put the result in its place."""
    settings = {"block": blocks.size, "seed": task.seed}
    with parts.fetched() as files:
        stores = [files / f"{number:06d}.zarr" for number in blocks.numbers]
        claim.publish(lambda beside: join(stores, beside, settings))
    (claim.work / _RECORD).remove()
