"""The training loop: rows, players, averaged weights, early stopping and resumption."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import manifold_shap as ms
from manifold_shap.training.runner import Shell
from manifold_shap.training.task import seeded
from tests.learned import CtrlC
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


FITS: dict[str, Callable[[], Any]] = {
    "surrogate": lambda: ms.fit_surrogate(model, X + 0, **FEW),
    "imputer, and guided": lambda: ms.fit_guided(teacher(), teacher_pairs=64, codes=16, **FEW),
    "amortised": lambda: ms.fit_amortized(
        ms.fit_surrogate(model, X, **{**FEW, "hidden": [8, 8]}), X + 0, **FEW
    ),
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
    with pytest.raises(ValueError, match=f"'bf16-mixed'.* but got '{precision}'"):
        ms.fit_surrogate(model, X, **given)


@pytest.mark.parametrize(
    ("weight_averaging", "schedule"),
    [(None, "one_cycle"), (0.9, "cosine")],
)
@pytest.mark.parametrize("step", [2, 7])
def test_an_interrupted_training_goes_on_as_if_nothing_had_happened(
    tmp_path: Path, step: int, weight_averaging: float | None, schedule: str
) -> None:
    given = {"max_epochs": 3, "weight_averaging": weight_averaging, "schedule": schedule}
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
