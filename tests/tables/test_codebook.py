"""Codebook: every cell of every kind of frame comes back, and codes mean what the schema says."""

import copy
import datetime as dt
import json
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from manifold_shap.tables.codebook import Codebook
from manifold_shap.tables.schema import Schema

moments = st.datetimes(dt.datetime(1800, 1, 1), dt.datetime(2200, 1, 1))
texts = st.text(max_size=4)
floats = st.floats(-1e6, 1e6)
small = st.floats(-8, 8, width=16)
durations = st.timedeltas(dt.timedelta(-9999), dt.timedelta(9999))
decimals = st.decimals(-999, 999, places=2)
whole = st.integers(-(2**63), 2**63 - 1)


def arrow(kind: pa.DataType) -> pd.ArrowDtype:
    return pd.ArrowDtype(kind)


# Of each dtype of pandas: cells, and what may be missing.
PANDAS: dict[str, tuple[Any, st.SearchStrategy, list]] = {
    "int64": ("int64", whole, []),
    "uint64": ("uint64", st.integers(0, 2**64 - 1), []),
    "float64": ("float64", floats, [np.nan]),
    "bool": ("bool", st.booleans(), []),
    "Int64": ("Int64", whole, [pd.NA]),
    "Float32": ("Float32", small, [pd.NA]),
    "boolean": ("boolean", st.booleans(), [pd.NA]),
    "string python": (pd.StringDtype("python"), texts, [pd.NA]),
    "str": (pd.StringDtype(na_value=np.nan), texts, [np.nan]),
    "object text": (object, texts, [None, np.nan, pd.NA]),
    "mixed": (object, st.one_of(texts, st.booleans(), st.integers(0, 2), small), [None, np.nan]),
    "date": (object, st.dates(dt.date(1800, 1, 1), dt.date(2200, 1, 1)), [None, pd.NaT]),
    "datetime object": (object, moments.map(lambda m: m.replace(tzinfo=dt.UTC, fold=0)), [None]),
    "time": (object, st.times().map(lambda t: t.replace(fold=0)), [None]),
    "Decimal": (object, decimals, [None]),
    "category of text": (pd.CategoricalDtype([*"dbca"]), st.sampled_from("abcd"), [np.nan]),
    "ordered": (pd.CategoricalDtype([*"dbca"], True), st.sampled_from("abcd"), [np.nan]),
    "datetime64[ns]": ("datetime64[ns]", moments, [pd.NaT]),
    "datetime64[us, Oslo]": (
        "datetime64[us, Europe/Oslo]",
        moments.map(lambda m: m.replace(tzinfo=dt.UTC)),
        [pd.NaT],
    ),
    "timedelta64[us]": ("timedelta64[us]", durations, [pd.NaT]),
    "period": ("period[M]", moments.map(lambda m: pd.Period(m, "M")), [pd.NaT]),
    "arrow text": (arrow(pa.string()), texts, [pd.NA]),
    "arrow decimal": (arrow(pa.decimal128(9, 2)), decimals, [pd.NA]),
    "arrow timestamp": (arrow(pa.timestamp("us")), moments, [pd.NA]),
}
POLARS: dict[str, tuple[Any, st.SearchStrategy, list]] = {
    "Int64": (pl.Int64, whole, [None]),
    "UInt64": (pl.UInt64, st.integers(0, 2**64 - 1), [None]),
    "Float32": (pl.Float32, st.floats(-1e6, 1e6, width=32), [None, float("nan")]),
    "Float64": (pl.Float64, floats, [None, float("nan")]),
    "Decimal": (pl.Decimal(10, 2), decimals, [None]),
    "Boolean": (pl.Boolean, st.booleans(), [None]),
    "String": (pl.String, texts, [None]),
    "Categorical": (pl.Categorical, texts, [None]),
    "Enum": (pl.Enum([*"dbca"]), st.sampled_from("abcd"), [None]),
    "Date": (pl.Date, st.dates(dt.date(1800, 1, 1), dt.date(2200, 1, 1)), [None]),
    "Datetime ns": (pl.Datetime("ns"), moments, [None]),
    "Datetime zone": (pl.Datetime("us", "Europe/Oslo"), moments, [None]),
    "Time": (pl.Time, st.times(), [None]),
    "Null": (pl.Null, st.none(), [None]),
}
ARRAYS = ("float32", "float64", "int8", "int64", "uint64", "bool", "M8[s]")


