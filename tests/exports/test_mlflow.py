"""A saved explainer as an MLflow model: loaded by its module, with nothing pickled."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import manifold_shap as ms
from tests.exports.conftest import FRAME

mlflow = pytest.importorskip("mlflow")
MODULE = "manifold_shap.exports.mlflow"
# What is tried are folders as they are, without example rows and with whole numbers.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*(integer column|type hint|input example):UserWarning"),
    pytest.mark.filterwarnings("ignore:The filesystem tracking backend:FutureWarning"),
]


@pytest.fixture
def folder(explainer: ms.Explainer, model_file: Path, tmp_path: Path) -> Path:
    explainer.save(tmp_path / "folder", model_file=model_file)
    return tmp_path / "folder"


def saved(folder: Path, path: Path, **more: Any) -> Path:
    mlflow.pyfunc.save_model(
        path,
        loader_module=MODULE,
        data_path=folder,
        pip_requirements=[f"manifold_shap=={ms.__version__}"],
        **more,
    )
    return path


def test_it_predicts_the_frame_of_the_explanation(
    explainer: ms.Explainer, folder: Path, tmp_path: Path
) -> None:
    path = saved(folder, tmp_path / "model", model_config={"evaluations": 60})
    found = mlflow.pyfunc.load_model(path).predict(FRAME.head(4))
    wanted = ms.wide_frame(explainer(FRAME.head(4), evaluations=60))
    pd.testing.assert_frame_equal(found, wanted)
    probability = explainer.model(explainer.codebook.rows(FRAME.head(4)), scale="probabilities")
    for number, output in enumerate(explainer.value.outputs):
        columns = [name for name in found if name.startswith(f"phi_{output}_")]
        total = found[columns].sum(axis=1) + found[f"base_{output}"]
        np.testing.assert_allclose(total, probability[:, number], atol=1e-6)


def test_settings_of_a_call_are_those_of_its_parameters(
    explainer: ms.Explainer, folder: Path, tmp_path: Path
) -> None:
    from mlflow.models import infer_signature

    wanted = ms.wide_frame(explainer(FRAME.head(4), evaluations=60, seed=3))
    signature = infer_signature(FRAME, wanted, {"seed": 0, "evaluations": 30})
    path = saved(folder, tmp_path / "model", signature=signature)
    found = mlflow.pyfunc.load_model(path)
    given = found.predict(FRAME.head(4), params={"seed": 3, "evaluations": 60})
    pd.testing.assert_frame_equal(given, wanted)


def test_it_is_logged_and_loaded_from_a_tracking_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    try:
        with mlflow.start_run():
            logged = mlflow.pyfunc.log_model(
                name="explainer",
                loader_module=MODULE,
                data_path=folder,
                pip_requirements=["manifold_shap"],
                model_config={"evaluations": 30},
            )
        found = mlflow.pyfunc.load_model(logged.model_uri).predict(FRAME.head(2))
    finally:
        mlflow.set_tracking_uri(before)
    assert list(found.index) == [0, 1]
    assert "phi_True_size" in found.columns


def test_nothing_is_pickled(folder: Path, tmp_path: Path) -> None:
    path = saved(folder, tmp_path / "model")
    files = [each for each in path.rglob("*") if each.is_file()]
    assert {"MLmodel", "explainer.json", "model.skops"} <= {each.name for each in files}
    for file in files:
        assert file.suffix not in (".pkl", ".pickle", ".joblib", ".pt"), file
        assert not file.read_bytes().startswith(b"\x80"), file
    flavour = yaml.safe_load((path / "MLmodel").read_text())["flavors"]["python_function"]
    assert flavour["loader_module"] == MODULE
    assert not {"python_model", "cloudpickle_version"} & set(flavour)


def test_a_folder_without_its_model_is_an_error(explainer: ms.Explainer, tmp_path: Path) -> None:
    explainer.save(tmp_path / "folder")
    path = saved(tmp_path / "folder", tmp_path / "model")
    with pytest.raises(ValueError, match=r"Expected a model but got none.*model_file"):
        mlflow.pyfunc.load_model(path)


def test_a_folder_of_something_else_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").write_text("nothing")
    path = saved(tmp_path / "folder", tmp_path / "model")
    with pytest.raises(FileNotFoundError, match=r"there is no explainer\.json"):
        mlflow.pyfunc.load_model(path)
