"""Table: every cell of every kind of frame comes back, and codes are encoded as their column is."""

import copy
import datetime as dt
import enum
import importlib.util
import json
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import PurePath
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from torch import Tensor

import manifold_shap as ms

moments = st.datetimes(dt.datetime(1800, 1, 1), dt.datetime(2200, 1, 1))
zoned = moments.map(lambda moment: moment.replace(tzinfo=dt.UTC, fold=0))
texts = st.text(max_size=4)
floats = st.floats(-1e6, 1e6)
small = st.floats(-8, 8, width=16)
decimals = st.decimals(-999, 999, places=2)
whole = st.integers(-(2**63), 2**63 - 1)
letters = st.sampled_from("abcd")


def arrow(kind: pa.DataType) -> pd.ArrowDtype:
    return pd.ArrowDtype(kind)


def interval(kind: type) -> st.SearchStrategy:
    return st.integers(0, 9).map(lambda left: pd.Interval(kind(left), kind(left + 2)))


BANDS = pd.CategoricalDtype(pd.interval_range(0, 4), ordered=True)
# Of each dtype: cells, and what may be missing.
PANDAS: dict[str, tuple[Any, st.SearchStrategy, list]] = {
    "int64": ("int64", whole, []),
    "uint64": ("uint64", st.integers(0, 2**64 - 1), []),
    "float64": ("float64", floats, [np.nan]),
    "bool": ("bool", st.booleans(), []),
    "Int64": ("Int64", whole, [pd.NA]),
    "boolean": ("boolean", st.booleans(), [pd.NA]),
    "string python": (pd.StringDtype("python"), texts, [pd.NA]),
    "str": (pd.StringDtype(na_value=np.nan), texts, [np.nan]),
    "object text": (object, texts, [None, np.nan, pd.NA]),
    "mixed": (object, st.one_of(texts, st.booleans(), st.integers(0, 2), small), [None, np.nan]),
    "date": (object, st.dates(dt.date(1800, 1, 1), dt.date(9999, 1, 1)), [None, pd.NaT]),
    "datetime object": (object, zoned, [None]),
    "time": (object, st.times().map(lambda t: t.replace(fold=0)), [None]),
    "Decimal": (object, decimals, [None]),
    "category of text": (pd.CategoricalDtype([*"dbca"]), letters, [np.nan]),
    "ordered": (pd.CategoricalDtype([*"dbca"], True), letters, [np.nan]),
    "category of intervals": (BANDS, st.sampled_from(list(BANDS.categories)), [np.nan]),
    "interval": ("interval[float64, right]", interval(float), [np.nan]),
    "sparse": (pd.SparseDtype("float64", 0.0), st.sampled_from([0.0, 1.0, 2.5]), [np.nan]),
    "datetime64[ns]": ("datetime64[ns]", moments, [pd.NaT]),
    "datetime64[us, Oslo]": ("datetime64[us, Europe/Oslo]", zoned, [pd.NaT]),
    "zoned cells": (object, zoned.map(pd.Timestamp), [pd.NaT]),
    "timedelta64[us]": (
        "timedelta64[us]",
        st.timedeltas(dt.timedelta(-9999), dt.timedelta(9999)),
        [pd.NaT],
    ),
    "period": ("period[M]", moments.map(lambda m: pd.Period(m, "M")), [pd.NaT]),
    "arrow text": (arrow(pa.string()), texts, [pd.NA]),
    "arrow decimal": (arrow(pa.decimal128(9, 2)), decimals, [pd.NA]),
}
POLARS: dict[str, tuple[Any, st.SearchStrategy, list]] = {
    "Int64": (pl.Int64, whole, [None]),
    "Float64": (pl.Float64, floats, [None, float("nan")]),
    "Decimal": (pl.Decimal(10, 2), decimals, [None]),
    "Boolean": (pl.Boolean, st.booleans(), [None]),
    "String": (pl.String, texts, [None]),
    "Categorical": (pl.Categorical, texts, [None]),
    "Enum": (pl.Enum([*"dbca"]), letters, [None]),
    "Datetime ns": (pl.Datetime("ns"), moments, [None]),
    "Datetime zone": (pl.Datetime("us", "Europe/Oslo"), moments, [None]),
    "Time": (pl.Time, st.times(), [None]),
    "Null": (pl.Null, st.none(), [None]),
}


