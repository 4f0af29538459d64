"""Reads lists and data frames of numbers as arrays, with names of columns and labels of rows.

Frames of pandas, polars and pyarrow are read by narwhals, which is imported when an object is
neither a tensor nor an array nor a list.
"""

from collections.abc import Iterable, Sequence
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
    """Labels of rows: whole numbers, numbers, text, times, periods, or tuples of several levels.

    Labels of other kinds or of several become text. So do periods, tuples and times in a time zone
    in a store.

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
    if kinds <= {"Timestamp"} or kinds <= {"datetime"} or kinds <= {"Period"} or kinds <= {"tuple"}:
        return tuple(given)
    return tuple(map(str, given))


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
        TypeError: no numbers.
        ValueError: missing cells, two columns of one name, or rows of different lengths.
    """
    if isinstance(x, list | tuple):
        return _of_list(x, name)
    import narwhals as nw

    try:
        x = nw.from_native(x, eager_only=True, allow_series=True, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise ValueError(
            f"Expected distinct column names in `{name}` but got {shown(sorted(map(str, x)))}; "
            "rename or drop the copies."
        ) from error
    if not isinstance(x, nw.DataFrame | nw.Series):
        raise _not_numbers(x, name)
    frame = x.to_frame() if isinstance(x, nw.Series) else x
    odd = [
        f"{column} ({dtype})"
        for column, dtype in frame.schema.items()
        if not (dtype.is_numeric() or dtype == nw.Boolean)
    ]
    if odd:
        raise TypeError(
            f"Expected `{name}` to hold numbers but these columns do not: {shown(odd)}; {_TABLES}."
        )
    array = frame.select(nw.all().cast(nw.Float64)).to_numpy()
    _check_complete(array, list(frame.columns), name)
    if isinstance(x, nw.Series):
        return array[:, 0]
    names = [str(column) for column in frame.columns]
    if sorted(names) == sorted(columns):
        array = array[:, [names.index(column) for column in columns]]
    return array


def _narwhal(x: Any) -> Any:
    """The frame as narwhals has it; None where it is none that narwhals knows."""
    if isinstance(x, _NO_FRAMES):
        return None
    import narwhals as nw

    frame = nw.from_native(x, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def _of_list(x: Sequence[Any], name: str) -> np.ndarray:
    try:
        array = np.asarray(x)
    except ValueError as error:
        raise ValueError(
            f"Expected the rows in `{name}` to have one shape but got a list of unequal ones "
            f"({str(error).splitlines()[0]}); give each row as many numbers as the others."
        ) from error
    if array.dtype.kind not in "biuf":
        raise _not_numbers(x, name)
    return array


def _not_numbers(x: Any, name: str) -> TypeError:
    kind = type(x).__name__
    what = f"a {kind} of other things" if isinstance(x, list | tuple) else kind
    return TypeError(
        f"Expected `{name}` to be a tensor, an array, a list of rows or a data frame of numbers "
        f"but got {what}; `pandas.read_csv(path)` reads a file, `ms.text.Vocabulary` encodes "
        f"texts, and of other tables, {_TABLES}."
    )


def _check_complete(array: np.ndarray, names: Sequence[Any], name: str) -> None:
    missing = np.isnan(array).sum(0)
    if missing.any():
        some = [
            f"{column} ({count})" for column, count in zip(names, missing, strict=True) if count
        ]
        raise ValueError(
            f"Expected `{name}` without missing cells but of its {len(array)} rows some lack one "
            f"in these columns: {shown(some)}; {_TABLES}, and missing cells with it."
        )


def _is_local_time(label: Any) -> bool:
    if isinstance(label, np.datetime64):
        return not np.isnat(label)
    # Not a time is unequal to itself.
    return isinstance(label, datetime) and label.tzinfo is None and label == label


def as_labels(name: str, labels: Any) -> Tensor:
    """Numbers of players or groups as a tensor; TypeError if `labels` holds no numbers."""
    try:
        return torch.as_tensor(labels)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"Expected `{name}` to be a tensor, an array or a nested list of whole numbers but got "
            f"{labels!r:.100}; it says by number whose each element is, as in [0, 1, 1]."
        ) from error