def cells(draw: st.DrawFn, of: st.SearchStrategy, missing: list, rows: int) -> list:
    every = st.one_of(of, st.sampled_from(missing)) if missing else of
    return draw(st.lists(every, min_size=rows, max_size=rows))


@st.composite
def pandas_frames(draw: st.DrawFn, kind: str) -> pd.DataFrame:
    dtype, of, missing = PANDAS[kind]
    rows = draw(st.integers(1, 9))
    own = pd.Series(cells(draw, of, missing, rows), dtype=object).astype(dtype)
    return pd.DataFrame({"own": own, "other": range(rows), "more": range(rows, 0, -1)})


@st.composite
def polars_frames(draw: st.DrawFn, kind: str) -> pl.DataFrame:
    dtype, of, missing = POLARS[kind]
    rows = draw(st.integers(2, 9))
    own = pl.Series("own", cells(draw, of, missing, rows), dtype=dtype)
    return pl.DataFrame({"own": own, "other": range(rows)})


def fitted(frame: Any, **settings: Any) -> Codebook:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Codebook.fit(frame, **settings)


def through_json(codebook: Codebook) -> Codebook:
    return Codebook.from_dict(json.loads(json.dumps(codebook.to_dict())))


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
        assert type(found) is type(expected)
        assert found.dtype == expected.dtype
        assert repr(found.tolist()) == repr(expected.tolist())


def check_codebook(frame: Any, codebook: Codebook) -> None:
    x = codebook.rows(frame)
    assert x.dtype == torch.float32
    assert x.isfinite().all()
    same(codebook.frame(x), frame)
    encoded = codebook.encode(x)
    assert encoded.shape == (len(x), codebook.schema.width)
    assert encoded.isfinite().all()
    nearest = codebook.nearest(encoded, torch.rand(x.shape))
    torch.testing.assert_close(codebook.encode(nearest), encoded, rtol=0, atol=0)


def check_frame(frame: Any) -> None:
    codebook = fitted(frame)
    check_codebook(frame, codebook)
    again = through_json(codebook)
    check_codebook(frame, again)
    x = codebook.rows(frame)
    assert torch.equal(again.rows(frame), x)
    assert torch.equal(again.encode(x), codebook.encode(x))
    assert again.decode(x).equals(codebook.decode(x))
    u = torch.rand(x.shape)
    wild = torch.randn(len(x), codebook.schema.width) * 3
    assert torch.equal(again.nearest(wild, u), codebook.nearest(wild, u))
    less, few = codebook.only(x[:1])
    same(few.frame(less), codebook.frame(x[:1]))
    same(through_json(few).frame(less), codebook.frame(x[:1]))
    assert torch.equal(few.encode(less), codebook.encode(x[:1]))


@pytest.mark.parametrize("kind", PANDAS)
@settings(max_examples=5)
@given(data=st.data())
def test_cells_of_pandas_come_back(kind: str, data: st.DataObject) -> None:
    frame = data.draw(pandas_frames(kind))
    if len(frame) > 1 and kind.startswith("arrow"):
        check_codebook(frame, fitted(frame))
    elif len(frame) > 1:
        check_frame(frame)
    else:
        with pytest.raises(ValueError, match="at least one column that varies"):
            Codebook.fit(frame)


LATE = [dt.datetime(2300, 1, 1), dt.datetime(9999, 1, 1, 12), None]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([moment and moment.date() for moment in LATE], dtype=object),
        pd.Series([moment and moment.replace(tzinfo=dt.UTC) for moment in LATE], dtype=object),
        pd.Series([pd.Period("2300-01-01", "h"), pd.Period("9999-01-01 12:00", "h"), pd.NaT]),
    ],
    ids=["date", "datetime of a zone", "period"],
)
def test_dates_beyond_the_nanoseconds_of_pandas(column: pd.Series) -> None:
    frame = pd.DataFrame({"own": column, "other": range(3)})
    check_frame(frame)
    codebook = fitted(frame)
    found = codebook.schema.decode(codebook.encode(codebook.rows(frame)))["own"]
    assert found[:2].dt.date.tolist() == [moment.date() for moment in LATE[:2] if moment]
    assert found.isna().tolist() == [False, False, True]


@pytest.mark.parametrize("dtype", [object, pd.StringDtype("python"), pd.StringDtype("pyarrow")])
def test_texts_that_differ_behind_a_null_character_are_two(dtype: Any) -> None:
    cells = pd.Series(["a", "a\0", "", "\0", "a"], dtype=dtype)
    frame = pd.DataFrame({"own": cells, "other": range(5)})
    check_frame(frame)
    assert len(fitted(frame).schema.columns[0].categories) == 4


