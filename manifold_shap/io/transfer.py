"""Sends an object to other processes: its numbers through one file, the rest pickled.

Executors pickle the arguments of every task. What is large about a value function (weights, rows
of reference data, a boosted model's trees) is therefore written once, to a file of tensors that
each process reads once, without running code from it; a task carries the rest, and the path.
"""

import io
import pickle
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from manifold_shap.io.files import load_checkpoint, save_checkpoint

# Bytes of an array or a text from which on it goes into the file.
_LARGE = 4096
_BYTES: dict[str, Callable[[bytes], Any]] = {"bytes": bytes, "bytearray": bytearray}


class Reference(NamedTuple):
    """An object that `load` rebuilds in another process.

    Attributes:
        path: of the file with its numbers.
        pickled: all else of it.
    """

    path: Path
    pickled: bytes


def refer(thing: Any, path: Path) -> Reference:
    """Write the numbers of an object to a file, and pickle what is left of it.

    Args:
        thing: anything that can be pickled. Its tensors come back on the devices they are on.
        path: of the file.

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
            "not as a lambda or inside another function (`functools.partial` can be sent); or give "
            "no `executor`, or a `ThreadPoolExecutor`."
        ) from error
    numbers = {"tensors": pickler.tensors, "buffers": pickler.buffers}
    save_checkpoint(path, {"kind": "task", "hyper_parameters": {}, "state_dict": numbers})
    return Reference(path, file.getvalue())


@lru_cache(maxsize=1)
def load(reference: Reference) -> Any:
    """The object that is referred to, read once: all tasks of a process share it.

    Raises:
        FileNotFoundError: this process does not see the file.
        ValueError: the file is damaged, or a class or function cannot be imported here.
    """
    if not reference.path.exists():
        raise FileNotFoundError(
            f"Expected every worker process to see {reference.path} but one does not; those on "
            "other machines need a file system that all share, for this file and the results."
        )
    numbers = load_checkpoint(reference.path, "task")["state_dict"]
    try:
        return _Unpickler(reference.pickled, numbers["tensors"], numbers["buffers"]).load()
    except (AttributeError, ImportError) as error:
        raise ValueError(
            "Expected every worker process to be able to import the functions and classes of the "
            f"value function and the estimator but one cannot: {error}. Define them in a module "
            "(what is typed into a notebook is none); or give no `executor`, or a "
            "`ThreadPoolExecutor`."
        ) from error


class _Pickler(pickle.Pickler):
    """Puts aside tensors and whatever else is large."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5, buffer_callback=self._put_aside)
        self.tensors: list[Tensor] = []
        self.buffers: list[Tensor] = []
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # So that no other object gets the identity of one that is gone.

    def persistent_id(self, thing: Any) -> tuple[str, int, str] | None:
        """Kind, number and device of what is put aside; None for the rest, which is pickled."""
        if type(thing) is Tensor and not thing.requires_grad:
            kind, device = "tensor", str(thing.device)
        elif type(thing) in (bytes, bytearray, str) and len(thing) > _LARGE:
            kind, device = type(thing).__name__, "cpu"
        else:
            return None
        if id(thing) not in self._numbers:
            self._numbers[id(thing)] = len(self.tensors)
            self._kept.append(thing)
            self.tensors.append(thing if kind == "tensor" else _as_tensor(thing))
        return kind, self._numbers[id(thing)], device

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
        self.tensors = tensors

    def persistent_load(self, known: tuple[str, int, str]) -> Any:
        kind, number, device = known
        tensor = self.tensors[number]
        if kind == "tensor":
            return tensor.to(device)
        content = tensor.numpy().tobytes()
        return content.decode() if kind == "str" else _BYTES[kind](content)


def _as_tensor(content: Any) -> Tensor:
    content = content.encode() if isinstance(content, str) else content
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)
