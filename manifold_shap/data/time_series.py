"""Time series of one's own, from `.ts` files (the text format of UCR and UEA) and `.npz` files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float32
from numpy.typing import NDArray

from manifold_shap._checks import check_known
from manifold_shap._messages import shown, warn
from manifold_shap.data import sources
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
    padding: float | None = None,
    root: str | None = None,
) -> DataSet:
    """Time series of your own, `[rows, channels, time]`, each of which has a label.

    Series of differing length are padded at their end by a number that occurs in none of them. The
    players are segments of time, with all channels of a time point together, or the channels.

    Args:
        path: the file, `.ts` or `.npz`, from the working directory or from the places `root` stands
            for; see `read_series`.
        test_path: a file of the same kind with the test series; by default a share of the others.
        length: time points after which series are cut off; by default, and at most, as many as the
            longest training series has.
        segment: time points of a player, or "channels" for a player for each channel.
        padding: the number that series are padded by; by default the next whole number below the
            smallest of the file.
        root: see `sources.places`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a damaged file, test series of other channels or classes, or a `padding` that
            occurs in a series.
    """
    train = read_series(sources.located(root, path))
    found, labels, test_rows = train.series, train.labels, None
    if test_path is not None:
        test = read_series(sources.located(root, test_path))
        check_known(test.labels, train.classes, f"labels of {test_path}")
        found, labels, test_rows = found + test.series, labels + test.labels, len(test.series)
    if len(channels := {len(own) for own in found}) != 1:
        raise ValueError(f"Expected series of as many channels but got {sorted(channels)}.")
    number = _padding(found, padding)
    numbers = [train.classes.index(label) for label in labels]

    def padded(rows: torch.Tensor) -> DataSet:
        longest = max(found[row].shape[1] for row in rows.tolist())
        most = min(length or longest, longest)
        if long := sum(own.shape[1] > most for own in found):
            warn(f"{long} of {len(found)} series are cut off after {most} time points.")
        x = np.full((len(found), len(found[0]), most), number, dtype=np.float32)
        for row, own in zip(x, found, strict=True):
            row[:, : own.shape[1]] = own[:, :most]
        short = any(own.shape[1] < most for own in found)
        return DataSet(
            torch.from_numpy(x),
            numbers,
            train.classes,
            kind="series",
            players=_players(x.shape[1:], segment, number if short else None),
            test_rows=test_rows,
        )

    return DataSet(padded, numbers, train.classes, test_rows=test_rows, rows=len(found))


def _padding(found: Sequence[NDArray[np.float32]], chosen: float | None) -> float:
    """A number that occurs in no series: far from all others it would stretch their scale."""
    smallest = min(own.min() for own in found)
    number = np.float32(np.floor(smallest) - max(1.0, 1e-6 * abs(smallest)))
    number = number if chosen is None else np.float32(chosen)
    if where := [k for k, own in enumerate(found) if (own == number).any()]:
        raise ValueError(
            f"Expected a `padding` that occurs in no series but {number:g} is in series "
            f"{shown(where, 5)}; leave it out to have one chosen."
        )
    return float(number)


def _players(event: Sequence[int], segment: int | str, padding: float | None) -> Players:
    if segment != "channels":
        return Players.segments(event, int(segment), padding)
    players = Players.channels(event)
    return Players(players.names, players.index, padding)


class SeriesOfFile(NamedTuple):
    """What a file holds.

    Attributes:
        series: of each case `[channels, time]`, of its own length.
        labels: one for each, or none where the file has none.
        classes: names of the classes, in order.
    """

    series: list[Series]
    labels: list[str]
    classes: tuple[str, ...]


def read_series(path: str | Path) -> SeriesOfFile:
    """The series in a file, by the end of its name.

    Args:
        path: a `.npz` file with arrays `x`, `[rows, channels, time]` or `[rows, time]`, in which
            short series end in NaN, and `y`, if labels are known; otherwise a `.ts` file, a header
            and a line for each case: channels are separated by colons, time points by commas, and
            the label comes last.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "steps.ts"
        ...     _ = path.write_text("@classLabel true down up\\n@data\\n1,2,4:up\\n3,1:down")
        ...     found = read_series(path)
        >>> [own.tolist() for own in found.series], found.labels
        ([[[1.0, 2.0, 4.0]], [[3.0, 1.0]]], ['up', 'down'])

    Raises:
        ValueError: a damaged file: a line, or an array, and what is wrong.
    """
    path = Path(path)
    return _read_npz(path) if path.suffix.lower() == ".npz" else _read_ts(path)


def _read_ts(path: Path) -> SeriesOfFile:
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
    found, labels = [], []
    for number, line in lines[places[0] + 1 :]:
        parts = line.split(":")
        try:
            if labelled.lower() == "true":
                labels.append(classes[classes.index(parts.pop().strip())])
            found.append(np.stack([np.array(part.split(","), np.float32) for part in parts]))
        except ValueError as error:
            raise ValueError(
                f"Expected a case of {path.name} in line {number} but it is damaged ({error}); "
                "replace the file by a fresh copy, or remove that line."
            ) from error
    return SeriesOfFile(found, labels, tuple(classes))


def _read_npz(path: Path) -> SeriesOfFile:
    # Of a path numpy would leave the file open where it is no archive.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        x, y = arrays["x"], arrays.get("y")
    x = (x[:, None] if x.ndim == 2 else x).astype(np.float32)
    ends = (~np.isnan(x).all(1) * np.arange(1, x.shape[2] + 1)).max(1)
    found: Any = [own[:, :end] for own, end in zip(x, ends, strict=True)]
    if y is None:
        return SeriesOfFile(found, [], ())
    places, classes = numbered(pd.Series(y, name="y"))
    return SeriesOfFile(found, [classes[k] for k in places], classes)
