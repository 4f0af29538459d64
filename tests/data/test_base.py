"""Data sources: splits, checks of what a source loads, and configurations."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from manifold_shap.data import Iris, TensorDataModule
from manifold_shap.data.base import Table, split_rows


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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"validation": 0.001}, "'validation': 0, .* change `validation` or `test`"),
        ({"validation": 0.5, "test": 0.5}, "'train': 0"),
        ({"test": 1.5}, "shares that leave every split some rows"),
    ],
)
def test_numbers_out_of_range(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Iris(**settings).setup()


class Handmade(TensorDataModule):
    """Rows that a test made."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        super().__init__(name="handmade")
        self.rows = (x, y)

    def read(self) -> Table:
        return Table(*self.rows, ("no", "yes"))


def test_a_handmade_source_is_served() -> None:
    x, y = torch.rand(20, 2), torch.tensor([0, 1] * 10)
    data = Handmade(x, y)
    data.setup()
    train, _, test = data.split(20)
    assert torch.equal(data.x_train, x[train])
    assert torch.equal(data.y_test, y[test])
    assert data.table is None
    assert data.players.names == ("x0", "x1")


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([0.0, float("nan")], [0, 1], "10 of 40 entries of `features` .* row 1, element 0"),
        ([float("inf"), 1], [0, 1], "`features` are NaN or infinite, the first in row 0"),
        ([0.0, 1], [1, 1], "at least two classes in 'handmade' but every one is 'yes'"),
        ([0.0, 1], [1], "20 labels in 'handmade' but got 10"),
    ],
)
def test_rows_that_cannot_be_served(x: list, y: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Handmade(torch.tensor([[e, 3.0] for e in x] * 10), torch.tensor(y * 10)).setup()


def test_misspelled_settings_are_refused() -> None:
    with pytest.raises(TypeError, match="batchsize"):
        Iris(batchsize=3)  # type: ignore[call-arg]
