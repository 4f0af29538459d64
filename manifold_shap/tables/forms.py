"""Reads frames of any library column by column, and builds frames of the same kind from columns.

A frame is one of pandas, of any library that narwhals knows (polars, say), an array, a tensor or a
list of rows. What is read of it are its columns, in its own library; what is built has the same
columns, order and dtypes.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from manifold_shap._checks import check_distinct
from manifold_shap._words import shown

Codes = NDArray[np.int64]


class Form(ABC):
    """The kind of a user's frame.

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
    def factorise(self, column: Any) -> tuple[Codes, int]:
        """The number of each cell's value in order of appearance, -1 where missing; how many."""

    @abstractmethod
    def values(self, column: Any) -> pd.Series:
        """The cells as pandas has them, for people and for arithmetic."""

    @abstractmethod
    def index(self, frame: Any) -> tuple[Any, ...] | None:
        """The labels of a frame's rows; None where it has none of its own."""


class PandasForm(Form):
    """A data frame of pandas."""

    def __init__(self, frame: pd.DataFrame) -> None:
        check_distinct(frame.columns, "column names", "rename or drop the copies")
        self.columns = tuple(frame.columns)
        self.dtypes = tuple(frame.dtypes)
        self.header = frame.columns

    def read(self, frame: Any) -> list[Any]:
        if not isinstance(frame, pd.DataFrame):
            raise TypeError(
                f"Expected a pandas DataFrame, as in training, but got {type(frame).__name__}."
            )
        check_distinct(frame.columns, "column names", "rename or drop the copies")
        check_columns(list(frame.columns), self.columns)
        pairs = zip(self.columns, self.dtypes, strict=True)
        return [_as_dtype(frame[name], dtype) for name, dtype in pairs]

    def build(self, columns: Sequence[Any]) -> pd.DataFrame:
        frame = pd.DataFrame(dict(enumerate(columns)), copy=False)
        frame.columns = self.header
        return frame

    def take(self, column: pd.Series, places: Codes) -> pd.Series:
        return pd.Series(column.array.take(places), copy=False)

    def join(self, column: pd.Series, more: pd.Series) -> pd.Series:
        return pd.concat([column, more], ignore_index=True)

    def factorise(self, column: pd.Series) -> tuple[Codes, int]:
        try:
            codes, distinct = pd.factorize(column)
        except TypeError as error:
            raise unhashable(column.name, column[column.notna()].iloc[0]) from error
        return codes.astype(np.int64), len(distinct)

    def values(self, column: pd.Series) -> pd.Series:
        return column

    def index(self, frame: pd.DataFrame) -> tuple[Any, ...]:
        return tuple(frame.index.tolist())


