"""Writes the cells of a table as typed JSON, and reads them back exactly."""

import importlib.util
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import torch
from pandas.api import types

from manifold_shap.tables.column import Column
from manifold_shap.tables.distinct import Cells
from manifold_shap.tables.encoding import Encoding
from manifold_shap.tables.frames import FrameAdapter, joined
from manifold_shap.tables.plain import from_plain, to_plain


def column_state(column: Column) -> dict[str, Any]:
    """A column as numbers, text and lists.

    Raises:
        ValueError: a dtype or cells that cannot be written.
    """
    trained = len(column.counts)
    parts = column.take(np.arange(trained)), column.cells[trained:]
    return {
        "name": to_plain(column.name),
        "cells": _cells_state(parts[0]),
        "later": _cells_state(parts[1]) if len(parts[1]) else None,
        "counts": column.counts.tolist(),
        "encoding": asdict(column.encoding),
    }


def column_from(state: Mapping[str, Any]) -> Column:
    """The column whose state this is."""
    name, counts = from_plain(state["name"]), np.array(state["counts"], dtype=np.int64)
    categories = tuple(state["encoding"]["categories"])
    encoding = Encoding(**{**state["encoding"], "categories": categories})
    cells = trained = _cells_from(state["cells"])
    if state["later"]:
        cells = joined(trained, _cells_from(state["later"]))
    return Column(name, trained[:0], cells, counts, encoding)


def adapter_state(adapter: FrameAdapter) -> dict[str, Any]:
    """The kind of rows as numbers, text and lists; ValueError where it cannot be written."""
    plain: dict[str, Any] = {"library": adapter.library, "header": list(adapter.header)}
    if adapter.tensor is not None:
        plain["tensor"] = str(adapter.tensor).removeprefix("torch.")
    if isinstance(adapter.header, pd.Index):
        plain["header"] = [to_plain(name) for name in adapter.header]
        plain["levels"] = [to_plain(name) for name in adapter.header.names]
        plain["dtype"] = _dtype_state(adapter.header.dtype)
    return plain


def adapter_from(state: Mapping[str, Any]) -> FrameAdapter:
    """The adapter whose state this is."""
    header: Any = [from_plain(name) for name in state["header"]]
    if "levels" in state:
        levels = [from_plain(name) for name in state["levels"]]
        if len(levels) > 1:
            header = pd.MultiIndex.from_tuples(header, names=levels)
        else:
            dtype = _dtype_from(state["dtype"])
            header = pd.Index(header, dtype=dtype, name=levels[0], tupleize_cols=False)
    tensor = getattr(torch, state["tensor"]) if "tensor" in state else None
    return FrameAdapter(state["library"], header, tensor)


def _cells_state(cells: Cells) -> dict[str, Any]:
    native = cells.to_native()
    if isinstance(native, pd.Series):
        return {"dtype": _dtype_state(native.dtype), "cells": _pandas_cells(native)}
    if cells.dtype.is_temporal():
        return {"narwhals": _narwhals_dtype(cells), "cells": cells.cast(nw.Int64).to_list()}
    plain = [to_plain(cell) for cell in cells.to_list()]
    return {"narwhals": _narwhals_dtype(cells), "cells": plain}


def _cells_from(state: Mapping[str, Any]) -> Cells:
    if "narwhals" not in state:
        native = _pandas_from(_dtype_from(state["dtype"]), state["cells"])
        return nw.from_native(native, series_only=True)
    settings = dict(state["narwhals"])
    dtype = getattr(nw, settings.pop("name"))
    # A file names dtypes, and nothing else that could be called.
    if not (isinstance(dtype, type) and issubclass(dtype, nw.dtypes.DType)):
        raise ValueError(f"Expected a dtype of narwhals but got {dtype!r:.60}.")
    if issubclass(dtype, nw.Unknown):
        return nw.new_series("", state["cells"], backend="polars")
    if dtype(**settings).is_temporal():
        return nw.new_series("", state["cells"], nw.Int64, backend="polars").cast(dtype(**settings))
    cells = [from_plain(entry) for entry in state["cells"]]
    return nw.new_series("", cells, dtype(**settings), backend="polars")


def _narwhals_dtype(cells: Cells) -> dict[str, Any]:
    if cells.implementation is not nw.Implementation.POLARS:
        raise ValueError(
            "Expected a frame of pandas or polars, or an array, to write but got one of "
            f"{cells.implementation}; convert it to pandas before training."
        )
    names = ("time_unit", "time_zone", "categories", "precision", "scale")
    settings = {name: getattr(cells.dtype, name) for name in names if hasattr(cells.dtype, name)}
    if "categories" in settings:
        settings["categories"] = list(settings["categories"])
    return {"name": type(cells.dtype).__name__, **settings}


def _is_time(dtype: Any) -> bool:
    """Whether pandas has whole numbers for these moments, durations or periods."""
    timed = types.is_datetime64_any_dtype(dtype) or types.is_timedelta64_dtype(dtype)
    return not isinstance(dtype, pd.ArrowDtype) and (timed or isinstance(dtype, pd.PeriodDtype))


def _pandas_cells(column: pd.Series) -> list[Any]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.tolist()
    if _is_time(column.dtype):
        return column.array.view("int64").tolist()
    return [to_plain(cell) for cell in column.astype(object).tolist()]


def _pandas_from(dtype: Any, entries: list[Any]) -> pd.Series:
    if isinstance(dtype, pd.CategoricalDtype):
        return pd.Series(pd.Categorical.from_codes(entries, dtype=dtype))
    if isinstance(dtype, pd.PeriodDtype):
        periods: Any = pd.PeriodIndex
        return pd.Series(periods.from_ordinals(entries, freq=dtype.freq))
    if _is_time(dtype):
        return pd.Series(np.array(entries, dtype=np.int64)).astype(dtype)
    cells = [from_plain(entry) for entry in entries]
    if not isinstance(dtype, np.dtype):
        return pd.Series(pd.array(cells, dtype=dtype))
    array = np.empty(len(cells), dtype)
    array[:] = cells
    return pd.Series(array, dtype=dtype)


def _dtype_state(dtype: Any) -> Any:
    """A dtype as text, or as a dict where text does not say all of it."""
    if isinstance(dtype, pd.CategoricalDtype):
        categories = pd.Series(dtype.categories)
        written = {"cells": _pandas_cells(categories), "dtype": _dtype_state(categories.dtype)}
        return {"categories": written, "ordered": bool(dtype.ordered)}
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
        cells = _pandas_from(
            _dtype_from(state["categories"]["dtype"]), state["categories"]["cells"]
        )
        return pd.CategoricalDtype(pd.Index(cells, dtype=cells.dtype), state["ordered"])
    if "sparse" in state:
        return pd.SparseDtype(_dtype_from(state["sparse"]), from_plain(state["fill"]))
    # What was written where pyarrow is installed is read where it is not.
    has_arrow = importlib.util.find_spec("pyarrow") is not None
    storage = state["storage"] if has_arrow else "python"
    return pd.StringDtype(storage, from_plain(state["missing"]))
