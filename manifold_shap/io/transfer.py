"""Calls an object in other processes: its numbers go through one file, the rest is pickled.

Executors pickle the arguments of every task. What is large about a value function (weights, rows
of reference data, a boosted model's trees) is therefore written once, to a file of tensors that
each process reads once, without running code from it; a task carries the rest, and the path.
"""

import io
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    wait,
)
from functools import lru_cache
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor

from manifold_shap.io.files import digest, load_checkpoint, save_checkpoint

# Bytes of an array or a text from which on it goes into the file.
_LARGE = 4096
# Calls whose arguments may be in memory at once, on their way to an executor.
_MOST_SENT = 64
# Threads that ask for an object at the same time wait for the first one to read it.
_READING = Lock()
# What is made again of the bytes of each kind.
_KINDS: dict[str, Callable[[bytes], Any]] = {
    "bytes": bytes,
    "bytearray": bytearray,
    "str": bytes.decode,
}


class Reference(NamedTuple):
    """An object that `load` rebuilds in another process: a file with its numbers, all else.

    The checksum is that of the file: objects that differ in their numbers alone are told apart.
    """

    path: Path
    checksum: str
    pickled: bytes


def refer(thing: Any, path: Path) -> Reference:
    """Write the numbers of an object to a file, and pickle what is left of it.

    Its tensors come back on the devices they are on.

    Raises:
        TypeError: it cannot be pickled.
        OSError: no space or no permission.
    """
    file = io.BytesIO()
    pickler = _Pickler(file)
    try:
        pickler.dump(thing)
    except Exception as error:  # Objects refuse to be pickled in any way.
        raise TypeError(
            "Expected a value function and an estimator that can be sent to other processes but "
            f"pickle refuses: {error}. Define functions and classes at the top level of a module, "
            "not as a lambda or inside another function (`functools.partial` can be sent). "
            "`explain_rows` with no `executor`, or with a `ThreadPoolExecutor`, sends nothing."
        ) from error
    numbers = {"tensors": pickler.tensors, "buffers": pickler.buffers}
    save_checkpoint(path, {"kind": "task", "hyper_parameters": {}, "state_dict": numbers})
    return Reference(path, digest(path.read_bytes()), file.getvalue())


def load(reference: Reference) -> Any:
    """The object that is referred to, read once: all tasks and threads of a process share it.

    Raises:
        FileNotFoundError: this process does not see the file.
        ValueError: the file is damaged or another one, or a class or function cannot be imported
            here.
    """
    with _READING:
        return _load(reference)


@lru_cache(maxsize=1)
def _load(reference: Reference) -> Any:
    if not reference.path.exists():
        raise FileNotFoundError(
            f"Expected every worker process to see {reference.path} but one does not; those on "
            "other machines need a file system that all share, for this file and the results."
        )
    if digest(reference.path.read_bytes()) != reference.checksum:
        raise ValueError(
            f"Expected the numbers that this call has written to {reference.path} but others are "
            "there: it was cut off, and a later call has taken its place; use the results of that."
        )
    numbers = load_checkpoint(reference.path, "task")["state_dict"]
    try:
        return _Unpickler(reference.pickled, **numbers).load()
    except (AttributeError, ImportError) as error:
        raise ValueError(
            "Expected every worker process to be able to import the functions and classes of the "
            f"value function and the estimator but one cannot: {error}. Define them in a module "
            "that is installed where the processes run (what is typed into a notebook is none); "
            "`explain_rows` with no `executor`, or with a `ThreadPoolExecutor`, sends nothing."
        ) from error


def call(reference: Reference, threads: int, given: bytes) -> Any:
    """Call the object that is referred to, in a process of an executor.

    Args:
        reference: to the object.
        threads: of torch, as in the process that began: their number moves the last digits.
        given: arguments, pickled.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return load(reference)(*pickle.loads(given))
    finally:
        torch.set_num_threads(before)


def results(calls: Iterator[Callable[[], Any]], executor: Executor | None) -> Iterator[Any]:
    """Results of the calls, in the order in which they end; a bounded number waits at a time.

    Raises:
        BrokenExecutor: the executor has cancelled calls, or lost them with its processes.
    """
    if executor is None:
        yield from (call() for call in calls)
        return
    waiting = set[Future[Any]]()
    try:
        while True:
            for call in islice(calls, _MOST_SENT - len(waiting)):
                waiting.add(executor.submit(call))
            if not waiting:
                return
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    except CancelledError as error:
        raise BrokenExecutor(
            "Expected the executor to make all calls but it has cancelled some, as it does when it "
            "is shut down or its scheduler is lost; give one that runs."
        ) from error
    finally:
        for future in waiting:
            future.cancel()


class _Pickler(pickle.Pickler):
    """Puts aside tensors, and the memory of large arrays and texts."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5, buffer_callback=self._put_aside)
        self.tensors: list[Tensor] = []
        self.buffers: list[Tensor] = []
        # With the things themselves: no other one may get the identity of one that is gone.
        self._known: dict[int, tuple[tuple[str, int, str], Any]] = {}

    def persistent_id(self, thing: Any) -> tuple[str, int, str] | None:
        """Kind, number and device of what is put aside; None for the rest, which is pickled."""
        is_tensor = type(thing) is Tensor and not thing.requires_grad
        if not is_tensor and not (type(thing) in (bytes, bytearray, str) and len(thing) > _LARGE):
            return None
        if id(thing) not in self._known:
            device = str(thing.device) if is_tensor else "cpu"
            self._known[id(thing)] = (type(thing).__name__, len(self.tensors), device), thing
            self.tensors.append(thing if is_tensor else _as_tensor(thing))
        return self._known[id(thing)][0]

    def _put_aside(self, buffer: pickle.PickleBuffer) -> bool:
        """Put the memory of a large array aside; True if it is small, and to be pickled."""
        content = buffer.raw()
        if content.nbytes > _LARGE:
            self.buffers.append(_as_tensor(content))
        return content.nbytes <= _LARGE


class _Unpickler(pickle.Unpickler):
    """Puts back what `_Pickler` has put aside."""

    def __init__(self, pickled: bytes, tensors: list[Tensor], buffers: list[Tensor]) -> None:
        super().__init__(io.BytesIO(pickled), buffers=[buffer.numpy().data for buffer in buffers])
        self._tensors = tensors

    def persistent_load(self, known: tuple[str, int, str]) -> Any:
        kind, number, device = known
        tensor = self._tensors[number]
        return tensor.to(device) if kind == "Tensor" else _KINDS[kind](tensor.numpy().tobytes())


def _as_tensor(content: Any) -> Tensor:
    content = content.encode() if isinstance(content, str) else content
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)
