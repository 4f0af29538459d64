"""Saved explainers with a file of their model."""

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import manifold_shap as ms
from manifold_shap.folder import read_model
from manifold_shap.io.files import digest
from tests.exports.conftest import FRAME, MODEL


def same(one: ms.Explainer, other: ms.Explainer) -> None:
    first, second = (each(FRAME.head(3), evaluations=60).phi for each in (one, other))
    assert torch.equal(first, second)


def test_a_file_of_another_model_is_an_error_before_anything_is_written(
    explainer: ms.Explainer, tmp_path: Path
) -> None:
    import skops.io

    other = LogisticRegression().fit(FRAME, FRAME["age"] > 4)
    skops.io.dump(other, tmp_path / "other.skops")
    with pytest.raises(ValueError, match=r"`model_file` to hold the model .* predicts otherwise"):
        explainer.save(tmp_path / "folder", model_file=tmp_path / "other.skops")
    with pytest.raises(ValueError, match=r"Refused to load model\.pkl"):
        explainer.save(tmp_path / "folder", model_file="model.pkl")
    with pytest.raises(FileNotFoundError, match="no file is there"):
        explainer.save(tmp_path / "folder", model_file=tmp_path / "nosuch.skops")
    assert not (tmp_path / "folder").exists()


@pytest.mark.filterwarnings("ignore:Of the candidates")
def test_a_model_that_needs_files_beside_it_is_refused(tmp_path: Path) -> None:
    """As ONNX with external data does, whose other file would stay behind."""
    place, numbers = tmp_path / "made", FRAME.astype("float32")
    place.mkdir()
    weights = onnx.numpy_helper.from_array(np.ones((3, 1), dtype="float32"), "weights")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "weights"], ["y"])],
        "sums",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["rows", 3])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["rows", 1])],
        [weights],
    )
    opsets = [onnx.helper.make_opsetid("", 18)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.save(model, place / "sums.onnx")
    explainer = ms.Explainer(place / "sums.onnx", numbers, returns="values", candidates="gaussian")
    explainer.save(tmp_path / "folder", model_file=place / "sums.onnx")
    before = {each.name: each.read_bytes() for each in (tmp_path / "folder").iterdir()}

    external = {"save_as_external_data": True, "size_threshold": 0, "location": "sums.data"}
    onnx.save(model, place / "sums.onnx", **external)
    assert (place / "sums.data").is_file()
    ms.load_model(place / "sums.onnx")
    with pytest.raises(ValueError, match=r"sums\.data"):
        explainer.save(tmp_path / "folder", model_file=place / "sums.onnx")
    after = {each.name: each.read_bytes() for each in (tmp_path / "folder").iterdir()}
    assert after == before
    ms.Explainer.load(tmp_path / "folder")

    # What the error advises.
    onnx.save(onnx.load(place / "sums.onnx"), place / "whole.onnx", save_as_external_data=False)
    explainer.save(tmp_path / "whole", model_file=place / "whole.onnx")
    ms.Explainer.load(tmp_path / "whole")


def test_a_damaged_file_of_the_model_is_an_error(
    explainer: ms.Explainer, model_file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    explainer.save(folder, model_file=model_file)
    same(ms.Explainer.load(folder), explainer)
    content = bytearray((folder / "model.skops").read_bytes())
    content[50] ^= 1
    (folder / "model.skops").write_bytes(content)
    with pytest.raises(ValueError, match=r"'model\.skops' .* missing or damaged"):
        ms.Explainer.load(folder)
    same(ms.Explainer.load(folder, MODEL), explainer)
    explainer.save(folder)
    with pytest.raises(ValueError, match=r"Expected a model but got none"):
        ms.Explainer.load(folder)


@pytest.mark.parametrize("name", ["../model.skops", "/model.skops", ".", "model.pkl"])
def test_no_file_beyond_the_folder_is_opened(name: str, model_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for place in (tmp_path / "model.skops", folder / "model.pkl"):
        shutil.copy(model_file, place)
    known = digest(model_file.read_bytes())
    with pytest.raises(ValueError, match=r"missing or damaged|Refused to load"):
        read_model(folder, {"name": name, "digest": known})
    shutil.copy(model_file, folder / "model.skops")
    assert hasattr(read_model(folder, {"name": "model.skops", "digest": known}), "predict_proba")
