"""Encodes a data frame as rows of floats by the kinds of its columns, and decodes rows again.

A continuous column becomes one standardised element, a binary column one 0/1 element, and a
categorical column a one-hot block. Each column is one player: a block moves as one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._checks import all_at_once, check_known
from manifold_shap._words import shown
from manifold_shap.players import Players
from manifold_shap.tables.columns import Column, decode_column, encode_column, fit_column


@dataclass(frozen=True)
class Schema:
    """The columns of a table in order, and the encoding they define.

    >>> frame = pd.DataFrame({"age": [20, 30, 40], "colour": ["red", "green", "blue"]})
    >>> schema = Schema.fit(frame)
    >>> schema.encode(frame)
    tensor([[-1.2247,  0.0000,  0.0000,  1.0000],
            [ 0.0000,  0.0000,  1.0000,  0.0000],
            [ 1.2247,  1.0000,  0.0000,  0.0000]])
    >>> schema.players.names
    ('age', 'colour')
    >>> schema.decode(schema.encode(frame))["colour"].tolist()
    ['red', 'green', 'blue']

    Raises:
        ValueError: no column, or a name that occurs twice.
    """

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError("Expected `columns` to hold at least one column but got none.")
        check_distinct(self.names)

    @classmethod
    def fit(
        cls,
        frame: pd.DataFrame,
        categorical: Iterable[str] = (),
        categories_from: pd.DataFrame | None = None,
    ) -> "Schema":
        """Infer the kinds and categories of a table, and standardise by its statistics.

        Numbers with exactly two distinct values are binary, other numbers continuous. Text, bool
        and `category` columns are binary with two distinct values and otherwise categorical.

        Args:
            frame: the training rows: means and scales come from here and nowhere else.
            categorical: columns to encode one-hot although they hold numbers or two values.
            categories_from: rows that define the kinds and the sets of categories; by default
                `frame` itself. Give the whole table where a rare category may be missing from
                the training rows.

        Raises:
            TypeError: `frame` is no data frame, or a column holds dates or complex numbers.
            ValueError: no rows or columns, duplicate or unknown names, missing or infinite
                values, text that looks like numbers, dates or an identifier. What is wrong with
                several columns is said at once.
        """
        whole = frame if categories_from is None else categories_from
        forced = frozenset(categorical)
        for table in (frame, whole):
            _check_filled(table)
        _check_names(whole, tuple(frame.columns), "`categories_from`")
        check_known(forced, tuple(frame.columns), "`categorical` to name columns of the table")

        def fit(name: str) -> Column:
            return fit_column(frame[name], whole[name], name in forced)

        return cls(tuple(all_at_once(fit, frame.columns)))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns: the players."""
        return tuple(column.name for column in self.columns)

    @property
    def width(self) -> int:
        """Elements of one encoded row."""
        return sum(column.width for column in self.columns)

    @property
    def players(self) -> Players:
        """Each column as a player, who owns its elements of an encoded row."""
        widths = torch.tensor([column.width for column in self.columns])
        return Players(self.names, torch.repeat_interleave(widths))

    def encode(self, frame: pd.DataFrame) -> Float[Tensor, "rows width"]:
        """A table in original units as float32 rows; columns are matched by name.

        Raises:
            TypeError: `frame` is not a data frame.
            ValueError: missing, extra or duplicate columns, missing or infinite values, text in a
                continuous column, or a category that is not in the schema.
        """
        _check_table(frame)
        _check_names(frame, self.names, "the table")
        blocks = all_at_once(lambda column: encode_column(frame[column.name], column), self.columns)
        return torch.from_numpy(np.concatenate(blocks, axis=1))

    def decode(self, x: Tensor) -> pd.DataFrame:
        """Encoded rows `[rows, width]` as a table in original units.

        Categories come back as text, binary columns of numbers as numbers. Elements between two
        codes (a generated row) take the nearest value: 1 from 0.5 up, the largest of a block.

        Raises:
            TypeError: `x` is not a tensor.
            ValueError: it has another shape, or holds NaN.
        """
        _check_encoded(x, self.width)
        values = x.detach().cpu().to(torch.float64).numpy()
        stops = np.cumsum([column.width for column in self.columns])[:-1]
        blocks = np.split(values, stops, axis=1)
        pairs = zip(self.columns, blocks, strict=True)
        return pd.DataFrame({column.name: decode_column(block, column) for column, block in pairs})

    def to_dict(self) -> dict[str, Any]:
        """Plain strings, numbers and lists, for a checkpoint or a JSON file."""
        return {
            "columns": [
                {**asdict(column), "categories": list(column.categories)} for column in self.columns
            ]
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Schema":
        """The schema that `to_dict` wrote.

        Raises:
            ValueError: a key is missing or unknown.
        """
        try:
            columns = [
                Column(**{**entry, "categories": tuple(entry["categories"])})
                for entry in plain["columns"]
            ]
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"Expected a schema written by `Schema.to_dict` but got {plain!r:.200}: {error!r}."
            ) from error
        return cls(tuple(columns))


def check_distinct(names: Iterable[Any]) -> None:
    """Refuse column names of which one occurs twice."""
    index = pd.Index(names)
    if index.has_duplicates:
        raise ValueError(
            "Expected distinct column names but got "
            f"{shown(index[index.duplicated()].unique().tolist())} more than once; rename or drop "
            "the copies."
        )


def _check_table(frame: Any) -> None:
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"Expected a pandas DataFrame but got {type(frame).__name__}.")
    check_distinct(frame.columns)


def _check_encoded(x: Any, width: int) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"Expected `x` to be a tensor but got {type(x).__name__}.")
    if x.ndim != 2 or x.shape[1] != width:
        raise ValueError(
            f"Expected `x` of shape (rows, {width}) but got {tuple(x.shape)}; "
            "rows are encoded by `Schema.encode`."
        )
    if torch.isnan(x).any():
        raise ValueError("Expected `x` without NaN; fill absent elements before decoding.")


def _check_filled(frame: pd.DataFrame) -> None:
    _check_table(frame)
    if frame.empty:
        raise ValueError(
            f"Expected a table with rows and columns but got {frame.shape[0]} rows and "
            f"{frame.shape[1]} columns."
        )
    odd = [name for name in frame.columns if not isinstance(name, str)]
    if odd:
        raise ValueError(
            f"Expected column names to be text but got {shown(odd)}; "
            "`frame.rename(columns=str)` makes them so."
        )


def _check_names(frame: pd.DataFrame, names: tuple[str, ...], where: str) -> None:
    known = frozenset(names)
    missing = [name for name in names if name not in frame.columns]
    extra = [name for name in frame.columns if name not in known]
    if missing or extra:
        raise ValueError(
            f"Expected {where} to have the columns {shown(names)} but it lacks {shown(missing)} "
            f"and has the extra {shown(extra)}; select them with `frame[list(schema.names)]`."
        )
