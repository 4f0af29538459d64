"""Finds the distinct values of a column, and what each is as a number and as text."""

import numbers as python_numbers
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from manifold_shap._messages import shown
from manifold_shap.tables.forms.base import Codes, Form, is_time


@dataclass(frozen=True)
class Values:
    """Distinct values of a column.

    Attributes:
        name: of the column.
        native: the values in the frame's own library, in the order of their codes.
        cells: the same as pandas has them.
    """

    name: Any
    native: Any
    cells: pd.Series

    def __len__(self) -> int:
        return len(self.cells)

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """Which values are a missing cell: None and NaN are two."""
        return self.cells.isna().to_numpy(dtype=bool)

    @cached_property
    def numbers(self) -> NDArray[np.float64] | None:
        """See `numbers_of`."""
        return numbers_of(self.cells)

    @cached_property
    def labels(self) -> NDArray[Any]:
        """Of each value, as text."""
        return np.array([label_of(value) for value in self.cells], dtype=object)


def values_of(form: Form, name: Any, native: Any) -> Values:
    """Values of a column of a frame of this form."""
    return Values(name, native, form.cells(native).reset_index(drop=True).rename(name))


def distinct(form: Form, name: Any, column: Any) -> tuple[Values, Codes]:
    """The values of a column, and the number of each cell's value, its code.

    Numbers and dates are in increasing order and text in the order of its letters, missing cells
    last.

    >>> from manifold_shap.tables.forms import form_of
    >>> frame = pd.DataFrame({"town": ["Rome", None, "Oslo", "Rome"]})
    >>> values, codes = distinct(form_of(frame), "town", frame["town"])
    >>> values.labels.tolist(), codes.tolist()
    (['Oslo', 'Rome', 'missing'], [1, 2, 0, 1])

    Raises:
        TypeError: lists, dicts or complex numbers.
        ValueError: infinite numbers, or dates in several time zones.
    """
    codes, first = numbered(*form.keys(column))
    found = values_of(form, name, form.take(column, first))
    check_values(found)
    order = _order(found)
    code_of = np.empty(len(order), dtype=np.int64)
    code_of[order] = np.arange(len(order))
    return values_of(form, name, form.take(found.native, order)), code_of[codes]


def numbered(keys: NDArray[Any], missing: NDArray[np.int8]) -> tuple[Codes, Codes]:
    """The number of each cell's value in order of appearance, and the first cell of each value.

    >>> numbered(np.array([5, 0, 7, 5]), np.array([0, 1, 0, 0], dtype=np.int8))
    (array([0, 2, 1, 0]), array([0, 2, 1]))
    """
    codes, absent = np.empty(len(keys), dtype=np.int64), missing > 0
    codes[~absent], known = pd.factorize(keys[~absent])
    kinds, kind = np.unique(missing[absent], return_inverse=True)
    codes[absent] = len(known) + kind
    first = np.empty(len(known) + len(kinds), dtype=np.int64)
    # Written from the last cell to the first, so that the first of each value remains.
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return codes, first


def check_values(values: Values) -> None:
    """Refuse values that no column may hold.

    Raises:
        TypeError: complex numbers.
        ValueError: infinite numbers, or dates in several time zones.
    """
    numbers = values.numbers
    infinite = np.zeros(0, dtype=bool) if numbers is None else np.isinf(numbers)
    if infinite.any():
        raise ValueError(
            f"Expected finite numbers in column {values.name!r} but it holds "
            f"{values.labels[infinite][0]}; correct these cells, or make them missing (NaN)."
        )


def numbers_of(values: pd.Series) -> NDArray[np.float64] | None:
    """The number that each value is to a value function, NaN where missing.

    A date is in days since 1970, a time of day or a duration in seconds, an ordered category its
    rank; text that is written as numbers throughout is these. None for values that are labels.

    >>> numbers_of(pd.Series(pd.to_datetime(["1970-01-03", None])))
    array([ 2., nan])

    Raises:
        TypeError: complex numbers.
        ValueError: dates in several time zones.
    """
    dtype, kind = values.dtype, types.infer_dtype(values, skipna=True)
    if types.is_complex_dtype(dtype) or kind == "complex":
        raise TypeError(
            f"Expected real numbers in column {values.name!r} but it holds complex ones; make "
            "columns of their real and imaginary parts."
        )
    if isinstance(dtype, pd.CategoricalDtype):
        ranks = values.cat.codes.to_numpy().astype(np.float64)
        return np.where(ranks < 0, np.nan, ranks) if dtype.ordered else None
    if types.is_bool_dtype(dtype) or kind == "boolean":
        return None
    if types.is_numeric_dtype(dtype):
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    if kind in ("datetime", "datetime64", "date", "period"):
        return _days(values, kind)
    if kind in ("timedelta", "timedelta64"):
        return np.asarray(pd.to_timedelta(values).dt.total_seconds(), dtype=np.float64)
    if kind == "string":
        return _numerals(values)
    if kind not in (*NUMBERS, "time", "empty"):
        return None
    scalar = _seconds if kind == "time" else float
    pairs = zip(values, values.isna(), strict=True)
    return np.array([np.nan if absent else scalar(value) for value, absent in pairs])


# What pandas calls columns of numbers.
NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal")


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
        # Adding zero turns -0.0 into 0.0, which means the same.
        return np.format_float_positional(value + 0.0, trim="-")
    text = str(value)
    return text.removesuffix(" 00:00:00") if isinstance(value, pd.Timestamp) else text


def _order(values: Values) -> Codes:
    if values.numbers is not None:
        return np.argsort(values.numbers, kind="stable")
    present = np.flatnonzero(~values.missing)
    order = present[np.argsort(values.labels[present].astype(str), kind="stable")]
    return np.append(order, np.flatnonzero(values.missing))


def _days(values: pd.Series, kind: str) -> NDArray[np.float64]:
    present = values.dropna() if values.dtype == object else values[:0]
    zones = {str(value.tzinfo) for value in present if isinstance(value, datetime)}
    if len(zones) > 1:
        raise ValueError(
            f"Expected dates of one time zone in column {values.name!r} but got several, such as "
            f"{shown([str(value) for value in present[:2]])}; convert them first, as by "
            "`pd.to_datetime(column, utc=True)`."
        )
    # Microseconds, so that the year 9999 fits; pandas 2 would convert objects to nanoseconds.
    if kind == "period":
        moments = values.dt.asfreq("us", how="start").array.view("int64").view("M8[us]")
    elif is_time(values.dtype):
        moments = values.dt.tz_convert(None) if values.dt.tz is not None else values
        moments = moments.dt.as_unit("us").to_numpy()
    else:
        pairs = zip(values, values.isna(), strict=True)
        cells = [_moment(None if absent else value) for value, absent in pairs]
        moments = np.array(cells, "M8[us]")
    return np.asarray((moments - np.datetime64(0, "us")) / np.timedelta64(1, "D"), np.float64)


def _moment(value: Any) -> np.datetime64:
    zoned = isinstance(value, datetime) and value.tzinfo is not None
    return np.datetime64(value.astimezone(UTC).replace(tzinfo=None) if zoned else value, "us")


def _seconds(value: Any) -> float:
    return float(value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6)


def _numerals(values: pd.Series) -> NDArray[np.float64] | None:
    """The numbers that text stands for, where all of it does."""
    found = pd.to_numeric(values.astype(object), errors="coerce").to_numpy(np.float64)
    plain = np.isfinite(found) == values.notna().to_numpy()
    return found if plain.all() else None
