"""Splits rows into blocks, explains a block in any process, and lets one call at a time do so."""

import errno
import inspect
import json
import mmap
import os
import pickle
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import torch
import zarr
from filelock import FileLock, Timeout
from torch import Tensor
from zarr.storage import LocalStore

from manifold_shap import _random
from manifold_shap._checks import check_rows, check_whole, to_tensor
from manifold_shap.explanation import Explanation
from manifold_shap.io import transfer
from manifold_shap.io.files import digest, remove, write_whole
from manifold_shap.io.transfer import Reference
from manifold_shap.players import Players
from manifold_shap.tables.schema import Schema


class Blocks:
    """Rows to explain, split into blocks of equally many.

    Args:
        x: rows `[instances, *event]`, in memory or not.
        size: rows per block; the last may have fewer.
        labels: of all rows; None for 0, 1, ...

    Raises:
        TypeError, ValueError: what is wrong with these, without a look at the numbers in `x`.
    """

    def __init__(self, x: Any, size: int, labels: Any = None) -> None:
        self.x = x if hasattr(x, "shape") else to_tensor(x)
        self.size = check_whole("block", size, fix="1024 rows suit most tables")
        if len(self.x.shape) == 0 or len(self) == 0:
            raise ValueError(
                f"Expected `x` of shape (rows, *event), with at least one row, but got "
                f"{tuple(self.x.shape)}; pass rows of the shape that `players` own."
            )
        self.labels = range(len(self)) if labels is None else labels
        given = np.asarray(self.labels)
        if given.shape != (len(self),) or given.dtype.kind not in "iu":
            raise ValueError(
                f"Expected `instances` to be {len(self)} whole numbers, one per row, but got "
                f"{given.dtype} of shape {given.shape}."
            )

    def __len__(self) -> int:
        return int(self.x.shape[0])

    @property
    def numbers(self) -> range:
        """Of the blocks."""
        return range(-(-len(self) // self.size))

    def where(self, number: int) -> slice:
        """Which rows are a block."""
        return slice(number * self.size, min((number + 1) * self.size, len(self)))

    def __getitem__(self, number: int) -> tuple[Any, Sequence[int]]:
        """The rows of a block, and their labels."""
        return self.x[self.where(number)], self.labels[self.where(number)]

    def count(self, numbers: Iterable[int]) -> int:
        """How many rows these blocks have."""
        return sum(len(range(len(self))[self.where(number)]) for number in numbers)

    def fingerprint(self, players: Players) -> str:
        """A checksum of rows and labels, after a check of every row.

        Raises:
            TypeError, ValueError: rows that cannot be explained.
        """
        parts = map(self.where, self.numbers)
        rows = (check_rows(self.x[k], players, f"x[{k.start}:{k.stop}]").cpu() for k in parts)
        return digest((each.numpy() for each in rows), np.asarray(self.labels, dtype=np.int64))

    def reopened(self) -> Callable[[], Any] | None:
        """What opens `x` in another process, if it is a file; None for all that is in memory."""
        x = self.x
        # A part of a mapped array does not hold its offset in the file.
        if isinstance(x, np.memmap) and isinstance(x.base, mmap.mmap) and x.mode != "c":
            order = "C" if x.flags.c_contiguous else "F"
            return partial(np.memmap, x.filename, x.dtype, "r", x.offset, x.shape, order)
        if isinstance(x, zarr.Array) and isinstance(x.store, LocalStore):
            return partial(zarr.open_array, x.store.root.absolute(), path=x.path, mode="r")
        return None


@dataclass(frozen=True)
class Task:
    """Explains and saves one block after the other, in this process or in another one.

    Attributes:
        place: where work in progress lives.
        call: how `owner.json` names the call of `explain_rows` that this is a part of.
        value: the value function.
        estimator: from value function and rows to an explanation.
        seed: of all blocks.
        schema: columns of the table that the rows come from.
    """

    place: Path
    call: str
    value: Callable[[Tensor, Tensor], Tensor]
    estimator: Callable[..., Explanation]
    seed: int
    schema: Schema | None

    def explain(self, number: int, x: Any, labels: Sequence[int]) -> Explanation:
        """The explanation of rows of a block."""
        seed = int(_random.fold(torch.tensor(self.seed), number)) & (2**63 - 1)
        estimator = with_known(self.estimator, seed=seed, progress=False)
        return estimator(self.value, x).with_labels(labels, self.schema)

    def store(self, number: int, x: Any, labels: Sequence[int]) -> int:
        """Explain a block and save it; how many rows it has."""
        explanation = self.explain(number, x, labels)
        with self.writing():
            explanation.save(self.part(number))
        return len(labels)

    def part(self, number: int) -> Path:
        """Where a finished block lives."""
        return self.place / f"{number:06d}.zarr"

    @property
    def done(self) -> list[int]:
        """Numbers of the finished blocks."""
        return sorted(int(part.stem) for part in self.place.glob("[0-9]*.zarr"))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Make advice of errors of a full or closed disk, and stop if another call took over.

        Raises:
            FileExistsError: another call has begun on the same path since.
            OSError: no space or no permission.
        """
        self._check_owned()
        try:
            yield
        except OSError as error:
            self._check_owned()  # Which may have removed what this one would write to.
            raise type(error)(
                error.errno,
                f"Could not write the work in progress in {self.place} "
                f"({error.strerror or error}); free some space or choose another place. Finished "
                "rows stay: resume=True goes on from there.",
            ) from error

    def _check_owned(self) -> None:
        if (read_json(self.place / "owner.json") or {}).get("call") != self.call:
            raise FileExistsError(
                f"Expected to be the only call that works in {self.place} but another one has "
                "begun since, and owns what is there; this one has stopped. Let the other one "
                "finish, or choose another path."
            )


@contextmanager
def claimed(path: Path) -> Iterator[tuple[Path, str]]:
    """Keep other calls from the work on a store; where it lives, and a name for this call.

    Raises:
        FileExistsError: another call is at it, or something that is no directory is in the way.
        OSError: no space or no permission.
    """
    place, call = path.with_name(f".{path.name}.partial"), uuid4().hex
    if os.path.lexists(place) and not place.is_dir():
        raise FileExistsError(
            f"Expected {place} to be a directory, for the work in progress, but it is a file; "
            "remove it, or choose another path."
        )
    lock, owner = FileLock(place / "lock"), place / "owner.json"
    try:
        _acquire(lock, place)
    except Timeout as error:
        known = read_json(owner)
        who = "process {process} on {host}, since {since}," if known else "another one"
        raise FileExistsError(
            f"Expected to be the only call that explains into {path} but "
            f"{who.format(**known or {})} is still at it, in {place}; let that one finish, stop "
            "it, or choose another path."
        ) from error
    try:
        since = datetime.now().isoformat(" ", "seconds")
        about = {"call": call, "process": os.getpid(), "host": platform.node(), "since": since}
        write_json(owner, about)
        yield place, call
    finally:
        if not (place / "settings.json").exists():  # There is nothing to resume.
            remove(place)
        lock.release()


def _acquire(lock: Any, place: Path) -> None:
    while True:
        place.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except FileNotFoundError:
            continue  # A call that has just ended removed the directory.
        except Timeout:
            raise
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP):  # A file system without locks.
                raise
        return


def with_known(estimator: Callable[..., Explanation], **settings: Any) -> Callable[..., Any]:
    """The estimator with those of these settings that it takes.

    >>> def estimator(value, x, seed=0): ...
    >>> with_known(estimator, seed=3, progress=False).keywords
    {'seed': 3}
    """
    known = inspect.signature(estimator).parameters
    every = any(each.kind is each.VAR_KEYWORD for each in known.values())
    taken = {name: entry for name, entry in settings.items() if every or name in known}
    return partial(estimator, **taken)


def store_elsewhere(
    reference: Reference, threads: int, number: int, x: Any, labels: Sequence[int]
) -> int:
    """Explain a block and save it, in a process of an executor; how many rows it has.

    Args:
        reference: to the task.
        threads: of torch, as in the process that began: their number moves the last digits.
        number: of the block.
        x: rows, pickled; or what opens the file that they are in, and which ones they are.
        labels: of the rows.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        rows = pickle.loads(x) if isinstance(x, bytes) else x[0]()[x[1]]
        return transfer.load(reference).store(number, rows, labels)
    finally:
        torch.set_num_threads(before)


def read_json(path: Path) -> dict[str, Any] | None:
    """What a file holds; nothing if it is damaged, None if there is none."""
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file whole or not at all."""
    write_whole(path, lambda beside: beside.write_text(json.dumps(content)))
