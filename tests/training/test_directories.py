"""What all fit functions have in common: whom a `directory` serves, and what errors are of."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import manifold_shap as ms
from manifold_shap.coalitions import Listed
from manifold_shap.data import load
from manifold_shap.training.classifier import NetworkRecipe, fit_classifier, load_classifier
from tests.learned import CtrlC

X = torch.randn(80, 3, generator=torch.Generator().manual_seed(0))
FEW: dict[str, Any] = {
    "max_epochs": 2, "hidden": [8], "trainer": {"accelerator": "cpu", "limit_train_batches": 5},
}  # fmt: skip
MASK = torch.tensor([[True, False, False], [True, True, False]]).expand(4, -1, -1)


def model(x: Tensor) -> Tensor:
    return x[:, :2].softmax(-1)


def vae(x: Any, **own: Any) -> Any:
    return ms.fit_imputer(x, latent=2, temper=1.0, bank_size=64, **{**FEW, **own})


def surrogate(x: Any, **own: Any) -> Any:
    return ms.fit_surrogate(model, x, **{**FEW, "hidden": [8, 8], **own})


def amortized(x: Any, **own: Any) -> Any:
    return ms.fit_amortized(surrogate(X), x, **{**FEW, **own})


def values_of(learned: Any) -> Tensor:
    """What it gives for four rows."""
    if isinstance(learned, ms.SurrogateValue):
        return learned(X[:4], MASK)
    if isinstance(learned, ms.VAEImputer):
        return learned.impute(X[:4], Listed(MASK, torch.arange(8).reshape(4, 2)), range(3)).rows
    return learned(X[:4])


def of_taught(x: Tensor, **own: Any) -> Tensor:
    """By so many values that rows are drawn."""
    teacher = ms.imputed_value(model, ms.imputers.GaussianImputer(X), draws=2)
    return values_of(surrogate(x, teacher_pairs=400, teacher=teacher, **own))


def of_guided(x: Tensor, **own: Any) -> Tensor:
    guide = ms.imputers.MixtureImputer(x, components=2)
    taught = {"guide": guide, "teacher": ms.imputed_value(model, guide, draws=2)}
    return values_of(surrogate(x, teacher_pairs=100, **taught, **own))


def of_corrected(x: Tensor, **own: Any) -> Tensor:
    y = (X[:, 0] < X[:, 1]).long()
    return ms.corrected_global_values(model, x, y, folds=2, training={**FEW, **own}).phi


def of_classifier(x: Tensor, *, directory: Path, **own: Any) -> Tensor:
    data = load("iris")
    data.x_train[: len(x), :3] = x.round().clamp(0, 9)
    few = {**FEW, **own}
    trainer = few.pop("trainer")
    fit_classifier(NetworkRecipe("mlp", **few), data, directory, trainer)
    return load_classifier(directory, data)(data.x_test)


FITS: dict[str, Callable[..., Tensor]] = {
    "imputer": lambda x, **own: values_of(vae(x, **own)),
    "surrogate": lambda x, **own: values_of(surrogate(x, **own)),
    "taught": of_taught,
    "guided": of_guided,
    "amortized": lambda x, **own: values_of(amortized(x, **own)),
    "corrected": of_corrected,
    "classifier": of_classifier,
}


@pytest.mark.parametrize("name", FITS)
def test_a_directory_serves_the_same_training_and_no_other(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    fit, place = FITS[name], tmp_path / "interrupted"
    whole, other = fit(X, directory=Path("~/whole")), X.clone()
    other[[3, 4]] = other[[4, 3]] / 2
    with pytest.raises(KeyboardInterrupt):
        fit(X, directory=place, trainer={**FEW["trainer"], "callbacks": CtrlC(7)})
    with pytest.raises(ValueError, match=r"differs in: the training rows.* another `directory`"):
        fit(other, directory=place)
    with pytest.raises(ValueError, match="differs in: learning_rate"):
        fit(X, directory=place, learning_rate=0.1)
    assert torch.equal(fit(X, directory=place), whole)
    if name != "classifier":  # Whose last checkpoint goes once it has ended.
        assert torch.equal(fit(X, directory=place), whole)
        with pytest.raises(ValueError, match="the training rows"):
            fit(other, directory=place)


@pytest.mark.parametrize("name", ["imputer", "surrogate", "amortized"])
def test_it_is_the_same_wherever_rows_lie(name: str, tmp_path: Path) -> None:
    fit, pairs = FITS[name], TensorDataset(X, torch.zeros(len(X)))
    np.save(tmp_path / "x.npy", X.numpy())
    expected = fit(X)
    for rows in (
        DataLoader(pairs, num_workers=1),
        np.load(tmp_path / "x.npy", mmap_mode="r"),
    ):
        assert torch.equal(fit(rows), expected)
    with pytest.raises(KeyboardInterrupt):
        fit(pairs, directory=tmp_path, trainer={**FEW["trainer"], "callbacks": CtrlC(7)})
    assert torch.equal(fit(pairs, directory=tmp_path), expected)


@pytest.mark.parametrize("name", ["imputer", "surrogate", "guided", "amortized"])
def test_a_training_within_inference_mode_is_the_same(name: str) -> None:
    expected = FITS[name](X)
    with torch.inference_mode():
        assert torch.equal(FITS[name](X + 0), expected)


class Seen(Callback):
    """The rows of a training, and of its validation."""

    def __init__(self) -> None:
        self.trained: set[tuple[float, ...]] = set()
        self.held_out: set[tuple[float, ...]] = set()

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, number: int) -> None:
        self.trained |= {tuple(row) for row in batch[0].tolist()}

    def on_validation_batch_start(
        self, trainer: Any, module: Any, batch: Any, number: int, loader: int = 0
    ) -> None:
        self.held_out |= {tuple(row) for row in batch[0].tolist()}


@pytest.mark.parametrize("name", ["imputer", "surrogate", "guided", "amortized"])
def test_errors_are_of_rows_that_are_not_trained_on(
    name: str,
) -> None:
    seen = Seen()
    FITS[name](X, trainer={**FEW["trainer"], "callbacks": [seen]})
    assert seen.held_out
    assert not seen.trained & seen.held_out
