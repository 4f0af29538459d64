"""Rows of a table of one's own: players, classes, numbers to predict, and missing cells."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from manifold_shap.data import TableFile
from tests.data.test_tables import labels

FRAME = pd.DataFrame(
    {
        "id": [f"n{i}" for i in range(40)],
        "age": [20 + 3 * (i // 2) for i in range(40)],
        "rooms": [1 + i % 3 for i in range(40)],
        "colour": [["red", "green", "blue"][i % 3] for i in range(40)],
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


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    WRITERS[path.name](path)
    return path


def read(path: Path, target: str | None = "bought", **settings: Any) -> TableFile:
    settings = {"drop": ["id"], "read": {"parse_dates": ["since"]}, **settings}
    data = TableFile(path=str(path), target=target, **settings)
    data.setup()
    return data


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
    found = data.table.decode(data.find("instances", list(range(40)), "test"))
    for column in data.players.names:
        expected = FRAME[column].astype(found[column].dtype)
        pd.testing.assert_series_equal(found[column], expected, check_names=False)


def test_players_classes_and_encodings(table: Path) -> None:
    drop = ["id", "gap", "always", "since"]
    data = read(table, categorical=["rooms"], drop=drop, read=None)
    assert data.name == "table"
    assert data.players.names == ("age", "rooms", "colour", "price")
    assert data.classes == ("no", "yes")
    assert labels(data).bincount().tolist() == [20, 20]
    assert data.x_train.shape == (28, 4)
    assert data.table.encode(data.x_train).shape == (28, 8)
    price = data.table.decode(data.x_test)["price"]
    assert torch.equal(torch.tensor((price / 1.5).round().to_numpy() % 2).long(), data.y_test)


def test_rows_have_the_numbers_of_the_file(table: Path) -> None:
    FRAME.assign(bought=FRAME["bought"].where(FRAME.index != 7)).to_csv(table, index=False)
    with pytest.warns(UserWarning, match="1 of 40 rows lack the target 'bought'"):
        data = read(table)
    assert len(data.test_numbers) == len(data.x_test) == 8
    played = list(data.table.header)
    pd.testing.assert_frame_equal(
        data.table.frame(data.x_test)[played[:4]],
        FRAME.loc[data.test_numbers, played[:4]].reset_index(drop=True),
    )
    asked = [3, 39, 0, 3, 8]  # Of any part.
    found = data.table.decode(data.find("instances", asked, "test"))
    assert found["age"].tolist() == FRAME["age"][asked].tolist()
    for odd in ([3, 7], [40], [-1], [1.0], ["3"], []):
        with pytest.raises(
            ValueError, match="`instances` to list rows of table that have a target"
        ):
            data.find("instances", odd, "test")


@pytest.mark.filterwarnings("ignore:Cells that training had none of")
def test_columns_that_never_repeat_are_warned_of_and_may_be_left_out(table: Path) -> None:
    with pytest.warns(UserWarning, match=r"No value repeats in columns \['id'\]"):
        data = read(table, drop=[], own_model=True)
    assert data.players.names == ("id", "age", "rooms", "colour", "price", "gap", "since")
    data = read(table, drop=[], left_out=["id"], own_model=True, target=None)
    assert data.players.names == ("age", "rooms", "colour", "price", "bought", "gap", "since")
    # A model of one's own is given it all the same.
    assert list(data.table.frame(data.x_test)) == list(FRAME)


def test_classes_of_numbers_are_in_numeric_order(table: Path) -> None:
    FRAME.assign(grade=[[10.0, 9.0, 2.0][i % 3] for i in range(40)]).to_csv(table, index=False)
    data = read(table, "grade")
    assert data.classes == ("2", "9", "10")
    assert labels(data).bincount().tolist() == [13, 13, 14]


def test_a_regression(table: Path) -> None:
    data = read(table, "price", task="regression")
    assert (data.task, data.classes, data.outputs) == ("regression", (), ("price",))
    y = labels(data)
    assert y.dtype == torch.float32
    assert y.sort().values.tolist() == FRAME["price"].tolist()


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"target": None}, "Expected `target`"),
        ({"target": "yy"}, r"column 'yy' in .*table.csv but got \['age'"),
        ({"task": "regress"}, "`task` to be one of"),
        ({"task": "regression"}, "could not convert"),
        ({"target": "always"}, "at least two classes in 'table' but every one is '1'"),
        ({"target": "price"}, "none of the 28 is of .*task=regression"),
    ],
)
def test_settings_that_do_not_fit_the_table(
    table: Path, settings: dict[str, Any], error: str
) -> None:
    with pytest.raises((ValueError, TypeError, KeyError), match=error):
        read(table, **settings)


def test_no_such_file(nowhere: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"'mine.csv' .* nor is there one at /.*mine.csv"):
        read(Path("mine.csv"))
