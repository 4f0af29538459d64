"""Explains more rows than memory holds: blocks in regions of one zarr store, on any executor.

The store is laid out before the first block: arrays of all rows, a chunk for each block, and the
settings of the call in the attribute `call`. What block k gives is written into its region, and
then how it was made into `done[k]`, as JSON. The seed of a block is made of the call's seed and its
number, so that blocks are the same bytes whoever explains them, in any order. Metadata are
consolidated when all is done: a store without is not finished.
"""

import json
import pickle
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manifold_shap import _random, _stopping
from manifold_shap._arrays import as_instances, is_frame, row_labels
from manifold_shap._checks import check_rows, check_seed, check_whole
from manifold_shap._messages import check_flag
from manifold_shap._progress import progress_bar
from manifold_shap._stored import stored
from manifold_shap.estimators.audit import accepted, audit_of, check_explained, chosen_rows
from manifold_shap.estimators.auto import auto_shapley
from manifold_shap.explanation import Explanation
from manifold_shap.io import zarr as storage
from manifold_shap.io.files import Location, digest, location, remove
from manifold_shap.players import Players
from manifold_shap.tables.codebook import Codebook
from manifold_shap.tables.rows import codebook_of
from manifold_shap.values.base import ValueFunction
from manifold_shap.values.wrapped import as_value_function

# Blocks on their way to an executor at a time, and threads: more of them wait for Python's lock.
_MOST_SENT, _MOST_THREADS = 64, 8
# What another number of threads moves a value by, at most, relative to the largest one.
_REL_TOLERANCE = 1e-3
# Of how blocks were made, what adds up.
_SUMS = ("evaluations", "rows_far_outside")
# What blocks may have or not.
_OPTIONAL = ("covariance", "degrees_of_freedom", "model_error")
# What a call gives for the first row, by which it is known again.
_NUMBERS = ("phi", "base", "prediction")


