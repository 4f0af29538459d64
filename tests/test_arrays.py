"""Lists and frames of numbers go wherever tensors go, with their names and labels."""

import decimal
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse

import manifold_shap as ms

COLUMNS = {"age": [30, 40, 50], "weight": [70.5, 80.0, 60.0], "smokes": [True, False, True]}
NUMBERS = torch.tensor([[30, 70.5, 1], [40, 80, 0], [50, 60, 1]])
PANDAS = pd.DataFrame(COLUMNS, index=["Ann", "Bob", "Eve"])


def model(x: Any) -> torch.Tensor:
    return torch.as_tensor(x).float()[:, :2] @ torch.tensor([[1.0], [2.0]])


FRAMES = {
    "pandas": PANDAS,
    "nullable": PANDAS.convert_dtypes(),
    "polars": pl.DataFrame(COLUMNS),
    "pyarrow": pl.DataFrame(COLUMNS).to_arrow(),
    "decimal": pl.DataFrame({**COLUMNS, "weight": list(map(decimal.Decimal, COLUMNS["weight"]))}),
}


@pytest.mark.parametrize("kind", [*FRAMES, "list", "array"])
@pytest.mark.parametrize("door", ["imputed", "retrained", "callable"])
def test_whatever_holds_the_numbers_the_values_are_the_same(door: str, kind: str) -> None:
    doors: dict[str, Callable[[Any], Any]] = {
        "imputed": lambda x: ms.imputed_value(model, ms.imputers.MarginalImputer(x), "identity"),
        "retrained": lambda x: ms.retrained_value(_line, x, [1.0, 2.0, 3.0], space="identity"),
        "callable": lambda x: lambda x, mask: (x[:, None] * mask).sum(-1, keepdim=True),
    }
    x = FRAMES.get(kind, NUMBERS.tolist() if kind == "list" else NUMBERS.numpy())
    expected = ms.exact_shapley(doors[door](NUMBERS), NUMBERS)
    value = doors[door](x)
    found = ms.exact_shapley(value, x)
    assert torch.equal(found.phi, expected.phi)
    assert found.players.names == (tuple(COLUMNS) if kind in FRAMES else ("x0", "x1", "x2"))
    assert found.instances == (tuple(x.index) if isinstance(x, pd.DataFrame) else (0, 1, 2))
    if door != "callable":
        mask = ms.metrics.shapley_pairs(3, 3, least=6)
        assert torch.equal(value(x, mask), value(NUMBERS, mask))
        score = ms.metrics.mean_squared_error(value, NUMBERS, mask)
        assert ms.metrics.mean_squared_error(value, x, mask.numpy()).mse == score.mse


def _line(x: Any, y: Any) -> Callable[[Any], torch.Tensor]:
    """A model that is fitted to nothing but the number of columns."""
    return lambda x: torch.as_tensor(x).float().sum(1, keepdim=True)


def test_columns_are_matched_by_name() -> None:
    value = ms.imputed_value(model, ms.imputers.MarginalImputer(PANDAS), "identity")
    turned = PANDAS[["smokes", "age", "weight"]]
    assert torch.equal(ms.exact_shapley(value, turned).phi, ms.exact_shapley(value, PANDAS).phi)
    # Other names than those of the players say nothing about the order.
    named = PANDAS.set_axis(["a", "b", "c"], axis=1)
    assert torch.equal(ms.exact_shapley(value, named).x, NUMBERS)


def test_a_single_row_may_be_a_list_or_a_series() -> None:
    for point in ([30, 70.5, 1], PANDAS.astype(float).iloc[0], pl.Series([30.0, 70.5, 1.0])):
        assert torch.equal(ms.imputers.BaselineImputer(point).reference, NUMBERS[:1])


DATE = datetime(2024, 5, 1)
ZONED = pd.Timestamp("2024-05-01", tz="Europe/Berlin")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (np.array([3, 5], dtype=np.int32), (3, 5)),
        (pd.Index([0.5, 2]), (0.5, 2.0)),
        (pd.Index([1, "a"]), ("1", "a")),
        ([True, False], ("True", "False")),
        (
            pd.DatetimeIndex(["2024-05-01", "2024-05-01 12:00:00.5"]),
            (DATE, datetime(2024, 5, 1, 12, 0, 0, 500_000)),
        ),
        (np.array(["2024-05-01"], "datetime64[D]"), (DATE,)),
        (pd.DatetimeIndex(["2024-05-01", None]), ("2024-05-01 00:00:00", "NaT")),
        ([datetime(2024, 5, 1, tzinfo=UTC)], (DATE.replace(tzinfo=UTC),)),
        (pd.period_range("2024-05", periods=1, freq="M"), (pd.Period("2024-05", "M"),)),
        ([date(2024, 5, 1)], (date(2024, 5, 1),)),
        (pd.to_timedelta(["1h"]), (pd.Timedelta("1h"),)),
        (pd.interval_range(0, 1), (pd.Interval(0, 1),)),
        (pd.MultiIndex.from_tuples([("a", 1)]), (("a", 1),)),
        (pd.date_range(ZONED, periods=1), (ZONED,)),
        (pd.MultiIndex.from_tuples([("a", ZONED)]), (("a", ZONED),)),
    ],
)
def test_labels_of_every_kind_are_stored_as_they_are(
    labels: Any, expected: tuple, tmp_path: Path
) -> None:
    x = torch.ones(len(expected), 2)
    explanation = ms.exact_shapley(lambda x, mask: x[:, None] * mask, x).with_labels(labels)
    found = explanation.instances
    assert found == expected
    assert list(map(type, found)) == list(map(type, expected))
    assert explanation.to_frame().index.equals(pd.Index(list(expected)))
    explanation.save(tmp_path / "rows.zarr")
    stored = ms.Explanation.load(tmp_path / "rows.zarr")
    assert stored.instances == expected
    assert stored.index.equals(explanation.index)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (pl.LazyFrame(COLUMNS), "got LazyFrame"),
        ([[1, None]], "but got a list of other things"),
        (sparse.eye_array(3), r"dia_array.*`matrix.toarray\(\)`"),
        (model, "got function"),
    ],
)
def test_what_holds_no_numbers_is_refused(x: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        ms.imputers.MarginalImputer(x)
