"""The training loop: rows, players, averaged weights, early stopping and resumption."""

import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from manifold_shap.training.loop import seeded
from manifold_shap.training.shell import Shell
from tests.training.test_task import fit, line


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


@pytest.mark.parametrize("kind", [torch.OutOfMemoryError, MemoryError])
def test_a_step_without_memory_says_what_to_do_and_leaves_checkpoints(
    kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(self: Shell, batch: Any, batch_idx: int) -> None:
        if self.global_step == 7:
            raise kind("tried to allocate 2.00 GiB")

    with monkeypatch.context() as patched:
        patched.setattr(Shell, "on_train_batch_start", short)
        message = r"batches of \d+ rows .* 2.00 GiB\); choose a smaller `batch_size`.* so far stay"
        with pytest.raises(MemoryError, match=message):
            fit(directory=tmp_path, max_epochs=3)
    assert {path.name for path in tmp_path.iterdir()} == {"best.ckpt", "last.ckpt"}
    # Where others have let go of memory, the same call goes on.
    assert torch.equal(line(fit(directory=tmp_path, max_epochs=3)), line(fit(max_epochs=3)))


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
