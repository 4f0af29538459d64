"""Tables: published figures, the copies of OpenML, and files of one's own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from manifold_shap.data import Data, load

PARTS = ("train", "validation", "test")


def labels(data: Data) -> Tensor:
    return torch.cat([getattr(data, f"y_{part}") for part in PARTS])


@pytest.mark.parametrize(
    ("source", "relative", "rows", "counts", "width", "players", "continuous_columns"),
    [
        ("iris", None, 150, [50, 50, 50], 4, 4, 4),
        ("drug", "drug", 1885, [1069, 816], 10, 10, 0),
        ("abalone", "abalone", 4177, [2096, 2081], 10, 8, 7),
        ("census", "census", 48842, [37155, 11687], 106, 13, 5),
        ("diabetes", None, 442, None, 10, 10, 9),
        ("bike", "bike", 731, None, 6, 6, 6),
    ],
)
def test_tables_have_their_published_figures(
    local: Callable[[str], str],
    source: str,
    relative: str | None,
    rows: int,
    counts: list[int] | None,
    width: int,
    players: int,
    continuous_columns: int,
) -> None:
    if relative:
        local(relative)
    data = load(source)
    assert sum(len(getattr(data, f"x_{part}")) for part in PARTS) == rows
    if counts is not None:
        assert labels(data).bincount().tolist() == counts
    assert labels(data).dtype == (torch.float32 if counts is None else torch.int64)
    assert data.x_train.shape[1:] == data.players.index.shape == (players,)
    assert (len(data.players.names), data.table.width) == (players, width)
    columns = enumerate(data.table.encodings)
    own = [k for k, encoding in columns if encoding.kind == "continuous"]
    chosen = torch.isin(data.table.elements.index, torch.tensor(own)).numpy()
    assert chosen.sum() == continuous_columns
    x = data.table.encode(data.x_train).double().numpy()[:, chosen]
    np.testing.assert_allclose(x.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(x.std(0), 1, atol=1e-5)


def test_census_keeps_the_publishers_test_rows(local: Callable[[str], str]) -> None:
    local("census")
    data = load("census")
    assert [len(getattr(data, f"x_{part}")) for part in PARTS] == [29305, 3256, 16281]
    assert data.y_test.bincount().tolist() == [12435, 3846]
    kinds = {column.name: column for column in data.table.encodings}
    assert "fnlwgt" not in kinds
    assert "?" in kinds["workclass"].categories
    first = data.table.frame(data.x_test[:1]).iloc[0]
    assert (first["education"], round(first["age"])) == ("11th", 25)


def test_components_of_digits() -> None:
    data = load("digit_components", digits=[3, "8"], components=2)
    assert (data.classes, data.players.names) == (("3", "8"), ("PC1", "PC2"))
    assert len(labels(data)) == 183 + 174
    x = data.table.encode(data.x_train).double()
    covariance = x.T @ x / len(x)
    torch.testing.assert_close(covariance, torch.eye(2).double(), rtol=0, atol=1e-5)


# Files of one's own.

FRAME = pd.DataFrame(
    {
        "id": [f"n{i}" for i in range(40)],
        "age": [20 + 3 * (i // 2) for i in range(40)],
        "rooms": [1 + i % 3 for i in range(40)],
        "colour": [["red", "green", "blue"][i % 2 + (i == 39)] for i in range(40)],
        "price": [i * 1.5 for i in range(40)],
        "bought": [["no", "yes"][i % 2] for i in range(40)],
        "always": 1,
        "gap": [None if i == 7 else abs(i - 9.8) for i in range(40)],
        "since": pd.date_range("2020-01-01", periods=40)[::-1],
    }
)
WRITERS: dict[str, Callable[[Path], Any]] = {
    "table.csv": lambda path: FRAME.to_csv(path, index=False),
    "semicolons.csv": lambda path: FRAME.to_csv(path, index=False, sep=";", decimal=","),
    "packed.csv.gz": lambda path: FRAME.to_csv(path, index=False),
    "table.parquet": lambda path: FRAME.set_index("id", drop=False).to_parquet(path),
    "table.feather": lambda path: FRAME.to_feather(path),
}


def read(path: Path, target: str | None = "bought", **settings: Any) -> Data:
    settings = {"drop": ["id"], "read": {"parse_dates": ["since"]}, **settings}
    return load("table", path=str(path), target=target, **settings)


def read_frame(frame: pd.DataFrame, folder: Path, *target: Any, **settings: Any) -> Data:
    frame.to_csv(folder / "table.csv", index=False)
    return read(folder / "table.csv", *target, **settings)


@pytest.mark.parametrize("name", WRITERS)
def test_files_are_read_by_pandas(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    how: dict[str, Any] = {"parse_dates": ["since"]}
    if name == "semicolons.csv":
        how |= {"sep": ";", "decimal": ","}
    data = read(path, read={} if path.suffix in (".parquet", ".feather") else how)
    assert data.players.names == ("age", "rooms", "colour", "price", "gap", "since")
    assert data.table.constants == {"always": 1}
    found = data.table.frame(data.find(list(range(40)))[0])
    for column in data.players.names:
        expected = FRAME[column].astype(found[column].dtype)
        pd.testing.assert_series_equal(found[column], expected, check_names=False)


def test_rows_have_the_numbers_of_the_file(tmp_path: Path) -> None:
    frame = FRAME.assign(bought=FRAME["bought"].where(FRAME.index != 7))
    with pytest.warns(UserWarning, match="1 of 40 rows lack the target 'bought'"):
        data = read_frame(frame, tmp_path)
    # Row k is of the class k % 2.
    assert [number % 2 for number in data.test_numbers] == data.y_test.tolist()
    asked = [*data.test_numbers, 3, 39, 0, 3, 8]  # Of any part.
    x, y = data.find(asked)
    assert torch.equal(x[:8], data.x_test)
    assert y.tolist() == [number % 2 for number in asked]
    assert data.table.frame(x)["age"].tolist() == FRAME["age"][asked].tolist()
    for odd in ([3, 7], [40], [-1], ["3"], []):
        with pytest.raises(ValueError, match="rows of the file that have a target"):
            data.find(odd)


@pytest.mark.filterwarnings("ignore:Cells that training had none of")
def test_columns_that_never_repeat_are_warned_of_and_may_be_left_out(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"No value repeats in columns \['id'\]"):
        data = read_frame(FRAME, tmp_path, drop=[])
    assert data.players.names == ("id", "age", "rooms", "colour", "price", "gap", "since")
    data = read_frame(FRAME, tmp_path, None, drop=[], left_out=["id"])
    assert data.players.names == ("age", "rooms", "colour", "price", "bought", "gap", "since")
    # A model of one's own is given it all the same.
    assert list(data.table.frame(data.x_test)) == list(FRAME)


def test_targets_that_are_numbers(tmp_path: Path) -> None:
    frame = FRAME.assign(grade=[[10.0, 9.0, 2.0][i % 5 // 2] for i in range(40)])
    data = read_frame(frame, tmp_path, "grade")
    assert data.classes == ("2", "9", "10")
    assert labels(data).bincount().tolist() == [8, 16, 16]
    data = read_frame(frame, tmp_path, "price", task="regression")
    assert (data.task, data.classes, data.outputs) == ("regression", (), ("price",))
    assert labels(data).sort().values.tolist() == FRAME["price"].tolist()


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"target": None}, "but got 0 labels"),
        ({"target": "yy"}, "`target` to be one of .*price.* but got 'yy'"),
        ({"task": "regress"}, "`task` to be one of"),
        ({"task": "regression"}, "could not convert"),
        ({"target": "always"}, "two classes or more"),
        ({"target": "price"}, "none of .*data.task=regression .*random_forest_regressor"),
    ],
)
def test_settings_that_do_not_fit_the_table(
    tmp_path: Path, settings: dict[str, Any], error: str
) -> None:
    with pytest.raises((ValueError, TypeError, KeyError), match=error):
        read_frame(FRAME, tmp_path, **settings).check_labels()


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "No columns"),
        (b"age,bought\n", "of 0 rows"),
        (bytes(range(256)), "can't decode|Error tokenizing"),
    ],
)
def test_files_that_are_no_tables(tmp_path: Path, content: bytes, error: str) -> None:
    (tmp_path / "table.csv").write_bytes(content)
    with pytest.raises(ValueError, match=error):
        read(tmp_path / "table.csv", drop=[], read={})
