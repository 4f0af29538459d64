"""Reads tables from files, by pandas."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from jaxtyping import Int64
from torch import Tensor

from manifold_shap._messages import shown
from manifold_shap.tables.distinct import label_of


def read_frame(path: Path, read: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """A table, with columns that are named by text, and rows by their numbers in the file.

    Args:
        path: a Parquet or Feather file by the end of its name, otherwise separated values, which
            may be packed.
        read: arguments of `pandas.read_parquet`, `read_feather` or `read_csv`.

    Raises:
        ImportError: a Parquet or Feather file needs pyarrow.
        ValueError: pandas cannot read the file.
    """
    readers: dict[str, Callable[..., Any]] = {
        ".parquet": pd.read_parquet,
        ".feather": pd.read_feather,
    }
    found = readers.get(path.suffix.lower(), pd.read_csv)(path, **(read or {}))
    return found.rename(columns=str).reset_index(drop=True)


def column_of(frame: pd.DataFrame, name: str, path: str) -> pd.Series:
    """A column by its name.

    Raises:
        ValueError: there is none; those that there are.
    """
    if name not in frame:
        raise ValueError(
            f"Expected a column {name!r} in {path} but got {shown(frame.columns.tolist())}."
        )
    return frame[name]


def numbered(
    names: Sequence[str], by_number: bool
) -> tuple[Int64[Tensor, " names"], tuple[str, ...]]:
    """Names as positions among the classes, and these in order."""
    classes = tuple(sorted(set(names), key=float if by_number else None))
    return torch.from_numpy(pd.Index(classes).get_indexer(pd.Index(names))).long(), classes


def complete(column: pd.Series, what: str, content: Callable[[str], Any] = str.strip) -> list[str]:
    """The cells of a column as text.

    Raises:
        ValueError: cells without `content`, such as missing ones.
    """
    cells = ["" if cell is None or cell != cell else label_of(cell) for cell in column]
    if empty := [row for row, cell in enumerate(cells) if not content(cell)]:
        raise ValueError(
            f"Expected a {what} in every row of {column.name!r} but {len(empty)} of {len(cells)} "
            f"have none: rows {shown(empty, 10)}, the first being row 0; fill them, or remove "
            "these rows."
        )
    return cells
