"""Explains more rows than memory holds: block by block, on any executor, to be resumed.

Work in progress is a directory beside the store to come, `.<name>.partial`. In it, each finished
block is an `Explanation` of its own, `000000.zarr` and so on, saved whole or not at all. The
explanation of the first row alone, `first.zarr`, and `settings.json` tell whether a later call
goes on with the same work; `owner.json` names the call that is at it, which holds the lock `lock`.
"""

import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from manifold_shap._checks import check_seed
from manifold_shap.explanation import Explanation
from manifold_shap.io import zarr as storage
from manifold_shap.io.blocks import Blocks, Task, claimed, read_json, store_elsewhere, write_json
from manifold_shap.io.files import remove, swap_in
from manifold_shap.io.transfer import refer
from manifold_shap.tables.schema import Schema

# Beyond what another number of threads moves a value by.
_SAME = 1e-3
# Blocks whose rows may be in memory at once, on their way to an executor.
_MOST_SENT = 64


def explain_rows(
    path: str | Path,
    value: Callable[[Tensor, Tensor], Tensor],
    x: Any,
    estimator: Callable[..., Explanation],
    *,
    block: int = 1024,
    seed: int = 0,
    resume: bool = False,
    executor: Executor | None = None,
    instances: Sequence[int] | None = None,
    schema: Schema | None = None,
    progress: bool = False,
) -> int:
    """Explain rows block by block into a store that `Explanation.load` reads.

    The finished store takes the place of an earlier one at `path` by a rename, when it is whole. A
    path is written by one call at a time, and another one is refused while that one lives; where
    files cannot be locked, as on some network drives, the earlier one stops instead.

    Args:
        path: the store.
        value: the value function.
        x: rows `[instances, *event]`: a tensor, or an array that may be in a file
            (`numpy.memmap`, zarr, h5py), of which one block at a time is read.
        estimator: from `value` and rows to an explanation; it is given a `seed` if it takes one.
            For settings: `functools.partial(permutation_shapley, permutations=64)`.
        block: rows explained, and stored, together. Each block has a seed of its own: unlike a
            batch size, this changes the numbers that are drawn.
        seed: of all blocks. Same seed and block, same bytes, whatever the executor.
        resume: go on with what an interrupted call has left, if it has; otherwise that is removed,
            with a warning. What was left is read back, and blocks that are damaged are explained
            again. Where nothing is left, all rows are explained; if a finished store stands at
            `path`, with a warning, and it is replaced at the end.
        executor: explains blocks at the same time: a `ThreadPoolExecutor`, a
            `ProcessPoolExecutor`, or any other one with their interface (loky's, mpi4py's, a Dask
            client's by `get_executor`). Other processes get the value function by a file that each
            reads once, compute on its device with as many threads as this process
            (`torch.set_num_threads`), and write their blocks beside `path`, which all of them have
            to see. Rows in a `numpy.memmap` or a zarr directory are read there; others are sent,
            64 blocks ahead at most. By default this process explains one block after the other.
        instances: labels of the rows; by default 0, 1, ...
        schema: columns of the table that the rows come from.
        progress: show a bar with rate and time left on work of more than two seconds.

    Returns:
        How many rows this call explained: all but those that an interrupted one had done.

    Raises:
        TypeError, ValueError: settings that the estimator refuses, rows that are not finite,
            labels that are not one per row, a value function that cannot be sent to the
            executor's processes; or an interrupted call to resume that had other rows or
            settings, or whose record is damaged.
        FileExistsError: something that is not an explanation stands at `path`, or another call
            is explaining into it.
        OSError: no space or no permission; what was finished before stays, to be resumed.
        KeyboardInterrupt: on Ctrl-C, with a message; the same.

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
    path, blocks = Path(path).absolute(), Blocks(x, block, instances)
    check_seed(seed)
    storage.check_replaceable(path)
    with claimed(path) as (place, call):
        task = Task(place, call, value, estimator, seed, schema)
        calls, most = _calls(task, blocks, executor)
        left = _begin(task, blocks, path, resume)
        explained = blocks.count(left)
        done, silent = len(blocks) - explained, not progress
        with (
            _told(task, blocks),
            tqdm(desc="rows", total=len(blocks), initial=done, delay=2, disable=silent) as bar,
        ):
            for rows in _results(map(calls, left), executor, most):
                bar.update(rows)
            _finish(task, blocks, path)
    return explained


def _calls(
    task: Task, blocks: Blocks, executor: Executor | None
) -> tuple[Callable[[int], Callable[[], int]], int]:
    """A function that returns the call for a block, and the most blocks submitted at once.

    Raises:
        TypeError: the value function or the estimator cannot be sent to another process.
    """
    if executor is None or isinstance(executor, ThreadPoolExecutor):
        return lambda number: partial(task.store, number, *blocks[number]), _MOST_SENT
    reference = refer(task, task.place / "task.ckpt")
    store = partial(store_elsewhere, reference, torch.get_num_threads())
    reopened = blocks.reopened()

    def elsewhere(number: int) -> Callable[[], int]:
        where = blocks.where(number)
        if reopened is not None:
            return partial(store, number, (reopened, where), blocks.labels[where])
        # Pickle would send the whole tensor of which a block is a view.
        x = blocks.x[where].clone() if isinstance(blocks.x, Tensor) else blocks.x[where]
        return partial(store, number, pickle.dumps(x), blocks.labels[where])

    return elsewhere, _MOST_SENT if reopened is None else len(blocks)


def _results(
    calls: Iterator[Callable[[], int]], executor: Executor | None, most: int
) -> Iterator[int]:
    """Results of the calls, in the order in which they end; a bounded number waits at a time."""
    if executor is None:
        yield from (call() for call in calls)
        return
    waiting = set[Future[int]]()
    try:
        while True:
            for call in islice(calls, most - len(waiting)):
                waiting.add(executor.submit(call))
            if not waiting:
                return
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    finally:
        for future in waiting:
            future.cancel()


def _begin(task: Task, blocks: Blocks, path: Path, resume: bool) -> list[int]:
    """Go on with what an interrupted call has left, or begin anew; the blocks to explain.

    Raises:
        TypeError, ValueError, OSError: see `explain_rows`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # The first block repeats them.
        first = task.explain(0, blocks.x[:1], blocks.labels[:1])
    settings = {
        "rows": len(blocks),
        "block": blocks.size,
        "seed": task.seed,
        "x or instances": blocks.fingerprint(first.players),
    }
    record = read_json(task.place / "settings.json")
    if resume and record is not None:
        _check_same(task, record, settings, first)
        return _unfinished(task, blocks)
    if record is not None:
        warnings.warn(
            f"Removed what an interrupted call had left in {task.place}: {len(task.done)} blocks. "
            "With resume=True it would have been continued.",
            stacklevel=3,
        )
    elif resume and path.exists():
        warnings.warn(
            f"Nothing is left to resume beside the explanation in {path}: all rows are explained "
            "anew, and take its place at the end.",
            stacklevel=3,
        )
    with task.writing():
        remove(task.place / "settings.json")
        for store in task.place.glob("*.zarr"):
            remove(store)
        first.save(task.place / "first.zarr")
        write_json(task.place / "settings.json", settings)
    return list(blocks.numbers)


