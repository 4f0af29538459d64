"""Files of one's own: what is found by itself, what is wrong with them, and what repairs that."""

import gzip
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from benchmarks.speed import troubles
from manifold_shap.data import TableReader
from manifold_shap.data.findings import TableError, typed
from manifold_shap.data.reading import ReadTable
from tests.cli.commands import composed

Read = Callable[..., ReadTable]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads lines of text, or bytes, of which the column `y` is the target."""

    def read(content: Iterable[str] | bytes, **how: Any) -> ReadTable:
        path = tmp_path / "table.csv"
        path.write_bytes(content if isinstance(content, bytes) else "\n".join(content).encode())
        return TableReader(**{"path": str(path), "target": "y", **how}).read()

    return read


def cells(column: Iterable[Any], name: str = "x") -> list[str]:
    """Lines of a table of a column, and of a target."""
    return [f"{name};y", *(f"{cell};{'no' if i % 2 else 'yes'}" for i, cell in enumerate(column))]


@pytest.mark.parametrize("sign", [";", "\t", "|", ","])
def test_separators_and_decimal_commas_are_found(read: Read, sign: str) -> None:
    numbers = [f"{i / 7:.4f}" for i in range(40)]
    written = [number.replace(".", ",") for number in numbers] if sign != "," else numbers
    lines = (f"{number}{sign}{i}{sign}k{i % 2}" for i, number in enumerate(written))
    table = read([f"a{sign}b{sign}y", *lines])
    assert table.frame["a"].tolist() == [float(number) for number in numbers]
    assert table.frame["y"].tolist() == ["k0", "k1"] * 20


def test_separators_that_are_said_are_used(read: Read) -> None:
    assert list(read(["a b y", *["1 2 u", "1 3 v"] * 9], separator=" ").frame) == ["a", "b", "y"]
    with pytest.raises(TableError, match=r"one column if '\|' .* data.separator=tab separates"):
        read(["a\ty", *["1\tu", "2\tv"] * 9], separator="|")
    quoted = ['"size, cm",y', *('"1,5",u', '"2,5",v') * 9]
    assert read(quoted).frame["size, cm"].tolist() == [1.5, 2.5] * 9


def test_a_missing_header_is_found(read: Read) -> None:
    lines = [f"{i % 5},{i / 3:.2f},{'no' if i % 2 else 'yes'}" for i in range(40)]
    table = read(lines, target="column 3")
    assert list(table.frame) == ["column 1", "column 2", "column 3"]
    assert len(table.frame) == 40
    assert "no line of names" in table.about
    with pytest.raises(TableError, match=r"'0.00', 'yes'\], looks .* data.header=true takes it"):
        read(lines, target="yes")
    assert list(read(lines, target="yes", header=True).frame) == ["0", "0.00", "yes"]


@pytest.mark.parametrize("first", ["2019,2020,y", "0,1,y", "7,3.5,y"])
def test_names_that_are_numbers_are_names(read: Read, first: str) -> None:
    lines = [first, *(f"{i % 5},{i / 3:.2f},k{i % 2}" for i in range(40))]
    assert list(read(lines).frame) == first.split(",")


def test_row_names_as_r_writes_them(read: Read) -> None:
    table = read(["a,y", *(f"r{i},{i},{'no' if i % 2 else 'yes'}" for i in range(30))], keep=["a"])
    assert list(table.frame) == ["Unnamed: 0", "a", "y"]
    assert table.identifiers == ("Unnamed: 0",)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings_are_found(read: Read, encoding: str) -> None:
    table = read("\n".join(cells(["José", "Zoë"] * 20, "name")).encode(encoding))
    assert table.frame["name"].tolist() == ["José", "Zoë"] * 20
    assert not table.remarks


def test_lines_in_another_encoding_are_read_and_named(read: Read) -> None:
    lines = [line.encode() for line in cells(["José", "Zoë"] * 20)]
    lines[4] = lines[4].decode().encode("latin-1")
    table = read(b"\n".join(lines))
    assert table.frame["x"].tolist() == ["José", "Zoë"] * 20
    assert any("Lines [5] are not in UTF-8" in remark for remark in table.remarks)
    with pytest.raises(TableError, match="not in the encoding ascii"):
        read(b"\n".join(lines), encoding="ascii")
    greek = "\n".join(cells(["α", "β"] * 20)).encode("iso8859-7")
    assert read(greek, encoding="iso8859-7").frame["x"].tolist() == ["α", "β"] * 20


def test_packed_files(tmp_path: Path) -> None:
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress("\n".join(cells(["a", "b"] * 10)).encode()))
    assert len(TableReader(path=str(path), target="y").read().frame) == 20


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_parquet_and_feather(tmp_path: Path, kind: str) -> None:
    frame = pd.DataFrame(
        {
            "day": pd.date_range("2020-01-01", periods=20),
            "kind": pd.Categorical(["a", "b"] * 10),
            "number": pd.array([1, None] * 10, dtype="Int64"),
            "y": [0, 1] * 10,
        }
    )
    path = tmp_path / f"table.{kind}"
    getattr(frame, f"to_{kind}")(path)
    table = TableReader(path=str(path), target="y").read()
    pd.testing.assert_frame_equal(table.frame, frame)
    frame.assign(lists=[[1, 2]] * 20).to_parquet(path)
    with pytest.raises(TableError, match=r"'lists' holds .*data.drop=\[lists\] leaves it out"):
        TableReader(path=str(path), target="y").read()


def test_objects_in_a_parquet_file(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "day": [date(2020, 1, 1), None] * 10,
            "cost": [Decimal("1.50"), Decimal("2.25")] * 10,
            "flag": [True, None] * 10,
            "y": [0, 1] * 10,
        }
    )
    path = tmp_path / "table.parquet"
    frame.to_parquet(path)
    found = TableReader(path=str(path), target="y").read().frame
    assert found["day"].tolist()[:1] == [pd.Timestamp("2020-01-01")]
    assert found["day"].isna().tolist() == [False, True] * 10
    assert found["cost"].tolist() == frame["cost"].tolist()
    assert found["flag"].tolist() == frame["flag"].tolist()


def test_parquet_needs_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.parquet"
    path.write_bytes(b"PAR1")

    def absent(*_: Any) -> None:
        raise ImportError("no pyarrow")

    monkeypatch.setattr(pd, "read_parquet", absent)
    with pytest.raises(ImportError, match=r"Expected pyarrow.*pip install 'manifold_shap\[tables"):
        TableReader(path=str(path), target="y").read()


@pytest.mark.parametrize(
    ("column", "read_as", "remark"),
    [
        (["1", "2", "NA"], [1, 2, None], "holds numbers, and ['NA'] for missing ones"),
        (["1.5", "?", "7"], [1.5, None, 7], "and ['?'] for missing ones"),
        (["1.234,5", "2,25", "3"], [1234.5, 2.25, 3], ""),
        (["1,234.5", "2", "3"], [1234.5, 2, 3], ""),
        (["2020-01-02", "2021-03-04", ""], [datetime(2020, 1, 2), datetime(2021, 3, 4), None], ""),
        (["31/1/2021", "1/2/2021"], [datetime(2021, 1, 31), datetime(2021, 2, 1)], ""),
        (["1/31/2021", "2/1/21"], [datetime(2021, 1, 31), datetime(2021, 2, 1)], ""),
        (["3 March 2021", "4 May 1999"], [datetime(2021, 3, 3), datetime(1999, 5, 4)], ""),
        (["2021-03-01 10:30", "n/a"], [datetime(2021, 3, 1, 10, 30), None], "['n/a'] for missing"),
        (["None", "NA", "attached"], ["None", "NA", "attached"], ""),
        (["10-14", "15-19", "may"], ["10-14", "15-19", "may"], ""),
        (["1.2.3", "1.2.4", "1.2.5"], ["1.2.3", "1.2.4", "1.2.5"], ""),
        (["0", "1", "3+"], ["0", "1", "3+"], "read as 3 categories, of which '3+' is no number"),
    ],
)
def test_what_columns_are_read_as(
    read: Read, column: list[str], read_as: list[Any], remark: str
) -> None:
    table = read(cells(column * 8))
    found = table.frame["x"].astype(object).where(table.frame["x"].notna(), None).tolist()
    assert found == read_as * 8
    assert len(table.remarks) == bool(remark)
    assert remark in " ".join(table.remarks)


@pytest.mark.parametrize(
    ("column", "problem", "repair"),
    [
        ([*range(40), "abc"], r"numbers, but other text in 2 of 82 .*'abc'\]", "na_values=[abc]"),
        ([*range(40), *"abcdef"], "other text in 12 of 92 rows", "categorical=[x]"),
        (["1,5", "1.5", *range(20)], "a decimal comma and with a point: '1,5'", 'decimal=","'),
        ([*range(20), "inf", "-inf"], "infinite numbers in 4 rows", 'na_values=["inf"]'),
        (["[1, 2]", "[3]"] * 9, "holds lists, such as", "drop=[x]"),
        (["{'a': 2}", "{}"] * 9, "holds lists, such as", "drop=[x]"),
        (["1/2/2021", "3/4/2021"] * 9, "none or both orders", "day_first=true"),
        (["1/31/2021", "31/1/2021"] * 9, "none or both orders", "day_first=true"),
        (["2021-01-31", "31/1/2021"] * 9, "dates of several forms", "dates=[x]"),
        (["2021-01-31 10:00Z", "2021-01-31 10:00"] * 9, "dates of several forms", "dates=[x]"),
        ([*["2021-01-31", "2021-02-03"] * 9, "soon"], "other text in 2 of 38", "na_values=[soon]"),
    ],
)
def test_problems_of_a_column_name_the_setting_that_repairs_them(
    read: Read, column: list[Any], problem: str, repair: str
) -> None:
    lines = cells([*column, *column], "x")
    lines = [f"{line};{i % 3}" if i else f"{line};z" for i, line in enumerate(lines)]
    with pytest.raises(TableError, match=rf"^1 problem with table.csv.\n1\. .*{problem}") as caught:
        read(lines)
    assert f"data.{repair}" in str(caught.value)
    read(lines, **parsed(f"data.{repair}"))


def test_a_comma_that_may_separate_thousands(read: Read) -> None:
    lines = ["x\ty", *(f"{1 + i % 9},{100 + i}\t{i % 2}" for i in range(40))]
    with pytest.raises(TableError, match="'1,100', with a decimal comma or a separator of"):
        read(lines)
    assert read(lines, decimal=",").frame["x"][0] == 1.1
    assert read(lines, decimal=".").frame["x"][0] == 1100
    assert read([*lines, "1,5\t0"]).frame["x"][0] == 1.1


def parsed(*words: str) -> dict[str, Any]:
    """Settings of data as the command line takes them."""
    own = composed("train", "data=table", "data.path=t.csv", *words).data
    named = [word.split("=")[0].removeprefix("data.") for word in words]
    return {name: OmegaConf.to_container(own)[name] for name in named}


def test_dates_are_read_cell_by_cell_where_that_is_said(read: Read) -> None:
    column = ["2021-01-31", "31/1/2021", "31 January 2021", "2021-01-31 02:00+02:00"]
    table = read(cells(column * 5), dates=["x"])
    assert set(table.frame["x"]) == {pd.Timestamp("2021-01-31", tz="UTC")}
    zones = ["2021-01-31 02:00+02:00", "2021-01-31 01:00+01:00"]
    table = read(cells(zones * 9))
    assert set(table.frame["x"]) == {pd.Timestamp("2021-01-31", tz="UTC")}
    assert "several time zones, read as UTC" in table.remarks[0]
    with pytest.raises(TableError, match=r"holds dates, but other text in 18 of 18 rows"):
        read(cells(["a", "b"] * 9), dates=["x"])


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.datetimes(datetime(1970, 1, 1), datetime(2068, 12, 31)), min_size=20, max_size=30),
    st.sampled_from(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%d.%m.%Y %H:%M", "%d/%m/%y", "%d %B %Y"]),
)
def test_dates_come_back(tmp_path_factory: pytest.TempPathFactory, days: list, form: str) -> None:
    path = tmp_path_factory.mktemp("dates") / "table.csv"
    written = [day.strftime(form) for day in days]
    path.write_text("\n".join(cells(written)))
    found = TableReader(path=str(path), target="y", day_first=True).read().frame["x"]
    assert found.tolist() == [datetime.strptime(text, form) for text in written]


def test_missing_cells_are_values_or_their_rows_left_out(read: Read) -> None:
    lines = [
        "a,y",
        *(f"{'' if i % 5 == 0 else i % 3},{'' if i == 7 else i % 2}" for i in range(40)),
    ]
    with pytest.raises(TableError, match=r"1 of 40 rows lacks the target 'y'; .*=drop_unlabelled"):
        read(lines)
    table = read(lines, missing="drop_unlabelled")
    assert (len(table.frame), table.frame["a"].isna().sum()) == (39, 8)
    assert "1 row lacks the target 'y', and is left out." in table.remarks
    assert len(read(lines, missing="drop_rows").frame) == 31
    assert read(lines, na_values=["2"], missing="drop_unlabelled").frame["a"].isna().sum() == 18


def test_ragged_lines_are_named_or_left_out(read: Read) -> None:
    lines = cells(range(0, 60, 2))
    lines[3], lines[9] = "1;2;3", "7"
    with pytest.raises(TableError, match=r"2 lines have another .* \[4, 10\]; data.bad_lines=skip"):
        read(lines)
    table = read(lines, bad_lines="skip")
    assert len(table.frame) == 28
    assert "2 lines" in table.remarks[0]
    # What an export writes above a table goes with them.
    assert len(read(["made today", *cells(range(0, 60, 2))], bad_lines="skip").frame) == 30


def test_names_that_occur_twice(read: Read) -> None:
    lines = ["a,b,a,y", *(f"{i % 3},{i % 4},{i % 5},{i % 2}" for i in range(20))]
    with pytest.raises(TableError, match=r"'a' occurs twice .*'data.keep=\[\"a.1\"\]' keeps it"):
        read(lines)
    assert list(read(lines, keep=["a.1"]).frame) == ["a", "b", "a.1", "y"]
    assert list(read(lines, drop=["a.1"]).frame) == ["a", "b", "y"]
    same = ["a,b,a,y", *(f"{i % 3},{i % 4},{i % 3},{i % 2}" for i in range(20))]
    assert list(read(same).frame) == ["a", "b", "y"]


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ({"target": "yy"}, r"no column is called 'yy', as data.target says, .* did you mean 'y'\?"),
        ({"drop": ["idd"]}, "'idd', as data.drop says, .* did you mean 'id'"),
        ({"keep": "zzz"}, "'zzz', as data.keep says"),
        ({"categorical": ["word "]}, "did you mean 'word'"),
        ({"dates": ["da"]}, "did you mean 'day'"),
        (
            {"target": "same"},
            "the target 'same' holds '1' in every row; set data.target to",
        ),
        ({"target": "nothing"}, "the target 'nothing' holds nothing"),
        ({"target": "id"}, "'id' holds 300 distinct values, .* data.task=regression predicts"),
        ({"target": "half"}, "holds fractions, .* such as 0.5; data.task=regression predicts"),
        ({"target": "word"}, "'word' holds 300 distinct values, .* set data.target to another"),
        ({"task": "regression"}, "'y' holds no numbers, but 'k0'; data.task=classification takes"),
    ],
)
def test_settings_that_do_not_fit_the_table(read: Read, how: dict[str, Any], problem: str) -> None:
    rows = (f"{i},1,{i % 2 / 2},w{i},2020-01-{1 + i % 30:02d},,k{i % 2}" for i in range(300))
    with pytest.raises(TableError, match=rf"(?i){problem}"):
        read(["id,same,half,word,day,nothing,y", *rows], **how)


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"task": "regress"}, "`task` to be one of .* did you mean 'regression'"),
        ({"missing": "fill"}, "`missing` to be one of .* got 'fill'"),
        ({"bad_lines": "warn"}, "`bad_lines` to be one of"),
        ({"separator": ", "}, "`separator` to be one character but got ', '"),
        ({"decimal": "ab"}, "`decimal` to be one character but got 'ab'"),
    ],
)
def test_settings_that_no_table_could_fit(how: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        TableReader(path="a.csv", **how)


def test_remarks_tell_of_constants_identifiers_and_many_categories(read: Read) -> None:
    rows = (f"{i},n{i},{i % 150}c,1,{i % 2}" for i in range(600))
    table = read(["row,name,town,same,y", *rows])
    assert table.identifiers == ("row", "name")
    said = " ".join(table.remarks)
    assert "'row', which numbers the rows from 0 to 599" in said
    assert "'name', which holds 600 texts in 600 rows; data.keep=[row,name]" in said
    assert "'town' holds 150 categories" in said
    assert "['same'] hold one value in all rows" in said
    kept = read(["row,name,town,same,y", *(f"{i},n{i},t,1,{i % 2}" for i in range(40))], keep="row")
    assert kept.identifiers == ("name",)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "it is empty"),
        (b"\n\n", "it is empty"),
        (b"x,y\n1,0", "it has 1 rows, which are too few"),
        (b"\xff\xfe\x00", "not in the encoding utf-16"),
        (b"PK\x03\x04\x00\x00", "it is no text"),
        (b'x,y\n"1,0\n' + b"1,0\n" * 50_000, r"cannot be read \(field larger"),
    ],
)
def test_files_that_hold_no_table(read: Read, content: bytes, problem: str) -> None:
    with pytest.raises(TableError, match=rf"(?i){problem}"):
        read(content)


def test_no_such_file(nowhere: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"'mine.csv' .* nor is there one at /.*mine.csv"):
        TableReader(path="mine.csv").read()
    path = str(nowhere / "mine.csv")
    with pytest.raises(FileNotFoundError) as raised:
        TableReader(path=path).read()
    assert str(raised.value) == f"Expected the file {path!r} but there is none; correct `path`."


def test_a_file_that_has_changed_is_read_again(read: Read) -> None:
    first = read(cells("abc" * 5))
    assert read(cells("abc" * 5)).frame.equals(first.frame)
    assert len(read(cells("abc" * 6)).frame) == 18


def test_very_many_columns_are_named_in_few_words(read: Read) -> None:
    names = ",".join(f"c{i}" for i in range(5_000))
    with pytest.raises(TableError, match=r"and 4980 more; did you mean 'c20'") as caught:
        read([names, *[",".join("01"[i % 2] * 5_000) for i in range(12)]], target="c20x")
    assert len(str(caught.value)) < 1000


def test_what_is_offered_repairs_a_file_with_every_kind_of_trouble(tmp_path: Path) -> None:
    path = tmp_path / "troubles.csv"
    troubles.write(path, rows=3000)
    with pytest.raises(TableError) as caught:
        TableReader(path=str(path), target="class").read()
    lines = str(caught.value).splitlines()
    assert lines[0] == "11 problems with troubles.csv."
    (offered,) = [line for line in lines if line.startswith("All of these settings: ")]
    words = shlex.split(offered.partition(": ")[2])
    table = TableReader(
        path=str(path), target="label", **parsed(*words, "data.missing=drop_unlabelled")
    ).read()
    assert "decimal comma" in table.about
    assert len(table.frame) == 2998 - 30


def test_problems_are_said_before_torch_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "troubles.csv"
    troubles.write(path, rows=2000)
    code = """
