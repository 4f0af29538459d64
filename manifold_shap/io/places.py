"""Names where results live, and puts them there whole: a path here, or a URL of an object store."""

import errno
import json
import os
import platform
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from filelock import Timeout

from manifold_shap._messages import check_text
from manifold_shap.io.files import URL, locked, recover, remove, set_aside, swap_in, write_whole

# Names the folder beside it in which a result stands, where a store knows no rename.
MANIFEST = "_manifest.json"
# In a folder of Parquet files, written last: names, rows and checksums, and how they were made.
PARTS = "_parts.json"
# In the folder of the work: what other processes are sent.
TASK = "task"
# Makes a file or a folder at a path of this machine; what its manifest says of it.
Write = Callable[[Path], Mapping[str, Any]]

_FOLDER = re.compile(r"[\w.-]*\w")


class Content(NamedTuple):
    """What stands at a place.

    Attributes:
        place: its files.
        manifest: what was said of it when it was written, where there is a manifest.
    """

    place: "Place"
    manifest: dict[str, Any]


@dataclass(frozen=True)
class Claim(ABC):
    """The right of one call to write at a place, and the folder of its work.

    Attributes:
        place: where the result comes.
        work: a folder for what is not finished.
    """

    place: Any
    work: Any

    @abstractmethod
    def publish(self, write: Write) -> None:
        """Put a result at the place; an earlier one stays until then.

        Raises:
            OSError: no space or no permission; what stood there is left as it was.
        """

    @abstractmethod
    def clear(self) -> None:
        """Remove what earlier calls have left in the folder of the work, but not what is sent."""


class Place(ABC):
    """A path or a URL at which one result stands, whole or not at all."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def __str__(self) -> str: ...

    @abstractmethod
    def __truediv__(self, name: str) -> "Place":
        """A place inside."""

    @abstractmethod
    def find(self) -> Content | None:
        """What stands here whole, if anything does.

        Raises:
            ValueError: its manifest is damaged.
        """

    def stands(self) -> bool:
        """Whether something stands here, be it damaged."""
        try:
            return self.find() is not None
        except ValueError:
            return True

    @abstractmethod
    def is_free(self) -> bool:
        """Whether nothing is here, but for what writers of this package have not finished."""

    @abstractmethod
    def glob(self, pattern: str) -> Sequence["Place"]:
        """Places inside at which something stands whole, in order."""

    @abstractmethod
    def fetched(self) -> AbstractContextManager[Path]:
        """Where the files of this place can be read on this machine, as long as the context."""

    @abstractmethod
    def zarr(self) -> Any:
        """What zarr reads the files of this place from, some of them at a time."""

    @abstractmethod
    def in_fsspec(self) -> tuple[Any, str]:
        """A file system of fsspec, and the path of this place there."""

    @abstractmethod
    def read(self) -> bytes | None:
        """The bytes of a file; None where there is none."""

    @abstractmethod
    def write(self, content: bytes) -> None:
        """Put one file here, whole; an earlier one stays until then.

        Raises:
            OSError: no space, no permission or no such store; what stood here is left as it was.
        """

    @abstractmethod
    def put(self, write: Write) -> None:
        """Put here what `write` makes, whole; an earlier one stays until then.

        Raises:
            OSError: no space or no permission; what stood here is left as it was.
        """

    @abstractmethod
    def remove(self) -> None:
        """Remove what is here, as far as it can be removed."""

    @abstractmethod
    def claimed(self, keep: str) -> AbstractContextManager[Claim]:
        """Keep other calls from writing here.

        Args:
            keep: at the end the folder of the work is removed, unless something of this name
                stands in it.

        Raises:
            FileExistsError: another call is at it, or something is in the way.
            OSError: no space or no permission.
        """


@dataclass(frozen=True)
class LocalPlace(Place):
    """A path of this machine: what comes there is renamed, and a lock keeps others from it."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        return self.path.name

    def __truediv__(self, name: str) -> "LocalPlace":
        return LocalPlace(self.path / name)

    def find(self) -> Content | None:
        path = self.path if self.path.exists() else set_aside(self.path)
        if path is None:
            return None
        place = LocalPlace(path)
        manifest = (place / MANIFEST).read()
        return Content(place, {}) if manifest is None else by_manifest(place, manifest)

    def is_free(self) -> bool:
        try:
            free = not self.path.exists()
        except OSError as error:
            raise type(error)(
                error.errno,
                f"Expected a path to write to but got one of {len(str(self))} letters "
                f"({error.strerror}); choose another one.",
            ) from error
        if free:
            self._check_parents()
        return free

    def glob(self, pattern: str) -> Sequence["LocalPlace"]:
        return [LocalPlace(path) for path in sorted(self.path.glob(pattern))]

    def fetched(self) -> AbstractContextManager[Path]:
        return nullcontext(self.path)

    def zarr(self) -> Path:
        return self.path

    def in_fsspec(self) -> tuple[Any, str]:
        import fsspec

        return fsspec.filesystem("file"), str(self.path)

    def read(self) -> bytes | None:
        return self.path.read_bytes() if self.path.is_file() else None

    def write(self, content: bytes) -> None:
        write_whole(self.path, lambda beside: beside.write_bytes(content))

    def put(self, write: Write) -> None:
        write_whole(self.path, write)
        # Else it would be read again, were this removed one day.
        remove(set_aside(self.path))

    def remove(self) -> None:
        remove(self.path)

    @contextmanager
    def claimed(self, keep: str) -> Iterator[Claim]:
        work = self.path.with_name(f".{self.name}.partial")
        if os.path.lexists(work) and not work.is_dir():
            raise FileExistsError(
                f"Expected {work} to be a directory, for the work in progress, but it is a file; "
                "remove it, or choose another path."
            )
        owner = work / "owner"
        try:
            lock = locked(work / "lock")
        except Timeout as error:
            who = owner.read_text() if owner.exists() else "another one"
            raise FileExistsError(
                f"Expected to be the only call that explains into {self} but {who} is still at "
                f"it, in {work}; let that one finish, stop it, or choose another path."
            ) from error
        try:
            recover(self.path.parent, self.name, work.name)
            write_whole(owner, lambda beside: beside.write_text(f"{this_process()},"))
            yield LocalClaim(self, LocalPlace(work))
        finally:
            if not (work / keep).exists():  # There is nothing to resume.
                remove(work)
            lock.release()

    def _check_parents(self) -> None:
        nearest = next(place for place in self.path.parents if place.exists())
        if not nearest.is_dir():
            raise NotADirectoryError(
                errno.ENOTDIR,
                f"Expected a folder at {nearest}, to write {self.name} to, but it is a file; "
                "choose another path.",
            )


