"""The training loop: rows, players, averaged weights, early stopping and resumption."""

import signal
from pathlib import Path
from typing import Any

import pytest
import torch

import manifold_shap as ms
from manifold_shap.training.loop import seeded, training_rows
from manifold_shap.training.shell import Shell
from tests.training.test_task import X, fit, line


def interrupted(monkeypatch: pytest.MonkeyPatch, step: int, **given: Any) -> None:
    """A training that Ctrl-C ends in the given step."""

    def interrupt(self: Shell, batch: Any, batch_idx: int) -> None:
        if self.global_step == step:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(Shell, "on_train_batch_start", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fit(**given)


@pytest.mark.parametrize(
    ("weight_averaging", "schedule"),
    [(None, "one_cycle"), (0.9, "one_cycle"), (0.9, "cosine"), (0.9, "constant")],
)
@pytest.mark.parametrize("step", [2, 7, 14])
def test_an_interrupted_training_goes_on_as_if_nothing_had_happened(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: int,
    weight_averaging: float | None,
    schedule: str,
) -> None:
    given = {"max_epochs": 3, "weight_averaging": weight_averaging, "schedule": schedule}
    whole = fit(**given)
    interrupted(monkeypatch, step, directory=tmp_path, **given)
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


def test_averaged_weights_are_what_is_kept() -> None:
    plain, averaged = (fit(weight_averaging=decay) for decay in (None, 0.5))
    assert not torch.equal(line(plain), line(averaged))


def test_the_global_generator_is_left_alone() -> None:
    state = torch.random.get_rng_state()
    with seeded(3):
        torch.rand(4)
    fit()
    assert torch.equal(torch.random.get_rng_state(), state)


def test_players_by_default() -> None:
    column = ms.Column("kind", "categorical", ("a", "b")), ms.Column("size", "continuous")
    schema, x = ms.Schema(column), torch.zeros(5, 3)
    given = ms.Players(("left", "right"), torch.tensor([0, 0, 1]))
    assert training_rows(x, None, 0, given, schema)[0] is given
    assert training_rows(x, None, 0, None, schema)[0].index.tolist() == [0, 0, 1]
    assert training_rows(x, None, 0, None, schema)[0].names == ("kind", "size")
    assert training_rows(x, None, 0)[0].names == ("x0", "x1", "x2")
    with pytest.raises(ValueError, match=r"with 3 elements in a row, .* got shape \(5, 2\)"):
        training_rows(x[:, :2], None, 0, None, schema)
    with pytest.raises(TypeError, match="Expected `x_train` to be a tensor"):
        training_rows([[1.0]], None, 0)


def test_a_tenth_is_held_out_unless_rows_to_validate_on_are_given() -> None:
    _, train, validation = training_rows(X, None, seed=4)
    assert (len(train), len(validation)) == (36, 4)
    together = torch.cat((train, validation)).sort(0).values
    assert torch.equal(together, X.sort(0).values)
    assert torch.equal(training_rows(X, None, seed=4)[2], validation)
    assert not torch.equal(training_rows(X, None, seed=5)[2], validation)
    assert torch.equal(training_rows(X, X[:1], seed=4)[1], X)
    with pytest.raises(ValueError, match="Expected at least 2 training rows but got 1"):
        training_rows(X[:1], None, seed=0)
    with pytest.raises(ValueError, match="`x_validation`"):
        training_rows(X, X[:, :2], seed=0)


@pytest.mark.usefixtures("any_type")
def test_a_training_needs_players_that_are_the_same_in_every_row() -> None:
    x = torch.zeros(5, 2)
    with pytest.raises(TypeError, match=r"`players` to be a Players but got list; .*of_elements"):
        training_rows(x, None, 0, ["a", "b"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="but got some by row; train"):
        training_rows(x, None, 0, ms.Players.of_rows((2,), 2))
