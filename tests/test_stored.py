"""Rows in a file or of a data set: as those of a tensor, and errors that say which row."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    SubsetRandomSampler,
    TensorDataset,
)

from manifold_shap._stored import ArrayRows, MappedRows, PartRows, StoredRows, stored

X = torch.randn(23, 2, 3, generator=torch.Generator().manual_seed(0))


class Items(Dataset[Any]):
    """A list of items."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, number: int) -> Any:
        return self.items[number]


def memmap(place: Path, x: Tensor = X) -> np.ndarray:
    np.save(place / "x.npy", x.numpy())
    return np.load(place / "x.npy", mmap_mode="r")


@pytest.fixture(params=["dataset", "pairs", "loader", "workers", "file", "part", "mapped"])
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> StoredRows:
    pairs = TensorDataset(X, torch.arange(len(X)))
    made: StoredRows = {
        "dataset": lambda: stored(Items(list(X))),
        "pairs": lambda: stored(pairs),
        "loader": lambda: stored(DataLoader(pairs, batch_size=4, shuffle=True)),
        "workers": lambda: stored(DataLoader(pairs, num_workers=2)),
        "file": lambda: stored(memmap(tmp_path)),
        "part": lambda: PartRows(stored(TensorDataset(X.flip(0))), torch.arange(22, -1, -1)),
        "mapped": lambda: MappedRows(stored(TensorDataset(X.flatten(1))), to_pictures),
    }[request.param]()
    return made


def to_pictures(x: Tensor) -> Tensor:
    return x.unflatten(1, (2, 3))


def test_they_are_as_a_tensor(rows: StoredRows) -> None:
    index, state = torch.tensor([5, 0, 22, 5]), torch.random.get_rng_state()
    assert rows.shape == X.shape
    assert rows.ndim == 3
    assert len(rows) == 23
    assert torch.equal(rows[3:7], X[3:7])
    assert torch.equal(rows[index], X[index])
    assert torch.equal(rows.index_select(0, index), X[index])
    assert [len(part) for part in rows.split(10)] == [10, 10, 3]
    assert torch.equal(torch.cat(list(rows.split(10))), X)
    assert torch.equal(rows.extent, torch.stack((X.amin(0), X.amax(0))))
    assert torch.equal(rows.sample, X)
    assert rows.with_extremes is rows.sample
    # The caller's random numbers are as they were.
    assert torch.equal(torch.random.get_rng_state(), state)


def test_many_rows_are_stood_for_by_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manifold_shap._stored._MOST_SAMPLED", 5)
    rows = stored(TensorDataset(X))
    assert torch.equal(rows.sample, X[[0, 4, 9, 13, 18]])
    assert torch.equal(rows.with_extremes[5:], torch.stack((X.amin(0), X.amax(0))))


def test_memory_bounds_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manifold_shap._stored._PASSED", 4 * 6 * 4)
    assert [len(part) for part in stored(TensorDataset(X)).split(23)] == [4] * 5 + [3]


@pytest.mark.parametrize("part", [slice(None), slice(4, 9), slice(None, None, 2)])
def test_a_part_of_a_file_goes_to_other_processes(part: slice, tmp_path: Path) -> None:
    x = torch.arange(12_000.0).reshape(3000, 2, 2)
    np.save(tmp_path / "x.npy", x.numpy())
    # A part of a part.
    array = np.load(tmp_path / "x.npy", mmap_mode="r")[1:][part]
    sent = pickle.dumps(ArrayRows(array))
    again = pickle.loads(sent)
    assert torch.equal(again[:], x[1:][part])
    assert torch.equal(pickle.loads(pickle.dumps(again))[:], x[1:][part])
    # Only rows that lie in one piece are found in the file again.
    if part.step is None:
        assert len(sent) < 1000
        assert again.array.filename == array.filename


class Endless(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        yield X[0]


def bad(*items: Any) -> Items:
    return Items([X[0], X[1], *items])


@pytest.mark.parametrize(
    ("dataset", "kind", "message"),
    [
        (Endless(), TypeError, "`x_train` .* Endless, which can only be iterated over"),
        (Items([]), ValueError, r"at least one row, but got \(0,\)"),
        (Items([{"x": X[0]}]), TypeError, "but item 0 is dict"),
        (bad(X[2], X[3] / 0), ValueError, r"`x_train` are NaN or infinite, the first in row 3"),
    ],
)
def test_what_is_no_row_is_named(dataset: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        list(stored(dataset).split(10))


def test_items_that_differ_when_they_are_asked_for_twice_are_told() -> None:
    class Flipped(Items):
        def __getitem__(self, number: int) -> Any:
            return (self.items[number].flip(-1) if torch.rand(()) < 0.5 else self.items[number]), 0

    with pytest.warns(UserWarning, match=r"`x_train` differ .* twice, .* augmentation"):
        stored(DataLoader(Flipped(list(X)), batch_size=4, shuffle=True))


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"sampler": SubsetRandomSampler([0, 1])}, "SubsetRandomSampler"),
        ({"batch_sampler": [[0], [1]]}, "list"),
        ({"batch_size": None, "sampler": SubsetRandomSampler([0])}, "SubsetRandomSampler"),
    ],
)
def test_a_loader_that_chooses_rows_is_refused(options: dict[str, Any], name: str) -> None:
    loader = DataLoader(TensorDataset(X[:2]), **options)
    message = rf"`x_train` to be a loader of all rows alike.* sampler is a {name};.*Subset\(dataset"
    with pytest.raises(ValueError, match=message):
        stored(loader)
    with pytest.raises(ValueError, match="without `collate_fn`"):
        stored(DataLoader(TensorDataset(X[:2]), collate_fn=list))