@dataclass(frozen=True)
class LocalClaim(Claim):
    """A lock on a file in the folder of the work."""

    place: LocalPlace
    work: LocalPlace

    def publish(self, write: Write) -> None:
        joined = self.work.path / "joined.zarr"
        write_whole(joined, write)
        remove(swap_in(joined, self.place.path))

    def clear(self) -> None:
        for directory in (each for each in self.work.path.iterdir() if each.is_dir()):
            remove(directory)


def place_of(path: Any, name: str = "path", fix: str = "") -> Place:
    """The place of a path, or of a URL that fsspec knows.

    >>> print(place_of("memory://results/rows.zarr"))
    memory://results/rows.zarr

    Args:
        path: text or a path, or a place, which stays as it is.
        name: of the argument, for errors.
        fix: of another type, for errors.

    Raises:
        TypeError: `path` is something else.
        ValueError: a URL of a protocol that is not known, or of a whole bucket.
        ImportError: the package for the protocol is not installed.
    """
    if isinstance(path, Place):
        return path
    text = check_text(name, path, fix)
    protocol, is_url, rest = text.partition("://")
    if is_url and protocol in ("file", "local"):
        return LocalPlace(Path(rest).absolute())
    if is_url:
        from manifold_shap.io.objects import UrlPlace

        return UrlPlace.of(text)
    if isinstance(path, os.PathLike) and URL.match(Path(text).as_posix()):
        raise ValueError(
            f"Expected `{name}` to be a path of this machine or the text of a URL, but {text!r} is "
            "a URL that `pathlib.Path` has cut; give it as text, such as 's3://bucket/rows.zarr'."
        )
    return LocalPlace(Path(text).absolute())


def by_manifest(place: Any, manifest: bytes) -> Content:
    """What a manifest at a place names.

    Raises:
        ValueError: it is damaged, or none of this package.
    """
    try:
        known = json.loads(manifest)
        folder = known["folder"]
        if not _FOLDER.fullmatch(folder):  # Nothing outside of the place.
            raise ValueError(folder)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(
            f"Expected a complete explanation store at {place} but its {MANIFEST} is damaged, or "
            "of another program; write it again."
        ) from error
    return Content(place / folder, known)


def this_process() -> str:
    """Number, machine and time, for those who are refused."""
    since = datetime.now().isoformat(" ", "seconds")
    return f"process {os.getpid()} on {platform.node()}, since {since}"
