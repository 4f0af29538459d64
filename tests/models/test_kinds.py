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


def fitted(model: Any, frame: Any, target: Any, asked: str = "predict_proba", **own: Any) -> Case:
    model.fit(frame, target, **own)
    returns = "values" if asked == "predict" else "probabilities"
    return Case(model, frame, getattr(model, asked)(frame), returns)


def pipeline(final: Any) -> Any:
    """A pipeline that picks columns by name; the date it leaves aside."""
    gaps = make_pipeline(SimpleImputer(), StandardScaler())
    words = OneHotEncoder(handle_unknown="ignore")
    picked = make_column_transformer((gaps, ["age", "size (m)"]), (words, ["town", "note"]))
    return make_pipeline(picked, final)


def of_objects() -> Any:
    """A pipeline of an array of objects, with text in it."""
    words = OneHotEncoder(handle_unknown="ignore")
    encoder = make_column_transformer((SimpleImputer(), [0, 2]), (words, [1]))
    return make_pipeline(encoder, LogisticRegression(max_iter=500))


def logistic() -> Any:
    return LogisticRegression(max_iter=500)


def stopped_early() -> Case:
    """With fewer trees at its best than it has."""
    own = {**BOOSTED, "n_estimators": 60, "early_stopping_rounds": 2}
    model = xgboost.XGBClassifier(enable_categorical=True, **own)
    case = fitted(model, TREES, LABEL, eval_set=[(TREES, ~LABEL)], verbose=False)
    assert model.best_iteration < 30
    return case


def xgboost_booster() -> Case:
    data = xgboost.DMatrix(TREES, LABEL, enable_categorical=True)
    booster = xgboost.train({"objective": "binary:logistic", "nthread": 1}, data, 5)
    p = booster.predict(data)
    return Case(booster, TREES, np.stack((1 - p, p), 1), "probabilities")


def booster_of_labels() -> Case:
    """Which gives labels: the logits of its classes are asked for.

    Of a frame of pandas xgboost would have cut the name "Åre", and known no town of polars by it.
    """
    data = xgboost.DMatrix(pl.from_pandas(TREES), LABEL, enable_categorical=True)
    own = {"objective": "multi:softmax", "num_class": 2, "nthread": 1}
    booster = xgboost.train(own, data, 5)
    margins = torch.from_numpy(booster.predict(data, output_margin=True)).softmax(-1).numpy()
    return Case(booster, pl.from_pandas(TREES), margins, "logits")


def lightgbm_booster() -> Case:
    model = lightgbm.LGBMClassifier(verbose=-1, **BOOSTED).fit(TREES, LABEL)
    return Case(model.booster_, TREES, model.predict_proba(TREES), "probabilities")


def plain_catboost() -> Case:
    model = catboost.CatBoost({"loss_function": "MultiClass", **CATBOOST})
    model.fit(NUMBERS, FRAME["town"].astype(str))
    p = model.predict(NUMBERS, prediction_type="Probability")
    return Case(model, NUMBERS, p, "probabilities")


def session(written: Any) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(written.SerializeToString())


def onnx_of_columns() -> Case:
    """One input per column, text among them; probabilities by a ZipMap."""
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    words = OneHotEncoder(handle_unknown="ignore")
    encoder = make_column_transformer((numbers, ["age", "size (m)"]), (words, ["note"]))
    model = make_pipeline(encoder, logistic()).fit(TEXT, LABEL.astype(int))
    text = {"note": StringTensorType([None, 1])}
    types = [(name, text.get(name, FloatTensorType([None, 1]))) for name in TEXT.columns]
    written = to_onnx(model, initial_types=types)
    return Case(session(written), TEXT, model.predict_proba(TEXT), "probabilities")


@cache
def onnx_of_numbers() -> tuple[Any, np.ndarray]:
    """A file with one input of all columns, probabilities as an array; and what it gives."""
    model = LogisticRegression().fit(NUMBERS.to_numpy(), LABEL.astype(int))
    types, options = [("x", FloatTensorType([None, 3]))], {id(model): {"zipmap": False}}
    written = to_onnx(model, initial_types=types, options=options)
    return written, model.predict_proba(NUMBERS.to_numpy())


def array_onnx() -> Case:
    written, expected = onnx_of_numbers()
    return Case(session(written), NUMBERS.to_numpy(), expected, "probabilities")


def network() -> Case:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2), nn.Dropout())
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


