"""Explains more rows than memory holds: block by block, on any executor, to be resumed.

Work in progress is a directory beside the store to come, `.<name>.partial`. Its `first.zarr` is the
explanation of the first row alone, with the settings of the call: it tells whether a later call
resumes the same work. Finished blocks are explanations, too, `000000.zarr` and so on, each
saved whole or not at all, in a directory named by the checksum of that record: a process that has
outlived its call cannot write among the blocks of another one. One call at a time holds `lock`.
"""

import inspect
import os
import pickle
import platform
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from filelock import Timeout
from torch import Tensor

from manifold_shap import _random
from manifold_shap._arrays import is_frame, row_labels
from manifold_shap._checks import check_seed
from manifold_shap._messages import check_text, warn
from manifold_shap._progress import progress_bar
from manifold_shap._stored import stored
from manifold_shap.explanation import Explanation
from manifold_shap.io import transfer
from manifold_shap.io import zarr as storage
from manifold_shap.io.blocks import Blocks
from manifold_shap.io.files import locked, remove, swap_in, write_whole
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

    The finished store takes the place of an earlier one at `path` by a rename, when it is whole. A
    path is written by one call at a time, and another one is refused while that one lives. After an
    error, too, what is finished stays, and a note on the error says how much.

    Args:
        path: the store.
        value: the value function.
        x: rows `[instances, *event]`: a tensor, a list, a frame, an array that may be in a file
            (`numpy.memmap`, zarr, h5py), or a data set; one block of these at a time is read.
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
            reads once, compute on its device with as many threads as this process
            (`torch.set_num_threads`), and write their blocks beside `path`, which all of them have
            to see. Rows are sent, those of 64 blocks ahead at most. By default this process
            explains one block after the other.
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
        OSError: no space or no permission.
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
    path = Path(check_text("path", path, "it comes first, then the value function")).absolute()
    if executor is not None and not isinstance(executor, _Submits):
        raise TypeError(
            "Expected `executor` to have a method `submit`, as those of `concurrent.futures`, but "
            f"got {executor!r:.100}; `ThreadPoolExecutor(2)` is one of two threads."
        )
    if is_frame(x) or isinstance(x, list | tuple):
        value = as_value_function(value, x)
        instances = row_labels(x) if instances is None else instances
        x = value.rows(x)
    blocks = Blocks(stored(x, "x"), block, instances)
    value = _select_once(value, estimator, blocks, outputs)
    task = _Task(value, estimator, check_seed(seed), schema)
    storage.check_replaceable(path)
    with _claimed(path) as place:
        reference = None
        if not (executor is None or isinstance(executor, ThreadPoolExecutor)):
            reference = transfer.refer(task, place / "task.ckpt")
        parts = _begin(task, blocks, place, path, resume)
        left = sorted(set(blocks.numbers) - set(_finished(parts)))
        explained = blocks.count(left)
        calls = (_call(task, reference, _part(parts, k), k, *blocks[k]) for k in left)
        done = len(blocks) - explained
        try:
            with progress_bar(progress, len(blocks), "rows", "row", initial=done) as bar:
                for rows in transfer.results(calls, executor):
                    bar.update(rows)
            _join(parts, task, blocks, place, path)
        except (Exception, KeyboardInterrupt) as error:
            kept = (
                f"{blocks.count(_finished(parts))} of {len(blocks)} rows are kept in {place}; the "
                "same call with resume=True continues from there."
            )
            if isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt(kept) from error
            error.add_note(kept)
            raise
    return explained


def _select_once(
    value: Callable[[Tensor, Tensor], Tensor],
    estimator: Callable[..., Explanation],
    blocks: Blocks,
    outputs: Outputs,
) -> Callable[[Tensor, Tensor], Tensor]:
    """The value function of chosen outputs, the same for all blocks."""
    if isinstance(estimator, partial) and isinstance(estimator.keywords.get("outputs"), Integral):
        raise ValueError(
            "Expected names of `outputs` in the settings of the estimator, or their positions, "
            "since the largest ones may differ from block to block; give "
            f"outputs={estimator.keywords['outputs']} to `explain_rows`."
        )
    if outputs is None:
        return value
    parts = (blocks[number][0] for number in blocks.numbers)
    return selected(as_value_function(value, blocks[0][0][:1]), outputs, parts)


