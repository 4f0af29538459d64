"""Everything that is learned is saved to a folder, and loaded as what it was."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd
import pytest
import skops.io
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

import manifold_shap as ms
from manifold_shap import imputers as imp

X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
MASK = torch.rand(3, 5, 4, generator=torch.Generator().manual_seed(1)) > 0.5
FEW: Any = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 2}}
FRAME = pd.DataFrame(
    {"age": X[:, 0].numpy(), "town": np.where(X[:, 1] > 0, "Oslo", "Rome"), "rooms": range(60)}
)
TREES = LogisticRegression().fit(FRAME[["age", "rooms"]], FRAME["age"] > 0)
FILES = {"manifold_shap.json", "tensors.safetensors"}


def model(x: Tensor) -> Tensor:
    return x[:, :3].softmax(-1)


def of_frame(frame: pd.DataFrame) -> Any:
    return TREES.predict_proba(frame[["age", "rooms"]])


def surrogate(**more: Any) -> ms.SurrogateValue:
    return ms.fit_surrogate(model, X, hidden=[8], **FEW, **more)


def guided() -> ms.SurrogateValue:
    mixture = imp.MixtureImputer(X, components=2)
    teacher = ms.imputed_value(model, mixture, draws=4)
    return surrogate(guide=mixture, teacher=teacher, teacher_pairs=64)


def table(kind: Any, frame: pd.DataFrame = FRAME) -> ms.ValueFunction:
    table = ms.Table.fit(frame)
    wrapped = ms.as_model(of_frame, table)
    if kind == "vae":
        imputer = ms.fit_imputer(frame, table=table, latent=2, hidden=[8], temper=1.0, **FEW)
    else:
        imputer = imp.table_imputer(kind, table, frame)
    return ms.imputed_value(wrapped, imputer, draws=4, seed=3)


MADE: dict[str, Callable[[], Any]] = {
    **{
        kind.name: lambda kind=kind: ms.imputed_value(model, kind(X), draws=8)
        for kind in (
            imp.MarginalImputer, imp.GaussianImputer, imp.CopulaImputer, imp.MixtureImputer,
            imp.ContrastiveImputer,
        )
    },
    "bandwidth for targets": lambda: ms.imputed_value(
        model, imp.EmpiricalImputer(X, bandwidth="aicc", targets=model(X)), draws=8
    ),
    "baseline": lambda: ms.imputed_value(model, imp.BaselineImputer(X[0]), "ilr"),
    "causal": lambda: ms.imputed_value(
        model, imp.CausalImputer(imp.GaussianImputer(X), [["x1"], ["x0", "x2", "x3"]]), draws=8
    ),
    "vae": lambda: ms.imputed_value(
        model, ms.fit_imputer(X, latent=2, hidden=[8], temper=0.6, **FEW), draws=4
    ),
    "surrogate": surrogate,
    "guided": guided,
    "table, gaussian": lambda: table(imp.GaussianImputer),
    "table, marginal": lambda: table(imp.MarginalImputer),
    "table, vae": lambda: table("vae"),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
@pytest.mark.filterwarnings("ignore:.*exactly zero")
def test_a_value_function_is_what_it_was(name: str, tmp_path: Path) -> None:
    value = MADE[name]()
    of_table = name.startswith("table")
    ms.save(value, tmp_path)
    again = ms.load(tmp_path, of_frame if of_table else model)
    x: Any = FRAME[:3] if of_table else X[:3]
    mask = MASK[..., :3] if of_table else MASK
    assert torch.equal(again(x, mask), value(x, mask))
    assert again.provenance == value.provenance
    assert type(again) is type(value)
    assert {path.name for path in tmp_path.iterdir()} == FILES
    if not of_table:
        named = ms.as_model(model, X, ["a", "b", "c"])
        assert ms.load(tmp_path, named).classes == named.classes
        with pytest.raises(ValueError, match="returned 4 columns"):
            ms.load(tmp_path, ms.as_model(lambda x: x.softmax(-1), X, list("abcd")))
    with pytest.raises(ValueError, match="got none"):
        ms.load(tmp_path)
    with pytest.raises(ValueError, match="this one predicts otherwise"):
        ms.load(tmp_path, lambda x: of_frame(x)[:, ::-1] if of_table else model(x).flip(-1))


def test_imputers_and_amortised_explainers_are_what_they_were(tmp_path: Path) -> None:
    mixture = imp.MixtureImputer(X, components=2)
    ms.save(mixture, tmp_path)
    again = ms.load(tmp_path)
    assert torch.equal(again.log_prob(X[:3]), mixture.log_prob(X[:3]))
    explainer = ms.fit_amortized(surrogate(), X, hidden=[8], **FEW)
    explainer.relative_error = 0.25
    ms.save(explainer, tmp_path)
    loaded = ms.load(tmp_path, model)
    assert torch.equal(loaded(X[:3]), explainer(X[:3]))
    assert loaded.relative_error == 0.25
    assert torch.equal(
        ms.amortized_shapley(loaded.value, X[:2], explainer=loaded).phi, explainer(X[:2])
    )


@cache
def explainer() -> ms.Explainer:
    return ms.Explainer(of_frame, FRAME, candidates=["gaussian", "copula"], progress=False)


pytestmark = pytest.mark.filterwarnings("ignore:(Of the candidates|No value repeats|Columns)")


def test_an_explainer_is_what_it_was(tmp_path: Path) -> None:
    ms.save(explainer(), tmp_path)
    loaded = ms.load(tmp_path, of_frame)
    one, other = (each(FRAME[:3], evaluations=40) for each in (explainer(), loaded))
    assert torch.equal(one.phi, other.phi)
    assert one.made_by == other.made_by
    assert loaded.quality == explainer().quality
    with pytest.raises(ValueError, match="rows to learn from"):
        loaded(FRAME[:3], halves=2)
    with pytest.raises(KeyError, match=r"all that a loaded explainer has, but got 'marginal'"):
        loaded.candidates["marginal"]
    with pytest.raises(ValueError, match=r"something else stands there; `ms.load` reads"):
        ms.Explanation.load(tmp_path)
    for name in ("e.zarr", "e.zip"):
        one.save(tmp_path / name)
        with pytest.raises(ValueError, match=r"an explanation; `ms.Explanation.load` reads it"):
            ms.load(tmp_path / name)


def test_settings_are_json_and_shared_rows_are_there_once(tmp_path: Path) -> None:
    ms.save(explainer(), tmp_path)
    plain = json.loads((tmp_path / "manifold_shap.json").read_text())
    kinds = [thing["kind"] for thing in plain["things"]]
    assert kinds.count("table") == kinds.count("model") == 1
    codes = {each["tensors"].get("codes") for each in plain["things"]} - {None}
    assert len(codes) == 1
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 30_000
    (tmp_path / "usual").touch()
    assert len({path.stat().st_mode for path in tmp_path.iterdir()}) == 1


def test_other_files_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "mine"
    ms.save(surrogate(), "~/mine")
    (folder / ".DS_Store").write_text("mine")
    (folder / "notes.txt").write_text("mine")
    value = surrogate(seed=1)
    ms.save(value, folder)
    assert torch.equal(ms.load("~/mine", model)(X[:3], MASK), value(X[:3], MASK))
    assert {path.name for path in folder.iterdir()} == FILES | {".DS_Store", "notes.txt"}


@pytest.mark.parametrize("name", sorted(FILES))
def test_files_of_something_else_are_not_replaced(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"format": "other"}')
    with pytest.raises(FileExistsError, match="name another folder"):
        ms.save(surrogate(), tmp_path)
    assert (tmp_path / name).read_text() == '{"format": "other"}'
    assert len(list(tmp_path.iterdir())) == 1


def test_a_full_disk_leaves_what_was_there(
    tmp_path: Path, full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    value = surrogate()
    ms.save(value, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with full_disk(), pytest.raises(OSError):  # noqa: PT011
        ms.save(surrogate(seed=1), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("manifold_shap.json", lambda content: b"{", "is none"),
        ("manifold_shap.json", lambda content: b"[1]", "is none"),
        (
            "manifold_shap.json",
            lambda content: content.replace(b"shap 3", b"shap 9"),
            "there is none",
        ),
        ("tensors.safetensors", lambda content: content[:-1] + b"\x7f", "damaged"),
        ("tensors.safetensors", None, "tensors.safetensors"),
    ],
)
def test_a_damaged_folder_is_refused(tmp_path: Path, name: str, damage: Any, message: str) -> None:
    ms.save(surrogate(), tmp_path)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).unlink() if damage is None else (tmp_path / name).write_bytes(damage(content))
    with pytest.raises((ValueError, OSError), match=message):
        ms.load(tmp_path, model)
    with pytest.raises(ValueError, match="correct the path"):
        ms.load(tmp_path / "nowhere", model)


@pytest.mark.parametrize(
    ("thing", "error", "message"),
    [
        (model, TypeError, "got function, which cannot be saved"),
        (surrogate().grouped([0, 0, 1, 1]), TypeError, "GroupedValue, .* saved; save its `value`"),
        (ms.text.Vocabulary(["a"]), TypeError, r"Vocabulary, .* a `save\(path\)` of its own"),
    ],
)
def test_what_cannot_be_saved(
    tmp_path: Path, thing: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ms.save(thing, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    with pytest.raises(ValueError, match="path of this machine"):
        ms.save(surrogate(), "s3://bucket/folder")


class Shifted(ms.imputers.GaussianImputer):
    """An imputer of a user's, with what it inherits."""


