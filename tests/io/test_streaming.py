"""Rows explained in blocks: the same bytes, however the work is shared or interrupted."""

import errno
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

import manifold_shap as ms
from manifold_shap.io import ledger, streaming
from manifold_shap.io import zarr as storage
from manifold_shap.io.blocks import block_seed, check_block, check_seed, with_seed
from manifold_shap.io.streaming import RowsBar, explain_rows
from manifold_shap.tables.schema import Schema

ROWS = torch.randn(22, 4, generator=torch.Generator().manual_seed(1))
FEW = partial(ms.permutation_shapley, permutations=4)


def contents(store: Path) -> dict[str, bytes]:
    """Every file of a store, by its name in it."""
    files = [path for path in sorted(store.rglob("*")) if path.is_file()]
    return {str(path.relative_to(store)): path.read_bytes() for path in files}


class Stops:
    """An estimator that is interrupted after some calls."""

    def __init__(self, calls: int, error: BaseException | None = None) -> None:
        self.left = calls
        self.error = error or KeyboardInterrupt()

    def __call__(self, value: Any, x: Tensor, seed: int = 0) -> ms.Explanation:
        if self.left == 0:
            raise self.error
        self.left -= 1
        return FEW(value, x, seed=seed)


@pytest.mark.parametrize("space", ["probability", "ilr"])
def test_blocks_are_what_the_estimator_gives_for_them(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction], space: str
) -> None:
    value, path = make_value("marginal", space), tmp_path / "deep" / "rows.zarr"
    labels = [100 - k for k in range(len(ROWS))]
    assert explain_rows(path, value, ROWS, FEW, block=8, seed=3, instances=labels) == len(ROWS)
    whole = ms.Explanation.load(path)
    assert torch.equal(whole.x, ROWS)
    assert whole.instances == tuple(labels)
    assert whole.partition == (ms.Partition.sequential(value.classes) if space == "ilr" else None)
    for number in range(3):
        part = slice(8 * number, 8 * number + 8)
        alone = FEW(value, ROWS[part], seed=block_seed(3, number))
        got = whole[part]
        for name in ("phi", "standard_error", "prediction", "base", "covariance"):
            expected = getattr(alone, name)
            assert (got.covariance is None) == (alone.covariance is None)
            assert expected is None or torch.equal(getattr(got, name), expected)
    assert list(path.parent.iterdir()) == [path]


def test_one_block_is_what_the_estimator_alone_saves(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction]
) -> None:
    explain_rows(tmp_path / "a.zarr", make_value(), ROWS, ms.exact_shapley, block=64)
    ms.exact_shapley(make_value(), ROWS).save(tmp_path / "b.zarr")
    streamed, saved = (ms.Explanation.load(tmp_path / f"{name}.zarr") for name in "ab")
    assert {**saved.made_by, "block": 64} == streamed.made_by
    digests = [storage.load(tmp_path / f"{name}.zarr").attrs["sha256"] for name in "ab"]
    assert digests[0] == digests[1]


@pytest.mark.parametrize("exact_first", [True, False])
def test_blocks_may_be_exact_or_sampled(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction], exact_first: bool
) -> None:
    def estimator(value: Any, x: Tensor) -> ms.Explanation:
        is_first = torch.equal(x[0], ROWS[0])
        return ms.exact_shapley(value, x) if is_first == exact_first else FEW(value, x)

    explain_rows(tmp_path / "rows.zarr", make_value("surrogate", "ilr"), ROWS, estimator, block=11)
    loaded = ms.Explanation.load(tmp_path / "rows.zarr")
    exact, sampled = (loaded[:11], loaded[11:]) if exact_first else (loaded[11:], loaded[:11])
    assert bool((exact.norm_errors() == 0).all())
    assert bool((sampled.standard_error > 0).any())
    assert (sampled.covariance is None) == exact_first


def test_how_it_was_made_is_said_of_the_whole(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction]
) -> None:
    path, value = tmp_path / "rows.zarr", make_value()
    explain_rows(path, value, ROWS, FEW, block=8, seed=5)
    made_by = ms.Explanation.load(path).made_by
    assert made_by["evaluations"] == len(ROWS) * 4 * 3
    assert (made_by["permutations"], made_by["seed"], made_by["block"]) == (4, 5, 8)


