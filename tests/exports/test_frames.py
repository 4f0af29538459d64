"""Exported graphs of frames: right for cells that training had none of, in any process."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
import pandas as pd
import pytest
import torch

import manifold_shap as ms
from tests.examples import people
from tests.exports.test_files import onnx_run

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:onnx")
TRAINED = 80
FEW: Any = {"max_epochs": 2, "trainer": {"accelerator": "cpu", "limit_train_batches": 5}}


TABLE = people(120).assign(
    opened=pd.Timestamp("2020-01-01") + pd.to_timedelta(80_000 * np.arange(120), "s"),
    grade=pd.Categorical(list("cba") * 40, list("cba"), True),
)
TABLE.loc[TRAINED + 3, "town"] = "Lima"  # No town of training.


def model(frame: pd.DataFrame) -> np.ndarray:
    """A regression that any cell changes."""
    days = (frame["opened"] - pd.Timestamp("2020-01-01")).dt.total_seconds() / 1e8
    parts = frame["age"] / 50 + frame["income"].fillna(0) + (frame["town"] == "Rome")
    return np.asarray(parts + days * frame["member"] + frame["grade"].cat.codes, dtype=float)


Pair: TypeAlias = tuple[ms.SurrogateValue, ms.AmortizedExplainer]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pair, Pair]:
    """What is exported, after it has numbered other rows, and a copy loaded from its files."""
    folder = tmp_path_factory.mktemp("trained")
    train = TABLE.iloc[:TRAINED]
    value = ms.fit_surrogate(model, train, space="identity", hidden=[16], **FEW)
    explainer = ms.fit_amortized(value, train, hidden=[16], **FEW)
    ms.save(explainer, folder)
    value.rows(TABLE.iloc[110:])
    again = ms.load(folder, model)
    return (value, explainer), (again.value, again)


@pytest.fixture(scope="module")
def files(trained: tuple[Pair, Pair], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The graphs of v and of phi."""
    folder = tmp_path_factory.mktemp("graphs")
    for what, name in zip(trained[0], ("v", "phi"), strict=True):
        what.export(folder / f"{name}.onnx")
    return [folder / "v.onnx", folder / "phi.onnx"]


# In another order than a process has numbered them.
ROWS = {"seen": TABLE.iloc[:20], "new": TABLE.iloc[TRAINED:110][::-1]}


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.filterwarnings("ignore:Cells that training had none of")
def test_graphs_give_the_same_of_cells_that_are_new_whoever_encodes_them(
    kind: str, files: list[Path], trained: tuple[Pair, Pair]
) -> None:
    rows, (v, phi) = ROWS[kind], map(onnx_run, files)
    mask = torch.rand(len(rows), 30, 6, generator=torch.Generator().manual_seed(0)) < 0.6
    mask[:, 0], mask[:, 1] = True, False
    for value, explainer in trained:
        encoded = value.spec.table.encode(value.spec.table.rows(rows))
        given = {"encoded": encoded, "prediction": torch.tensor(model(rows)).float()[:, None]}
        close: Any = {"rtol": 1e-5, "atol": 1e-5}
        expected = value(value.rows(rows), mask).float()
        torch.testing.assert_close(v({**given, "mask": mask}), expected, **close)
        assert expected[:, 2:].std() > 0.01
        torch.testing.assert_close(phi(given), explainer(value.rows(rows)).float(), **close)


def test_a_file_does_not_depend_on_the_rows_that_were_asked_about(
    files: list[Path], trained: tuple[Pair, Pair], tmp_path: Path
) -> None:
    """The copy that was loaded has numbered no row of the others' that the first has."""
    trained[1][0].export(tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == files[0].read_bytes()
    sides = onnx.load(files[0]).graph.input[0].type.tensor_type.shape.dim
    assert [side.dim_value for side in sides] == [0, 10]


def elements(column: Mapping[str, Any], cell: Any) -> Iterator[float]:
    """What docs/other_tools.md says of the elements of a cell."""
    labels, missing = column["categories"], bool(pd.isna(cell))
    if column["kind"] in ("continuous", "ordered"):
        number = labels.index(cell) if column["kind"] == "ordered" else cell
        if column["date"]:
            number = (cell - pd.Timestamp("1970-01-01")) / pd.Timedelta("1D")
        yield 0.0 if missing else (number - column["mean"]) / column["scale"]
        if column["missing"]:
            yield float(missing)
    elif column["kind"] == "binary":
        yield labels.index(str(cell)) if str(cell) in labels else 0.5
    else:
        yield from (float(("(missing)" if missing else str(cell)) == label) for label in labels)


@pytest.mark.filterwarnings("ignore:Cells that training had none of")
def test_a_file_says_how_cells_are_encoded(trained: tuple[Pair, Pair], files: list[Path]) -> None:
    value, _ = trained[1]
    about = {each.key: each.value for each in onnx.load(files[0]).metadata_props}
    columns = json.loads(about["columns"])
    kinds = ["continuous", "continuous", "categorical", "binary", "continuous", "ordered"]
    assert [column["kind"] for column in columns] == kinds
    assert columns[1]["missing"]
    assert columns[4]["date"]
    new = TABLE.iloc[TRAINED:]
    assert new["income"].isna().any()
    assert "Lima" not in columns[2]["categories"]
    own = [
        [each for column in columns for each in elements(column, row[column["name"]])]
        for _, row in new.iterrows()
    ]
    torch.testing.assert_close(
        torch.tensor(own), value.spec.table.encode(value.spec.table.rows(new))
    )
