"""Trained models are read from files, and nothing that could run code is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import skops.io
import xgboost
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import manifold_shap as ms
from manifold_shap.models import as_model

FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=["a", "b c", "d"])
LABEL = (FRAME["a"] + FRAME["d"] > 0).to_numpy().astype(int)
TREES: dict[str, Any] = {"n_estimators": 5, "n_jobs": 1}
CATBOOST = {"iterations": 5, "verbose": 0, "thread_count": 1, "allow_writing_files": False}


def onnx(path: Path) -> np.ndarray:
    model = LogisticRegression().fit(FRAME.to_numpy(), LABEL)
    written = to_onnx(model, initial_types=[("x", FloatTensorType([None, 3]))])
    path.write_bytes(written.SerializeToString())
    return model.predict_proba(FRAME.to_numpy())


def skops_file(path: Path) -> np.ndarray:
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(FRAME, LABEL)
    skops.io.dump(model, path)
    return model.predict_proba(FRAME)


def xgboost_estimator(path: Path) -> np.ndarray:
    """With fewer trees at its best than it has."""
    model = xgboost.XGBClassifier(early_stopping_rounds=2, **TREES | {"n_estimators": 60})
    model.fit(FRAME[:40], LABEL[:40], eval_set=[(FRAME[40:], 1 - LABEL[40:])], verbose=False)
    assert model.best_iteration < 30
    model.save_model(path)
    return model.predict_proba(FRAME)


def xgboost_regressor(path: Path) -> np.ndarray:
    model = xgboost.XGBRegressor(**TREES).fit(FRAME, FRAME["a"])
    model.save_model(path)
    return model.predict(FRAME)


def xgboost_booster(path: Path) -> np.ndarray:
    data = xgboost.DMatrix(FRAME, LABEL)
    booster = xgboost.train({"objective": "binary:logistic", "nthread": 1}, data, 5)
    booster.save_model(path)
    return np.stack((1 - booster.predict(data), booster.predict(data)), 1)


def lightgbm_booster(path: Path) -> np.ndarray:
    model = lightgbm.LGBMClassifier(verbose=-1, **TREES).fit(FRAME, LABEL)
    model.booster_.save_model(path)
    return model.predict_proba(FRAME)


def catboost_classifier(path: Path) -> np.ndarray:
    model = catboost.CatBoostClassifier(**CATBOOST).fit(FRAME, LABEL)
    model.save_model(str(path))
    return model.predict_proba(FRAME)


def catboost_regressor(path: Path) -> np.ndarray:
    model = catboost.CatBoostRegressor(**CATBOOST).fit(FRAME, FRAME["a"])
    model.save_model(str(path))
    return model.predict(FRAME)


WRITERS: list[tuple[str, Callable[[Path], np.ndarray]]] = [
    ("onnx", onnx),
    ("skops", skops_file),
    ("ubj", xgboost_estimator),
    ("json", xgboost_estimator),
    ("json", xgboost_regressor),
    ("ubj", xgboost_booster),
    ("txt", lightgbm_booster),
    ("cbm", catboost_classifier),
    ("cbm", catboost_regressor),
]


@pytest.mark.parametrize(("suffix", "write"), WRITERS)
def test_a_model_comes_back_as_it_was(
    suffix: str, write: Callable[[Path], np.ndarray], tmp_path: Path
) -> None:
    path = tmp_path / f"model.{suffix}"
    expected = write(path)
    frame = ms.Table.fit(FRAME)
    model = as_model(str(path), frame)
    is_regression = expected.ndim == 1
    assert (model.returns == "values") == is_regression
    scale = "values" if is_regression else "probabilities"
    found = model(frame.rows(FRAME), scale=scale)
    expected = expected.reshape(len(FRAME), -1)
    np.testing.assert_allclose(
        found.numpy(), expected, rtol=0, atol=1e-5 if suffix == "onnx" else 0
    )


def test_types_of_others_in_a_skops_file_are_named(tmp_path: Path) -> None:
    model = make_pipeline(FunctionTransformer(np.square), LogisticRegression()).fit(FRAME, LABEL)
    foreign = make_pipeline(FunctionTransformer(skops_file), LogisticRegression())
    skops.io.dump(foreign, tmp_path / "foreign.skops")
    with pytest.raises(ValueError, match=r"names types .*test_files.skops_file.* trusted=\[\.\.\."):
        ms.load_model(tmp_path / "foreign.skops")
    skops.io.dump(model, tmp_path / "own.skops")
    ms.load_model(tmp_path / "own.skops")


@pytest.mark.parametrize("suffix", ["onnx", "skops", "ubj", "json", "txt", "cbm"])
@pytest.mark.parametrize("content", [b"", b"no model\n" * 50])
def test_damaged_files(suffix: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"model.{suffix}"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"can read at .* is damaged or of another format \("):
        ms.load_model(path)


def test_other_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match=r"nosuch\.onnx"):
        ms.load_model(tmp_path / "nosuch.onnx")
    with pytest.raises(ValueError, match=r"Refused to load model.h5: .* model=python"):
        ms.load_model("model.h5")
    with pytest.raises(TypeError, match="Expected `path` to be text but got 3"):
        ms.load_model(3)
    onnx(tmp_path / "model.onnx")
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(ModuleNotFoundError, match="onnxruntime"):
        ms.load_model(tmp_path / "model.onnx")