@st.composite
def cells(draw: st.DrawFn, of: st.SearchStrategy, missing: list) -> list:
    every = st.one_of(of, st.sampled_from(missing)) if missing else of
    rows = draw(st.integers(2, 9))
    return draw(st.lists(every, min_size=rows, max_size=rows))


def through_json(table: ms.Table) -> ms.Table:
    settings, _ = table.state()
    return ms.Table.restored(json.loads(json.dumps(settings, allow_nan=False)), {}, None)


def same(found: Any, expected: Any) -> None:
    """Two frames with the same cells: -0.0 is not 0.0, and None not NaN."""
    if isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(found, expected, check_column_type=False)
        for name in range(expected.shape[1]):
            mine, theirs = (frame.iloc[:, name].tolist() for frame in (found, expected))
            assert repr(mine) == repr(theirs)
    elif isinstance(expected, pl.DataFrame):
        assert found.schema == expected.schema
        assert repr(found.rows()) == repr(expected.rows())
    else:
        assert (type(found), found.dtype) == (type(expected), expected.dtype)
        assert repr(found.tolist()) == repr(expected.tolist())


def check_table(frame: Any, table: ms.Table) -> None:
    x = table.rows(frame)
    assert x.dtype == torch.float32
    assert x.isfinite().all()
    same(table.frame(x), frame)
    encoded = table.encode(x)
    assert encoded.shape == (len(x), table.width)
    assert encoded.isfinite().all()
    nearest = table.nearest(encoded, torch.rand(x.shape))
    torch.testing.assert_close(table.encode(nearest), encoded, rtol=0, atol=0)


def check_frame(frame: Any, saved: bool = True) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = ms.Table.fit(frame)
    check_table(frame, table)
    if not saved:
        with pytest.raises(ValueError, match="can be written"):
            table.state()
        return
    again, x = through_json(table), table.rows(frame)
    check_table(frame, again)
    assert torch.equal(again.rows(frame), x)
    wild, u = torch.randn(len(x), table.width) * 3, torch.rand(x.shape)
    assert torch.equal(again.nearest(wild, u), table.nearest(wild, u))


@pytest.mark.parametrize("kind", PANDAS)
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_cells_of_pandas_come_back(kind: str, data: st.DataObject) -> None:
    dtype, of, missing = PANDAS[kind]
    drawn = data.draw(cells(of, missing))
    own = pd.Series(drawn, dtype=object).astype(dtype)
    rows = range(len(own))
    frame = pd.DataFrame({"own": own, "other": rows, "more": rows}, index=[*rows][::-1])
    check_frame(frame.reset_index(drop=True), not kind.startswith("arrow"))


@pytest.mark.parametrize("kind", POLARS)
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_cells_of_polars_come_back(kind: str, data: st.DataObject) -> None:
    dtype, of, missing = POLARS[kind]
    own = pl.Series("own", data.draw(cells(of, missing)), dtype=dtype)
    check_frame(pl.DataFrame({"own": own, "other": range(len(own))}))


NUMBERS = (np.random.default_rng(0).normal(size=(9, 3)) * 9).astype("int64")
MIXED = NUMBERS.astype(object)
MIXED[2, 0], MIXED[3, 0] = None, "text"
# Zeros of two signs, missing cells of two kinds, and ones of three are told apart.
ALIKE = pd.DataFrame([[-0.0, None, True], [0.0, np.nan, 1], [1.0, "x", 1.0]], dtype=object)


@pytest.mark.parametrize(
    "rows",
    [
        *map(NUMBERS.astype, ("float32", "float64", "int8", "int64", "uint64", "bool", "M8[s]")),
        NUMBERS[::-1, ::2],
        MIXED,
        *map(torch.tensor(NUMBERS).to, (torch.float32, torch.float64, torch.bfloat16, torch.int32)),
        torch.tensor(NUMBERS) > 0,
        ALIKE.astype({0: float}),
    ],
)
def test_cells_of_arrays_and_tensors_come_back(rows: Any) -> None:
    check_frame(rows)