import sys
from manifold_shap.cli import main_train
try:
    main_train()
finally:
    assert not {"torch", "lightning", "sklearn", "matplotlib"} & set(sys.modules)
"""
    words = ["data=table", f"data.path={path}", "data.target=class", f"runs_dir={tmp_path}/runs"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("11 problems with troubles.csv.\n1. ")
    assert re.search(r"\n11\. .*\nAll of these settings: data", done.stderr)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("value", [["id", "a b", 'say "x"', "3", "true"], True, ",", "it's"])
def test_settings_are_typed_as_the_command_line_reads_them(value: Any) -> None:
    name = "drop" if isinstance(value, list) else "header" if value is True else "encoding"
    (word,) = shlex.split(typed(name, value))
    assert parsed(word) == {name: value}


def test_a_plain_table_is_read_as_pandas_reads_it(tmp_path: Path) -> None:
    """A model that was trained on a frame of `pandas.read_csv` meets the same frame here."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "number": rng.normal(size=50) * 1e-7,
            "whole": rng.integers(0, 9, 50),
            "gap": [None, 1.0] * 25,
            "flag": [True, False] * 25,
            "text": [*"ab"] * 25,
            "y": [0, 1] * 25,
        }
    )
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    found = TableReader(path=str(path), target="y").read().frame
    pd.testing.assert_frame_equal(found, pd.read_csv(path), check_exact=True)
