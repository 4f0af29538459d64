"""Rows are read block by block from Parquet files and zarr arrays, wherever they are."""

import sys
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import zarr
from zarr.storage import FsspecStore

import manifold_shap as ms
from manifold_shap.io.reading import TableRows
from tests.io.test_streaming import ROWS, contents, run

FRAME = pd.DataFrame(ROWS.numpy(), columns=list("abcd")).assign(
    name=[f"row {k}" for k in range(22)]
)
NUMBERS = list("abcd")


def put(frame: Any, url: str, **settings: Any) -> None:
    """Write a frame to a Parquet file at a path or a URL."""
    with fsspec.open(url, "wb", auto_mkdir=True) as file:
        table = frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame)
        pq.write_table(table, file, **settings)


@pytest.fixture
def parts(folder: str) -> str:
    """The URL of a folder with three Parquet files of two row groups each, and something else."""
    for number, start in enumerate((0, 9, 18)):
        put(FRAME[start : start + 9], f"{folder}/in/part-{number}.parquet", row_group_size=5)
    put(FRAME * 2, f"{folder}/in/_old.parquet")
    fsspec.open(f"{folder}/in/_SUCCESS", "wb").open().close()
    return f"{folder}/in"


@pytest.mark.parametrize("block", [1, 4, 8, 22])
def test_rows_of_a_folder_are_those_of_the_frame(parts: str, block: int) -> None:
    rows = ms.read_rows(parts, columns=NUMBERS, labels="name")
    assert (len(rows), rows.labels) == (22, list(FRAME.name))
    found = [rows[start : start + block] for start in range(0, 22, block)]
    assert all(len(frame) == block for frame in found[:-1])
    pd.testing.assert_frame_equal(pd.concat(found, ignore_index=True), FRAME[NUMBERS])
    assert len(rows[3:3]) == 0
    assert "22 rows, columns ['a', 'b', 'c', 'd']" in repr(rows)


