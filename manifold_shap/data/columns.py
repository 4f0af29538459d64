"""Says what is wrong with the target of a table, and what is worth knowing of its features."""

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from pandas.api import types

from manifold_shap._messages import shown
from manifold_shap.data.findings import Findings, typed

if TYPE_CHECKING:
    from manifold_shap.data.reading import TableReader

_MOST_CLASSES, _MANY_CATEGORIES = 100, 100
# Rows from which a column may be seen to number or name them.
_LEAST_ROWS = 20
# What a reader calls a column without a name.
_NAMELESS = re.compile(r"Unnamed: \d+")


def check_target(series: pd.Series, reader: "TableReader", found: Findings) -> None:
    """Note why a column cannot be what is to be predicted."""
    name, distinct = reader.target, series.nunique()
    absent = int(series.isna().sum())
    if absent and distinct:
        lack = "lacks" if absent == 1 else "lack"
        message = f"{absent} of {len(series)} rows {lack} the target {name!r}"
        found.problem(message, "missing", "drop_unlabelled", "leaves these rows out")
    if distinct < 2:
        one = f"'{series.dropna().iloc[0]}' in every row" if distinct else "nothing"
        found.problem(f"the target {name!r} holds {one}", "target", None, "to another column")
        return
    is_number = types.is_numeric_dtype(series.dtype) and not types.is_bool_dtype(series.dtype)
    if reader.task == "regression":
        if not is_number:
            example = series.dropna().iloc[0]
            message = f"the target {name!r} holds no numbers, but {example!r}"
            found.problem(message, "task", "classification", "takes it for classes")
        return
    message = (
        f"the target {name!r} holds {distinct} distinct values, more than the {_MOST_CLASSES} "
        "classes that are the most"
    )
    if is_number:
        fraction = series[np.isfinite(series) & (series % 1 != 0)]
        if len(fraction):
            message = (
                f"the target {name!r} holds fractions, which are no classes, such as "
                f"{fraction.iloc[0]}"
            )
        if len(fraction) or distinct > _MOST_CLASSES:
            found.problem(message, "task", "regression", "predicts the number")
    elif distinct > _MOST_CLASSES:
        found.problem(message, "target", None, "to another column")


def describe(features: pd.DataFrame, reader: "TableReader", found: Findings) -> tuple[str, ...]:
    """Remarks on what the columns hold; gives those that number or name the rows."""
    kept = {*reader.keep, *reader.categorical}
    kept |= found.troubled
    why = {str(name): _why_identifier(series, kept) for name, series in features.items()}
    odd = {name: reason for name, reason in why.items() if reason}
    if odd:
        listed = ", ".join(f"{name!r}, which {reason}" for name, reason in odd.items())
        fix = typed("keep", [*reader.keep, *odd])
        found.remark(
            f"a model that is trained here is not given columns that seem to identify the rows: "
            f"{listed}; {fix} keeps them"
        )
    plain = [name for name in features if name not in odd and name not in found.troubled]
    counts = {name: features[name].nunique(dropna=False) for name in plain}
    constant = [name for name, count in counts.items() if count < 2]
    if constant:
        found.remark(f"columns {shown(constant)} hold one value in all rows, and have a share of 0")
    for name, count in counts.items():
        if types.is_string_dtype(features[name].dtype) and count > _MANY_CATEGORIES:
            found.remark(
                f"column {name!r} holds {count} categories; those seldom seen count as one"
            )
    return tuple(odd)


def _is_mostly_distinct(series: pd.Series, distinct: int) -> bool:
    """Whether texts are so seldom the same that they cannot be categories."""
    rows = int(series.notna().sum())
    return (rows >= _LEAST_ROWS and distinct == rows) or distinct > max(100, 0.9 * rows)


def _why_identifier(series: pd.Series, kept: Collection[str]) -> str | None:
    """What makes a column look like the number or the name of its row, if anything does."""
    if series.name in kept:
        return None
    if _NAMELESS.fullmatch(str(series.name)):
        return "has no name, as a saved index"
    distinct = series.nunique()
    if pd.api.types.is_integer_dtype(series.dtype) and distinct == len(series) >= _LEAST_ROWS:
        low, high = int(series.min()), int(series.max())
        # Some rows may be left out.
        return f"numbers the rows from {low} to {high}" if high - low < 1.05 * distinct else None
    if pd.api.types.is_string_dtype(series.dtype) and _is_mostly_distinct(series, distinct):
        return f"holds {distinct} texts in {series.notna().sum()} rows"
    return None