class NarwhalsForm(Form):
    """A frame of polars, or of another library that narwhals knows."""

    def __init__(self, frame: Any) -> None:
        known = nw.from_native(frame, eager_only=True)
        self.columns = tuple(known.columns)
        self.schema = dict(known.schema)
        self.library = known.implementation

    def read(self, frame: Any) -> list[nw.Series]:
        library = self.library
        try:
            known = nw.from_native(frame, eager_only=True)
        except TypeError:
            known = None
        if known is None or known.implementation is not library:
            raise TypeError(
                f"Expected a frame of {str(library.name).lower()}, as in training, but got "
                f"{type(frame).__module__.split('.')[0]}'s {type(frame).__name__}."
            )
        check_columns(known.columns, self.columns)
        for name, dtype in self.schema.items():
            if known.schema[name] != dtype:
                raise _other_dtype(name, dtype, known.schema[name])
        return [known[name] for name in self.columns]

    def build(self, columns: Sequence[nw.Series]) -> Any:
        named = zip(self.columns, columns, strict=True)
        return nw.DataFrame.from_dict(
            {name: column.alias(name) for name, column in named},
            backend=self.library,
        ).to_native()

    def take(self, column: nw.Series, places: Codes) -> nw.Series:
        return column[places]

    def join(self, column: nw.Series, more: nw.Series) -> nw.Series:
        parts = [part.alias("column").to_frame() for part in (column, more)]
        return nw.concat(parts)["column"]

    def factorise(self, column: nw.Series) -> tuple[Codes, int]:
        missing, dtype = column.is_null().to_numpy(), column.dtype
        if isinstance(dtype, nw.List | nw.Array | nw.Struct | nw.Binary | nw.Object):
            raise unhashable(column.name, dtype)
        if dtype.is_float():
            keys = column.fill_null(0.0).to_numpy()
            missing = missing | np.isnan(keys)
        elif dtype.is_integer() or isinstance(dtype, nw.Boolean):
            keys = column.cast(nw.Int64 if dtype != nw.UInt64 else dtype).fill_null(0).to_numpy()
        elif dtype.is_temporal():
            keys = column.cast(nw.Int64).fill_null(0).to_numpy()
        else:
            keys = column.cast(nw.String).fill_null("").to_numpy()
        codes = np.full(len(keys), -1, dtype=np.int64)
        codes[~missing], distinct = pd.factorize(keys[~missing])
        return codes, len(distinct)

    def values(self, column: nw.Series) -> pd.Series:
        dtype = column.dtype
        if dtype.is_float() or (dtype.is_integer() and not column.is_null().any()):
            return pd.Series(column.to_numpy())
        cells = column.to_list()
        if dtype.is_integer():
            return pd.Series(cells, dtype="Int64")
        if isinstance(dtype, nw.Enum):
            return pd.Series(pd.Categorical(cells, list(dtype.categories), ordered=True))
        plain = isinstance(dtype, nw.Datetime | nw.Duration)
        return pd.Series(cells) if plain else pd.Series(cells, dtype=object)

    def index(self, frame: Any) -> None:
        return None


