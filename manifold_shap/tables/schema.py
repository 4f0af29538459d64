"""Describes the columns of a table, and how they are encoded as rows of floats.

A continuous column becomes one standardised element (an ordered one that of its rank), a binary
column one 0/1 element, and a categorical column a one-hot block. Where cells are missing, a
continuous column has one element more, which says so, and a categorical one a category more. Each
column is one player: its elements move as one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._checks import check_distinct
from manifold_shap._messages import check_choice, shown
from manifold_shap._saved import saved
from manifold_shap.players import Players

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["continuous", "ordered", "binary", "categorical"]

# Categories that are no values of their own: missing cells, and all categories that are rare.
MISSING, OTHER = "(missing)", "(other)"


@dataclass(frozen=True)
class Column:
    """One column of a table, and how it is encoded.

    >>> Column("colour", "categorical", ("blue", "green", "red")).width
    3

    Attributes:
        name: its name in the table.
        kind: "continuous", "ordered", "binary" or "categorical".
        categories: every value it may take, as text, in order; empty for a continuous column. A
            binary column encodes the first as 0 and the second as 1.
        mean: training mean, in the column's own units (continuous; of ranks, for an ordered one).
        scale: training standard deviation, in the same units; 1 where the column is constant.
        numeric: whether the two values of a binary column are numbers rather than text.
        missing: whether a continuous or ordered column has a second element, 1 where the cell is
            missing, and 0 where it is not; the first is then 0, as at the mean.
        date: whether the numbers of a continuous column are days since 1970.

    Raises:
        ValueError: an unknown kind, categories that do not suit it, or a mean or scale that is
            not finite.
    """

    name: str
    kind: str
    categories: tuple[str, ...] = ()
    mean: float = 0.0
    scale: float = 1.0
    numeric: bool = False
    missing: bool = False
    date: bool = False

    def __post_init__(self) -> None:
        # Text of numpy could not be read back from a checkpoint.
        object.__setattr__(self, "name", str(self.name))
        object.__setattr__(self, "categories", tuple(str(label) for label in self.categories))
        check_choice(f"kind of column {self.name!r}", self.kind, get_args(Kind))
        count, distinct = len(self.categories), len(set(self.categories))
        fits = {
            "continuous": count == 0,
            "ordered": count >= 1,
            "binary": count == 2,
            "categorical": count >= 1,
        }
        if not fits[self.kind] or distinct < count:
            raise ValueError(
                f"Expected distinct categories for column {self.name!r} (none if continuous, two "
                f"if binary, one or more otherwise) but got {shown(self.categories)} for a "
                f"{self.kind} column."
            )
        if not (np.isfinite(self.mean) and np.isfinite(self.scale) and self.scale > 0):
            raise ValueError(
                f"Expected a finite mean and a positive scale for column {self.name!r} but got "
                f"mean {self.mean} and scale {self.scale}; change the unit of its values."
            )

    @property
    def width(self) -> int:
        """How many elements of the encoded row it takes."""
        return len(self.categories) if self.kind == "categorical" else 1 + self.missing


@saved
@dataclass(frozen=True)
class Schema:
    """The columns of a table in order, and the encoding they define.

    >>> import pandas as pd
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
        ValueError: a name that occurs twice.
    """

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        check_distinct(self.names, "column names", "rename or drop the copies")

    @classmethod
    def fit(
        cls,
        frame: Any,
        categorical: Iterable[str] = (),
        categories_from: Any = None,
    ) -> "Schema":
        """Infer the kinds and categories of a table, and standardise by its statistics.

        Numbers with exactly two distinct values are binary, other numbers, dates, times and
        durations continuous, and so is text that is written as numbers throughout. Ordered
        categories are ordered. Text, bool and other `category` columns are binary with two distinct
        values and otherwise categorical; with more than 100 categories, the rarest share one.
        Missing cells are values: see `Column`.

        Args:
            frame: the training rows, of pandas or polars, or an array: means and scales come from
                here and nowhere else.
            categorical: columns to encode one-hot although they hold numbers or two values.
            categories_from: rows that define the kinds and the sets of categories; by default
                `frame` itself. Give the whole table where a rare category may be missing from
                the training rows.

        Raises:
            TypeError: `frame` is no table, or a column holds lists or complex numbers.
            ValueError: no rows or columns, duplicate or unknown names, infinite numbers, dates in
                several time zones.
        """
        from manifold_shap.tables import frames

        return cls(frames.fit(frame, frozenset(categorical), categories_from))

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

    def encode(self, frame: Any) -> Float[Tensor, "rows width"]:
        """A table in original units as float32 rows; columns are matched by name.

        Raises:
            TypeError: `frame` is no table, or a column of numbers holds something else.
            ValueError: missing, extra or duplicate columns, missing cells or categories that the
                schema does not know, or infinite numbers.
        """
        from manifold_shap.tables import frames

        return frames.encode(frame, self.columns)

    def rows(self, frame: "pd.DataFrame") -> Float[Tensor, "rows width"]:
        """A table as the rows that value functions of this schema take: `encode(frame)`."""
        return self.encode(frame)

    def decode(self, x: Tensor) -> "pd.DataFrame":
        """Encoded rows `[rows, width]` as a table in original units.

        Categories come back as text, binary columns of numbers as numbers. Elements between two
        codes (a generated row) take the nearest value: 1 from 0.5 up, the largest of a block.

        Raises:
            ValueError: `x` has another shape, or holds NaN.
        """
        from manifold_shap.tables import frames

        return frames.decode(x, self.columns)

    def to_dict(self) -> dict[str, Any]:
        """Plain strings, numbers and lists, for a checkpoint or a JSON file."""
        return {
            "columns": [
                {**asdict(column), "categories": list(column.categories)} for column in self.columns
            ]
        }

    kind = "schema"

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return self.to_dict(), {}

    @classmethod
    def restored(cls, settings: dict[str, Any], _: dict[str, Tensor], __: Any) -> "Schema":
        return cls.from_dict(settings)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Schema":
        """The schema that `to_dict` wrote."""
        columns = plain["columns"]
        return cls(
            tuple(Column(**{**each, "categories": tuple(each["categories"])}) for each in columns)
        )
