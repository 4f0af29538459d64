"""Files of series: both formats, padding, players, and what is wrong with a file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from manifold_shap.data import SeriesFile, read_series

HEADER = "#a remark\n@problemName waves\n@timeStamps false\n@classLabel true down up\n@data\n"


def waves(count: int = 20, seed: int = 0) -> tuple[list[np.ndarray], list[str]]:
    """Two channels of 4 to 9 time points; the first rises or falls."""
    rng = np.random.default_rng(seed)
    series, labels = [], []
    for k in range(count):
        time = np.arange(4 + k % 6)
        label = ("down", "up")[k % 2]
        first = (time if label == "up" else -time) + rng.normal(size=len(time)) / 10
        series.append(np.stack([first, rng.normal(size=len(time))]).astype(np.float32))
        labels.append(label)
    return series, labels


def write_ts(path: Path, series: list[np.ndarray], labels: list[str]) -> Path:
    lines = [
        ":".join([*(",".join(f"{value:.6f}" for value in channel) for channel in own), label])
        for own, label in zip(series, labels, strict=True)
    ]
    path.write_text(HEADER + "\n".join(lines) + "\n")
    return path


def write_npz(path: Path, series: list[np.ndarray], labels: list[str], **more: Any) -> Path:
    x = np.full((len(series), 2, 9), np.nan, dtype=np.float32)
    for row, own in zip(x, series, strict=True):
        row[:, : own.shape[1]] = own
    np.savez(path, **{"x": x, "y": np.array(labels), **more})
    return path


def read(path: Path, **settings: Any) -> SeriesFile:
    data = SeriesFile(path=str(path), **settings)
    data.setup()
    return data


def test_both_formats_hold_the_same_series(tmp_path: Path) -> None:
    series, labels = waves()
    written = (
        write_ts(tmp_path / "a.ts", series, labels),
        write_npz(tmp_path / "a.npz", series, labels),
    )
    for path in written:
        found = read_series(path)
        assert (found.labels, found.classes) == (labels, ("down", "up"))
        for own, expected in zip(found.series, series, strict=True):
            np.testing.assert_allclose(own, expected, atol=1e-6)


def test_series_are_padded_by_a_number_that_occurs_nowhere(tmp_path: Path) -> None:
    series, labels = waves()
    data = read(write_ts(tmp_path / "waves.ts", series, labels))
    padding = data.players.padding
    smallest = min(own.min() for own in series)
    assert padding is not None
    assert smallest - 2 <= padding < smallest
    rows = torch.cat((data.x_train, data.x_validation, data.x_test))
    assert rows.shape == (20, 2, 9)
    lengths = data.players.lengths(rows).sort().values
    assert lengths.tolist() == sorted(own.shape[1] for own in series)
    assert data.players.names[8] == "time 8"
    segments = read(tmp_path / "waves.ts", segment=4, padding=-100.0)
    assert (len(segments.players), segments.players.padding) == (3, -100)
    channels = read(tmp_path / "waves.ts", segment="channels")
    assert channels.players.names == ("channel 0", "channel 1")
    with pytest.raises(ValueError, match=r"`padding` that occurs in no series but .* is in series"):
        read(tmp_path / "waves.ts", padding=round(float(series[3][0, 0]), 6))


def test_series_of_one_length_have_no_padding(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).normal(size=(20, 5)), np.arange(20) % 3
    np.savez(tmp_path / "flat.npz", x=x, y=y)
    data = read(tmp_path / "flat.npz", length=99)
    assert data.x_train.shape[1:] == (1, 5)
    assert (data.players.padding, data.classes) == (None, ("0", "1", "2"))
    with pytest.warns(UserWarning, match="20 of 20 series are cut off after 3 time points"):
        assert read(tmp_path / "flat.npz", length=3).x_train.shape[1:] == (1, 3)


def test_test_series_may_have_a_file_of_their_own(tmp_path: Path) -> None:
    train = write_ts(tmp_path / "train.ts", *waves(12))
    test = write_ts(tmp_path / "test.ts", *waves(6, seed=1))
    data = read(train, test_path=str(test))
    assert (len(data.x_test), len(data.x_train) + len(data.x_validation)) == (6, 12)
    assert data.y_test.tolist() == [0, 1] * 3
    write_ts(test, [np.zeros((2, 15), np.float32)], ["up"])
    with pytest.warns(UserWarning, match="1 of 13 series are cut off after 9 time points"):
        assert read(train, test_path=str(test)).x_test.shape == (1, 2, 9)
    write_ts(test, [np.zeros((3, 5), np.float32)], ["up"])
    with pytest.raises(ValueError, match=r"series of 2 channels .* but got 3"):
        read(train, test_path=str(test))
    write_npz(tmp_path / "test.npz", [np.zeros((2, 5), np.float32)], ["sideways"])
    with pytest.raises(ValueError, match=r"labels of \['down', 'up'\] .* labels \['sideways'\]"):
        read(train, test_path=str(tmp_path / "test.npz"))


def test_published_vowels(local: Any) -> None:
    where = Path(local("series/JapaneseVowels_TRAIN.ts")) / "series"
    train, test = (where / f"JapaneseVowels_{part}.ts" for part in ("TRAIN", "TEST"))
    with pytest.warns(UserWarning, match="1 of 640 series are cut off after 26"):
        data = read(train, test_path=str(test))
    assert data.x_test.shape == (370, 12, 26)
    assert len(data.x_train) + len(data.x_validation) == 270
    assert data.y_test.bincount().tolist() == [31, 35, 88, 44, 29, 24, 40, 50, 29]
    lengths = data.players.lengths(data.x_test)
    assert (lengths.min(), lengths.max()) == (7, 26)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("1,2:3,4:up\n1,2:3:up", "line 7"),
        ("1,2:3,4:up\n1,2:up", r"number of channels .*\[1, 2\]"),
        ("1,2:3,x:up", "line 6 .*could not convert"),
        ("1,2:3,nan:up", "line 6 .*missing or infinite"),
        ("1,2:3,4:upp", "line 6 .*'upp'"),
        ("up", "line 6"),
        ("", r"number of channels .*\[\]"),
    ],
)
def test_damaged_lines_are_named(line: str, error: str, tmp_path: Path) -> None:
    path = tmp_path / "damaged.ts"
    path.write_text(HEADER + line)
    with pytest.raises(ValueError, match=error):
        read_series(path)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("1,2:up", "a line @data in .* none; is it a .ts file"),
        (HEADER.replace("false", "true"), "values in .* but it has time stamps"),
        ("@data\n1,2\n3,4\n", "a label for each series .* got none"),
    ],
)
def test_headers_that_cannot_be(text: str, error: str, tmp_path: Path) -> None:
    path = tmp_path / "damaged.ts"
    path.write_text(text)
    with pytest.raises(ValueError, match=error):
        read(path)


class Evil:
    """What a pickle may run."""

    def __reduce__(self) -> Any:
        return (pytest.fail, ("unpickled",))


@pytest.mark.parametrize(
    ("arrays", "error"),
    [
        ({"x": np.array([Evil()], dtype=object)}, "allow_pickle=False"),
        ({"z": np.zeros((4, 2))}, "x is not a file"),
        ({"x": np.zeros(4)}, r"numbers \[rows, channels, time\], .* but got float64 \(4,\)"),
        ({"x": np.array([["a"]])}, "to hold numbers"),
        (
            {"x": np.zeros((4, 2)), "y": np.zeros(3)},
            r"label for each row, .*\(4, 1, 2\) and \(3,\)",
        ),
        (
            {"x": np.zeros((3, 2)), "y": np.array([np.nan, 1, np.nan])},
            r"label in every row of 'y' but 2 of 3 have none: rows \[0, 2\]",
        ),
        ({"x": np.zeros((3, 2)), "y": np.array(["a", " ", "b"])}, r"1 of 3 .* rows \[1\]"),
        ({"x": np.array([[1, np.nan, 2]])}, r"NaN at the end of short .* but series \[0\]"),
        ({"x": np.array([[1.0], [np.nan]])}, r"but series \[1\] have others, or are empty"),
        ({"x": np.array([[1.0], [1e300]])}, r"but series \[1\] have others"),
    ],
)
def test_arrays_that_are_no_series(arrays: dict, error: str, tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    np.savez(path, **arrays)
    with pytest.raises((ValueError, KeyError), match=error):
        read_series(path)


def test_files_of_other_kinds(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"PK no archive")
    with pytest.raises(ValueError, match="pickle"):
        read_series(tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"ends in one of \['.ts', '.npz'\] but got 'a.csv'"):
        read_series(tmp_path / "a.csv")
    with pytest.raises(FileNotFoundError, match="correct `path`"):
        read(tmp_path / "none.ts")
