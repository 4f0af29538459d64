"""Reads data frames of pandas as tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from manifold_shap._checks import check_distinct
from manifold_shap._messages import shown
from manifold_shap.tables.forms.base import (
    Codes,
    Form,
    Keys,
    check_columns,
    is_time,
    keys_of,
    other_dtype,
    other_library,
)
from manifold_shap.tables.plain import cells_from_plain, from_plain, to_plain


class PandasForm(Form):
    """A data frame of pandas."""

    def __init__(self, header: pd.Index, dtypes: Sequence[Any]) -> None:
        check_distinct(header, "column names", "rename or drop the copies")
        self.header, self.columns, self.dtypes = header, tuple(header), tuple(dtypes)

    @classmethod
    def of(cls, frame: pd.DataFrame) -> "PandasForm":
        return cls(frame.columns, list(frame.dtypes))

    def read(self, frame: Any) -> list[pd.Series]:
        if not isinstance(frame, pd.DataFrame):
            raise other_library("pandas", frame)
        check_distinct(frame.columns, "column names", "rename or drop the copies")
        check_columns(list(frame.columns), self.columns)
        place = {name: k for k, name in enumerate(frame.columns)}
        pairs = zip(self.columns, self.dtypes, strict=True)
        return [_as_dtype(frame.iloc[:, place[name]], dtype) for name, dtype in pairs]

    def build(self, columns: Sequence[Any]) -> pd.DataFrame:
        frame = pd.DataFrame(dict(enumerate(columns)), copy=False)
        frame.columns = self.header
        return frame

    def take(self, column: pd.Series, places: Codes) -> pd.Series:
        # Without its dtype pandas would make text of objects that are text by chance.
        return pd.Series(column.array.take(places), dtype=column.dtype, copy=False)

    def join(self, column: pd.Series, more: pd.Series) -> pd.Series:
        return pd.concat([column, more], ignore_index=True)

    def keys(self, column: pd.Series) -> Keys:
        return keys_of(column)

    def cells(self, column: pd.Series) -> pd.Series:
        return column

    def to_dict(self) -> dict[str, Any]:
        return {
            "library": "pandas",
            "levels": [to_plain(name) for name in self.header.names],
            "header": _dtype_to_plain(self.header.dtype),
            "columns": [to_plain(name) for name in self.columns],
            "dtypes": [_dtype_to_plain(dtype) for dtype in self.dtypes],
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "PandasForm":
        """The form that `to_dict` wrote."""
        columns, names = cells_from_plain(plain["columns"]), cells_from_plain(plain["levels"])
        if len(names) > 1:
            header: pd.Index = pd.MultiIndex.from_tuples(columns, names=names)
        else:
            dtype = _dtype_from_plain(plain["header"])
            header = pd.Index(columns, dtype=dtype, name=names[0], tupleize_cols=False)
        return cls(header, [_dtype_from_plain(dtype) for dtype in plain["dtypes"]])

    def store(self, column: pd.Series) -> list[Any]:
        return _store(column)

    def restore(self, name: Any, cells: list[Any]) -> pd.Series:
        return _restore(self.dtypes[self.columns.index(name)], cells)


def _store(column: pd.Series) -> list[Any]:
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return column.cat.codes.tolist()
    if is_time(dtype):
        return column.array.view("int64").tolist()
    return [to_plain(cell) for cell in column.tolist()]


def _restore(dtype: Any, entries: list[Any]) -> pd.Series:
    if isinstance(dtype, pd.CategoricalDtype):
        return pd.Series(pd.Categorical.from_codes(entries, dtype=dtype))
    if isinstance(dtype, pd.PeriodDtype):
        periods: Any = pd.PeriodIndex
        return pd.Series(periods.from_ordinals(entries, freq=dtype.freq))
    if is_time(dtype):
        return pd.Series(np.array(entries, dtype=np.int64)).astype(dtype)
    cells = cells_from_plain(entries)
    if isinstance(dtype, np.dtype):
        array = np.empty(len(cells), dtype)
        array[:] = cells
        return pd.Series(array, dtype=dtype)
    return pd.Series(pd.array(cells, dtype=dtype))


def _dtype_to_plain(dtype: Any) -> Any:
    """A dtype as text, or as a dict where text does not say all of it."""
    if isinstance(dtype, pd.CategoricalDtype):
        categories = pd.Series(dtype.categories)
        return {
            "categories": _store(categories),
            "dtype": _dtype_to_plain(categories.dtype),
            "ordered": bool(dtype.ordered),
        }
    if isinstance(dtype, pd.StringDtype):
        return {"storage": dtype.storage, "missing": to_plain(dtype.na_value)}
    try:
        # Of text, pandas has other dtypes with the names of Arrow's.
        known = types.pandas_dtype(str(dtype)) == dtype and not isinstance(dtype, pd.ArrowDtype)
    except (TypeError, NotImplementedError):
        known = False
    if not known:
        raise ValueError(
            f"Expected a dtype that can be written but got {dtype}; convert the column to numbers, "
            "text or dates, those of Arrow by `convert_dtypes(dtype_backend='numpy_nullable')`."
        )
    return str(dtype)


def _dtype_from_plain(plain: Any) -> Any:
    if isinstance(plain, str):
        return types.pandas_dtype(plain)
    if "categories" in plain:
        cells = _restore(_dtype_from_plain(plain["dtype"]), plain["categories"])
        return pd.CategoricalDtype(pd.Index(cells, dtype=cells.dtype), plain["ordered"])
    return pd.StringDtype(plain["storage"], from_plain(plain["missing"]))


def _as_dtype(column: pd.Series, dtype: Any) -> pd.Series:
    """A column in the dtype of training, where no cell changes by that."""
    if column.dtype == dtype:
        return column
    present = column.notna()
    if isinstance(dtype, pd.CategoricalDtype):
        odd = column[present & ~column.isin(dtype.categories)]
        if len(odd):
            raise ValueError(
                f"Column {column.name!r} holds {odd.iloc[0]!r}, which is none of the categories of "
                f"its dtype in training, {shown(list(dtype.categories))}; a model that knows only "
                "these cannot be asked about others."
            )
        return column.astype(dtype)
    alike = (types.is_numeric_dtype, types.is_string_dtype, types.is_datetime64_any_dtype)
    fits = any(kind(column.dtype) and kind(dtype) for kind in alike)
    # One row of a frame is often of dtype object, and one without a text of float.
    if not (fits or column.dtype == object or not present.any()):
        raise other_dtype(column.name, dtype, column.dtype)
    try:
        converted = column.astype(dtype)
        back = converted.astype(column.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise other_dtype(column.name, dtype, column.dtype) from error
    same = (back == column)[present].all() and converted.notna().equals(present)
    if not same:
        raise other_dtype(column.name, dtype, column.dtype)
    return converted
