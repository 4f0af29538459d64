"""Places in an object store, such as S3, by fsspec: without renames, and without locks on files.

A result is a folder of its own below its URL, named by chance, and a manifest, one small object
that names the folder and is put last: an earlier result is read until the manifest is replaced, and
one that is not finished is never found. What is written is made on this machine first. In the
folder of the work, where blocks come and go, such a folder is packed into one object.

A call claims a place by an object that it creates only where there is none, in one request. Stores
that cannot do so are warned of.
"""

import errno
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import fsspec

from manifold_shap._messages import warn
from manifold_shap.io.packed import pack, unpack
from manifold_shap.io.places import (
    MANIFEST,
    PARTS,
    TASK,
    Claim,
    Content,
    Place,
    Write,
    by_manifest,
    this_process,
)

_BUCKETS = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az")
# Protocols whose file systems of fsspec create an object, if there is none, in one request.
_CREATE = (*_BUCKETS, "memory")
# Packages of the extra `cloud`.
_CLOUD = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs"}
_OWNER = "owner.json"
# A folder that `put` or `publish` writes, before its manifest is put.
_WRITTEN = re.compile(r"(saved|rows)-[0-9a-f]{32}(\.zip)?")
# Any of these is in a folder that was copied here from a machine.
_PLAIN = {".zgroup", "zarr.json", PARTS}


