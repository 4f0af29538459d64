"""Exported graphs: the numbers of the value function, anchors included, in any batch."""

import json
import pickle
import pickletools
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.exports.graphs import ENCODED, PREDICTION, PredictionGraph
from manifold_shap.tables.rows import EncodedRows, codebook_of
from tests import examples
from tests.amortized import test_networks as networks

# Torch's own exporter makes these.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:onnx")
Run = Callable[[dict[str, Tensor]], Tensor]
MASKED: dict[str, Callable[[], examples.Made]] = {
    **{
        f"mlp, {space}": partial(examples.surrogate, space)
        for space in ("probability", "log_odds", "ilr")
    },
    **{
        kind: partial(examples.of_network, kind, "ilr")
        for kind in ("convolution", "patches", "tokens", "model")
    },
}
OTHERS = ["series", "own of pictures", "text", "padded mlp", "padded conv", "padded segments"]


def made(kind: str) -> tuple[ms.SurrogateValue, Tensor]:
    """A surrogate of random weights, and rows for it."""
    if kind in MASKED:
        value, x, *_ = MASKED[kind]()
        return value, x
    value = networks.made(kind)
    return value, networks.rows(value.players, 7, seed=1)


def onnx_run(path: Path) -> Run:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(inputs: dict[str, Tensor]) -> Tensor:
        (found,) = session.run(None, {name: each.numpy() for name, each in inputs.items()})
        return torch.from_numpy(found)

    return run


def torch_run(path: Path) -> Run:
    module = torch.export.load(path).module()
    return lambda inputs: module(**inputs)


def prediction(value: ms.SurrogateValue, x: Tensor) -> dict[str, Tensor]:
    """The third input, where the model is not in the graph: what the model returns."""
    if PredictionGraph(value).inside:
        return {}
    raw = value.model.predictor(value.model._rows(x)).float()
    return {PREDICTION: raw[:, None] if raw.ndim == 1 else raw}


def given(value: ms.SurrogateValue, x: Tensor) -> dict[str, Tensor]:
    """The inputs of a graph for these rows, but for the mask."""
    codebook = codebook_of(value.schema)
    rows = {"x": x} if codebook is None else {ENCODED: codebook.encode(x)}
    return {**rows, **prediction(value, x)}