def test_a_row_group_is_read_once_by_blocks_that_follow_each_other(
    parts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, read = ms.read_rows(parts, columns=NUMBERS), list[int]()
    usual = TableRows._group

    def group(self: TableRows, number: int) -> Any:
        if self._last[0] != number:
            read.append(number)
        return usual(self, number)

    monkeypatch.setattr(TableRows, "_group", group)
    for start in range(0, 22, 2):
        rows[start : start + 2]
    assert read == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("as_text", [True, False])
def test_rows_in_files_are_explained_as_the_frame_is(
    tmp_path: Path, parts: str, as_text: bool
) -> None:
    frame = FRAME[NUMBERS].set_index(FRAME.name)
    run(tmp_path / "frame.zarr", x=frame)
    x = ms.read_rows(parts, columns=NUMBERS, labels="name")
    if as_text:
        put(FRAME[NUMBERS], f"{parts}/numbers/rows.parquet")
        run(tmp_path / "rows.zarr", x=f"{parts}/numbers/*.parquet", instances=FRAME.name)
    else:
        run(tmp_path / "rows.zarr", x=x)
    assert contents(tmp_path / "rows.zarr") == contents(tmp_path / "frame.zarr")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_with_text_are_encoded_by_the_value_function(tmp_path: Path, library: str) -> None:
    table = pd.DataFrame({"age": [20, 30, 40, 50] * 5, "town": [*"abcb"] * 5})
    frame = table if library == "pandas" else pl.from_pandas(table)
    codebook = ms.Codebook.fit(frame)
    model = ms.as_model(_score, codebook, returns="values")
    imputer = ms.table_imputer(ms.MarginalImputer, codebook, frame)
    value = ms.imputed_value(model, imputer, "identity", draws=2)
    put(table.assign(key=range(100, 120)), f"{tmp_path}/rows.parquet", row_group_size=7)
    x = ms.read_rows(tmp_path / "rows.parquet", labels="key", library=library)
    run(tmp_path / "rows.zarr", value=value, x=x)
    run(tmp_path / "frame.zarr", value=value, x=frame, instances=range(100, 120))
    assert contents(tmp_path / "rows.zarr") == contents(tmp_path / "frame.zarr")


def _score(frame: Any) -> np.ndarray:
    return (np.asarray(frame["age"], float) * (np.asarray(frame["town"]) == "b"))[:, None]


def test_columns_may_have_more_than_one_type(tmp_path: Path) -> None:
    """Whole numbers of one file are fractions in another, and a column may be empty in one."""
    put(pa.table({"a": [1, 2], "c": pa.nulls(2)}), f"{tmp_path}/0.parquet")
    put(pa.table({"a": [0.5, None], "c": ["x", None]}), f"{tmp_path}/1.parquet")
    table = ms.read_rows(tmp_path, library="pyarrow")[:]
    assert table.to_pydict() == {"a": [1, 2, 0.5, None], "c": [None, None, "x", None]}
    put(pa.table({"a": ["x"], "c": ["y"]}), f"{tmp_path}/2.parquet")
    with pytest.raises(ValueError, match=r"same columns at .* cannot be read: .*a.*string"):
        ms.read_rows(tmp_path)


def test_categories_of_several_files_are_joined(tmp_path: Path) -> None:
    for number, town in enumerate(("ab", "bc")):
        frame = pd.DataFrame({"town": pd.Categorical([*town])})
        put(frame, f"{tmp_path}/{number}.parquet")
    assert ms.read_rows(tmp_path)[:].town.tolist() == ["a", "b", "b", "c"]


def test_folders_by_value_are_a_column(tmp_path: Path) -> None:
    for year in (2023, 2024):
        put(FRAME[["a"]][:2], f"{tmp_path}/year={year}/rows.parquet")
    assert ms.read_rows(tmp_path)[:].year.tolist() == [2023, 2023, 2024, 2024]


def test_an_index_of_pandas_is_no_column(tmp_path: Path) -> None:
    put(FRAME.set_index("name"), f"{tmp_path}/rows.parquet")
    rows = ms.read_rows(tmp_path / "rows.parquet")
    assert rows.columns == tuple(NUMBERS)
    assert list(rows[4:6].index) == [0, 1]
    assert ms.read_rows(tmp_path, labels="name").labels == list(FRAME.name)
    assert ms.read_rows(tmp_path, columns=["name"])[:1].name.tolist() == ["row 0"]


def test_results_may_be_rows(tmp_path: Path, folder: str) -> None:
    """Of a result that was replaced, those of the manifest and no others."""
    for rows in (ROWS, ROWS[:3]):
        run(f"{folder}/phi.parquet", x=rows)
    run(tmp_path / "phi.parquet", x=ROWS[:3])
    far, near = (ms.read_rows(f"{where}/phi.parquet") for where in (folder, tmp_path))
    pd.testing.assert_frame_equal(far[:], near[:])
    assert len(far) == 3


# Arrays.


def test_an_array_is_read_by_its_url(tmp_path: Path, folder: str) -> None:
    store = FsspecStore.from_url(f"{folder}/rows.zarr")
    zarr.create_array(store, data=ROWS.numpy(), chunks=(5, 4))
    zarr.create_array(tmp_path / "in.zarr", data=ROWS.numpy())
    assert np.array_equal(ms.read_rows(f"{folder}/rows.zarr")[3:7], ROWS[3:7])
    for name, x in (("far", f"{folder}/rows.zarr"), ("near", tmp_path / "in.zarr"), ("here", ROWS)):
        run(tmp_path / name, x=x)
    assert contents(tmp_path / "far") == contents(tmp_path / "near") == contents(tmp_path / "here")


def test_a_group_is_no_array_but_may_hold_one(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "group.zarr", mode="w")
    group.create_array("rows", data=ROWS.numpy())
    with pytest.raises(ValueError, match=r"is a group of \['rows'\]; name .*group.zarr/rows'"):
        ms.read_rows(tmp_path / "group.zarr")
    assert torch.equal(torch.tensor(ms.read_rows(tmp_path / "group.zarr/rows")[:]), ROWS)
    with pytest.raises(ValueError, match=r"a zarr array; leave them out"):
        ms.read_rows(tmp_path / "group.zarr/rows", labels="name")


# Errors.


def test_nothing_is_told(folder: str, tmp_path: Path) -> None:
    for path in (f"{folder}/none", f"{folder}/*.parquet", tmp_path, tmp_path / "none.parquet"):
        with pytest.raises(FileNotFoundError, match=r"Expected rows at .* none are there"):
            ms.read_rows(path)


def test_columns_that_are_missing_are_named_with_the_file(tmp_path: Path) -> None:
    put(FRAME, f"{tmp_path}/0.parquet")
    put(FRAME.drop(columns="b"), f"{tmp_path}/1.parquet")
    for settings in ({}, {"columns": ["a", "b"]}, {"labels": "b"}):
        with pytest.raises(
            ValueError, match=r"columns \['b'\] in every .*1\.parquet has \['a', 'c"
        ):
            ms.read_rows(tmp_path, **settings)


def test_a_file_that_is_no_parquet_is_told(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"Parquet files .*rows.parquet"):
        ms.read_rows(tmp_path)
    with pytest.raises(ValueError, match=r"`library` to be one of .* got 'panda'; did you mean"):
        ms.read_rows(tmp_path, library="panda")


def test_a_missing_package_is_told_with_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(FRAME[NUMBERS], f"{tmp_path}/rows.parquet")
    for name in ("pyarrow", "pyarrow.dataset", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"`pip install 'manifold_shap\[tables\]'`"):
        ms.read_rows(tmp_path)
    with pytest.raises(ImportError, match=r"`pip install 'manifold_shap\[tables\]'`"):
        run(tmp_path / "phi.parquet")
