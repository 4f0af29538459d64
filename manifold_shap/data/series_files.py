"""Reads time series from `.ts` files (the text format of UCR and UEA) and from `.npz` files."""

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32
from numpy.typing import NDArray

from manifold_shap._messages import closest, shown
from manifold_shap.tables.vocabulary import label_of

_TRUE = "true"


class SeriesOfFile(NamedTuple):
    """What a file holds.

    Attributes:
        series: of each case `[channels, time]`, of its own length.
        labels: one for each, or none where the file has none.
        classes: names of the classes, in order.
    """

    series: list[Float32[np.ndarray, "channels time"]]
    labels: list[str]
    classes: tuple[str, ...]


def read_series(path: Path) -> SeriesOfFile:
    """The series in a file, by the end of its name.

    Raises:
        ValueError: another kind of file, or a damaged one: a line, or an array, and what is wrong.
    """
    readers = {".ts": _read_ts, ".npz": _read_npz}
    if path.suffix.lower() not in readers:
        raise ValueError(
            f"Expected a file of series that ends in one of {list(readers)} but got {path.name!r}; "
            "np.savez('series.npz', x=x, y=y) writes arrays as one."
        )
    found = readers[path.suffix.lower()](path)
    if not found.series:
        raise ValueError(f"Expected series in {path} but it holds none.")
    return found


def _read_ts(path: Path) -> SeriesOfFile:
    """Series of a `.ts` file: a header, then a line for each case.

    Channels are separated by colons, time points by commas, and the label comes last.
    """
    lines = _numbered(path)
    header = _header(path, lines)
    labelled, *classes = header.get("@classlabel", [])
    is_labelled = labelled.lower() == _TRUE
    if header.get("@timestamps", ["false"])[0].lower() == _TRUE:
        raise ValueError(
            f"Expected series of values in {path} but it has time stamps (@timeStamps true); write "
            "the values alone, at equal distances."
        )
    series, labels = [], []
    for number, line in lines:
        try:
            parts = line.split(":")
            if is_labelled:
                labels.append(_class_of(parts.pop().strip(), classes))
            series.append(_channels(parts))
            if len(series[0]) != len(series[-1]):
                raise ValueError(
                    f"{len(series[-1])} channels, but {len(series[0])} in the first case"
                )
        except ValueError as error:
            raise ValueError(
                f"Expected a case of {path.name} in line {number} but it is damaged ({error}); "
                "replace the file by a fresh copy, or remove that line."
            ) from error
    return SeriesOfFile(series, labels, tuple(classes))


def _numbered(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that hold something, and their numbers; others are remarks."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"Expected text in {path} but it is none ({error}).") from error
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            yield number, line.strip()


def _header(path: Path, lines: Iterator[tuple[int, str]]) -> dict[str, list[str]]:
    """Words of the header by their first one, in small letters, up to the data."""
    header: dict[str, list[str]] = {"@classlabel": ["false"]}
    for number, line in lines:
        name, *words = line.split()
        if name.lower() == "@data":
            return header
        if not name.startswith("@"):
            raise ValueError(
                f"Expected the header of {path.name}, up to a line @data, but line {number} is "
                f"{line!r:.60}; is it a .ts file?"
            )
        header[name.lower()] = words or ["false"]
    raise ValueError(f"Expected a line @data in {path} but there is none; the file is cut short.")


def _class_of(label: str, classes: Sequence[str]) -> str:
    if label not in classes:
        raise ValueError(
            f"label {label!r:.40}, none of {shown(classes, 12)}{closest(label, classes)}"
        )
    return label


def _channels(parts: Sequence[str]) -> NDArray[np.float32]:
    """A case, from the text of each of its channels."""
    if not parts:
        raise ValueError("no channel")
    channels = [np.array(part.split(","), dtype=np.float32) for part in parts]
    lengths = sorted({len(channel) for channel in channels})
    if len(lengths) > 1:
        raise ValueError(f"channels of differing length, {shown(lengths, 5)}")
    found = np.stack(channels)
    if not np.isfinite(found).all():
        raise ValueError("a value that is missing or infinite")
    return found


def _read_npz(path: Path) -> SeriesOfFile:
    """Series of the arrays `x`, `[rows, channels, time]` or `[rows, time]`, and `y`, if any.

    Series of differing length end in NaN.
    """
    x, y = _arrays(path)
    if x.ndim == 2:
        x = x[:, None]
    if x.ndim != 3 or x.dtype.kind not in "biuf" or 0 in x.shape:
        raise ValueError(
            f"Expected `x` in {path} to hold numbers [rows, channels, time] but got {x.dtype} of "
            f"shape {x.shape}."
        )
    if y is not None and y.shape != x.shape[:1]:
        raise ValueError(
            f"Expected `y` in {path} to hold a label for each of {len(x)} series but got shape "
            f"{y.shape}."
        )
    with np.errstate(over="ignore"):
        narrow = x.astype(np.float32)
    if beyond := int((np.isinf(narrow) & np.isfinite(x)).sum()):
        raise ValueError(
            f"Expected numbers in `x` of {path} that fit float32 (at most 3.4e38) but {beyond} do "
            "not; correct them, or change the unit."
        )
    x = narrow
    ends = (~np.isnan(x).all(1) * np.arange(1, x.shape[2] + 1)).max(1)
    series = [own[:, :end] for own, end in zip(x, ends, strict=True)]
    if wrong := [k for k, own in enumerate(series) if not (own.size and np.isfinite(own).all())]:
        raise ValueError(
            f"Expected finite values in `x` of {path}, with NaN at the end of short series alone, "
            f"but series {shown(wrong, 5)} have others, or are empty; fill or drop them."
        )
    labels = [] if y is None else _labels(path, y)
    by_number = y is not None and y.dtype.kind in "iuf"
    return SeriesOfFile(
        series, labels, tuple(sorted(set(labels), key=float if by_number else None))
    )


def _labels(path: Path, y: np.ndarray) -> list[str]:
    """Labels as text; refused where one is missing."""
    labels = ["" if own is None or own != own else label_of(own) for own in y.tolist()]
    if missing := [row for row, own in enumerate(labels) if not own.strip()]:
        raise ValueError(
            f"Expected a label for every series in `y` of {path} but {len(missing)} of "
            f"{len(labels)} have none: rows {shown(missing, 10)}, the first being row 0; fill "
            "them, or remove these series."
        )
    return labels


def _arrays(path: Path) -> tuple[np.ndarray, np.ndarray | None]:
    """The arrays `x` and `y`; no object is unpickled."""
    try:
        # Of a path numpy would leave the file open where it is no archive.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            if "x" not in arrays:
                raise ValueError(f"it has {shown(arrays.files, 8)}, but no array 'x'")
            return arrays["x"], arrays.get("y")
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"Expected arrays `x` and `y` of numbers or text in {path}, as np.savez writes them, "
            f"but could not read them ({error}); pickled objects are refused, since reading them "
            "can run code."
        ) from error
