"""Rows of a table of one's own: players, classes, numbers to predict, and missing cells."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from manifold_shap.data import TableFile
from manifold_shap.data.splits import split_rows
from tests.data.test_tables import labels


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = range(40)
    frame = pd.DataFrame(
        {
            "id": [f"n{i}" for i in rows],
            "age": [20 + 3 * i for i in rows],
            "rooms": [1 + i % 3 for i in rows],
            "colour": [["red", "green", "blue"][i % 3] for i in rows],
            "price": [i * 1.5 for i in rows],
            "bought": [["no", "yes"][i % 2] for i in rows],
            "always": 1,
            "gap": [None if i == 7 else i / 4 for i in rows],
            "since": pd.date_range("2020-01-01", periods=40).astype(str),
        }
    )
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    return path


def test_csv(table: Path) -> None:
    drop = ["gap", "always", "since"]
    data = TableFile(path=str(table), target="bought", categorical=["rooms"], drop=drop)
    data.setup()
    assert data.name == "table"
    assert data.players.names == ("age", "rooms", "colour", "price")
    assert data.classes == ("no", "yes")
    assert labels(data).bincount().tolist() == [20, 20]
    assert data.x_train.shape == (28, 4)
    assert data.schema.encode(data.x_train).shape == (28, 8)
    age = data.schema.decode(data.x_test)["age"]
    assert torch.equal(torch.tensor((age - 20).to_numpy() % 2), data.y_test)


def test_missing_cells_dates_and_constants_are_values(table: Path) -> None:
    data = TableFile(path=table.name, target="bought", root=str(table.parent))
    data.setup()
    assert data.players.names == ("age", "rooms", "colour", "price", "gap", "since")
    assert data.schema.constants == {"always": 1}
    x = torch.cat([data.x_train, data.x_validation, data.x_test])
    decoded = data.schema.decode(x)
    (missing,) = decoded[decoded["gap"].isna()].index
    assert decoded["age"][missing] == 20 + 3 * 7
    assert decoded["since"][missing] == pd.Timestamp("2020-01-08")


def test_rows_have_the_numbers_of_the_file(table: Path) -> None:
    frame = pd.read_csv(table)
    data = TableFile(path=str(table), target="bought", missing="drop_rows", drop=["since"])
    data.setup()
    assert len(data.test_numbers) == len(data.x_test) == 8
    pd.testing.assert_frame_equal(
        data.schema.frame(data.x_test),
        frame.loc[data.test_numbers, list(data.schema.columns)].reset_index(drop=True),
    )
    asked = [3, 39, 0, 3, 8]  # Of any part.
    found = data.schema.decode(data.find("instances", asked, "test"))
    assert found["age"].tolist() == frame["age"][asked].tolist()
    data.setup()
    # Row 7 lacks a cell.
    with pytest.raises(ValueError, match=r"row 0, from 0 to 39 but .*; rows \[7\] were left out"):
        data.find("instances", [3, 7], "test")
    for odd in ([40], [-1], [1.0], ["3"], []):
        with pytest.raises(ValueError, match="Expected `instances` to list rows of table, the fir"):
            data.find("instances", odd, "test")


@pytest.mark.filterwarnings("ignore:Cells that training had none of")
def test_a_frame_of_a_model_of_ones_own_has_all_columns(table: Path) -> None:
    data = TableFile(path=str(table), target="bought", own_model=True)
    data.setup()
    assert data.players.names == ("id", "age", "rooms", "colour", "price", "gap", "since")
    data.leave_out(["id"])
    assert data.players.names == ("age", "rooms", "colour", "price", "gap", "since")
    assert data.schema.columns == ("id", *data.players.names[:4], "always", "gap", "since")


def test_classes_of_numbers_are_in_numeric_order(table: Path) -> None:
    frame = pd.read_csv(table).assign(grade=[[10.0, 9.0, 2.0][i % 3] for i in range(40)])
    frame.to_csv(table, index=False)
    data = TableFile(path=str(table), target="grade")
    data.setup()
    assert data.classes == ("2", "9", "10")
    assert labels(data).bincount().tolist() == [13, 13, 14]


def test_a_class_that_no_training_row_is_of(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    kinds = ["rare", *["a", "b"] * 30]
    pd.DataFrame({"x": np.arange(61) % 7, "kind": kinds}).to_csv(path, index=False)
    shares = {"validation": 0.1, "test": 0.2}
    held_out = {seed: 0 not in split_rows(61, shares, seed)[0] for seed in range(20)}
    assert set(held_out.values()) == {False, True}
    for seed, absent in held_out.items():
        data = TableFile(path=str(path), target="kind", seed=seed)
        if absent:
            with pytest.raises(ValueError, match=r"none of the 43 is of \['rare'\]; merge or drop"):
                data.setup()
        else:
            data.setup()


def test_a_regression(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    pd.DataFrame({"a": np.arange(300) * 7 % 11, "price": np.arange(300) / 4}).to_csv(path)
    data = TableFile(path=str(path), target="price", task="regression")
    data.setup()
    assert (data.task, data.classes, data.outputs) == ("regression", (), ("price",))
    assert data.players.names == ("a",)
    y = torch.cat([data.y_train, data.y_validation, data.y_test])
    assert y.dtype == torch.float32
    assert y.sort().values.tolist() == [i / 4 for i in range(300)]
    pd.DataFrame({"a": range(30), "b": 1.0, "price": np.arange(30) * 1e300}).to_csv(path)
    with pytest.raises(
        ValueError, match=r"`price` that fit float32 .* 1e\+300 does not fit float32"
    ):
        TableFile(path=str(path), target="price", task="regression", keep=["a"]).setup()


def test_a_target_is_needed_to_train(table: Path) -> None:
    with pytest.raises(ValueError, match=r"Expected `target`, .* but got none; set data.target to"):
        TableFile(path=str(table)).setup()
