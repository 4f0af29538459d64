"""Tells the cells of a column apart, and what each is as a number and as text."""

from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

Cells = nw.Series[Any]
Codes = NDArray[np.int64]

# What pandas calls columns of numbers.
NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal")


def numbered(cells: Cells) -> Codes:
    """The number of each cell among the distinct ones, in order of appearance.

    Two cells are one where they are the same bit for bit: -0.0 is not 0.0, None not NaN, True not
    1.

    >>> numbered(nw.from_native(pd.Series(["b", None, 1, "b", True]), series_only=True))
    array([0, 1, 2, 0, 3])

    Raises:
        TypeError: lists or the like.
    """
    native: Any = cells.to_native()
    keys: Any
    missing = cells.is_null().to_numpy()
    of_pandas = isinstance(native, pd.Series)
    if isinstance(cells.dtype, nw.List | nw.Array | nw.Struct | nw.Binary):
        raise _not_single(cells.name, cells.dtype)
    if cells.dtype.is_float():
        numbers = cells.to_numpy().astype(np.float64)
        keys = np.where(np.isnan(numbers), np.nan, numbers).view(np.int64)
    elif of_pandas and native.dtype != object:
        keys = native.sparse.to_dense() if isinstance(native.dtype, pd.SparseDtype) else native
    else:
        moments = not of_pandas and cells.dtype.is_temporal()
        listed = cells.cast(nw.Int64).to_list() if moments else cells.to_list()
        keys = pd.Series(listed, dtype=object).to_numpy(copy=True)
        if of_pandas and types.infer_dtype(keys, skipna=True) != "string":
            keys[:] = [_exactly(cell, cells.name) for cell in keys]
        keys[missing] = [type(cell) for cell in native[missing]] if of_pandas else None
        missing = missing & (not of_pandas)
    codes = pd.factorize(keys)[0]
    codes[missing] = -1
    return pd.factorize(codes, use_na_sentinel=False)[0]


def first_of(codes: Codes) -> Codes:
    """Where each of the cells that `numbered` told apart is first."""
    return np.unique(codes, return_index=True)[1]


def to_pandas(cells: Cells) -> pd.Series:
    """The cells as pandas has them, for people and for arithmetic."""
    native: Any = cells.to_native()
    if isinstance(native, pd.Series):
        sparse = isinstance(native.dtype, pd.SparseDtype)
        dense: pd.Series = cells.to_native().sparse.to_dense() if sparse else native
        return dense.reset_index(drop=True)
    if isinstance(cells.dtype, nw.Enum):
        ranked = pd.Categorical(cells.to_list(), cells.dtype.categories, ordered=True)
        return pd.Series(ranked, name=cells.name)
    return pd.Series(cells.to_list(), name=cells.name)


def numbers_of(cells: pd.Series) -> NDArray[np.float64] | None:
    """The number that each cell is to a value function, NaN where missing.

    A date is in days since 1970, a time of day or a duration in seconds, an ordered category its
    rank, an interval its middle; text that is written as numbers throughout is these. None for
    cells that are labels.

    >>> numbers_of(pd.Series(pd.to_datetime(["1970-01-03", None])))
    array([ 2., nan])

    Raises:
        TypeError: complex numbers.
        ValueError: infinite numbers, or dates of which some alone have a time zone.
    """
    dtype, kind = cells.dtype, types.infer_dtype(cells, skipna=True)
    if isinstance(dtype, pd.CategoricalDtype):
        ranks = cells.cat.codes.to_numpy().astype(np.float64)
        return np.where(ranks < 0, np.nan, ranks) if dtype.ordered else None
    if types.is_bool_dtype(dtype) or kind == "boolean":
        return None
    if isinstance(dtype, pd.IntervalDtype):
        return np.asarray(cells.array.mid, np.float64)
    if kind in ("datetime", "datetime64", "date", "period"):
        return _days(cells, kind)
    if kind in ("timedelta", "timedelta64"):
        return np.asarray(pd.to_timedelta(cells).dt.total_seconds(), dtype=np.float64)
    if kind == "string":
        # All of it numerals, or none of it.
        found = pd.to_numeric(cells.astype(object), errors="coerce").to_numpy(np.float64)
        return found if (np.isfinite(found) == cells.notna()).all() else None
    if kind == "time":
        return np.array([np.nan if cell is None else _seconds(cell) for cell in cells])
    if kind not in (*NUMBERS, "empty") and not types.is_numeric_dtype(dtype):
        return None
    numbers = cells.astype(object).where(cells.notna(), np.nan).to_numpy(np.float64)
    if np.isinf(numbers).any():
        raise ValueError(
            f"Expected finite numbers in column {cells.name!r} but it holds "
            f"{numbers[np.isinf(numbers)][0]}; correct these cells, or make them missing (NaN)."
        )
    return numbers


def label_of(cell: Any) -> str:
    """One spelling per value: 1, 1.0 and numpy's own 1 are all "1".

    >>> label_of(np.float32(1)), label_of(None), label_of(pd.Timestamp("2020-01-02"))
    ('1', 'missing', '2020-01-02')
    """
    if types.is_scalar(cell) and pd.isna(cell):
        return "missing"
    if isinstance(cell, float | np.floating):
        # Adding zero turns -0.0 into 0.0, which means the same.
        return np.format_float_positional(cell + 0.0, trim="-")
    text = str(cell)
    return text.removesuffix(" 00:00:00") if isinstance(cell, pd.Timestamp) else text


def _exactly(cell: Any, name: Any) -> Any:
    if isinstance(cell, list | dict | set | np.ndarray):
        raise _not_single(name, type(cell).__name__)
    return f"{type(cell).__name__} {cell!r}"


def _not_single(name: Any, kind: Any) -> TypeError:
    return TypeError(
        f"Expected single values in column {name!r} but it holds {kind}; make columns of its "
        "elements, or drop it."
    )


def _days(cells: pd.Series, kind: str) -> NDArray[np.float64]:
    if kind == "period":
        moments = cells.dt.to_timestamp()
    else:
        objects = cells.astype(object) if isinstance(cells.dtype, pd.ArrowDtype) else cells
        moments = pd.to_datetime(objects, utc=True).dt.tz_localize(None)
    since = moments.dt.as_unit("us").to_numpy() - np.datetime64(0, "us")
    return np.asarray(since / np.timedelta64(1, "D"), np.float64)


def _seconds(cell: Any) -> float:
    return float(cell.hour * 3600 + cell.minute * 60 + cell.second + cell.microsecond / 1e6)
