"""Tables of one's own: settings, what looks wrong in them, and every error."""

import gzip
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from manifold_shap.data import CSV
from manifold_shap.data.base import split_rows
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
            "gap": [None if i == 7 else i for i in rows],
        }
    )
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    return path


def test_csv(table: Path) -> None:
    data = CSV(
        path=str(table), target="bought", categorical=["rooms"], drop=["id", "gap", "always"]
    )
    data.setup()
    assert data.players.names == ("age", "rooms", "colour", "price")
    assert data.classes == ("no", "yes")
    assert labels(data).bincount().tolist() == [20, 20]
    assert data.x_train.shape == (28, 8)
    age = data.schema.decode(data.x_test)["age"].round().astype(int)
    assert torch.equal(torch.tensor((age - 20).to_numpy() % 2), data.y_test)


def test_csv_is_found_under_the_root(table: Path) -> None:
    data = CSV(path=table.name, target="bought", drop=["id", "gap"], root=str(table.parent))
    data.setup()
    assert len(data.players.names) == 5


def test_classes_of_numbers_are_in_numeric_order(table: Path) -> None:
    frame = pd.read_csv(table).assign(grade=[[10, 9, 2][i % 3] for i in range(40)])
    frame.to_csv(table, index=False)
    data = CSV(path=str(table), target="grade", drop=["id", "gap"])
    data.setup()
    assert data.classes == ("2", "9", "10")
    assert labels(data).bincount().tolist() == [13, 13, 14]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "bougth"}, "`target` to name columns .*'bougth'.*; .* mean 'bought'"),
        ({"target": "zzz"}, r"among \['id', 'age', .*\] but got \['zzz'\]\."),
        ({"drop": ["idd"]}, "`drop` to name columns .*'idd'.*; did you mean 'id'"),
        ({"categorical": ["room"]}, "`categorical` to name .* did you mean 'rooms'"),
        ({"target": "always"}, "two classes in the target 'always' but every row holds '1'"),
        ({"drop": ["id"]}, "column 'gap' without missing values but 1 of 40 rows .* first row 7"),
        ({"target": "gap"}, "column 'gap' without missing values but 1 of 40 rows"),
        ({"task": "regression"}, "continuous column 'bought' but 40 of 40 .* first 'no'"),
        ({"task": "regress"}, "`task` to be one of .* did you mean 'regression'"),
        ({"missing": "impute"}, "`missing` to be one of .* got 'impute'"),
        ({"drop": "everything"}, r"`drop` to name columns .* got \['everything'\]"),
        (
            {"target": "price ", "keep": ["ag"]},
            r"2 problems.\n1. .*`target` .* mean 'price' for .*\n2. .*`keep` .* mean 'age'",
        ),
        ({"drop": list("ab")}, r"`drop` .* got \['a', 'b'\]"),
        (
            {"drop": ["id", "age", "rooms", "colour", "price", "always", "gap"]},
            "40 complete rows and 0 features",
        ),
    ],
)
def test_what_a_csv_cannot_mean(table: Path, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CSV(**{"path": str(table), "target": "bought", "drop": ["id", "gap"], **options}).setup()


def test_a_continuous_target(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    pd.DataFrame({"a": range(300), "price": np.arange(300) / 7}).to_csv(path, index=False)
    with pytest.raises(ValueError, match="target 'price' but it holds 300 distinct values"):
        CSV(path=str(path), target="price").setup()


@pytest.mark.parametrize(
    ("column", "options", "message"),
    [
        ({"kind": np.arange(60) / 7}, {"target": "kind"}, "'kind' but 51 of 60 .* first 0.142857"),
        (
            {"kind": [0.5, 1.5] * 30},
            {"target": "kind"},
            "60 of 60 .* looks continuous; set task='regression'",
        ),
        ({"kind": ["NA", *[1, 2] * 30][:60]}, {"target": "kind"}, "'kind' is text .* not 'NA' in"),
        ({"kind": ["0,5", "1,5"] * 30}, {"target": "kind"}, "60 with a decimal comma"),
        ({"day": ["2020-01-02", "2021-03-04"] * 30}, {}, "'day' looks like dates, .*'2020-01-02'"),
        (
            {"row": range(60)},
            {},
            "'row', which looks like a row number, from 0 to 59; leave out by",
        ),
        ({"row": range(60)}, {"keep": ["old"]}, r'keep by .data.keep=\["old", "row"\]. what does'),
        ({"row": range(7, 67)}, {"drop": ["old"]}, r'from 7 to 66; .*data.drop=\["old", "row"\]'),
        ({"Unnamed: 0": 1.0}, {}, r'which has no name, .*data.drop=\["Unnamed: 0"\]'),
        (
            {"code": [f"x{i}" for i in range(60)]},
            {},
            "'code' looks like an identifier: 60 distinct",
        ),
        ({"size": [1, *["2", "NaN"] * 20, *[3] * 19]}, {}, "40 of its 60 values are .* 'NaN' in"),
        ({"size": [*range(59), "None"]}, {}, "59 of its 60 values are numbers, but not 'None' in"),
        ({"size": [f"{i},5" for i in range(60)]}, {}, "60 with a decimal comma, first '0,5' in"),
        ({"size": ["1,5", *[2] * 59]}, {}, "60 of its 60 values look like numbers, 1 with a dec"),
        ({"size": [np.inf, *range(59)]}, {}, "'size' but 1 of 60 .* first inf in row 0"),
    ],
)
def test_columns_that_are_not_what_they_seem(
    tmp_path: Path, column: dict, options: dict, message: str
) -> None:
    path = tmp_path / "table.csv"
    plain = {"old": [i % 7 for i in range(60)], "bought": ["no", "yes", "maybe"] * 20}
    pd.DataFrame({**plain, **column}).to_csv(path, index=False)
    with pytest.raises(ValueError, match=message):
        CSV(**{"path": str(path), "target": "bought", **options}).setup()


def test_columns_that_only_look_odd_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    frame = pd.DataFrame(
        {
            "garage": ["None", "NA", "attached"] * 20,
            "dependents": ["0", "1", "3+"] * 20,
            "ages": ["10-14", "15-19", "may"] * 20,
            "version": ["1.2.3", "1.2.4", "1.2.5"] * 20,
            "minute": [float(i) for i in range(60)],
            "cluster": range(60),
            "bought": [0.0, 1.0] * 30,
        }
    )
    frame.to_csv(path, index=False)
    data = CSV(path=str(path), target="bought", categorical=["version", "cluster"])
    data.setup()
    kinds = {column.name: (column.kind, column.width) for column in data.schema.columns}
    assert data.schema.columns[0].categories == ("NA", "None", "attached")
    assert data.classes == ("0", "1")
    assert kinds == {
        **dict.fromkeys(("garage", "dependents", "ages", "version"), ("categorical", 3)),
        "minute": ("continuous", 1),
        "cluster": ("categorical", 60),
    }


def test_a_class_that_no_training_row_is_of(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    kinds = ["rare", *["a", "b"] * 30]
    pd.DataFrame({"x": np.arange(61) % 7, "kind": kinds}).to_csv(path, index=False)
    shares = {"validation": 0.1, "test": 0.2}
    held_out = {seed: 0 not in split_rows(61, shares, seed)[0] for seed in range(20)}
    assert set(held_out.values()) == {False, True}
    for seed, absent in held_out.items():
        data = CSV(path=str(path), target="kind", seed=seed)
        if absent:
            with pytest.raises(ValueError, match=r"none of the 43 is of \['rare'\]; merge or drop"):
                data.setup()
        else:
            data.setup()


def test_a_column_name_that_occurs_twice(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,b,a,,\n1,2,3,4,5\n")
    with pytest.raises(ValueError, match=r"distinct column names but got \['a'\] more than once"):
        CSV(path=str(path), target="b").setup()


def lines(tmp_path: Path, *rows: str) -> str:
    """A file of these lines."""
    path = tmp_path / "table.csv"
    path.write_text("\n".join(rows))
    return str(path)


@pytest.mark.parametrize(("sign", "word"), [(";", ";"), ("\t", r"\t"), ("|", "|")])
def test_other_separators_and_decimal_commas(tmp_path: Path, sign: str, word: str) -> None:
    rows = [f"{i / 7:.3f}{sign}{i % 3}{sign}{'no' if i % 2 else 'yes'}" for i in range(40)]
    path = lines(tmp_path, f"a{sign}b{sign}c", *(row.replace(".", ",") for row in rows))
    with pytest.raises(ValueError, match=rf"holds '{re.escape(word)}'; set data.separator="):
        CSV(path=path, target="b").setup()
    table = CSV(path=path, target="c", separator=word, decimal=",").read()
    assert table.features["a"].tolist() == pytest.approx([i / 7 for i in range(40)], abs=5e-4)
    assert table.classes == ("no", "yes")


def test_a_file_without_a_header(tmp_path: Path) -> None:
    path = lines(tmp_path, *(f"{i % 5},{i / 3:.2f},{'no' if i % 2 else 'yes'}" for i in range(40)))
    with pytest.raises(ValueError, match=r"row of data: \['0', '0.00', 'yes'\]; set data.header="):
        CSV(path=path, target="yes").setup()
    data = CSV(path=path, target="column 3", header=False)
    data.setup()
    assert data.players.names == ("column 1", "column 2")
    assert len(data.read().features) == 40


def test_names_that_are_numbers_are_names_where_that_is_said(tmp_path: Path) -> None:
    path = lines(tmp_path, "2019,2020,kind", *(f"{i % 5},{i / 3:.2f},k{i % 2}" for i in range(40)))
    with pytest.raises(ValueError, match="looks like a row of data"):
        CSV(path=path, target="kind").setup()
    data = CSV(path=path, target="kind", header=True)
    data.setup()
    assert data.players.names == ("2019", "2020")


@pytest.fixture
def holes(tmp_path: Path) -> str:
    rows = [
        f"{'' if i == 3 else i % 7},{'?' if i % 20 == 4 else 'ab'[i % 2]},{i % 2}"
        for i in range(40)
    ]
    return lines(tmp_path, "number,text,kind", *rows[:-1], "1,a,")


def test_missing_values_are_refused_dropped_or_filled(holes: str) -> None:
    settings: dict[str, Any] = {"path": holes, "target": "kind", "na_values": "?"}
    message = r"3 problems.*'kind' .* 1 of 40.*'number' .* 1 of 40.*'text' .* 2 of 40"
    with pytest.raises(ValueError, match=rf"(?s){message}"):
        CSV(**settings).setup()
    dropped = CSV(**settings, missing="drop_rows").read()
    assert len(dropped.features) == len(dropped.labels) == 36
    with pytest.raises(ValueError, match=r"^Expected column 'kind' without missing"):
        CSV(**settings, missing="fill").setup()
    Path(holes).write_text(Path(holes).read_text() + "1")
    filled = CSV(**settings, missing="fill").read()
    rest = [i % 7 for i in range(39) if i != 3] + [1]
    assert filled.features["number"][3] == np.median(rest)
    assert filled.features["text"][[4, 24]].tolist() == ["(missing)"] * 2
    assert len(filled.features) == 40


def test_a_regression(tmp_path: Path) -> None:
    path = lines(tmp_path, "a,price", *(f"{i * 7 % 11},{i / 4}" for i in range(300)))
    data = CSV(path=path, target="price", task="regression")
    data.setup()
    assert (data.task, data.classes, data.outputs, data.name) == (
        "regression",
        (),
        ("price",),
        "table",
    )
    y = torch.cat([data.y_train, data.y_validation, data.y_test])
    assert y.dtype == torch.float32
    assert y.sort().values.tolist() == [i / 4 for i in range(300)]
    constant = lines(tmp_path, "a,price", *(f"{i * 7 % 11},1.5" for i in range(300)))
    with pytest.raises(ValueError, match=r"numbers in the target 'price' .* every training row"):
        CSV(path=constant, target="price", task="regression").setup()
    large = lines(tmp_path, "a,price", *(f"{i * 7 % 11},{i}e300" for i in range(300)))
    with pytest.raises(
        ValueError, match=r"`price` that fit float32 .* 1e\+300 does not fit float32"
    ):
        CSV(path=large, target="price", task="regression").setup()


def test_every_problem_of_a_table_is_said_at_once(table: Path) -> None:
    frame = pd.read_csv(table).assign(bought=np.arange(40) / 7)
    frame.to_csv(table, index=False)
    with pytest.raises(ValueError, match=r"(?s)3 problems.*'bought'.*'id' looks .*'gap'"):
        CSV(path=str(table), target="bought").setup()


def test_constant_columns_are_kept(tmp_path: Path) -> None:
    path = lines(tmp_path, "a,b,c,d", *(f"x,7,{i % 5},{i % 2}" for i in range(40)))
    data = CSV(path=path, target="d")
    data.setup()
    assert data.players.names == ("a", "b", "c")
    assert data.x_train[:, :2].unique(dim=0).tolist() == [[1, 0]]


def test_a_table_with_very_many_columns_is_refused_in_few_words(tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(20_000)]
    path = lines(tmp_path, ",".join(names), *(",".join("01"[i % 2] * 20_000) for i in range(3)))
    with pytest.raises(ValueError, match="'c19'\\] and 19980 more but got \\['c20x'\\]") as caught:
        CSV(path=path, target="c20x", header=True).setup()
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "content", [b"", b"a,b\n1,2\n3,4,5\n", b"\xff\xfe\x00"], ids=["empty", "ragged", "binary"]
)
def test_a_file_that_is_no_table(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"table of values separated by ',' in .*\.csv but could"):
        CSV(path=str(path), target="b").setup()


def test_no_such_csv(nowhere: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"'mine.csv' .* nor is there one at /.*mine.csv"):
        CSV(path="mine.csv", target="b").setup()


def test_packed_files_quotes_and_marks_of_the_encoding(tmp_path: Path) -> None:
    path = tmp_path / "table.csv.gz"
    rows = "".join(f'"{i % 5}","{"xy"[i % 2]}, z"\n' for i in range(40))
    path.write_bytes(gzip.compress(f'\ufeff"size, cm",kind\n{rows}'.encode()))
    table = CSV(path=str(path), target="kind").read()
    assert list(table.features) == ["size, cm"]
    assert table.classes == ("x, z", "y, z")


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"separator": ", "}, "`separator` to be one character but got ', '"),
        ({"decimal": "ab"}, "`decimal` to be one character but got 'ab'"),
    ],
)
def test_signs_are_one_character(settings: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        CSV(path="a.csv", target="b", **settings)
