"""How a column is encoded for networks and distances: its kind, and the elements of its cells.

A continuous column becomes one standardised element (an ordered one that of its rank), a binary
column one 0/1 element, and a categorical column a one-hot block. Where cells are missing, a
continuous column has one element more, which says so, and a categorical one a category more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from manifold_shap._messages import shown, warn
from manifold_shap.tables.distinct import NUMBERS, Codes, label_of, numbers_of

# Categories that are no values of their own: missing cells, and all categories that are rare.
MISSING, OTHER = "(missing)", "(other)"
# Columns of more categories have the rarest of them share one element.
MOST_CATEGORIES = 100
# Text that is written as numbers is taken for numbers where it has as many distinct values.
LEAST_NUMERALS = 4


@dataclass(frozen=True)
class Encoding:
    """How the cells of a column are encoded.

    >>> Encoding("colour", "categorical", ("blue", "green", "red")).width
    3

    Attributes:
        name: of the column, as text.
        kind: "continuous", "ordered", "binary" or "categorical".
        categories: every value it may take, as text, in order; empty for a continuous column. A
            binary column encodes the first as 0 and the second as 1.
        mean: training mean, in the column's own units (continuous; of ranks, for an ordered one).
        scale: training standard deviation, in the same units; 1 where the column is constant.
        missing: whether a continuous or ordered column has a second element, 1 where the cell is
            missing, and 0 where it is not; the first is then 0, as at the mean.
        date: whether the numbers of a continuous column are days since 1970.
    """

    name: str
    kind: str
    categories: tuple[str, ...] = ()
    mean: float = 0.0
    scale: float = 1.0
    missing: bool = False
    date: bool = False

    @classmethod
    def fit(cls, cells: pd.Series, codes: Codes, forced: bool = False) -> "Encoding":
        """The encoding of a column, with the mean and scale of the training rows.

        Numbers with exactly two distinct values are binary, other numbers, dates, times, durations
        and intervals continuous, and so is text that is written as numbers throughout. Ordered
        categories are ordered. Text, bool and other categories are binary with two distinct values
        and otherwise categorical.

        Args:
            cells: the distinct ones, in order.
            codes: the place of every cell of training among them.
            forced: whether numbers, too, are categories.

        Raises:
            TypeError, ValueError: see `numbers_of`.
        """
        name, absent, numbers = str(cells.name), cells.isna().to_numpy(bool), numbers_of(cells)
        kind, missing = types.infer_dtype(cells, skipna=True), bool(absent.any())
        ranked = isinstance(cells.dtype, pd.CategoricalDtype) and bool(cells.dtype.ordered)
        count = 0 if numbers is None else len(np.unique(numbers[~absent]))
        two = count == 2 and (ranked or (kind in NUMBERS and kind != "decimal"))
        least = {"string": LEAST_NUMERALS, "empty": 1}.get(kind, 0)
        if numbers is not None and count >= least and not (forced or two):
            ranks = tuple(map(label_of, cells.cat.categories)) if ranked else ()
            date = kind in ("date", "datetime", "datetime64", "period")
            mean, scale = _moments(numbers[codes])
            return cls(
                name, "ordered" if ranked else "continuous", ranks, mean, scale, missing, date
            )
        labels = list(dict.fromkeys(np.array([*map(label_of, cells)], object)[~absent]))
        if kind == "boolean" or types.is_bool_dtype(cells.dtype):
            labels = ["False", "True"]
        if len(labels) == 2 and not forced and not missing:
            return cls(name, "binary", tuple(labels))
        frequent = _most_frequent(labels, cells, codes)
        return cls(name, "categorical", (*frequent, *[MISSING] * missing))

    @property
    def width(self) -> int:
        """How many elements of the encoded row it takes."""
        return len(self.categories) if self.kind == "categorical" else 1 + self.missing

    def elements(self, cells: pd.Series) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Elements of cells `[cells, width]`, and which ones training had none like.

        That is a category that is not listed, or a missing cell where there was none: it is encoded
        as "other", or else as if it were average.

        Raises:
            TypeError: a column of numbers holds something else.
            ValueError: a number so far from the mean that float32 cannot hold it.
        """
        absent = cells.isna().to_numpy(bool)
        if self.kind in ("continuous", "ordered"):
            first = np.where(absent, 0, self._standardised(cells))
            columns = [first, absent] if self.missing else [first]
            return np.stack(columns, 1).astype(np.float32), absent & (not self.missing)
        places = {label: place for place, label in enumerate(self.categories)}
        place = np.array([places.get(label_of(cell), -1) for cell in cells], dtype=np.int64)
        place[absent] = places.get(MISSING, -1)
        unknown = place < 0
        if self.kind == "binary":
            return np.where(unknown, 0.5, place).astype(np.float32)[:, None], unknown
        place[unknown] = places.get(OTHER, -1)
        return np.eye(self.width + 1, self.width, dtype=np.float32)[place], unknown

    def _standardised(self, cells: pd.Series) -> NDArray[np.float32]:
        numbers = numbers_of(cells)
        if numbers is None:
            raise TypeError(
                f"Expected numbers in column {self.name!r}, as in training, but it holds "
                f"{shown(map(label_of, cells))}; convert or correct its cells."
            )
        with np.errstate(over="ignore"):
            standard = ((numbers - self.mean) / self.scale).astype(np.float32)
        if np.isinf(standard).any():
            raise ValueError(
                f"Column {self.name!r} holds {numbers[np.isinf(standard)][0]}, too far from the "
                f"training mean {self.mean} (scale {self.scale}) for float32; correct or drop "
                "these rows."
            )
        return standard


def _moments(numbers: NDArray[np.float64]) -> tuple[float, float]:
    present = numbers[~np.isnan(numbers)]
    if len(present) == 0:
        return 0.0, 1.0
    # The computed spread of a constant column is rounding noise, not exactly 0.
    if present.min() == present.max():
        return float(present[0]), 1.0
    return float(present.mean()), float(present.std())


def _most_frequent(labels: list[str], cells: pd.Series, codes: Codes) -> Sequence[str]:
    if len(labels) <= MOST_CATEGORIES:
        return labels
    counts = pd.Series(np.bincount(codes, minlength=len(cells)), index=[*map(label_of, cells)])
    counts = counts[cells.notna().to_numpy()].groupby(level=0, sort=False).sum()
    kept = counts.sort_values(ascending=False, kind="stable").index[: MOST_CATEGORIES - 1]
    warn(
        f"Column {str(cells.name)!r} has {len(labels)} categories: all but the {len(kept)} most "
        f"frequent ones ({1 - counts[kept].sum() / len(codes):.0%} of the rows) count as one to "
        f"the value function, {OTHER!r}; the model sees them as they are.",
    )
    frequent = frozenset(kept)
    return [*(label for label in labels if label in frequent), OTHER]