class ArrayForm(Form):
    """An array of numpy, a tensor, or a list of rows, of two axes.

    A model sees an array, or a tensor of the same dtype.
    """

    def __init__(self, rows: Any) -> None:
        array = _array(rows)
        self.columns = tuple(f"x{k}" for k in range(array.shape[1]))
        self.dtype = array.dtype
        self.tensor = rows.dtype if isinstance(rows, Tensor) else None

    def read(self, frame: Any) -> list[Any]:
        array, dtype = _array(frame), self.dtype
        if array.shape[1] != len(self.columns):
            raise ValueError(
                f"Expected rows of {len(self.columns)} columns, as in training, but got shape "
                f"{array.shape}."
            )
        if array.dtype != dtype and not np.can_cast(array.dtype, dtype, "same_kind"):
            raise _other_dtype("of the array", dtype, array.dtype)
        return list(array.astype(dtype, copy=False).T)

    def build(self, columns: Sequence[NDArray[Any]]) -> Any:
        array = np.empty((len(columns[0]), len(columns)), self.dtype)
        for place, column in zip(array.T, columns, strict=True):
            place[:] = column
        return array if self.tensor is None else torch.from_numpy(array)

    def take(self, column: NDArray[Any], places: Codes) -> NDArray[Any]:
        return column[places]

    def join(self, column: NDArray[Any], more: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([column, more])

    def factorise(self, column: NDArray[Any]) -> tuple[Codes, int]:
        try:
            codes, distinct = pd.factorize(column)
        except TypeError as error:
            raise unhashable("of the array", column[0]) from error
        return codes.astype(np.int64), len(distinct)

    def values(self, column: NDArray[Any]) -> pd.Series:
        return pd.Series(column)

    def index(self, frame: Any) -> None:
        return None


def form_of(frame: Any) -> Form:
    """The form of a frame, an array, a tensor or a list of rows.

    >>> form_of(pd.DataFrame({"age": [20, 30]})).columns
    ('age',)
    >>> form_of(np.zeros((2, 3))).columns
    ('x0', 'x1', 'x2')

    Raises:
        TypeError: it is none of them.
        ValueError: it has no rows or no columns, or a name twice.
    """
    form: Form
    if isinstance(frame, pd.DataFrame):
        form, rows = PandasForm(frame), len(frame)
    elif isinstance(frame, np.ndarray | Tensor | list | tuple):
        form, rows = ArrayForm(frame), len(frame)
    else:
        try:
            form, rows = NarwhalsForm(frame), len(nw.from_native(frame, eager_only=True))
        except TypeError as error:
            raise TypeError(
                "Expected a data frame (of pandas or polars), an array, a tensor or a list of "
                f"rows but got {type(frame).__name__}; `.collect()` makes a lazy frame eager."
            ) from error
    if rows == 0 or not form.columns:
        raise ValueError(
            f"Expected a table with rows and columns but got {rows} rows and "
            f"{len(form.columns)} columns."
        )
    return form


def check_columns(found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Refuse a frame without these columns, or with more; their order does not matter.

    Raises:
        ValueError: columns are missing or too many.
    """
    there, wanted = frozenset(found), frozenset(expected)
    missing = [name for name in expected if name not in there]
    extra = [name for name in found if name not in wanted]
    if missing or extra:
        raise ValueError(
            f"Expected the columns {shown(expected)}, as in training, but the frame lacks "
            f"{shown(missing)} and has the extra {shown(extra)}; select them with "
            "`frame[columns]`."
        )


def unhashable(name: Any, cell: Any) -> TypeError:
    """The error for a column of lists, dicts or arrays."""
    kind = type(cell).__name__ if not isinstance(cell, nw.dtypes.DType) else cell
    return TypeError(
        f"Expected single values in column {name!r} but it holds {kind} (such as {cell!r:.60}); "
        "make columns of its elements, or drop it."
    )


def _as_dtype(column: pd.Series, dtype: Any) -> pd.Series:
    """A column in the dtype of training, where no cell changes by that."""
    if column.dtype == dtype:
        return column
    if isinstance(dtype, pd.CategoricalDtype):
        fits = column.isna() | column.isin(dtype.categories)
        if not fits.all():
            raise ValueError(
                f"Column {column.name!r} holds {column[~fits].iloc[0]!r}, which is none of the "
                f"categories of its dtype in training, {shown(list(dtype.categories))}; a model "
                "that knows only these cannot be asked about others."
            )
        return column.astype(dtype)
    numbers = all(pd.api.types.is_numeric_dtype(kind) for kind in (column.dtype, dtype))
    textual = all(pd.api.types.is_string_dtype(kind) for kind in (column.dtype, dtype))
    dated = all(pd.api.types.is_datetime64_any_dtype(kind) for kind in (column.dtype, dtype))
    if not (numbers or textual or dated):
        raise _other_dtype(column.name, dtype, column.dtype)
    try:
        converted = column.astype(dtype)
        same = converted.isna().equals(column.isna()) and bool(
            (converted.astype(object) == column.astype(object))[column.notna()].all()
        )
    except (TypeError, ValueError) as error:
        raise _other_dtype(column.name, dtype, column.dtype) from error
    if not same:
        raise _other_dtype(column.name, dtype, column.dtype)
    return converted


def _other_dtype(name: Any, expected: Any, found: Any) -> ValueError:
    return ValueError(
        f"Expected column {name!r} of dtype {expected}, as in training, but got {found}; convert "
        "it first, in the same way as the training data."
    )


def _array(rows: Any) -> NDArray[Any]:
    array = rows.detach().cpu().numpy() if isinstance(rows, Tensor) else np.asarray(rows)
    if array.dtype.kind in "US":
        array = array.astype(object)
    if array.ndim != 2:
        raise ValueError(
            f"Expected rows of two axes, (rows, columns), but got shape {array.shape}; one row is "
            "`x[:1]`, and images go to `fit_surrogate` as tensors."
        )
    return array