def explain_rows(
    path: str | Path,
    value: Callable[[Tensor, Tensor], Tensor],
    x: Any,
    estimator: Callable[..., Explanation] = auto_shapley,
    *,
    block: int = 1024,
    seed: int = 0,
    resume: bool = False,
    overwrite: bool = False,
    labels: Iterable[Any] | None = None,
    audit: int = 0,
    executor: Executor | None = None,
    progress: bool | None = None,
) -> int:
    """Explain rows block by block into a store that `Explanation.load` reads.

    Args:
        path: the store: a path, or the text of a URL that fsspec knows, such as
            `s3://bucket/rows.zarr`.
        value: the value function.
        x: rows `[instances, *event]`: a tensor, a list, a frame, an array that may be in a file
            (`numpy.memmap`, zarr, h5py) or a data set; one block of these at a time is read.
        estimator: from `value` and rows to an explanation; it is given a `seed` if it takes one.
            For settings: `functools.partial(permutation_shapley, permutations=64)`.
        block: rows explained, and stored, together. Each block has a seed of its own: unlike a
            batch size, this changes the numbers that are drawn.
        seed: of all blocks. Same seed and block, same bytes, whatever the executor.
        resume: explain the blocks that the store at `path` lacks, if it is of the same rows and
            settings; where nothing is, all.
        overwrite: replace an explanation at `path`; with `resume`, one of other rows or settings.
        labels: of the rows: whole numbers, text or dates; by default the index of a frame, or 0, 1,
            ...
        audit: how many rows, drawn at random, are estimated again without bias at the end: the
            `audit` of the explanation that is loaded, see `ms.audit`.
        executor: explains blocks at the same time: a `ThreadPoolExecutor`, a
            `ProcessPoolExecutor`, or any other one with their interface (loky's, mpi4py's, a Dask
            client's by `get_executor`). Other processes are sent the value function and rows, those
            of 64 blocks ahead at most, compute on its device, and send back what this process
            writes. By default as many threads of this process as torch has
            (`torch.set_num_threads`), up to 8, explain a block each; one explains all where the
            value function is a callable or on an accelerator.
        progress: show a bar with rate and time left on work of more than two seconds; by default
            where a person looks, and elsewhere a line a minute.

    Returns:
        How many rows this call explained: all but those that were done.

    Raises:
        TypeError, ValueError: settings that the estimator refuses, rows that are not finite,
            labels that are not one per row; with `resume`, other rows or settings than those of the
            store.
        PicklingError, AttributeError: a value function or an estimator that cannot be sent to the
            executor's processes: define functions and classes at the top level of a module.
        FileExistsError: an explanation stands at `path`, without `resume` or `overwrite`, or
            something else.
        OSError: no space or no permission. After an error, too, finished blocks stay, and a note on
            the error says how much.
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
    place = location("path", path)
    again = check_flag("resume", resume), check_flag("overwrite", overwrite)
    check_whole("audit", audit, 0, fix="0 for none")
    # Once: a callable is tried out, and all blocks are to take it for the same.
    value, x, own = _as_rows(value, x)
    rows = _Rows(x, block, own if labels is None else labels)
    at_once = _blocks_at_once(value, len(rows.numbers))
    task = _Task(value, estimator, check_seed(seed), torch.get_num_threads() // at_once)
    here = executor is None or isinstance(executor, ThreadPoolExecutor)
    job = partial(partial, task) if here else task.sent()
    store = _Store.begun(place, task, rows, audit, *again)
    left = [number for number in rows.numbers if number not in store.done]
    explained = rows.count(left)
    jobs = ((number, job(number, rows[number])) for number in left)
    try:
        with (
            _pool(executor, at_once) as (pool, most),
            closing(_results(jobs, pool, most)) as results,
            progress_bar(
                progress,
                len(rows),
                "rows",
                "row",
                initial=len(rows) - explained,
            ) as bar,
        ):
            for number, found in results:
                store.write(number, found)
                bar.update(rows.count([number]))
        store.finish(task, audit, progress)
    except (Exception, KeyboardInterrupt) as error:
        kept = (
            f"{rows.count(store.done)} of {len(rows)} rows are kept in {place}; the same call with "
            "resume=True continues from there."
        )
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(kept) from error
        error.add_note(kept)
        raise
    return explained


def _as_rows(value: Any, x: Any) -> tuple[ValueFunction, Any, Any]:
    """The value function, rows as it takes them, and their labels where they have any."""
    if is_frame(x) or isinstance(x, list | tuple):
        value = as_value_function(value, x)
        return value, value.rows(x), row_labels(x)
    x = stored(x, "x")
    if not np.shape(x) or np.shape(x)[0] == 0:
        raise ValueError(
            f"Expected `x` of shape (rows, *event), with at least one row, but got "
            f"{type(x).__name__} of shape {np.shape(x)}; pass rows of the shape that `players` own."
        )
    return as_value_function(value, x[:1]), x, None


class _Rows:
    """Rows to explain, in blocks of equally many, but for the last, and their labels."""

    def __init__(self, x: Any, size: int, labels: Any) -> None:
        self.x, self.size = x, check_whole("block", size, fix="1024 rows suit most tables")
        count = np.shape(x)[0]
        self.labels = range(count) if labels is None else as_instances(labels)
        if len(self.labels) != count:
            raise ValueError(
                f"Expected {count} labels in `labels`, one per row, but got {len(self.labels)}; "
                "leave it out to have 0, 1, ..."
            )
        self.numbers = range(-(-count // self.size))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, number: int) -> Any:
        """The rows of a block."""
        return self.x[self.where(number)]

    def where(self, number: int) -> slice:
        """Which rows are a block."""
        return slice(number * self.size, min((number + 1) * self.size, len(self)))

    def count(self, numbers: Iterable[int]) -> int:
        """How many rows these blocks have."""
        return sum(len(self.labels[self.where(number)]) for number in numbers)

    def fingerprint(self, distinct: Sequence[set[float]]) -> str:
        """A checksum of rows and labels, after a check of every row.

        Args:
            distinct: of rows that are codes, sets for each column to add those that occur to.
        """
        players = Players.of_elements(np.shape(self.x)[1:])

        def checked() -> Iterator[np.ndarray]:
            for where in map(self.where, self.numbers):
                rows = check_rows(self.x[where], players, first_row=where.start).cpu()
                if distinct:
                    for codes, known in zip(rows.unbind(1), distinct, strict=False):
                        known.update(codes.unique().tolist())
                yield rows.numpy()

        # A block at a time: the text of all labels is longer than many a table.
        labels = ("".join(f"{each}\n" for each in self.labels[self.where(k)]) for k in self.numbers)
        return digest(checked(), (text.encode() for text in labels))


@contextmanager
def _limited(threads: int) -> Iterator[None]:
    """Let this thread compute with so many threads of torch: their number moves the last digits."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class _Task:
    """What explains each block, in this process or in another one."""

    value: ValueFunction
    estimator: Callable[..., Explanation]
    seed: int
    threads: int

    def __call__(self, number: int, x: Any) -> Explanation:
        """The explanation of the rows of a block."""
        seed = int(_random.fold(torch.tensor(self.seed), number)) & (2**63 - 1)
        settings = accepted(self.estimator, {"seed": seed, "progress": False})
        with _limited(self.threads):
            return check_explained(self.estimator(self.value, x, **settings))

    def sent(self) -> Callable[[int, Any], Callable[[], bytes]]:
        """What makes calls of it for other processes, from a block; it is pickled once."""
        pickled = pickle.dumps(self)

        def call(number: int, x: Any) -> Callable[[], bytes]:
            # Pickle would send the whole tensor of which a block is a view.
            rows = pickle.dumps(x.clone() if isinstance(x, Tensor) else x)
            return partial(_elsewhere, pickled, number, rows)

        return call


