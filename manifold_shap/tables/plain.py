"""Writes single cells of a frame as numbers, text and lists, and reads them back exactly."""

from collections.abc import Callable, Iterable
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
        lambda entries: tuple(cells_from_plain(entries)),
    ),
}


def to_plain(cell: Any) -> Any:
    """A cell as numbers, text and lists.

    >>> to_plain(1.5), to_plain(date(2020, 1, 2)), to_plain(Decimal("1.10")), to_plain(pd.NA)
    (1.5, {'date': '2020-01-02'}, {'Decimal': '1.10'}, {'NAType': '<NA>'})

    Raises:
        ValueError: a cell of a type that is not known, or that would be read as another one.
    """
    if type(cell) in (type(None), bool, int, str) or (type(cell) is float and np.isfinite(cell)):
        return cell
    kind = type(cell).__name__
    write, read = _KINDS.get(kind, (lambda _: None, lambda _: None))
    written = write(cell)
    if repr(read(written)) != repr(cell):
        raise ValueError(
            "Expected cells that can be written (numbers, text, dates without a time zone of a "
            f"name, decimals) but got {cell!r:.60} ({kind}); convert the column to text or dates."
        )
    return {kind: written}


def from_plain(entry: Any) -> Any:
    """The cell that `to_plain` wrote.

    >>> from_plain({"Decimal": "1.10"})
    Decimal('1.10')

    Raises:
        KeyError, TypeError, ValueError: something else wrote it.
    """
    if not isinstance(entry, dict):
        return entry
    ((kind, written),) = entry.items()
    return _KINDS[kind][1](written)


def cells_from_plain(entries: Iterable[Any]) -> list[Any]:
    """The cells that were written."""
    return [from_plain(entry) for entry in entries]
