"""Safe files: whole or not at all, and checkpoints that hold tensors and plain data only."""

import io
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import torch


def write_whole(path: str | Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path`, then rename it: `path` is never half-written.

    Raises:
        OSError: no space or no permission; what stood at `path` is left as it was.
    """
    path = Path(path)
    beside = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(beside)
        os.replace(beside, path)
    except OSError as error:
        raise type(error)(
            error.errno,
            f"Could not write {path} ({error.strerror or error}); free some space or choose "
            "another place. Nothing there was changed.",
        ) from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock, which ends with this context or the process, however it ends.

    A process that was forked meanwhile, and outlives this one, keeps it until it ends. Where there
    are no such locks, as on Windows and some network drives, anyone may enter.

    Args:
        path: a file, which is there only as long as the lock is held.

    Raises:
        BlockingIOError: it is held already.
        OSError: the file cannot be written.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    while True:
        with path.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise
            except OSError:  # Of a file system that has none.
                pass
            # The one who held it may have removed this file since: others lock a new one.
            if not _is_at(path, file):
                continue
            try:
                yield
            finally:
                if _is_at(path, file):
                    path.unlink(missing_ok=True)
            return


def _is_at(path: Path, file: IO[bytes]) -> bool:
    """Whether an open file is the one that stands at `path`."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def swap_in(new: Path, path: Path) -> Path | None:
    """Rename a directory to `path`.

    Returns:
        Where what stood there is now, for the caller to remove; None if nothing did.

    Raises:
        OSError: it cannot be renamed; what stood at `path` is left as it was.
    """
    old = path.with_name(f".{path.name}.{uuid4().hex}") if path.exists() else None
    if old is not None:
        path.rename(old)
    try:
        new.rename(path)
    except OSError:
        if old is not None:
            old.rename(path)
        raise
    return old


def save_checkpoint(path: str | Path, checkpoint: dict[str, Any]) -> None:
    """Write tensors and plain data to one file.

    Raises:
        OSError: no space or no permission; what stood at `path` is left as it was.
    """
    # Given a file, torch.save reports a full disk as a RuntimeError of its own.
    buffer = io.BytesIO()
    torch.save(checkpoint, buffer)
    write_whole(path, lambda beside: beside.write_bytes(buffer.getbuffer()))


def load_checkpoint(path: str | Path, kind: str) -> dict[str, Any]:
    """Read a checkpoint of this package, running no code from the file.

    Args:
        path: the file.
        kind: what it should hold, e.g. `"surrogate"`.

    Returns:
        A dict with at least `hyper_parameters` and `state_dict`.

    Raises:
        FileNotFoundError: no file is there.
        ValueError: the file is damaged, would run code, or holds something else.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"Expected {_article(kind)} checkpoint at {path} but no file is there; `train.py` "
            "writes one."
        )
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"Refused to load {path}: it is no checkpoint of tensors and plain data, and code from "
            f"a file is never run ({_first_line(error)}). Train again, or name the right file."
        ) from error
    except (RuntimeError, EOFError, KeyError, OSError) as error:
        raise ValueError(
            f"Expected {_article(kind)} checkpoint at {path} but the file is damaged or of "
            f"another format ({_first_line(error)}). Train again, or name the right file."
        ) from error
    found = checkpoint.get("kind") if isinstance(checkpoint, dict) else None
    if found != kind:
        raise ValueError(
            f"Expected a manifold_shap {kind} checkpoint at {path} but it holds "
            f"{found or 'something of another program'}; name the file that `train.py` wrote."
        )
    return checkpoint


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
