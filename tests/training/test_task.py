"""Trainings: options, steps, what is kept, early stopping, resumption, and what is refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from jaxtyping import Float
from lightning.pytorch.loggers import CSVLogger
from torch import Tensor

from manifold_shap.training.runner import LightningTask
from manifold_shap.training.task import (
    SCHEDULES,
    Task,
    TrainingOptions,
    learn,
    seeded,
)
from tests.learned import CtrlC

X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
Y = X @ torch.tensor([1.0, -2.0, 0.5])


class LineTask(Task):
    """A line through points, whose loss also draws a number for each row."""

    kind = "line"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self.line = torch.nn.Linear(self.settings["inputs"], 1)
        self.seen: list[tuple[bool, float]] = []
        self.drawn: list[float] = []

    def loss(
        self, batch: tuple[Tensor, ...], generator: torch.Generator
    ) -> Float[Tensor, " batch"]:
        x, y = batch
        noise = torch.rand((), generator=generator)
        self.drawn.append(torch.rand(()).item())  # As a layer of a user's module may.
        self.seen.append((self.training, noise.item()))
        return (self.line(x)[:, 0] - y).square() + noise


class Trained(NamedTuple):
    """A task after its training, and what is recorded of this."""

    task: LineTask
    record: dict[str, Any]


def fit(
    x: Tensor = X, y: Tensor = Y, *, inputs: Any = 3, validation: int = 13, **given: Any
) -> Trained:
    usual = {"max_epochs": 2, "batch_size": 8, "trainer": {"limit_train_batches": 5}}
    options = TrainingOptions(**{**usual, **given})
    options.trainer = {"accelerator": "cpu", **(options.trainer or {})}
    task = LineTask.initial({"inputs": inputs, **options.settings})
    held_out = x[:validation], y[:validation]
    learn(task, ((x, y), held_out), options)
    return Trained(task, task.record)


def line(trained: Trained) -> Tensor:
    return trained.task.line.weight.detach()


@pytest.mark.usefixtures("any_type")
@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"schedule": "cosin"}, ValueError, "got 'cosin'"),
        ({"batch_size": 2.0}, TypeError, "`batch_size` to be a whole number"),
        ({"max_epochs": 0}, ValueError, "`max_epochs` to be a whole number of at least 1"),
        ({"seed": -1}, ValueError, "`seed` to be a whole number from 0"),
    ],
)
def test_options_that_are_refused(
    given: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        TrainingOptions(**given)


@pytest.mark.parametrize("precision", ["bf16-true", "16-true", "64-true"])
def test_weights_of_another_precision_are_refused(precision: str) -> None:
    with pytest.raises(ValueError, match=f"bf16-mixed.*{precision}"):
        fit(trainer={"accelerator": "cpu", "precision": precision})


def test_the_validation_loss_is_the_mean_over_rows() -> None:
    # More rows than a batch of 1,024 holds: the mean of the batches' means would be another number.
    x = torch.randn(1100, 3, generator=torch.Generator().manual_seed(1))
    y = x.sum(1) * (torch.arange(1100) >= 1024)
    trained = fit(x, y, validation=1100, weight_averaging=None, max_epochs=1)
    task = trained.task
    noise = [drawn for training, drawn in task.seen if not training]
    assert len(noise) == 2
    errors = (task.line(x)[:, 0] - y).square().detach().double()
    expected = (errors.sum() + 1024 * noise[0] + 76 * noise[1]) / 1100
    assert trained.record["validation"] == pytest.approx(expected.item(), rel=1e-5)


def test_each_step_and_each_validation_batch_draw_numbers_of_their_own() -> None:
    first, other = fit(max_epochs=3).task, fit(max_epochs=3, seed=1).task
    drawn = {part: [n for training, n in first.seen if training is part] for part in (True, False)}
    assert len(set(drawn[True])) == len(drawn[True]) == 15
    # The same in every epoch of validation, and in no step of training.
    assert len(drawn[False]) == 3
    assert len(set(drawn[False])) == 1
    assert not set(drawn[False]) & set(drawn[True])
    assert not {n for _, n in other.seen} & {n for _, n in first.seen}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_begins_and_ends_as_it_should(
    schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[float] = []

    def note(self: LightningTask, batch: Any, batch_idx: int) -> None:
        rates.append(self.trainer.optimizers[0].param_groups[0]["lr"])

    monkeypatch.setattr(LightningTask, "on_train_batch_start", note)
    trainer = {"accelerator": "cpu", "limit_train_batches": 50}
    options = TrainingOptions(schedule=schedule, max_epochs=1, learning_rate=0.1, trainer=trainer)
    learn(LineTask({"inputs": 3, **options.settings}), ((X, Y), (X, Y)), options)
    assert len(rates) == 50
    assert max(rates) == pytest.approx(0.1, rel=0.01)
    if schedule == "constant":
        assert set(rates) == {0.1}
    else:
        assert rates[-1] < 0.001
    assert (rates[0] < 0.01) == (schedule == "one_cycle")


def test_a_divergence_keeps_the_checkpoints_of_the_epochs_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss = LineTask.loss

    def later(self: LineTask, batch: tuple[Tensor, ...], generator: torch.Generator) -> Tensor:
        steps = sum(training for training, _ in self.seen)
        return loss(self, batch, generator) / (0 if self.training and steps >= 5 else 1)

    monkeypatch.setattr(LineTask, "loss", later)
    with pytest.raises(ValueError, match=r"finite training loss of the line but it is (nan|inf)"):
        fit(directory=tmp_path)
    kept = torch.load(tmp_path / "best.ckpt", weights_only=True)
    assert kept["epoch"] == 0
    assert np.isfinite(kept["validation"])


def test_curves_of_a_logger_are_written_where_they_are_asked_for(tmp_path: Path) -> None:
    given = {"max_epochs": 3, "batch_size": 32}
    logger = CSVLogger(tmp_path / "logs", "line")
    trained = fit(trainer={"logger": logger}, **given)
    curves = pd.read_csv(tmp_path / "logs" / "line" / "version_0" / "metrics.csv")
    validation, training = curves["validation"].dropna(), curves.dropna(subset="training")
    assert len(validation) == 3
    assert trained.record["validation"] == pytest.approx(validation.iloc[-1], rel=1e-6)
    assert training["step"].is_monotonic_increasing
    assert training["training"].iloc[-1] < training["training"].iloc[0]
    # They change nothing of the training.
    plain = fit(trainer={}, directory=tmp_path / "plain", **given)
    assert torch.equal(line(plain), line(trained))
    assert {path.suffix for path in (tmp_path / "plain").iterdir()} == {".ckpt"}


@pytest.mark.usefixtures("any_type")
@pytest.mark.parametrize(
    ("step", "weight_averaging", "schedule"), [(2, 0.9, "cosine"), (7, None, "one_cycle")]
)
def test_an_interrupted_training_goes_on_as_if_nothing_had_happened(
    tmp_path: Path, step: int, weight_averaging: float | None, schedule: str
) -> None:
    given = {"max_epochs": np.int64(3), "weight_averaging": weight_averaging, "schedule": schedule}
    whole = fit(**given)
    with pytest.raises(KeyboardInterrupt):
        fit(
            directory=tmp_path,
            trainer={"limit_train_batches": 5, "callbacks": CtrlC(step)},
            **given,
        )
    assert (tmp_path / "best.ckpt").exists() == (step > 5)
    continued = fit(directory=tmp_path, **given)
    assert torch.equal(line(continued), line(whole))
    assert continued.record.keys() == {"epochs", "train_seconds", "validation"}
    assert continued.record["epochs"] == 3
    assert continued.record["validation"] == whole.record["validation"]


def test_the_best_weights_are_kept_with_patience_and_the_last_without() -> None:
    # Steps that grow: the first epoch is the best one.
    given = {"learning_rate": 3.0, "schedule": "constant", "weight_averaging": None}
    first = fit(max_epochs=1, **given)
    stopped = fit(max_epochs=9, patience=2, **given)
    assert stopped.record["epochs"] < 9
    last = fit(max_epochs=stopped.record["epochs"], patience=None, **given)
    assert stopped.record["validation"] <= first.record["validation"]
    assert last.record["validation"] > stopped.record["validation"]
    assert not torch.equal(line(last), line(stopped))


def test_the_global_generator_is_left_alone() -> None:
    state = torch.random.get_rng_state()
    with seeded(3):
        torch.rand(4)
    fit()
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_layer_that_draws_gets_numbers_by_the_step() -> None:
    first = fit(max_epochs=1).task.drawn
    torch.rand(3)
    assert fit(max_epochs=1).task.drawn == first
    assert len(set(first)) == len(first) > 3
