"""Reads arrays, tensors and lists of rows as tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from manifold_shap.tables.forms.base import Codes, Form, Keys, keys_of, other_dtype
from manifold_shap.tables.plain import cells_from_plain, cells_to_plain


class ArrayForm(Form):
    """An array of numpy, a tensor, or a list of rows, of two axes.

    A model sees an array, or a tensor of the same dtype. Columns are named x0, x1, ...
    """

    def __init__(self, count: int, dtype: np.dtype[Any], tensor: torch.dtype | None) -> None:
        self.columns = tuple(f"x{k}" for k in range(count))
        self.dtype, self.tensor = dtype, tensor

    @classmethod
    def of(cls, rows: Any) -> "ArrayForm":
        array = _array(rows)
        return cls(array.shape[1], array.dtype, rows.dtype if isinstance(rows, Tensor) else None)

    def read(self, frame: Any) -> list[NDArray[Any]]:
        if not isinstance(frame, np.ndarray | Tensor | list | tuple):
            raise TypeError(
                "Expected an array, a tensor or a list of rows, as in training, but got "
                f"{type(frame).__name__}; `frame.to_numpy()` makes an array of a data frame."
            )
        array, dtype = _array(frame), self.dtype
        if array.shape[1] != len(self.columns):
            raise ValueError(
                f"Expected rows of {len(self.columns)} columns, as in training, but got shape "
                f"{array.shape}."
            )
        if array.dtype != dtype and not np.can_cast(array.dtype, dtype, "same_kind"):
            raise other_dtype("of the array", dtype, array.dtype)
        return list(array.astype(dtype, copy=False).T)

    def build(self, columns: Sequence[NDArray[Any]]) -> Any:
        array = np.empty((len(columns[0]), len(columns)), self.dtype)
        for place, column in zip(array.T, columns, strict=True):
            place[:] = column
        return array if self.tensor is None else torch.from_numpy(array).to(self.tensor)

    def take(self, column: NDArray[Any], places: Codes) -> NDArray[Any]:
        return column[places]

    def join(self, column: NDArray[Any], more: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([column, more])

    def keys(self, column: NDArray[Any]) -> Keys:
        return keys_of(pd.Series(column, copy=False))

    def cells(self, column: NDArray[Any]) -> pd.Series:
        return pd.Series(column, dtype=object if column.dtype == object else None, copy=False)

    def to_dict(self) -> dict[str, Any]:
        tensor = None if self.tensor is None else str(self.tensor).removeprefix("torch.")
        columns = len(self.columns)
        return {"library": "array", "columns": columns, "dtype": self.dtype.str, "tensor": tensor}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "ArrayForm":
        """The form that `to_dict` wrote."""
        tensor = None if plain["tensor"] is None else _TENSORS[plain["tensor"]]
        return cls(plain["columns"], np.dtype(plain["dtype"]), tensor)

    def store(self, column: NDArray[Any]) -> list[Any]:
        return cells_to_plain(column.view(np.int64) if column.dtype.kind in "mM" else column)

    def restore(self, name: Any, cells: list[Any]) -> NDArray[Any]:
        column = np.empty(len(cells), self.dtype)
        whole = self.dtype.kind in "mM"
        (column.view(np.int64) if whole else column)[:] = cells_from_plain(cells)
        return column


_TENSORS = {str(dtype).removeprefix("torch."): dtype for dtype in (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
    torch.bfloat16, torch.float32, torch.float64,
)}  # fmt: skip


def _array(rows: Any) -> NDArray[Any]:
    if isinstance(rows, np.ma.MaskedArray):
        raise TypeError(
            "Expected an array but got a masked one; fill its masked entries by `.filled(nan)`."
        )
    if isinstance(rows, Tensor):
        plain = rows.detach().cpu()
        # numpy has no bfloat16; float32 holds all of its numbers.
        array = (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
    else:
        array = np.asarray(rows)
    if array.dtype.kind in "US":
        # numpy makes text of all cells of a list where one is text.
        array = np.asarray(rows, dtype=object)
    if array.ndim == 1 and len(array) and isinstance(array[0], dict):
        raise TypeError(
            "Expected a data frame, an array or a list of rows but got a list of dicts; "
            "`pandas.DataFrame(records)` makes a frame of them."
        )
    if array.ndim != 2:
        raise ValueError(
            f"Expected rows of two axes, (rows, columns), but got shape {array.shape}; one row is "
            "`x[:1]`, and images go to `fit_surrogate` as tensors."
        )
    return array
