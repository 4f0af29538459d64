"""Finds columns of text that were meant to be numbers, dates or identifiers."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

_IDENTIFIER_LEAST = 100
_IDENTIFIER_SHARE = 0.9
_IDENTIFIER_ROWS = 20
_MOST = 0.5
_MISSING_WORDS = ("#n/a", "<na>", "n/a", "na", "nan", "none", "null")
# Three parts, so that neither a range ("10-14") nor a month ("May") is taken for a date.
_DATE = r"\w+(?:[-/. ]|, )\w+(?:[-/. ]|, )\w+.*"


def check_column(series: pd.Series) -> None:
    """Refuse missing or infinite numbers, and text that looks like numbers, dates or identifiers.

    Raises:
        ValueError: what is wrong, and the usual fix.
    """
    check_present(series)
    if types.is_bool_dtype(series.dtype):
        return
    if types.is_numeric_dtype(series.dtype):
        finite_numbers(series)
        return
    check_numerals(series)
    _check_dates(series)
    if _is_mostly_distinct(series):
        # Text that is almost never the same twice cannot be a category.
        raise ValueError(
            f"Column {series.name!r} looks like an identifier: {series.nunique()} distinct texts "
            f"in {len(series)} rows; drop it, or name it in `categorical` if it is a category."
        )


def check_numerals(series: pd.Series) -> None:
    """Refuse text that was meant to be numbers.

    Raises:
        ValueError: most values are numbers, and the rest are words for a missing one, or some are
            written with a decimal comma, or there are too many distinct ones for a category.
    """
    text = series.astype(str)
    plain, pointed = _is_numeral(text), _is_numeral(text.str.replace(",", ".", regex=False))
    odd, commas = text[~plain], text[pointed & ~plain]
    if pointed.mean() <= _MOST:
        return
    if len(commas):
        raise ValueError(
            f"Column {series.name!r} is text although {pointed.sum()} of its {len(text)} values "
            f"look like numbers, {len(commas)} with a decimal comma, first {commas.iloc[0]!r} in "
            f"row {commas.index[0]}; write a decimal point, or another separator in categories."
        )
    if _is_mostly_distinct(series) or (len(odd) and odd.str.lower().isin(_MISSING_WORDS).all()):
        example = f", but not {odd.iloc[0]!r} in row {odd.index[0]}" if len(odd) else ""
        raise ValueError(
            f"Column {series.name!r} is text although {plain.sum()} of its {len(series)} values "
            f"are numbers{example}; correct or drop the others and convert it with `pd.to_numeric`."
        )


def finite_numbers(series: pd.Series) -> NDArray[np.float64]:
    """The values of a column of numbers, as float64.

    Raises:
        ValueError: one is missing, infinite or no number; the first such row.
    """
    check_present(series)
    plain = series.astype(object) if isinstance(series.dtype, pd.CategoricalDtype) else series
    values = pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = ~np.isfinite(values)
    if bad.any():
        first = series.iloc[int(bad.argmax())]
        first = first.item() if isinstance(first, np.generic) else first
        raise ValueError(
            f"Expected finite numbers in continuous column {series.name!r} but {bad.sum()} of "
            f"{len(series)} rows hold something else, first {first!r} in row "
            f"{_row(series, bad)}; correct or drop these rows."
        )
    return values


def _row(series: pd.Series, bad: NDArray[np.bool_]) -> Any:
    return series.index[int(bad.argmax())]


def _is_numeral(text: pd.Series) -> pd.Series:
    return pd.to_numeric(text.astype(object), errors="coerce").notna()


def _check_dates(series: pd.Series) -> None:
    text = pd.Series(series.unique(), dtype=object).astype(str)
    text = text[text.str.fullmatch(_DATE)]
    dates = text[pd.to_datetime(text, errors="coerce", format="mixed", utc=True).notna()]
    if len(dates) > _MOST * series.nunique():
        raise ValueError(
            f"Column {series.name!r} looks like dates, such as {dates.iloc[0]!r}; turn it into "
            "numbers (days since a date, say) or drop it, or name it in `categorical` if it is a "
            "category."
        )


def _is_mostly_distinct(series: pd.Series) -> bool:
    rows, distinct = len(series), series.nunique()
    every = rows >= _IDENTIFIER_ROWS and distinct == rows
    return every or distinct > max(_IDENTIFIER_LEAST, _IDENTIFIER_SHARE * rows)


def check_present(series: pd.Series) -> None:
    """Refuse missing values; the error names the first row without one."""
    absent = series.isna().to_numpy()
    if absent.any():
        raise ValueError(
            f"Expected column {series.name!r} without missing values but {absent.sum()} of "
            f"{len(series)} rows lack one, first row {_row(series, absent)}; drop these "
            "rows, fill them, or give them a category of their own."
        )
