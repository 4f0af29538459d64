"""Columns are matched by the names that a model was fitted to."""

import pandas as pd
import pytest

from manifold_shap.models.rows import in_fitted_order


@pytest.mark.parametrize(
    ("fitted", "columns"),
    [
        (["a_*_b", "a_/_b"], ["a / b", "a * b"]),
        (["a_b", "a b"], ["a b", "a_b"]),
        (["a___b", "a_-_b"], ["a - b", "a _ b"]),
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
