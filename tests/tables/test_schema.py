"""Schema: inference, encoding, round trips and every error."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from manifold_shap.tables import Column, Schema


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [20.0, 30.0, 40.0, 50.0],
            "smoker": [0, 1, 1, 0],
            "colour": ["red", "green", "blue", "red"],
            "sex": ["f", "m", "m", "f"],
            "member": [True, False, True, True],
            "rooms": [1, 2, 3, 3],
        }
    )


@pytest.fixture
def schema(frame: pd.DataFrame) -> Schema:
    return Schema.fit(frame, categorical=["rooms"])


def test_kinds_and_categories_are_inferred(schema: Schema) -> None:
    found = {column.name: (column.kind, column.categories) for column in schema.columns}
    assert found == {
        "age": ("continuous", ()),
        "smoker": ("binary", ("0", "1")),
        "colour": ("categorical", ("blue", "green", "red")),
        "sex": ("binary", ("f", "m")),
        "member": ("binary", ("False", "True")),
        "rooms": ("categorical", ("1", "2", "3")),
    }
    assert schema.players.index.tolist() == [0, 1, 2, 2, 2, 3, 4, 5, 5, 5]
    assert schema.players.names == schema.names == tuple(found)


def test_encoding_has_the_written_values(schema: Schema, frame: pd.DataFrame) -> None:
    x = schema.encode(frame)
    assert x.dtype == torch.float32
    assert schema.width == x.shape[1] == 10
    scale = np.sqrt(125.0)
    expected = [-15 / scale, 0, 0, 0, 1, 0, 1, 1, 0, 0]
    torch.testing.assert_close(x[0], torch.tensor(expected, dtype=torch.float32))
    assert x[2].tolist()[1:] == [1, 1, 0, 0, 1, 1, 0, 0, 1]


def test_category_dtype_is_a_category_even_of_numbers() -> None:
    frame = pd.DataFrame({"rooms": pd.Categorical([3, 10, 2]), "pair": pd.Categorical([1, 2, 1])})
    rooms, pair = Schema.fit(frame).columns
    assert (rooms.kind, set(rooms.categories)) == ("categorical", {"2", "3", "10"})
    assert (pair.kind, pair.categories, pair.numeric) == ("binary", ("1", "2"), False)
    (rooms,) = Schema.fit(pd.DataFrame({"rooms": [10, 9, 2]}), categorical=["rooms"]).columns
    assert rooms.categories == ("2", "9", "10")


def test_statistics_come_from_the_training_rows_and_categories_from_all(
    frame: pd.DataFrame,
) -> None:
    frame["hole"] = [1.0, 2.0, 3.0, np.nan]
    schema = Schema.fit(frame.iloc[:2], categories_from=frame)
    columns = {column.name: column for column in schema.columns}
    assert (columns["age"].mean, columns["age"].scale) == (25.0, 5.0)
    assert columns["colour"].categories == ("blue", "green", "red")
    assert columns["rooms"].kind == "continuous"
    assert schema.encode(frame)[3, -2:].tolist() == [0, 1]


@pytest.mark.parametrize(("constant", "element"), [(0.1, 0), (1e12, 0), ("red", 1)])
def test_a_constant_column_is_kept(constant: object, element: int) -> None:
    frame = pd.DataFrame({"a": [constant] * 7, "b": range(7)})
    schema = Schema.fit(frame)
    assert schema.columns[0].scale == 1
    assert (schema.encode(frame)[:, 0] == element).all()
    assert schema.decode(schema.encode(frame))["a"].tolist() == [constant] * 7


def test_names_are_plain_text() -> None:
    column = Column(np.str_("a"), "binary", (np.str_("x"), np.str_("y")))
    assert {type(text) for text in (column.name, *column.categories)} == {str}
    schema = Schema.fit(pd.DataFrame({np.str_("a"): [1, 2, 3]}))
    assert type(schema.names[0]) is type(schema.players.names[0]) is str


def test_columns_are_matched_by_name_and_the_frame_is_left_alone(
    schema: Schema, frame: pd.DataFrame
) -> None:
    shuffled = frame[list(reversed(frame.columns))]
    before = shuffled.copy()
    assert torch.equal(schema.encode(shuffled), schema.encode(frame))
    pd.testing.assert_frame_equal(shuffled, before)


def test_numbers_match_their_category_whatever_their_type(schema: Schema) -> None:
    frame = pd.DataFrame({"smoker": [0, 1, 1], "rooms": [1, 2, 3]})
    schema = Schema.fit(frame, categorical=["rooms"])
    as_floats = frame.astype({"smoker": "float32", "rooms": float})
    assert torch.equal(schema.encode(as_floats), schema.encode(frame))
    as_text = frame.astype({"rooms": str})
    assert torch.equal(schema.encode(as_text), schema.encode(frame))
    assert Schema.fit(frame.astype(object), categorical=["rooms"]) == schema


def test_negative_zero_is_zero() -> None:
    schema = Schema.fit(pd.DataFrame({"a": [-0.0, 1.0]}))
    assert schema.encode(pd.DataFrame({"a": [0.0, -0.0, 1.0]})).tolist() == [[0], [0], [1]]


def test_decode_takes_the_nearest_value(schema: Schema) -> None:
    x = torch.tensor([[0.0, 0.6, 0.1, 0.5, 0.4, 0.2, 0.9, -3.0, -1.0, -2.0]])
    row = schema.decode(x).iloc[0].to_dict()
    assert row == pytest.approx(
        {"age": 35.0, "smoker": 1, "colour": "green", "sex": "f", "member": "True", "rooms": "2"}
    )


def test_binary_numbers_decode_to_the_numbers_they_were() -> None:
    frame = pd.DataFrame({"whole": [1, 2, 1], "broken": [0.1, -2.5, 0.1]})
    schema = Schema.fit(frame)
    back = schema.decode(schema.encode(frame))
    pd.testing.assert_frame_equal(back, frame)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=5)
halves = st.floats(-1e6, 1e6).map(lambda number: round(number, 3))


@st.composite
def frames(draw: st.DrawFn) -> pd.DataFrame:
    rows = draw(st.integers(4, 12))

    def column(values: st.SearchStrategy) -> list:
        return draw(st.lists(values, min_size=rows, max_size=rows))

    pool = draw(st.lists(texts, min_size=2, max_size=5, unique=True))
    pair = draw(st.lists(halves, min_size=2, max_size=2, unique=True))
    choice = [*pool, *column(st.sampled_from(pool))][:rows]
    return pd.DataFrame(
        {
            "number": column(halves),
            "count": column(st.integers(-1000, 1000)),
            "pair": [*pair, *column(st.sampled_from(pair))][:rows],
            "text": pd.Series([*choice, *[pool[0]] * rows][:rows], dtype=object),
            "flag": column(st.booleans()),
        }
    )


@settings(max_examples=15)
@given(frames())
def test_decode_inverts_encode(frame: pd.DataFrame) -> None:
    schema = Schema.fit(frame, categorical=["flag"])
    x = schema.encode(frame)
    back = schema.decode(x)
    assert x.shape == (len(frame), schema.width) == (len(frame), len(schema.players.index))
    for name in ("number", "count"):
        # float32 keeps seven digits of a value in units of its column's scale.
        tolerance = 1e-6 * (frame[name].max() - frame[name].min())
        np.testing.assert_allclose(back[name], frame[name], rtol=1e-9, atol=tolerance + 1e-9)
    assert back["pair"].tolist() == frame["pair"].tolist()
    assert back["text"].tolist() == frame["text"].tolist()
    assert back["flag"].tolist() == frame["flag"].map(str).tolist()
    torch.testing.assert_close(schema.encode(back), x, rtol=1e-5, atol=1e-5)
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"kind": "ordinal"}, "kind of column 'a'` to be one of .* got 'ordinal'"),
        ({"kind": "binary", "categories": ("x",)}, "distinct categories for column 'a'"),
        ({"kind": "categorical", "categories": ("x", "x")}, "distinct categories for column 'a'"),
        ({"kind": "continuous", "categories": ("x", "y")}, "got .* for a continuous column"),
        ({"kind": "categorical"}, "one or more otherwise"),
        ({"kind": "continuous", "scale": 0.0}, "positive scale for column 'a' but got mean 0.0"),
    ],
)
def test_impossible_columns(column: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Column("a", **column)


def test_a_missing_number_is_told_by_a_second_element() -> None:
    frame = pd.DataFrame({"age": [20.0, None, 40.0, 60.0]})
    schema = Schema.fit(frame)
    assert schema.columns[0].missing
    assert schema.width == 2
    x, scale = schema.encode(frame), np.sqrt(800 / 3)
    expected = [[-20 / scale, 0], [0, 1], [0, 0], [20 / scale, 0]]
    torch.testing.assert_close(x, torch.tensor(expected, dtype=torch.float32))
    pd.testing.assert_frame_equal(schema.decode(x), frame)


@pytest.mark.parametrize("values", [["f", None, "m", "f"], [True, None, False, True], [0, None, 1]])
def test_a_missing_category_is_a_category_more(values: list) -> None:
    frame = pd.DataFrame({"a": values})
    schema = Schema.fit(frame, categorical=["a"])
    assert (schema.columns[0].kind, schema.width) == ("categorical", 3)
    assert schema.columns[0].categories[2] == "(missing)"
    x = schema.encode(frame)
    assert (x.sum(1) == 1).all()
    assert x[1].tolist() == [0, 0, 1]
    assert schema.decode(x)["a"].isna().tolist() == frame["a"].isna().tolist()


def test_dates_are_days_since_1970() -> None:
    frame = pd.DataFrame({"day": pd.date_range("1970-01-02", periods=3)})
    schema = Schema.fit(frame)
    (column,) = schema.columns
    assert (column.kind, column.mean, column.date) == ("continuous", 2.0, True)
    assert schema.decode(schema.encode(frame))["day"].tolist() == frame["day"].tolist()


def test_ordered_categories_are_their_ranks() -> None:
    sizes = pd.Categorical(["m", "s", "l"], ["s", "m", "l"], ordered=True)
    schema = Schema.fit(pd.DataFrame({"size": sizes}))
    assert (schema.columns[0].kind, schema.columns[0].categories) == ("ordered", ("s", "m", "l"))
    assert schema.encode(pd.DataFrame({"size": sizes}))[:, 0].sign().tolist() == [0, -1, 1]


def test_rare_categories_share_an_element() -> None:
    names = [f"town {k:03}" for k in range(150)]
    frame = pd.DataFrame({"town": names + names[:99] * 2})
    with pytest.warns(UserWarning, match=r"150 categories: all but the 99 .* \(15% of the rows\)"):
        schema = Schema.fit(frame)
    assert schema.columns[0].categories == (*names[:99], "(other)")
    assert schema.encode(frame)[:150].argmax(1).tolist() == [*range(99), *[99] * 51]


def test_text_that_is_written_as_numbers_is_numbers() -> None:
    text = pd.DataFrame({"charge": ["10", "9.5", "-1e1", "0"]})
    schema = Schema.fit(text)
    assert schema == Schema.fit(text.astype(float))
    assert torch.equal(schema.encode(text), schema.encode(text.astype(float)))
    assert Schema.fit(text.iloc[:3]).columns[0].kind == "categorical"
    assert Schema.fit(text.replace("0", "none")).columns[0].kind == "categorical"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"colour": "mauve"}, r"'colour' holds 'mauve', but training had .*'blue', 'green'"),
        ({"smoker": 2}, r"'smoker' holds '2', but training had \['0', '1'\]"),
        ({"age": [1, "old", 2, "older"]}, r"column 'age', .* holds .*'old'"),
        ({"age": [1, 2, -np.inf, 3]}, "column 'age' but it holds -inf; correct"),
        ({"age": [1, 2, np.nan, 4]}, "'age' holds a missing cell, but"),
        ({"sex": [None, "m", "m", "f"]}, "'sex' holds a missing cell, but"),
        ({"age": [1, 2, 3, 1e300]}, "'age' holds 1e.300, too far from the training"),
        ({"extra": 1}, r"the columns .* the frame has also \['extra'\]; give"),
    ],
)
def test_values_that_cannot_be_encoded(
    schema: Schema, frame: pd.DataFrame, changed: dict, message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        schema.encode(frame.assign(**changed))


def test_what_cannot_be_decoded(schema: Schema) -> None:
    with pytest.raises(ValueError, match=r"shape \(rows, 10\) but got \(2, 9\)"):
        schema.decode(torch.zeros(2, 9))
    with pytest.raises(ValueError, match="`x` without NaN"):
        schema.decode(torch.full((1, 10), float("nan")))
