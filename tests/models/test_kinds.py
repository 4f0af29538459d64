"""Models of every kind, on frames of every kind, against their library's own predictions."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import catboost
import lightgbm
import numpy as np
import onnxruntime
import pandas as pd
import polars as pl
import pytest
import torch
import xgboost
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap import Table
from manifold_shap.models import as_model
from manifold_shap.models.kinds import predictor_of

ROWS = 120
BOOSTED = {"n_estimators": 8, "n_jobs": 1, "random_state": 0}
CATBOOST = {"iterations": 8, "verbose": 0, "thread_count": 1, "allow_writing_files": False}


def messy() -> pd.DataFrame:
    """Whole numbers, numbers with gaps, categories, text, yes or no, and dates."""
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": random.integers(18, 80, ROWS),
            "size (m)": np.where(random.random(ROWS) < 0.2, np.nan, random.normal(size=ROWS)),
            "town": pd.Categorical(random.choice(["Oslo", "Bergen", "Åre"], ROWS)),
            "note": random.choice(["a b", "c", "d"], ROWS),
            "member": random.random(ROWS) < 0.5,
            "since": pd.Timestamp("2020-02-01")
            + pd.to_timedelta(random.integers(0, 99, ROWS), "D"),
        }
    )


FRAME = messy()
LABEL = (FRAME["age"].to_numpy() > 45) ^ (FRAME["town"] == "Oslo").to_numpy()
TARGET = FRAME["age"].to_numpy() * 1.5 + FRAME["member"].to_numpy()
# What boosted trees take as it is; xgboost and lightgbm take text as categories, catboost as it is.
TREES = FRAME[["age", "size (m)", "town", "member"]]
TEXT = FRAME[["age", "note", "size (m)"]]
NUMBERS = FRAME[["age", "size (m)", "member"]].astype(float).fillna(0.0)


class Case(NamedTuple):
    """A fitted model, the frame it was fitted to, and its library's own outputs for it."""

    model: Any
    frame: Any
    expected: np.ndarray
    returns: str


def pipeline(final: Any) -> Any:
    """A pipeline that picks columns by name; the date it leaves aside."""
    gaps = make_pipeline(SimpleImputer(), StandardScaler())
    words = OneHotEncoder(handle_unknown="ignore")
    picked = make_column_transformer((gaps, ["age", "size (m)"]), (words, ["town", "note"]))
    return make_pipeline(picked, final)


def fitted(model: Any, frame: Any, target: Any, asked: str = "predict_proba", **own: Any) -> Case:
    model.fit(frame, target, **own)
    returns = "values" if asked == "predict" else "probabilities"
    return Case(model, frame, getattr(model, asked)(frame), returns)


def pandas_classifier() -> Case:
    return fitted(pipeline(LogisticRegression(max_iter=500)), FRAME, LABEL)


def polars_classifier() -> Case:
    return fitted(pipeline(LogisticRegression(max_iter=500)), pl.from_pandas(FRAME), LABEL)


def pandas_regressor() -> Case:
    forest = RandomForestRegressor(5, random_state=0)
    return fitted(pipeline(forest), FRAME, TARGET, "predict")


def polars_regressor() -> Case:
    return fitted(LinearRegression(), pl.from_pandas(NUMBERS), TARGET, "predict")


def array_regressor() -> Case:
    two = np.stack((TARGET, -TARGET), 1)
    return fitted(LinearRegression(), NUMBERS.to_numpy(), two, "predict")


def array_pipeline() -> Case:
    """Of an array of objects, with text in it."""
    words = OneHotEncoder(handle_unknown="ignore")
    encoder = make_column_transformer((SimpleImputer(), [0, 2]), (words, [1]))
    model = make_pipeline(encoder, LogisticRegression(max_iter=500))
    return fitted(model, TEXT.to_numpy(dtype=object), LABEL)


def pandas_xgboost() -> Case:
    return fitted(xgboost.XGBClassifier(enable_categorical=True, **BOOSTED), TREES, LABEL)


def polars_xgboost() -> Case:
    model = xgboost.XGBRegressor(enable_categorical=True, **BOOSTED)
    return fitted(model, pl.from_pandas(TREES), TARGET, "predict")


def array_xgboost() -> Case:
    return fitted(xgboost.XGBClassifier(**BOOSTED), NUMBERS.to_numpy(), LABEL.astype(int))


