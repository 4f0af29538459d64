"""Writes the cells of a frame as numbers and JSON, row by row, and makes the frame again."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from manifold_shap._arrays import pandas_columns
from manifold_shap.tables.plain import from_plain, to_plain


def packed(frame: Any) -> tuple[Float[np.ndarray, "rows numbers"], list[str], list[Any]]:
    """Columns of floats and of yes or no as numbers; all others of a row as a list in JSON.

    >>> numbers, cells, columns = packed(pd.DataFrame({"age": [1.5], "town": ["Oslo"]}))
    >>> numbers.tolist(), cells
    ([[1.5]], ['["Oslo"]'])
    >>> unpacked(numbers, cells, columns)
       age  town
    0  1.5  Oslo

    Returns:
        Numbers, cells, and names and dtypes of the columns as plain data.
    """
    table = pandas_columns(frame)
    columns = [
        {
            "name": _plain(name),
            "dtype": str(dtype),
            "number": isinstance(dtype, np.dtype) and dtype.kind in "fb",
        }
        for name, dtype in zip(frame.columns, table.dtypes, strict=True)
    ]
    number = [bool(column["number"]) for column in columns]
    others = [table.iloc[:, k].tolist() for k, is_number in enumerate(number) if not is_number]
    rows = zip(*others, strict=True) if others else ((),) * len(table)
    cells = [json.dumps([_plain(cell) for cell in row], ensure_ascii=False) for row in rows]
    return table.iloc[:, number].to_numpy(np.float64), cells, columns


def unpacked(
    numbers: Float[np.ndarray, "rows numbers"], cells: Sequence[str], columns: Sequence[Any]
) -> pd.DataFrame:
    """The frame of pandas whose cells `packed` wrote."""
    of_numbers = iter(numbers.T)
    rows = [json.loads(text) for text in cells]
    of_cells = iter([[from_plain(row[k]) for row in rows] for k in range(_count(columns))])
    found = []
    for column in columns:
        own = pd.Series(next(of_numbers) if column["number"] else next(of_cells), dtype=object)
        try:
            found.append(own.astype(column["dtype"]))
        except (ImportError, TypeError, ValueError):  # A dtype of another library.
            found.append(own.infer_objects())
    names = pd.Index([from_plain(column["name"]) for column in columns], tupleize_cols=False)
    return pd.concat(found, axis=1).set_axis(names, axis=1)


def _count(columns: Sequence[Any]) -> int:
    return sum(not column["number"] for column in columns)


def _plain(cell: Any) -> Any:
    """A cell for JSON; as text where it could not be read back."""
    cell = cell.item() if isinstance(cell, np.generic) else cell
    try:
        return to_plain(cell)
    except ValueError:
        return str(cell)
