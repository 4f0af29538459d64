"""Puts the values of features in order, as numbers by which points are placed and coloured."""

import datetime
import numbers
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from pandas.api import types


class Ordered(NamedTuple):
    """A feature as numbers, NaN where a cell is missing or has no order.

    Attributes:
        ends: names of the lowest and the highest value, where it is one of two texts.
        dates: whether numbers are days since 1970.
    """

    numbers: Float[np.ndarray, " rows"]
    ends: tuple[str, ...] = ()
    dates: bool = False

    @property
    def known(self) -> bool:
        """Whether there is any order."""
        return bool(np.isfinite(self.numbers).any())


def ordered(column: pd.Series) -> Ordered:
    """A column as numbers; all NaN for text of more than two values, which has no order.

    >>> ordered(pd.Series(["yes", "no", None]))
    Ordered(numbers=array([ 1.,  0., nan]), ends=('no', 'yes'), dates=False)
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        if column.cat.ordered:
            codes = column.cat.codes.to_numpy(dtype=float)
            return Ordered(np.where(codes < 0, np.nan, codes))
        column = column.astype(object)
    there = column.dropna()
    if types.is_datetime64_any_dtype(column.dtype) or _all(there, datetime.date):
        moments = pd.to_datetime(column, utc=True).dt.tz_localize(None)
        days = (moments - pd.Timestamp(0)) / pd.Timedelta(days=1)
        return Ordered(days.to_numpy(dtype=float), dates=True)
    if _all(there, (numbers.Real, np.bool_)):
        return Ordered(column.astype(object).where(column.notna(), np.nan).to_numpy(dtype=float))
    ends = tuple(sorted(map(str, there.unique())))
    if len(ends) > 2:
        return Ordered(np.full(len(column), np.nan))
    places = {end: float(place) for place, end in enumerate(ends)}
    return Ordered(
        column.map(lambda value: places.get(str(value))).to_numpy(dtype=float),
        ends if len(ends) == 2 else (),
    )


def _all(values: pd.Series, kinds: Any) -> bool:
    return len(values) > 0 and all(isinstance(value, kinds) for value in values)


def rank(values: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " rows"]:
    """Each row's place between low (0) and high (1); NaN where there is no order, or one row."""
    known = np.isfinite(values)
    if len(values) == 1 or not known.any():
        return np.full(len(values), np.nan)
    place = pd.Series(values).rank(method="average").to_numpy(dtype=float)
    low, span = place[known].min(), np.ptp(place[known])
    return (place - low) / span if span else np.where(known, 0.5, np.nan)
