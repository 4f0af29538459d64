"""Writes files and directories whole or not at all."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import torch
from torch import Tensor

from manifold_shap._messages import check_text

# A path of this machine, or the text of a URL.
Location = Path | str
# A URL, be it one that `pathlib.Path` has cut.
URL = re.compile(r"[\w.+:-]{2,}:/")


def digest(*parts: Any) -> str:
    """A SHA-256 checksum of tensors, arrays of numbers, bytes and what JSON can hold, in order.

    An iterator over these counts as one part, whose pieces are read one by one.

    >>> digest(torch.arange(4)) == digest(torch.arange(4))
    True
    >>> digest(np.arange(4)) == digest(np.arange(4.0))
    False
    """
    total = hashlib.sha256()
    for part in parts:
        for piece in part if isinstance(part, Iterator) else (part,):
            if isinstance(piece, Tensor):
                piece = piece.detach().cpu()
                piece = (piece.float() if piece.dtype == torch.bfloat16 else piece).numpy()
            if isinstance(piece, np.ndarray):
                total.update(f"{piece.dtype}{piece.shape}".encode())
                piece = piece.tobytes()
            plain = isinstance(piece, bytes)
            total.update(piece if plain else json.dumps(piece, sort_keys=True).encode())
        total.update(b";")
    return total.hexdigest()


def location(name: str, path: str | Path) -> Location:
    """A path of this machine, or the text of a URL that fsspec knows.

    >>> location("path", "memory://results/rows.zarr")
    'memory://results/rows.zarr'

    Args:
        name: of the argument, for errors.
        path: text or a path; `~` is the home folder.

    Raises:
        TypeError: `path` is something else.
        ValueError: a URL that `pathlib.Path` has cut.
    """
    text = check_text(name, path)
    protocol, is_url, rest = text.partition("://")
    if is_url and protocol not in ("file", "local"):
        return text
    if isinstance(path, os.PathLike) and URL.match(Path(text).as_posix()):
        raise ValueError(
            f"Expected `{name}` to be a path of this machine or the text of a URL, but {text!r} is "
            "a URL that `pathlib.Path` has cut; give it as text, such as 's3://bucket/rows.zarr'."
        )
    return Path(rest if is_url else text).expanduser().absolute()


def local_path(name: str, path: str | Path) -> Path:
    """A path of this machine, to write to.

    >>> local_path("folder", "s3://bucket/explainer")
    Traceback (most recent call last):
    ValueError: Expected `folder` to be a path of this machine but got the URL ...

    Raises:
        TypeError: `path` is neither text nor a path.
        ValueError: it is a URL.
    """
    place = location(name, path)
    if isinstance(place, str):
        raise ValueError(
            f"Expected `{name}` to be a path of this machine but got the URL {place!r}; write to a "
            "path of this machine, then upload what is there."
        )
    return place


def stands(place: Location) -> bool:
    """Whether something stands at a path or a URL."""
    files, path = _files(place)
    return bool(files.exists(path))


def write_bytes(place: Location, content: bytes) -> None:
    """Put a file at a path, where it is whole or not there, or at a URL."""
    if isinstance(place, Path):
        write_whole(place, lambda beside: beside.write_bytes(content))
        return
    files, path = _files(place)
    files.pipe_file(path, content)


def _files(place: Location) -> tuple[Any, str]:
    """The file system of a path or a URL, and the path there."""
    import fsspec

    files, path = fsspec.url_to_fs(str(place))
    files.invalidate_cache()
    return files, path


def write_whole(path: str | Path, write: Callable[[Path], object]) -> None:
    """Let `write` make a file or a directory beside `path`, then rename it to `path`.

    Raises:
        ValueError: `path` is a URL.
        OSError: no space or no permission; what stood at `path` is left as it was.

    >>> import tempfile
    >>> place = tempfile.TemporaryDirectory()
    >>> path = Path(place.name) / "new" / "notes.txt"
    >>> write_whole(path, lambda beside: beside.write_text("all of it"))
    >>> path.read_text()
    'all of it'
    >>> place.cleanup()
    """
    path = local_path("path", path)
    beside, old = (path.with_name(f".{path.name}.{uuid4().hex}") for _ in range(2))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(beside)
        if beside.is_dir() and path.exists():
            path.rename(old)  # No directory takes the place of another one.
        os.replace(beside, path)
    finally:
        if old.exists() and not path.exists():
            old.rename(path)
        remove(beside)
        remove(old)


def remove(place: Location) -> None:
    """Remove a file or a directory, as far as there is one and it can be removed."""
    if isinstance(place, str):
        files, path = _files(place)
        files.rm(path, recursive=True)
    elif place.is_dir() and not place.is_symlink():
        shutil.rmtree(place, ignore_errors=True)
    else:
        with suppress(OSError):
            place.unlink()
