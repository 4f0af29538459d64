"""Reads rows block by block from Parquet files and zarr arrays, here or in an object store."""

import glob
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from torch import Tensor

from manifold_shap._messages import check_choice, check_names, check_text, shown
from manifold_shap.io.places import Place, place_of

_LIBRARIES = ("pandas", "polars", "pyarrow")
_SUFFIXES = (".parquet", ".parq", ".pq")
# Files whose ends, which tell their rows, are read at once.
_AT_ONCE = 16


class TableRows:
    """Rows of Parquet files as frames, some at a time; `read_rows` makes it.

    At most the row groups that the rows asked for are in are in memory, and the one before.

    Args:
        dataset: of pyarrow.
        columns: of the frames; by default all.
        labels: the column that labels rows, which is none of `columns`.
        library: of the frames.

    Attributes:
        columns: of the frames.
        labels: of the rows; None where no column has them.
    """

    def __init__(
        self, dataset: Any, columns: Sequence[str] | None, labels: str | None, library: str
    ) -> None:
        fragments = list(dataset.get_fragments())
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda fragment: fragment.ensure_complete_metadata(), fragments))
        wanted = _usual_columns(dataset.schema, labels) if columns is None else list(columns)
        # Of folders such as "year=2024".
        partitions = {*dataset.schema.names} - {*fragments[0].physical_schema.names}
        for fragment in fragments:
            _check_columns(fragment, partitions, [*wanted, *([labels] if labels else [])])
        self.columns, self._library = tuple(wanted), library
        self._schema = _schema(dataset, fragments)
        self._groups = [group for each in fragments for group in each.split_by_row_group()]
        self._firsts = [0]
        for group in self._groups:
            self._firsts.append(self._firsts[-1] + sum(own.num_rows for own in group.row_groups))
        self._last: tuple[int, Any] = (-1, None)
        self.labels: list[Any] | None = None
        if labels is not None:
            how: Any = {"schema": self._schema, "columns": [labels]}
            tables = (group.to_table(**how) for group in self._groups)
            self.labels = [label for table in tables for label in table[labels].to_pylist()]

    def __len__(self) -> int:
        return self._firsts[-1]

    def __repr__(self) -> str:
        return f"TableRows({len(self)} rows, columns {shown(self.columns, 10)})"

    def __getitem__(self, rows: slice) -> Any:
        """A frame of these rows, which follow each other."""
        import pyarrow as pa

        start, stop, _ = rows.indices(len(self))
        parts = []
        for number, first in enumerate(self._firsts[:-1]):
            low, high = max(start, first), min(stop, self._firsts[number + 1])
            if low < high:
                parts.append(self._group(number).slice(low - first, high - low))
        table = pa.concat_tables(parts or [self._group(0).slice(0, 0)])
        return _as_frame(table.unify_dictionaries(), self._library)

    def _group(self, number: int) -> Any:
        """A row group; the last one that was read is kept for the next rows."""
        last, table = self._last
        if last != number:
            table = self._groups[number].to_table(schema=self._schema, columns=list(self.columns))
            self._last = number, table
        return table


class Encoded:
    """Frames as rows of a value function, some at a time.

    Args:
        frames: of many rows.
        rows: from a frame to rows, such as `ValueFunction.rows`.
    """

    def __init__(self, frames: TableRows, rows: Callable[[Any], Tensor]) -> None:
        self.frames, self.rows = frames, rows
        self.shape = (len(frames), *(rows(frames[:1]).shape[1:] if len(frames) else ()))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Tensor:
        return self.rows(self.frames[rows])


