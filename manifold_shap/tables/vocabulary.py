"""Numbers the distinct values of a column: the code of a cell is the place of its value.

Values of the training frame come first, numbers and dates in increasing order and text in the order
of its letters, a missing cell last of them. Later frames append values that are new; the code of a
value never changes.
"""

import numbers as python_numbers
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from manifold_shap._words import shown
from manifold_shap.tables.forms import Codes, Form, unhashable

# Text that is written as numbers is taken for numbers where it has as many distinct values.
_LEAST_NUMERALS = 4


class Vocabulary:
    """The distinct values of a column of a frame.

    Attributes:
        name: of the column.
        native: the values in the frame's own library, in the order of their codes.
        values: the same as pandas has them.
        numbers: of each value, float64, NaN where missing: a date is in days since 1970, a time of
            day or a duration in seconds, an ordered category its rank; None for a column whose
            values are labels.
        labels: of each value, as text.
        missing: the code of a missing cell; None as long as there is none.
        trained: how many codes come from the training frame.
    """

    def __init__(self, form: Form, name: Any, column: Any) -> None:
        """Number the values of a column.

        Raises:
            TypeError: lists, dicts or complex numbers.
            ValueError: infinite numbers, or dates in several time zones.
        """
        self.name, self._form = name, form
        codes, count = form.factorise(column)
        first = np.full(count, -1, dtype=np.int64)
        # Written from the last cell to the first, so that the first of each value remains.
        places = np.flatnonzero(codes >= 0)[::-1]
        first[codes[places]] = places
        self.missing: int | None = None
        if len(places) < len(codes):
            self.missing = count
            first = np.append(first, np.flatnonzero(codes < 0)[0])
        native = form.take(column, first)
        self._set(native)
        order = self._order()
        self._set(form.take(native, order))
        self.trained = len(order)

    def codes(self, column: Any) -> Codes:
        """The code of each cell; values that are new get codes of their own."""
        known = len(self.values)
        joined = self._form.join(self.native, column)
        found, count = self._form.factorise(joined)
        mine, theirs = found[:known], found[known:]
        # Values that are known appear first, in the order of their codes.
        code_of = np.append(np.flatnonzero(mine >= 0), np.zeros(count, dtype=np.int64))[:count]
        old = int((mine >= 0).sum())
        added = np.arange(old, count)
        first = np.full(len(added), -1, dtype=np.int64)
        places = np.flatnonzero(theirs >= old)[::-1]
        first[theirs[places] - old] = places
        code_of[old:] = known + np.arange(len(added))
        absent = theirs < 0
        if absent.any() and self.missing is None:
            self.missing = known + len(added)
            first = np.append(first, np.flatnonzero(absent)[0])
        if len(first):
            self._set(self._form.join(self.native, self._form.take(column, first)))
        return np.where(absent, -1 if self.missing is None else self.missing, code_of[theirs])

    def _set(self, native: Any) -> None:
        values = self._form.values(native).reset_index(drop=True).rename(self.name)
        self.numbers = numbers_of(values)
        self.labels = np.array([label_of(value) for value in values], dtype=object)
        self.native, self.values = native, values

    def _order(self) -> Codes:
        present = np.arange(len(self.values) - (self.missing is not None))
        if self.numbers is None:
            order = np.argsort(self.labels[present].astype(str), kind="stable")
        else:
            order = np.argsort(self.numbers[present], kind="stable")
        return order if self.missing is None else np.append(order, self.missing)


