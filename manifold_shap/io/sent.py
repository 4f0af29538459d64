"""Sends what explains blocks to other processes: by a file beside the results, or by an object."""

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, TypeAlias

from manifold_shap.io import transfer
from manifold_shap.io.places import TASK, LocalPlace, Place

# From a number of threads and pickled arguments to what the task returns.
Send: TypeAlias = Callable[[int, bytes], Any]

# Threads that ask for a file at the same time wait for the first one to fetch it.
_FETCHING = Lock()
_FILE = f"{TASK}.ckpt"


def sender(task: Any, work: Place) -> Send:
    """What calls a task in a process of an executor, which gets the numbers of it from `work`.

    Raises:
        TypeError: the task cannot be pickled.
        OSError: no space or no permission.
    """
    if isinstance(work, LocalPlace):
        return partial(transfer.call, transfer.refer(task, work.path / _FILE))
    folder = work / TASK
    references = list[transfer.Reference]()

    def write(beside: Path) -> dict[str, Any]:
        references.append(transfer.refer(task, beside / _FILE))
        return {}

    folder.put(write)
    return partial(_call, folder, references[0])


def _call(folder: Place, reference: transfer.Reference, threads: int, given: bytes) -> Any:
    """Call the task, whose file is fetched once by each process."""
    with _FETCHING:
        path = _fetched(folder, reference.checksum)
    return transfer.call(reference._replace(path=path), threads, given)


@lru_cache(maxsize=1)
def _directory() -> "TemporaryDirectory[str]":
    """Removed as the process ends."""
    return TemporaryDirectory(prefix="manifold_shap-")


@lru_cache(maxsize=1)
def _fetched(folder: Place, checksum: str) -> Path:
    """The file on this machine.

    Raises:
        FileNotFoundError: this process does not see it.
    """
    content = folder.find()
    if content is None:
        raise FileNotFoundError(
            f"Expected every worker process to see {folder} but one does not; what is in memory:// "
            "is seen by one process alone, and the results go there, too."
        )
    path = Path(_directory().name, f"{checksum}.ckpt")
    with content.place.fetched() as files:
        path.write_bytes((files / _FILE).read_bytes())
    return path
