"""Every kind of model takes every kind of table as it is: 24 explanations by the front door."""

from collections.abc import Callable
from typing import Any, NamedTuple

import catboost
import lightgbm
import narwhals as nw
import numpy as np
import onnxruntime
import pandas as pd
import polars as pl
import pytest
import skl2onnx
import torch
import xgboost
from skl2onnx.common import data_types
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.tree import DecisionTreeClassifier
from torch import nn

import manifold_shap as ms
from manifold_shap import candidates

ROWS = 80
TOWNS = ("Oslo", "Rome", "Zürich")
NUMBERS = ("size", "rooms", "garden")


def houses() -> pd.DataFrame:
    """Numbers with gaps, whole numbers, flags, text, ordered grades, dates."""
    rng = np.random.default_rng(0)
    size = rng.normal(100, 30, ROWS).round(1)
    rooms = (size / 30).astype(int) + rng.integers(0, 2, ROWS)
    grades = ["poor", "fair", "good"]
    return pd.DataFrame(
        {
            "size": np.where(rng.random(ROWS) < 0.1, np.nan, size),
            "rooms": rooms,
            "garden": rng.random(ROWS) < size / 200,
            "town": rng.choice(TOWNS, ROWS),
            "grade": pd.Categorical(rng.choice(grades, ROWS), grades, ordered=True),
            "built": pd.Timestamp("1990-01-01") + pd.to_timedelta(rng.integers(0, 9000, ROWS), "D"),
        },
        index=[f"house {k}" for k in range(ROWS)],
    )


def price(frame: pd.DataFrame) -> Any:
    return (frame["rooms"] + 2 * frame["garden"] + (frame["town"] == "Rome")).to_numpy(float)


class Trained(NamedTuple):
    """A model, and what its own library says of the rows of a table.

    Attributes:
        model: as the user has it.
        predict: gives outputs `[rows, outputs]` for the table, in the model's own way.
    """

    model: Any
    predict: Callable[[Any], Any]


class Network(nn.Module):
    """Takes missing numbers as they are."""

    def __init__(self, width: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x.nan_to_num(100.0) / 100)


def to_pandas(table: Any) -> Any:
    return table.to_pandas() if isinstance(table, pl.DataFrame) else table


def native(table: Any) -> Any:
    """The table with categories in the place of text, as boosted trees take them."""
    if isinstance(table, pl.DataFrame):
        return table.with_columns(pl.col("town").cast(pl.Categorical))
    return table if isinstance(table, np.ndarray) else table.astype({"town": "category"})


def classifier(table: Any, y: Any) -> Trained:
    model = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype")
    model.fit(table, y > np.median(y))
    return Trained(model, model.predict_proba)


def regressor(table: Any, y: Any) -> Trained:
    model = RandomForestRegressor(5, random_state=0).fit(table, y)
    return Trained(model, lambda rows: model.predict(rows)[:, None])


def days(dates: Any) -> Any:
    """Dates of either library as numbers."""
    column = nw.from_native(dates).get_column("built").cast(nw.Datetime("us")).cast(nw.Int64)
    return column.to_numpy()[:, None] / 8.64e10


def pipeline(table: Any, y: Any) -> Trained:
    if isinstance(table, np.ndarray):
        first: Any = SimpleImputer()
    else:
        first = ColumnTransformer(
            [
                ("numbers", SimpleImputer(), ["size", "rooms"]),
                ("text", OneHotEncoder(handle_unknown="ignore"), ["garden", "town", "grade"]),
                ("dates", FunctionTransformer(days), ["built"]),
            ]
        )
    model = make_pipeline(first, DecisionTreeClassifier(max_depth=4, random_state=0))
    model.fit(table, y > np.median(y))
    return Trained(model, model.predict_proba)


def by_xgboost(table: Any, y: Any) -> Trained:
    model = xgboost.XGBClassifier(n_estimators=5, n_jobs=1, enable_categorical=True)
    model.fit(native(table), y > np.median(y))
    return Trained(model, lambda rows: model.predict_proba(native(rows)))


def by_lightgbm(table: Any, y: Any) -> Trained:
    model = lightgbm.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1, min_child_samples=5)
    model.fit(to_pandas(native(table)), y > np.median(y))
    return Trained(model, lambda rows: model.predict_proba(to_pandas(native(rows))))


