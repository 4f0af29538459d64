"""Encodes data frames as rows of floats by the kinds of their columns, and makes frames of rows."""

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from pandas.api import types
from torch import Tensor

from manifold_shap._checks import all_at_once, check_distinct, check_known
from manifold_shap._words import shown
from manifold_shap.tables.schema import Column

_IDENTIFIER_LEAST = 100
_IDENTIFIER_SHARE = 0.9
_IDENTIFIER_ROWS = 20
_MOST = 0.5
_MISSING_WORDS = ("#n/a", "<na>", "n/a", "na", "nan", "none", "null")
# Three parts, so that neither a range ("10-14") nor a month ("May") is taken for a date.
_DATE = r"\w+(?:[-/. ]|, )\w+(?:[-/. ]|, )\w+.*"


def fit(
    frame: pd.DataFrame, categorical: frozenset[str], categories_from: pd.DataFrame | None
) -> tuple[Column, ...]:
    """See `Schema.fit`."""
    whole = frame if categories_from is None else categories_from
    for table in (frame, whole):
        _check_table(table)
        if table.empty:
            raise ValueError(
                f"Expected a table with rows and columns but got {table.shape[0]} rows and "
                f"{table.shape[1]} columns."
            )
        odd = [name for name in table.columns if not isinstance(name, str)]
        if odd:
            raise ValueError(
                f"Expected column names to be text but got {shown(odd)}; "
                "`frame.rename(columns=str)` makes them so."
            )
    _check_names(whole, tuple(frame.columns), "`categories_from`")
    check_known(categorical, tuple(frame.columns), "`categorical` to name columns of the table")
    return tuple(
        all_at_once(lambda k: fit_column(frame[k], whole[k], k in categorical), frame.columns)
    )


def encode(frame: pd.DataFrame, columns: Sequence[Column]) -> Float[Tensor, "rows width"]:
    """See `Schema.encode`."""
    _check_table(frame)
    _check_names(frame, tuple(column.name for column in columns), "the table")
    blocks = all_at_once(lambda column: encode_column(frame[column.name], column), columns)
    return torch.from_numpy(np.concatenate(blocks, axis=1))


def decode(x: Any, columns: Sequence[Column]) -> pd.DataFrame:
    """See `Schema.decode`."""
    stops = np.cumsum([column.width for column in columns])
    if not isinstance(x, Tensor):
        raise TypeError(f"Expected `x` to be a tensor but got {type(x).__name__}.")
    if x.ndim != 2 or x.shape[1] != stops[-1]:
        raise ValueError(
            f"Expected `x` of shape (rows, {stops[-1]}) but got {tuple(x.shape)}; "
            "rows are encoded by `Schema.encode`."
        )
    if torch.isnan(x).any():
        raise ValueError("Expected `x` without NaN; fill absent elements before decoding.")
    blocks = np.split(x.detach().cpu().to(torch.float64).numpy(), stops[:-1], axis=1)
    pairs = zip(columns, blocks, strict=True)
    return pd.DataFrame({column.name: _decoded(block, column) for column, block in pairs})


def fit_column(rows: pd.Series, whole: pd.Series, forced: bool) -> Column:
    """The column that `whole` is, with the mean and scale of `rows`; `forced`: categorical."""
    name = str(rows.name)
    for series in (whole, rows):
        _check_present(series)
    whole = whole.infer_objects()
    if whole.dtype.kind in "mMc":
        raise TypeError(
            f"Expected numbers, text or bools in column {name!r} but got {whole.dtype}; "
            "turn it into numbers (days since a date, say) or drop it."
        )
    is_number = types.is_numeric_dtype(whole.dtype) and not types.is_bool_dtype(whole.dtype)
    if is_number:
        finite_numbers(whole)
        if not forced and whole.nunique() != 2:
            return _fit_continuous(name, finite_numbers(rows))
    elif not forced:
        check_numerals(whole)
        _check_dates(whole)
        if _is_mostly_distinct(whole):
            # Text that is almost never the same twice cannot be a category.
            raise ValueError(
                f"Column {name!r} looks like an identifier: {whole.nunique()} distinct texts "
                f"in {len(whole)} rows; drop it, or name it in `categorical` if it is a category."
            )
    is_bool = types.is_bool_dtype(whole.dtype)
    labels = {"False", "True"} if is_bool else {_text(value) for value in whole.unique()}
    categories = tuple(sorted(labels, key=float if is_number else None))
    kind = "binary" if len(categories) == 2 and not forced else "categorical"
    return Column(name, kind, categories, numeric=kind == "binary" and is_number)


