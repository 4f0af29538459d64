"""Frames, arrays and tensors are made each other without a change of their cells."""

from typing import Any

import pandas as pd
import polars as pl
import pytest

from manifold_shap.models.rows import (
    in_fitted_order,
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
