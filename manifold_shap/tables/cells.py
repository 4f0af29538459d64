"""Writes the cells of a frame as typed JSON, and reads them back exactly."""

import importlib.util
import io
import json
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from pandas.api import types

from manifold_shap._arrays import pandas_columns
from manifold_shap.tables.distinct import Cells

# How cells of other types than JSON's are written and read, by the name that stands beside them.
_KINDS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "float": (str, float),
    "Decimal": (str, Decimal),
    **{kind.__name__: (kind.isoformat, kind.fromisoformat) for kind in (date, time, datetime)},
    "Timestamp": (
        lambda moment: [moment.isoformat(), moment.tz and str(moment.tz)],
        lambda entry: (
            pd.Timestamp(entry[0]).tz_convert(entry[1]) if entry[1] else pd.Timestamp(entry[0])
        ),
    ),
    "Timedelta": (pd.Timedelta.isoformat, pd.Timedelta),
    "Period": (
        lambda period: [period.ordinal, period.freqstr],
        lambda entry: pd.Period(ordinal=entry[0], freq=entry[1]),
    ),
    "NaTType": (str, lambda _: pd.NaT),
    "NAType": (str, lambda _: pd.NA),
    "tuple": (
        lambda cells: [to_plain(cell) for cell in cells],
        lambda entries: tuple(from_plain(entry) for entry in entries),
    ),
    "Interval": (
        lambda cell: [to_plain(cell.left), to_plain(cell.right), cell.closed],
        lambda entry: pd.Interval(from_plain(entry[0]), from_plain(entry[1]), entry[2]),
    ),
}


def to_plain(cell: Any) -> Any:
    """A cell as numbers, text and lists.

    >>> to_plain(1.5), to_plain(date(2020, 1, 2)), to_plain(Decimal("1.10")), to_plain(pd.NA)
    (1.5, {'date': '2020-01-02'}, {'Decimal': '1.10'}, {'NAType': '<NA>'})

    Raises:
        ValueError: a cell of another type, or that would be read as another one.
    """
    if type(cell) in (type(None), bool, int, str) or (type(cell) is float and np.isfinite(cell)):
        return cell
    if isinstance(cell, np.generic):
        kind, written = cell.dtype.str, to_plain(cell.item())
    else:
        kind = type(cell).__name__
        written = _KINDS[kind][0](cell) if kind in _KINDS else None
    entry = {kind: written}
    if written is None or repr(from_plain(entry)) != repr(cell):
        raise ValueError(
            "Expected cells that can be written (numbers, text, dates, decimals) but got "
            f"{cell!r:.60} ({kind}); convert the column to text or dates."
        )
    return entry


def from_plain(entry: Any) -> Any:
    """The cell that `to_plain` wrote.

    >>> from_plain({"Decimal": "1.10"})
    Decimal('1.10')
    """
    if not isinstance(entry, dict):
        return entry
    ((kind, written),) = entry.items()
    return _KINDS[kind][1](written) if kind in _KINDS else np.dtype(kind).type(from_plain(written))


def cells_state(cells: Cells) -> Any:
    """A column as numbers, text and lists; of polars, the bytes that it writes itself.

    Raises:
        ValueError: a dtype or cells that cannot be written.
    """
    native = cells.to_native()
    if isinstance(native, pd.Series):
        plain = native.astype(object).tolist()
        kinds = {*map(type, plain)}
        # Most columns hold what JSON has itself, and no cell of these needs to be looked at.
        if not (kinds <= {int, str} or (kinds == {float} and np.isfinite(plain).all())):
            plain = [to_plain(cell) for cell in plain]
        return {"dtype": _dtype_state(native.dtype), "cells": plain}
    written = io.BytesIO()
    native.to_frame().write_ipc(written)
    return list(written.getvalue())


def cells_from(state: Any) -> Cells:
    """The column whose `cells_state` this is."""
    if isinstance(state, list):
        import polars as pl

        return nw.from_native(pl.read_ipc(io.BytesIO(bytes(state))).to_series(), series_only=True)
    cells = pd.Series([from_plain(entry) for entry in state["cells"]], dtype=object)
    return nw.from_native(cells.astype(_dtype_from(state["dtype"])), series_only=True)


def packed(frame: Any) -> tuple[list[str], list[Any]]:
    """The cells of each row as a list in JSON, and names and dtypes of the columns.

    A cell that cannot be written becomes text.

    >>> cells, columns = packed(pd.DataFrame({"age": [1.5], "town": ["Oslo"]}))
    >>> cells
    ['[1.5, "Oslo"]']
    >>> unpacked(cells, columns)
       age  town
    0  1.5  Oslo
    """
    table = pandas_columns(frame)
    dtypes = zip(frame.columns, table.dtypes, strict=True)
    columns = [{"name": _plain(name), "dtype": str(dtype)} for name, dtype in dtypes]
    lists = [table.iloc[:, k].astype(object).tolist() for k in range(table.shape[1])]
    rows = zip(*lists, strict=True)
    return [json.dumps([*map(_plain, row)], ensure_ascii=False) for row in rows], columns


def unpacked(cells: Sequence[str], columns: Sequence[Any]) -> pd.DataFrame:
    """The frame of pandas whose cells `packed` wrote."""
    rows = [[from_plain(entry) for entry in json.loads(text)] for text in cells]
    found = []
    for k, column in enumerate(columns):
        own = pd.Series([row[k] for row in rows], dtype=object)
        try:
            found.append(own.astype(column["dtype"]))
        except (ImportError, TypeError, ValueError):  # A dtype of another library.
            found.append(own.infer_objects())
    names = pd.Index([from_plain(column["name"]) for column in columns], tupleize_cols=False)
    return pd.concat(found, axis=1).set_axis(names, axis=1)


def _plain(cell: Any) -> Any:
    try:
        return to_plain(cell)
    except ValueError:
        return str(cell)


def _dtype_state(dtype: Any) -> Any:
    """A dtype as text, or as a dict where text does not say all of it."""
    if isinstance(dtype, pd.CategoricalDtype):
        categories = nw.from_native(pd.Series(dtype.categories), series_only=True)
        return {"categories": cells_state(categories), "ordered": bool(dtype.ordered)}
    if isinstance(dtype, pd.StringDtype):
        return {"storage": dtype.storage, "missing": to_plain(dtype.na_value)}
    if isinstance(dtype, pd.SparseDtype):
        return {"sparse": _dtype_state(dtype.subtype), "fill": to_plain(dtype.fill_value)}
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


def _dtype_from(state: Any) -> Any:
    if isinstance(state, str):
        return types.pandas_dtype(state)
    if "categories" in state:
        categories = cells_from(state["categories"]).to_native()
        index = pd.Index(categories, dtype=categories.dtype)
        return pd.CategoricalDtype(index, state["ordered"])
    if "sparse" in state:
        return pd.SparseDtype(_dtype_from(state["sparse"]), from_plain(state["fill"]))
    # What was written where pyarrow is installed is read where it is not.
    has_arrow = importlib.util.find_spec("pyarrow") is not None
    storage = state["storage"] if has_arrow else "python"
    return pd.StringDtype(storage, from_plain(state["missing"]))
