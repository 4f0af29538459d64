"""What of the work on many rows is done, and whose it is: files beside the store to come.

All of them are in one directory, `.<name>.partial`: `first.zarr` is the explanation of the first
row alone, by which a call to resume is recognised; `rows.json` says which rows, and whose work it
is; `store.zarr` is the store, in full size; `done/<number>.json` says that all of a block is
written, how its explanation was made, and the checksum of what was written; and `lock` is held by
the call that is at it.
"""

import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from uuid import uuid4

from manifold_shap.explanation import Explanation
from manifold_shap.io import zarr as storage
from manifold_shap.io.blocks import Rows
from manifold_shap.io.files import write_whole

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Ledger:
    """The books of the work on one path.

    Attributes:
        target: the store to come.
        rows: to explain.
        token: of the call. The one that has begun last on a path owns the work there.
    """

    target: Path
    rows: Rows
    token: str = field(default_factory=lambda: uuid4().hex)

    @property
    def path(self) -> Path:
        """Where the work in progress lives."""
        return self.target.with_name(f".{self.target.name}.partial")

    @property
    def store(self) -> Path:
        """What is written so far. A call may have been interrupted when it was in its place."""
        store = self.path / "store.zarr"
        return store if store.exists() else self.target

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Keep other calls from the path, as long as this process lives.

        Where files cannot be locked, nothing is kept off, and a call learns from the token that
        another one has begun.

        Raises:
            FileExistsError: another call is at it, or something that is no directory is in the way.
            OSError: no space or no permission.
        """
        with ExitStack() as stack:
            with writing(self.path):
                stack.callback(_remove_empty, self.path)
                try:
                    self._enter_lock(stack)
                except BlockingIOError as error:
                    raise FileExistsError(
                        f"Expected to be the only call that explains into {self.target} but "
                        f"another one is still at it, in {self.path}; let that one finish, stop "
                        "it, or choose another path."
                    ) from error
            yield

    def _enter_lock(self, stack: ExitStack) -> None:
        """Make the directory and lock it, again if a call that ends removes it in between."""
        while True:
            self._make()
            with suppress(FileNotFoundError):
                return stack.enter_context(locked(self.path / "lock"))

    def _make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:  # Or it was there, and is removed by now.
            if os.path.lexists(self.path) and not self.path.is_dir():
                raise FileExistsError(
                    f"Expected {self.path} to be a directory, for the work in progress, but it is "
                    "a file; remove it, or choose another path."
                ) from error

    def record(self) -> dict[str, Any] | None:
        """What `rows.json` holds; nothing if it is damaged, None if there is none."""
        try:
            return json.loads((self.path / "rows.json").read_text())
        except FileNotFoundError:
            return None
        except ValueError:
            return {}

    def first(self) -> Explanation:
        """The explanation of the first row.

        Raises:
            ValueError: it is lost or damaged.
        """
        try:
            return Explanation.load(self.path / "first.zarr")
        except (FileNotFoundError, ValueError) as error:
            raise self.damaged("first.zarr") from error

    def open(self, first: Explanation, about: Mapping[str, Any]) -> None:
        """Begin a store without rows, in place of what an earlier call has left.

        Args:
            first: the explanation of the first row.
            about: what else tells this work from other work.
        """
        with writing(self.path):
            self._clear()
            (self.path / "done").mkdir()
            first.save(self.path / "first.zarr")
            store = self.path / "store.zarr"
            storage.reserve(first.to_xarray(), store, self.rows.labels, self.rows.block)
            # The last to come, for without it there is nothing to resume.
            self._own({**about, "frame": storage.frame_checksum(store)})

    def take_over(self, there: Mapping[str, Any]) -> int:
        """Make an interrupted call's work that of this one, without the blocks that were lost.

        Returns:
            How many rows these have.

        Raises:
            ValueError: the store is damaged beyond its blocks.
        """
        if not self._is_framed(there):
            raise self.damaged("the store")
        with writing(self.path):
            self._own(there)
        if self.store == self.target and not all(map(self._is_kept, range(self.rows.blocks))):
            raise self.damaged("the store")
        return self._forget_lost()

    def done(self) -> set[int]:
        """Numbers of the finished blocks."""
        return {int(file.stem) for file in (self.path / "done").glob("[0-9]*.json")}

    def rows_done(self) -> int:
        """How many rows the finished blocks have."""
        return self.rows.count(self.done())

    def rows_left_by(self, there: Mapping[str, Any]) -> int:
        """How many rows an interrupted call, perhaps one with other blocks, had done."""
        block = there["block"]
        return sum(min(block, there["rows"] - number * block) for number in self.done())

    def enter(self, number: int, dataset: "xr.Dataset") -> None:
        """Write the region of a block, and only then call it done.

        Raises:
            FileExistsError: another call has begun on the same path.
        """
        start = self.rows.where(number).start
        with self._owned(), writing(self.path):
            checksum = storage.write_region(dataset, self.path / "store.zarr", start)
        mark = {"made_by": json.loads(dataset.attrs["made_by"]), "sha256": checksum}
        with self._owned(), writing(self.path):
            _write_json(self._mark(number), mark)

    def check(self) -> None:
        """Call what is lost not done, and raise if there is any.

        Raises:
            FileExistsError: another call has begun on the same path.
            ValueError: some of the store is not what was written.
        """
        with self._owned():
            if not self._is_framed(self.record() or {}):
                raise self.damaged("the store")
            lost = self._forget_lost()
        if lost:
            raise ValueError(
                f"Expected the store in {self.path} to be what was written but {lost} rows of it "
                "are not, or cannot be read; resume=True explains these again."
            )

    def made_by(self) -> Iterator[dict[str, Any]]:
        """How the explanations of all blocks were made; all are done."""
        return (self._marked(number)["made_by"] for number in range(self.rows.blocks))

    def close(self, made_by: Mapping[str, Any]) -> None:
        """Put the store in its place, if it is not there already.

        Raises:
            FileExistsError: another call has begun on the same path.
        """
        if self.store != self.target:
            with self._owned(), writing(self.path):
                storage.seal(self.store, made_by)
            with writing(self.path):
                storage.put(self.store, self.target)
        self._clear()

    def damaged(self, what: str) -> ValueError:
        """An error about work that cannot be gone on with."""
        return ValueError(
            f"Expected work in progress that can be gone on with in {self.path} but {what} there "
            "is lost or damaged; begin anew with resume=False."
        )

    def _clear(self) -> None:
        """Remove everything but the lock."""
        # The first to go, so that a call that still writes notices.
        (self.path / "rows.json").unlink(missing_ok=True)
        for name in ("done", "first.zarr", "store.zarr"):
            shutil.rmtree(self.path / name, ignore_errors=True)

    def _own(self, record: Mapping[str, Any]) -> None:
        _write_json(self.path / "rows.json", {**record, "token": self.token})

    @contextmanager
    def _owned(self) -> Iterator[None]:
        """Before and after, raise FileExistsError if another call owns the work by now."""
        self._check_owned()
        try:
            yield
        finally:  # What failed may have done so because the other one has removed it.
            self._check_owned()

    def _check_owned(self) -> None:
        if (self.record() or {}).get("token") != self.token:
            raise FileExistsError(
                f"Expected to be the only call that explains into {self.target} but another one "
                f"has begun since, and owns what is in {self.path}; this one has stopped. Let the "
                "other one finish, or choose another path."
            )

    def _mark(self, number: int) -> Path:
        """The file that says that a block is done."""
        return self.path / "done" / f"{number:06d}.json"

    def _marked(self, number: int) -> dict[str, Any]:
        return json.loads(self._mark(number).read_text())

    def _is_framed(self, there: Mapping[str, Any]) -> bool:
        """Whether all of the store is there and readable but, perhaps, for some blocks."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # zarr's, of what is lost: the checksum tells.
                return storage.frame_checksum(self.store) == there["frame"]
        except storage.UNREADABLE:
            return False

    def _is_kept(self, number: int) -> bool:
        """Whether the store holds what was written of a block."""
        part = self.rows.where(number)
        try:
            checksum = storage.region_checksum(self.store, part.start, part.stop)
            return checksum == self._marked(number)["sha256"]
        except storage.UNREADABLE:
            return False

    def _forget_lost(self) -> int:
        """Call no block done that the store does not hold; how many rows these have."""
        lost = [number for number in self.done() if not self._is_kept(number)]
        for number in lost:
            self._mark(number).unlink()
        return self.rows.count(lost)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Errors of a disk that is full, or closed to us, as advice."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise type(error)(
            error.errno,
            f"Could not write the work in progress in {path} ({error.strerror or error}); free "
            "some space or choose another place. Finished rows stay: resume=True goes on from "
            "there.",
        ) from error


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_whole(path, lambda beside: beside.write_text(json.dumps(content)))


def _remove_empty(path: Path) -> None:
    with suppress(OSError):
        path.rmdir()


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
