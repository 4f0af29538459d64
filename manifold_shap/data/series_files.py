"""Reads time series from `.ts` files (the text format of UCR and UEA) and from `.npz` files."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float32

from manifold_shap.data.reading import complete


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


def read_series(path: str | Path) -> SeriesOfFile:
    """The series in a file, by the end of its name.

    Args:
        path: a `.ts` file; or a `.npz` file with arrays `x`, `[rows, channels, time]` or
            `[rows, time]`, in which short series end in NaN, and `y`, if labels are known.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "steps.ts"
        ...     _ = path.write_text("@classLabel true down up\\n@data\\n1,2,4:up\\n3,1:down")
        ...     found = read_series(path)
        >>> [own.tolist() for own in found.series], found.labels
        ([[[1.0, 2.0, 4.0]], [[3.0, 1.0]]], ['up', 'down'])

    Raises:
        ValueError: another kind of file, or a damaged one: a line, or an array, and what is wrong.
    """
    path = Path(path)
    readers = {".ts": _read_ts, ".npz": _read_npz}
    if path.suffix.lower() not in readers:
        raise ValueError(
            f"Expected a file of series that ends in one of {list(readers)} but got {path.name!r}."
        )
    return readers[path.suffix.lower()](path)


def _read_ts(path: Path) -> SeriesOfFile:
    """Series of a `.ts` file: a header, then a line for each case.

    Channels are separated by colons, time points by commas, and the label comes last.
    """
    whole = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    lines = [(number, line.strip()) for number, line in whole if line.strip() and line[0] != "#"]
    places = [place for place, (_, line) in enumerate(lines) if line.lower() == "@data"]
    if not places:
        raise ValueError(f"Expected a line @data in {path} but there is none; is it a .ts file?")
    header = {line.split()[0].lower(): line.split()[1:] for _, line in lines[: places[0]]}
    labelled, *classes = header.get("@classlabel") or ["false"]
    if header.get("@timestamps", ["false"])[0].lower() == "true":
        raise ValueError(
            f"Expected series of values in {path} but it has time stamps (@timeStamps true); write "
            "the values alone, at equal distances."
        )
    series, labels = [], []
    for number, line in lines[places[0] + 1 :]:
        parts = line.split(":")
        try:
            if labelled.lower() == "true":
                labels.append(classes[classes.index(parts.pop().strip())])
            series.append(np.stack([np.array(part.split(","), np.float32) for part in parts]))
        except ValueError as error:
            raise ValueError(
                f"Expected a case of {path.name} in line {number} but it is damaged ({error}); "
                "replace the file by a fresh copy, or remove that line."
            ) from error
    return SeriesOfFile(series, labels, tuple(classes))


def _read_npz(path: Path) -> SeriesOfFile:
    """Series of two arrays, see `read_series`; no object is unpickled."""
    # Of a path numpy would leave the file open where it is no archive.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        x, y = arrays["x"], arrays.get("y")
    x = (x[:, None] if x.ndim == 2 else x).astype(np.float32)
    ends = (~np.isnan(x).all(1) * np.arange(1, x.shape[2] + 1)).max(1)
    series = [own[:, :end] for own, end in zip(x, ends, strict=True)]
    if y is None:
        return SeriesOfFile(series, [], ())
    labels = complete(pd.Series(y, name="y"), "label")
    by_number = float if y.dtype.kind in "iuf" else None
    return SeriesOfFile(series, labels, tuple(sorted(set(labels), key=by_number)))
