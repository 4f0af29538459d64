"""Rows explained in blocks: the same bytes, however the work is shared, interrupted or resumed."""

import errno
import json
import multiprocessing
import pickle
import shutil
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from concurrent.futures import ThreadPoolExecutor as Threads
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import tqdm.auto
import zarr
from torch import Tensor
from torch.utils.data import TensorDataset

import manifold_shap as ms
from manifold_shap.io import files, joined, places, streaming, transfer
from manifold_shap.io import zarr as storage
from manifold_shap.io.streaming import explain_rows
from manifold_shap.tables.schema import Schema
from manifold_shap.values.wrapped import CallableValue

ROWS = torch.randn(22, 4, generator=torch.Generator().manual_seed(1))
FEW = partial(ms.permutation_shapley, permutations=4)


def game(x: Tensor, mask: Tensor) -> Tensor:
    return (x[:, None] * mask).cumsum(-1).tanh()


def run(path: Path, **changes: Any) -> int:
    """Three blocks of 8, 8 and 6 rows, unless something else is said."""
    call = {"value": game, "x": ROWS, "estimator": FEW, "block": 8}
    return explain_rows(path, **{**call, **changes})


def contents(store: Path) -> dict[str, bytes]:
    """Every file of a store, by its name in it."""
    files = [path for path in sorted(store.rglob("*")) if path.is_file()]
    return {str(path.relative_to(store)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What an uninterrupted call writes."""
    path = tmp_path_factory.mktemp("whole") / "rows.zarr"
    assert run(path) == len(ROWS)
    return contents(path)


class Stops:
    """An estimator that is interrupted after some calls; the first is for the first row alone."""

    def __init__(self, calls: int, error: BaseException | None = None) -> None:
        self.left = calls
        self.error = error or KeyboardInterrupt()

    def __call__(self, value: Any, x: Tensor, seed: int = 0) -> ms.Explanation:
        if self.left == 0:
            raise self.error
        self.left -= 1
        return FEW(value, x, seed=seed)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store comes, alone in its directory."""
    return tmp_path / "deep" / "rows.zarr"


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a call has left that stopped after two of its three blocks."""
    path = tmp_path_factory.mktemp("interrupted") / "rows.zarr"
    with pytest.raises(KeyboardInterrupt, match=r"^16 of 22 rows are kept in .* resume=True"):
        run(path, estimator=Stops(3))
    return path.with_name(".rows.zarr.partial")


@pytest.fixture
def left(path: Path, interrupted: Path) -> Path:
    """The same, beside `path`."""
    return Path(shutil.copytree(interrupted, path.with_name(".rows.zarr.partial")))


# What a store holds.


@pytest.mark.parametrize("space", ["probability", "ilr"])
def test_blocks_are_what_the_estimator_gives_for_them(
    path: Path, make_value: Callable[..., ms.ValueFunction], space: str
) -> None:
    value, labels = make_value("marginal", space), [100 - k for k in range(len(ROWS))]
    assert run(path, value=value, seed=3, instances=labels) == len(ROWS)
    assert list(path.parent.iterdir()) == [path]
    loaded = ms.Explanation.load(path)
    assert torch.equal(loaded.x, ROWS)
    assert loaded.instances == tuple(labels)
    task, seeds = streaming._Task(value, FEW, 3, None), set()
    for number, part in enumerate((slice(0, 8), slice(8, 16), slice(16, 22))):
        alone, got = task.explain(number, ROWS[part], labels[part]), loaded[part]
        seeds.add(alone.made_by["seed"])
        for name in ("phi", "standard_error", "prediction", "base", "covariance"):
            expected = getattr(alone, name)
            assert (expected is None) == (getattr(got, name) is None)
            assert expected is None or torch.equal(getattr(got, name), expected)
    assert len(seeds) == 3
    made_by = loaded.made_by
    assert made_by["evaluations"] == len(ROWS) * 4 * 3
    assert (made_by["permutations"], made_by["seed"], made_by["block"]) == (4, 3, 8)


def test_one_block_is_what_the_estimator_alone_saves(path: Path) -> None:
    run(path, estimator=ms.exact_shapley, block=64)
    ms.exact_shapley(game, ROWS).save(path.with_name("alone.zarr"))
    streamed, alone = (storage.load(path.with_name(f"{k}.zarr")) for k in ("rows", "alone"))
    assert {**json.loads(alone.made_by), "block": 64, "seed": 0} == json.loads(streamed.made_by)
    del alone.attrs["made_by"], alone.attrs["sha256"]
    del streamed.attrs["made_by"], streamed.attrs["sha256"]
    assert streamed.identical(alone)


@pytest.mark.parametrize("exact_first", [True, False])
def test_blocks_may_be_exact_or_sampled(
    path: Path, make_value: Callable[..., ms.ValueFunction], exact_first: bool
) -> None:
    def estimator(value: Any, x: Tensor) -> ms.Explanation:
        is_first = torch.equal(x[0], ROWS[0])
        return ms.exact_shapley(value, x) if is_first == exact_first else FEW(value, x)

    run(path, value=make_value("surrogate", "ilr"), estimator=estimator, block=11)
    loaded = ms.Explanation.load(path)
    exact, sampled = (loaded[:11], loaded[11:]) if exact_first else (loaded[11:], loaded[:11])
    assert bool((exact.norm_errors() == 0).all())
    assert sampled.covariance is not None
    variance = sampled.covariance.diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(variance, sampled.standard_error.square())


def test_columns_of_a_table_are_kept(path: Path) -> None:
    import pandas as pd

    run(path, schema=Schema.fit(pd.DataFrame(ROWS.numpy(), columns=list("abcd"))))
    loaded = ms.Explanation.load(path)
    assert loaded.schema is not None
    assert list(loaded.schema.decode(loaded.x).columns) == list("abcd")


def test_an_estimator_that_changes_its_mind_about_outputs_is_refused(path: Path) -> None:
    def estimator(value: Any, x: Tensor) -> ms.Explanation:
        return FEW(value if len(x) != 6 else lambda x, mask: value(x, mask)[..., :2], x)

    with pytest.raises(
        ValueError, match=r"every block to have the players, outputs .*000002\.zarr"
    ):
        run(path, estimator=estimator)
    assert not path.exists()


def test_some_rows_of_a_store_can_be_read(path: Path) -> None:
    run(path)
    part, loaded = (ms.Explanation.load(path, rows) for rows in (slice(6, 13), None))
    assert part.instances == tuple(range(6, 13))
    assert torch.equal(part.phi, loaded.phi[6:13])


# Executors.


class Elsewhere(Executor):
    """Runs calls at once, but pickles all that goes in and out, as other processes do."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.waiting = 0

    def submit(self, call: Any, /, *args: Any, **kwargs: Any) -> Future:
        future: Future = Future()
        sent = pickle.dumps((call, args, kwargs))
        self.sent.append(len(sent))
        call, args, kwargs = pickle.loads(sent)
        try:
            future.set_result(pickle.loads(pickle.dumps(call(*args, **kwargs))))
        except BaseException as error:
            future.set_exception(error)
        return future


@contextmanager
def processes() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


@pytest.mark.parametrize("executor", [partial(Threads, 2), Elsewhere, processes])
def test_every_executor_writes_the_same_bytes(
    path: Path, whole: dict[str, bytes], executor: Callable[..., Any]
) -> None:
    with executor() as given:
        assert run(path, executor=given) == len(ROWS)
    assert contents(path) == whole
    assert list(path.parent.iterdir()) == [path]


def test_numbers_of_a_value_function_are_sent_by_a_file_that_is_read_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []

    def load_checkpoint(path: Path, kind: str) -> dict[str, Any]:
        reads.append(path)
        return transfer_load(path, kind)

    transfer_load = transfer.load_checkpoint
    monkeypatch.setattr(transfer, "load_checkpoint", load_checkpoint)
    executor = Elsewhere()
    run(path, value=Weighted(torch.randn(4, 10_000)), executor=executor)
    assert len(reads) == 1
    assert len(executor.sent) == 3
    assert max(executor.sent) < 20_000
    loaded = ms.Explanation.load(path)
    again = path.with_name("again.zarr")
    run(again, value=Weighted(torch.randn(4, 10_000)), executor=executor)
    assert len(reads) == 2
    assert not torch.equal(ms.Explanation.load(again).phi, loaded.phi)
    # Once more on one path, by a process that knows it.
    run(again, value=Weighted(torch.zeros(4, 10_000)), executor=executor)
    assert len(reads) == 3
    assert bool((ms.Explanation.load(again).phi == 0).all())


class Weighted:
    """A game with weights of its own."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        return (x[:, None] * mask) @ self.weight[:, :3]


def test_what_cannot_be_sent_is_refused_before_any_work(path: Path) -> None:
    def local(value: Any, x: Tensor) -> ms.Explanation:
        raise AssertionError

    for changes in ({"value": lambda x, mask: x}, {"estimator": local}):
        with pytest.raises(TypeError, match=r"(?s)can be sent .* top level of a module.*Thread"):
            run(path, executor=Elsewhere(), **changes)
    assert not list(path.parent.iterdir())
    assert run(path, value=lambda x, mask: game(x, mask), executor=Threads(1)) == len(ROWS)


@pytest.mark.parametrize("how", ["memmap", "zarr", "data set"])
@pytest.mark.parametrize("executor", [None, Elsewhere()])
def test_rows_may_be_in_a_file(
    path: Path, tmp_path: Path, whole: dict[str, bytes], how: str, executor: Executor | None
) -> None:
    x: Any = zarr.create_array(tmp_path / "rows", data=ROWS.numpy())
    if how == "memmap":
        np.save(tmp_path / "rows.npy", ROWS.numpy())
        x = np.load(tmp_path / "rows.npy", mmap_mode="r")
    elif how == "data set":
        x = TensorDataset(ROWS, torch.arange(len(ROWS)))
    run(path, x=x, executor=executor)
    assert contents(path) == whole


def test_rows_of_a_block_are_sent_and_no_others(path: Path) -> None:
    executor, rows = Elsewhere(), np.tile(ROWS.numpy(), (1, 1000))
    np.save(path.parent.parent / "rows.npy", rows)
    mapped = np.load(path.parent.parent / "rows.npy", mmap_mode="r")
    for x in (torch.from_numpy(rows), mapped):
        executor.sent.clear()
        run(path, x=x, value=WIDE, executor=executor)
        assert rows[:8].nbytes < max(executor.sent) < rows[:9].nbytes


def narrow(x: Tensor, mask: Tensor) -> Tensor:
    return game(x[:, :4], mask)


WIDE = CallableValue(
    narrow, ms.Players(list("abcd"), torch.arange(4000) % 4), list("efgh"), torch.device("cpu")
)


def test_few_blocks_are_on_their_way_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "_MOST_SENT", 2)
    made: list[Future] = []
    most: list[int] = []

    class Counted(Threads):
        def submit(self, *args: Any, **kwargs: Any) -> Future:
            made.append(super().submit(*args, **kwargs))
            most.append(sum(not future.done() for future in made))
            return made[-1]

    with Counted(1) as executor:
        run(path, block=4, executor=executor)
    assert len(made) == 6
    assert max(most) == 2


@pytest.mark.parametrize("error", [ValueError("no luck"), KeyboardInterrupt(), SystemExit(143)])
def test_an_executor_is_interrupted_as_this_process_is(
    path: Path, whole: dict[str, bytes], error: BaseException
) -> None:
    with Threads(1) as executor:
        with pytest.raises(type(error)) as raised:
            run(path, estimator=Stops(2, error), executor=executor)
        assert isinstance(raised.value, KeyboardInterrupt) or raised.value is error
    assert run(path, resume=True, executor=Elsewhere()) == 14
    assert contents(path) == whole


def test_a_process_that_dies_leaves_what_is_done(path: Path) -> None:
    with pytest.raises(BrokenExecutor, match=r"out of memory\n8 of 22 rows are kept .*resume=True"):
        run(path, estimator=Stops(2, BrokenExecutor("out of memory")))
    assert run(path, resume=True) == 14


# Interruptions.


@pytest.mark.parametrize("calls", [1, 2])
def test_interruptions_change_no_byte(path: Path, whole: dict[str, bytes], calls: int) -> None:
    with pytest.raises(KeyboardInterrupt, match=r"of 22 rows are kept .* resume=True"):
        run(path, estimator=Stops(calls))
    with pytest.raises(KeyboardInterrupt):
        run(path, estimator=Stops(2), resume=True)
    assert run(path, resume=True) == len(ROWS) - 8 * calls
    assert contents(path) == whole


def swap_and_stop(new: Path, path: Path) -> None:
    new.rename(path)
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("module", "name", "stop"),
    [
        (joined, "join", Stops(0)),
        (places, "swap_in", Stops(0)),
        (places, "swap_in", swap_and_stop),
    ],
)
def test_all_done_but_for_the_end(
    path: Path,
    whole: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    name: str,
    stop: Callable[..., Any],
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(module, name, stop)
        with pytest.raises(KeyboardInterrupt, match="22 of 22 rows"):
            run(path)
    assert path.exists() == (stop is swap_and_stop)
    if path.exists():  # And whatever becomes of it: the blocks are still there.
        shutil.rmtree(path / "phi")
    assert run(path, resume=True) == 0
    assert contents(path) == whole
    assert list(path.parent.iterdir()) == [path]


def test_an_error_in_mid_work_keeps_what_is_done(path: Path, whole: dict[str, bytes]) -> None:
    with pytest.raises(ValueError, match="no luck"):
        run(path, estimator=Stops(3, ValueError("no luck")))
    assert run(path, resume=True) == 6
    assert contents(path) == whole


def part(left: Path, number: int) -> Path:
    """Where a finished block lives."""
    return next(left.glob("*/000000.zarr")).with_name(f"{number:06d}.zarr")


@pytest.mark.parametrize("lost", ["phi/0.0.0", ".zmetadata"])
def test_a_finished_block_that_is_damaged_is_explained_again(
    path: Path, left: Path, whole: dict[str, bytes], lost: str
) -> None:
    (part(left, 1) / lost).unlink()
    with pytest.warns(UserWarning, match=r"^8 rows that .* damaged; they are explained again"):
        assert run(path, resume=True) == 6 + 8
    assert contents(path) == whole


def test_a_block_that_was_half_written_is_explained_again(
    path: Path, left: Path, whole: dict[str, bytes]
) -> None:
    part(left, 1).rename(part(left, 1).with_name(".000001.zarr.0123"))
    (left / "joined.zarr").mkdir()
    assert run(path, resume=True) == 6 + 8
    assert contents(path) == whole
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("lost", "content"),
    [
        ("phi/0.0.0", b"torn"),
        (".zmetadata", b""),
        (".zmetadata", b"[1]"),
        (".zmetadata", b"[" * 100_000),
    ],
)
def test_work_of_which_the_record_is_damaged_is_not_resumed(
    path: Path, left: Path, lost: str, content: bytes
) -> None:
    (left / "first.zarr" / lost).write_bytes(content)
    with pytest.raises(ValueError, match=r"can be resumed in .* damaged.*resume=False"):
        run(path, resume=True)


def test_a_process_that_outlives_its_call_changes_nothing_of_a_later_one(
    path: Path, left: Path, whole: dict[str, bytes]
) -> None:
    def estimator(value: Any, x: Tensor, seed: int = 0) -> ms.Explanation:
        if len(x) == 6:
            shutil.copytree(other, outlived)
        return FEW(value, x, seed=seed)

    outlived = part(left, 2)
    with pytest.raises(KeyboardInterrupt):
        run(path.with_name("other.zarr"), seed=1, estimator=Stops(3))
    other = part(path.with_name(".other.zarr.partial"), 1)
    with pytest.warns(UserWarning, match="Removed"):
        assert run(path, estimator=estimator) == len(ROWS)
    assert contents(path) == whole


def test_a_call_that_is_cut_off_in_its_last_moment_is_resumed(
    path: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record goes whole: what is left of it would be called damaged."""

    def cut_off(place: Path, **_: Any) -> None:
        first = next(each for each in sorted(place.rglob("*")) if each.is_file())
        first.unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", cut_off)
        with pytest.raises(KeyboardInterrupt):
            run(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        run(path, resume=True)
    assert contents(path) == whole
    assert list(path.parent.iterdir()) == [path]


def test_what_is_lost_in_mid_work_is_not_joined(path: Path, whole: dict[str, bytes]) -> None:
    def estimator(value: Any, x: Tensor, seed: int = 0) -> ms.Explanation:
        if len(x) == 6:
            (part(path.with_name(".rows.zarr.partial"), 0) / "phi" / "0.0.0").unlink()
        return FEW(value, x, seed=seed)

    with pytest.raises(ValueError, match=r"(?s)000000\.zarr .*resume=True continues from there"):
        run(path, estimator=estimator)
    assert not path.exists()
    with pytest.warns(UserWarning, match="^8 rows"):
        assert run(path, resume=True) == 8
    assert contents(path) == whole


def test_an_earlier_explanation_is_replaced_at_the_end_only(path: Path) -> None:
    run(path, x=ROWS[:3])
    with pytest.raises(KeyboardInterrupt):
        run(path, estimator=Stops(2))
    assert len(ms.Explanation.load(path).phi) == 3
    run(path, resume=True)
    assert len(ms.Explanation.load(path).phi) == len(ROWS)


def test_starting_again_says_what_it_removes(
    path: Path, left: Path, whole: dict[str, bytes]
) -> None:
    with pytest.warns(
        UserWarning, match=r"^Removed .*\.rows\.zarr\.partial: 2 blocks\. With resume=True"
    ):
        assert run(path, block=6) == len(ROWS)
    with pytest.warns(UserWarning, match=r"Nothing is left to resume .* explained again"):
        assert run(path, resume=True) == len(ROWS)
    assert contents(path) == whole


class Other(Weighted):
    """The game, with something else of the output."""

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        return game(x, mask) * self.weight


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"x": -ROWS}, "x or instances"),
        ({"instances": range(1, 23)}, "x or instances"),
        ({"block": 7}, r"block\. Give"),
        ({"seed": 1}, r"seed, phi\. Give"),
        ({"estimator": partial(ms.permutation_shapley, permutations=6)}, "permutations"),
        ({"value": Other(torch.tensor(1.1))}, r"phi, prediction\."),
        ({"value": lambda x, mask: game(x, mask)[..., :2]}, "players, outputs, output space"),
    ],
)
@pytest.mark.usefixtures("left")
def test_another_call_is_not_resumed(path: Path, changes: dict[str, Any], named: str) -> None:
    message = (
        rf"interrupted call, 2 blocks of which are in .*\.partial, but these differ: .*{named}"
    )
    with pytest.raises(ValueError, match=message):
        run(path, **changes, resume=True)


