"""Surrogates that several processes of one host, or of two, train together."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.training.runner import LightningTask
from manifold_shap.training.task import Task
from tests.learned import Reader, weights

ROOT = Path(__file__).parents[2]
TWO: dict[str, Any] = {"devices": 2, "accelerator": "cpu"}
ONE: dict[str, Any] = {"accelerator": "cpu"}


class Dark(nn.Module):
    """Classes of pictures by the brightness of their two halves."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1).unflatten(2, (2, -1)).mean((1, 3)).softmax(-1)


def fit(kind: str, directory: Path, trainer: dict[str, Any], **more: Any) -> ms.SurrogateValue:
    """A surrogate that is trained in a few steps, of pictures or of tokens."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    given = {"max_epochs": 2, "batch_size": 16, "directory": directory, "progress": False, **more}
    given["trainer"] = {**trainer, "limit_train_batches": 10}
    if kind == "conv":
        x = torch.randn(100, 1, 4, 4, generator=generator)
        return ms.fit_surrogate(Dark(), x, network="conv", hidden=[4, 4], **given)
    x = torch.randint(1, 19, (100, 7), generator=generator)
    x[::3, 5:] = 0
    players = ms.Players.tokens(7, padding=0)
    given |= {"network": "model", "layer": "tokens"}
    return ms.fit_surrogate(Reader(0), x, players=players, **given)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["conv", "model"])
def test_two_processes_train_a_network_together(kind: str, tmp_path: Path) -> None:
    both = fit(kind, tmp_path / "both", TWO)
    assert both.training_record["epochs"] == 2
    # Each draws coalitions of its own: the weights differ from those of one process.
    one = fit(kind, tmp_path / "one", ONE)
    assert not torch.equal(weights(both), weights(one))
    ratio = both.training_record["validation"] / one.training_record["validation"]
    assert 0.5 < ratio < 2


class Drawing(Task):
    """A task whose loss is the first number that it draws."""

    kind = "drawing"

    def loss(self, batch: tuple[Tensor, ...], generator: torch.Generator) -> Tensor:
        return torch.rand(len(batch[0]), generator=generator)


def test_no_two_processes_and_steps_draw_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    module, drawn = LightningTask(Drawing({"seed": 0})), []
    for rank in range(2):
        monkeypatch.setattr(LightningTask, "global_rank", rank)
        drawn += [module._loss((torch.zeros(4),), step) for step in range(500)]
    # Of so few numbers in 24 bits, hardly any are equal by chance.
    assert len(torch.cat(drawn).unique()) > 0.99 * 4000


@pytest.mark.slow
def test_the_command_trains_on_two_devices_and_writes_once(tmp_path: Path) -> None:
    words = [f"trainer.{name}={each}" for name, each in TWO.items()]
    words += ["data=iris", "classifier.max_epochs=1", "value_function.max_epochs=1"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "train.py"), *words, f"runs_dir={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("surrogate: squared error") == 1
    assert len(list(tmp_path.rglob("tensors.safetensors"))) == 2
    assert not list(tmp_path.rglob("*.ckpt"))
