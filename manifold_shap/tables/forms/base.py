"""Defines what the package needs to know of a library's frames."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from manifold_shap._messages import shown

Codes = NDArray[np.int64]
Keys = tuple[NDArray[Any], NDArray[np.int8]]

# Kinds of missing cells: pandas, and a model, may tell them apart. Others have the next number.
_KINDS = {"NoneType": 1, "float": 2, "NAType": 3, "NaTType": 4}


class Form(ABC):
    """The kind of a user's frame: its library, and the names and dtypes of its columns.

    A column is what the library has for one.

    Attributes:
        columns: names of the columns in order, as the user has them.
    """

    columns: tuple[Any, ...]

    @abstractmethod
    def read(self, frame: Any) -> list[Any]:
        """The columns of a frame that has them all, in order, with the dtypes of this form.

        Raises:
            TypeError: a frame of another library.
            ValueError: columns that are missing or too many, or of another dtype.
        """

    @abstractmethod
    def build(self, columns: Sequence[Any]) -> Any:
        """A frame of these columns, in the order of `columns`."""

    @abstractmethod
    def take(self, column: Any, places: Codes) -> Any:
        """The cells at these places."""

    @abstractmethod
    def join(self, column: Any, more: Any) -> Any:
        """The cells of one column, and those of another behind them."""

    @abstractmethod
    def keys(self, column: Any) -> Keys:
        """A key of each cell, equal where cells are the same bit for bit, and what is missing.

        The first are whole numbers or text. The second are 0, and where a cell is missing the
        number of its kind (None, NaN, NA, NaT).

        Raises:
            TypeError: lists or the like.
        """

    @abstractmethod
    def cells(self, column: Any) -> pd.Series:
        """The cells as pandas has them, for people and for arithmetic."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Library, names and dtypes as numbers, text and lists.

        Raises:
            ValueError: a dtype that cannot be written.
        """

    @abstractmethod
    def store(self, column: Any) -> list[Any]:
        """The cells as numbers, text and lists.

        Raises:
            ValueError: a cell that cannot be written.
        """

    @abstractmethod
    def restore(self, name: Any, cells: list[Any]) -> Any:
        """The column of this name with the cells that `store` wrote."""


def keys_of(column: pd.Series) -> Keys:
    """See `Form.keys`.

    >>> keys_of(pd.Series(["b", None, "b"]))
    (array(['b', '', 'b'], dtype=object), array([0, 2, 0], dtype=int8))
    """
    dtype, missing = column.dtype, column.isna().to_numpy(dtype=bool).astype(np.int8)
    if isinstance(dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy().astype(np.int64), missing
    if is_time(dtype):
        return column.array.view("int64"), missing
    if types.is_float_dtype(dtype):
        return float_keys(column.to_numpy(dtype=np.float64, na_value=np.nan), missing)
    if types.is_bool_dtype(dtype):
        return column.to_numpy(dtype=bool, na_value=False).astype(np.int64), missing
    if types.is_integer_dtype(dtype):
        whole = np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
        return column.to_numpy(dtype=whole, na_value=0), missing
    return _object_keys(column, missing)


def is_time(dtype: Any) -> bool:
    """Whether pandas has whole numbers for these moments, durations or periods.

    >>> is_time(np.dtype("datetime64[s]")), is_time(np.dtype(object))
    (True, False)
    """
    if isinstance(dtype, pd.ArrowDtype):
        return False
    timed = types.is_datetime64_any_dtype(dtype) or types.is_timedelta64_dtype(dtype)
    return timed or isinstance(dtype, pd.PeriodDtype)


def float_keys(numbers: NDArray[np.float64], missing: NDArray[np.int8]) -> Keys:
    """Bits, which tell -0.0 from 0.0; NaN is a kind of missing besides the others."""
    missing = np.where((missing == 0) & np.isnan(numbers), np.int8(2), missing)
    return np.where(missing > 0, 0.0, numbers).view(np.int64), missing


def _object_keys(column: pd.Series, missing: NDArray[np.int8]) -> Keys:
    cells = column.to_numpy(dtype=object)
    absent = np.flatnonzero(missing)
    missing[absent] = [_KINDS.get(type(cell).__name__, 5) for cell in cells[absent]]
    if types.infer_dtype(cells, skipna=True) not in ("string", "empty"):
        cells = np.array([_exactly(cell, column.name) for cell in cells], dtype=object)
    if len(absent):
        cells = cells.copy()
        cells[absent] = ""
    return _told_apart(cells), missing


def _told_apart(cells: NDArray[Any]) -> NDArray[Any]:
    """Encode strings that hold a null character as bytes.

    pandas 2 compares strings only up to the first null.
    """
    if not any("\0" in cell for cell in cells):
        return cells
    # It looks into text alone: of bytes among text it compares objects.
    return np.array([c.encode("utf-8", "surrogatepass") if "\0" in c else c for c in cells], object)


def _exactly(cell: Any, name: Any) -> str:
    if isinstance(cell, list | dict | set | np.ndarray):
        raise TypeError(
            f"Expected single values in column {name!r} but it holds {type(cell).__name__} (such "
            f"as {cell!r:.60}); make columns of its elements, or drop it."
        )
    return f"{type(cell).__name__} {cell!r}"


def check_columns(found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Refuse a frame without these columns, or with more; their order does not matter.

    Raises:
        ValueError: columns are missing or too many.
    """
    there, wanted = frozenset(found), frozenset(expected)
    missing = [name for name in expected if name not in there]
    extra = [name for name in found if name not in wanted]
    if missing or extra:
        lacks = f"lacks {shown(missing)}" if missing else ""
        has = f"has also {shown(extra)}" if extra else ""
        raise ValueError(
            f"Expected the columns {shown(expected)}, as in training, but the frame "
            f"{' and '.join(part for part in (lacks, has) if part)}; give it these columns, as by "
            "`frame[columns]`."
        )


def other_library(expected: str, frame: Any) -> TypeError:
    """The error for rows that are no frame of the library of training."""
    kind, origin = type(frame).__name__, type(frame).__module__.partition(".")[0]
    found = kind if origin == "builtins" else f"{origin}.{kind}"
    return TypeError(
        f"Expected a frame of {expected}, as in training, but got {found}; convert it first."
    )


def other_dtype(name: Any, expected: Any, found: Any) -> ValueError:
    """The error for a column whose cells cannot be had in the dtype of training unchanged."""
    return ValueError(
        f"Expected column {name!r} of dtype {expected}, as in training, but got {found}; convert "
        "it first, in the same way as the training data."
    )