def test_lists_become_arrays_and_gradients_end() -> None:
    table = ms.Table.fit([[1, "a"], [2, "b"]])
    assert table.frame(table.rows([[2, "a"]])).tolist() == [[2, "a"]]
    grown = torch.ones(4, 3, requires_grad=True) * torch.arange(4)[:, None]
    table = ms.Table.fit(grown)
    assert not table.frame(table.rows(grown)).requires_grad


def named(*names: Any) -> pd.Index:
    return pd.Index(names, dtype=object, tupleize_cols=False)


@pytest.mark.parametrize(
    "names",
    [
        named(0, 1),
        named(("a", 1), ("a", 2)),
        named("", "é 漢"),
        named(None, "x"),
        named(pd.Timestamp(0), True),
        pd.MultiIndex.from_product([["size"], [1, 2]], names=["what", None]),
    ],
)
def test_names_of_any_kind(names: pd.Index) -> None:
    frame = pd.DataFrame([[1, 2.0], [3, None], [5, 1.0]]).set_axis(names, axis=1)
    check_frame(frame)
    table = through_json(ms.Table.fit(frame))
    assert table.names == tuple(map(str, names))
    assert table.frame(torch.zeros(1, 2)).columns.equals(names)


def mixed_frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "number": rng.normal(size=60).round(1),
            "count": rng.integers(0, 5, 60),
            "text": rng.choice([*"abc"], 60),
            "size": pd.Categorical(rng.choice([*"sml"], 60), [*"sml"], ordered=True),
            "flag": rng.random(60) < 0.5,
            "hole": np.where(rng.random(60) < 0.3, np.nan, rng.normal(size=60)),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 99, 60), unit="D"),
        }
    )


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_any_elements_become_the_nearest_cells_of_training(seed: int) -> None:
    frame = mixed_frame()
    table, generator = ms.Table.fit(frame), torch.Generator().manual_seed(seed)
    elements = torch.randn(20, table.width, generator=generator)
    drawn = table.frame(table.nearest(elements, torch.rand(20, 7, generator=generator)))
    assert (drawn.dtypes == frame.dtypes).all()
    for name in frame:
        assert drawn[name].dropna().isin(frame[name]).all()
    # The first element is the number, standardised: an independent search for the nearest one.
    known = np.unique(frame["number"])
    number = elements[:, 0].numpy() * frame["number"].std(ddof=0) + frame["number"].mean()
    nearest = known[np.abs(number[:, None] - known).argmin(1)]
    np.testing.assert_allclose(drawn["number"], nearest, atol=1e-9)
    absent = elements[:, table.elements.index == table.names.index("hole")][:, 1] >= 0.5
    assert drawn["hole"].isna().tolist() == absent.tolist()


@pytest.mark.parametrize("missing", [[None, np.nan, np.nan], [None, None, np.nan]])
def test_of_several_kinds_of_missing_cells_the_most_frequent_is_drawn(missing: list) -> None:
    column = pd.Series([0.5, 2.5, 7.0, *missing], dtype=object)
    frame = pd.DataFrame({"own": column, "other": range(6)})
    table = ms.Table.fit(frame)
    drawn = table.frame(table.nearest(table.encode(table.rows(frame)), torch.zeros(6, 2)))["own"]
    assert repr(drawn.tolist()) == repr([0.5, 2.5, 7.0, *[missing[1]] * 3])


def test_many_categories_are_grouped_and_drawn_by_their_shares() -> None:
    rare = [f"town {k:03}" for k in range(1000)]
    frame = pd.DataFrame({"town": ["Oslo"] * 500 + rare + rare[:100] * 400})
    with pytest.warns(UserWarning, match=r"1001 categories: all but the 99 .* \(4% of the rows\)"):
        table = ms.Table.fit(frame)
    assert table.encodings[0].categories == ("Oslo", *rare[:98], "(other)")
    table.rows(frame.tail(1))  # Without a warning: a grouped town is none that is new.
    other = torch.zeros(20_000, 100)
    other[:, -1] = 1
    u = torch.rand(20_000, 1, generator=torch.Generator().manual_seed(0))
    drawn = table.frame(table.nearest(other, u))["town"]
    # Two of the grouped towns are as frequent as the others are rare.
    counts = frame["town"].value_counts()[[*rare[98:]]]
    assert drawn.isin(counts.index).all()
    share = counts.iloc[:2].sum() / counts.sum()
    assert drawn.isin(rare[98:100]).mean() == pytest.approx(share, abs=4 * (share / 20_000) ** 0.5)


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("%Y-%m-%d", r"to_datetime\(frame\['opened'\], format='%Y-%m-%d'\).*=\['opened'\]\."),
        ("%d.%m.%Y", r"parse_dates=\['opened'\] and date_format='%d\.%m\.%Y'"),
        ("A%m-%d", "as they are.$"),
    ],
)
def test_dates_that_are_text_are_told(form: str, said: str) -> None:
    days = pd.date_range("2015-01-01", periods=300).strftime(form)
    frame = pd.DataFrame({"opened": [*days, *["never"] * 20], "other": range(320)})
    with pytest.warns(UserWarning, match=said):
        ms.Table.fit(frame)