def test_columns_of_a_table_are_kept(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction]
) -> None:
    import pandas as pd

    schema = Schema.fit(pd.DataFrame(ROWS.numpy(), columns=list("abcd")))
    explain_rows(tmp_path / "rows.zarr", make_value(), ROWS, FEW, block=8, schema=schema)
    loaded = ms.Explanation.load(tmp_path / "rows.zarr")
    assert loaded.schema is not None
    assert list(loaded.features().columns) == list("abcd")


# The fixture is a function without state.
@settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(calls=st.integers(1, 2), block=st.sampled_from([5, 8, 11]))
def test_interruptions_change_no_byte(
    calls: int,
    block: int,
    tmp_path_factory: pytest.TempPathFactory,
    make_value: Callable[..., ms.ValueFunction],
) -> None:
    place, value = tmp_path_factory.mktemp("stream"), make_value("marginal", "ilr")
    explain_rows(place / "whole.zarr", value, ROWS, Stops(-1), block=block)
    path = place / "again.zarr"
    with pytest.raises(KeyboardInterrupt, match=r"of 22 rows are kept .* resume=True"):
        explain_rows(path, value, ROWS, Stops(calls), block=block)
    done = min(len(ROWS), (calls - 1) * block)  # The first call was for the first row alone.
    left = explain_rows(path, value, ROWS, Stops(-1), block=block, resume=True)
    assert left == len(ROWS) - done
    assert contents(path) == contents(place / "whole.zarr")


def test_a_torn_write_is_written_again(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction]
) -> None:
    value, path = make_value(), tmp_path / "rows.zarr"
    explain_rows(tmp_path / "whole.zarr", value, ROWS, Stops(-1), block=8)
    with pytest.raises(KeyboardInterrupt):
        explain_rows(path, value, ROWS, Stops(3), block=8)
    partial_store = tmp_path / ".rows.zarr.partial"
    (partial_store / "done" / "000001.json").unlink()
    (partial_store / "store.zarr" / "phi" / "1.0.0").write_bytes(b"torn")
    (partial_store / "store.zarr" / "phi" / "2.0.0").write_bytes(b"torn")
    assert explain_rows(path, value, ROWS, Stops(-1), block=8, resume=True) == 14
    assert contents(path) == contents(tmp_path / "whole.zarr")


def test_all_done_but_for_the_end(
    tmp_path: Path,
    make_value: Callable[..., ms.ValueFunction],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    value, path = make_value(), tmp_path / "rows.zarr"
    with monkeypatch.context() as patched:
        patched.setattr(storage, "seal", Stops(0))
        with pytest.raises(KeyboardInterrupt, match="22 of 22 rows"):
            explain_rows(path, value, ROWS, FEW, block=8)
    assert not path.exists()
    assert explain_rows(path, value, ROWS, FEW, block=8, resume=True) == 0
    explain_rows(tmp_path / "whole.zarr", value, ROWS, FEW, block=8)
    assert contents(path) == contents(tmp_path / "whole.zarr")


@pytest.fixture
def interrupted(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction]
) -> tuple[Path, dict[str, Any]]:
    """What a call has left that stopped after three of its five blocks, and its arguments."""
    call: dict[str, Any] = {"value": make_value(), "x": ROWS, "block": 5}
    explain_rows(tmp_path / "whole.zarr", estimator=Stops(-1), **call)
    with pytest.raises(KeyboardInterrupt, match="15 of 22 rows"):
        explain_rows(tmp_path / "rows.zarr", estimator=Stops(4), **call)
    return tmp_path / ".rows.zarr.partial", {**call, "estimator": Stops(-1), "resume": True}


