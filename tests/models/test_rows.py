"""Frames, arrays and tensors are made each other without a change of their cells."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifold_shap.models.rows import (
    as_array,
    in_fitted_order,
    with_categories,
)

ROWS = 4
COLUMNS: dict[str, list[Any]] = {
    "whole": [1, 2, None, 2**40],
    "real": [0.1, None, 1e300, -0.0],
    "flag": [True, None, False, True],
    "word": ["a", None, "ø", ""],
}


def frames(**columns: list[Any]) -> list[Any]:
    """Of pandas with its nullable types, and of polars."""
    types = {"whole": "Int64", "real": "float64", "flag": "boolean", "word": "str"}
    own = {name: pd.Series(cells, dtype=types[name]) for name, cells in columns.items()}
    return [pd.DataFrame(own), pl.DataFrame(columns)]


@pytest.mark.parametrize("kind", [0, 1])
def test_missing_numbers_are_nan(kind: int) -> None:
    numbers = {name: COLUMNS[name] for name in ("whole", "real", "flag")}
    expected = [[1, 0.1, 1], [2, np.nan, np.nan], [np.nan, 1e300, 0], [2**40, -0.0, 1]]
    found = as_array(frames(**numbers)[kind])
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", [0, 1])
def test_text_makes_an_array_of_objects(kind: int) -> None:
    found = as_array(frames(**COLUMNS)[kind])
    assert found.dtype == object
    assert found[0].tolist() == [1.0, 0.1, 1.0, "a"]
    assert pd.isna(found[1, 3])


@given(st.lists(st.integers(-(2**50), 2**50), min_size=1, max_size=5))
def test_whole_numbers_stay_whole(cells: list[int]) -> None:
    for frame in (pd.DataFrame({"a": cells}), pl.DataFrame({"a": cells})):
        assert as_array(frame).tolist() == [[cell] for cell in cells]
        assert as_array(frame).dtype.kind == "i"


@pytest.mark.parametrize("kind", [0, 1])
def test_only_text_becomes_categories(kind: int) -> None:
    frame = frames(**COLUMNS)[kind]
    made = with_categories(frame)
    assert str(made["word"].dtype).lower().startswith("categor")
    assert made["whole"].dtype == frame["whole"].dtype
    plain = frame[["whole"]]
    assert with_categories(plain) is plain


@pytest.mark.parametrize("kind", [0, 1])
def test_columns_are_ordered_and_kept(kind: int) -> None:
    frame = frames(**COLUMNS)[kind]
    turned = in_fitted_order(frame, ["word", "real", "whole", "flag"], "the model")
    assert list(turned.columns) == ["word", "real", "whole", "flag"]
    assert turned["word"].equals(frame["word"])
    assert in_fitted_order(frame, None, "the model") is frame
    assert in_fitted_order(frame, list(COLUMNS), "the model") is frame
    numbered = pd.DataFrame([[1, 2]])
    assert in_fitted_order(numbered, ["0", "1"], "the model") is numbered


@pytest.mark.parametrize(
    ("fitted", "columns"),
    [
        (["a*b", "a/b", "c"], ["c", "a/b", "a*b"]),
        (["a_*_b", "a_/_b"], ["a / b", "a * b"]),
        (["a_b", "a b"], ["a b", "a_b"]),
        (["a_b", "a*b"], ["a*b", "a/b"]),
        (["temp_(C)", "temp_[C]", "temp_C_"], ["temp [C]", "temp_C_", "temp (C)"]),
    ],
)
def test_names_that_differ_in_special_characters_stay_apart(
    fitted: list[str], columns: list[str]
) -> None:
    frame = pd.DataFrame([range(len(columns))], columns=columns)
    found = list(in_fitted_order(frame, fitted, "trees").columns)
    assert sorted(found) == sorted(columns)
    for name, column in zip(fitted, found, strict=True):
        assert column == name or column.replace(" ", "_").replace("/", "_") == name.replace(
            "/", "_"
        )
    with pytest.raises(ValueError, match=r"'a\?b'\] besides"):
        in_fitted_order(frame.assign(**{"a?b": 0}), fitted, "trees")
