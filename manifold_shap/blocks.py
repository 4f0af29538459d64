"""Rows cut into blocks, and the work on them: what is done stays done.

A block is always explained by the same call, with a seed that is a function of the caller's seed
and the number of the block; its chunks of the store are written by nobody else. So the result
depends neither on how many processes share the work nor on interruptions.
"""

import hashlib
import inspect
import json
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import torch
from torch import Tensor

from manifold_shap import noise, storage
from manifold_shap.checkpoints import write_whole
from manifold_shap.coalitions import Players
from manifold_shap.explanation import Explanation
from manifold_shap.rows import check_rows, to_tensor
from manifold_shap.schema import Schema

# Beyond what another number of threads moves a value by.
_SAME = 1e-3


@dataclass(frozen=True)
class Rows:
    """Rows to explain, in blocks.

    Attributes:
        x: rows `[instances, *event]`, in memory or not.
        block: rows per block; the last may have fewer.
        instances: labels; None for 0, 1, ...
        schema: columns of the table that they come from.
    """

    x: Any
    block: int
    instances: Sequence[int] | None
    schema: Schema | None

    def __post_init__(self) -> None:
        check_block(self.block)
        if not hasattr(self.x, "shape"):
            to_tensor(self.x)  # Says what was expected.
        if len(self.x.shape) == 0:
            raise ValueError(
                f"Expected `x` of shape (rows, *event) but got a single number, {self.x!r}; pass "
                "rows of the shape that `players` own."
            )
        if len(self) == 0:
            raise ValueError("Expected at least one row in `x` but got none.")
        if self.instances is not None and len(self.instances) != len(self):
            raise ValueError(
                f"Expected `instances` to be {len(self)} labels, one per row, but got "
                f"{len(self.instances)}."
            )

    def __len__(self) -> int:
        return int(self.x.shape[0])

    @property
    def blocks(self) -> int:
        """How many there are."""
        return -(-len(self) // self.block)

    @property
    def labels(self) -> Sequence[int]:
        """Of all rows."""
        return range(len(self)) if self.instances is None else self.instances

    def where(self, number: int) -> slice:
        """The rows of a block."""
        return slice(number * self.block, min((number + 1) * self.block, len(self)))

    def count(self, numbers: Iterable[int]) -> int:
        """How many rows these blocks have."""
        parts = map(self.where, numbers)
        return sum(part.stop - part.start for part in parts)

    def fingerprint(self, players: Players) -> str:
        """A checksum of rows, labels and columns, after a check of every row.

        Raises:
            TypeError, ValueError: rows that cannot be explained.
        """
        columns = json.dumps(self.schema.to_dict()) if self.schema else ""
        digest = hashlib.sha256(columns.encode())
        digest.update(np.asarray(self.labels, dtype=np.int64).tobytes())
        for number in range(self.blocks):
            part = self.where(number)
            rows = check_rows(self.x[part], players, f"x[{part.start}:{part.stop}]")
            digest.update(rows.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Work:
    """What is to be done, and what of it is done already: files beside the store to come.

    `first.zarr` is the explanation of the first row alone, by which a call to resume is recognised;
    `rows.json` says which rows, and whose work it is; `store.zarr` is the store, in full size; and
    `done/<number>.json` says that all of a block is written, how its explanation was made, and the
    checksum of what was written.

    Attributes:
        target: the store to come.
        rows: to explain.
        value: the value function.
        estimator: from value function and rows to an explanation.
        seed: of all blocks.
        token: of the call. The one that has begun last on a path owns the work there.
    """

    target: Path
    rows: Rows
    value: Callable[[Tensor, Tensor], Tensor]
    estimator: Callable[..., Explanation]
    seed: int
    token: str = field(default_factory=lambda: uuid4().hex)

    def __post_init__(self) -> None:
        check_seed(self.seed)

    @property
    def path(self) -> Path:
        """Where the work in progress lives."""
        return self.target.with_name(f".{self.target.name}.partial")

    @property
    def store(self) -> Path:
        """What is written so far. A call may have been interrupted when it was in its place."""
        store = self.path / "store.zarr"
        return store if store.exists() else self.target

    def begin(self, resume: bool) -> None:
        """Make the store, unless there is one to go on with.

        Raises:
            FileExistsError, OSError, TypeError, ValueError: see `explain_rows`.
        """
        storage.check_replaceable(self.target)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # The first block repeats them.
            first = self._explained(slice(0, 1), 0)
        rows = {
            "rows": len(self.rows),
            "block": self.rows.block,
            "seed": self.seed,
            "fingerprint": self.rows.fingerprint(first.players),
        }
        there = self._record()
        if resume and there is not None:
            self._check_same(there, rows, first)
            self._go_on(there)
            return
        if there:
            warnings.warn(
                f"Removed what an interrupted call had left in {self.path}: {self._left(there)} "
                "rows. With resume=True it would have been continued.",
                stacklevel=3,
            )
        elif resume and self.target.exists():
            warnings.warn(
                f"Nothing is left to resume beside the explanation in {self.target}: all rows are "
                "explained anew, and take its place at the end.",
                stacklevel=3,
            )
        with writing(self.path):
            self._make(first, rows)

    def done(self) -> set[int]:
        """Numbers of the finished blocks."""
        return {int(file.stem) for file in (self.path / "done").glob("[0-9]*.json")}

    def rows_done(self) -> int:
        """How many rows the finished blocks have."""
        return self.rows.count(self.done())

    def explain(self, number: int) -> None:
        """Explain a block, write its region, and only then call it done.

        Raises:
            FileExistsError: another call has begun on the same path.
        """
        part = self.rows.where(number)
        dataset = _with_covariance(self._explained(part, number)).to_xarray()
        with self._owned(), writing(self.path):
            checksum = storage.write_region(dataset, self.path / "store.zarr", part.start)
        mark = {"made_by": json.loads(dataset.attrs["made_by"]), "sha256": checksum}
        with self._owned(), writing(self.path):
            _write_json(self._mark(number), mark)

    def finish(self) -> None:
        """Put the store in its place, if it is not there already.

        Raises:
            FileExistsError: another call has begun on the same path.
            ValueError: some of the store is not what was written.
        """
        with self._owned():
            if not self._is_framed(self._record() or {}):
                raise self._damaged("the store")
            lost = self._forget_lost()
        if lost:
            raise ValueError(
                f"Expected the store in {self.path} to be what was written but {lost} rows of it "
                "are not, or cannot be read; resume=True explains these again."
            )
        made_by = _merged(self._marked(number)["made_by"] for number in range(self.rows.blocks))
        made_by |= {"block": self.rows.block, **({"seed": self.seed} if "seed" in made_by else {})}
        if self.store != self.target:
            with self._owned(), writing(self.path):
                storage.seal(self.store, made_by)
            with writing(self.path):
                storage.put(self.store, self.target)
        shutil.rmtree(self.path)

    def _make(self, first: Explanation, rows: Mapping[str, Any]) -> None:
        """A store without rows, in place of what an earlier call has left."""
        # The first to go, so that a call that still writes notices; and the last to come, for
        # without it there is nothing to resume.
        (self.path / "rows.json").unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)
        (self.path / "done").mkdir(parents=True)
        first.save(self.path / "first.zarr")
        store = self.path / "store.zarr"
        storage.reserve(first.to_xarray(), store, self.rows.labels, self.rows.block)
        own = {"frame": storage.frame_checksum(store), "token": self.token}
        _write_json(self.path / "rows.json", {**rows, **own})

    def _go_on(self, there: Mapping[str, Any]) -> None:
        """Make an interrupted call's work that of this one, without the blocks that were lost."""
        if not self._is_framed(there):
            raise self._damaged("the store")
        with writing(self.path):
            _write_json(self.path / "rows.json", {**there, "token": self.token})
        if self.store == self.target and not all(map(self._is_kept, range(self.rows.blocks))):
            raise self._damaged("the store")
        lost = self._forget_lost()
        if lost:
            warnings.warn(
                f"{lost} rows that an interrupted call had left in {self.path} are not what was "
                "written, or cannot be read; they are explained again.",
                stacklevel=4,
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

    def _record(self) -> dict[str, Any] | None:
        """What `rows.json` holds; nothing if it is damaged, None if there is none."""
        try:
            return json.loads((self.path / "rows.json").read_text())
        except FileNotFoundError:
            return None
        except ValueError:
            return {}

    @contextmanager
    def _owned(self) -> Iterator[None]:
        """Before and after, raise FileExistsError if another call owns the work by now."""
        self._check_owned()
        try:
            yield
        finally:  # What failed may have done so because the other one has removed it.
            self._check_owned()

    def _check_owned(self) -> None:
        if (self._record() or {}).get("token") != self.token:
            raise FileExistsError(
                f"Expected to be the only call that explains into {self.target} but another one "
                f"has begun since, and owns what is in {self.path}; this one has stopped. Let the "
                "other one finish, or choose another path."
            )

    def _damaged(self, what: str) -> ValueError:
        return ValueError(
            f"Expected work in progress that can be gone on with in {self.path} but {what} there "
            "is lost or damaged; begin anew with resume=False."
        )

    def _explained(self, part: slice, number: int) -> Explanation:
        estimator = with_seed(self.estimator, block_seed(self.seed, number))
        explanation = estimator(self.value, self.rows.x[part])
        return explanation.with_labels(self.rows.labels[part], self.rows.schema)

    def _left(self, there: Mapping[str, Any]) -> int:
        """How many rows an interrupted call, perhaps one with other blocks, had done."""
        block = there["block"]
        return sum(min(block, there["rows"] - number * block) for number in self.done())

    def _check_same(
        self, there: Mapping[str, Any], rows: Mapping[str, Any], first: Explanation
    ) -> None:
        """Raise ValueError if it was another call that was interrupted, or is not to be known."""
        if not there:
            raise self._damaged("rows.json")
        changed = [name for name in rows if rows[name] != there.get(name)]
        if "fingerprint" in changed:
            changed[changed.index("fingerprint")] = "the rows, their labels or their schema"
        try:
            changed += _differences(Explanation.load(self.path / "first.zarr"), first)
        except (FileNotFoundError, ValueError) as error:
            raise self._damaged("first.zarr") from error
        if changed:
            raise ValueError(
                "Expected the rows and settings of the interrupted call, which has left "
                f"{self._left(there)} rows in {self.path}, but these differ: {', '.join(changed)}. "
                "Give the same ones again, or begin anew with resume=False."
            )


def check_block(block: Any) -> None:
    """Raise ValueError if it is no number of rows."""
    if not isinstance(block, int) or isinstance(block, bool) or block < 1:
        raise ValueError(
            f"Expected `block` to be an integer of at least 1 but got {block!r}; 1024 rows suit "
            "most tables."
        )


def check_seed(seed: Any) -> None:
    """Raise ValueError if it is no integer of 64 bits."""
    whole = isinstance(seed, int) and not isinstance(seed, bool)
    if not whole or not -(2**63) <= seed < 2**63:
        raise ValueError(
            f"Expected `seed` to be an integer from -2**63 to 2**63 - 1 but got {seed!r}; 0 is as "
            "good as any other."
        )


def with_seed(estimator: Callable[..., Explanation], seed: int) -> Callable[..., Explanation]:
    """The estimator with this seed, if it takes one."""
    known = inspect.signature(estimator).parameters.values()
    takes = any(each.name == "seed" or each.kind is each.VAR_KEYWORD for each in known)
    return partial(estimator, seed=seed) if takes else estimator


def block_seed(seed: int, number: int) -> int:
    """The seed of a block."""
    folded = int(noise.fold(torch.tensor(seed), number))
    return folded & (2**63 - 1)


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


def _with_covariance(explanation: Explanation) -> Explanation:
    """With one where others may have it: an estimator may take all orders in some blocks only."""
    if explanation.covariance is not None or explanation.partition is None:
        return explanation
    error = explanation.standard_error
    covariance = torch.where(error == 0, 0.0, torch.nan)[..., None].repeat(1, 1, 1, error.shape[-1])
    return replace(explanation, covariance=covariance)


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_whole(path, lambda beside: beside.write_text(json.dumps(content)))


def _merged(records: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """How the whole was made: evaluations add up, and of other numbers the largest counts."""
    whole: dict[str, Any] = {}
    for record in records:
        for name, entry in record.items():
            known = whole.setdefault(name, entry if name != "evaluations" else 0)
            if name == "evaluations":
                whole[name] = known + entry
            elif isinstance(entry, (int, float)) and isinstance(known, (int, float)):
                whole[name] = max(known, entry)
    return whole


def _differences(there: Explanation, here: Explanation) -> list[str]:
    """Names of what two explanations of the same row do not agree on."""
    made, makes = dict(there.made_by), json.loads(json.dumps(here.made_by))
    names = [name for name in dict.fromkeys([*made, *makes]) if name != "evaluations"]
    changed = [name for name in names if made.get(name) != makes.get(name)]
    same = there.players.names == here.players.names and there.outputs == here.outputs
    if not same or there.space != here.space:
        return [*changed, "players, outputs or output space"]
    values = (
        ("values", there.phi, here.phi),
        ("base", there.base, here.base),
        ("prediction", there.prediction, here.prediction),
    )
    return changed + [name for name, old, new in values if not _close(old, new)]


def _close(old: Tensor, new: Tensor) -> bool:
    scale = float(old.abs().max())
    return torch.allclose(old, new, rtol=_SAME, atol=_SAME * scale)
