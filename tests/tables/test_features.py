"""What players were: cells as a person would write them, and all cells of groups of columns."""

import numpy as np
import pandas as pd
import pytest
import torch

import manifold_shap as ms
from manifold_shap.tables.features import as_text, player_columns, player_values
from manifold_shap.tables.schema import Schema


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (70.0, "70"),
        # What float32 makes of 70 in other units.
        (69.9999995, "70"),
        (-3.14159, "-3.142"),
        (-0.0, "0"),
        (1999.25, "1999.25"),
        (12345678.0, "12345678"),
        (np.int64(123456789), "123456789"),
        (np.bool_(True), "True"),
        (pd.Timestamp("1954-03-02"), "1954-03-02"),
        (np.datetime64("1954-03-02T12:30"), "1954-03-02 12:30:00"),
        (pd.Timedelta(days=3), "3 days"),
        ("Rome", "Rome"),
    ],
)
def test_cells_are_written_as_a_person_would(value: object, said: str) -> None:
    assert as_text(value) == said


@pytest.mark.parametrize("value", [None, np.nan, pd.NaT, pd.NA])
def test_a_missing_cell_is_called_so(value: object) -> None:
    assert as_text(value) == "missing"


def test_groups_of_unnamed_columns_have_their_values() -> None:
    x = torch.tensor([[1.0, 2.5, 3.0], [4.0, 5.0, 6.0]])
    found = player_values(x, ms.Players(["size", "age"], [0, 0, 1]))
    assert found["size"].tolist() == ["1, 2.5", "4, 5"]
    assert found["age"].tolist() == [3.0, 6.0]


def test_groups_of_columns_have_names_and_values_whatever_their_width() -> None:
    frame = pd.DataFrame({"colour": ["red", "green", "blue"], "sex": list("fmf"), "age": [1, 2, 3]})
    schema = Schema.fit(frame)
    players = ms.Players(["who", "colour"], [1, 1, 1, 0, 0])
    x = schema.encode(frame)
    found = player_values(x, players, schema)
    assert found["who"].tolist() == ["sex = f, age = 1", "sex = m, age = 2", "sex = f, age = 3"]
    assert found["colour"].tolist() == frame["colour"].tolist()
    (columns,) = player_columns(x, players, [0], schema)
    assert list(columns) == ["sex", "age"]


def test_columns_of_one_element_each_are_told_by_position_not_by_group() -> None:
    """A schema whose own players are groups of columns: rows have an element for each column."""

    class Groups(Schema):
        @property
        def players(self) -> ms.Players:
            return ms.Players(["both", "c"], [0, 0, 1])

    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": [3.0, 4.0, 6.0], "c": [5.0, 6.0, 7.0]})
    schema = Groups(Schema.fit(frame).columns)
    found = player_values(schema.encode(frame), schema.players, schema)
    assert found["both"].tolist() == ["a = 1, b = 3", "a = 2, b = 4", "a = 4, b = 6"]
    assert found["c"].tolist() == pytest.approx([5, 6, 7])


def test_superpixels_have_no_values_and_words_have_theirs() -> None:
    superpixels = ms.Players(["left", "right"], [[[0, 1], [0, 1]]])
    assert player_values(torch.rand(2, 1, 2, 2), superpixels) is None
    words = ms.Players.of_rows((3,), 2)
    owners = torch.tensor([[1, 0, -1], [0, 0, 1]])
    found = player_values(torch.arange(6.0).reshape(2, 3), words, None, owners)
    assert found["player 0"].tolist() == ["1", "3, 4"]
    assert found["player 1"].tolist() == [0, 5]
