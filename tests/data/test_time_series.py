"""Files of series: both formats, padding, players, and what is wrong with a file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from manifold_shap.data import Data, load, read_series

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


def read(path: Path, **settings: Any) -> Data:
    return load("series", path=str(path), **settings)


def test_both_formats_hold_the_same_series(tmp_path: Path) -> None:
    series, labels = waves()
    for write, path in ((write_ts, tmp_path / "a.ts"), (write_npz, tmp_path / "a.npz")):
        found = read_series(write(path, series, labels))
        assert found[1] == labels
        for own, expected in zip(found[0], series, strict=True):
            np.testing.assert_allclose(own, expected, atol=1e-6)


def test_series_are_padded_by_a_number_that_occurs_nowhere(tmp_path: Path) -> None:
    series, labels = waves()
    data = read(write_ts(tmp_path / "waves.ts", series, labels))
    padding, smallest = data.players.padding, min(own.min() for own in series)
    assert padding is not None
    assert smallest - 2 <= padding < smallest
    rows = torch.cat((data.x_train, data.x_validation, data.x_test))
    assert rows.shape == (20, 2, 9)
    lengths = data.players.lengths(rows).sort().values
    assert lengths.tolist() == sorted(own.shape[1] for own in series)
    for segment, name in ((1, "time 8"), (4, "time 8"), ("channels", "channel 1")):
        assert read(tmp_path / "waves.ts", segment=segment).players.names[-1] == name
    with pytest.warns(UserWarning, match="20 of 20 series are cut off after 3 time points"):
        assert read(tmp_path / "waves.ts", length=3).x_train.shape[1:] == (2, 3)


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
    with pytest.raises(ValueError, match=r"as many channels but got \[2, 3\]"):
        read(train, test_path=str(test))
    write_npz(tmp_path / "test.npz", [np.zeros((2, 5), np.float32)], ["sideways"])
    with pytest.raises(ValueError, match=r"none of \['sideways'\]"):
        read(train, test_path=str(tmp_path / "test.npz")).check_labels()


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
        ("1,2:3,x:up", "line 6 .*could not convert"),
        ("", "cases after a line @data"),
        ("@timeStamps true\n@data\n(0,1):up", "time stamps"),
    ],
)
def test_damaged_lines_are_named(line: str, error: str, tmp_path: Path) -> None:
    path = tmp_path / "damaged.ts"
    path.write_text(HEADER + line)
    with pytest.raises(ValueError, match=error):
        read_series(path)
