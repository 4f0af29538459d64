"""Cells as a person would write them."""

import numpy as np
import pandas as pd
import pytest

from manifold_shap.tables.features import as_text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (70.0, "70"),
        # What float32 makes of 70 in other units.
        (69.9999995, "70"),
        (-3.14159, "-3.142"),
        (-0.0, "0"),
        (1999.25, "1999.25"),
        (12345678.0, "12345678"),
        (np.int64(123456789), "123456789"),
        (np.bool_(True), "True"),
        (pd.Timestamp("1954-03-02"), "1954-03-02"),
        (np.datetime64("1954-03-02T12:30"), "1954-03-02 12:30:00"),
        (pd.Timedelta(days=3), "3 days"),
        ("Rome", "Rome"),
        *((cell, "missing") for cell in (None, np.nan, pd.NaT, pd.NA)),
    ],
)
def test_cells_are_written_as_a_person_would(value: object, said: str) -> None:
    assert as_text(value) == said
