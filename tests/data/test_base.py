"""Splits, encodings, checks of what a source loads, and the registry."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from manifold_shap import data as data_sets
from manifold_shap import oracles
from manifold_shap.data import Data, DataSet
from manifold_shap.data.base import split_rows


@settings(max_examples=50, deadline=None)
@given(
    rows=st.integers(30, 300),
    validation=st.floats(0.05, 0.45),
    test=st.floats(0.05, 0.45),
    seed=st.integers(0, 2**31),
)
def test_splits_are_disjoint_and_exhaustive(
    rows: int, validation: float, test: float, seed: int
) -> None:
    shares = {"validation": validation, "test": test}
    parts = split_rows(rows, shares, seed)
    assert torch.cat(parts).sort().values.tolist() == list(range(rows))
    assert [len(part) for part in parts[1:]] == [round(validation * rows), round(test * rows)]
    again = split_rows(rows, shares, seed)
    assert all(torch.equal(a, b) for a, b in zip(parts, again, strict=True))
    assert not torch.equal(parts[0], split_rows(rows, shares, seed + 1)[0])
    fixed = split_rows(rows, shares, seed, test_rows=7)
    assert torch.cat(fixed).sort().values.tolist() == list(range(rows))
    assert fixed[-1].tolist() == list(range(rows - 7, rows))


def test_rows_and_labels_stay_together() -> None:
    x, y = torch.rand(20, 2), torch.tensor([0, 1] * 10)
    data = Data(DataSet(x, y, ("no", "yes")))
    train, _, test = split_rows(20, {"validation": 0.1, "test": 0.2}, 0)
    assert torch.equal(data.x_train, x[train])
    assert torch.equal(data.y_test, y[test])
    assert data.table is None
    assert data.players.names == ("x0", "x1")
    grouped = Data(DataSet(x, y, ("no", "yes")), groups={"both": ["x0", "x1"]})
    assert grouped.players.names == ("both",)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([0.0, float("nan")], [0, 1], "10 of 40 entries of `features` .* row 1, element 0"),
        ([0.0, 1], [1, 1], r"of 2 classes, none of \['no'\]"),
        ([0.0, 1], [1], "20 labels in 'data' but got 10"),
    ],
)
def test_rows_that_cannot_be_served(x: list, y: list, message: str) -> None:
    found = DataSet(torch.tensor([[e, 3.0] for e in x] * 10), y * 10, ("no", "yes"))
    with pytest.raises(ValueError, match=message):
        Data(found).check_labels()


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"validation": 0.001}, ValueError, "'validation': 0, .* change `validation` or `test`"),
        ({"validation": 0.5, "test": 0.5}, ValueError, "'train': 0"),
        ({"batchsize": 3}, TypeError, "batchsize"),
        ({"source": "irises"}, ValueError, "`source` to be one of .* but got 'irises'"),
    ],
)
def test_settings_that_cannot_be(settings: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        data_sets.load(**{"source": "iris", **settings})


def test_rows_of_a_mixture_are_those_of_its_law() -> None:
    data = data_sets.load("gaussian_mixture", rows=500, elements=4, components=2, law=3, seed=1)
    assert data.players.names == ("x0", "x1", "x2", "x3")
    drawn = oracles.GaussianMixture.random(4, 2, 3).sample(500, seed=3)
    rows = torch.cat((data.x_train, data.x_validation, data.x_test))
    assert torch.equal(rows[rows[:, 0].argsort()], drawn.x[drawn.x[:, 0].argsort()])