def _elsewhere(task: bytes, number: int, rows: bytes) -> bytes:
    """Explain a block in a process that was sent the task."""
    found = _unpickled(task)(number, pickle.loads(rows))
    # All blocks have the columns of the first row, and executors would share a tensor's memory.
    return pickle.dumps(replace(found, schema=None))


@lru_cache(maxsize=1)
def _unpickled(task: bytes) -> _Task:
    """The task, which all blocks that a process explains share."""
    found: _Task = pickle.loads(task)
    return found


def _blocks_at_once(value: ValueFunction, blocks: int) -> int:
    """How many blocks threads of this process explain at a time: one for each thread of torch.

    On one block at a time, cores idle wherever Python is at work instead of torch. A function of
    the caller's is not called from several threads at once, nor is an accelerator.
    """
    if not value.thread_safe:
        return 1
    return max(1, min(torch.get_num_threads(), _MOST_THREADS, blocks))


@contextmanager
def _pool(executor: Executor | None, at_once: int) -> Iterator[tuple[Executor | None, int]]:
    """The executor, or threads of this process, and the most blocks that it is to be sent.

    After an error, or Ctrl-C, the threads stop at the next step of their work.
    """
    if executor is not None or at_once == 1:
        yield executor, _MOST_SENT
        return
    stop = Event()
    pool = ThreadPoolExecutor(at_once, initializer=_stopping.heed, initargs=(stop,))
    try:
        yield pool, 2 * at_once
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        # Threads to come take the number that was set last, in whatever thread that was.
        torch.set_num_threads(torch.get_num_threads())


def _results(
    jobs: Iterator[tuple[int, Callable[[], Any]]], executor: Executor | None, most: int
) -> Generator[tuple[int, Explanation], None, None]:
    """Numbers of blocks and their explanations, in the order in which they end."""
    if executor is None:
        yield from ((number, job()) for number, job in jobs)
        return
    waiting = dict[Future[Any], int]()
    try:
        while True:
            for number, job in islice(jobs, most - len(waiting)):
                waiting[executor.submit(job)] = number
            if not waiting:
                return
            done = wait(waiting, return_when=FIRST_COMPLETED).done
            # A call that failed comes last: what ended beside it is kept.
            for future in sorted(done, key=_failed):
                number, found = waiting.pop(future), future.result()
                yield number, pickle.loads(found) if isinstance(found, bytes) else found
    finally:
        for future in waiting:
            future.cancel()


def _failed(future: Future[Any]) -> bool:
    return future.cancelled() or future.exception() is not None