@pytest.mark.parametrize("kind", POLARS)
@settings(max_examples=5)
@given(data=st.data())
def test_cells_of_polars_come_back(kind: str, data: st.DataObject) -> None:
    check_frame(data.draw(polars_frames(kind)))


@pytest.mark.parametrize("dtype", ARRAYS)
def test_cells_of_arrays_come_back(dtype: str) -> None:
    array = (np.random.default_rng(0).normal(size=(9, 3)) * 9).astype("int64").astype(dtype)
    check_frame(array)
    check_frame(array[::-1, ::2])
    mixed = array.astype(object)
    mixed[2, 0], mixed[3, 0] = None, "text"
    check_frame(mixed)
    codebook = Codebook.fit([[1, "a"], [2, "b"]])
    assert codebook.frame(codebook.rows([[2, "a"]])).tolist() == [[2, "a"]]


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.bool]
)
def test_cells_of_tensors_come_back(dtype: torch.dtype) -> None:
    rows = torch.arange(12).reshape(4, 3).to(dtype) if dtype != torch.bool else torch.eye(3) > 0
    check_frame(rows)
    grown = torch.ones(4, 3, requires_grad=True) * torch.arange(3)[:, None].repeat(2, 1)[:4]
    assert not Codebook.fit(grown).frame(Codebook.fit(grown).rows(grown)).requires_grad


def test_zeros_of_two_signs_and_missing_cells_of_two_kinds_are_told_apart() -> None:
    frame = pd.DataFrame({"a": [-0.0, 0.0, 1.0], "b": [None, np.nan, "x"]})
    codebook = Codebook.fit(frame)
    x = codebook.rows(frame)
    assert len(x.unique(dim=0)) == 3
    encoded = codebook.encode(x)
    assert torch.equal(encoded[0], encoded[1])
    same(codebook.frame(x), frame)


@pytest.mark.parametrize(
    "names", [[0, 1], [("a", 1), ("a", 2)], ["", "é 漢"], [None, "x"], [pd.Timestamp(0), True]]
)
def test_names_of_any_kind(names: list) -> None:
    frame = pd.DataFrame([[1, 2.0], [3, None], [5, 1.0]])
    frame.columns = pd.Index(names, dtype=object, tupleize_cols=False)
    check_frame(frame)
    assert Codebook.fit(frame).names == tuple(map(str, names))


def test_a_header_of_several_levels() -> None:
    header = pd.MultiIndex.from_product([["size", "weight"], [1, 2]], names=["what", None])
    frame = pd.DataFrame([[1, 2, 3, 4.0], [5, 6, 7, None]], columns=header)
    check_frame(frame)
    assert through_json(Codebook.fit(frame)).frame(torch.zeros(1, 4)).columns.equals(header)


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


def test_encoding_is_that_of_the_schema() -> None:
    for frame in (mixed_frame(), pl.from_pandas(mixed_frame())):
        codebook = Codebook.fit(frame)
        assert codebook.schema == Schema.fit(frame)
        assert torch.equal(codebook.encode(codebook.rows(frame)), codebook.schema.encode(frame))


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_any_elements_become_the_nearest_values_of_training(seed: int) -> None:
    frame = mixed_frame()
    codebook, generator = Codebook.fit(frame), torch.Generator().manual_seed(seed)
    elements = torch.randn(20, codebook.schema.width, generator=generator)
    codes = codebook.nearest(elements, torch.rand(20, 7, generator=generator))
    drawn = codebook.frame(codes)
    assert (drawn.dtypes == frame.dtypes).all()
    for name in frame:
        assert drawn[name].dropna().isin(frame[name]).all()
    # The first element is the number, standardised: an independent search for the nearest one.
    known = np.unique(frame["number"])
    number = elements[:, 0].numpy() * frame["number"].std(ddof=0) + frame["number"].mean()
    nearest = known[np.abs(number[:, None] - known).argmin(1)]
    np.testing.assert_allclose(drawn["number"], nearest, atol=1e-9)
    absent = elements[:, codebook.elements.index == codebook.names.index("hole")][:, 1] >= 0.5
    assert drawn["hole"].isna().tolist() == absent.tolist()


