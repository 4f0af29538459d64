"""Surrogates that several processes of one host, or of two, train together."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.laws import SizeUniform
from manifold_shap.training.runner import LightningTask
from manifold_shap.training.task import Task
from tests.learned import Reader

ROOT = Path(__file__).parents[2]
TWO: dict[str, Any] = {"devices": 2, "accelerator": "cpu"}
ONE: dict[str, Any] = {"accelerator": "cpu"}
FALSE_ALARM = 1e-6


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


def weights(value: ms.SurrogateValue) -> Tensor:
    return torch.cat([own.flatten() for own in value.surrogate.state_dict().values()])


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
    """A task whose loss is the first number that it draws, and which keeps sizes of coalitions."""

    kind = "drawing"
    law = SizeUniform(8)

    def loss(self, batch: tuple[Tensor, ...], generator: torch.Generator) -> Tensor:
        mask = self.law.sample((len(batch[0]),), generator)
        self.sizes = mask.sum(-1)
        return torch.rand(1, generator=generator)


@pytest.mark.parametrize("ranks", [1, 2])
def test_processes_draw_coalitions_of_one_law(ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes are uniform however many processes draw them, and no two draw the same numbers."""
    task = Drawing({"seed": 0})
    shell = LightningTask(task)
    batch, drawn, sizes = (torch.zeros(8 // ranks, 1),), [], []
    for rank in range(ranks):
        monkeypatch.setattr(LightningTask, "global_rank", rank)
        for step in range(1000):
            drawn.append(shell._loss(batch, step).item())
            sizes.append(task.sizes)
    counts = torch.cat(sizes).bincount(minlength=8)
    assert stats.chisquare(counts.numpy()).pvalue > FALSE_ALARM
    # Of so few numbers in 24 bits, hardly any are equal by chance.
    assert len(set(drawn)) > 0.99 * len(drawn)


@pytest.mark.slow
def test_the_command_trains_on_two_devices_and_writes_once(tmp_path: Path) -> None:
    words = [f"trainer.{name}={each}" for name, each in TWO.items()]
    words += ["data=iris", "classifier.max_epochs=1", "value_function.max_epochs=1"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "train.py"), *words, f"runs_dir={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("surrogate: test MSE") == 1
    # The weights of the classifier and of the surrogate.
    assert len([*tmp_path.rglob("tensors.safetensors")]) == 2
    assert not [*tmp_path.rglob("*.ckpt")]