def read_rows(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    labels: str | None = None,
    library: str = "pandas",
) -> Any:
    """Rows in Parquet files or in a zarr array, for `explain_rows`, which reads a block at a time.

    Args:
        path: a Parquet file, a folder of them (names in order; those that begin with `_` or `.`
            are left out), a pattern such as `"s3://bucket/rows/*.parquet"`, or a zarr array: on
            this machine or by a URL that fsspec knows.
        columns: of the table; by default all but `labels` and an index that pandas has stored.
        labels: the column that labels rows in the explanation; by default they have numbers.
        library: of the frames that a value function is given: `pandas`, `polars` or `pyarrow`, the
            one of its training.

    Returns:
        Frames by slices of row numbers, or the array.

    Raises:
        FileNotFoundError: nothing is there.
        ValueError: columns that a file does not have, a zarr group, or settings of a table for an
            array.
        ImportError: pyarrow, or the package for the protocol, is not installed.

    >>> import tempfile, pandas as pd
    >>> place = tempfile.TemporaryDirectory()
    >>> frame = pd.DataFrame({"name": ["Ann", "Bob"], "age": [30, 40]})
    >>> frame.to_parquet(f"{place.name}/rows.parquet")
    >>> rows = read_rows(f"{place.name}/rows.parquet", labels="name")
    >>> len(rows), rows.labels, rows[1:].age.tolist()
    (2, ['Ann', 'Bob'], [40])
    >>> place.cleanup()
    """
    check_choice("library", library, _LIBRARIES)
    columns = None if columns is None else check_names("columns", columns)
    labels = None if labels is None else check_text("labels", labels)
    place = place_of(path)
    if any((place / name).read() is not None for name in (".zarray", ".zgroup", "zarr.json")):
        if columns is not None or labels is not None:
            raise ValueError(
                f"Expected a table where `columns` or `labels` are given but {place} holds a zarr "
                "array; leave them out."
            )
        return _array(place)
    try:
        import pyarrow as pa
        import pyarrow.dataset as ds
    except ImportError as error:
        raise ImportError(
            f"Expected pyarrow, to read {place}, but it is not installed: "
            "`pip install 'manifold_shap[tables]'`."
        ) from error
    files, paths = _parquet_files(place)
    try:
        return TableRows(
            ds.dataset(paths, format="parquet", filesystem=files, partitioning="hive"),
            columns,
            labels,
            library,
        )
    except pa.ArrowException as error:  # Some are no ValueErrors.
        raise ValueError(
            f"Expected Parquet files with the same columns at {place} but they cannot be read: "
            f"{str(error).splitlines()[0]} Tables of other formats become one by "
            "`frame.to_parquet(...)`."
        ) from error


def _parquet_files(place: Place) -> tuple[Any, list[str]]:
    """The file system of a place, and the paths of its files there, in order."""
    content = None if glob.has_magic(str(place)) else place.find()
    files, path = (place if content is None else content.place).in_fsspec()
    files.invalidate_cache()
    if glob.has_magic(path):
        paths = [each for each in files.glob(path) if not files.isdir(each)]
    elif files.isdir(path):
        found = [each for each in files.find(path) if each.endswith(_SUFFIXES)]
        paths = [each for each in found if not _is_hidden(each[len(path) :])]
    else:
        paths = [path] if files.exists(path) else []
    if not paths:
        raise FileNotFoundError(
            f"Expected rows at {place}, in Parquet files (names that end with .parquet, of a "
            "folder) or a zarr array, but none are there; see whether the path is right."
        )
    return files, sorted(paths)


def _is_hidden(path: str) -> bool:
    return any(name.startswith(("_", ".")) for name in path.split("/"))


def _array(place: Place) -> Any:
    """The zarr array at a place.

    Raises:
        ValueError: it is a group, or damaged.
    """
    import zarr

    try:
        found = zarr.open(place.zarr(), mode="r")
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"Expected a zarr array at {place} but got {error}.") from error
    if isinstance(found, zarr.Group):
        names = [name for name, _ in found.arrays()]
        raise ValueError(
            f"Expected one zarr array at {place} but it is a group of {shown(names, 10)}; name one "
            f"of them, as in '{place}/{names[0] if names else 'x'}'."
        )
    if found.dtype.kind not in "biuf":  # Objects could be pickles; zarr refuses them as numbers.
        raise ValueError(
            f"Expected an array of numbers at {place} but it has the type {found.dtype}; tables "
            "with text are read from Parquet files."
        )
    return found


def _schema(dataset: Any, fragments: Sequence[Any]) -> Any:
    """Names and types of the columns of all files, without a word of an index of pandas."""
    import pyarrow as pa

    every = [dataset.schema, *(each.physical_schema.remove_metadata() for each in fragments)]
    schema = pa.unify_schemas(every, promote_options="permissive")
    metadata = dict(dataset.schema.metadata or {})
    if b"pandas" in metadata:
        known = {**json.loads(metadata[b"pandas"]), "index_columns": []}
        metadata[b"pandas"] = json.dumps(known).encode()
    return schema.with_metadata(metadata)


def _usual_columns(schema: Any, labels: str | None) -> list[str]:
    """All columns but the labels, and an index that pandas has stored."""
    pandas = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    index = [name for name in pandas.get("index_columns", ()) if isinstance(name, str)]
    return [name for name in schema.names if name != labels and name not in index]


def _check_columns(fragment: Any, partitions: set[str], wanted: Sequence[str]) -> None:
    """Raise ValueError if a file lacks one of these columns: it would be read as missing cells."""
    there = {*fragment.physical_schema.names, *partitions}
    missing = [name for name in wanted if name not in there]
    if missing:
        raise ValueError(
            f"Expected the columns {shown(missing, 10)} in every Parquet file but "
            f"{fragment.path} has {shown(sorted(there), 10)} only."
        )


def _as_frame(table: Any, library: str) -> Any:
    if library == "polars":
        import polars

        return polars.from_arrow(table)
    return table.to_pandas() if library == "pandas" else table
