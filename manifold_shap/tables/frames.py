"""Reads rows of any library column by column, and builds rows of the same kind from columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import torch
from torch import Tensor

from manifold_shap._arrays import is_frame
from manifold_shap._checks import check_distinct
from manifold_shap._messages import shown
from manifold_shap.tables.cells import from_plain, to_plain
from manifold_shap.tables.distinct import Cells

_ARRAYS = (np.ndarray, Tensor, list, tuple)


@dataclass(frozen=True)
class FrameAdapter:
    """The kind of a user's rows: frames of a library, or arrays, and the names of their columns.

    An array, a tensor or a list of rows has columns x0, x1, ...; a model then sees an array, or a
    tensor of the same dtype.

    Attributes:
        library: "pandas", "polars" and the like, or "array".
        header: names of the columns, as the user has them.
        tensor: dtype of rows that are tensors.
    """

    library: str
    header: Any
    tensor: torch.dtype | None = None

    @classmethod
    def of(cls, rows: Any) -> "FrameAdapter":
        """The adapter of these rows.

        Raises:
            TypeError: they are no table.
            ValueError: a name twice.
        """
        library, header, _ = _columns(rows, ", and the model comes before the frame")
        return cls(library, header, rows.dtype if isinstance(rows, Tensor) else None)

    def read(self, rows: Any) -> list[Cells]:
        """The columns of rows that have them all, in order; they are matched by name.

        Raises:
            ValueError: a column is missing, or an array has more of them.
        """
        library, header, columns = _columns(rows)
        column_of = dict(zip(header, columns, strict=True))
        if library == self.library == "array" and len(header) != len(self.header):
            raise ValueError(
                f"Expected {len(self.header)} columns, as in training, but got {len(header)}."
            )
        if missing := [name for name in self.header if name not in column_of]:
            others = [name for name in header if name not in list(self.header)]
            there = f" (there are {shown(others)} besides)" if others else ""
            fix = "rename or add columns"
            if library != self.library:
                kind = "an array" if self.library == "array" else f"a frame of {self.library}"
                fix = f"pass {kind}, as in training"
            raise ValueError(
                f"Expected the columns of training but {shown(missing)} are missing{there}; {fix}."
            )
        return [column_of[name] for name in self.header]

    def state(self) -> dict[str, Any]:
        """The kind of rows as numbers, text and lists; ValueError where it cannot be written."""
        return {
            "library": self.library,
            "header": [to_plain(name) for name in self.header],
            "levels": [to_plain(name) for name in getattr(self.header, "names", ())],
            "dtype": str(getattr(self.header, "dtype", object)),
            "tensor": self.tensor and str(self.tensor).removeprefix("torch."),
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> "FrameAdapter":
        """The adapter whose `state` this is."""
        header: Any = [from_plain(name) for name in state["header"]]
        levels = [from_plain(name) for name in state["levels"]]
        if len(levels) > 1:
            header = pd.MultiIndex.from_tuples(header, names=levels)
        elif levels:
            header = pd.Index(header, dtype=state["dtype"], name=levels[0], tupleize_cols=False)
        tensor = state["tensor"] and getattr(torch, state["tensor"])
        return cls(state["library"], header, tensor)

    def build(self, columns: Sequence[Cells]) -> Any:
        """Rows of these columns, in the order of the header."""
        if self.library == "array":
            array = np.stack([column.to_native().to_numpy() for column in columns], axis=1)
            if self.tensor is None:
                return array
            tensor = torch.from_numpy(array)
            # Rows that are wider than those of training stay so.
            return tensor.to(self.tensor) if self.tensor == torch.bfloat16 else tensor
        if self.library == "pandas":
            natives = [column.to_native().reset_index(drop=True) for column in columns]
            frame = pd.DataFrame(dict(enumerate(natives)), copy=False)
            frame.columns = self.header
            return frame
        named = zip(self.header, columns, strict=True)
        parts = [column.alias(name).to_frame() for name, column in named]
        return nw.concat(parts, how="horizontal").to_native()


def _columns(rows: Any, fix: str = "") -> tuple[str, Any, list[Cells]]:
    """The library, the names and the columns of rows."""
    library = "pandas"
    if isinstance(rows, _ARRAYS):
        array, library = _array(rows), "array"
        # pandas would make text of objects that are text by chance.
        kind = object if array.dtype == object else None
        rows = pd.DataFrame(array, columns=[f"x{k}" for k in range(array.shape[1])], dtype=kind)
    if isinstance(rows, pd.DataFrame):
        check_distinct(rows.columns, "column names", "rename or drop the copies")
        natives = (rows.iloc[:, k] for k in range(rows.shape[1]))
        header = rows.columns if library == "pandas" else list(rows)
        return library, header, [nw.from_native(each, series_only=True) for each in natives]
    if not is_frame(rows):
        raise TypeError(
            "Expected a data frame, an array, a tensor or a list of rows but got "
            f"{type(rows).__name__}; one row is `frame.loc[[label]]` or `frame[:1]`, a sparse "
            f"matrix has `.toarray()`{fix}."
        )
    frame = nw.from_native(rows, eager_only=True)
    return str(frame.implementation), frame.columns, [frame[name] for name in frame.columns]


def _array(rows: Any) -> np.ndarray:
    if isinstance(rows, np.ma.MaskedArray):
        raise TypeError("Expected an array but got a masked one; fill it by `.filled(nan)`.")
    if isinstance(rows, Tensor):
        plain = rows.detach().cpu()
        # numpy has no bfloat16; float32 holds all of its numbers.
        array = (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
    else:
        array = np.asarray(rows)
    if array.dtype.kind in "US":
        # numpy makes text of all cells of a list where one is text.
        array = np.asarray(rows, dtype=object)
    check_no_pictures(array.shape)
    if array.ndim != 2:
        raise ValueError(
            f"Expected rows of two axes, (rows, columns), but got shape {array.shape}; one row is "
            "`x[None]`, and `pandas.DataFrame(records)` makes a frame of dicts."
        )
    return array


def check_no_pictures(shape: Sequence[int]) -> None:
    """Raise ValueError where rows of this shape are pictures or series, whatever tensor has them.

    >>> check_no_pictures((90, 3))
    """
    if len(shape) > 2:
        raise ValueError(
            f"Expected rows of two axes, (rows, columns), but got shape {tuple(shape)}; pictures "
            "and series are explained by `value = ms.fit_surrogate(model, x)` and "
            "`ms.auto_shapley(value, x[:3])`: see docs/images.md and docs/series.md."
        )


def joined(known: Cells, new: Cells) -> Cells:
    """Cells of two columns, in a dtype that holds those of both: that of the first where it can.

    >>> known, new = (nw.from_native(pd.Series(k), series_only=True) for k in ([1, 2], [2.0, 3.0]))
    >>> joined(known, new).to_list(), joined(known, new + 0.5).to_list()
    ([1, 2, 2, 3], [1.0, 2.0, 2.5, 3.5])

    Raises:
        ValueError: there is none.
    """
    inferred = _inferred(new, known)
    if isinstance(known.dtype, nw.Categorical | nw.Enum | nw.Object | nw.Unknown):
        candidates = [known]
    else:
        candidates = [known, inferred, new] if _are_alike(known, new) else []
    for like in candidates:
        pair = narrowed(known, like), narrowed(inferred, like)
        if pair[0].to_native().dtype == pair[1].to_native().dtype:
            return nw.concat([part.alias("").to_frame() for part in pair])[""]
    raise ValueError(
        f"Expected column {new.name!r} of dtype {known.to_native().dtype}, as in training, but got "
        f"{new.to_native().dtype} with cells such as {shown(new.head(5).to_list())}; convert it "
        "first, in the same way as the training data."
    )


def narrowed(cells: Cells, like: Cells) -> Cells:
    """The cells in the dtype of others, where none changes by that."""
    if cells.to_native().dtype == like.to_native().dtype:
        return cells
    try:
        with np.errstate(all="ignore"):
            found = _in_dtype(cells, like)
            same = (_in_dtype(found, cells) == cells) | cells.is_null()
        unchanged = bool(same.all()) and bool((found.is_null() == cells.is_null()).all())
    except Exception:  # Each library raises its own.
        return cells
    return found if unchanged else cells


def _in_dtype(cells: Cells, like: Cells) -> Cells:
    native, target = cells.to_native(), like.to_native().dtype
    if not isinstance(native, pd.Series):
        return cells.cast(like.dtype)
    if native.isna().all() and target.kind != "O":
        return nw.from_native(pd.Series([None] * len(native), dtype=target), series_only=True)
    return nw.from_native(native.astype(target), series_only=True)


def _inferred(cells: Cells, known: Cells) -> Cells:
    """Cells of a row of several dtypes in that of their own, where others are not objects."""
    native = cells.to_native()
    if not isinstance(native, pd.Series) or known.to_native().dtype == object:
        return cells
    return nw.from_native(native.infer_objects(), series_only=True)


def _are_alike(known: Cells, new: Cells) -> bool:
    """Whether both hold numbers, or both text, or both times."""
    native = new.to_native()
    if isinstance(native, pd.Series) and native.dtype == object:
        new = nw.from_native(native.convert_dtypes(), series_only=True)
    one, two = known.dtype, new.dtype
    numbers = [dtype.is_numeric() or isinstance(dtype, nw.Boolean) for dtype in (one, two)]
    texts = [isinstance(dtype, nw.String | nw.Categorical | nw.Enum) for dtype in (one, two)]
    return (
        bool(new.is_null().all())
        or all(numbers)
        or all(texts)
        or (one.is_temporal() and two.is_temporal())
    )