def numbers_of(values: pd.Series) -> NDArray[np.float64] | None:
    """The number that each value is to a value function; None where values are labels.

    >>> numbers_of(pd.Series(pd.to_datetime(["1970-01-03", None])))
    array([ 2., nan])

    Raises:
        TypeError: complex numbers, lists or dicts.
        ValueError: an infinite number, or dates in several time zones.
    """
    dtype, kind = values.dtype, types.infer_dtype(values, skipna=True)
    if types.is_complex_dtype(dtype) or kind == "complex":
        raise TypeError(
            f"Expected real numbers in column {values.name!r} but got complex ones; make columns "
            "of their real and imaginary parts."
        )
    if isinstance(dtype, pd.CategoricalDtype):
        ranks = values.cat.codes.to_numpy().astype(np.float64)
        return np.where(ranks < 0, np.nan, ranks) if dtype.ordered else None
    if types.is_bool_dtype(dtype) or kind == "boolean":
        return None
    if types.is_numeric_dtype(dtype) or kind in ("decimal", "integer", "floating"):
        return _finite(values, _floats(values))
    if kind == "mixed-integer-float":
        return _finite(values, _floats(values))
    if kind in ("datetime", "datetime64", "date"):
        return _days(values)
    if kind in ("timedelta", "timedelta64"):
        return np.asarray(pd.to_timedelta(values).dt.total_seconds(), dtype=np.float64)
    if kind == "time":
        return np.array([_seconds(value) for value in values])
    if kind == "string":
        return _numerals(values)
    odd = next((v for v in values if isinstance(v, list | dict | set | np.ndarray)), None)
    if odd is not None:
        raise unhashable(values.name, odd)
    return None


def label_of(value: Any) -> str:
    """One spelling per value: 1, 1.0 and numpy's own 1 are all "1".

    >>> label_of(np.float32(1)), label_of(None), label_of(pd.Timestamp("2020-01-02"))
    ('1', 'missing', '2020-01-02')
    """
    if value is None or value is pd.NA or value is pd.NaT or value != value:
        return "missing"
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, python_numbers.Integral):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        # Adding zero turns -0.0 into 0.0; pandas holds the two for one value.
        return np.format_float_positional(value + 0.0, trim="-")
    text = str(value)
    return text.removesuffix(" 00:00:00") if isinstance(value, pd.Timestamp) else text


def _floats(values: pd.Series) -> NDArray[np.float64]:
    return np.asarray(pd.to_numeric(values.astype(object)).astype(float), dtype=np.float64)


def _finite(values: pd.Series, found: NDArray[np.float64]) -> NDArray[np.float64]:
    infinite = np.isinf(found)
    if infinite.any():
        raise ValueError(
            f"Expected finite numbers in column {values.name!r} but it holds "
            f"{float(values[infinite].iloc[0])!r}; correct these cells, or make them missing (NaN)."
        )
    return found


def _days(values: pd.Series) -> NDArray[np.float64]:
    present = values.dropna()
    times = [value for value in present if isinstance(value, datetime)]
    zones = {str(value.tzinfo) for value in times} if values.dtype == object else set()
    if len(zones) > 1:
        raise ValueError(
            f"Expected dates of one time zone in column {values.name!r} but got several, such as "
            f"{shown([str(value) for value in present[:2]])}; convert them first, as by "
            "`pd.to_datetime(column, utc=True)`."
        )
    dates = pd.to_datetime(values, utc=True).dt.tz_localize(None)
    return np.asarray((dates - pd.Timestamp(0)) / pd.Timedelta(days=1), dtype=np.float64)


def _seconds(value: Any) -> float:
    if value is None or value != value:
        return np.nan
    return float(value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6)


def _numerals(values: pd.Series) -> NDArray[np.float64] | None:
    """The numbers that text stands for, where all of it does."""
    found = pd.to_numeric(values.astype(object), errors="coerce").to_numpy(np.float64)
    plain = np.isfinite(found) == values.notna().to_numpy()
    return found if plain.all() and len(values) >= _LEAST_NUMERALS else None


def shares(codes: Codes, count: int) -> NDArray[np.float64]:
    """How often each code occurs, as a share of the rows.

    >>> shares(np.array([0, 0, 1, 0]), 3)
    array([0.75, 0.25, 0.  ])
    """
    return np.bincount(codes, minlength=count) / len(codes)


def texts(names: Sequence[Any]) -> tuple[str, ...]:
    """Names of columns as text."""
    return tuple(str(name) for name in names)