def test_many_categories_are_grouped_and_drawn_by_their_shares() -> None:
    rare = [f"town {k}" for k in range(50_000)]
    frame = pd.DataFrame({"town": ["Oslo"] * 500 + rare + rare[:100] * 400})
    with pytest.warns(UserWarning, match="50001 categories: all but the 99 most frequent"):
        codebook = Codebook.fit(frame)
    x = codebook.rows(frame)
    same(codebook.frame(x), frame)
    assert codebook.schema.width == 100
    other = torch.zeros(20_000, 100)
    other[:, -1] = 1
    u = torch.rand(20_000, 1, generator=torch.Generator().manual_seed(0))
    drawn = codebook.frame(codebook.nearest(other, u))["town"]
    counts = frame["town"].value_counts()
    grouped = counts[~counts.index.isin(codebook.schema.columns[0].categories)]
    assert drawn.isin(grouped.index).all()
    # Two of the grouped towns are as frequent as the others are rare.
    often = grouped.index[grouped == grouped.max()]
    share = grouped[often].sum() / grouped.sum()
    assert drawn.isin(often).mean() == pytest.approx(share, abs=4 * (share / 20_000) ** 0.5)


def test_columns_that_hold_one_value_do_not_play() -> None:
    frame = pd.DataFrame({"a": [1, 2], "one": ["x", "x"], "none": [None, None], "id": [7, 8]})
    codebook = Codebook.fit(frame, left_out=["id"])
    assert codebook.names == ("a",)
    assert codebook.constants == {"one": "x", "none": None}
    held = frame.assign(id=7)
    same(codebook.frame(codebook.rows(frame)), held)
    same(through_json(codebook).frame(codebook.rows(frame)), held)
    with pytest.warns(UserWarning, match=r"columns \['one'\] to hold what they did"):
        odd = codebook.rows(frame.assign(one=["x", "y"]))
    same(codebook.frame(odd), held)
    whole = codebook.with_constants()
    assert whole.names == ("a", "one", "none")
    assert whole.decode(torch.zeros(1, 3)).values.tolist() == [[1, "x", None]]


def test_numbers_may_be_categories() -> None:
    frame = pd.DataFrame({"zip": [101, 202, 303, 404, 202], "age": [20, 30, 40, 50, 60]})
    codebook = Codebook.fit(frame, categorical=["zip"])
    zips, ages = codebook.schema.columns
    assert (zips.kind, zips.categories) == ("categorical", ("101", "202", "303", "404"))
    assert ages.kind == "continuous"
    same(codebook.frame(codebook.rows(frame)), frame)
    assert codebook.encode(codebook.rows(frame))[:, :4].argmax(1).tolist() == [0, 1, 2, 3, 1]
    with pytest.raises(ValueError, match=r"`categorical` to name columns .*'zpi'"):
        Codebook.fit(frame, categorical=["zpi"])


def test_groups_are_players_and_may_have_constant_columns() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [1, 2], "k": 7, "t": "x", "id": 5})
    groups = {"g": ["k", "a"], "t": ["t"], "id": ["id"]}
    codebook = Codebook.fit(frame, groups, left_out=["id"])
    for own in (codebook, through_json(codebook)):
        assert own.players.names == ("g", "b")
        assert own.elements.index.tolist() == [0, 1]
        whole = own.with_constants()
        assert whole.names == ("a", "b", "k", "t")
        assert whole.players.names == ("g", "b", "t")
        assert whole.players.index.tolist() == [0, 1, 0, 2]
    assert Codebook.fit(frame, {"k": ["a", "k"]}).players.names == ("k", "b")
    for bad in ({"k": ["a", "b"]}, {"k": ["t"]}, {"id": ["a", "k"]}):
        with pytest.raises(ValueError, match="to have a name that no column outside of it has"):
            Codebook.fit(frame, bad, left_out=["id"])
    with pytest.raises(ValueError, match=r"one group at most but column 'k' is in 'g' and in 'h'"):
        Codebook.fit(frame, {"g": ["a", "k"], "h": ["b", "k"]})
    with pytest.raises(ValueError, match=r"the group 'g' among .*'id'"):
        Codebook.fit(frame, {"g": ["idd"]})
    with pytest.raises(ValueError, match="`left_out` to name columns among"):
        Codebook.fit(frame, left_out=["age"])


