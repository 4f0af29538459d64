"""Exported graphs: the numbers of the value function, anchors included, in any batch."""

import itertools
import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import manifold_shap as ms
from tests import examples
from tests.amortized import test_networks as networks

# Torch's own exporter makes these.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:onnx")
Run = Callable[[dict[str, Tensor]], Tensor]
ROOT = Path(__file__).parents[2]


def of_whole_numbers() -> examples.Made:
    """A regression by embedded numbers, which goes into the graph."""
    x = torch.arange(40).reshape(10, 4) % 7
    module = nn.Sequential(nn.Embedding(7, 3), nn.Flatten(), nn.Linear(12, 1), nn.Flatten(0))
    few: Any = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 3}}
    value = ms.fit_surrogate(module, x, space="identity", hidden=[8], **few)
    return examples.Made(value, x.float())


MADE: dict[str, Callable[[], examples.Made]] = {
    "mlp, probability": partial(examples.surrogate, "probability"),
    "mlp, log_odds": partial(examples.surrogate, "log_odds"),
    "mlp, ilr": partial(examples.surrogate, "ilr"),
    **{
        kind: partial(examples.of_network, kind, "ilr")
        for kind in ("convolution", "patches", "tokens", "model")
    },
    "whole numbers": of_whole_numbers,
}
# Of these the model, or the explainer, is a function.
OTHERS = ["conv of series", "own", "text", "padded mlp", "padded conv", "padded segments"]
QUICK = ["mlp, probability", "model"]
QUICK_PHI = ["mlp, ilr"]


def some_slow(kinds: list[str], quick: list[str]) -> list[Any]:
    slow = [pytest.param(kind, marks=pytest.mark.slow) for kind in kinds if kind not in quick]
    return [*quick, *slow]


