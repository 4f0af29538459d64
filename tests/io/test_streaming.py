"""Rows explained in blocks: the same bytes, however the work is shared, interrupted or resumed."""

import json
import pickle
from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures import ThreadPoolExecutor as Threads
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import numpy as np
import pandas as pd
import pytest
import torch
import zarr
from torch import Tensor
from torch.utils.data import TensorDataset

import manifold_shap as ms
from tests.io.shared import BLOCK, FEW, ROWS, contents, game, run

FIELDS = ("phi", "standard_error", "prediction", "base", "covariance", "degrees_of_freedom")


class Stops:
    """An estimator that fails after some calls; the first is for the first row alone."""

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
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What an uninterrupted call writes."""
    path = tmp_path_factory.mktemp("whole") / "rows.zarr"
    assert run(path) == len(ROWS)
    return contents(path)


@pytest.fixture
def left(path: Path) -> None:
    """What a call has left at `path` that stopped after two of its three blocks."""
    with pytest.raises(KeyboardInterrupt, match=r"16 of 22 rows are kept in .* resume=True"):
        run(path, estimator=Stops(3))


# What a store holds.


@pytest.mark.parametrize("space", ["probability", "ilr"])
def test_blocks_are_what_the_estimator_gives_for_them(
    path: Path, make_value: Callable[..., ms.ValueFunction], space: str
) -> None:
    value, labels = make_value("marginal", space), [100 - k for k in range(len(ROWS))]
    seeds = list[int]()

    def noted(value: Any, x: Tensor, seed: int) -> ms.Explanation:
        seeds.append(seed)
        return FEW(value, x, seed=seed)

    assert run(path, value=value, estimator=noted, seed=3, labels=labels, executor=Threads(1)) == 22
    loaded = ms.Explanation.load(path)
    assert torch.equal(loaded.x, ROWS)
    assert loaded.instances == tuple(labels)
    assert len({*seeds[1:], 3, 4, 5}) == 6
    for number, seed in enumerate(seeds[1:]):
        part = slice(number * BLOCK, (number + 1) * BLOCK)
        alone, got = FEW(value, ROWS[part], seed=seed), loaded[part]
        for name in FIELDS:
            expected, there = getattr(alone, name), getattr(got, name)
            assert (expected is None) == (there is None)
            assert expected is None or torch.equal(there, expected)
    made_by = loaded.made_by
    assert made_by["evaluations"] == len(ROWS) * 4 * 3
    assert (made_by["permutations"], made_by["seed"], made_by["block"]) == (4, 3, BLOCK)


@pytest.mark.parametrize(("space", "exact_first"), [("ilr", True), ("probability", False)])
def test_blocks_may_be_exact_or_sampled(
    path: Path, make_value: Callable[..., ms.ValueFunction], exact_first: bool, space: str
) -> None:
    def estimator(value: Any, x: Tensor) -> ms.Explanation:
        is_first = torch.equal(x[0], ROWS[0])
        return ms.exact_shapley(value, x) if is_first == exact_first else FEW(value, x)

    run(path, value=make_value("surrogate", space), estimator=estimator, block=11)
    loaded: Any = ms.Explanation.load(path)
    exact, sampled = (loaded[:11], loaded[11:]) if exact_first else (loaded[11:], loaded[:11])
    assert loaded.made_by["estimator"] == ["exact", "permutation"][:: 1 if exact_first else -1]
    alone: Any = FEW(make_value("surrogate", space), sampled.x)
    assert torch.equal(sampled.degrees_of_freedom, alone.degrees_of_freedom)
    assert all(torch.equal(end, exact.phi) for end in exact.interval())
    if space == "ilr":
        assert bool((exact.norm_errors() == 0).all())
        assert torch.equal(sampled.covariance, alone.covariance)


@pytest.mark.parametrize(
    "labels",
    [
        [f"{'long ' * k}{k}" for k in range(22)],
        pd.date_range("2024-01-31 12:00:01.5", periods=22, freq="h").to_list(),
        [k / 2 for k in range(22)],
        pd.date_range("2024-03-31", periods=22, freq="h", tz="Europe/Berlin").to_list(),
    ],
)
def test_labels_of_every_kind_come_back(path: Path, labels: list[Any]) -> None:
    run(path, labels=labels)
    assert ms.Explanation.load(path).instances == tuple(labels)
    assert ms.Explanation.load(path, slice(6, 9)).instances == tuple(labels[6:9])


@pytest.mark.filterwarnings("ignore:Columns that hold a single value")
@pytest.mark.parametrize("as_codes", [True, False])
def test_cells_of_a_table_come_back(path: Path, as_codes: bool) -> None:
    train = pd.DataFrame({"size": range(30), "town": list("abc") * 10, "year": 2024})
    table = ms.Table.fit(train)
    model = ms.as_model(lambda rows: rows["size"].to_numpy() * 1.0, table, returns="values")
    imputer = ms.imputers.table_imputer(ms.imputers.MarginalImputer, table, train)
    value = ms.imputed_value(model, imputer, "identity", draws=30)
    rows = train.iloc[[7, 25, 3, 4, 28, 1]].assign(town=["a", "c", "a", "a", "c", "c"])
    rows.index = pd.MultiIndex.from_product([list("ab"), range(3)], names=["street", 1])
    x = table.rows(rows) if as_codes else rows
    run(path, value=value, x=x, estimator=ms.exact_shapley, block=2, executor=Threads(2))
    loaded: Any = ms.Explanation.load(path)
    alone = ms.exact_shapley(value, rows)
    assert loaded.players.names == ("size", "town", "year")
    assert loaded.x.astype(object).set_axis(rows.index).equals(rows.astype(object))
    assert loaded.index.equals(pd.RangeIndex(6) if as_codes else rows.index)
    assert loaded.index.names == (["instance"] if as_codes else rows.index.names)
    torch.testing.assert_close(loaded.phi, alone.phi)
    assert ms.audit(loaded, value, rows=6).relative_error().estimate < 1e-6


def test_rows_of_several_lengths_say_how_each_was_explained(path: Path) -> None:
    lengths = [2, 2, 2, 12, 12, 2, 1, 12]
    x = torch.stack([(torch.arange(12) < k) * (k + 1.0) / 20 for k in lengths])
    few = partial(ms.auto_shapley, evaluations=100)
    words = ms.as_value_function(
        lambda x, mask: (x[:, None, : mask.shape[-1]] * mask).sum(-1, keepdim=True).tanh(),
        x,
        ms.Players.tokens(12, padding=0),
    )
    run(path, value=words, x=x, estimator=few, block=3, executor=Threads(2))
    loaded, alone = ms.Explanation.load(path), few(words, x)
    assert loaded.counts.tolist() == lengths
    for name in ("auto", "estimator"):
        assert set(alone.made_by[name]) == {"1", "2", "12"}
        counts = [set(own) for own in loaded.made_by[name] if isinstance(own, dict)]
        assert counts == [{"2", "12"}, {"1", "12"}] or name == "auto"
    assert loaded.made_by["evaluations"] == alone.made_by["evaluations"]
    exact = [row for row, count in enumerate(lengths) if count < 12]
    torch.testing.assert_close(loaded.phi[exact], alone.phi[exact], equal_nan=True)


def test_an_estimator_that_changes_its_mind_about_outputs_is_refused(path: Path) -> None:
    def estimator(value: Any, x: Tensor) -> ms.Explanation:
        return FEW(value if len(x) != 6 else value.select([0]), x)

    with pytest.raises(ValueError, match=r"every block to have the players, outputs .* row 16"):
        run(path, estimator=estimator)


def in_file(place: Path) -> np.ndarray:
    np.save(place / "rows.npy", ROWS.numpy())
    return np.load(place / "rows.npy", mmap_mode="r")


@pytest.mark.parametrize("threads", [True, False])
@pytest.mark.parametrize(
    "rows",
    [
        lambda _: ROWS,
        in_file,
        lambda place: zarr.create_array(place / "rows", data=ROWS.numpy()),
        lambda _: TensorDataset(ROWS, torch.arange(len(ROWS))),
        lambda _: ROWS.tolist(),
        lambda _: pd.DataFrame(ROWS.numpy(), columns=["x0", "x1", "x2", "x3"]),
    ],
    ids=["tensor", "memmap", "zarr", "data set", "list", "frame"],
)
def test_rows_may_be_anywhere(
    path: Path, tmp_path: Path, whole: dict[str, bytes], rows: Callable[..., Any], threads: bool
) -> None:
    with Threads(2) if threads else Elsewhere() as executor:
        assert run(path, x=rows(tmp_path), executor=executor) == len(ROWS)
    assert contents(path) == whole
    assert list(path.parent.iterdir()) == [path]


# Executors.


class Elsewhere(Executor):
    """Runs calls at once, but pickles all that goes in and out, as other processes do."""

    def submit(self, call: Any, /, *args: Any, **kwargs: Any) -> Future:
        future: Future = Future()
        call, args, kwargs = pickle.loads(pickle.dumps((call, args, kwargs)))
        try:
            future.set_result(pickle.loads(pickle.dumps(call(*args, **kwargs))))
        except BaseException as error:
            future.set_exception(error)
        return future


def test_a_url_of_a_store_is_written_and_read(whole: dict[str, bytes]) -> None:
    url = f"memory://{uuid4().hex}/deep/rows.zarr"
    with pytest.raises(KeyboardInterrupt, match="8 of 22"):
        run(url, estimator=Stops(2))
    with pytest.raises(ValueError, match="1 of its 3 blocks"):
        ms.Explanation.load(url)
    assert run(url, resume=True, executor=Elsewhere()) == 14
    files, place = fsspec.url_to_fs(url)
    assert {each[len(place) + 1 :]: files.cat_file(each) for each in files.find(place)} == whole
    loaded = ms.Explanation.load(url)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        run(url)
    assert run(url, seed=1, overwrite=True) == len(ROWS)
    loaded.save(url)
    assert torch.equal(ms.Explanation.load(url).phi, loaded.phi)


def test_what_cannot_be_sent_is_refused_before_any_work(path: Path) -> None:
    def local(value: Any, x: Tensor) -> ms.Explanation:
        raise AssertionError

    for changes in ({"value": lambda x, mask: game(x, mask)}, {"estimator": local}):
        with pytest.raises((pickle.PicklingError, AttributeError), match="local"):
            run(path, executor=Elsewhere(), **changes)
    assert not path.exists()


# Interruptions.


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("no luck")])
def test_interruptions_change_no_byte(
    path: Path, whole: dict[str, bytes], calls: int, error: BaseException
) -> None:
    kept = pytest.raises(type(error), match=r"of 22 rows are kept .* resume=True")
    with Threads(1) as executor, kept:
        run(path, estimator=Stops(calls, error), executor=executor)
    if calls == 2:  # As of a process that was killed.
        torn = path / "phi" / "c" / "1" / "0" / "0"
        torn.parent.mkdir(parents=True)
        torn.write_bytes(b"torn")
    with pytest.raises(KeyboardInterrupt):
        run(path, estimator=Stops(2), resume=True)
    assert run(path, resume=True) == len(ROWS) - 8 * calls
    assert contents(path) == whole
    assert run(path, resume=True) == 0
    assert contents(path) == whole


@pytest.mark.usefixtures("left")
def test_a_store_that_was_not_laid_out_is_begun_again(path: Path, whole: dict[str, bytes]) -> None:
    attributes = json.loads((path / "zarr.json").read_text())
    del attributes["attributes"]["call"]
    (path / "zarr.json").write_text(json.dumps(attributes))
    assert run(path, resume=True) == len(ROWS)
    assert contents(path) == whole


def test_an_earlier_explanation_is_replaced_if_told_to(path: Path, whole: dict[str, bytes]) -> None:
    ms.exact_shapley(game, ROWS[:3]).save(path)
    with pytest.raises(FileExistsError, match=r"an explanation stands there; overwrite=True"):
        run(path)
    with pytest.raises(ValueError, match=r"these differ: .*permutations"):
        run(path, resume=True)
    assert len(ms.Explanation.load(path).phi) == 3
    assert run(path, overwrite=True) == len(ROWS)
    assert contents(path) == whole
    loaded = ms.Explanation.load(path)
    assert run(path, seed=1, resume=True, overwrite=True) == len(ROWS)
    assert ms.Explanation.load(path).made_by["seed"] == 1
    assert not torch.equal(ms.Explanation.load(path).phi, loaded.phi)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"x": torch.cat((ROWS[:-1], ROWS[:1]))}, r"x or labels\. Give"),
        ({"labels": range(1, 23)}, r"x or labels\. Give"),
        ({"seed": 1}, r"seed, phi\. Give"),
        ({"estimator": partial(ms.permutation_shapley, permutations=6)}, "permutations"),
        ({"value": lambda x, mask: game(x, mask) * 1.1}, r"phi, prediction\."),
        ({"value": lambda x, mask: game(x, mask)[..., :2]}, "outputs"),
    ],
)
@pytest.mark.usefixtures("left")
def test_another_call_is_not_resumed(path: Path, changes: dict[str, Any], named: str) -> None:
    before = contents(path)
    with pytest.raises(ValueError, match=rf"rows and settings .* these differ: .*{named}"):
        run(path, **changes, resume=True)
    assert contents(path) == before


# Errors.


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
        pytest.raises(OSError, match=r"(?s)too large.*600 of 1320 rows.*rows\.zarr.*resume=True"),
    ):
        again()
    assert again(executor=executor) == 1320 - 600


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"block": 0}, r"`block` .* at least 1 but got 0"),
        ({"value": 3}, "Expected a value function"),
        ({"seed": 2**63}, r"`seed` .* but got 9223372036854775808; 0"),
        ({"x": ROWS[:0]}, r"at least one row, but got Tensor of shape .*0, 4"),
        ({"x": "rows.parquet"}, r"at least one row, but got str"),
        ({"x": torch.cat((ROWS, ROWS[:1] / 0))}, r"of `x` are .* row 22, element 0"),
        ({"path": Path("s3://bucket/rows")}, "a URL that `pathlib.Path` has cut"),
        ({"labels": [1, 2]}, "22 labels in `labels`, one per row, but got 2"),
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
    (path / "notes.txt").touch()
    with pytest.raises(FileExistsError, match="something else stands there"):
        run(path, resume=True, overwrite=True)
    assert (path / "notes.txt").exists()
