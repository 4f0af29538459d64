"""Training a surrogate: what it learns, and that it can be stopped, repeated and reloaded."""

import itertools
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.coalitions import all_coalitions
from manifold_shap.surrogate.perceptron import Perceptron
from manifold_shap.surrogate.task import SurrogateTask

MASKS = all_coalitions(3)
EVERY_ROW = torch.tensor(list(itertools.product([0.0, 1.0], repeat=3)))
# Rows out of 100 with each value of three binary features; the first two go together.
COUNTS = torch.tensor([22, 18, 4, 6, 5, 5, 10, 30])
TABLE = EVERY_ROW.repeat_interleave(COUNTS, dim=0)


def classifier(x: Tensor) -> Tensor:
    """Probabilities of two classes, with an interaction."""
    p = torch.sigmoid(2 * x[:, 0] - 3 * x[:, 1] * x[:, 2] + x[:, 2])
    return torch.stack((1 - p, p), dim=-1)


def exact_values(space: str) -> Tensor:
    """E[T(f(X)) | x_S] under the joint table, for all 8 rows and 8 coalitions."""
    p = classifier(EVERY_ROW)
    outputs = ms.as_space(space)(p.log() if space in ("log_odds", "ilr") else p)
    values = torch.empty(8, 8, outputs.shape[1])
    for b, k in itertools.product(range(8), range(8)):
        agrees = (EVERY_ROW[:, MASKS[k]] == EVERY_ROW[b, MASKS[k]]).all(1)
        weight = agrees * COUNTS
        values[b, k] = (weight[:, None] * outputs).sum(0) / weight.sum()
    return values


def fit(**settings: Any) -> ms.SurrogateValue:
    """A surrogate of `classifier` trained for moments, unless `settings` say otherwise."""
    arguments: dict[str, Any] = {
        "x_validation": TABLE[::7], "hidden": [8], "max_epochs": 3, "batch_size": 16,
        "trainer": {"accelerator": "cpu", "limit_train_batches": 10},
    }  # fmt: skip
    model = settings.pop("model", classifier)
    return ms.fit_surrogate(model, settings.pop("x_train", TABLE), **{**arguments, **settings})


# Some hundred steps: enough for the tiny table.
LONGER = {
    "x_validation": TABLE, "hidden": [32], "max_epochs": 4, "batch_size": 512,
    "learning_rate": 0.02, "weight_averaging": 0.95,
    "trainer": {"accelerator": "cpu", "limit_train_batches": 50},
}  # fmt: skip


def weights(value: ms.SurrogateValue) -> Mapping[str, Tensor]:
    return value.surrogate.state_dict()


def assert_same_weights(a: ms.SurrogateValue, b: ms.SurrogateValue) -> None:
    assert weights(a).keys() == weights(b).keys()
    assert all(torch.equal(tensor, weights(b)[name]) for name, tensor in weights(a).items())


@contextmanager
def ctrl_c_at(step: int) -> Iterator[None]:
    """Send this process SIGINT, as Ctrl-C does, in the given training step of a surrogate."""
    steps = itertools.count()

    def interrupt(module: nn.Module, _: Any) -> None:
        if isinstance(module, Perceptron) and module.training and next(steps) == step:
            signal.raise_signal(signal.SIGINT)

    hook = nn.modules.module.register_module_forward_pre_hook(interrupt)
    try:
        yield
    finally:
        hook.remove()


@pytest.mark.parametrize(("space", "tolerance"), [("probability", 0.04), ("log_odds", 0.15)])
def test_the_surrogate_learns_the_conditional_expectation(space: str, tolerance: float) -> None:
    value = fit(output=space, **LONGER)
    learned, exact = value(EVERY_ROW, MASKS.expand(8, -1, -1)), exact_values(space)
    # Over the rows the exact values of one coalition differ by far more than the tolerance.
    assert (exact.amax(0) - exact.amin(0)).max() > 10 * tolerance
    assert (learned - exact).abs().max() < tolerance