@pytest.mark.usefixtures("left")
def test_last_digits_that_move_with_the_number_of_threads_are_no_other_call(path: Path) -> None:
    assert run(path, value=Other(torch.tensor(1.0001)), resume=True) == 6


def test_the_bar_counts_what_is_done(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, ...]] = []

    class Watched(tqdm.auto.tqdm):
        def close(self) -> None:
            seen.append((self.initial, self.n, self.total, self.disable))

    monkeypatch.setattr(tqdm.auto, "tqdm", Watched)
    with pytest.raises(KeyboardInterrupt):
        run(path, estimator=Stops(3), progress=True)
    run(path, resume=True, progress=True)
    assert seen[0] == (0, 16, 22, False)
    assert seen[1] == (16, 22, 22, False)


# One call at a time.


@pytest.mark.parametrize("resume", [False, True])
def test_of_two_calls_on_one_path_the_later_one_is_refused(
    path: Path, whole: dict[str, bytes], resume: bool
) -> None:
    calls = list[int]()

    def disturbed(value: Any, x: Tensor, seed: int = 0) -> ms.Explanation:
        calls.append(len(x))
        with pytest.raises(
            FileExistsError, match=r"only call .* process \d+ on .* still at it, in"
        ):
            run(path, resume=resume)
        return FEW(value, x, seed=seed)

    assert run(path, estimator=disturbed) == len(ROWS)
    assert calls == [1, 8, 8, 6]
    assert contents(path) == whole
    assert list(path.parent.iterdir()) == [path]


