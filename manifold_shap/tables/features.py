"""Writes cells of tables as a person would."""

import datetime
import numbers
from typing import Any

import numpy as np
import pandas as pd


def as_text(value: Any) -> str:
    """A value of a table in few characters, as a person would write it.

    >>> import pandas as pd
    >>> [as_text(v) for v in (70.0, 3.14159265, 1999.25, pd.Timestamp("1954-03-02"), None, "Rome")]
    ['70', '3.142', '1999.25', '1954-03-02', 'missing', 'Rome']
    """
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return "missing"
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral):
        return _number(float(value))
    if isinstance(value, np.datetime64 | datetime.datetime):
        moment = pd.Timestamp(value)
        return moment.date().isoformat() if moment == moment.normalize() else str(moment)
    if isinstance(value, np.timedelta64 | datetime.timedelta):
        return str(pd.Timedelta(value)).removesuffix(" 00:00:00")
    return str(value).strip()


def _number(value: float) -> str:
    """Four digits, but all before the point of large numbers, and two after it."""
    if 1000 <= abs(value) < 1e15:
        return f"{value:.2f}".rstrip("0").removesuffix(".")
    # Adding zero turns -0.0 into 0.0.
    return f"{value + 0.0:.4g}"


def row_text(columns: pd.DataFrame, row: int) -> str:
    """Values of one row with the names of their columns: "Area = 3.1, Perimeter = 7".

    Numbered elements are listed without their numbers, those that are not there not at all.
    """
    values = {name: columns[name].iloc[row] for name in columns}
    if any(isinstance(name, str) for name in values):
        return ", ".join(f"{name} = {as_text(value)}" for name, value in values.items())
    return ", ".join(as_text(value) for value in values.values() if not pd.isna(value))