TEXTS = ["10", "9.5", "-1e1", "0"]
DAYS = pd.date_range("1970-01-02", periods=3)
SIZES = pd.Categorical(["m", "s", "l"], ["s", "m", "l"], ordered=True)


@pytest.mark.parametrize(
    ("column", "kind", "categories", "elements"),
    [
        ([20.0, 30, 40, 50], "continuous", (), [[-1.3416], [-0.4472], [0.4472], [1.3416]]),
        ([0, 1, 1], "binary", ("0", "1"), [[0], [1], [1]]),
        ([0.0, 1.0, -0.0], "binary", ("0", "1"), [[0], [1], [0]]),
        (["f", "m"], "binary", ("f", "m"), [[0], [1]]),
        ([True, False], "binary", ("False", "True"), [[1], [0]]),
        (["b", "a", "c"], "categorical", ("a", "b", "c"), [[0, 1, 0], [1, 0, 0], [0, 0, 1]]),
        (pd.Categorical([10, 9, 2]), "categorical", ("10", "2", "9"), np.eye(3)[[0, 2, 1]]),
        ([20, None, 40, 60], "continuous", (), [[-1.2247, 0], [0, 1], [0, 0], [1.2247, 0]]),
        (["f", None, "m"], "categorical", ("f", "m", "(missing)"), np.eye(3)[[0, 2, 1]]),
        ([0, None, 1], "categorical", ("0", "1", "(missing)"), np.eye(3)[[0, 2, 1]]),
        (DAYS, "continuous", (), [[-1.2247], [0], [1.2247]]),
        (SIZES, "ordered", ("s", "m", "l"), [[0], [-1.2247], [1.2247]]),
        (pd.interval_range(0, 3), "continuous", (), [[-1.2247], [0], [1.2247]]),
        (pd.cut([1, 2, 9], [0, 1, 5, 10]), "ordered", None, [[-1.2247], [0], [1.2247]]),
        (TEXTS, "continuous", (), [[0.9321], [0.8710], [-1.5127], [-0.2903]]),
        ([*TEXTS[:3], "none"], "categorical", None, np.eye(4)[[1, 2, 0, 3]]),
        ([Decimal(1), Decimal(2), Decimal(3)], "continuous", (), [[-1.2247], [0], [1.2247]]),
    ],
)
def test_encodings(column: Any, kind: str, categories: Any, elements: Any) -> None:
    frame = pd.DataFrame({"a": column})
    table = ms.Table.fit(frame)
    (encoding,) = table.encodings
    assert encoding.kind == kind
    assert categories in (None, encoding.categories)
    expected = torch.tensor(np.array(elements), dtype=torch.float32)
    torch.testing.assert_close(table.encode(table.rows(frame)), expected, rtol=0, atol=1e-4)


def test_dates_of_any_kind_are_days_since_1970() -> None:
    day = dt.datetime(9999, 1, 1, 12)
    days = (day - dt.datetime(1970, 1, 1)) / dt.timedelta(days=1)
    for late in (day, day.replace(tzinfo=dt.UTC), pd.Period(day, "h"), day.date()):
        column = pd.Series([late, late, None, pd.NaT], dtype=object).infer_objects()
        encoding = ms.Table.fit(pd.DataFrame({"a": column})).encodings[0]
        assert encoding.date
        assert encoding.mean == pytest.approx(days, abs=0.5)


