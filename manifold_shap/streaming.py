"""Explains more rows than memory holds: blocks in regions of one zarr store, on any executor.

The store is laid out before the first block: arrays of all rows, a chunk for each block, and last
the settings of the call in the attribute `call`. What block k gives is written into its region, and
then how it was made into `done[k]`, as JSON. The seed of a block is made of the call's seed and its
number, so that blocks are the same bytes whoever explains them, in any order. The attribute
`made_by` comes last: a store without is not finished.
"""

import json
import pickle
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manifold_shap import _random
from manifold_shap._arrays import as_instances, is_frame, row_labels, row_levels
from manifold_shap._checks import check_rows, check_seed, check_whole
from manifold_shap._messages import check_flag
from manifold_shap._progress import progress_bar
from manifold_shap._stored import stored
from manifold_shap.estimators.audit import accepted, audit_of, chosen_rows
from manifold_shap.estimators.auto import auto_shapley
from manifold_shap.explanation import Explanation
from manifold_shap.io import zarr as storage
from manifold_shap.io.files import Location, digest, location, remove
from manifold_shap.players import Players
from manifold_shap.values.wrapped import as_value_function

# Blocks on their way to an executor at a time.
_MOST_SENT = 64
# What another number of threads moves a value by, at most, relative to the largest one.
_REL_TOLERANCE = 1e-3
# Of how blocks were made, what adds up.
_SUMS = ("evaluations", "rows_far_outside")
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
        executor: explains several blocks at the same time: a `ThreadPoolExecutor`, a
            `ProcessPoolExecutor`, or any other one with their interface (loky's, mpi4py's, a Dask
            client's by `get_executor`). Other processes are sent the value function and the rows of
            64 blocks ahead at most, compute on its device, and send back what this process writes.
            By default blocks are explained here, one after another.
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
    check_flag("resume", resume), check_flag("overwrite", overwrite)
    check_whole("audit", audit, 0, fix="0 for none")
    settings = {"block": check_whole("block", block), "seed": check_seed(seed), "audit": audit}
    # Once: a callable is tried out, and all blocks are to take it for the same.
    levels = row_levels(x) if labels is None else {}
    value, x, own = _as_rows(value, x)
    count, labels = np.shape(x)[0], own if labels is None else labels
    names = range(count) if labels is None else as_instances(labels)
    if len(names) != count:
        raise ValueError(
            f"Expected {count} labels in `labels`, one per row, but got {len(names)}; leave it out "
            "to have 0, 1, ..."
        )
    here = executor is None or isinstance(executor, ThreadPoolExecutor)
    task: Any = (value, estimator) if here else pickle.dumps((value, estimator))
    parts = [slice(k, min(k + block, count)) for k in range(0, count, block)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # The first block repeats them.
        first = _explained((value, estimator), seed, 0, x[:1])[0].with_labels(names[:1])
    call = _call(first, **settings, **{"x or labels": _checksum(x, names, parts)})
    _lay_out(place, first, call, parts, resume, overwrite)
    group = storage.opened(place, "r+")
    arrays: dict[Any, Any] = dict(group.arrays())
    entries = enumerate(arrays["done"][:].tolist())
    done = {k: json.loads(entry) for k, entry in entries if entry}
    sizes = [part.stop - part.start for part in parts]
    left = [k for k in range(len(parts)) if k not in done]
    rows = sum(sizes[k] for k in left)
    jobs = ((k, partial(_explained, task, seed, k, _alone(x[parts[k]]))) for k in left)
    try:
        with (
            closing(_results(jobs, executor)) as results,
            progress_bar(progress, count, "rows", "row", initial=count - rows) as bar,
        ):
            for k, (found, made_by) in results:
                _write(arrays, first, names, parts[k], found)
                arrays["done"][k : k + 1] = np.array([json.dumps(made_by)], object)
                done[k] = made_by
                bar.update(sizes[k])
        if "made_by" not in group.attrs:
            made_by = _joined([done[k] for k in sorted(done)]) | settings | levels
            made_by.pop("audit")
            if audit:
                chosen = chosen_rows(count, min(audit, count), seed)
                some = Explanation.from_xarray(
                    storage.read(place, chosen).assign_attrs(made_by=json.dumps(made_by))
                )
                again = torch.cat([torch.as_tensor(x[k : k + 1]) for k in chosen])
                made_by["audit"] = audit_of(some, value, again, None, seed, progress).to_dict()
            group.attrs["made_by"] = json.dumps(made_by)
    except (Exception, KeyboardInterrupt) as error:
        kept = (
            f"{sum(sizes[k] for k in done)} of {count} rows are kept in {place}; the same "
            "call with resume=True continues from there."
        )
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(kept) from error
        error.add_note(kept)
        raise
    return rows


def _as_rows(value: Any, x: Any) -> tuple[Any, Any, Any]:
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


def _checksum(x: Any, labels: Sequence[Any], parts: Sequence[slice]) -> str:
    """Of rows and labels, after a check of every row; a block at a time is read."""
    players = Players.of_elements(np.shape(x)[1:])
    rows = (check_rows(x[part], players, first_row=part.start).cpu().numpy() for part in parts)
    texts = ("".join(f"{each}\n" for each in labels[part]).encode() for part in parts)
    return digest(rows, texts)


def _alone(x: Any) -> Any:
    """Rows that share no memory with others, all of which pickle would send."""
    return x.clone() if isinstance(x, Tensor) else x


def _explained(task: Any, seed: int, k: int, x: Any) -> tuple[Any, dict[str, Any]]:
    """The explanation of a block, and how it was made; in another process by a pickled task.

    From there come arrays: executors would share the memory of tensors.
    """
    elsewhere = isinstance(task, bytes)
    value, estimator = pickle.loads(task) if elsewhere else task
    own = int(_random.fold(torch.tensor(seed), k)) & (2**63 - 1)
    settings = accepted(estimator, {"seed": own, "progress": False})
    found = estimator(value, x, **settings)
    return pickle.dumps(found) if elsewhere else found, dict(found.made_by)


def _results(
    jobs: Iterator[tuple[int, Callable[[], Any]]], executor: Executor | None
) -> Generator[tuple[int, Any], None, None]:
    """Numbers of blocks and what was made of them, in the order in which they end."""
    if executor is None:
        yield from ((k, job()) for k, job in jobs)
        return
    waiting = dict[Future[Any], int]()
    try:
        while True:
            for k, job in islice(jobs, _MOST_SENT - len(waiting)):
                waiting[executor.submit(job)] = k
            if not waiting:
                return
            done = wait(waiting, return_when=FIRST_COMPLETED).done
            for future in sorted(done, key=waiting.__getitem__):
                yield waiting.pop(future), future.result()
    finally:
        for future in waiting:
            future.cancel()


def _lay_out(
    place: Location,
    first: Explanation,
    call: Mapping[str, Any],
    parts: Sequence[slice],
    resume: bool,
    overwrite: bool,
) -> None:
    """Make a store with room for all rows, unless that of the same call is to be resumed.

    Raises:
        FileExistsError: a store that is neither to be resumed nor overwritten, or something else.
        ValueError: a store of another call.
        OSError: no space or no permission.
    """
    there = storage.earlier(place)
    if not (there is None or resume or overwrite):
        raise FileExistsError(
            f"Expected {place} to be free but an explanation stands there; overwrite=True "
            "replaces it, and resume=True explains the blocks that it lacks."
        )
    if there is not None and resume and {"call", "made_by"} & {*there.attrs}:
        known = json.loads(there.attrs.get("call", "{}"))
        changed = [k for k in {**known, **call} if not _same(k, known.get(k), call.get(k))]
        if not changed:
            return
        if not overwrite:
            raise ValueError(
                f"Expected the rows and settings of the explanation in {place} but these differ: "
                f"{', '.join(changed)}. Give the same ones again, or replace it with "
                "overwrite=True."
            )
    if there is not None:
        remove(place)
    template = _complete(first).to_xarray()
    template["done"] = "blocks", np.full(len(parts), "", object)
    del template.attrs["made_by"]
    rows, size = parts[-1].stop, parts[0].stop
    how: Any = {"mode": "w-", "zarr_format": 3, "consolidated": False}
    template.to_zarr(place, encoding=storage.encoding_of(template, size), **how)
    group = storage.opened(place, "r+")
    for name, each in template.variables.items():
        if "instances" in each.dims:
            group[str(name)].resize((rows, *each.shape[1:]))
    group.attrs["call"] = json.dumps(call)


def _write(
    arrays: Mapping[Any, Any], first: Explanation, labels: Sequence[Any], part: slice, found: Any
) -> None:
    """Write a block into its region of a store.

    Args:
        arrays: of the store, by name.
        first: the explanation of the first row, in what all blocks have in common with it.
        labels: of all rows.
        part: the rows of the block.
        found: its explanation, maybe pickled.

    Raises:
        ValueError: other players or outputs than those of the first row.
        OSError: no space or no permission.
    """
    found = pickle.loads(found) if isinstance(found, bytes) else found
    if _common(found) != _common(first):
        raise ValueError(
            "Expected every block to have the players, outputs and output space of the first row "
            f"but that of row {part.start} has others; an estimator gives the same ones for all "
            "rows, so choose outputs by `value.select(...)` before."
        )
    block = _complete(found).with_labels(labels[part]).to_xarray()
    for name, each in block.variables.items():
        if "instances" in each.dims:
            is_time = each.dtype.kind == "M"
            arrays[name][part] = each.values.astype(np.int64) if is_time else each.values


def _complete(found: Explanation) -> Explanation:
    """With all that some blocks have and others, which are exact, do without."""
    error, covariance = found.standard_error, found.covariance
    freedom = found.degrees_of_freedom
    if covariance is None and found.partition is not None:
        # Zero where the errors are, and unknown elsewhere.
        square = torch.where(error == 0, error, torch.nan)
        covariance = square[..., None].repeat_interleave(error.shape[-1], -1)
    if freedom is None:
        freedom = error.new_full((len(error),), torch.inf)
    return replace(found, covariance=covariance, degrees_of_freedom=freedom)


def _common(found: Explanation) -> tuple[Any, ...]:
    """What all blocks have in common."""
    return found.players.names, found.outputs, found.space, found.partition


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
