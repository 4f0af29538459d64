"""Trained models are read from files, and nothing that could run code is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import manifold_shap as ms
from manifold_shap.models import as_model
from tests.models.test_kinds import LABEL, NUMBERS, assert_same, case_of, onnx_of_numbers


def saved(model: Any, path: Path) -> None:
    model.save_model(str(path))


def write_onnx(_: Any, path: Path) -> None:
    path.write_bytes(onnx_of_numbers()[0].SerializeToString())


WRITERS: list[tuple[str, str, Callable[[Any, Path], Any]]] = [
    ("array, onnx", "onnx", write_onnx),
    ("pandas, scikit-learn", "skops", skops.io.dump),
    ("pandas, forest", "skops", skops.io.dump),
    ("pandas, xgboost", "ubj", saved),
    ("polars, xgboost", "json", saved),
    ("pandas, xgboost booster", "ubj", saved),
    ("pandas, lightgbm booster", "txt", saved),
    ("pandas, catboost", "cbm", saved),
    ("pandas, catboost regressor", "cbm", saved),
]


@pytest.mark.parametrize(("name", "suffix", "write"), WRITERS)
def test_a_model_comes_back_as_it_was(
    name: str,
    suffix: str,
    write: Callable[[Any, Path], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    case, path = case_of(name), tmp_path / f"model.{suffix}"
    write(case.model, path)
    table = ms.Table.fit(case.frame)
    model = as_model(f"~/{path.name}", table)
    assert model.returns == case.returns
    assert_same(model(table.rows(case.frame), scale=case.returns), case)


def test_types_of_others_in_a_skops_file_are_named(tmp_path: Path) -> None:
    foreign = make_pipeline(FunctionTransformer(saved), LogisticRegression())
    skops.io.dump(foreign, tmp_path / "foreign.skops")
    with pytest.raises(ValueError, match=r"names types .*test_files.saved.* trusted=\[\.\.\."):
        ms.load_model(tmp_path / "foreign.skops")
    model = make_pipeline(FunctionTransformer(np.square), LogisticRegression())
    skops.io.dump(model.fit(NUMBERS, LABEL), tmp_path / "own.skops")
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
    write_onnx(None, tmp_path / "model.onnx")
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(ModuleNotFoundError, match="onnxruntime"):
        ms.load_model(tmp_path / "model.onnx")