def test_numbers_may_be_categories() -> None:
    frame = pd.DataFrame({"zip": [101, 202, 303, 404, 202], "age": [20, 30, 40, 50, 60]})
    zips, ages = ms.Table.fit(frame, categorical=["zip"]).encodings
    assert (zips.kind, zips.categories) == ("categorical", ("101", "202", "303", "404"))
    assert ages.kind == "continuous"


def test_columns_that_hold_one_value_do_not_play() -> None:
    frame = pd.DataFrame({"a": [1, 2], "one": ["x", "x"], "none": [None, None], "id": [[7], [8]]})
    table = ms.Table.fit(frame, left_out="id")
    assert table.names == ("a",)
    assert table.constants == {"one": "x", "none": None}
    held = frame.assign(id=[[7], [7]])
    same(table.frame(table.rows(frame)), held)
    with pytest.warns(UserWarning, match=r"column 'one' to hold what it did"):
        odd = table.rows(frame.assign(one=["x", "y"]))
    same(table.frame(odd), held)
    same(through_json(ms.Table.fit(frame.drop(columns="id"))).frame(odd), held.drop(columns="id"))


def test_groups_of_columns_are_players() -> None:
    frame = pd.DataFrame({"a": [1, 2, 4], "k": [3, 3, 3], "b": [5, 6, 9], "t": [*"xyz"], "id": 0})
    table = ms.Table.fit(frame, {"size": ["a", "b"], "more": "k"}, left_out=["id"])
    assert table.players.names == ("size", "t")
    assert table.players.index.tolist() == [0, 0, 1]
    assert table.elements.index.tolist() == [0, 0, 1, 1, 1]
    assert [table._player_of(name) for name in "akt"] == ["size", "more", "t"]
    assert through_json(table).players.names == table.players.names
    assert ms.Table.fit(frame, {"k": ["a", "k"]}).players.names == ("k", "b", "t")
    for bad in ({"k": ["a", "b"]}, {"k": ["t"]}, {"id": ["a", "k"]}):
        with pytest.raises(ValueError, match="to have a name that no column outside of it has"):
            ms.Table.fit(frame, bad, left_out=["id"])
    with pytest.raises(ValueError, match=r"one group at most but column 'k' is in 'g' and in 'h'"):
        ms.Table.fit(frame, {"g": ["a", "k"], "h": ["b", "k"]})
    with pytest.raises(ValueError, match=r"the group 'g' among .*'id'"):
        ms.Table.fit(frame, {"g": ["idd"]})
    with pytest.raises(ValueError, match="`left_out` to name columns among"):
        ms.Table.fit(frame, left_out=["age"])


@pytest.mark.parametrize("dtype", [int, bool])
def test_a_group_that_is_always_one_hot_is_one_category(dtype: type) -> None:
    rng = np.random.default_rng(0)
    frame = pd.get_dummies(pd.Series(rng.choice([*"aabc"], 200)), dtype=dtype)
    table = ms.Table.fit(frame.assign(x=rng.normal(size=200)), {"town": [*"abc"], "rest": ["x"]})
    assert table.one_hot == [[0, 1, 2]]
    # A copula draws 0 and 1 of every element: of equal ones, each as often as in training.
    elements = torch.randint(0, 2, (20_000, 4)).float()
    elements[:10_000, :3] = 0
    for again in (table, through_json(table)):
        drawn = again.frame(again.nearest(elements, torch.rand(20_000, 4)))[[*"abc"]]
        assert (drawn.sum(axis=1) == 1).all()
        np.testing.assert_allclose(drawn[:10_000].mean(), frame.mean(), atol=0.03)
        chosen = torch.tensor(drawn[10_000:].to_numpy(int))
        largest = elements[10_000:, :3]
        assert ((chosen * largest).sum(1) == largest.amax(1)).all()
    assert ms.Table.fit(frame.assign(c=0, x=1), {"town": [*"abc"]}).one_hot == []