@pytest.mark.parametrize("content", [None, b"", b"torn"])
@pytest.mark.parametrize("lost", ["store.zarr/phi/1.0.0", "store.zarr/x/1.0", "done/000001.json"])
def test_a_finished_block_that_was_lost_is_explained_again(
    interrupted: tuple[Path, dict[str, Any]], lost: str, content: bytes | None
) -> None:
    (left, call), file = interrupted, interrupted[0] / lost
    path = left.with_name("rows.zarr")
    if content is not None:
        file.write_bytes(content)
    else:
        file.unlink()
    if lost.startswith("done") and content is None:
        assert explain_rows(path, **call) == 7 + 5
    else:
        with pytest.warns(UserWarning, match=r"^5 rows that .* explained again"):
            assert explain_rows(path, **call) == 7 + 5
    assert contents(path) == contents(left.with_name("whole.zarr"))


@pytest.mark.parametrize(
    ("lost", "named"),
    [
        ("rows.json", "rows.json"),
        ("first.zarr/phi/0.0.0", "first.zarr"),
        ("store.zarr/base/0", "the store"),
        ("store.zarr/instances/0", "the store"),
        ("store.zarr/phi/.zarray", "the store"),
        ("store.zarr/phi/.zattrs", "the store"),
        ("store.zarr/.zattrs", "the store"),
    ],
)
def test_work_that_cannot_be_gone_on_with_is_refused(
    interrupted: tuple[Path, dict[str, Any]], lost: str, named: str
) -> None:
    left, call = interrupted
    (left / lost).write_bytes(b"")
    with pytest.raises(ValueError, match=rf"gone on with in .* {named} .*damaged.*resume=False"):
        explain_rows(left.with_name("rows.zarr"), **call)


def test_what_is_lost_in_mid_work_is_not_sealed(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction]
) -> None:
    def estimator(value: Any, x: Tensor, seed: int = 0) -> ms.Explanation:
        if len(x) == 6:
            (tmp_path / ".rows.zarr.partial" / "store.zarr" / "phi" / "0.0.0").unlink()
        return FEW(value, x, seed=seed)

    path, value = tmp_path / "rows.zarr", make_value()
    with pytest.raises(ValueError, match=r"but 8 rows .*resume=True explains these again"):
        explain_rows(path, value, ROWS, estimator, block=8)
    assert not path.exists()
    assert explain_rows(path, value, ROWS, FEW, block=8, resume=True) == 8
    explain_rows(tmp_path / "whole.zarr", value, ROWS, FEW, block=8)
    assert contents(path) == contents(tmp_path / "whole.zarr")


@pytest.mark.parametrize("resume", [False, True])
def test_of_two_calls_on_one_path_the_later_one_is_refused(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction], resume: bool
) -> None:
    pytest.importorskip("fcntl")
    path, value, calls = tmp_path / "rows.zarr", make_value(), list[int]()

    def disturbed(value: Any, x: Tensor, seed: int = 0) -> ms.Explanation:
        calls.append(len(x))
        with pytest.raises(FileExistsError, match=r"only call .* another one is still at it, in"):
            explain_rows(path, value, ROWS, FEW, block=8, resume=resume)
        return FEW(value, x, seed=seed)

    assert explain_rows(path, value, ROWS, disturbed, block=8) == len(ROWS)
    assert calls == [1, 8, 8, 6]
    assert list(tmp_path.iterdir()) == [path]
    explain_rows(tmp_path / "whole.zarr", value, ROWS, FEW, block=8)
    assert contents(path) == contents(tmp_path / "whole.zarr")


AT_IT = """
    import time

    import torch

    import manifold_shap as ms
    from manifold_shap.io.streaming import explain_rows

    def game(x, mask):
        return (x[:, None] * mask).cumsum(-1).tanh()

    def slow(value, x, seed=0):
        if len(x) == 6:
            print("at it", flush=True)
            time.sleep(100)
        return ms.permutation_shapley(value, x, permutations=4, seed=seed)

    rows = torch.randn(22, 4, generator=torch.Generator().manual_seed(1))
    explain_rows("rows.zarr", game, rows, slow, block=8)
"""


