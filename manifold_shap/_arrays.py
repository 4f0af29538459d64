"""Reads lists and data frames of numbers as arrays, with names of columns and labels of rows.

Frames of pandas, polars and pyarrow are read by narwhals, which is imported when an object is
neither a tensor nor an array nor a list.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from manifold_shap._messages import shown

if TYPE_CHECKING:
    import pandas as pd

Label: TypeAlias = Any

# Kinds of labels that are kept as they are, if all are of one.
_KEPT = {"Interval", "Period", "Timedelta", "Timestamp", "date", "datetime", "tuple"}
_NO_FRAMES = (Tensor, np.ndarray, list, tuple, range)
_TABLES = (
    "`ms.Explainer(model, frame)` explains such a table as it is and, step by step, "
    "`ms.Table.fit(frame)` makes rows of it"
)


def is_frame(x: Any) -> bool:
    """Whether this is a data frame of pandas, polars or pyarrow.

    >>> import pandas as pd
    >>> is_frame(pd.DataFrame({"age": [30]})), is_frame([[30]])
    (True, False)
    """
    return _narwhal(x) is not None


def is_inputs(x: Any) -> bool:
    """Whether these are several tensors of each row: a dictionary, or a tuple of tensors."""
    tensors = isinstance(x, tuple) and all(isinstance(each, Tensor) for each in x)
    return tensors or isinstance(x, Mapping)


def column_names(x: Any) -> tuple[str, ...] | None:
    """Names of the columns of a frame, as text; None of anything else.

    >>> import pandas as pd
    >>> column_names(pd.DataFrame({"age": [30], 7: [1.5]}))
    ('age', '7')
    """
    frame = _narwhal(x)
    return None if frame is None else tuple(str(name) for name in frame.columns)


def row_labels(x: Any) -> tuple[Label, ...] | None:
    """The index of a frame or a column of pandas, see `as_instances`; None where there is none.

    >>> import pandas as pd
    >>> row_labels(pd.DataFrame({"age": [30, 40]}, index=["Ann", "Bob"]))
    ('Ann', 'Bob')
    """
    if isinstance(x, _NO_FRAMES):
        return None
    import narwhals as nw

    rows = nw.from_native(x, eager_only=True, allow_series=True, pass_through=True)
    index = nw.maybe_get_index(rows) if isinstance(rows, nw.DataFrame | nw.Series) else None
    return None if index is None else as_instances(index)


def row_levels(x: Any) -> dict[str, Any]:
    """The names of the levels of a frame's index, for `made_by`; nothing where there is one.

    >>> import pandas as pd
    >>> index = pd.MultiIndex.from_tuples([("Ann", 2024)], names=["name", "year"])
    >>> row_levels(pd.DataFrame({"age": [30]}, index))
    {'levels': ['name', 'year']}
    """
    levels = getattr(getattr(x, "index", None), "names", ())
    plain = [name if isinstance(name, int | None) else str(name) for name in levels]
    return {"levels": plain} if len(plain) > 1 else {}


def rows_at(x: Any, at: Sequence[int]) -> Any:
    """Rows of a tensor or of a frame, by position.

    >>> import pandas as pd
    >>> rows_at(pd.DataFrame({"age": [30, 40]}), [1])["age"].tolist(), rows_at(torch.eye(2), [1])
    ([40], tensor([[0., 1.]]))
    """
    if isinstance(x, Tensor):
        return x[torch.as_tensor(at, dtype=torch.long)]
    return _narwhal(x)[np.asarray(at, np.int64)].to_native()


def pandas_columns(frame: Any) -> "pd.DataFrame":
    """A frame as one of pandas with text as names and rows 0, 1, ...; cells as they are.

    >>> import polars as pl
    >>> pandas_columns(pl.DataFrame({"age": [30, None]}))["age"].tolist()
    [30.0, nan]
    """
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        own = _narwhal(frame)
        return pd.DataFrame({name: pd.Series(own[name].to_list()) for name in own.columns})
    return frame.set_axis([str(name) for name in frame.columns], axis=1).reset_index(drop=True)


def as_instances(labels: Iterable[Any]) -> tuple[Label, ...]:
    """Labels of rows: whole numbers, numbers, text, times and spans of time, or tuples of levels.

    Labels of other kinds or of several become text.

    >>> as_instances(np.array([3, 5])), as_instances(["a", 1]), as_instances([(2024, "May")])
    ((3, 5), ('a', '1'), ((2024, 'May'),))
    """
    if isinstance(labels, range):
        return tuple(labels)
    given = list(labels)
    if all(isinstance(label, Integral) and not isinstance(label, bool) for label in given):
        return tuple(map(int, given))
    if all(isinstance(label, Real) and not isinstance(label, bool) for label in given):
        return tuple(map(float, given))
    if all(map(_is_local_time, given)):
        return tuple(np.array(given, "datetime64[us]").tolist())
    kinds = {type(label).__name__ for label in given}
    return tuple(given if len(kinds) == 1 and kinds <= _KEPT else map(str, given))


def label_index(labels: Sequence[Label]) -> "pd.Index":
    """Labels as the index of a frame, called "instance" where they are of one level."""
    import pandas as pd

    index = pd.Index(list(labels))
    return index if index.nlevels > 1 else index.rename("instance")


def read_numbers(x: Any, name: str, columns: Sequence[str] = ()) -> np.ndarray:
    """A list of rows, a frame or a column of numbers as an array.

    Args:
        x: anything but a tensor or an array.
        name: of the argument, for errors.
        columns: an order for the columns of a frame, where these are their names.

    >>> import pandas as pd
    >>> read_numbers(pd.DataFrame({"age": [30, 40], "weight": [70.5, 80]}), "x", ["weight", "age"])
    array([[70.5, 30. ],
           [80. , 40. ]])

    Raises:
        TypeError: something else.
        ValueError: columns of something else, missing cells, or rows of different lengths.
    """
    if is_inputs(x):
        raise TypeError(
            f"Expected `{name}` to be one tensor of rows but got several; `inputs = "
            "ms.tables.Inputs.fit(tensors, players)` joins them, and an imputer takes them by "
            "`ms.imputers.table_imputer(ms.imputers.MarginalImputer, inputs, tensors)`."
        )
    if isinstance(x, list | tuple):
        array = np.asarray(x)
        if array.dtype.kind in "biuf":
            return array
    import narwhals as nw

    own = nw.from_native(x, eager_only=True, allow_series=True, pass_through=True)
    if not isinstance(own, nw.DataFrame | nw.Series):
        is_list = isinstance(x, list | tuple)
        what = "a list of other things" if is_list else type(x).__name__
        raise TypeError(
            f"Expected `{name}` to be a tensor, an array, a list of rows or a data frame of "
            f"numbers but got {what}; `pandas.read_csv(path)` reads a file, `ms.text.Vocabulary` "
            "encodes texts, `matrix.toarray()` has the numbers of a sparse one, and of other "
            f"tables, {_TABLES}."
        )
    frame = own.to_frame() if isinstance(own, nw.Series) else own
    read, unfit = list[np.ndarray](), list[str]()
    for column in frame.iter_columns():
        is_number = column.dtype.is_numeric() or column.dtype == nw.Boolean
        read += [column.cast(nw.Float64).to_numpy()] if is_number else []
        if not is_number or np.isnan(read[-1]).any():
            unfit.append(f"{column.name} ({column.dtype})")
    if unfit:
        raise ValueError(
            f"Expected `{name}` to hold a number in every cell but these columns do not: "
            f"{shown(unfit)}; {_TABLES}."
        )
    if isinstance(own, nw.Series):
        return read[0]
    names = [str(column) for column in frame.columns]
    order = columns if sorted(names) == sorted(columns) else names
    return np.stack([read[names.index(column)] for column in order], axis=1)


def _narwhal(x: Any) -> Any:
    """The frame as narwhals has it; None where it is none that narwhals knows."""
    if isinstance(x, _NO_FRAMES):
        return None
    import narwhals as nw

    frame = nw.from_native(x, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def _is_local_time(label: Any) -> bool:
    if isinstance(label, np.datetime64):
        return not np.isnat(label)
    # Not a time is unequal to itself.
    return isinstance(label, datetime) and label.tzinfo is None and label == label