CASES: dict[str, Callable[[], Case]] = {
    "pandas, scikit-learn": lambda: fitted(pipeline(logistic()), FRAME, LABEL),
    "polars, scikit-learn": lambda: fitted(pipeline(logistic()), pl.from_pandas(FRAME), LABEL),
    "pandas, forest": lambda: fitted(
        pipeline(RandomForestRegressor(5, random_state=0)), FRAME, TARGET, "predict"
    ),
    "array, two targets": lambda: fitted(
        LinearRegression(), NUMBERS.to_numpy(), np.stack((TARGET, -TARGET), 1), "predict"
    ),
    "array, objects": lambda: fitted(of_objects(), TEXT.to_numpy(dtype=object), LABEL),
    "pandas, xgboost": stopped_early,
    "polars, xgboost": lambda: fitted(
        xgboost.XGBRegressor(enable_categorical=True, **BOOSTED), pl.from_pandas(TREES), TARGET,
        "predict",
    ),
    "pandas, xgboost booster": xgboost_booster,
    "polars, booster of labels": booster_of_labels,
    "pandas, lightgbm": lambda: fitted(
        lightgbm.LGBMClassifier(verbose=-1, **BOOSTED), TEXT.astype({"note": "category"}), LABEL
    ),
    "pandas, lightgbm booster": lightgbm_booster,
    "pandas, catboost": lambda: fitted(
        catboost.CatBoostClassifier(**CATBOOST), FRAME.drop(columns="since"), LABEL,
        cat_features=["town", "note"],
    ),
    "pandas, catboost regressor": lambda: fitted(
        catboost.CatBoostRegressor(**CATBOOST), NUMBERS, TARGET, "predict"
    ),
    "pandas, plain catboost": plain_catboost,
    "pandas, onnx": onnx_of_columns,
    "array, onnx": array_onnx,
    "pandas, network": network,
    "pandas, function": pandas_function,
    "polars, function": polars_function,
}  # fmt: skip


@cache
def case_of(name: str) -> Case:
    return CASES[name]()


every_case = pytest.mark.parametrize("name", CASES)


def assert_same(found: Tensor, case: Case) -> None:
    """Exactly; of networks and files in single precision, to rounding."""
    rounded = isinstance(case.model, (nn.Module, onnxruntime.InferenceSession))
    tolerance = 1e-5 if rounded or case.returns == "logits" else 0.0
    expected = torch.from_numpy(np.array(case.expected)).reshape(found.shape)
    torch.testing.assert_close(found.double(), expected.double(), rtol=tolerance, atol=tolerance)


@every_case
def test_a_model_gives_what_its_library_gives(name: str) -> None:
    case = case_of(name)
    predictor = predictor_of(case.model, "values" if "function" in name else None)
    given = case.frame.clone() if isinstance(case.frame, pl.DataFrame) else case.frame.copy()
    with torch.no_grad():
        found = predictor(given)
    assert_same(found.softmax(-1) if case.returns == "logits" else found, case)
    if isinstance(given, np.ndarray):
        assert pd.DataFrame(given).equals(pd.DataFrame(case.frame))
    else:
        assert given.equals(case.frame)


@every_case
def test_a_method_of_a_model_is_asked_as_the_model_itself(name: str) -> None:
    case = case_of(name)
    table = Table.fit(case.frame)
    returns = "values" if "function" in name else None
    named = ("predict_proba", "run", "forward", "predict", "__call__")
    method = next(getattr(case.model, each) for each in named if hasattr(case.model, each))
    whole = as_model(case.model, table, returns=returns)
    if name == "pandas, plain catboost":  # Its `predict` gives margins.
        with pytest.raises(ValueError, match="pass the classifier itself"):
            as_model(method, table)
        return
    model = as_model(method, table, returns=returns)
    assert model.returns == whole.returns == case.returns
    assert model.classes == whole.classes
    scale = "values" if case.returns == "values" else "probabilities"
    for each in (whole, model):
        assert_same(each(table.rows(case.frame), scale=scale), case)


@pytest.mark.parametrize("name", ["pandas, scikit-learn", "pandas, xgboost", "pandas, catboost"])
def test_names_and_margins_of_classes_are_refused_and_the_advice_works(name: str) -> None:
    case = case_of(name)
    table, advice = Table.fit(case.frame), r"`lambda rows: model\.\w+\(rows\)` with returns="
    for method in ("predict", "decision_function"):
        if hasattr(case.model, method):
            with pytest.raises(ValueError, match=f"pass the classifier itself.* {advice}"):
                as_model(getattr(case.model, method), table)
    with pytest.raises(ValueError, match="pass the classifier itself"):
        as_model(case.model.predict, table, returns="values")
    numbers = as_model(lambda rows: case.model.predict(rows) == 1, table, returns="values")
    assert numbers(table.rows(case.frame)).shape == (ROWS, 1)
