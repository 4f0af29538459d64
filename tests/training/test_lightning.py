"""Tasks as modules and data modules of Lightning, in a `Trainer` of one's own."""

from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from torch import Tensor

from manifold_shap.training.runner import Batches, LightningTask
from tests.training import test_directories as directories

ONE_STEP: Any = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 1}}


def surrogate(x: Tensor) -> tuple[Any, tuple[Tensor, ...]]:
    return directories.surrogate(x, hidden=[8], **ONE_STEP).task, (x, directories.model(x))


def vae(x: Tensor) -> tuple[Any, tuple[Tensor, ...]]:
    return directories.vae(x, **ONE_STEP).task, (x,)


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
    quiet = dict.fromkeys(
        ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
    )
    trainer: Any = L.Trainer(
        max_epochs=epochs, accelerator="cpu", default_root_dir=tmp_path, **quiet
    )
    before = trainer.validate(module, datamodule=batches, verbose=False)[0]["validation"]
    trainer.fit(module, datamodule=batches)
    assert trainer.callback_metrics["validation"] < 0.95 * before
    # One pass over 200 rows has 4 batches.
    assert trainer.global_step == 60
