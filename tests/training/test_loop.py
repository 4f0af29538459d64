"""The training loop: rows, players, averaged weights, early stopping and resumption."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from lightning.pytorch.callbacks import Callback

import manifold_shap as ms
from manifold_shap.training.loop import seeded
from manifold_shap.training.shell import Shell
from tests.training.test_task import fit, line

X = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
FEW: dict[str, Any] = {
    "max_epochs": 1,
    "trainer": {"accelerator": "cpu", "limit_train_batches": 2},
    "progress": False,
    "hidden": [8],
}


def model(x: torch.Tensor) -> torch.Tensor:
    return x[:, :2].softmax(-1)


def teacher() -> ms.ImputedValue:
    vae = ms.fit_imputer(X, latent=2, temper=1.0, bank_size=32, **FEW)
    return ms.imputed_value(model, vae, draws=4)


def fit_network(x: torch.Tensor, y: torch.Tensor) -> torch.nn.Module:
    """One step of a classifier of two classes."""
    network = torch.nn.Linear(x.shape[1], 2)
    torch.nn.functional.cross_entropy(network(x), y).backward()
    torch.optim.SGD(network.parameters(), lr=0.1).step()
    return network


FITS: dict[str, Callable[[], Any]] = {
    "surrogate": lambda: ms.fit_surrogate(model, X + 0, **FEW),
    "surrogate of a network": lambda: ms.fit_surrogate(
        torch.nn.Linear(3, 2), X + 0, **{**FEW, "network": "model", "hidden": None}
    ),
    "surrogate with a teacher": lambda: ms.fit_surrogate(
        model, X, teacher=ms.imputed_value(model, ms.GaussianImputer(X)), teacher_pairs=64, **FEW
    ),
    "imputer, and guided": lambda: ms.fit_guided(teacher(), teacher_pairs=64, codes=16, **FEW),
    "amortised": lambda: ms.fit_amortized(
        ms.fit_surrogate(model, X, **{**FEW, "hidden": [8, 8]}), X + 0, **FEW
    ),
    "retrained": lambda: ms.retrained_value(fit_network, X + 0, (X[:, 0] > 0).long()),
}


@pytest.mark.parametrize("name", FITS)
def test_a_training_within_inference_mode_is_the_same(name: str) -> None:
    found = []
    for inside in (False, True):
        with torch.inference_mode(inside), seeded(0):
            fitted = FITS[name]()
            mask = torch.tensor([[[True, False, False]]])
            amortised = isinstance(fitted, ms.AmortizedExplainer)
            found.append(fitted(X[:1]) if amortised else fitted(X[:1], mask))
    assert torch.equal(*found)


@pytest.mark.parametrize("precision", ["bf16-true", "16-true"])
def test_weights_in_another_precision_are_refused(precision: str) -> None:
    given = {**FEW, "trainer": {"accelerator": "cpu", "precision": precision}}
    for fits in (lambda: ms.fit_surrogate(model, X, **given), lambda: ms.fit_imputer(X, **given)):
        with pytest.raises(ValueError, match=f"'bf16-mixed'.* but got '{precision}'"):
            fits()


class CtrlC(Callback):
    """Interrupts a training in the given step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_start(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.global_step == self.step:
            signal.raise_signal(signal.SIGINT)


def interrupted(step: int, **given: Any) -> None:
    """A training that Ctrl-C ends in the given step."""
    trainer = {"limit_train_batches": 5, **given.pop("trainer", {}), "callbacks": CtrlC(step)}
    with pytest.raises(KeyboardInterrupt):
        fit(trainer=trainer, **given)


@pytest.mark.parametrize(
    ("weight_averaging", "schedule"),
    [(None, "one_cycle"), (0.9, "one_cycle"), (0.9, "cosine")],
)
@pytest.mark.parametrize("step", [2, 7])
def test_an_interrupted_training_goes_on_as_if_nothing_had_happened(
    tmp_path: Path, step: int, weight_averaging: float | None, schedule: str
) -> None:
    given = {"max_epochs": 3, "weight_averaging": weight_averaging, "schedule": schedule}
    whole = fit(**given)
    interrupted(step, directory=tmp_path, **given)
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


def test_checkpoints_are_not_written_elsewhere_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From another disk they would be moved byte by byte, and a kill would leave them cut off."""

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    fit(directory=tmp_path)
    assert (tmp_path / "last.ckpt").exists()


def test_a_layer_that_draws_gets_numbers_by_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[float] = []
    plain = Shell.training_step

    def noting(self: Shell, batch: Any, batch_idx: int) -> Any:
        def loss(batch: Any, generator: torch.Generator) -> torch.Tensor:
            drawn.append(torch.rand(()).item())
            return own(batch, generator)

        own = self.task.loss
        monkeypatch.setattr(self.task, "loss", loss)
        return plain(self, batch, batch_idx)

    with monkeypatch.context() as patched:
        patched.setattr(Shell, "training_step", noting)
        fit(max_epochs=1)
        first = len(drawn)
        torch.rand(3)
        fit(max_epochs=1)
    assert drawn[:first] == drawn[first:]
    assert len(set(drawn)) == first > 3
