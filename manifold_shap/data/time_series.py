"""Time series of one's own, from `.ts` files (the text format of UCR and UEA) and `.npz` files."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float32

from manifold_shap._messages import warn
from manifold_shap.data.base import DataSet
from manifold_shap.data.tables import numbered
from manifold_shap.players import Players

Series = Float32[np.ndarray, "channels time"]


def series(
    path: str,
    *,
    test_path: str | None = None,
    length: int | None = None,
    segment: int | str = 1,
) -> DataSet:
    """Time series of your own, `[rows, channels, time]`, each of which has a label.

    Series of differing length are padded at their end by a whole number below all of theirs. The
    players are segments of time, with all channels of a time point together, or the channels.

    Args:
        path: the file, `.ts` or `.npz`; see `read_series`.
        test_path: a file of the same kind with the test series; by default a share of the others.
        length: time points after which series are cut off; by default, and at most, as many as the
            longest training series has.
        segment: time points of a player, or "channels" for a player for each channel.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a damaged file, or test series of other channels or classes.
    """
    found, labels = read_series(path)
    test_rows = None
    if test_path is not None:
        test, of_test = read_series(test_path)
        found, labels, test_rows = found + test, labels + of_test, len(test)
    numbers, classes = numbered(pd.Series(labels, name="label"))
    if len(counts := {len(own) for own in found}) != 1:
        raise ValueError(f"Expected series of as many channels but got {sorted(counts)}.")
    # Far from all other numbers it would stretch their scale.
    smallest = min(own.min() for own in found)
    number = float(np.float32(np.floor(smallest) - max(1.0, 1e-6 * abs(smallest))))

    def padded(rows: torch.Tensor) -> DataSet:
        longest = max(found[row].shape[1] for row in rows.tolist())
        most = min(length or longest, longest)
        if long := sum(own.shape[1] > most for own in found):
            warn(f"{long} of {len(found)} series are cut off after {most} time points.")
        x = np.full((len(found), len(found[0]), most), number, dtype=np.float32)
        for row, own in zip(x, found, strict=True):
            row[:, : own.shape[1]] = own[:, :most]
        event, short = x.shape[1:], any(own.shape[1] < most for own in found)
        padding = number if short else None
        if segment == "channels":
            channels = Players.channels(event)
            players = Players(channels.names, channels.index, padding)
        else:
            players = Players.segments(event, int(segment), padding)
        return DataSet(
            torch.from_numpy(x),
            numbers,
            classes,
            kind="series",
            players=players,
            test_rows=test_rows,
        )

    return DataSet(padded, numbers, classes, test_rows=test_rows, rows=len(found))


def read_series(path: str | Path) -> tuple[list[Series], list[Any]]:
    """The series in a file, by the end of its name, and their labels.

    Args:
        path: a `.npz` file with arrays `x`, `[rows, channels, time]` or `[rows, time]`, in which
            short series end in NaN, and `y`, if labels are known; otherwise a `.ts` file, a header
            and a line for each case: channels are separated by colons, time points by commas, and
            the label comes last.

    Returns:
        Of each case its series `[channels, time]`, of its own length; and a label for each, or none
        where the file has none.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "steps.ts"
        ...     _ = path.write_text("@classLabel true down up\\n@data\\n1,2,4:up\\n3,1:down")
        ...     series, labels = read_series(path)
        >>> [own.tolist() for own in series], labels
        ([[[1.0, 2.0, 4.0]], [[3.0, 1.0]]], ['up', 'down'])

    Raises:
        ValueError: a damaged file: a line, or an array, and what is wrong.
    """
    path = Path(path).expanduser()
    return _read_npz(path) if path.suffix.lower() == ".npz" else _read_ts(path)


def _read_ts(path: Path) -> tuple[list[Series], list[Any]]:
    series, labels = list[Any](), list[str]()
    header = {"@timestamps": "false", "@classlabel": "false"}
    is_data = False
    for number, line in enumerate(map(str.strip, path.read_text("utf-8").splitlines()), 1):
        if line.lower() == "@data":
            is_data = True
            if header["@timestamps"] != "false":
                raise ValueError(f"Expected values alone in {path} but it has time stamps.")
        elif line and line[0] == "@":
            name, setting, *_ = [*line.lower().split(), ""]
            header[name] = setting
        elif line and line[0] != "#" and is_data:
            *channels, last = line.split(":")
            if header["@classlabel"] == "true":
                labels.append(last.strip())
            else:
                channels.append(last)
            try:
                series.append(np.stack([np.array(own.split(","), np.float32) for own in channels]))
            except ValueError as error:
                raise ValueError(f"Expected a case in line {number} of {path}: {error}.") from error
    if not series:
        raise ValueError(f"Expected cases after a line @data in {path} but there are none.")
    return series, labels


def _read_npz(path: Path) -> tuple[list[Series], list[Any]]:
    # Of a path numpy would leave the file open where it is no archive.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        x, y = arrays["x"], arrays.get("y", ())
    x = (x[:, None] if x.ndim == 2 else x).astype(np.float32)
    ends = (~np.isnan(x).all(1) * np.arange(1, x.shape[2] + 1)).max(1)
    return [own[:, :end] for own, end in zip(x, ends, strict=True)], list(y)