def test_cells_that_training_had_none_of_reach_the_model() -> None:
    frame = mixed_frame()
    table = ms.Table.fit(frame)
    before = table.rows(frame)
    later = frame.head(3).assign(number=[0.123, np.nan, 7.0], count=[9, 1, 2], text=[*"xya"])
    later.loc[2, "text"] = None
    message = r"'number' holds missing cells; 'text' holds \['x', 'y'\] and missing cells\."
    with pytest.warns(UserWarning, match=message):
        x = table.rows(later)
    same(table.frame(x), later)
    assert torch.equal(table.rows(frame), before)
    encoded = table.encode(x)
    assert encoded[1, 0] == 0
    assert encoded[:2, table.elements.index == table.names.index("text")].eq(0).all()
    first = (0.123 - table.encodings[0].mean) / table.encodings[0].scale
    torch.testing.assert_close(encoded[0, 0].item(), first)
    assert table.nearest(encoded, torch.rand(x.shape))[:, 0].max() < 60
    for again in (copy.deepcopy(table), pickle.loads(pickle.dumps(table)), through_json(table)):
        same(again.frame(x), later)
        assert torch.equal(again.encode(x), encoded)


WIDER: dict[str, Any] = {
    "gap among whole numbers": ([1, 2, 3], [np.nan, 2, 3]),
    "fraction among whole numbers": ([1, 2, 3], [2.5, 2, 3]),
    "gap among yes and no": ([True, False, True], [None, True, False]),
    "double among single": (np.float32([1, 2, 3]), [0.1, 2, 3]),
}


@pytest.mark.parametrize(("trained", "later"), WIDER.values(), ids=WIDER)
def test_new_rows_may_be_wider_than_training(trained: Any, later: Any) -> None:
    frame, new = pd.DataFrame({"a": trained, "b": range(3)}), pd.DataFrame({"a": later, "b": 0})
    table = ms.Table.fit(frame)
    with pytest.warns(UserWarning, match="Cells that training had none of: 'a'") as told:
        x = table.rows(new)
    # What is a number of another kind is taken as it is.
    assert ("average" in str(told[0].message)) == bool(pd.isna(later[0]))
    same(table.frame(x), new)
    # Rows that are as narrow as before stay so.
    same(table.frame(table.rows(frame)), frame)
    same(table.frame(x[1:]), new[1:].astype(frame.dtypes).reset_index(drop=True))
    same(through_json(table).frame(x), new)


def test_threads_share_a_table_whose_codes_never_change() -> None:
    table = ms.Table.fit(pd.DataFrame({"a": [0.0, 1.0, 2.0]}))
    rng = np.random.default_rng(0)
    frames = [pd.DataFrame({"a": rng.integers(0, 500, 50) / 7}) for _ in range(60)]
    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(table.rows, frames))
    for frame, x in zip(frames, codes, strict=True):
        same(table.frame(x), frame)
        assert torch.equal(table.rows(frame), x)


def test_columns_are_matched_by_name_and_cells_by_value() -> None:
    frame = mixed_frame()
    table = ms.Table.fit(frame)
    x = table.rows(frame)
    turned = frame["size"].cat.reorder_categories([*"lms"])
    small = frame["size"] != "l"
    fewer = frame[small].assign(size=frame["size"][small].cat.remove_unused_categories())
    alike: list[tuple[Any, Tensor]] = [
        (frame[[*reversed(frame.columns)]], x),
        (frame.astype({"count": "int8"}), x),
        (frame.astype({"count": float, "text": object}), x),
        (pd.DataFrame([frame.iloc[3]]), x[3:4]),
        (frame.assign(size=turned), x),
        (fewer, x[small.tolist()]),
    ]
    for other, codes in alike:
        assert torch.equal(table.rows(other), codes)
    nothing = frame.head(1).assign(hole=None)
    assert table.frame(table.rows(nothing))["hole"].isna().all()
    polars = pl.DataFrame({"a": [1, 2, None], "b": ["x", "y", None]})
    table = ms.Table.fit(polars)
    cast = polars.cast({"a": pl.Float32, "b": pl.Categorical})
    assert torch.equal(table.rows(cast), table.rows(polars))


DATED = pd.DataFrame({"a": [1.5, 2, 3], "t": [*"xyz"], "c": pd.Categorical([*"uvu"])})
OF_POLARS, OF_ARRAY = pl.DataFrame({"a": [1, 2]}), np.arange(6).reshape(3, 2)


