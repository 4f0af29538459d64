"""No file runs code: for each format, one that would leave a trace if it did, and its error."""

import json
import os
import pickle
import tomllib
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import joblib
import numcodecs
import numpy as np
import pytest
import skops.io
import torch
from onnx import TensorProto, helper
from packaging.requirements import Requirement
from sklearn.linear_model import LogisticRegression

import manifold_shap as ms
from manifold_shap.data import load
from tests.hostile.things import FEW, X, explanation, model, trained

pytestmark = pytest.mark.usefixtures("any_type")

Load = Callable[[Path], object]
ROOT = Path(__file__).parents[2]


class RunsCode:
    """What unpickles to a call of `Path.touch`."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """The file that a payload makes when it runs."""
    return tmp_path / "trace"


def refused(load: Load, path: Path, trace: Path, says: str) -> None:
    """Loading raises an error of this package, and has run nothing."""
    with pytest.raises((ValueError, TypeError), match=says) as raised:
        load(path)
    assert "weights_only" not in str(raised.value)
    assert not trace.exists()


def test_the_payload_runs_where_it_is_let(trace: Path) -> None:
    pickle.loads(pickle.dumps(RunsCode(trace)))
    assert trace.exists()


def _dump(thing: Any, path: Path) -> None:
    path.write_bytes(pickle.dumps(thing))


def test_a_training_is_not_resumed_from_code(tmp_path: Path, trace: Path) -> None:
    torch.save({"kind": "surrogate", "state_dict": RunsCode(trace)}, tmp_path / "last.ckpt")
    with pytest.raises(ValueError, match="names code, which is never run"):
        ms.fit_surrogate(model, X.repeat(10, 1), directory=tmp_path, **FEW)
    assert not trace.exists()


@pytest.mark.parametrize(
    ("endings", "says"),
    [
        (("pkl", "joblib", "pt", "dill"), "Refused to load .* or load the file in your own code"),
        (("onnx", "skops", "ubj", "json", "txt", "cbm"), "is damaged or of another format"),
    ],
)
def test_a_pickled_model(endings: Sequence[str], says: str, tmp_path: Path, trace: Path) -> None:
    for ending in endings:
        path = tmp_path / f"m.{ending}"
        (joblib.dump if ending == "joblib" else _dump)(RunsCode(trace), path)
        refused(ms.load_model, path, trace, says)


def test_a_skops_file_that_was_rewritten(tmp_path: Path, trace: Path) -> None:
    """Every node names `os.system`, and those of trusted kinds among them do not help it."""
    path = tmp_path / "m.skops"
    for loader in ("ObjectNode", "FunctionNode", "TypeNode", "OperatorFuncNode", "MethodNode"):
        skops.io.dump(LogisticRegression(), path)
        with zipfile.ZipFile(path) as archive:
            schema = json.loads(archive.read("schema.json"))
        evil = {"__class__": "system", "__module__": "posix", "__loader__": loader}
        evil |= {"content": {"module_path": "posix", "function": "system"}}
        schema["content"] = {**evil, "__id__": 1}
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("schema.json", json.dumps(schema))
        refused(ms.load_model, path, trace, r"Refused to load|is damaged or of another format")


# What decodes an array, in the two formats of zarr.
PICKLE = {"id": "pickle", "protocol": 5}
CODECS: dict[str, dict[str, Any]] = {
    "zarr.json": {"codecs": [{"name": "numcodecs.pickle", "configuration": {"protocol": 5}}]},
    ".zarray": {"dtype": "|O", "fill_value": "", "filters": [PICKLE], "compressor": None}
    | {"zarr_format": 2, "shape": [4], "chunks": [4], "order": "C"},
}


@pytest.mark.filterwarnings("ignore:Object at .* is not recognized")
@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("array", ["players", "phi"])
def test_a_store_that_is_to_be_unpickled(
    array: str, name: str, tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in versions of numcodecs that unpickle whatever a store holds.
    decode = lambda self, content, out=None: pickle.loads(content)  # noqa: E731
    monkeypatch.setattr(numcodecs.Pickle, "decode", decode)
    path = tmp_path / "evil.zarr"
    explanation().save(path)
    content = json.loads((path / array / "zarr.json").read_text()) | CODECS[name]
    (path / array / "zarr.json").unlink()
    (path / array / name).write_text(json.dumps(content))
    for chunk in (path / array / "c").rglob("0"):
        if chunk.is_file():
            _dump(np.array([RunsCode(trace)] * 2, dtype=object), chunk)
    with pytest.raises(
        (ValueError, KeyError, TypeError), match=rf"Unknown codec: .*pickle|{array}"
    ):
        ms.Explanation.load(path)
    assert not trace.exists()


def test_arrays_of_objects(tmp_path: Path, trace: Path) -> None:
    path = tmp_path / "evil.npz"
    np.savez(path, x=np.array([RunsCode(trace)] * 4, dtype=object), y=np.arange(4))
    refused(lambda path: load("series", path=str(path)), path, trace, "pickle")


X_TO_Y = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 4])] for name in "xy"]


def onnx_file(path: Path, location: str) -> Path:
    """A model that adds numbers to its input, which lie in another file."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    for key, entry in {"location": location, "offset": "0", "length": "16"}.items():
        tensor.external_data.add(key=key, value=entry)
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "graph", *X_TO_Y, initializer=[tensor])
    whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(whole.SerializeToString())
    return path