@cache
def made(kind: str) -> tuple[ms.SurrogateValue, Tensor]:
    """A surrogate of random weights, and rows for it."""
    if kind in MADE:
        value, x, *_ = MADE[kind]()
        assert isinstance(value, ms.SurrogateValue)
        return value, x
    value = networks.made(kind)
    # Its own v(N) is the network's, which would hide whether it is the model's.
    model, returns = value.model, value.model.returns
    value.model = ms.Model(lambda x: model(x, scale=returns).flip(-1), model.classes, returns)
    return value, networks.rows(value.players, 7, seed=1)


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The file of each kind of value function, written once."""

    @cache
    def file(kind: str) -> Path:
        path = tmp_path_factory.mktemp("v") / "v.onnx"
        made(kind)[0].export(path)
        return path

    return file


def onnx_run(path: Path) -> Run:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(inputs: dict[str, Tensor]) -> Tensor:
        (found,) = session.run(None, {name: each.numpy() for name, each in inputs.items()})
        return torch.from_numpy(found)

    return run


def given(value: ms.SurrogateValue, x: Tensor, path: Path) -> dict[str, Tensor]:
    """The inputs of a graph for these rows, but for the mask: what its model returns, too."""
    if "prediction" not in [each.name for each in onnx.load(path).graph.input]:
        return {"x": x}
    return {"x": x, "prediction": value.model(x, scale=value.model.returns).float()}


def check(value: ms.SurrogateValue, x: Tensor, path: Path, whole: ms.ValueFunction) -> None:
    """Of any numbers of rows and masks, the full and the empty coalition among them."""
    run, generator = onnx_run(path), torch.Generator().manual_seed(0)
    for rows, m in itertools.product((1, 2, 5), (1, 3, 40)):
        mask = torch.rand(rows, m, len(value.players), generator=generator) < 0.5
        mask[0, 0], mask[-1, -1] = True, False
        some = x[torch.arange(rows) % len(x)]
        found = run({**given(value, some, path), "mask": mask})
        torch.testing.assert_close(found, whole(some, mask).float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", some_slow([*MADE, *OTHERS], QUICK))
def test_values_are_the_same_in_any_batch(kind: str, exported: Callable[[str], Path]) -> None:
    value, x = made(kind)
    check(value, x, exported(kind), value)
    assert ("prediction" in given(value, x, exported(kind))) == (kind in OTHERS)


@pytest.mark.parametrize("kind", some_slow(["mlp, ilr", "convolution", *OTHERS], QUICK_PHI))
def test_amortized_values_are_the_same_in_any_batch(kind: str, tmp_path: Path) -> None:
    value, x = made(kind)
    if kind == "mlp, ilr":
        few: Any = {"accelerator": "cpu", "limit_train_batches": 5}
        rows = examples.normal(64, 4, 2)
        explainer = ms.fit_amortized(value, rows, hidden=[8], max_epochs=1, trainer=few)
    else:
        explainer = networks.started(value)
    path = tmp_path / "phi.onnx"
    explainer.export(path)
    about = {each.key: each.value for each in onnx.load(path).metadata_props}
    assert json.loads(about["players"]) == list(value.players.names)
    run = onnx_run(path)
    for count in (1, 2, 33):
        some = x[torch.arange(count) % len(x)]
        phi = run(given(value, some, path))
        torch.testing.assert_close(phi, explainer(some).float(), rtol=1e-5, atol=1e-5)
        change = (value.prediction(some) - value.base(some)).float()
        torch.testing.assert_close(phi.sum(1), change, rtol=1e-4, atol=1e-5)


def test_some_outputs_of_a_surrogate(tmp_path: Path) -> None:
    value, x = made("mlp, probability")
    value.select([1]).export(tmp_path / "v.onnx")
    check(value, x, tmp_path / "v.onnx", value.select([1]))


def test_a_file_says_what_it_is(exported: Callable[[str], Path]) -> None:
    value, _ = made("padded segments")
    path = exported("padded segments")
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert {each.domain for each in model.opset_import} == {""}
    sides = [
        [side.dim_value for side in each.type.tensor_type.shape.dim]
        for each in (*model.graph.input, *model.graph.output)
    ]
    assert sides == [[0, 2, 9], [0, 0, 5], [0, 3], [0, 0, 3]]
    about = {each.key: each.value for each in model.metadata_props}
    assert json.loads(about["players"]) == list(value.players.names)
    assert json.loads(about["outputs"]) == list(value.outputs)
    assert (about["output_space"], about["model"]) == ("identity", "input: values")
    assert str(ROOT).encode() not in path.read_bytes()


def test_the_value_function_stays_as_it_was(exported: Callable[[str], Path]) -> None:
    value, x = made("model")
    every = torch.ones(len(x), 1, 4, dtype=torch.bool)
    before = value(x, every)
    exported("model")
    assert any(each.requires_grad for each in value.surrogate.parameters())
    assert torch.equal(value(x, every), before)


@pytest.mark.parametrize("make", [examples.grouped_by_row, examples.retrained])
def test_what_is_no_network_is_refused_and_told_what_is(
    make: Callable[[], examples.Made], tmp_path: Path
) -> None:
    with pytest.raises(TypeError, match=r"one network, .* but got .*`ms\.fit_surrogate\(.*teacher"):
        make().value.export(tmp_path / "v.onnx")
    assert not list(tmp_path.iterdir())


class Undecided(nn.Module):
    """A model that no exporter can trace: it asks for the numbers of a row."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :2] if float(x.sum()) < torch.inf else x[:, 2:]


def test_a_model_that_cannot_be_traced_may_be_an_input(tmp_path: Path) -> None:
    x, players = examples.normal(7, 4), ms.Players.of_elements((4,))
    few: Any = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 3}}
    few |= {"space": "identity", "hidden": [8], "players": players}
    inside = ms.fit_surrogate(ms.as_model(Undecided(), x, returns="values"), x, **few)
    with pytest.raises(ValueError, match=r"(?s)can trace .* but it failed .* `lambda x: model"):
        inside.export(tmp_path / "v.onnx")
    assert not list(tmp_path.iterdir())