@pytest.mark.parametrize(
    ("trained", "later", "kind", "words"),
    [
        (DATED, DATED.drop(columns="a"), ValueError, r"but \['a'\] are missing; rename"),
        (DATED, DATED.rename(columns={"a": "A"}), ValueError, r"\['a'\] .*there are \['A'\]"),
        (DATED, DATED.to_numpy(), ValueError, r"\['x0', .* besides\); pass a frame of pandas, as"),
        (OF_ARRAY, DATED, ValueError, r"\['x0', 'x1'\] are missing .* pass an array, as"),
        (DATED, DATED.iloc[0], TypeError, r"Series; one row is .*`frame\[:1\]`.*`\.$"),
        (DATED, DATED.assign(a=[*"pqr"]), ValueError, "'a' of dtype float64, .* str"),
        (DATED, DATED.assign(t=[1, 2, 3]), ValueError, "'t' of dtype .* int64"),
        (DATED, DATED.assign(c="w"), ValueError, "'c' of dtype category, .* 'w'"),
        (DATED, DATED.assign(a=-np.inf), ValueError, "'a' but it holds -inf"),
        (DATED, DATED.assign(a=1e300), ValueError, "'a' holds 1e.300, too far from the training"),
        (DATED, pl.from_pandas(DATED), ValueError, "'a' of dtype float64, .* Float64"),
        (DATED, pd.concat([DATED, DATED], axis=1), ValueError, "distinct column names"),
        (OF_POLARS, pl.DataFrame({"a": ["x"]}), ValueError, "'a' of dtype Int64, .* String"),
        (OF_ARRAY, np.zeros((1, 3)), ValueError, "2 columns, .* got 3"),
        (OF_ARRAY, np.zeros((1, 1)), ValueError, "2 columns, .* got 1"),
    ],
)
def test_later_rows_that_do_not_fit(trained: Any, later: Any, kind: type, words: str) -> None:
    table = ms.Table.fit(trained)
    with pytest.raises(kind, match=words):
        table.rows(later)
    same(table.frame(table.rows(trained)), trained)


@pytest.mark.parametrize(
    ("frame", "kind", "words"),
    [
        (pd.DataFrame({"a": [1, np.inf]}), ValueError, "'a' but it holds inf"),
        (pd.DataFrame({"a": [[1], [2]]}), TypeError, "single values in column 'a' .* list"),
        (pl.DataFrame({"a": [[1], [2]]}), TypeError, "single values in column 'a' .* List"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), ValueError, "distinct column names"),
        (pd.DataFrame({1: [1, 2], "1": [1, 2]}), ValueError, "distinct column names"),
        (pd.DataFrame({"a": [1, 1]}), ValueError, r"column that varies but every one .*\['a'\]"),
        ("a.csv", TypeError, "str; one row .*, and the model comes before the frame"),
        (sparse.eye_array(2), TypeError, r"dia_array.*\.toarray\(\)"),
        (pl.DataFrame({"a": []}), ValueError, "column that varies"),
        (pl.LazyFrame({"a": [1]}), TypeError, "LazyFrame"),
        (
            np.zeros(3),
            ValueError,
            r"two axes, \(rows, columns\), but got shape \(3,\); .*x\[None\]",
        ),
        (
            torch.zeros(9, 3, 4, 4),
            ValueError,
            r"\(9, 3, 4, 4\); pictures .*fit_surrogate.*images.md",
        ),
        (np.ma.masked_array(np.eye(2)), TypeError, "but got a masked one; fill"),
        (np.eye(2) * 1j, TypeError, "complex"),
    ],
)
def test_tables_that_cannot_be_numbered(frame: Any, kind: type, words: str) -> None:
    with pytest.raises(kind, match=words):
        ms.Table.fit(frame)


class Colour(enum.Enum):
    RED, BLUE = 1, 2


@pytest.mark.parametrize("cell", [Colour.RED, UUID(int=1), PurePath("a"), b"a"], ids=str)
def test_cells_that_cannot_be_written_are_in_the_way_of_saving_alone(cell: Any) -> None:
    check_frame(pd.DataFrame({"a": [cell, "x", None], "b": [1, 2, 3]}), saved=False)


def test_what_is_written_with_pyarrow_is_read_without(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"a": pd.array(["x", None], pd.StringDtype("pyarrow"))})
    state, _ = ms.Table.fit(frame).state()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    column = ms.Table.restored(state, {}, None).frame(torch.tensor([[0.0], [1.0]]))["a"]
    assert column.dtype == pd.StringDtype("python")
    assert column.isna().tolist() == [False, True]