def batches(x: Tensor, players: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows, and masks with the full and the empty coalition among them."""
    generator = torch.Generator().manual_seed(0)
    for rows in (1, 2, 5):
        for m in (1, 2, 3, 40):
            mask = torch.rand(rows, m, players, generator=generator) < 0.5
            mask[0, 0], mask[-1, -1] = True, False
            yield x[torch.arange(rows) % len(x)], mask


def check(value: Any, x: Tensor, run: Run, whole: ms.ValueFunction) -> None:
    for rows, mask in batches(x, len(value.players)):
        found = run({**given(value, rows), "mask": mask})
        torch.testing.assert_close(found, whole(rows, mask).float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [*MASKED, *OTHERS])
def test_onnx_gives_the_same_values_in_any_batch(kind: str, tmp_path: Path) -> None:
    value, x = made(kind)
    value.export(tmp_path / "v.onnx")
    check(value, x, onnx_run(tmp_path / "v.onnx"), value)


@pytest.mark.parametrize("kind", ["mlp, ilr", "convolution", "tokens", "padded segments"])
def test_an_archive_gives_the_same_values_in_any_batch(kind: str, tmp_path: Path) -> None:
    value, x = made(kind)
    value.export(tmp_path / "v.pt2")
    check(value, x, torch_run(tmp_path / "v.pt2"), value)


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        *((kind, ".onnx") for kind in ("mlp, ilr", "convolution", *OTHERS)),
        *((kind, ".pt2") for kind in ("mlp, ilr", "convolution", "series")),
    ],
)
def test_amortized_values_are_the_same_in_any_batch(kind: str, suffix: str, tmp_path: Path) -> None:
    value, x = made(kind)
    if kind == "mlp, ilr":
        few: Any = {"accelerator": "cpu", "limit_train_batches": 5}
        rows = examples.normal(64, 4, 2)
        explainer = ms.fit_amortized(value, rows, hidden=[8], max_epochs=1, trainer=few)
    else:
        explainer = networks.started(value)
    path = tmp_path / f"phi{suffix}"
    explainer.export(path)
    run = onnx_run(path) if suffix == ".onnx" else torch_run(path)
    for count in (1, 2, 5, 33):
        some = x[torch.arange(count) % len(x)]
        phi = run(given(value, some))
        torch.testing.assert_close(phi, explainer(some).float(), rtol=1e-5, atol=1e-5)
        change = (value.prediction(some) - value.base(some)).float()
        torch.testing.assert_close(phi.sum(1), change, rtol=1e-4, atol=1e-5)


def test_both_anchors_are_exact_and_the_empty_one_needs_no_network(tmp_path: Path) -> None:
    value, x = made("mlp, probability")
    value.export(tmp_path / "v.onnx")
    run, mask = onnx_run(tmp_path / "v.onnx"), torch.tensor([[[True] * 4, [False] * 4]])
    v = run({"x": x, "mask": mask.expand(len(x), -1, -1)})
    torch.testing.assert_close(v[:, 0], value.prediction(x).float())
    assert torch.equal(v[:, 1], value.expectation.expand(len(x), -1))
    assert (value.surrogate(x, mask[:, 1:].expand(len(x), -1, -1))[:, 0] != v[:, 1]).all()


@pytest.mark.parametrize("space", ["probability", "log_odds", "ilr"])
@pytest.mark.filterwarnings("ignore:.*probabilities of the model are exactly zero")
def test_a_model_of_another_library_is_an_input_and_its_zeros_are_replaced(
    space: str, tmp_path: Path
) -> None:
    frame = pd.DataFrame({"size": [float(k % 9) for k in range(60)], "town": ["a", "b", "c"] * 20})
    one_hot = pd.get_dummies(frame).to_numpy(float)
    trained = LogisticRegression().fit(one_hot, frame["size"] > 4)

    def model(some: pd.DataFrame) -> np.ndarray:
        wide = np.column_stack([some["size"], *(some["town"] == town for town in "abc")])
        return trained.predict_proba(wide.astype(float)).round(1)  # Some are 0.

    few: Any = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 3}}
    value = ms.fit_surrogate(model, frame, output=space, hidden=[8], **few)
    x = value.rows(frame.head(9))
    value.export(tmp_path / "v.onnx")
    returned = torch.from_numpy(model(frame.head(9))).float()
    assert (returned == 0).any()
    run = onnx_run(tmp_path / "v.onnx")
    mask = torch.rand(9, 5, 2, generator=torch.Generator().manual_seed(0)) < 0.5
    mask[:, 0] = True
    encoded = value.schema.encode(x)
    found = run({ENCODED: encoded, "mask": mask, PREDICTION: returned})
    torch.testing.assert_close(found, value(x, mask).float(), rtol=1e-5, atol=1e-5)


def test_numbers_of_a_regression_and_whole_numbers_go_to_the_model_as_they_are(
    tmp_path: Path,
) -> None:
    x = torch.arange(40).reshape(10, 4) % 7
    module = nn.Sequential(nn.Embedding(7, 3), nn.Flatten(), nn.Linear(12, 1), nn.Flatten(0))
    few: Any = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 3}}
    value = ms.fit_surrogate(module, x, output="identity", hidden=[8], **few)
    value.export(tmp_path / "v.onnx")
    assert [each.name for each in onnx.load(tmp_path / "v.onnx").graph.input] == ["x", "mask"]
    check(value, x.float(), onnx_run(tmp_path / "v.onnx"), value)


def test_a_network_of_encoded_rows_is_inside(tmp_path: Path) -> None:
    frame = pd.DataFrame({"size": [float(k % 9) for k in range(60)], "town": ["a", "b", "c"] * 20})
    codebook = ms.Codebook.fit(frame)
    module = nn.Sequential(nn.Linear(4, 3), nn.Softmax(-1))
    model = ms.as_model(module, EncodedRows(codebook))
    few: Any = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 3}}
    value = ms.fit_surrogate(model, frame, hidden=[8], **few)
    value.export(tmp_path / "v.onnx")
    assert [each.name for each in onnx.load(tmp_path / "v.onnx").graph.input] == [ENCODED, "mask"]
    new = frame.assign(size=frame["size"] + 0.5)
    check(value, value.rows(new), onnx_run(tmp_path / "v.onnx"), value)


def test_some_outputs_of_a_surrogate_and_of_an_explainer(tmp_path: Path) -> None:
    value, x, *_ = examples.of_network("convolution")
    assert isinstance(value, ms.SurrogateValue)
    some = value.select([1])
    some.export(tmp_path / "v.onnx")
    check(value, x, onnx_run(tmp_path / "v.onnx"), some)
    few: Any = {"accelerator": "cpu", "limit_train_batches": 2}
    rows = examples.normal(40, 4, 2).unflatten(1, (1, 2, 2))
    brief: Any = {"max_epochs": 1, "batch_size": 8, "trainer": few}
    explainer = ms.fit_amortized(value, rows, outputs=[1], hidden=[4, 8], **brief)
    explainer.export(tmp_path / "phi.onnx")
    torch.testing.assert_close(onnx_run(tmp_path / "phi.onnx")({"x": x}), explainer(x).float())


def test_a_file_says_what_it_is(tmp_path: Path) -> None:
    value, _ = made("series")
    value.export(tmp_path / "v.onnx", opset=18)
    model = onnx.load(tmp_path / "v.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert {(each.domain, each.version) for each in model.opset_import} == {("", 18)}
    sides = [
        [side.dim_param or side.dim_value for side in each.type.tensor_type.shape.dim]
        for each in (*model.graph.input, *model.graph.output)
    ]
    assert sides == [["batch", 2, 9], ["batch", "m", 3], ["batch", 2], ["batch", "m", 2]]
    about = {each.key: each.value for each in model.metadata_props}
    assert json.loads(about["players"]) == list(value.players.names)
    assert json.loads(about["outputs"]) == list(value.outputs)
    assert (about["output_space"], about["model"]) == ("identity", "input: values")
    value.export(tmp_path / "v.pt2")
    extra = {"manifold_shap.json": ""}
    torch.export.load(tmp_path / "v.pt2", extra_files=extra)
    assert json.loads(extra["manifold_shap.json"])["players"] == about["players"]


def _is_pickle(content: bytes) -> bool:
    try:
        # A STOP alone, as numbers may begin with, leaves nothing to load.
        return len(list(pickletools.genops(content))) > 1
    except Exception:
        return False


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_are_told_from_other_bytes(protocol: int) -> None:
    for what in (1.5, {"weights": [0.5, None]}, Path("v.onnx"), torch.float32):
        assert _is_pickle(pickle.dumps(what, protocol))
    assert not any(map(_is_pickle, (b"", b'{"weights": [0.5]}', b"little", b"1\n", b".z\xb6=")))


def test_nothing_is_pickled_and_no_folder_is_named(tmp_path: Path) -> None:
    value, _ = made("convolution")
    value.export(tmp_path / "v.onnx")
    value.export(tmp_path / "v.pt2")
    parts = {"v.onnx": (tmp_path / "v.onnx").read_bytes()}
    with zipfile.ZipFile(tmp_path / "v.pt2") as archive:
        parts |= {name: archive.read(name) for name in archive.namelist()}
    weights = [name for name in parts if "/weights/weight_" in name]
    assert len(weights) > 10
    root = str(Path(__file__).parents[2]).encode()
    for name, content in parts.items():
        assert not name.endswith((".pkl", ".pickle")), name
        assert not content.startswith((b"\x80", b"PK")), name
        assert not (name.endswith(".pt") and content), name
        assert root not in content, name
        assert not _is_pickle(content), name


def test_the_value_function_stays_as_it_was(tmp_path: Path) -> None:
    value, x = made("model")
    wanted = [each.requires_grad for each in value.surrogate.parameters()]
    before = value(x, torch.ones(len(x), 1, 4, dtype=torch.bool))
    value.export(tmp_path / "v.onnx")
    assert [each.requires_grad for each in value.surrogate.parameters()] == wanted
    assert any(wanted)
    assert torch.equal(value(x, torch.ones(len(x), 1, 4, dtype=torch.bool)), before)


def _bare() -> ms.ValueFunction:
    x = examples.normal(3, 4)
    return ms.as_value_function(lambda x, mask: (x[:, None] * mask).sum(-1, keepdim=True), x)


REFUSED: dict[str, Callable[[], ms.ValueFunction]] = {
    "ImputedValue": lambda: examples.imputed(ms.MarginalImputer(examples.normal(20, 4))).value,
    "GroupedValue": lambda: examples.surrogate().value.grouped({"both": ["x0", "x1"]}),
    "grouped by row": lambda: examples.grouped_by_row().value,
    "callable": _bare,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_network_is_refused_and_told_what_is(name: str, tmp_path: Path) -> None:
    value = REFUSED[name]()
    with pytest.raises(TypeError, match=r"one network but got .* Surrogates .* can be exported"):
        value.export(tmp_path / "v.onnx")
    assert not list(tmp_path.iterdir())


def test_each_that_is_refused_is_told_why_and_what_works(tmp_path: Path) -> None:
    model, x = nn.Linear(4, 2), examples.normal(40, 4)
    trainer = {"accelerator": "cpu", "limit_train_batches": 3}
    few: Any = {"max_epochs": 1, "hidden": [8], "trainer": trainer}
    retrained = ms.retrained_value(LinearRegression(), x, x.sum(1), output="identity")
    with pytest.raises(TypeError, match=r"from a model of each coalition.*of a single model\.$"):
        retrained.grouped({"both": ["x0", "x1"]}).export(tmp_path / "v.onnx")
    with pytest.raises(TypeError, match=r"take draws.*fit_surrogate\(model, x, teacher=value\)`"):
        REFUSED["ImputedValue"]().export(tmp_path / "v.onnx")
    with pytest.raises(TypeError, match=r"found row by row.*fit_surrogate\(model, x\)` learns"):
        REFUSED["grouped by row"]().export(tmp_path / "v.onnx")
    bare = REFUSED["callable"]()
    with pytest.raises(TypeError, match=r"may be anything.*\(value\.prediction, x, output="):
        bare.export(tmp_path / "v.onnx")
    taught: Any = {"output": bare.space, "teacher": bare, "teacher_pairs": 100}
    ms.fit_surrogate(bare.prediction, x, **taught, **few).export(tmp_path / "bare.onnx")
    grouped = ms.fit_surrogate(model, x, **few).grouped({"both": ["x0", "x1"]})
    with pytest.raises(TypeError, match=r"groups of those that the .*`players=value\.players`"):
        grouped.export(tmp_path / "v.onnx")
    instead = ms.fit_surrogate(model, x, players=grouped.players, **few)
    instead.export(tmp_path / "v.onnx")
    assert instead.players.names == ("both", "x2", "x3")


class Undecided(nn.Module):
    """A model that no exporter can trace: it asks for the numbers of a row."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :2] if float(x.sum()) > 0 else x[:, 2:]


def test_a_model_that_cannot_be_traced_may_be_an_input(tmp_path: Path) -> None:
    value, x = made("mlp, probability")
    players = value.players
    for model, inside in ((Undecided(), True), (lambda x: Undecided()(x), False)):
        wrapped = ms.as_model(model, x, classes=["a", "b"], returns="logits")
        base = torch.tensor([0.5, 0.5])
        network = examples.surrogate("log_odds").value.surrogate
        other = ms.SurrogateValue(network, wrapped, players, ms.LogOdds(), base[:1])
        if inside:
            with pytest.raises(ValueError, match=r"can trace but it failed .* `lambda x: model"):
                other.export(tmp_path / "v.onnx")
            assert not list(tmp_path.iterdir())
        else:
            other.export(tmp_path / "v.onnx")
            check(other, x, onnx_run(tmp_path / "v.onnx"), other)


@pytest.mark.parametrize(
    ("path", "opset", "says"),
    [
        ("v.pkl", None, r"ends in '\.onnx' or '\.pt2' but got"),
        ("v", None, r"ends in '\.onnx' or '\.pt2' but got"),
        ("v.pt2", 18, r"`opset` with '\.onnx' only"),
        ("v.onnx", 17, r"`opset` to be a whole number from 18 to \d+ but got 17"),
        ("v.onnx", 999, r"`opset` to be a whole number from 18 to \d+ but got 999"),
    ],
)
def test_paths_and_opsets_that_there_are_not(
    path: str, opset: int | None, says: str, tmp_path: Path
) -> None:
    value, _ = made("mlp, probability")
    with pytest.raises(ValueError, match=says):
        value.export(tmp_path / path, opset=opset)
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value, _ = made("mlp, probability")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ImportError, match=r"Expected onnxscript.*manifold_shap\[export\]"):
        value.export(tmp_path / "v.onnx")
    value.export(tmp_path / "v.pt2")


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
def test_a_url_is_written_to(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    value, x = made("mlp, probability")
    value.export(f"memory://exports/v{suffix}")
    assert not list(tmp_path.iterdir())
    (tmp_path / f"v{suffix}").write_bytes(fsspec.open(f"memory://exports/v{suffix}").open().read())
    run = onnx_run if suffix == ".onnx" else torch_run
    check(value, x, run(tmp_path / f"v{suffix}"), value)


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
def test_a_full_disk_leaves_what_was_there(
    suffix: str, tmp_path: Path, full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    value, _ = made("mlp, probability")
    path = tmp_path / f"v{suffix}"
    path.write_bytes(b"before")
    with full_disk(), pytest.raises(OSError, match="Nothing there was changed"):
        value.export(path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == b"before"