def _check_same(
    task: Task, record: Mapping[str, Any], settings: Mapping[str, Any], first: Explanation
) -> None:
    """Raise ValueError if it was another call that was interrupted, or its record is damaged."""
    try:
        changed = [name for name in settings if settings[name] != record[name]]
        known = storage.load(task.place / "first.zarr")
    except (FileNotFoundError, KeyError, ValueError) as error:
        raise ValueError(
            f"Expected work in progress that can be resumed in {task.place} but its "
            "record is lost or damaged; begin anew with resume=False."
        ) from error
    changed += storage.differences(known, first.to_xarray(), _SAME)
    if changed:
        raise ValueError(
            f"Expected the rows and settings of the interrupted call, {len(task.done)} blocks of "
            f"which are in {task.place}, but these differ: {', '.join(dict.fromkeys(changed))}. "
            "Give the same ones again, or begin anew with resume=False."
        )


def _unfinished(task: Task, blocks: Blocks) -> list[int]:
    """The blocks that an interrupted call has not left whole; those that are damaged go."""
    damaged = []
    for number in task.done:
        try:
            storage.load(task.part(number))
        except ValueError:
            damaged.append(number)
            remove(task.part(number))
    if damaged:
        warnings.warn(
            f"{blocks.count(damaged)} rows that an interrupted call had left in {task.place} are "
            "damaged; they are explained again.",
            stacklevel=4,
        )
    return sorted(set(blocks.numbers) - set(task.done))


def _finish(task: Task, blocks: Blocks, path: Path) -> None:
    """Join all blocks, and only then put the store in its place."""
    joined = task.place / "joined.zarr"
    with task.writing():
        remove(joined)
        try:
            made_by = partial(_merged, task, blocks)
            storage.join([task.part(number) for number in blocks.numbers], joined, made_by)
        except (FileNotFoundError, ValueError) as error:
            raise ValueError(
                f"Expected the finished blocks in {task.place} to fit together but they do not "
                f"(resume=True explains again those that are damaged). {error}"
            ) from error
    with task.writing():
        old = swap_in(joined, path)
        remove(task.place / "settings.json")
    remove(old)


def _merged(task: Task, blocks: Blocks, records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """How the whole was made: evaluations add up, and of other numbers the largest counts."""
    whole: dict[str, Any] = {}
    for record in records:
        for name, entry in record.items():
            known = whole.setdefault(name, entry if name != "evaluations" else 0)
            if name == "evaluations":
                whole[name] = known + entry
            elif isinstance(entry, (int, float)) and isinstance(known, (int, float)):
                whole[name] = max(known, entry)
    return whole | {"block": blocks.size} | ({"seed": task.seed} if "seed" in whole else {})


@contextmanager
def _told(task: Task, blocks: Blocks) -> Iterator[None]:
    """Say what is kept on Ctrl-C, or if a process of the executor dies."""
    try:
        yield
    except (KeyboardInterrupt, BrokenExecutor) as error:
        kept = (
            f"{blocks.count(task.done)} of {len(blocks)} rows are kept in {task.place}; the same "
            "call with resume=True goes on from there."
        )
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(kept) from error
        raise RuntimeError(f"A process of the executor has ended ({error}). {kept}") from error