@dataclass(frozen=True)
class UrlPlace(Place):
    """A URL that fsspec knows; the file system is made anew in each process.

    Attributes:
        url: without a slash at its end.
        packed: whether what is put here is one object, which cannot be read in part.
    """

    url: str
    packed: bool = False

    @classmethod
    def of(cls, url: str) -> "UrlPlace":
        """The place of a URL; for errors see `place_of`."""
        protocol, _, rest = url.partition("://")
        try:
            fsspec.url_to_fs(url)
        except ImportError as error:
            how = f"pip install {_CLOUD.get(protocol, 'it')}"
            if protocol in _CLOUD:
                how = "pip install 'manifold_shap[cloud]'"
            raise ImportError(
                f"Expected the package that reads {protocol}:// but it is not installed ({error}); "
                f"`{how}`."
            ) from error
        except ValueError as error:
            raise ValueError(
                f"Expected a path, or a URL that fsspec knows, such as s3://, gs:// or memory://, "
                f"but got {url!r} ({error})."
            ) from error
        name = rest.strip("/")
        if not name or ("/" not in name and protocol in _BUCKETS):
            raise ValueError(
                f"Expected a URL of something in a bucket but got {url!r}; add a name, as in "
                f"'{protocol}://{name or 'bucket'}/rows.zarr'."
            )
        return cls(url.rstrip("/"))

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]

    @property
    def protocol(self) -> str:
        return self.url.partition("://")[0]

    @property
    def _fs(self) -> Any:
        return self.in_fsspec()[0]

    @property
    def _path(self) -> str:
        """As the file system has it, which has no protocol."""
        return self.in_fsspec()[1]

    def __truediv__(self, name: str) -> "UrlPlace":
        return UrlPlace(f"{self.url}/{name}", self.packed)

    def find(self) -> Content | None:
        manifest = (self / MANIFEST).read()
        if manifest is not None:
            return by_manifest(self, manifest)
        is_copy = not self.packed and _PLAIN & set(self._names())
        return Content(self, {}) if is_copy else None

    def is_free(self) -> bool:
        return all(_WRITTEN.fullmatch(name) for name in self._names())

    def glob(self, pattern: str) -> Sequence["UrlPlace"]:
        # One listing of all: a glob of fsspec lists every folder on its own.
        with self._reaching("list"):
            found = sorted(self._fs.find(self._path))
        names = [path[len(self._path) + 1 :].split("/") for path in found]
        wanted = [*pattern.split("/"), MANIFEST]
        return [
            self / "/".join(parts[:-1])
            for parts in names
            if len(parts) == len(wanted) and all(map(fnmatch, parts, wanted))
        ]

    @contextmanager
    def fetched(self) -> Iterator[Path]:
        with TemporaryDirectory(prefix="manifold_shap-") as directory:
            with self._reaching("read"):
                parent = self._path.rpartition("/")[0]
                paths = self._fs.find(self._path)
                names = [path[len(parent) + 1 :] for path in paths]
                if any(".." in name.split("/") for name in names):
                    raise PermissionError(errno.EPERM, "a name that leads outside of its folder")
                if paths:
                    self._fs.get(paths, [os.path.join(directory, name) for name in names])
            unpack(Path(directory))
            yield Path(directory, self.name)

    def zarr(self) -> Any:
        from zarr.storage import FsspecStore

        return FsspecStore.from_url(self.url, read_only=True)

    def in_fsspec(self) -> tuple[Any, str]:
        found: tuple[Any, str] = fsspec.url_to_fs(self.url)
        return found

    def read(self) -> bytes | None:
        with suppress(FileNotFoundError), self._reaching("read"):
            found: bytes = self._fs.cat_file(self._path)
            return found
        return None

    def put(self, write: Write) -> None:
        self._replace(write, "saved")

    def remove(self) -> None:
        with suppress(OSError), self._reaching("remove"):
            self._fs.rm(self._path, recursive=True)

    @contextmanager
    def claimed(self, keep: str) -> Iterator[Claim]:
        parent, _, name = self.url.rpartition("/")
        work = UrlPlace(f"{parent}/.{name}.partial", packed=True)
        owner = work / _OWNER
        content = json.dumps({"id": uuid4().hex, "who": this_process()}).encode()
        owner._create(content, self)
        claim = UrlClaim(self, work, content)
        try:
            yield claim
        finally:
            with suppress(OSError):
                if owner.read() == content:
                    if not (work / keep).stands():  # There is nothing to resume.
                        work._empty({_OWNER})
                    owner.remove()

    def _upload(self, local: Path) -> None:
        """Write the files of a folder here.

        Raises:
            OSError: no permission, or the store cannot be reached.
        """
        if self.packed:
            self.write(pack(local))
            return
        files = sorted(path for path in local.rglob("*") if path.is_file())
        names = [path.relative_to(local).as_posix() for path in files]
        with self._reaching("write"):
            self._fs.put(list(map(str, files)), [f"{self._path}/{name}" for name in names])

    def _names(self) -> list[str]:
        """Of what is in here."""
        with suppress(FileNotFoundError), self._reaching("list"):
            return [
                str(path).rstrip("/").rpartition("/")[2]
                for path in self._fs.ls(self._path, detail=False)
            ]
        return []

    def _empty(self, keep: set[str]) -> None:
        """Remove what is in here, but for these names."""
        for name in {*self._names()} - keep:
            (self / name).remove()

    def write(self, content: bytes) -> None:
        with self._reaching("write"):
            self._fs.pipe_file(self._path, content)

    def _replace(self, write: Write, kind: str, check: Callable[[], None] = lambda: None) -> None:
        """Write a folder, then the manifest that names it; remove what was there before.

        The manifest names what it replaces, too, for the next one to remove: this process may be
        killed before it has.
        """
        end = ".zip" if self.packed else ""
        before, folder = self.find(), self / f"{kind}-{uuid4().hex}{end}"
        replaced = "" if before is None else before.manifest.get("replaced", "")
        if _WRITTEN.fullmatch(str(replaced)):
            (self / replaced).remove()
        try:
            with TemporaryDirectory(prefix="manifold_shap-") as directory:
                local = Path(directory, folder.name)
                manifest = {**write(local), "folder": folder.name}
                if before is not None and before.place != self:
                    manifest["replaced"] = before.place.name
                folder._upload(local)
            check()
        except BaseException:
            folder.remove()
            raise
        (self / MANIFEST).write(json.dumps(manifest).encode())
        if before is not None and before.place != self:
            before.place.remove()
        elif before is not None:  # A folder that was copied here.
            self._empty({folder.name, MANIFEST})

    def _create(self, content: bytes, place: "UrlPlace") -> None:
        """Write an object where there is none, to claim a place.

        Raises:
            FileExistsError: it is there.
            OSError: no permission, or the store cannot be reached.
        """
        how = {"mode": "create"} if self.protocol in _CREATE else {}
        known = None if how else self.read()
        try:
            if known is None:
                with self._reaching("write"):
                    self._fs.pipe_file(self._path, content, **how)
        except OSError:
            # Some stores answer a lost race, or a request that was sent twice, by other errors.
            known = self.read()
            if known is None:
                raise
        if known is not None and known != content:
            raise self._refusal(known, place)
        if how and known is None:
            # A store that does not know the condition writes once more.
            with suppress(OSError), self._reaching("write"):
                self._fs.pipe_file(self._path, content, **how)
                how = {}
        if not how:
            warn(
                f"{self.protocol}:// cannot keep a second call from writing to {place}: this is "
                "the only one as long as you start no other on the same URL."
            )

    def _refusal(self, known: bytes, place: "UrlPlace") -> FileExistsError:
        try:
            who = str(json.loads(known)["who"])
        except (ValueError, KeyError, TypeError):
            who = "another one"
        return FileExistsError(
            f"Expected to be the only call that explains into {place} but {who}, has claimed it; "
            "let that one finish, stop it, or choose another path. If it was killed, its claim "
            f"has to be removed by hand: `fsspec.filesystem({self.protocol!r}).rm({self.url!r})`."
        )

    @contextmanager
    def _reaching(self, verb: str) -> Iterator[None]:
        """Raise errors of the store as those of files, with the URL.

        Raises:
            OSError: no permission, no such bucket, or the store cannot be reached.
        """
        self._fs.invalidate_cache()  # Others write, too.
        try:
            yield
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, f"Could not {verb} {self} ({error}).") from error
        except FileExistsError as error:
            raise FileExistsError(errno.EEXIST, f"Could not {verb} {self} ({error}).") from error
        except PermissionError as error:
            raise PermissionError(
                errno.EACCES,
                f"Could not {verb} {self} ({error}): no permission; fsspec takes credentials from "
                "the environment or from its own configuration.",
            ) from error
        except Exception as error:  # Each store has errors of its own.
            raise OSError(
                errno.EIO,
                f"Could not {verb} {self} ({type(error).__name__}: {error}); see whether the store "
                "can be reached and whether its address and credentials, which fsspec takes from "
                "the environment or from its own configuration, are right.",
            ) from error


@dataclass(frozen=True)
class UrlClaim(Claim):
    """An object in the folder of the work, which was not there before.

    Attributes:
        content: of the object.
    """

    place: UrlPlace
    work: UrlPlace
    content: bytes

    def publish(self, write: Write) -> None:
        self.place._replace(write, "rows", self._check)
        found = self.place.find()
        for name in self.place._names():  # Of calls that were killed as they ended.
            if name.startswith("rows-") and found is not None and found.place.name != name:
                (self.place / name).remove()

    def clear(self) -> None:
        self.work._empty({_OWNER, TASK})

    def _check(self) -> None:
        """Raise FileExistsError if someone else has claimed the place by now."""
        if (self.work / _OWNER).read() != self.content:
            raise FileExistsError(
                f"Expected to be the only call that explains into {self.place} but its claim was "
                "removed while it ran, and another call may be at it; nothing was replaced."
            )