def test_values_that_training_had_none_of_reach_the_model() -> None:
    frame = mixed_frame()
    codebook = Codebook.fit(frame)
    before = codebook.rows(frame)
    later = frame.head(3).assign(number=[0.123, np.nan, 7.0], count=[9, 1, 2], text=[*"xya"])
    message = (
        r"'number' holds \['missing'\]; 'text' holds \['x', 'y'\]. The model sees them as they are"
    )
    with pytest.warns(UserWarning, match=message):
        x = codebook.rows(later)
    same(codebook.frame(x), later)
    assert torch.equal(codebook.rows(frame), before)
    assert codebook.encode(x)[1, 0] == 0
    place = codebook.schema.players.index == codebook.names.index("text")
    assert codebook.encode(x)[:2, place].eq(0).all()
    scale = codebook.schema.columns[0].scale
    mean = codebook.schema.columns[0].mean
    torch.testing.assert_close(codebook.encode(x)[0, 0].item(), (0.123 - mean) / scale)
    assert codebook.nearest(codebook.encode(x), torch.rand(x.shape))[:, 0].max() < 60
    for again in (copy.deepcopy(codebook), pickle.loads(pickle.dumps(codebook))):
        same(again.frame(x), later)
    kept = through_json(codebook)
    same(kept.frame(x), later)
    assert torch.equal(kept.encode(x), codebook.encode(x))


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(-30, 30), min_size=1, max_size=40), min_size=1, max_size=9))
def test_codes_never_change(batches: list[list[int]]) -> None:
    codebook = Codebook.fit(pd.DataFrame({"a": [3, 1, 2]}))
    met = {1: 0.0, 2: 1.0, 3: 2.0}
    for batch in [*batches, *batches]:
        codes = codebook.rows(pd.DataFrame({"a": batch})).flatten().tolist()
        for number, code in zip(batch, codes, strict=True):
            assert met.setdefault(number, code) == code
    assert sorted(met.values()) == list(range(len(met)))


def test_threads_share_a_codebook() -> None:
    codebook = Codebook.fit(pd.DataFrame({"a": [0.0, 1.0, 2.0]}))
    rng = np.random.default_rng(0)
    frames = [pd.DataFrame({"a": rng.integers(0, 500, 50) / 7}) for _ in range(60)]

    def there_and_back(frame: pd.DataFrame) -> bool:
        x = codebook.rows(frame)
        return codebook.frame(x).equals(frame) and bool(codebook.encode(x).isfinite().all())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(there_and_back, frames))


def test_columns_are_matched_by_name_and_cells_by_value() -> None:
    frame = mixed_frame()
    codebook = Codebook.fit(frame)
    x = codebook.rows(frame)
    assert torch.equal(codebook.rows(frame[[*reversed(frame.columns)]]), x)
    assert torch.equal(codebook.rows(frame.astype({"count": "int8"})), x)
    assert torch.equal(codebook.rows(frame.astype({"count": float, "text": object})), x)
    assert torch.equal(codebook.rows(pd.DataFrame([frame.iloc[3]])), x[3:4])
    turned = frame["size"].cat.reorder_categories([*"lms"])
    assert torch.equal(codebook.rows(frame.assign(size=turned)), x)
    fewer = frame[frame["size"] != "l"]
    fewer = fewer.assign(size=fewer["size"].cat.remove_unused_categories())
    assert torch.equal(codebook.rows(fewer), x[(frame["size"] != "l").tolist()])
    nothing = frame.head(1).assign(hole=None)
    assert codebook.frame(codebook.rows(nothing))["hole"].isna().all()
    polars = pl.DataFrame({"a": [1, 2, None], "b": ["x", "y", None]})
    codebook = Codebook.fit(polars)
    cast = polars.cast({"a": pl.Float32, "b": pl.Categorical})
    assert torch.equal(codebook.rows(cast), codebook.rows(polars))


DATED = pd.DataFrame({"a": [1.5, 2, 3], "t": [*"xyz"], "c": pd.Categorical([*"uvu"])})


@pytest.mark.parametrize(
    ("later", "kind", "message"),
    [
        (DATED.drop(columns="a"), ValueError, r"but the frame lacks \['a'\]; give it"),
        (DATED.assign(b=1), ValueError, r"but the frame has also \['b'\]; give it"),
        (DATED.assign(a=[*"pqr"]), ValueError, "column 'a' of dtype float64, .* but got"),
        (DATED.assign(t=[1, 2, 3]), ValueError, "column 't' of dtype .* but got int64"),
        (DATED.assign(c="w"), ValueError, r"'c' holds 'w', which is none .* \['u', 'v'\]"),
        (DATED.assign(a=-np.inf), ValueError, "'a' but it holds -inf; correct"),
        (pl.from_pandas(DATED), TypeError, "frame of pandas, .* but got polars.DataFrame"),
        (pd.concat([DATED, DATED], axis=1), ValueError, "distinct column names but got"),
    ],
)
def test_later_frames_that_do_not_fit(later: Any, kind: type, message: str) -> None:
    with pytest.raises(kind, match=message):
        Codebook.fit(DATED).rows(later)