def pandas_xgboost_booster() -> Case:
    data = xgboost.DMatrix(TREES, LABEL, enable_categorical=True)
    booster = xgboost.train({"objective": "binary:logistic", "nthread": 1}, data, 5)
    p = booster.predict(data)
    return Case(booster, TREES, np.stack((1 - p, p), 1), "probabilities")


def polars_xgboost_booster() -> Case:
    """Which gives labels: the logits of its classes are asked for.

    Of a frame of pandas xgboost would have cut the name "Åre", and known no town of polars by it.
    """
    data = xgboost.DMatrix(pl.from_pandas(TREES), LABEL, enable_categorical=True)
    own = {"objective": "multi:softmax", "num_class": 2, "nthread": 1}
    booster = xgboost.train(own, data, 5)
    margins = torch.from_numpy(booster.predict(data, output_margin=True)).softmax(-1).numpy()
    return Case(booster, pl.from_pandas(TREES), margins, "logits")


def pandas_lightgbm() -> Case:
    model = lightgbm.LGBMClassifier(verbose=-1, **BOOSTED)
    return fitted(model, TEXT.astype({"note": "category"}), LABEL)


def pandas_lightgbm_booster() -> Case:
    model = lightgbm.LGBMClassifier(verbose=-1, **BOOSTED).fit(TREES, LABEL)
    return Case(model.booster_, TREES, model.predict_proba(TREES), "probabilities")


def pandas_catboost() -> Case:
    return fitted(
        catboost.CatBoostClassifier(**CATBOOST), FRAME.drop(columns="since"), LABEL,
        cat_features=["town", "note"],
    )  # fmt: skip


def pandas_plain_catboost() -> Case:
    model = catboost.CatBoost({"loss_function": "MultiClass", **CATBOOST})
    model.fit(NUMBERS, FRAME["town"].astype(str))
    p = model.predict(NUMBERS, prediction_type="Probability")
    return Case(model, NUMBERS, p, "probabilities")


def onnx(model: Any, types: Any, zipmap: bool) -> onnxruntime.InferenceSession:
    options = {id(model): {"zipmap": zipmap}} if hasattr(model, "predict_proba") else None
    written = to_onnx(model, initial_types=types, options=options)
    return onnxruntime.InferenceSession(written.SerializeToString())


def pandas_onnx() -> Case:
    """One input per column, text among them; probabilities by a ZipMap."""
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    words = OneHotEncoder(handle_unknown="ignore")
    encoder = make_column_transformer((numbers, ["age", "size (m)"]), (words, ["note"]))
    model = make_pipeline(encoder, LogisticRegression(max_iter=500)).fit(TEXT, LABEL.astype(int))
    text = {"note": StringTensorType([None, 1])}
    types = [(name, text.get(name, FloatTensorType([None, 1]))) for name in TEXT.columns]
    return Case(onnx(model, types, True), TEXT, model.predict_proba(TEXT), "probabilities")


def array_onnx() -> Case:
    """One input of all columns; probabilities as an array."""
    model = LogisticRegression().fit(NUMBERS.to_numpy(), LABEL.astype(int))
    session = onnx(model, [("x", FloatTensorType([None, 3]))], False)
    table = NUMBERS.to_numpy()
    return Case(session, table, model.predict_proba(table), "probabilities")


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2), nn.Dropout())


def pandas_torch() -> Case:
    module = network()
    logits = module.eval()(torch.from_numpy(NUMBERS.to_numpy("float32"))).detach()
    return Case(module.train(), NUMBERS, logits.softmax(-1).numpy(), "logits")


def pandas_function() -> Case:
    """From a frame to a frame, whose columns are the names of the outputs."""

    def model(frame: pd.DataFrame) -> pd.DataFrame:
        days = (frame["since"] - pd.Timestamp("2020-01-01")).dt.days
        return pd.DataFrame({"days": days, "letters": frame["note"].str.len()})

    return Case(model, FRAME, model(FRAME).to_numpy(), "values")


def polars_function() -> Case:
    def model(frame: pl.DataFrame) -> pl.Series:
        return frame["note"].str.len_chars() + frame["age"]

    frame = pl.from_pandas(FRAME)
    return Case(model, frame, model(frame).to_numpy(), "values")


