"""Encodes the distinct values of a column as floats, and finds the kind of a column by them."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from manifold_shap._words import shown
from manifold_shap.tables.forms import Codes
from manifold_shap.tables.schema import MISSING, OTHER, Column
from manifold_shap.tables.vocabulary import Vocabulary, label_of, shares

# Columns of more categories have the rarest of them share one element.
MOST_CATEGORIES = 100

# What pandas calls columns of numbers.
_NUMBERS = ("integer", "floating", "mixed-integer-float")


def fit_column(vocabulary: Vocabulary, codes: Codes, forced: bool = False) -> Column:
    """The column that a vocabulary's values make, with the mean and scale of these cells.

    Args:
        vocabulary: values of the column.
        codes: the cells of the training rows.
        forced: whether numbers, too, are categories.
    """
    name, values, numbers = str(vocabulary.name), vocabulary.values, vocabulary.numbers
    missing = vocabulary.missing is not None
    present = len(values) - missing
    plain = types.infer_dtype(values, skipna=True) in _NUMBERS
    two = present == 2 and not missing and not forced
    if numbers is not None and not forced and (present != 2 or not (plain or _ordered(values))):
        ranked = _ordered(values)
        mean, scale = _moments(numbers[codes])
        ranks = tuple(label_of(value) for value in values.cat.categories) if ranked else ()
        dated = types.is_datetime64_any_dtype(values.dtype) or _holds_dates(values)
        kind = "ordered" if ranked else "continuous"
        return Column(name, kind, ranks, mean, scale, missing=missing, date=dated)
    is_bool = types.is_bool_dtype(values.dtype) or types.infer_dtype(values) == "boolean"
    known = [vocabulary.labels[k] for k in range(len(values)) if k != vocabulary.missing]
    labels = list(dict.fromkeys(["False", "True"] if is_bool else known))
    if len(labels) == 2 and not forced and not missing:
        return Column(name, "binary", tuple(labels), numeric=two and plain)
    categories = _most_frequent(name, labels, vocabulary, codes) + (MISSING,) * missing
    return Column(name, "categorical", categories or (MISSING,))


def encode_values(
    column: Column, vocabulary: Vocabulary
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Elements of each of a vocabulary's values `[codes, width]`, and which ones are not known.

    A value that is not known is a category that the column lacks, or a missing cell where it had
    none: it is encoded as "other", or else as if it were average.

    Raises:
        TypeError: a column of numbers holds something else.
        ValueError: a number so far from the mean that float32 cannot hold it.
    """
    count = len(vocabulary.values)
    missing = np.arange(count) == (-1 if vocabulary.missing is None else vocabulary.missing)
    if column.kind in ("continuous", "ordered"):
        standard = np.where(missing, 0, _standardised(column, vocabulary))
        elements = [standard, missing] if column.missing else [standard]
        return np.stack(elements, 1).astype(np.float32), missing & (not column.missing)
    place_of = {label: place for place, label in enumerate(column.categories)}
    labels = pd.Series(_labels_for(column, vocabulary), dtype=object)
    place = np.array(labels.map(place_of).fillna(-1), dtype=np.int64)
    place[missing] = place_of.get(MISSING, -1)
    unknown = place < 0
    place[unknown] = place_of.get(OTHER, -1)
    grouped = unknown & (place >= 0) & (np.arange(count) < vocabulary.trained)
    if column.kind == "binary":
        return np.where(place < 0, 0.5, place).astype(np.float32)[:, None], unknown
    block = np.eye(column.width, dtype=np.float32)[place]
    block[place < 0] = 0
    return block, unknown & ~grouped


