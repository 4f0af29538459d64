"""Reads a table of your own from a file, and says at once all that is wrong with it.

It needs pandas but not torch, so that a file can be repaired without waiting for that.
"""

import bz2
import datetime
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import TypedDict

import numpy as np
import pandas as pd
from pandas.api import types

from manifold_shap._messages import check_choice, check_flag, check_text, closest, shown
from manifold_shap.data import sources
from manifold_shap.data.cells import read_named_dates, read_text
from manifold_shap.data.columns import check_target, describe
from manifold_shap.data.delimited import Cells, Format, read_cells
from manifold_shap.data.findings import Findings

TASKS = ("classification", "regression")
MISSING = ("values", "drop_unlabelled", "drop_rows")
BAD_LINES = ("refuse", "skip")
_LEAST_ROWS = 10
_OPENERS = {".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress}
_DAMAGED = (zlib.error, lzma.LZMAError, zipfile.BadZipFile, RuntimeError, NotImplementedError)
_BINARY = {b"PAR1": "Parquet", b"ARROW1": "Feather"}
_LISTS = ("drop", "keep", "categorical", "dates", "na_values")


class ReadOptions(TypedDict, total=False):
    """How a file is read; see `TableReader`."""

    drop: Sequence[str]
    keep: Sequence[str]
    categorical: Sequence[str]
    dates: Sequence[str]
    day_first: bool | None
    missing: str
    na_values: Sequence[str]
    separator: str | None
    decimal: str | None
    header: bool | None
    encoding: str | None
    bad_lines: str


@dataclass(frozen=True)
class ReadTable:
    """A table that was read.

    Attributes:
        frame: all columns that are not dropped, the target among them. Its index is the number of
            each row in the file: the first row of data is row 0.
        identifiers: columns that number or name the rows rather than describe them.
        remarks: sentences about what is worth knowing.
        about: how the file was read, in words.
    """

    frame: pd.DataFrame
    identifiers: tuple[str, ...]
    remarks: tuple[str, ...]
    about: str


@dataclass(frozen=True, kw_only=True)
class TableReader:
    """A file with a table, and how it is to be read.

    What is None is found by itself. Files of separated values may be packed (.gz, .bz2, .xz,
    .zip); Parquet and Feather files need pyarrow.

    Attributes:
        path: the file, from the working directory or from the places `root` stands for.
        target: the column to predict; None where a model of one's own needs none.
        task: "classification", or "regression" of a target of numbers.
        root: see `TensorDataModule`.
        drop: columns to leave out.
        keep: columns that describe the rows although they look like numbers or names of the rows,
            or have the name of another one.
        categorical: columns that are categories, whatever they hold.
        dates: columns that are dates, each cell read by its own form. Other columns are where
            nearly all cells are dates of one form.
        day_first: whether "3/4/2021" is in April.
        missing: missing cells are values like others ("values"), except in the target; or rows
            without the target ("drop_unlabelled") or without any cell ("drop_rows") are left out.
        na_values: texts that stand for a missing value, as an empty cell does. Words such as "NA"
            do so among numbers and dates by themselves; "inf" is any infinite number.
        separator: the character between two cells, or "tab".
        decimal: the sign in numbers.
        header: whether the first line names the columns; otherwise they are "column 1", ...
        encoding: a name that Python knows, such as "latin-1".
        bad_lines: lines with another number of cells are an error ("refuse") or left out ("skip").

    Raises:
        TypeError: `path` is no text, or `header` or `day_first` neither true nor false.
        ValueError: another word than those, or a sign of several characters.
    """

    path: str
    target: str | None = None
    task: str = "classification"
    root: str | None = None
    drop: Sequence[str] = ()
    keep: Sequence[str] = ()
    categorical: Sequence[str] = ()
    dates: Sequence[str] = ()
    day_first: bool | None = None
    missing: str = "values"
    na_values: Sequence[str] = ()
    separator: str | None = None
    decimal: str | None = None
    header: bool | None = None
    encoding: str | None = None
    bad_lines: str = "refuse"

    def __post_init__(self) -> None:
        check_text("path", self.path)
        if self.target is not None:  # The name of a column may be typed as a number.
            object.__setattr__(self, "target", str(self.target))
        for name in _LISTS:
            given = self.__dict__[name]
            listed = (given,) if isinstance(given, str) else tuple(str(entry) for entry in given)
            object.__setattr__(self, name, listed)
        if self.separator in ("tab", r"\t"):
            object.__setattr__(self, "separator", "\t")
        for name, known in {"task": TASKS, "missing": MISSING, "bad_lines": BAD_LINES}.items():
            check_choice(name, self.__dict__[name], known)
        for name in ("separator", "decimal"):
            sign = self.__dict__[name]
            if sign is not None and (not isinstance(sign, str) or len(sign) != 1):
                raise ValueError(f"Expected `{name}` to be one character but got {sign!r}.")
            if sign is not None and sign in '\r\n"\0':
                raise ValueError(
                    f"Expected `{name}` to be a character between cells but got {sign!r}, which "
                    "stands for something else in such files."
                )
        if self.target is not None and self.target in self.drop:
            raise ValueError(
                f"Expected `target` to be a column that is kept but `drop` lists {self.target!r}; "
                "take it out of there."
            )
        for name in ("header", "day_first"):
            if self.__dict__[name] is not None:
                check_flag(name, self.__dict__[name])

    def read(self) -> ReadTable:
        """The table; a file that has not changed since is read once.

        Raises:
            FileNotFoundError: there is no such file.
            ImportError: a Parquet or Feather file needs pyarrow.
            TableError: what is wrong with it, all at once, with the settings that repair it.
        """
        path = sources.located(self.root, self.path)
        stamp = path.stat()
        return _read(self, path, stamp.st_mtime_ns, stamp.st_size)


@lru_cache(maxsize=1)
def _read(reader: TableReader, path: Path, *stamp: int) -> ReadTable:
    """See `TableReader.read`; `stamp` tells whether the file is still the same."""
    found = Findings(path.name)
    cells = _cells(reader, path, found)
    if cells is None:
        raise found.error()
    _check_names(reader, cells, found)
    frame = _without_copies(reader, cells, found)
    columns = {}
    for name, series in frame.items():
        before = len(found.problems)
        columns[str(name)] = _column(series, reader, found)
        if len(found.problems) > before:
            found.troubled.add(str(name))
    frame = _whole_rows(pd.DataFrame(columns), reader, found)
    if reader.target in frame:
        check_target(frame[reader.target], reader, found)
    features = frame[[name for name in frame if name != reader.target]]
    identifiers = describe(features, reader, found)
    if len(frame) < _LEAST_ROWS:
        found.problem(f"it has {len(frame)} rows, which are too few: {_LEAST_ROWS} are the least")
    elif features.shape[1] == len(identifiers):
        found.problem("it has no column that describes the rows", "keep")
    if found.problems:
        raise found.error({name: reader.__dict__[name] for name in _LISTS})
    about = f"{path.name}: {len(frame)} rows, {frame.shape[1]} columns; {cells.about}."
    return ReadTable(frame, identifiers, tuple(found.remarks), about)


def read_cells_of(reader: TableReader) -> pd.DataFrame:
    """All columns of a file as they are; of the reader's settings, those that say how to read it.

    Raises:
        FileNotFoundError: there is no such file.
        ImportError: a Parquet or Feather file needs pyarrow.
        TableError: it holds no table.
    """
    path = sources.located(reader.root, reader.path)
    found = Findings(path.name)
    cells = _cells(reader, path, found)
    if cells is None or found.problems:
        raise found.error()
    return cells.frame


def _cells(reader: TableReader, path: Path, found: Findings) -> Cells | None:
    """What the file holds, by the kind of file that its first bytes tell."""
    raw = _unpacked(path, found)
    if raw is None:
        return None
    kind = next((name for mark, name in _BINARY.items() if raw.startswith(mark)), None)
    if kind is not None:
        read = pd.read_parquet if kind == "Parquet" else pd.read_feather
        try:
            frame = read(io.BytesIO(raw)).rename(columns=str).reset_index(drop=True)
        except ImportError as error:
            raise ImportError(
                f"Expected pyarrow, which reads {kind} files such as {path}, but it is not "
                "installed; install it by `pip install 'manifold_shap[tables]'`, or save the "
                "table as CSV."
            ) from error
        except Exception as error:  # A damaged file makes pyarrow fail in any way.
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            found.problem(f"it begins as a {kind} file but cannot be read ({reason})", "path")
            return None
        return Cells(frame, list(frame.columns), {}, kind)
    named = [reader.target or "", *reader.drop, *reader.keep, *reader.categorical, *reader.dates]
    skip = reader.bad_lines == "skip"
    own = (reader.separator, reader.decimal, reader.header, reader.encoding, skip)
    return read_cells(raw, Format(*own, tuple(reader.na_values)), named, found)


def _unpacked(path: Path, found: Findings) -> bytes | None:
    """The content of a file, or of the one in an archive; None if it is damaged."""
    raw = path.read_bytes()
    try:
        if path.suffix in _OPENERS:
            return _OPENERS[path.suffix](raw)
        if path.suffix != ".zip":
            return raw
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
            if len(names) == 1:
                return archive.read(names[0])
        found.problem(f"it holds {len(names)} files, {shown(names, 5)}, not one table", "path")
    except (OSError, EOFError, ValueError, *_DAMAGED) as error:
        found.problem(f"it is no sound {path.suffix} file ({error})", "path")
    return None


def _check_names(reader: TableReader, cells: Cells, found: Findings) -> None:
    """Note names of columns in the settings that there are none of."""
    names = list(cells.frame.columns)
    named = {name: reader.__dict__[name] for name in _LISTS if name != "na_values"}
    for setting, listed in {"target": filter(None, [reader.target]), **named}.items():
        for name in listed:
            if name not in names:
                seen = f"no column is called {name!r}, as data.{setting} says, among {shown(names)}"
                fix = closest(name, names)
                if name in cells.first and not fix:
                    seen += f"; the first line, {shown(cells.first, 8)}, looks like a row of data"
                    found.problem(seen, "header", True, "takes it for names")
                else:
                    found.problem(f"{seen}{fix}", setting)


def _without_copies(reader: TableReader, cells: Cells, found: Findings) -> pd.DataFrame:
    """The columns that are not to be dropped; those whose name is taken must be asked for."""
    frame = cells.frame
    for copy, name in cells.copies.items():
        if copy in [*reader.drop, *reader.keep]:
            continue
        if frame[copy].equals(frame[name]):
            found.remark(f"column {name!r} occurs twice with the same cells, and is read once")
            frame = frame.drop(columns=copy)
        else:
            message = f"the name {name!r} occurs twice with other cells, read as {copy!r}"
            found.problem(
                message, "keep", [copy], "keeps it under this name, data.drop leaves it out"
            )
    return frame.drop(columns=[name for name in reader.drop if name in frame])


def _column(series: pd.Series, reader: TableReader, found: Findings) -> pd.Series:
    """One column by what it holds."""
    if series.name in reader.categorical or series.isna().all():
        return series
    if series.dtype == object and types.infer_dtype(series, skipna=True) != "string":
        return _objects(series, found)
    if types.is_string_dtype(series.dtype):
        if series.name in reader.dates:
            return read_named_dates(series, reader.day_first, found)
        return read_text(series, reader.decimal, reader.day_first, found)
    if types.is_float_dtype(series.dtype):
        infinite = np.isinf(series.to_numpy(dtype=float, na_value=np.nan))
        if infinite.any() and "inf" in reader.na_values:
            return series.mask(infinite)
        if infinite.any():
            message = f"column {series.name!r} holds infinite numbers in {infinite.sum()} rows"
            found.problem(message, "na_values", ["inf"], "takes them for missing")
    return series


def _objects(series: pd.Series, found: Findings) -> pd.Series:
    """A column of Python objects, as Parquet files may hold."""
    kinds = {type(entry) for entry in series.dropna()}
    if all(issubclass(kind, datetime.date) for kind in kinds):
        return pd.to_datetime(series)
    if not kinds <= {bool, str, Decimal, datetime.time}:
        names = shown(sorted(kind.__name__ for kind in kinds))
        message = f"column {series.name!r} holds {names}, not numbers, text or dates"
        found.problem(message, "drop", [str(series.name)], "leaves it out")
    return series


def _whole_rows(frame: pd.DataFrame, reader: TableReader, found: Findings) -> pd.DataFrame:
    """The rows that `missing` leaves, without those that hold nothing."""
    kept = frame.dropna(how="all")
    if len(kept) < len(frame):
        found.remark(_left_out(len(frame) - len(kept), "hold", "nothing"))
    whole, lacked = kept, "a cell"
    if reader.missing == "drop_rows":
        whole = kept.dropna()
    elif reader.missing == "drop_unlabelled" and reader.target in kept:
        whole, lacked = kept.dropna(subset=[reader.target]), f"the target {reader.target!r}"
    if len(whole) < len(kept):
        found.remark(_left_out(len(kept) - len(whole), "lack", lacked))
    return whole


def _left_out(rows: int, verb: str, what: str) -> str:
    if rows == 1:
        return f"1 row {verb}s {what}, and is left out"
    return f"{rows} rows {verb} {what}, and are left out"