@runtime_checkable
class _Submits(Protocol):
    """What is asked of an executor."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any: ...


@dataclass(frozen=True)
class _Task:
    """What explains each block, in this process or in another one."""

    value: Callable[[Tensor, Tensor], Tensor]
    estimator: Callable[..., Explanation]
    seed: int
    schema: Schema | Codebook | None

    def explain(self, number: int, x: Any, labels: Sequence[Any]) -> Explanation:
        """The explanation of rows of a block."""
        known = inspect.signature(self.estimator).parameters
        every = any(each.kind is each.VAR_KEYWORD for each in known.values())
        seed = int(_random.fold(torch.tensor(self.seed), number)) & (2**63 - 1)
        settings = {"seed": seed, "progress": False}
        taken = {name: entry for name, entry in settings.items() if every or name in known}
        return self.estimator(self.value, x, **taken).with_labels(labels, self.schema)

    def __call__(self, part: Path, number: int, x: Any, labels: Sequence[Any]) -> int:
        """Explain a block and save it; how many rows it has."""
        self.explain(number, x, labels).save(part)
        return len(labels)


def _call(
    task: _Task, reference: transfer.Reference | None, part: Path, number: int, x: Any, labels: Any
) -> Callable[[], int]:
    """What explains a block and saves it: here or, by a reference to the task, elsewhere."""
    if reference is None:
        return partial(task, part, number, x, labels)
    # Pickle would send the whole tensor of which a block is a view.
    given = pickle.dumps((part, number, x.clone() if isinstance(x, Tensor) else x, labels))
    return partial(transfer.call, reference, torch.get_num_threads(), given)


@contextmanager
def _claimed(path: Path) -> Iterator[Path]:
    """Keep other calls from the work on a store; where it lives.

    Raises:
        FileExistsError: another call is at it, or something that is no directory is in the way.
        OSError: no space or no permission.
    """
    place = path.with_name(f".{path.name}.partial")
    if os.path.lexists(place) and not place.is_dir():
        raise FileExistsError(
            f"Expected {place} to be a directory, for the work in progress, but it is a file; "
            "remove it, or choose another path."
        )
    owner = place / "owner"
    try:
        lock = locked(place / "lock")
    except Timeout as error:
        who = owner.read_text() if owner.exists() else "another one"
        raise FileExistsError(
            f"Expected to be the only call that explains into {path} but {who} is still at it, "
            f"in {place}; let that one finish, stop it, or choose another path."
        ) from error
    try:
        since = datetime.now().isoformat(" ", "seconds")
        who = f"process {os.getpid()} on {platform.node()}, since {since},"
        write_whole(owner, lambda beside: beside.write_text(who))
        yield place
    finally:
        if not (place / _RECORD).exists():  # There is nothing to resume.
            remove(place)
        lock.release()


def _begin(task: _Task, blocks: Blocks, place: Path, path: Path, resume: bool) -> Path:
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
    first, record = replace(first, made_by={**first.made_by, **settings}), place / _RECORD
    left = list(place.glob("*/[0-9]*.zarr"))
    if resume and record.exists():
        _check_same(record, first, len(left))
        _remove_damaged(left, blocks)
    else:
        if record.exists():
            message = (
                f"Removed what an interrupted call had left in {place}: {len(left)} blocks. With "
                "resume=True it would have been continued."
            )
            warn(message)
        elif resume and path.exists():
            message = (
                f"Nothing is left to resume beside the explanation in {path}: all rows are "
                "explained again, and take its place at the end."
            )
            warn(message)
        for directory in (each for each in place.iterdir() if each.is_dir()):
            remove(directory)
        first.save(record)
    return place / storage.load(record).attrs["sha256"]


def _check_same(record: Path, first: Explanation, blocks: int) -> None:
    """Raise ValueError if it was another call that was interrupted, or its record is damaged."""
    try:
        known = storage.load(record)
    except ValueError as error:
        raise ValueError(
            f"Expected work in progress that can be resumed in {record.parent} but its record is "
            "damaged; start again with resume=False."
        ) from error
    changed = storage.differences(known, first.to_xarray(), _SAME)
    if changed:
        raise ValueError(
            f"Expected the rows and settings of the interrupted call, {blocks} blocks of which are "
            f"in {record.parent}, but these differ: {', '.join(changed)}. Give the same ones "
            "again, or start from the first row with resume=False."
        )


def _remove_damaged(left: Iterable[Path], blocks: Blocks) -> None:
    """Of the blocks that an interrupted call has left."""
    damaged = []
    for part in left:
        try:
            storage.load(part)
        except ValueError:
            damaged.append(int(part.stem))
            remove(part)
    if damaged:
        warn(
            f"{blocks.count(damaged)} rows that an interrupted call had left are damaged; they are "
            "explained again.",
        )


def _part(parts: Path, number: int) -> Path:
    """Where a finished block lives."""
    return parts / f"{number:06d}.zarr"


def _finished(parts: Path) -> list[int]:
    """Numbers of the finished blocks."""
    return sorted(int(part.stem) for part in parts.glob("[0-9]*.zarr"))


def _join(parts: Path, task: _Task, blocks: Blocks, place: Path, path: Path) -> None:
    """Join all blocks, and only then put the store in its place."""
    stores, joined = [_part(parts, number) for number in blocks.numbers], place / "joined.zarr"
    settings = {"block": blocks.size, "seed": task.seed}
    write_whole(joined, lambda beside: storage.join(stores, beside, settings))
    remove(swap_in(joined, path))
    remove(place / _RECORD)