class _Store:
    """The store of a call, to write blocks into.

    Attributes:
        done: how each block was made that is there, by number.

    Args:
        place: where it stands.
        rows: those of all blocks.
        first: the explanation of the first row, in what all blocks have in common with it.
        kept: of rows of codes, those of each column that occur, in order.
    """

    def __init__(
        self, place: Location, rows: _Rows, first: Explanation, kept: Sequence[np.ndarray]
    ) -> None:
        self.place, self.rows, self.kept = place, rows, kept
        self.first = first
        self.group = storage.opened(place, "r+")
        self.arrays = storage.arrays_of(self.group)
        self.done: dict[int, Any] = {
            number: json.loads(entry)
            for number, entry in enumerate(self.arrays["done"][:].tolist())
            if entry
        }

    @classmethod
    def begun(
        cls, place: Location, task: _Task, rows: _Rows, audit: int, resume: bool, overwrite: bool
    ) -> "_Store":
        """Open the store that is to be resumed, or lay out a new one.

        Raises:
            FileExistsError: a store that is neither to be resumed nor overwritten, or something
                else.
            ValueError: a store of another call, or rows that are not finite.
            OSError: no space or no permission.
        """
        there = storage.earlier(place)
        if not (there is None or resume or overwrite):
            raise FileExistsError(
                f"Expected {place} to be free but an explanation stands there; overwrite=True "
                "replaces it, and resume=True explains the blocks that it lacks."
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # The first block repeats them.
            first = task(0, rows.x[:1]).with_labels(rows.labels[:1])
        codebook = codebook_of(first.schema)
        occurring: list[set[float]] = [] if codebook is None else [set() for _ in first.x[0]]
        fingerprint = rows.fingerprint(occurring)
        # Columns of one value stand behind the others, as 0.
        kept = [np.array(sorted(codes or {0.0})) for codes in occurring]
        columns = codebook and _small(codebook, kept).to_dict()
        settings = {"block": rows.size, "seed": task.seed, "audit": audit}
        call = _call(first, **settings, **{"x or labels": digest(fingerprint, columns)})
        # `done` is the last to be laid out.
        cut_off = there is not None and "call" in there.attrs and "done" not in there
        if there is not None and resume and not cut_off:
            known = json.loads(there.attrs.get("call", "{}"))
            both = {**known, **call}
            changed = [k for k in both if not _same(k, known.get(k), call.get(k))]
            if not changed:
                return cls(place, rows, first, kept)
            if not overwrite:
                raise ValueError(
                    f"Expected the rows and settings of the explanation in {place} but these "
                    f"differ: {', '.join(changed)}. Give the same ones again, or replace it with "
                    "overwrite=True."
                )
        if there is not None:
            remove(place)
        plain = {"call": call} if columns is None else {"call": call, "schema": columns}
        _lay_out(place, rows, first, {name: json.dumps(each) for name, each in plain.items()})
        return cls(place, rows, first, kept)

    def write(self, number: int, found: Explanation) -> None:
        """Write a block into its region, and then that it is done.

        Raises:
            ValueError: other players or outputs than those of the first row.
            OSError: no space or no permission.
        """
        if _common(found) != _common(self.first):
            raise ValueError(
                "Expected every block to have the players, outputs and output space of the first "
                f"row but block {number} has others; an estimator gives the same ones for all "
                "rows, so choose outputs by `value.select(...)` before."
            )
        where = self.rows.where(number)
        for name, tensor in self._by_row(found).items():
            self.arrays[name][where] = tensor.numpy()
        labels = storage.label_array(tuple(self.rows.labels[where]))
        kind = np.int64 if labels.dtype.kind == "M" else labels.dtype
        self.arrays["instances"][where] = labels.astype(kind)
        made_by = dict(found.made_by)
        self.arrays["done"][number : number + 1] = np.array([json.dumps(made_by)], object)
        self.done[number] = made_by

    def finish(self, task: _Task, audit: int, progress: bool | None) -> None:
        """Measure the error of some rows, and say that all are done."""
        import zarr

        if "made_by" not in self.group.attrs:
            blocks = [self.done[number] for number in sorted(self.done)]
            made_by = _joined(blocks)
            made_by |= {"block": self.rows.size, "seed": task.seed}
            if audit:
                chosen = chosen_rows(len(self.rows), min(audit, len(self.rows)), task.seed)
                some = storage.read(self.place, chosen)
                some.attrs["made_by"] = json.dumps(made_by)
                found = Explanation.from_xarray(some)
                with _limited(task.threads):
                    measured = audit_of(found, task.value, None, task.seed, progress)
                made_by["audit"] = measured.to_dict()
            self.group.attrs["made_by"] = json.dumps(made_by)
        zarr.consolidate_metadata(self.group.store, zarr_format=2)

    def _by_row(self, found: Explanation) -> dict[str, Tensor]:
        """What a block has for each of its rows; all blocks have a covariance, say, or none."""
        tensors = {
            name: tensor
            for name, (axes, tensor) in storage.variables(found).items()
            if "instances" in axes
        }
        if self.kept:
            columns = zip(self.kept, found.x.numpy().T, strict=True)
            codes = [np.searchsorted(codes, own) for codes, own in columns]
            tensors["x"] = torch.from_numpy(np.stack(codes, 1).astype(np.float32))
        for name in tensors.keys() - self.arrays.keys():
            self._add(name, found)
        lacking = self.arrays.keys() & {*_OPTIONAL} - tensors.keys()
        return tensors | {name: _unknown(name, found.standard_error) for name in lacking}

    def _add(self, name: str, found: Explanation) -> None:
        """Add an array that the first row has none of, and what it is of blocks that are done."""
        axes, tensor = storage.variables(found)[name]
        rest = tuple(tensor.shape[1:])
        self.arrays[name] = self.group.create_array(
            name,
            shape=(len(self.rows), *rest),
            chunks=(min(self.rows.size, len(self.rows)), *rest),
            dtype=tensor.numpy().dtype,
            fill_value=float("nan"),
            compressors=storage.compressor(),
            attributes={"_ARRAY_DIMENSIONS": axes},
        )
        for number in self.done:
            where = self.rows.where(number)
            error = torch.from_numpy(self.arrays["standard_error"][where])
            self.arrays[name][where] = _unknown(name, error).numpy()


def _lay_out(place: Location, rows: _Rows, first: Explanation, attributes: dict[str, str]) -> None:
    """Write the store of no block: the first row's explanation, with room for all rows."""
    template = first.to_xarray()
    del template.attrs["made_by"]
    template.attrs |= attributes
    by_row = {str(k): each for k, each in template.variables.items() if "instances" in each.dims}
    size = min(rows.size, len(rows))
    how: Any = {"mode": "w-", "zarr_format": 2, "consolidated": False}
    template.to_zarr(place, encoding=storage.encoding_of(template, size), **how)
    group = storage.opened(place, "r+")
    for name, each in by_row.items():
        group[name].resize((len(rows), *each.shape[1:]))
    group.create_array(
        "done",
        shape=(len(rows.numbers),),
        chunks=(1,),
        dtype=str,
        fill_value="",
        compressors=storage.compressor(),
        attributes={"_ARRAY_DIMENSIONS": ["blocks"]},
    )


def _small(codebook: Codebook, kept: Sequence[np.ndarray]) -> Codebook:
    """The codebook of the codes that occur: a store holds no other values of a training frame."""
    most = max(map(len, kept))
    columns = [np.pad(codes, (0, most - len(codes)), mode="edge") for codes in kept]
    return codebook.only(torch.from_numpy(np.stack(columns, 1)).float())[1]


def _common(found: Explanation) -> tuple[Any, ...]:
    """What all blocks have in common."""
    return found.players.names, found.outputs, found.space, found.partition


def _unknown(name: str, error: Tensor) -> Tensor:
    """What an explanation without it says of this, given its standard errors."""
    if name == "degrees_of_freedom":
        return error.new_full((len(error),), torch.inf)
    if name == "model_error":
        return torch.full_like(error, torch.nan)
    # A covariance: zero where the errors are, and unknown elsewhere.
    square = torch.where(error == 0, error, torch.nan)
    return square[..., None].repeat_interleave(error.shape[-1], -1)


def _call(first: Explanation, **settings: Any) -> dict[str, Any]:
    """What tells a call from others, as plain data: settings, and what the first row gives."""
    names, outputs, space, partition = _common(first)
    plain = {
        **{name: entry for name, entry in first.made_by.items() if name not in _SUMS},
        **settings,
        "players": names,
        "outputs": outputs,
        "output space": space.settings,
        "partition": partition and partition.signs.tolist(),
        **{name: getattr(first, name).flatten().tolist() for name in _NUMBERS},
    }
    found: dict[str, Any] = json.loads(json.dumps(plain))
    return found


def _same(name: str, known: Any, entry: Any) -> bool:
    """Whether two calls agree on a setting or, but for the last digits, on numbers."""
    if name not in _NUMBERS or known is None:
        return bool(known == entry)
    close = {"rtol": 0.0, "atol": _REL_TOLERANCE * np.nanmax(np.abs(known))}
    return len(known) == len(entry) and np.allclose(known, entry, **close, equal_nan=True)


def _joined(blocks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How all rows were made: sums, and the larger number, or a list, of what else differs."""
    joined = dict[str, Any]()
    for name in dict.fromkeys(name for block in blocks for name in block):
        entries = [block[name] for block in blocks if name in block]
        distinct = [each for k, each in enumerate(entries) if each not in entries[:k]]
        if name in _SUMS:
            joined[name] = sum(entries)
        elif all(isinstance(each, int | float) for each in distinct):
            joined[name] = max(distinct)
        else:
            joined[name] = distinct[0] if len(distinct) == 1 else distinct
    return joined