def by_catboost(table: Any, y: Any) -> Trained:
    text = [] if isinstance(table, np.ndarray) else ["town"]
    model = catboost.CatBoostClassifier(
        iterations=5, verbose=False, thread_count=1, allow_writing_files=False, cat_features=text
    )
    model.fit(to_pandas(table), y > np.median(y))
    return Trained(model, lambda rows: model.predict_proba(to_pandas(rows)))


def by_onnx(table: Any, y: Any) -> Trained:
    """A file of a pipeline: an input for each column of a frame, or one for an array."""
    if isinstance(table, np.ndarray):
        plain: Any = make_pipeline(SimpleImputer(), DecisionTreeClassifier(max_depth=4))
        inputs = [("rows", data_types.FloatTensorType([None, table.shape[1]]))]
    else:
        encoded = ColumnTransformer(
            [("numbers", SimpleImputer(), ["size"]), ("text", OneHotEncoder(), ["town"])]
        )
        plain = make_pipeline(encoded, DecisionTreeClassifier(max_depth=4))
        inputs = [
            ("size", data_types.FloatTensorType([None, 1])),
            ("town", data_types.StringTensorType([None, 1])),
        ]
    plain.fit(table, y > np.median(y))
    made = skl2onnx.to_onnx(plain, initial_types=inputs, options={"zipmap": False})
    session = onnxruntime.InferenceSession(made.SerializeToString())
    return Trained(session, plain.predict_proba)


def by_torch(table: Any, y: Any) -> Trained:
    width = table.shape[1]
    model = Network(width)

    def predict(rows: Any) -> Any:
        numbers = rows if isinstance(rows, np.ndarray) else rows.to_numpy()
        with torch.no_grad():
            return model(torch.from_numpy(numbers.astype(np.float32))).softmax(-1).numpy()

    return Trained(model, predict)


# What is trained, and on which columns: those that its library, or an adapter, can take.
KINDS: dict[str, tuple[Callable[[Any, Any], Trained], tuple[str, ...]]] = {
    "scikit-learn classifier": (classifier, (*NUMBERS, "grade")),
    "scikit-learn regressor": (regressor, NUMBERS),
    "scikit-learn pipeline": (pipeline, (*NUMBERS, "town", "grade", "built")),
    "xgboost": (by_xgboost, (*NUMBERS, "town", "grade")),
    "lightgbm": (by_lightgbm, (*NUMBERS, "town", "grade")),
    "catboost": (by_catboost, (*NUMBERS, "town")),
    "ONNX": (by_onnx, ("size", "town")),
    "torch": (by_torch, NUMBERS),
}


def table_of(kind: str, frame: pd.DataFrame) -> Any:
    """The frame in this library; an array has the numbers of it."""
    if kind == "array":
        return frame[[name for name in NUMBERS if name in frame]].to_numpy(np.float64)
    return pl.from_pandas(frame) if kind == "polars" else frame


@pytest.mark.parametrize("kind", ["pandas", "polars", "array"])
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore:Of the candidates no value function is clearly better")
def test_a_model_and_its_table_need_nothing_else(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "_PAIRS", 24)
    train, columns = KINDS[name]
    table, y = table_of(kind, houses()[list(columns)]), price(houses())
    if kind == "array" and name == "ONNX":
        table = table_of(kind, houses()[list(NUMBERS)])
    trained = train(table, y)
    explainer = ms.Explainer(trained.model, table, candidates=["gaussian"])
    explanation = explainer(table[:3])
    expected = torch.from_numpy(np.asarray(trained.predict(table[:3]), dtype=np.float64))
    # A regression has one output, a classifier one for each class.
    exactly = 1e-6 if name in ("ONNX", "torch") else 0
    torch.testing.assert_close(explanation.prediction.double(), expected, atol=exactly, rtol=0)
    total = explanation.phi.double().sum(1) + explanation.base.double()
    torch.testing.assert_close(total, expected, atol=1e-5, rtol=0)
    named = [f"x{k}" for k in range(3)] if kind == "array" else list(columns)
    assert list(explanation.players.names) == named
    if kind == "pandas":
        assert list(explanation.instances) == ["house 0", "house 1", "house 2"]
    assert explanation.phi.abs().sum() > 0
