"""Writes single cells of a frame as numbers, text and lists, and reads them back exactly."""

from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

# How cells of other types than JSON's are written and read, by the name that stands beside them.
_KINDS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "float": (str, float),
    "Decimal": (str, Decimal),
    "date": (date.isoformat, date.fromisoformat),
    "time": (time.isoformat, time.fromisoformat),
    "datetime": (datetime.isoformat, datetime.fromisoformat),
    "Timestamp": (pd.Timestamp.isoformat, pd.Timestamp),
    "NaTType": (str, lambda _: pd.NaT),
    "NAType": (str, lambda _: pd.NA),
    "tuple": (
        lambda cells: [to_plain(cell) for cell in cells],
        lambda entries: tuple(from_plain(entry) for entry in entries),
    ),
    "Interval": (
        lambda cell: [to_plain(cell.left), to_plain(cell.right), cell.closed],
        lambda entry: pd.Interval(from_plain(entry[0]), from_plain(entry[1]), entry[2]),
    ),
}


def to_plain(cell: Any) -> Any:
    """A cell as numbers, text and lists.

    >>> to_plain(1.5), to_plain(date(2020, 1, 2)), to_plain(Decimal("1.10")), to_plain(pd.NA)
    (1.5, {'date': '2020-01-02'}, {'Decimal': '1.10'}, {'NAType': '<NA>'})

    Raises:
        ValueError: a cell of another type, or that would be read as another one.
    """
    if type(cell) in (type(None), bool, int, str) or (type(cell) is float and np.isfinite(cell)):
        return cell
    if isinstance(cell, np.generic):
        kind, written = cell.dtype.str, to_plain(cell.item())
    else:
        kind = type(cell).__name__
        written = _KINDS[kind][0](cell) if kind in _KINDS else None
    entry = {kind: written}
    if written is None or repr(from_plain(entry)) != repr(cell):
        raise ValueError(
            "Expected cells that can be written (numbers, text, dates without a time zone of a "
            f"name, decimals) but got {cell!r:.60} ({kind}); convert the column to text or dates."
        )
    return entry


def from_plain(entry: Any) -> Any:
    """The cell that `to_plain` wrote.

    >>> from_plain({"Decimal": "1.10"})
    Decimal('1.10')
    """
    if not isinstance(entry, dict):
        return entry
    ((kind, written),) = entry.items()
    return _KINDS[kind][1](written) if kind in _KINDS else np.dtype(kind).type(from_plain(written))
