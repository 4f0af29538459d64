"""Writes single cells of a frame as numbers, text and lists, and reads them back exactly."""

from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

# What is written as it is; floats that are not finite are none of JSON's.
_AS_IT_IS = (type(None), bool, int, str)

# How cells of other types are written and read, by the name that stands beside them.
_READERS: dict[str, Callable[..., Any]] = {
    "float": float,
    "NaT": lambda _: pd.NaT,
    "NA": lambda _: pd.NA,
    "Decimal": Decimal,
    "bytes": bytes.fromhex,
    "date": date.fromisoformat,
    "time": lambda parts: time.fromisoformat(parts[0]).replace(fold=parts[1]),
    "timedelta": lambda parts: timedelta(*parts),
    "datetime": lambda parts: _moment(*parts),
    "Timestamp": lambda parts: _stamp(*parts),
    "Timedelta": lambda parts: pd.Timedelta(np.timedelta64(*parts)),
    "tuple": lambda cells: tuple(from_plain(cell) for cell in cells),
    "numpy": lambda parts: _numpy(*parts),
}


def to_plain(cell: Any) -> Any:
    """A cell as numbers, text and lists.

    >>> to_plain(1.5), to_plain(date(2020, 1, 2)), to_plain(Decimal("1.10")), to_plain(pd.NA)
    (1.5, {'date': '2020-01-02'}, {'Decimal': '1.10'}, {'NA': ''})

    Raises:
        ValueError: a cell of a type that is not known.
    """
    kind = type(cell)
    if kind in _AS_IT_IS or (kind is float and np.isfinite(cell)):
        return cell
    if cell is pd.NaT or cell is pd.NA:
        return {"NaT" if cell is pd.NaT else "NA": ""}
    written = _written(cell)
    if written is None:
        raise ValueError(
            f"Expected cells that can be written (numbers, text, dates, times, decimals) but got "
            f"{cell!r:.60} ({kind.__name__}); convert the column to text."
        )
    return {kind.__name__ if not isinstance(cell, np.generic) else "numpy": written}


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
    return _READERS[kind](written)


def cells_to_plain(cells: NDArray[Any]) -> list[Any]:
    """Cells of an array, those of numbers quickly."""
    listed: list[Any] = cells.tolist()
    if cells.dtype.kind in "biu":
        return listed
    plain = np.isfinite(cells) if cells.dtype.kind == "f" else np.zeros(len(cells), dtype=bool)
    for place in np.flatnonzero(~plain):
        listed[place] = to_plain(listed[place])
    return listed


def cells_from_plain(entries: Iterable[Any]) -> list[Any]:
    """The cells that were written."""
    return [from_plain(entry) if isinstance(entry, dict) else entry for entry in entries]


def _written(cell: Any) -> Any:
    """What stands beside the name of the cell's type; None for a type that is not known."""
    match cell:
        case pd.Timestamp():
            naive = cell if cell.tz is None else cell.tz_convert("UTC").tz_localize(None)
            return [naive.isoformat(), cell.unit, None if cell.tz is None else str(cell.tz)]
        case pd.Timedelta():
            return [int(cell.asm8.view(np.int64)), cell.unit]
        case datetime():
            zone = cell.tzinfo.key if isinstance(cell.tzinfo, ZoneInfo) else None
            return [(cell.replace(tzinfo=None) if zone else cell).isoformat(), zone, cell.fold]
        case time() if cell.tzinfo is None:
            return [cell.isoformat(), cell.fold]
        case date():
            return cell.isoformat()
        case timedelta():
            return [cell.days, cell.seconds, cell.microseconds]
        case np.generic() if cell.dtype.kind in "biufU":
            return [cell.dtype.str, to_plain(cell.item())]
        case np.datetime64() | np.timedelta64():
            return [cell.dtype.str, int(cell.view(np.int64))]
        case bytes():
            return cell.hex()
        case tuple():
            return [to_plain(part) for part in cell]
    return str(cell) if type(cell) in (float, Decimal) else None


def _moment(text: str, zone: str | None, fold: int) -> datetime:
    moment = datetime.fromisoformat(text).replace(fold=fold)
    return moment if zone is None else moment.replace(tzinfo=ZoneInfo(zone))


def _stamp(text: str, unit: Any, zone: str | None) -> pd.Timestamp:
    naive = pd.Timestamp(text).as_unit(unit)
    return naive if zone is None else naive.tz_localize("UTC").tz_convert(zone)


def _numpy(dtype: str, entry: Any) -> np.generic:
    known = np.dtype(dtype)
    if known.kind in "mM":
        return np.int64(entry).view(known)
    return known.type(from_plain(entry))
