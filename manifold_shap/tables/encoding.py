"""Encodes the distinct values of a column as floats, and finds the kind of a column by them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from manifold_shap._messages import shown, warn
from manifold_shap.tables.forms.base import Codes
from manifold_shap.tables.schema import MISSING, OTHER, Column
from manifold_shap.tables.vocabulary import NUMBERS, Values, label_of

# Columns of more categories have the rarest of them share one element.
MOST_CATEGORIES = 100

# Text that is written as numbers is taken for numbers where it has as many distinct values.
_LEAST_NUMERALS = 4


def fit_column(values: Values, codes: Codes, forced: bool = False) -> Column:
    """The column that these values make, with the mean and scale of these cells.

    Args:
        values: of the column.
        codes: the cells of the training rows.
        forced: whether numbers, too, are categories.
    """
    name, missing, numbers = str(values.name), bool(values.missing.any()), values.numbers
    kind = types.infer_dtype(values.cells, skipna=True)
    count = 0 if numbers is None else len(np.unique(numbers[~values.missing]))
    plain, ranked = kind in NUMBERS and kind != "decimal", _ordered(values.cells)
    least = {"string": _LEAST_NUMERALS, "empty": 1}.get(kind, 0)
    two = count == 2 and (plain or ranked)
    if numbers is not None and count >= least and not (forced or two):
        ranks = tuple(label_of(rank) for rank in values.cells.cat.categories) if ranked else ()
        mean, scale = _moments(numbers[codes])
        dated = kind in ("date", "datetime", "datetime64", "period")
        kind = "ordered" if ranked else "continuous"
        return Column(name, kind, ranks, mean, scale, missing=missing, date=dated)
    labels = list(dict.fromkeys(values.labels[~values.missing]))
    if kind == "boolean" or types.is_bool_dtype(values.cells.dtype):
        labels = ["False", "True"]
    if len(labels) == 2 and not forced and not missing:
        return Column(name, "binary", tuple(labels), numeric=two and plain)
    categories = dict.fromkeys([*_most_frequent(labels, values, codes), *[MISSING] * missing])
    return Column(name, "categorical", tuple(categories))


def encode_values(column: Column, values: Values) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Elements of each value `[values, width]`, and which ones the column does not know.

    A value that is not known is a category that the column lacks, or a missing cell where it had
    none: it is encoded as "other", or else as if it were average.

    Raises:
        TypeError: a column of numbers holds something else.
        ValueError: a number so far from the mean that float32 cannot hold it.
    """
    missing = values.missing
    if column.kind == "continuous":
        standard = _standardised(column, values)
        return _with_indicator(standard, missing, column), missing & (not column.missing)
    place, known = _places(column, values)
    if column.kind == "ordered":
        rank = np.where(known & ~missing, place, column.mean)
        ranked = (rank - column.mean) / column.scale
        return _with_indicator(ranked, missing, column), ~known & ~(missing & column.missing)
    if column.kind == "binary":
        return np.where(known, place, 0.5).astype(np.float32)[:, None], ~known
    block = np.zeros((len(values), column.width), dtype=np.float32)
    other = column.categories.index(OTHER) if OTHER in column.categories else -1
    place = np.where(known, place, other)
    block[np.flatnonzero(place >= 0), place[place >= 0]] = 1
    return block, ~known


def decode_column(block: NDArray[np.float64], column: Column) -> pd.Series:
    """Values in original units, from elements `[rows, column.width]`."""
    if column.kind in ("continuous", "ordered"):
        numbers = block[:, 0] * column.scale + column.mean
        absent = block[:, 1] >= 0.5 if column.missing else np.zeros(len(block), dtype=bool)
        if column.kind == "ordered":
            nearest = numbers.round().clip(0, len(column.categories) - 1).astype(int)
            return _labelled(column.categories, np.where(absent, -1, nearest))
        numbers = np.where(absent, np.nan, numbers)
        return _dates(numbers) if column.date else pd.Series(numbers)
    codes = block.argmax(axis=1) if column.kind == "categorical" else (block[:, 0] >= 0.5) * 1
    if not column.numeric:
        last = [k for k, label in enumerate(column.categories) if label == MISSING]
        return _labelled(column.categories, np.where(np.isin(codes, last), -1, codes))
    values = np.array([float(label) for label in column.categories])
    whole = values.astype(np.int64) if np.abs(values).max() < 2**53 else values
    return pd.Series((whole if (whole == values).all() else values)[codes])


def _dates(days: NDArray[np.float64]) -> pd.Series:
    """Days since 1970 as moments, to the minute: in single precision they are right to seconds."""
    present = np.isfinite(days)
    found = np.full(len(days), np.datetime64("NaT"), "M8[us]")
    found[present] = np.rint(days[present] * 1440).astype(np.int64).astype("M8[m]")
    return pd.Series(found)


def _with_indicator(
    standard: NDArray[Any], missing: NDArray[np.bool_], column: Column
) -> NDArray[np.float32]:
    first = np.where(missing, 0, standard)
    return np.stack([first, missing] if column.missing else [first], 1).astype(np.float32)


def _places(column: Column, values: Values) -> tuple[Codes, NDArray[np.bool_]]:
    """The place of each value among the categories, and which ones are among them."""
    place_of = {label: place for place, label in enumerate(column.categories)}
    place = np.array([place_of.get(label, -1) for label in values.labels], dtype=np.int64)
    place[values.missing] = place_of.get(MISSING, -1)
    if values.numbers is not None and not _ordered(values.cells):
        # Numbers are the same however they are written: 1, 1.0 and "1.00".
        for odd in np.flatnonzero((place < 0) & ~values.missing):
            place[odd] = place_of.get(label_of(values.numbers[odd]), -1)
    return place, place >= 0


def _standardised(column: Column, values: Values) -> NDArray[np.float32]:
    numbers = values.numbers
    if numbers is None:
        raise TypeError(
            f"Expected numbers in column {column.name!r}, as in training, but it holds "
            f"{shown(values.labels.tolist())}; convert or correct its cells."
        )
    with np.errstate(over="ignore"):
        standard = ((numbers - column.mean) / column.scale).astype(np.float32)
    bad = np.isinf(standard)
    if bad.any():
        raise ValueError(
            f"Column {column.name!r} holds {numbers[bad][0]}, too far from the "
            f"training mean {column.mean} (scale {column.scale}) for float32; correct or drop "
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


def _most_frequent(labels: list[str], values: Values, codes: Codes) -> Sequence[str]:
    if len(labels) <= MOST_CATEGORIES:
        return labels
    count = pd.Series(np.bincount(codes, minlength=len(values)), index=values.labels)
    count = count[~values.missing].groupby(level=0, sort=False).sum()
    kept = count.sort_values(ascending=False, kind="stable").index[: MOST_CATEGORIES - 1]
    warn(
        f"Column {str(values.name)!r} has {len(labels)} categories: all but the {len(kept)} most "
        f"frequent ones ({1 - count[kept].sum() / len(codes):.0%} of the rows) count as one to the "
        f"value function, {OTHER!r}; the model sees them as they are.",
    )
    frequent = frozenset(kept)
    return [*(label for label in labels if label in frequent), OTHER]


def _ordered(cells: pd.Series) -> bool:
    return isinstance(cells.dtype, pd.CategoricalDtype) and bool(cells.dtype.ordered)


def _labelled(categories: Sequence[str], codes: NDArray[Any]) -> pd.Series:
    return pd.Series(np.array([*categories, None], dtype=object)[codes])
