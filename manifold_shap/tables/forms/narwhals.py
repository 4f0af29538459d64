"""Reads frames of polars, and of the other libraries that narwhals knows, as tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from manifold_shap.tables.forms.base import (
    Codes,
    Form,
    Keys,
    check_columns,
    float_keys,
    other_dtype,
    other_library,
)
from manifold_shap.tables.plain import cells_from_plain, to_plain

_WIDE = (nw.Int128, nw.UInt128)
_NESTED = (nw.List, nw.Array, nw.Struct, nw.Binary, nw.Object)


class NarwhalsForm(Form):
    """A frame of polars, or of another library that narwhals knows."""

    def __init__(self, library: Any, schema: Mapping[str, Any]) -> None:
        self.library, self.schema = library, dict(schema)
        self.columns = tuple(self.schema)

    @classmethod
    def of(cls, frame: Any) -> "NarwhalsForm":
        known = nw.from_native(frame, eager_only=True)
        return cls(known.implementation, known.schema)

    def read(self, frame: Any) -> list[nw.Series[Any]]:
        try:
            known = nw.from_native(frame, eager_only=True)
        except TypeError:
            known = None
        if known is None or known.implementation is not self.library:
            raise other_library(str(self.library.name).lower(), frame)
        check_columns(known.columns, self.columns)
        return [_as_dtype(known[name], dtype) for name, dtype in self.schema.items()]

    def build(self, columns: Sequence[nw.Series[Any]]) -> Any:
        named = zip(self.columns, columns, strict=True)
        parts = [column.alias(name).to_frame() for name, column in named]
        return nw.concat(parts, how="horizontal").to_native()

    def take(self, column: nw.Series[Any], places: Codes) -> nw.Series[Any]:
        return column[places]

    def join(self, column: nw.Series[Any], more: nw.Series[Any]) -> nw.Series[Any]:
        parts = [part.alias("column").to_frame() for part in (column, more)]
        return nw.concat(parts)["column"]

    def keys(self, column: nw.Series[Any]) -> Keys:
        dtype, missing = column.dtype, column.is_null().to_numpy().astype(np.int8)
        if isinstance(dtype, _NESTED):
            raise TypeError(
                f"Expected single values in column {column.name!r} but it holds {dtype}; make "
                "columns of its elements, or drop it."
            )
        if dtype.is_float():
            return float_keys(column.fill_null(0.0).to_numpy().astype(np.float64), missing)
        if missing.all():
            return np.zeros(len(missing), dtype=np.int64), missing
        if dtype.is_temporal() or isinstance(dtype, nw.Boolean):
            return column.cast(nw.Int64).fill_null(0).to_numpy(), missing
        if dtype.is_integer() and not isinstance(dtype, _WIDE):
            wide = nw.UInt64 if dtype.is_unsigned_integer() else nw.Int64
            return column.cast(wide).fill_null(0).to_numpy(), missing
        # As a list: arrays of text cut off zero characters at the end.
        text = column.cast(nw.String).fill_null("").to_list()
        return np.array(text, dtype=object), missing

    def cells(self, column: nw.Series[Any]) -> pd.Series:
        dtype, cells = column.dtype, column.to_list()
        if dtype.is_float() or (dtype.is_integer() and None not in cells):
            return pd.Series(column.to_numpy())
        if dtype.is_integer() and not isinstance(dtype, _WIDE):
            nullable: Any = type(dtype).__name__
            return pd.Series(cells, dtype=nullable)
        if isinstance(dtype, nw.Enum):
            return pd.Series(pd.Categorical(cells, dtype.categories, ordered=True))
        if isinstance(dtype, nw.Datetime | nw.Duration):
            found: Any = pd.Series(column.to_numpy())
            zone = getattr(dtype, "time_zone", None)
            return found.dt.tz_localize("UTC").dt.tz_convert(zone) if zone else found
        return pd.Series(cells, dtype=object)

    def to_dict(self) -> dict[str, Any]:
        if self.library is not nw.Implementation.POLARS:
            raise ValueError(
                "Expected a frame of pandas or polars, or an array, to write but got one of "
                f"{str(self.library.name).lower()}; convert it to pandas before training."
            )
        dtypes = [_written(dtype) for dtype in self.schema.values()]
        return {"library": "polars", "columns": list(self.columns), "dtypes": dtypes}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "NarwhalsForm":
        """The form that `to_dict` wrote; ImportError without polars."""
        import polars  # noqa: F401

        dtypes = [_read(dtype) for dtype in plain["dtypes"]]
        schema = dict(zip(plain["columns"], dtypes, strict=True))
        return cls(nw.Implementation.POLARS, schema)

    def store(self, column: nw.Series[Any]) -> list[Any]:
        if column.dtype.is_temporal():
            return column.cast(nw.Int64).to_list()
        return [to_plain(cell) for cell in column.to_list()]

    def restore(self, name: str, cells: list[Any]) -> nw.Series[Any]:
        dtype = self.schema[name]
        if isinstance(dtype, nw.Unknown):
            return nw.new_series(name, cells, backend=self.library)
        if dtype.is_temporal():
            return nw.new_series(name, cells, nw.Int64, backend=self.library).cast(dtype)
        return nw.new_series(name, cells_from_plain(cells), dtype, backend=self.library)


def _written(dtype: Any) -> dict[str, Any]:
    """A dtype as numbers, text and lists."""
    parts: dict[str, Any] = {}
    if isinstance(dtype, nw.Datetime):
        parts = {"time_unit": dtype.time_unit, "time_zone": dtype.time_zone}
    elif isinstance(dtype, nw.Duration):
        parts = {"time_unit": dtype.time_unit}
    elif isinstance(dtype, nw.Enum):
        parts = {"categories": list(dtype.categories)}
    elif isinstance(dtype, nw.Decimal):
        parts = {"precision": dtype.precision, "scale": dtype.scale}
    return {"name": type(dtype).__name__, **parts}


def _read(plain: Mapping[str, Any]) -> Any:
    """The dtype that `_written` wrote."""
    parts = {key: entry for key, entry in plain.items() if key != "name"}
    kind = getattr(nw, plain["name"])
    # A file names dtypes, and nothing else that could be called.
    if not (isinstance(kind, type) and issubclass(kind, nw.dtypes.DType)):
        raise ValueError(f"Expected a dtype of narwhals but got {plain['name']!r:.60}.")
    return kind(**parts)


def _as_dtype(column: nw.Series[Any], dtype: Any) -> nw.Series[Any]:
    """A column in the dtype of training, where no cell changes by that."""
    found = column.dtype
    if found == dtype:
        return column
    missing = column.is_null()
    texts = (nw.String, nw.Categorical, nw.Enum)
    fits = (
        (found.is_numeric() and dtype.is_numeric())
        or (isinstance(found, texts) and isinstance(dtype, texts))
        or (isinstance(found, nw.Datetime | nw.Date) and isinstance(dtype, nw.Datetime))
    )
    if missing.all():
        return nw.new_series(
            column.name, [None] * len(column), dtype, backend=column.implementation
        )
    if not fits:
        raise other_dtype(column.name, dtype, found)
    try:
        converted = column.cast(dtype)
        same = bool((converted.cast(found) == column).fill_null(True).all())
    except Exception as error:  # Each library raises its own.
        raise other_dtype(column.name, dtype, found) from error
    if not same or (converted.is_null() != missing).any():
        raise other_dtype(column.name, dtype, found)
    return converted