def test_a_call_that_was_killed_is_in_nobodys_way(tmp_path: Path) -> None:
    def game(x: Tensor, mask: Tensor) -> Tensor:
        return (x[:, None] * mask).cumsum(-1).tanh()

    pytest.importorskip("fcntl")
    path, command = tmp_path / "rows.zarr", [sys.executable, "-c", textwrap.dedent(AT_IT)]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == b"at it\n"
            with pytest.raises(FileExistsError, match="another one is still at it"):
                explain_rows(path, game, ROWS, FEW, block=8)
        finally:
            other.kill()
    assert (tmp_path / ".rows.zarr.partial" / "lock").exists()
    assert explain_rows(path, game, ROWS, FEW, block=8, resume=True) == 6
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_that_another_call_removes_as_it_ends_is_made_again(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fcntl")
    path, removed, locked = tmp_path / "rows.zarr", list[Path](), ledger.locked

    def late(lock: Path) -> AbstractContextManager[None]:
        if not removed:
            removed.append(lock.parent)
            lock.parent.rmdir()
        return locked(lock)

    monkeypatch.setattr(ledger, "locked", late)
    assert explain_rows(path, make_value(), ROWS, FEW, block=8) == len(ROWS)
    assert removed == [tmp_path / ".rows.zarr.partial"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_in_the_way_of_the_work_is_told(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction]
) -> None:
    (tmp_path / ".rows.zarr.partial").write_text("mine")
    with pytest.raises(FileExistsError, match=r"partial to be a directory.* is a file; remove it"):
        explain_rows(tmp_path / "rows.zarr", make_value(), ROWS, FEW)
    assert (tmp_path / ".rows.zarr.partial").read_text() == "mine"


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that knows none."""

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(pytest.importorskip("fcntl"), "flock", refuse)


@pytest.mark.usefixtures("no_locks")
@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.filterwarnings("ignore:Removed what an interrupted call")
def test_of_two_calls_on_one_path_without_locks_the_earlier_one_stops(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction], resume: bool
) -> None:
    path, value, calls = tmp_path / "rows.zarr", make_value(), list[int]()

    def disturbed(value: Any, x: Tensor, seed: int = 0) -> ms.Explanation:
        calls.append(len(x))
        if len(calls) == 3:
            with pytest.raises(KeyboardInterrupt):
                explain_rows(path, value, ROWS, Stops(2), block=8, resume=resume)
        return FEW(value, x, seed=seed)

    with pytest.raises(FileExistsError, match=r"only call .* another one has begun .* has stopped"):
        explain_rows(path, value, ROWS, disturbed, block=8)
    assert calls == [1, 8, 8]
    assert not path.exists()
    left = explain_rows(path, value, ROWS, Stops(-1), block=8, resume=True)
    assert left == (6 if resume else 14)
    explain_rows(tmp_path / "whole.zarr", value, ROWS, FEW, block=8)
    assert contents(path) == contents(tmp_path / "whole.zarr")


@pytest.mark.usefixtures("no_locks")
def test_a_call_whose_work_was_finished_by_another_one_stops(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction]
) -> None:
    path, calls = tmp_path / "rows.zarr", list[int]()

    def disturbed(value: Any, x: Tensor, seed: int = 0) -> ms.Explanation:
        calls.append(len(x))
        if len(calls) == 3:
            explain_rows(path, value, ROWS, FEW, block=8, resume=True)
        return FEW(value, x, seed=seed)

    with pytest.raises(FileExistsError, match="only call"):
        explain_rows(path, make_value(), ROWS, disturbed, block=8)
    assert list(tmp_path.iterdir()) == [path]
    assert len(ms.Explanation.load(path).phi) == len(ROWS)


@pytest.fixture
def put_only(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction], monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, dict[str, Any]]:
    """A store that was put in its place by a call that could not tidy up, and its arguments."""
    path = tmp_path / "rows.zarr"
    call: dict[str, Any] = {"value": make_value(), "x": ROWS, "block": 8}

    def put(store: Path, target: Path) -> None:
        store.rename(target)
        if target == path:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(storage, "put", put)
        with pytest.raises(KeyboardInterrupt, match="22 of 22 rows"):
            explain_rows(path, estimator=FEW, **call)
    return path, {**call, "estimator": FEW, "resume": True}


def test_all_done_but_for_tidying_up(put_only: tuple[Path, dict[str, Any]]) -> None:
    path, call = put_only
    before = contents(path)
    assert explain_rows(path, **call) == 0
    assert contents(path) == before
    assert list(path.parent.iterdir()) == [path]
    assert len(ms.Explanation.load(path).phi) == len(ROWS)


@pytest.mark.parametrize("lost", ["phi/1.0.0", "phi/.zarray", ".zgroup"])
def test_a_store_that_was_damaged_after_all_is_not_finished(
    put_only: tuple[Path, dict[str, Any]], lost: str
) -> None:
    path, call = put_only
    if lost == ".zgroup":
        shutil.rmtree(path)
    else:
        (path / lost).unlink()
    with pytest.raises(ValueError, match=r"the store there is lost or damaged.*resume=False"):
        explain_rows(path, **call)


def test_a_finished_store_is_explained_anew_and_that_is_said(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction]
) -> None:
    path, value = tmp_path / "rows.zarr", make_value()
    assert explain_rows(path, value, ROWS, FEW, block=8, resume=True) == len(ROWS)
    before = contents(path)
    with pytest.warns(UserWarning, match=r"Nothing is left to resume .* explained anew"):
        assert explain_rows(path, value, ROWS, FEW, block=8, resume=True) == len(ROWS)
    assert contents(path) == before


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_errors_of_the_estimator_are_not_those_of_a_disk(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction], calls: int
) -> None:
    error = OSError(5, "the licence server is down")
    with pytest.raises(OSError, match="licence") as raised:
        explain_rows(tmp_path / "rows.zarr", make_value(), ROWS, Stops(calls, error), block=8)
    assert raised.value is error


def test_errors_of_reading_rows_are_not_those_of_writing(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction]
) -> None:
    class Unplugged:
        shape = (22, 4)

        def __getitem__(self, part: slice) -> Tensor:
            raise OSError(5, "no such drive")

    with pytest.raises(OSError, match=r"^\[Errno 5\] no such drive$"):
        explain_rows(tmp_path / "rows.zarr", make_value(), Unplugged(), FEW)
    assert not list(tmp_path.iterdir())


SCRIPT = """
    import sys
    from functools import partial

    import torch

    import manifold_shap as ms
    from manifold_shap.io.streaming import explain_rows

    def game(x, mask):
        return (x[:, None] * mask).cumsum(-1).tanh()

    rows = torch.randn(22, 4, generator=torch.Generator().manual_seed(0))
    few = partial(ms.permutation_shapley, permutations=4)
    two = {"devices": 2, "strategy": "ddp_fork"}
    for name, trainer in (("one.zarr", None), ("two.zarr", two)):
        print(explain_rows(name, game, rows, few, block=4, trainer=trainer))
"""


def test_two_processes_write_what_one_does(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["22", "22"]
    assert {path.name for path in tmp_path.iterdir()} == {"one.zarr", "two.zarr"}
    assert len(contents(tmp_path / "one.zarr")) > 20
    assert contents(tmp_path / "two.zarr") == contents(tmp_path / "one.zarr")


def test_rows_may_be_in_a_file(tmp_path: Path, make_value: Callable[..., ms.ValueFunction]) -> None:
    np.save(tmp_path / "rows.npy", ROWS.numpy())
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    for name, rows in (("mapped", mapped), ("tensor", ROWS)):
        explain_rows(tmp_path / f"{name}.zarr", make_value(), rows, FEW, block=8)
    assert contents(tmp_path / "mapped.zarr") == contents(tmp_path / "tensor.zarr")


def test_any_callable_can_be_explained(tmp_path: Path) -> None:
    def game(x: Tensor, mask: Tensor) -> Tensor:
        return (x[:, None] * mask).sum(-1, keepdim=True)

    explain_rows(tmp_path / "rows.zarr", game, ROWS, FEW, block=8)
    explanation = ms.Explanation.load(tmp_path / "rows.zarr")
    torch.testing.assert_close(explanation.phi[..., 0], ROWS)


def test_an_earlier_explanation_is_replaced_at_the_end_only(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction]
) -> None:
    path, value = tmp_path / "rows.zarr", make_value()
    explain_rows(path, value, ROWS[:3], FEW)
    with pytest.raises(KeyboardInterrupt):
        explain_rows(path, value, ROWS, Stops(2), block=8)
    assert len(ms.Explanation.load(path).phi) == 3
    explain_rows(path, value, ROWS, Stops(-1), block=8, resume=True)
    assert len(ms.Explanation.load(path).phi) == len(ROWS)


def test_beginning_anew_says_what_it_removes(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction]
) -> None:
    path, value = tmp_path / "rows.zarr", make_value()
    with pytest.raises(KeyboardInterrupt):
        explain_rows(path, value, ROWS, Stops(2), block=8)
    with pytest.warns(UserWarning, match=r"Removed .*\.rows\.zarr\.partial: 8 rows.* resume=True"):
        assert explain_rows(path, value, ROWS, FEW, block=8) == len(ROWS)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"x": -ROWS}, "the rows, their labels or their schema"),
        ({"instances": range(1, 23)}, "the rows, their labels or their schema"),
        ({"block": 7}, r"block\. Give"),
        ({"seed": 1}, "seed"),
        ({"estimator": partial(ms.permutation_shapley, permutations=6)}, "permutations"),
        ({"value": ("marginal", "probability")}, "value_function"),
        ({"value": ("surrogate", "ilr")}, "players, outputs or output space"),
    ],
)
def test_another_call_is_not_resumed(
    tmp_path: Path, make_value: Callable[..., Any], change: dict[str, Any], named: str
) -> None:
    path = tmp_path / "rows.zarr"
    call = {"value": make_value(), "x": ROWS, "estimator": FEW, "block": 8, "seed": 0}
    with pytest.raises(KeyboardInterrupt):
        explain_rows(path, **{**call, "estimator": Stops(2)})
    other = {**call, **change}
    if "value" in change:
        other["value"] = make_value(*change["value"])
    with pytest.raises(ValueError, match=rf"interrupted call, which has left 8 .*differ.*{named}"):
        explain_rows(path, **other, resume=True)
    assert explain_rows(path, **call, resume=True) == 14


def test_a_value_function_trained_anew_is_not_resumed(
    tmp_path: Path, make_value: Callable[..., Any]
) -> None:
    path, other = tmp_path / "rows.zarr", make_value()
    with torch.no_grad():
        next(other.surrogate.parameters()).mul_(1.5)
    with pytest.raises(KeyboardInterrupt):
        explain_rows(path, make_value(), ROWS, Stops(2), block=8)
    with pytest.raises(ValueError, match="differ: values"):
        explain_rows(path, other, ROWS, Stops(-1), block=8, resume=True)


def test_no_space_says_so_and_finished_rows_stay(
    tmp_path: Path,
    make_value: Callable[..., ms.ValueFunction],
    full_disk: Callable[[], AbstractContextManager[None]],
) -> None:
    path, value = tmp_path / "rows.zarr", make_value()
    rows = ROWS.repeat(60, 1)
    with pytest.raises(KeyboardInterrupt):
        explain_rows(path, value, rows, Stops(2), block=600)
    with full_disk(), pytest.raises(OSError, match=r"Could not write.*resume=True"):
        explain_rows(path, value, rows, Stops(-1), block=600, resume=True)
    assert explain_rows(path, value, rows, Stops(-1), block=600, resume=True) == 1320 - 600


def test_an_error_in_mid_work_keeps_what_is_done(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction]
) -> None:
    path, value = tmp_path / "rows.zarr", make_value()
    with pytest.raises(ValueError, match="no luck"):
        explain_rows(path, value, ROWS, Stops(3, ValueError("no luck")), block=8)
    assert explain_rows(path, value, ROWS, Stops(-1), block=8, resume=True) == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"block": 0}, r"`block` to be an integer of at least 1 but got 0"),
        ({"block": True}, r"`block` to be an integer of at least 1 but got True; 1024"),
        ({"seed": 2**63}, r"`seed` .* from -2\*\*63 to 2\*\*63 - 1 but got 9223372036854775808; 0"),
        ({"trainer": {"devices": 0}}, "`trainer` settings that Lightning"),
        ({"x": np.array(3.0)}, r"`x` of shape \(rows, \*event\) but got a single number.*; pass"),
        ({"x": torch.tensor(3.0)}, r"`x` of shape \(rows, \*event\) but got a single number"),
        ({"x": ROWS[:0]}, "at least one row in `x`"),
        ({"x": ROWS[:, :3]}, r"Expected `x` of shape \(rows, 4\)"),
        ({"instances": [1, 2]}, "22 labels, one per row, but got 2"),
        ({"trainer": {"accelerator": "tpu"}}, "`trainer` settings that Lightning"),
        ({"x": torch.cat((ROWS, ROWS[:1] / 0))}, r"`x\[16:23\]` are NaN .* row 6"),
    ],
)
def test_what_cannot_be_explained_is_refused_at_the_door(
    tmp_path: Path, make_value: Callable[..., Any], change: dict[str, Any], message: str
) -> None:
    call = {"value": make_value(), "x": ROWS, "estimator": FEW, "block": 8}
    with pytest.raises(ValueError, match=message):
        explain_rows(tmp_path / "rows.zarr", **{**call, **change})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("given", [None, "8", 8.0, True])
def test_what_is_no_integer_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match=rf"`block` to be an integer .* but got {given!r}; "):
        check_block(given)
    with pytest.raises(ValueError, match=rf"`seed` to be an integer .* but got {given!r}; "):
        check_seed(given)


def test_a_table_is_refused(tmp_path: Path, make_value: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r"Expected `x` to be a tensor .* got list"):
        explain_rows(tmp_path / "rows.zarr", make_value(), [[1.0, 2.0]], FEW)


def test_what_is_no_explanation_is_not_replaced(
    tmp_path: Path, make_value: Callable[..., Any]
) -> None:
    path = tmp_path / "thesis"
    path.mkdir()
    with pytest.raises(FileExistsError, match="something else stands there"):
        explain_rows(path, make_value(), ROWS, FEW)


def test_some_rows_of_a_store_can_be_read(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction]
) -> None:
    path = tmp_path / "rows.zarr"
    explain_rows(path, make_value("marginal", "ilr"), ROWS, FEW, block=8)
    part = ms.Explanation.from_xarray(storage.load_rows(path, 6, 13))
    whole = ms.Explanation.load(path)
    assert part.instances == tuple(range(6, 13))
    assert torch.equal(part.phi, whole.phi[6:13])


def test_a_lost_chunk_is_noticed(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction]
) -> None:
    path = tmp_path / "rows.zarr"
    explain_rows(path, make_value(), ROWS, FEW, block=8)
    (path / "phi" / "1.0.0").unlink()
    with pytest.raises(ValueError, match="not those that were saved"):
        ms.Explanation.load(path)


def test_seeds_are_those_of_estimators_that_take_one() -> None:
    assert len({block_seed(seed, number) for seed in range(20) for number in range(50)}) == 1000
    assert all(block_seed(seed, 0) >= 0 for seed in range(100))
    assert with_seed(ms.exact_shapley, 3) is ms.exact_shapley
    assert with_seed(FEW, 3).keywords["seed"] == 3


def test_the_bar_counts_the_rows_of_all_processes(
    tmp_path: Path,
    make_value: Callable[..., ms.ValueFunction],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[int, int]] = []

    class Watched(RowsBar):
        def _close(self) -> None:
            if self.bar is not None:
                seen.append((self.bar.n, self.bar.initial))
            super()._close()

    monkeypatch.setattr(streaming, "RowsBar", Watched)
    path, value = tmp_path / "rows.zarr", make_value()
    with pytest.raises(KeyboardInterrupt):
        explain_rows(path, value, ROWS, Stops(3), block=8, progress=True)
    explain_rows(path, value, ROWS, Stops(-1), block=8, progress=True, resume=True)
    assert seen == [(16, 0), (22, 16)]


def test_importing_the_package_stays_light() -> None:
    code = "import manifold_shap, sys; sys.exit('lightning' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