def test_an_onnx_file_reads_no_file_of_others(tmp_path: Path) -> None:
    inside = tmp_path / "models"
    inside.mkdir()
    np.arange(4, dtype=np.float32).tofile(tmp_path / "secret.bin")
    (inside / "link.bin").symlink_to(tmp_path / "secret.bin")
    np.arange(4, dtype=np.float32).tofile(inside / "own.bin")
    for location in ("../secret.bin", str(tmp_path / "secret.bin"), "link.bin"):
        path = onnx_file(inside / "m.onnx", location)
        with pytest.raises(ValueError, match="is damaged or of another format"):
            ms.load_model(path)
    assert ms.load_model(onnx_file(inside / "m.onnx", "own.bin"))


def test_an_onnx_file_with_operators_of_its_own(tmp_path: Path) -> None:
    node = helper.make_node("RunShell", ["x"], ["y"], domain="evil", command="touch trace")
    graph = helper.make_graph([node], "graph", *X_TO_Y)
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("evil", 1)]
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=domains).SerializeToString())
    with pytest.raises(ValueError, match=r"is damaged or of another format .*RunShell"):
        ms.load_model(path)


def test_a_folder_that_was_rewritten(tmp_path: Path, trace: Path) -> None:
    ms.save(trained(), tmp_path / "saved")
    _dump(RunsCode(trace), tmp_path / "saved" / "tensors.safetensors")
    refused(lambda path: ms.load(path, model), tmp_path / "saved", trace, "it is damaged")


def test_postscript_is_given_to_no_program(
    tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pillow gives it to Ghostscript, which is a program here that leaves a trace."""
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {trace}\n")
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)
    content = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"
    for name in ("cat", "dog"):
        (tmp_path / "shapes" / name).mkdir(parents=True)
        for number in range(4):
            (tmp_path / "shapes" / name / f"{number}.png").write_bytes(content)
    with pytest.raises((ValueError, OSError), match="image"):
        load("image_folder", path=str(tmp_path / "shapes"))
    assert not trace.exists()


# Versions of dependencies with a hole that can be reached from here, or with foreign code in them.
UNSAFE = {
    "torch": "2.9.1",
    "lightning": "2.6.3",
    "skops": "0.12",
    "numcodecs": "0.16.5",
    "pillow": "12.1",
    "onnxruntime": "1.26",
    "onnx": "1.20",
    "pyarrow": "23.0.0",
}


@pytest.mark.parametrize("name", UNSAFE)
def test_no_version_with_a_known_hole_is_let_in(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [each for own in project["optional-dependencies"].values() for each in own]
    required = map(Requirement, (*project["dependencies"], *extras))
    found = [each.specifier for each in required if each.name == name]
    assert found
    assert not any(each.contains(UNSAFE[name]) for each in found)