class GaussianImputer(ms.imputers.MarginalImputer):
    """Another one, of this name."""


def test_imputers_of_the_users_come_back_as_what_they_are(tmp_path: Path) -> None:
    for kind in (ms.imputers.GaussianImputer, GaussianImputer, Shifted):
        ms.save(kind(X), tmp_path)
        assert type(ms.load(tmp_path)) is kind
    text = (tmp_path / "manifold_shap.json").read_text()
    (tmp_path / "manifold_shap.json").write_text(text.replace("Shifted", "Unknown"))
    with pytest.raises(ValueError, match="Unknown, which is not there; import"):
        ms.load(tmp_path)


# With the model's file.

NUMBERS = FRAME[["age", "rooms"]]


@cache
def of_numbers() -> ms.Explainer:
    return ms.Explainer(TREES, NUMBERS, candidates=["gaussian"], progress=False)


def test_the_model_may_lie_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, folder = tmp_path / "trees.skops", tmp_path / "folder"
    skops.io.dump(TREES, file)
    monkeypatch.setenv("HOME", str(tmp_path))
    ms.save(of_numbers(), folder, model_file="~/trees.skops")
    assert {path.name for path in folder.iterdir()} == FILES | {"model.skops"}
    one, other = (each(NUMBERS[:3], evaluations=40) for each in (of_numbers(), ms.load(folder)))
    assert torch.equal(one.phi, other.phi)
    (folder / "model.skops").write_bytes(file.read_bytes()[:-9])
    with pytest.raises(ValueError, match="damaged"):
        ms.load(folder)
    assert torch.equal(ms.load(folder, TREES)(NUMBERS[:3], evaluations=40).phi, one.phi)
    ms.save(of_numbers(), folder)
    assert {path.name for path in folder.iterdir()} == FILES