def decode_column(block: NDArray[np.float64], column: Column) -> pd.Series:
    """Values in original units, from elements `[rows, column.width]`."""
    if column.kind in ("continuous", "ordered"):
        numbers = block[:, 0] * column.scale + column.mean
        absent = block[:, 1] >= 0.5 if column.missing else np.zeros(len(block), dtype=bool)
        if column.kind == "ordered":
            nearest = numbers.round().clip(0, len(column.categories) - 1).astype(int)
            return _labelled(column.categories, np.where(absent, -1, nearest))
        series = pd.Series(np.where(absent, np.nan, numbers))
        return pd.to_datetime(series, unit="D").dt.round("s") if column.date else series
    codes = block.argmax(axis=1) if column.kind == "categorical" else (block[:, 0] >= 0.5) * 1
    if not column.numeric:
        last = [k for k, label in enumerate(column.categories) if label == MISSING]
        return _labelled(column.categories, np.where(np.isin(codes, last), -1, codes))
    values = np.array([float(label) for label in column.categories])
    whole = values.astype(np.int64) if np.abs(values).max() < 2**53 else values
    return pd.Series((whole if (whole == values).all() else values)[codes])


def _labels_for(column: Column, vocabulary: Vocabulary) -> list[str]:
    """Labels that may be looked up among the categories; numbers are spelled in one way."""
    if vocabulary.numbers is None or not _are_numbers(column.categories):
        return list(vocabulary.labels)
    return [label_of(number) for number in vocabulary.numbers]


def _are_numbers(categories: Sequence[str]) -> bool:
    plain = [label for label in categories if label not in (MISSING, OTHER)]
    return bool(pd.to_numeric(pd.Series(plain, dtype=object), errors="coerce").notna().all())


def _standardised(column: Column, vocabulary: Vocabulary) -> NDArray[np.float32]:
    numbers = vocabulary.numbers
    if numbers is None and len(vocabulary.values) - (vocabulary.missing is not None) == 0:
        numbers = np.full(len(vocabulary.values), np.nan)
    if numbers is None:
        raise TypeError(
            f"Expected numbers in column {column.name!r}, as in training, but it holds "
            f"{shown(list(vocabulary.labels[:3]))}; convert or correct these cells."
        )
    with np.errstate(over="ignore"):
        standard = ((numbers - column.mean) / column.scale).astype(np.float32)
    bad = np.isinf(standard)
    if bad.any():
        raise ValueError(
            f"Column {column.name!r} holds {numbers[bad][0]}, too far from the training mean "
            f"{column.mean} (scale {column.scale}) for float32; correct or drop the row."
        )
    return standard


def _moments(numbers: NDArray[np.float64]) -> tuple[float, float]:
    present = numbers[~np.isnan(numbers)]
    if len(present) == 0:
        return 0.0, 1.0
    # The computed spread of a constant column is rounding noise, not exactly 0.
    if present.min() == present.max():
        return float(present[0]), 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        mean, spread = float(present.mean()), float(present.std())
    return mean, spread if spread != 0 else 1.0


def _most_frequent(
    name: str, labels: list[str], vocabulary: Vocabulary, codes: Codes
) -> tuple[str, ...]:
    if len(labels) <= MOST_CATEGORIES:
        return tuple(labels)
    share = shares(codes, len(vocabulary.values))
    if vocabulary.missing is not None:
        share[vocabulary.missing] = 0
    kept = np.sort(np.argsort(-share, kind="stable")[: MOST_CATEGORIES - 1])
    warnings.warn(
        f"Column {name!r} has {len(labels)} categories: all but the {len(kept)} most frequent ones "
        f"({1 - share[kept].sum():.0%} of the rows) count as one to the value function, {OTHER!r}; "
        "the model sees them as they are.",
        stacklevel=2,
    )
    return (*(vocabulary.labels[k] for k in kept), OTHER)


def _ordered(values: pd.Series) -> bool:
    return isinstance(values.dtype, pd.CategoricalDtype) and bool(values.dtype.ordered)


def _holds_dates(values: pd.Series) -> bool:
    return types.infer_dtype(values, skipna=True) in ("date", "datetime", "datetime64")


def _labelled(categories: Sequence[str], codes: NDArray[Any]) -> pd.Series:
    return pd.Series(np.array([*categories, None], dtype=object)[codes])