AT_IT = """
    import time
    from tests.io.test_streaming import FEW, Path, run

    def slow(value, x, seed=0):
        if len(x) == 6:
            print("at it", flush=True)
            time.sleep(100)
        return FEW(value, x, seed=seed)

    run(Path({path!r}), estimator=slow)
"""


def test_a_call_that_was_killed_holds_no_lock(
    path: Path, root: Path, whole: dict[str, bytes]
) -> None:
    code = textwrap.dedent(AT_IT.format(path=str(path)))
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == b"at it\n"
            with pytest.raises(FileExistsError, match=f"process {other.pid} on .* still at it"):
                run(path)
        finally:
            other.kill()
    assert run(path, resume=True) == 6
    assert contents(path) == whole
    assert list(path.parent.iterdir()) == [path]


def test_a_directory_that_another_call_removes_as_it_ends_is_made_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = list[Path]()

    class Late(files.FileLock):  # type: ignore[misc, valid-type]
        def acquire(self, *args: Any, **kwargs: Any) -> Any:
            if not removed:
                removed.append(Path(self.lock_file).parent)
                removed[0].rmdir()
            return super().acquire(*args, **kwargs)

    monkeypatch.setattr(files, "FileLock", Late)
    assert run(path) == len(ROWS)
    assert removed == [path.with_name(".rows.zarr.partial")]


