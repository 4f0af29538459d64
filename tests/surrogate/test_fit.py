"""Training a surrogate: what it learns, and that it can be stopped, repeated and reloaded."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.surrogate.fit import SurrogateTask
from tests.learned import (
    LONGER,
    MASKS,
    ROWS,
    TABLE,
    classifier,
    exact_values,
    fit,
    of_three,
)

EVERY = MASKS.expand(8, -1, -1)


@pytest.mark.parametrize(
    ("space", "tolerance", "model"),
    [("probability", 0.04, of_three), ("log_odds", 0.15, classifier), ("ilr", 0.15, of_three)],
)
def test_the_surrogate_learns_the_conditional_expectation(
    space: str, tolerance: float, model: Any
) -> None:
    before = TABLE.clone()
    value = fit(model, space=space, **LONGER)
    learned, exact = value(ROWS, EVERY), exact_values(space, model)
    # Over the rows the exact values of one coalition differ by far more than the tolerance.
    assert (exact.amax(0) - exact.amin(0)).max() > 8 * tolerance
    assert (learned - exact).abs().max() < tolerance
    torch.testing.assert_close(learned[:, [0, -1]], exact[:, [0, -1]])
    assert torch.equal(TABLE, before)


def test_the_loss_is_the_mean_squared_error_over_coalitions_and_outputs() -> None:
    settings = {
        "event": [3], "index": [0, 1, 2], "players": "abc", "outputs": "01",
        "network": {"kind": "mlp", "hidden": [8]}, "elements": None, "padding": None, "blocks": 0,
        "space": {"space": "probability"}, "teacher": None, "guide": None, "seed": 0,
    }  # fmt: skip
    task, x, target = SurrogateTask(settings), ROWS[:5], torch.rand(5, 2)
    mask = task.law.sample_antithetic((5,), torch.Generator().manual_seed(9))
    found = task.loss((x, target), torch.Generator().manual_seed(9))
    expected = (task.surrogate(x, mask) - target[:, None]).square().mean((1, 2))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("event", "kind", "players"), [((3, 8, 8), "conv", 64), ((2, 6), "mlp", 12), ((7,), "mlp", 7)]
)
def test_pictures_have_a_convolution_of_pixels(event: Any, kind: str, players: int) -> None:
    x = torch.randn(20, *event)
    few = {"hidden": [4], "max_epochs": 1, "trainer": {"limit_train_batches": 1}}
    value = ms.fit_surrogate(lambda x: x.flatten(1)[:, :2].softmax(-1), x, **few)
    assert value.task.settings["network"]["kind"] == kind
    assert len(value.players) == players


def test_a_regression_is_learned_alike_in_any_unit() -> None:
    def of(unit: float) -> Tensor:
        model = ms.as_model(lambda x: unit * (1 + classifier(x)), TABLE, returns="values")
        value = fit(model, space="identity", **LONGER)
        assert 0 < value.training_record["validation"] < 1
        return value(ROWS, EVERY[:, 1:-1]) / unit

    expected = of(1.0)
    assert (of(1e25) - expected).abs().max() < 0.03 * expected.std()


@pytest.mark.gpu
def test_training_on_a_gpu_gives_a_value_function_that_moves() -> None:
    value = fit(**{**LONGER, "trainer": {"accelerator": "gpu", "limit_train_batches": 50}})
    assert value.device.type == "cpu"
    learned = value.to("cuda")(ROWS, EVERY).cpu()
    torch.testing.assert_close(learned, exact_values(), rtol=0, atol=0.04)


def test_a_model_of_whole_numbers_sees_whole_numbers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(5, 3), torch.nn.Flatten(), torch.nn.Linear(6, 2))
    tokens = torch.randint(0, 5, (30, 2), generator=torch.Generator().manual_seed(0))
    value = fit(model, tokens, max_epochs=1, x_validation=None)
    prediction = ms.exact_shapley(value, tokens[:3]).prediction
    torch.testing.assert_close(prediction, model(tokens[:3]).softmax(-1).detach())
    ms.save(value, tmp_path)
    loaded = ms.load(tmp_path, model)
    mask = ms.metrics.shapley_pairs(3, 2, least=6)
    assert torch.equal(loaded(tokens[:3], mask), value(tokens[:3], mask))


MEMORY = """
import sys, numpy as np, torch
import manifold_shap as ms
peak = 0
def predicted(x):
    global peak
    own = next(l for l in open("/proc/self/status") if l.startswith("RssAnon"))
    peak = max(peak, int(own.split()[1]))
    return x[:, :3].softmax(-1)