CASES: list[Callable[[], Case]] = [
    pandas_classifier, polars_classifier, pandas_regressor, polars_regressor,
    array_regressor, array_pipeline, pandas_xgboost, polars_xgboost, array_xgboost,
    pandas_xgboost_booster, polars_xgboost_booster, pandas_lightgbm, pandas_lightgbm_booster,
    pandas_catboost, pandas_plain_catboost, pandas_onnx, array_onnx, pandas_torch,
    pandas_function, polars_function,
]  # fmt: skip


@cache
def case_of(make: Callable[[], Case]) -> Case:
    return make()


every_case = pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)


def assert_same(found: Tensor, case: Case) -> None:
    """Exactly; of networks and files in single precision, to rounding."""
    rounded = isinstance(case.model, (nn.Module, onnxruntime.InferenceSession))
    tolerance = 1e-5 if rounded or case.returns == "logits" else 0.0
    expected = torch.from_numpy(np.array(case.expected)).reshape(found.shape)
    torch.testing.assert_close(found.double(), expected.double(), rtol=tolerance, atol=tolerance)


@every_case
def test_a_model_gives_what_its_library_gives(make: Callable[[], Case]) -> None:
    case = case_of(make)
    predictor = predictor_of(case.model, "values" if "function" in make.__name__ else None)
    given = case.frame.clone() if isinstance(case.frame, pl.DataFrame) else case.frame.copy()
    with torch.no_grad():
        found = predictor(given)
    assert_same(found.softmax(-1) if case.returns == "logits" else found, case)
    if isinstance(given, np.ndarray):
        assert pd.DataFrame(given).equals(pd.DataFrame(case.frame))
    else:
        assert given.equals(case.frame)


@pytest.mark.parametrize(
    "make",
    [pandas_classifier, polars_xgboost, pandas_catboost, pandas_onnx, pandas_torch],
    ids=lambda make: make.__name__,
)
@pytest.mark.filterwarnings("ignore:Of the candidates no value function is clearly better")
def test_a_model_and_its_table_need_nothing_else(make: Callable[[], Case]) -> None:
    case = case_of(make)
    explainer = ms.Explainer(case.model, case.frame, candidates=["gaussian"], model_batch_size=50)
    explanation = explainer(case.frame[:3], evaluations=30)
    assert explainer.model.returns == case.returns
    assert_same(explanation.prediction, case._replace(expected=case.expected[:3]))
    total = explanation.base + explanation.phi.sum(1)
    torch.testing.assert_close(total.double(), explanation.prediction.double(), rtol=0, atol=1e-5)


@every_case
def test_a_method_of_a_model_is_asked_as_the_model_itself(make: Callable[[], Case]) -> None:
    case = case_of(make)
    table = Table.fit(case.frame)
    returns = "values" if "function" in make.__name__ else None
    named = ("predict_proba", "run", "forward", "predict", "__call__")
    name = next(name for name in named if hasattr(case.model, name))
    whole = as_model(case.model, table, returns=returns)
    method = getattr(case.model, name)
    if make is pandas_plain_catboost:  # Its `predict` gives margins.
        with pytest.raises(ValueError, match="pass the classifier itself"):
            as_model(method, table)
        return
    model = as_model(method, table, returns=returns)
    assert (model.returns, model.classes) == (whole.returns, whole.classes)
    scale = "values" if case.returns == "values" else "probabilities"
    assert_same(model(table.rows(case.frame), scale=scale), case)


@pytest.mark.parametrize(
    "make",
    [pandas_classifier, polars_classifier, pandas_xgboost, pandas_catboost],
    ids=lambda make: make.__name__,
)
def test_names_and_margins_of_classes_are_refused_and_the_advice_works(
    make: Callable[[], Case],
) -> None:
    case = case_of(make)
    table, advice = Table.fit(case.frame), r"`lambda rows: model\.\w+\(rows\)` with returns="
    for name in ("predict", "decision_function"):
        if hasattr(case.model, name):
            with pytest.raises(ValueError, match=f"pass the classifier itself.* {advice}"):
                as_model(getattr(case.model, name), table)
    with pytest.raises(ValueError, match="pass the classifier itself"):
        as_model(case.model.predict, table, returns="values")
    numbers = as_model(lambda rows: case.model.predict(rows) == 1, table, returns="values")
    assert numbers(table.rows(case.frame)).shape == (ROWS, 1)