def test_a_file_in_the_way_of_the_work_is_told(path: Path) -> None:
    path.parent.mkdir()
    file = path.with_name(".rows.zarr.partial")
    file.write_text("mine")
    with pytest.raises(FileExistsError, match=r"partial to be a directory.* is a file; remove it"):
        run(path)
    assert file.read_text() == "mine"


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that knows none."""

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(pytest.importorskip("fcntl"), "flock", refuse)


@pytest.mark.usefixtures("no_locks")
@pytest.mark.parametrize("resume", [False, True])
def test_calls_on_one_path_exclude_each_other_without_locks_too(
    path: Path, whole: dict[str, bytes], resume: bool
) -> None:
    test_of_two_calls_on_one_path_the_later_one_is_refused(path, whole, resume)


@pytest.mark.usefixtures("no_locks")
def test_an_interrupted_call_is_resumed_without_locks(path: Path, whole: dict[str, bytes]) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(path, estimator=Stops(2))
    assert run(path, resume=True) == 14
    assert contents(path) == whole


# Errors.


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_errors_of_the_estimator_are_not_those_of_a_disk(path: Path, calls: int) -> None:
    error = OSError(5, "the licence server is down")
    with pytest.raises(OSError, match="licence") as raised:
        run(path, estimator=Stops(calls, error))
    assert raised.value is error


def test_errors_of_reading_rows_are_not_those_of_writing(path: Path) -> None:
    class Unplugged:
        shape = (22, 4)

        def __getitem__(self, part: slice) -> Tensor:
            raise OSError(5, "no such drive")

    with pytest.raises(OSError, match=r"^\[Errno 5\] no such drive$"):
        run(path, x=Unplugged())
    assert not list(path.parent.iterdir())


@pytest.mark.parametrize("executor", [None, Elsewhere()])
def test_no_space_says_so_and_finished_rows_stay(
    path: Path, full_disk: Callable[[], AbstractContextManager[None]], executor: Executor | None
) -> None:
    rows = ROWS.repeat(60, 1)
    with pytest.raises(KeyboardInterrupt):
        run(path, x=rows, estimator=Stops(2), block=600)
    again = partial(run, path, x=rows, block=600, resume=True)
    with (
        full_disk(),
        pytest.raises(OSError, match=r"(?s)Could not write.*600 of 1320.*resume=True"),
    ):
        again()
    assert again(executor=executor) == 1320 - 600


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"block": 0}, r"`block` .* at least 1 but got 0"),
        ({"block": True}, r"`block` .* but got True .*; 1024"),
        ({"estimator": 5}, r"`estimator` .* such as `ms.permutation_shapley`, but got 5"),
        ({"seed": 2**63}, r"`seed` .* but got 9223372036854775808; 0"),
        ({"x": np.array(3.0)}, r"`x` of shape \(rows, \*event\), .* but got \(\); pass"),
        ({"x": ROWS[:0]}, r"at least one row, but got \(0, 4\)"),
        ({"x": [["a", "b"]]}, "Expected `x` to be a tensor.* got a list of other"),
        ({"executor": 2}, r"`executor` .* `submit`, .* got 2; `ThreadPoolExecutor\(2\)`"),
        (
            {"path": game},
            r"`path` to be text .*; it comes first, then the value",
        ),
        ({"x": ROWS[:, :3], "value": WIDE}, r"Expected `x\S*` of shape \(rows, 4000\)"),
        ({"x": torch.cat((ROWS, ROWS[:1] / 0))}, r"of `x` are .* row 22, element 0"),
        ({"instances": [1, 2]}, "22 labels in `instances`, one per row, but got 2"),
    ],
)
@pytest.mark.usefixtures("any_type")
def test_what_cannot_be_explained_is_refused_before_any_work(
    path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        run(**{"path": path, **changes})
    assert not path.parent.exists() or not list(path.parent.iterdir())


def test_what_is_no_explanation_is_not_replaced(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(FileExistsError, match="something else stands there"):
        run(path)