@pytest.mark.parametrize(
    ("later", "kind", "message"),
    [
        (pl.DataFrame({"a": ["x"]}), ValueError, "column 'a' of dtype Int64, .* but got String"),
        (pl.DataFrame({"a": [1.5]}), ValueError, "column 'a' of dtype Int64, .* but got Float64"),
        (pd.DataFrame({"a": [1]}), TypeError, "a frame of polars, .* but got pandas.DataFrame"),
    ],
)
def test_later_frames_that_do_not_fit_polars(later: Any, kind: type, message: str) -> None:
    with pytest.raises(kind, match=message):
        Codebook.fit(pl.DataFrame({"a": [1, 2]})).rows(later)


def test_later_arrays_that_do_not_fit() -> None:
    codebook = Codebook.fit(np.arange(6).reshape(3, 2))
    with pytest.raises(ValueError, match="rows of 2 columns, as in training, but got shape"):
        codebook.rows(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="of dtype int64, as in training, but got float64"):
        codebook.rows(np.zeros((1, 2)))
    with pytest.raises(TypeError, match=r"an array, a tensor .* but got DataFrame"):
        codebook.rows(pd.DataFrame({"x0": [1], "x1": [2]}))


zoned = [pd.Timestamp("2020-01-01", tz="UTC"), pd.Timestamp("2020-01-01", tz="Asia/Tokyo")]


@pytest.mark.parametrize(
    ("frame", "kind", "message"),
    [
        (pd.DataFrame({"a": [1, np.inf]}), ValueError, "'a' but it holds inf; correct"),
        (pd.DataFrame({"a": [[1], [2]]}), TypeError, "single values in column 'a' .* holds list"),
        (pl.DataFrame({"a": [[1], [2]]}), TypeError, "single values in column 'a' .* List"),
        (pd.DataFrame({"a": zoned}, dtype=object), ValueError, "one time zone in column 'a'"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), ValueError, "distinct column names"),
        (pd.DataFrame({1: [1, 2], "1": [1, 2]}), ValueError, "distinct column names"),
        (pd.DataFrame({"a": [1, 1]}), ValueError, r"column that varies but every one .*\['a'\]"),
        (pd.DataFrame({"a": [1]}), ValueError, r"column that varies but every one .*\['a'\]"),
        ("a.csv", TypeError, r"but got str; .*`pandas.read_csv"),
        ({"a": [1, 2]}, TypeError, r"but got dict; `pandas.DataFrame"),
        (pd.Series([1, 2]), TypeError, r"but got Series"),
        (pl.DataFrame({"a": []}), ValueError, "rows and columns but got 0 rows and 1 columns"),
        (pl.LazyFrame({"a": [1]}), TypeError, r"but got LazyFrame"),
        (np.zeros(3), ValueError, r"two axes, \(rows, columns\), but got shape \(3,\)"),
        (np.ma.masked_array(np.eye(2)), TypeError, "but got a masked one; fill"),
        (np.eye(2) * 1j, TypeError, "real numbers in column 'x0'"),
    ],
)
def test_tables_that_cannot_be_numbered(frame: Any, kind: type, message: str) -> None:
    with pytest.raises(kind, match=message):
        Codebook.fit(frame)


def test_what_cannot_be_written_is_said() -> None:
    class Own:
        def __repr__(self) -> str:
            return "Own()"

    codebook = Codebook.fit(pd.DataFrame({"a": [Own(), "x"]}))
    with pytest.raises(ValueError, match=r"cells that can be written .* got Own\(\) \(Own\)"):
        codebook.to_dict()
    moments = pd.Series([dt.datetime(2020, 1, k, tzinfo=ZoneInfo("Asia/Tokyo")) for k in (1, 2, 3)])
    for cells in (
        pd.array([pd.Interval(0, 1)] * 2 + [None]),
        pd.Series([*"xyz"], dtype=arrow(pa.string())),
        moments.astype(object),
        pd.Series([np.float32(1), np.float32(2), "x"], dtype=object),
    ):
        frame = pd.DataFrame({"a": [1, 2, 3]}).assign(b=cells)
        with pytest.raises(ValueError, match="can be written"):
            Codebook.fit(frame).to_dict()