@pytest.mark.parametrize("name", ["../model.skops", "/model.skops", "model.pkl"])
def test_no_file_beyond_the_folder_is_opened(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "folder"
    ms.save(of_numbers(), folder)
    skops.io.dump(TREES, tmp_path / "model.skops")
    (folder / "model.pkl").write_bytes(b"cos\nsystem\n")
    plain = json.loads((folder / "manifold_shap.json").read_text())
    plain["model"] = name
    (folder / "manifold_shap.json").write_text(json.dumps(plain))
    with pytest.raises(ValueError, match="got none"):
        ms.load(folder)


def test_a_file_of_another_model_is_an_error_before_anything_is_written(tmp_path: Path) -> None:
    skops.io.dump(LogisticRegression().fit(NUMBERS, NUMBERS["rooms"] > 9), tmp_path / "o.skops")
    (tmp_path / "model.pkl").touch()
    for file, error, message in (
        ("o.skops", ValueError, "predicts otherwise"),
        ("model.pkl", ValueError, r"Refused to load .*model\.pkl"),
        ("nosuch.skops", FileNotFoundError, r"nosuch\.skops"),
    ):
        with pytest.raises(error, match=message):
            ms.save(of_numbers(), tmp_path / "folder", model_file=tmp_path / file)
    assert not list((tmp_path / "folder").iterdir())


def test_a_model_that_needs_files_beside_it_is_refused(tmp_path: Path) -> None:
    weights = onnx.numpy_helper.from_array(np.ones((2, 1), dtype="float32"), "weights")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "weights"], ["y"])],
        "sums",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["rows", 2])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["rows", 1])],
        [weights],
    )
    opsets = [onnx.helper.make_opsetid("", 18)]
    made = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    file = tmp_path / "sums.onnx"
    onnx.save(made, file)
    wrapped = ms.as_model(str(file), X[:, :2], returns="values")
    value = ms.imputed_value(wrapped, imp.GaussianImputer(X[:, :2]), "identity", draws=4)
    ms.save(value, tmp_path / "folder", model_file=file)
    external: Any = {"save_as_external_data": True, "size_threshold": 0, "location": "sums.data"}
    onnx.save(made, file, **external)
    with pytest.raises(ValueError, match=r"sums\.data"):
        ms.save(value, tmp_path / "other", model_file=file)