@pytest.mark.parametrize("space", ["probability", "log_odds", "ilr", "identity"])
def test_every_space_trains_and_keeps_its_anchors(space: str) -> None:
    value = fit(output=space, max_epochs=1)
    values = value(EVERY_ROW, MASKS.expand(8, -1, -1))
    exact = exact_values(space) if space != "identity" else exact_values("probability")
    torch.testing.assert_close(values[:, 0], exact[:, 0])
    torch.testing.assert_close(values[:, -1], exact[:, -1])
    assert ms.exact_shapley(value, EVERY_ROW).efficiency_gap < 1e-5


def test_the_loss_is_the_mean_squared_error_over_coalitions_and_outputs() -> None:
    settings = {
        "event": [3], "index": [0, 1, 2], "players": "abc", "outputs": "01",
        "network": {"kind": "mlp", "hidden": [8]}, "elements": None, "padding": None, "blocks": 0,
        "space": {"output": "probability"}, "teacher": None, "seed": 0,
    }  # fmt: skip
    task, x, target = SurrogateTask(settings), EVERY_ROW[:5], torch.rand(5, 2)
    mask = task.law.sample_antithetic((5,), torch.Generator().manual_seed(9))
    found = task.loss((x, target), torch.Generator().manual_seed(9)).detach().numpy()
    g, t = task.surrogate(x, mask).detach().numpy(), target.numpy()
    expected = [np.mean([[(g[b, k] - t[b]) ** 2] for k in range(2)]) for b in range(5)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("unit", [1e25])
def test_a_regression_is_learned_alike_in_any_unit(unit: float) -> None:
    def of(unit: float) -> Tensor:
        model = ms.as_model(lambda x: unit * (1 + classifier(x)), TABLE, returns="values")
        value = fit(model=model, output="identity", **LONGER)
        assert 0 < value.training_record["validation"] < 1
        return value(EVERY_ROW, MASKS[1:-1].expand(8, -1, -1)) / unit

    expected = of(1.0)
    assert (of(unit) - expected).abs().max() < 0.03 * expected.std()


def test_players_are_the_columns_of_the_schema() -> None:
    frame = pd.DataFrame({"colour": ["red", "green", "blue", "red"] * 10, "size": range(40)})
    schema = ms.Schema.fit(frame)
    rows = schema.encode(frame)
    model = lambda x: torch.stack((x[:, 0], 1 - x[:, 0]), 1)  # noqa: E731
    value = fit(model=model, x_train=rows, x_validation=rows[:9], schema=schema, max_epochs=1)
    assert value.players.names == ("colour", "size")
    assert value.players.index.tolist() == [0, 0, 0, 1]
    with pytest.raises(ValueError, match=r"`x_train` with 4 elements in a row, .* \(40, 3\)"):
        fit(model=model, x_train=rows[:, :3], x_validation=None, schema=schema)


def test_names_of_numpy_come_back_from_the_file(tmp_path: Path) -> None:
    players = ms.Players.of_elements((3,), [np.str_(name) for name in "abc"])
    value = fit(players=players, max_epochs=1, learning_rate=np.float64(1e-3))
    value.save(tmp_path / "surrogate.ckpt")
    loaded = ms.load_surrogate(tmp_path / "surrogate.ckpt", classifier)
    assert loaded.players.names == ("a", "b", "c")


def test_same_seed_same_weights() -> None:
    first = fit(seed=3)
    torch.rand(5)
    assert_same_weights(fit(seed=3), first)
    other = fit(seed=4)
    assert not torch.equal(weights(other)["first.weight"], weights(first)["first.weight"])


def test_rows_are_not_changed() -> None:
    before = TABLE.clone()
    fit()
    assert torch.equal(TABLE, before)


def test_a_training_that_stopped_early_is_finished(tmp_path: Path) -> None:
    settings = {"max_epochs": 40, "patience": 1, "learning_rate": 0.05, "schedule": "constant"}
    first = fit(**settings, directory=tmp_path)
    assert first.training_record["epochs"] < 40
    again = fit(**settings, directory=tmp_path)
    assert_same_weights(again, first)
    assert again.training_record["epochs"] == first.training_record["epochs"]


def frame_schema() -> ms.Schema:
    return ms.Schema(tuple(ms.Column(name, "binary", ("nein", "ja")) for name in ("a", "b", "c")))


def test_round_trip_through_a_file(tmp_path: Path) -> None:
    players = ms.Players(("left", "right"), torch.tensor([0, 1, 1]))
    value = fit(players=players, schema=frame_schema(), output=ms.ILR(0.01))
    value.save(tmp_path / "surrogate.ckpt")
    loaded = ms.load_surrogate(tmp_path / "surrogate.ckpt", classifier)
    mask = all_coalitions(2).expand(8, -1, -1)
    assert torch.equal(loaded(EVERY_ROW, mask), value(EVERY_ROW, mask))
    assert loaded.players.names == players.names
    assert torch.equal(loaded.players.index, players.index)
    assert (loaded.space, loaded.outputs, loaded.schema) == (
        value.space,
        value.outputs,
        value.schema,
    )
    assert torch.equal(loaded.expectation, value.expectation)


def test_loading_with_another_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "surrogate.ckpt"
    fit(max_epochs=1).save(path)
    with pytest.raises(ValueError, match=r"this one predicts otherwise \(by up to"):
        ms.load_surrogate(path, lambda x: classifier(1 - x))
    three = lambda x: torch.full((len(x), 3), 1 / 3)  # noqa: E731
    with pytest.raises(ValueError, match=r"Expected a model with outputs \['0', '1'\]"):
        ms.load_surrogate(path, three)
    with pytest.raises(TypeError, match="Expected `model` to be a torch module"):
        ms.load_surrogate(path, None)


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"schedule": "linear"}, ValueError, "Expected `schedule` to be one of .* got 'linear'"),
        ({"activation": "tanh"}, ValueError, "Expected `activation` to be one of"),
        ({"output": "logits"}, ValueError, "Expected `output` to be one of"),
        ({"hidden": []}, ValueError, "Expected `hidden` to list layer widths, at least 1 of them"),
        ({"x_train": TABLE / 0}, ValueError, "300 of 300 entries of `x_train` are"),
        (
            {"x_validation": TABLE[:, :2]},
            ValueError,
            r"`x_validation` of shape \(rows, 3\)",
        ),
        ({"x_train": np.array(["row"]), "players": None}, TypeError, "Expected `x_train` to be"),
        ({"x_train": TABLE[:1], "x_validation": None}, ValueError, "at least 2 training rows"),
        ({"model": lambda x: x}, ValueError, "Expected the model to return a distribution"),
        ({"model": 3}, TypeError, "Expected `model` to be a torch module"),
        ({"batch_size": 0}, ValueError, "Expected `batch_size` to be a whole number of at least 1"),
        ({"players": ms.Players.of_elements((2,))}, ValueError, r"`x_train` of shape \(rows, 2\)"),
    ],
)
def test_errors(settings: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        fit(**settings)


@pytest.mark.gpu
def test_training_on_a_gpu_gives_a_value_function_that_moves() -> None:
    value = fit(**{**LONGER, "trainer": {"accelerator": "gpu", "limit_train_batches": 50}})
    assert value.device.type == "cpu"
    here = ms.permutation_shapley(value, EVERY_ROW, permutations=6)
    there = ms.permutation_shapley(value.to("cuda"), EVERY_ROW, permutations=6)
    torch.testing.assert_close(there.phi, here.phi, rtol=1e-3, atol=1e-4)
    learned = value(EVERY_ROW, MASKS.expand(8, -1, -1)).cpu()
    torch.testing.assert_close(learned, exact_values("probability"), rtol=0, atol=0.04)


def test_a_model_of_whole_numbers_sees_whole_numbers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(5, 3), torch.nn.Flatten(), torch.nn.Linear(6, 2))
    tokens = torch.randint(0, 5, (30, 2), generator=torch.Generator().manual_seed(0))
    few = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 2}}
    for x in (tokens, tokens.numpy()):
        value = ms.fit_surrogate(model, x, hidden=[4], **few)
        prediction = ms.exact_shapley(value, x[:3]).prediction
        assert torch.allclose(prediction, model(tokens[:3]).softmax(-1), atol=1e-6)
    value.save(tmp_path / "surrogate.ckpt")
    loaded = ms.load_surrogate(tmp_path / "surrogate.ckpt", model)
    mask = ms.shapley_pairs(3, 2, least=6)
    assert torch.equal(loaded(tokens[:3], mask), value(tokens[:3], mask))