def encode_column(series: pd.Series, column: Column) -> NDArray[np.float32]:
    """Its elements, `[rows, column.width]`."""
    if column.kind == "continuous":
        return _standardise(series, column)[:, None]
    codes = _codes(series, column)
    if column.kind == "binary":
        return codes[:, None].astype(np.float32)
    return np.eye(column.width, dtype=np.float32)[codes]


def _decoded(block: NDArray[np.float64], column: Column) -> NDArray[Any]:
    """Its values in original units, from elements `[rows, column.width]`."""
    if column.kind == "continuous":
        return block[:, 0] * column.scale + column.mean
    codes = block.argmax(axis=1) if column.kind == "categorical" else (block[:, 0] >= 0.5) * 1
    if not column.numeric:
        return np.array(column.categories, dtype=object)[codes]
    values = np.array([float(label) for label in column.categories])
    whole = values.astype(np.int64) if np.abs(values).max() < 2**53 else values
    return (whole if (whole == values).all() else values)[codes]


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
    _check_present(series)
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


def _check_present(series: pd.Series) -> None:
    absent = series.isna().to_numpy()
    if absent.any():
        raise ValueError(
            f"Expected column {series.name!r} without missing values but {absent.sum()} of "
            f"{len(series)} rows lack one, first row {_row(series, absent)}; drop these "
            "rows, fill them, or give them a category of their own."
        )


def _text(value: Any) -> str:
    """One spelling per value: 1, 1.0 and numpy's own 1 are all "1"."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        # Adding zero turns -0.0 into 0.0; pandas holds the two for one value.
        return np.format_float_positional(value + 0.0, trim="-")
    return str(value)


def _fit_continuous(name: str, values: NDArray[np.float64]) -> Column:
    # The computed spread of a constant column is rounding noise, not exactly 0.
    if values.min() == values.max():
        return Column(name, "continuous", mean=float(values[0]))
    with np.errstate(over="ignore", invalid="ignore"):
        mean, spread = float(values.mean()), float(values.std())
    return Column(name, "continuous", mean=mean, scale=spread if spread != 0 else 1.0)


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


def _codes(series: pd.Series, column: Column) -> NDArray[np.int64]:
    _check_present(series)
    code, values = pd.factorize(series)
    labels = [_text(value) for value in values]
    known = pd.Index(column.categories).get_indexer(pd.Index(labels, dtype=object))
    found = known[code] if len(labels) else code
    unseen = found < 0
    if unseen.any():
        first = unseen.argmax()
        raise ValueError(
            f"Column {column.name!r} holds {labels[code[first]]!r} in row {_row(series, unseen)} "
            f"({unseen.sum()} such rows in all), which is none of its known categories "
            f"{shown(column.categories)}; fit the schema with `categories_from` the whole table, "
            "or drop or recode these rows."
        )
    return found.astype(np.int64)


def _standardise(series: pd.Series, column: Column) -> NDArray[np.float32]:
    values = finite_numbers(series)
    with np.errstate(over="ignore"):
        standard = ((values - column.mean) / column.scale).astype(np.float32)
    bad = ~np.isfinite(standard)
    if bad.any():
        first = bad.argmax()
        raise ValueError(
            f"Column {column.name!r} holds {values[first]} in row {_row(series, bad)}, too far "
            f"from the training mean {column.mean} (scale {column.scale}) for float32; "
            "correct or drop the row."
        )
    return standard


def _check_table(frame: Any) -> None:
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"Expected a pandas DataFrame but got {type(frame).__name__}.")
    check_distinct(frame.columns, "column names", "rename or drop the copies")


def _check_names(frame: pd.DataFrame, names: tuple[str, ...], where: str) -> None:
    known = frozenset(names)
    missing = [name for name in names if name not in frame.columns]
    extra = [name for name in frame.columns if name not in known]
    if missing or extra:
        raise ValueError(
            f"Expected {where} to have the columns {shown(names)} but it lacks {shown(missing)} "
            f"and has the extra {shown(extra)}; select them with `frame[list(schema.names)]`."
        )
