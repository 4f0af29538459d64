"""Orders of feature values: numbers, dates, categories, missing cells and groups of columns."""

import datetime

import numpy as np
import pandas as pd
import pytest

from manifold_shap.plots import ranks

NAN = np.nan


@pytest.mark.parametrize(
    ("column", "numbers"),
    [
        (pd.Series([3.0, None, 1.0]), [3, NAN, 1]),
        (pd.Series([3, None, 1], dtype="Int64"), [3, NAN, 1]),
        (pd.Series([True, False]), [1, 0]),
        (pd.to_datetime(pd.Series(["1970-01-03", None])), [2, NAN]),
        (pd.Series([datetime.date(1970, 1, 2), None]), [1, NAN]),
        (pd.to_datetime(pd.Series(["1970-01-02T06:00+06:00"])), [1]),
        (pd.Series(["no", "yes", None, "no"]), [0, 1, NAN, 0]),
        (pd.Series(["a", "b", "c"]), [NAN, NAN, NAN]),
        (
            pd.Series(pd.Categorical(["mid", "low", None], ["low", "mid"], ordered=True)),
            [1, 0, NAN],
        ),
        (pd.Series(pd.Categorical(["a", "b", "c"])), [NAN, NAN, NAN]),
        (pd.Series(pd.Categorical([2, 1, 3])), [2, 1, 3]),
        (pd.Series([None, None], dtype=object), [NAN, NAN]),
    ],
)
def test_what_has_an_order_becomes_numbers(column: pd.Series, numbers: list[float]) -> None:
    np.testing.assert_allclose(ranks.ordered(column).numbers, numbers)


def test_ranks_lie_between_low_and_high() -> None:
    np.testing.assert_allclose(ranks.rank(np.array([10.0, -3, NAN, 1e9])), [0.5, 0, NAN, 1])
    np.testing.assert_allclose(ranks.rank(np.array([2.0, 2, NAN])), [0.5, 0.5, NAN])
    assert np.isnan(ranks.rank(np.array([2.0]))).all()
    assert np.isnan(ranks.rank(np.array([NAN, NAN]))).all()