def fit(x, held_out):
    trainer = {"accelerator": "cpu", "limit_train_batches": 5}
    return ms.fit_surrogate(predicted, x, hidden=[8], max_epochs=1, trainer=trainer,
        x_validation=held_out)
x = np.memmap(sys.argv[1], "float32", "r", shape=(100_000, 2000))
fit(torch.zeros(3000, 2000), torch.zeros(1024, 2000))
before = peak
fit(x, None)
print((peak - before) / 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_rows(tmp_path: Path, root: Path) -> None:
    with open(tmp_path / "x", "wb") as file:
        file.truncate(100_000 * 2000 * 4)  # 763 MB of zeros, which take no space.
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "x")]
    # Memory that was freed is given back at once, so that what is measured is what is needed.
    env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "PYTHONPATH": str(root)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    assert float(done.stdout) < 200


PLAYERS = ms.Players.segments((1, 6), 2, -9.0)


def series(count: int, seed: int) -> Tensor:
    """Normal numbers, of 1 to 6 time points, padded."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 7, (count, 1, 1), generator=generator)
    x = torch.randn(count, 1, 6, generator=generator)
    return x.where(torch.arange(6) < lengths, PLAYERS.padding)


def of_length(x: Tensor) -> Tensor:
    """A model of the length, and of the first time point."""
    p = (x[:, 0, 0] + PLAYERS.lengths(x) - 3.5).sigmoid()
    return torch.stack((p, 1 - p), dim=1)


def test_the_base_of_padded_rows_is_the_mean_of_rows_as_long() -> None:
    value = ms.fit_surrogate(
        of_length, series(3000, 0), hidden=[32], players=PLAYERS, trainer={"accelerator": "cpu"},
        max_epochs=4, batch_size=32, learning_rate=5e-3,
    )  # fmt: skip
    x = series(2000, 1)
    prediction, base, lengths = value.prediction(x), value.base(x), PLAYERS.lengths(x)
    means = torch.stack([prediction[lengths == k].mean(0) for k in range(1, 7)])
    assert means[:, 0].max() - means[:, 0].min() > 0.6
    assert (base - means[lengths - 1]).abs().max() < 0.08
    explanation = ms.exact_shapley(value, x[:20])
    assert explanation.efficiency_gap < 1e-5
    torch.testing.assert_close(explanation.base, base[:20])
    # Length is no player: what it does is in the base, and all that is left is the first segment's.
    change = explanation.prediction - explanation.base
    assert (explanation.phi[:, 0] - change).abs().max() < 0.1


def test_a_surrogate_says_how_good_it_is_on_rows_held_out(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="'surrogate' is not clearly better than off the"):
        bad = fit(of_three, max_epochs=1, learning_rate=1e-9, weight_averaging=None)
    good = fit(of_three, **LONGER)
    assert good.quality.warning == ""
    assert good.quality.error < good.quality.off_manifold
    exact = ms.metrics.mean_squared_error(good, TABLE)
    assert good.quality.explained == pytest.approx(1 - exact.mse / exact.variance, abs=0.1)
    marginal = ms.imputed_value(of_three, ms.imputers.MarginalImputer(TABLE))
    off = ms.metrics.mean_squared_error(marginal, TABLE).debiased
    assert good.quality.off_manifold == pytest.approx(off, rel=0.3)
    ms.save(bad, tmp_path)
    again = ms.load(tmp_path, of_three)
    assert (again.quality, again.training_record) == (bad.quality, bad.training_record)
    said = repr(ms.exact_shapley(again, ROWS[:2]))
    assert "'surrogate' explains" in said
    assert "Caution: 'surrogate' is not clearly better" in said


def test_a_model_that_refuses_other_rows_is_learned() -> None:
    table = torch.rand(100, 3, generator=torch.Generator().manual_seed(0))

    def known(x: Tensor) -> Tensor:
        assert (x[:, None] == table).all(-1).any(-1).all(), "There is no such row."
        return x.softmax(-1)

    value = ms.fit_surrogate(known, table, hidden=[8], max_epochs=1)
    assert [*value.quality.mse] == ["surrogate"]
