"""Tasks as modules and data modules of Lightning, in a `Trainer` of one's own."""

from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.training.runner import Batches, LightningTask

FEW: dict[str, Any] = {
    "hidden": [8],
    "max_epochs": 1,
    "trainer": {"accelerator": "cpu", "limit_train_batches": 1},
}


def model(x: Tensor) -> Tensor:
    return x[:, :2].softmax(-1)


def surrogate(x: Tensor) -> tuple[Any, tuple[Tensor, ...]]:
    return ms.fit_surrogate(model, x, **FEW).task, (x, model(x))


def vae(x: Tensor) -> tuple[Any, tuple[Tensor, ...]]:
    return ms.fit_imputer(x, latent=2, temper=1.0, **FEW).task, (x,)


@pytest.mark.parametrize(("make", "epochs", "least"), [(surrogate, 2, 30), (vae, 15, 1)])
def test_a_trainer_of_ones_own_trains_them(
    make: Any, epochs: int, least: int, tmp_path: Path
) -> None:
    x = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
    x[:, 1] += x[:, 0]
    task, parts = make(x)
    task.settings["max_epochs"] = epochs
    train, held_out = (
        tuple(part[some] for part in parts) for some in (slice(200), slice(200, 300))
    )
    module, batches = LightningTask(task), Batches(train, held_out, 64, seed=0, least=least)
    trainer = L.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    before = trainer.validate(module, datamodule=batches, verbose=False)[0]["validation"]
    trainer.fit(module, datamodule=batches)
    assert trainer.callback_metrics["validation"] < 0.95 * before
    # One pass over 200 rows has 4 batches.
    assert trainer.global_step == 60
