"""Published tables: their figures, and the copies of OpenML."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.utils import Bunch
from torch import Tensor

from manifold_shap.data import (
    Abalone,
    Bike,
    Census,
    Diabetes,
    Drug,
    Iris,
    TensorDataModule,
    sources,
)

PARTS = ("train", "validation", "test")


def labels(data: TensorDataModule) -> Tensor:
    return torch.cat([getattr(data, f"y_{part}") for part in PARTS])


@pytest.mark.parametrize(
    ("source", "relative", "rows", "counts", "width", "players", "continuous_columns"),
    [
        (Iris, None, 150, [50, 50, 50], 4, 4, 4),
        (Drug, "drug", 1885, [1069, 816], 10, 10, 0),
        (Abalone, "abalone", 4177, [2096, 2081], 10, 8, 7),
        (Census, "census", 48842, [37155, 11687], 106, 13, 5),
        (Diabetes, None, 442, None, 10, 10, 9),
        (Bike, "bike", 731, None, 6, 6, 6),
    ],
)
def test_tables_have_their_published_figures(
    local: Callable[[str], str],
    source: type,
    relative: str | None,
    rows: int,
    counts: list[int] | None,
    width: int,
    players: int,
    continuous_columns: int,
) -> None:
    data = source(root=local(relative) if relative else None)
    data.setup()
    assert sum(len(getattr(data, f"x_{part}")) for part in PARTS) == rows
    if counts is not None:
        assert labels(data).bincount().tolist() == counts
        assert (data.task, data.outputs) == ("classification", data.classes)
    assert labels(data).dtype == (torch.float32 if counts is None else torch.int64)
    assert data.x_train.shape[1:] == data.players.index.shape == (players,)
    assert (len(data.players.names), data.table.width) == (players, width)
    columns = enumerate(data.table.encodings)
    own = [k for k, encoding in columns if encoding.kind == "continuous"]
    chosen = torch.isin(data.table.elements.index, torch.tensor(own)).numpy()
    assert chosen.sum() == continuous_columns
    x = data.table.encode(data.x_train).double().numpy()[:, chosen]
    np.testing.assert_allclose(x.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(x.std(0), 1, atol=1e-5)


def test_irises_have_the_names_of_their_species() -> None:
    table = Iris().read()
    species = [table.classes[label] for label in table.labels.tolist()]
    lengths = table.features["petal length (cm)"].groupby(species).mean().to_dict()
    # Fisher (1936), Table II.
    assert lengths == pytest.approx({"setosa": 1.462, "versicolor": 4.260, "virginica": 5.552})


def test_census_keeps_the_publishers_test_rows(local: Callable[[str], str]) -> None:
    data = Census(root=local("census"))
    data.setup()
    assert (len(data.x_train), len(data.x_validation), len(data.x_test)) == (29305, 3256, 16281)
    assert data.y_test.bincount().tolist() == [12435, 3846]
    kinds = {column.name: column for column in data.table.encodings}
    assert "fnlwgt" not in kinds
    assert "?" in kinds["workclass"].categories
    assert kinds["sex"].categories == ("Female", "Male")
    first = data.table.decode(data.x_test[:1]).iloc[0]
    assert (first["education"], round(first["age"])) == ("11th", 25)


def published(columns: list[str], rows: list[list], target: str) -> Bunch:
    return Bunch(frame=pd.DataFrame(rows, columns=columns).astype({target: "category"}))


def test_abalone_of_openml(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [f"V{i}" for i in range(8)] + ["Class_number_of_rings"]
    rows = [["MFI"[i % 3], *[i / 10 + j for j in range(7)], str(i)] for i in range(20)]
    bunch = published(columns, rows, "Class_number_of_rings")
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *_, **__: bunch)
    data = Abalone()
    data.setup()
    assert data.players.names[4] == "Whole weight"
    assert labels(data).bincount().tolist() == [10, 10]


def test_census_of_openml(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [f"V{i}" for i in range(14)] + ["class"]
    words = [["a", None, "c"][i % 3] for i in range(30)]
    row = [[i, words[i], 7, "x" if i % 2 else "y", i % 5] for i in range(30)]
    text = [["p" if i % 4 else "q"] * 5 for i in range(30)]
    tail = [[i % 7, i % 3, i, words[i], [">50K", "<=50K"][i % 2]] for i in range(30)]
    rows = [a + b + c for a, b, c in zip(row, text, tail, strict=True)]
    frame = published(columns, rows, "class").frame.astype({"V1": "category"})
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *_, **__: Bunch(frame=frame))
    data = Census(test=0.3)
    data.setup()
    assert len(data.x_test) == 9
    assert data.table.encodings[1].categories == ("?", "a", "c")
    assert labels(data).bincount().tolist() == [15, 15]


def test_bicycles_are_read_from_the_archive_of_their_publisher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(sources.VARIABLE, str(tmp_path))
    monkeypatch.setattr(sources, "cache", lambda: tmp_path / "cache")
    (tmp_path / "bike").mkdir()
    with zipfile.ZipFile(tmp_path / "bike" / "Bike-Sharing-Dataset.zip", "w") as parts:
        columns = "dteday,temp,hum,windspeed,cnt"
        parts.writestr("day.csv", f"{columns}\r\n2011-01-01,0.5,0.5,0,985\r\n")
    table = Bike().read()
    assert table.labels.tolist() == [985]
    assert table.features["temp"].tolist() == [15.5]
