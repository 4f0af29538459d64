"""Reads arrays, tensors and lists of rows as tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from manifold_shap.tables.forms.base import other_dtype
from manifold_shap.tables.forms.pandas import PandasForm


class ArrayForm(PandasForm):
    """An array of numpy, a tensor, or a list of rows, of two axes: columns x0, x1, ... of pandas.

    A model sees an array, or a tensor of the same dtype.
    """

    def __init__(self, count: int, dtype: np.dtype[Any], tensor: torch.dtype | None) -> None:
        names = pd.Index([f"x{k}" for k in range(count)])
        super().__init__(names, [_column(np.empty(0, dtype)).dtype] * count)
        self.dtype, self.tensor = dtype, tensor

    @classmethod
    def of(cls, rows: Any) -> "ArrayForm":
        array = _array(rows)
        return cls(array.shape[1], array.dtype, rows.dtype if isinstance(rows, Tensor) else None)

    def read(self, frame: Any) -> list[pd.Series]:
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
        return [_column(cells) for cells in array.astype(dtype, copy=False).T]

    def build(self, columns: Sequence[pd.Series]) -> Any:
        array = np.empty((len(columns[0]), len(columns)), self.dtype)
        for place, column in zip(array.T, columns, strict=True):
            place[:] = column
        return array if self.tensor is None else torch.from_numpy(array).to(self.tensor)

    def to_dict(self) -> dict[str, Any]:
        tensor = None if self.tensor is None else str(self.tensor).removeprefix("torch.")
        columns = len(self.columns)
        return {"library": "array", "columns": columns, "dtype": self.dtype.str, "tensor": tensor}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "ArrayForm":
        tensor = None if plain["tensor"] is None else getattr(torch, plain["tensor"])
        return cls(plain["columns"], np.dtype(plain["dtype"]), tensor)


def _column(cells: NDArray[Any]) -> pd.Series:
    # pandas would make text of objects that are text by chance.
    return pd.Series(cells, dtype=object if cells.dtype == object else None, copy=False)


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
    if array.ndim != 2:
        raise ValueError(
            f"Expected rows of two axes, (rows, columns), but got shape {array.shape}; one row is "
            "`x[:1]`, `pandas.DataFrame(records)` makes a frame of dicts, and images go to "
            "`fit_surrogate` as tensors."
        )
    return array
