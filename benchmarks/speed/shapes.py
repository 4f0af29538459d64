"""Pictures of 3x64x64 with 64 patches as players: training, one explanation, and memory.

The pictures are coloured shapes before stripes, drawn by `support/shapes.py`; the model is a
convolutional network of ours that tells the shapes. Explained is the most probable class of a test
picture, by the default estimator with ever more values; the relative error is against a long run.
Memory is the most that the process had at once, torch and the 5,000 pictures included.
"""

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.support.precision import precision
from benchmarks.support.shapes import SHAPES, pictures
from benchmarks.timing import in_own_process, peak_memory, timed
from manifold_shap.convolutions import ResidualBlock, convolution

TITLE = "Pictures of shapes"
QUICK = {"count": 400, "side": 32, "model_epochs": 1, "epochs": 1, "explained": 1, "budgets": [256]}
PATCH = 8
HELD_OUT = 0.1  # for validation, and as many for tests
RATE = 4e-3  # the largest learning rate of the model


def run(
    count: int = 5000,  # pictures
    side: int = 64,  # pixels
    network: str = "conv",  # of the surrogate
    model_epochs: int = 12,
    epochs: int = 12,  # of the surrogate
    explained: int = 8,  # test pictures whose errors are averaged
    budgets: tuple[int, ...] = (512, 1024, 2048, 4096, 8192),  # values for each picture
    reference: int = 131_072,  # values behind the reference
) -> dict[str, Any]:
    """All figures, from a process of its own."""
    settings = (count, side, network, model_epochs, epochs, explained, tuple(budgets), reference)
    return in_own_process(_measured, *settings)


def _measured(
    count: int,
    side: int,
    network: str,
    model_epochs: int,
    epochs: int,
    explained: int,
    budgets: tuple[int, ...],
    reference: int,
) -> dict[str, Any]:
    x, shape = pictures(count, side)
    held = round(HELD_OUT * count)
    parts = [count - 2 * held, held, held]
    (train, validation, test), labels = x.split(parts), shape.split(parts)
    model = classifier(train, labels[0], model_epochs)
    with torch.no_grad():
        accuracy = (model(test).argmax(1) == labels[2]).float().mean().item()
    players = ms.Players.patches((3, side, side), PATCH)
    value, seconds = timed(
        lambda: ms.fit_surrogate(
            ms.as_model(model, test[:8], SHAPES),
            train,
            x_validation=validation,
            network=network,
            players=players,
            max_epochs=epochs,
            batch_size=64,
            trainer={"accelerator": "cpu"},
        )
    )
    figures: dict[str, Any] = {"accuracy of the model": accuracy, "seconds of training": seconds}
    off = ms.imputed_value(value.model, ms.imputers.MarginalImputer(train, players), draws=16)
    for name, one in (("learned", value), ("off the manifold", off)):
        for law, score in ms.metrics.errors_by_law(one, test, least=4000).items():
            figures[f"mse, {name}, {law}"] = score.debiased
    found = precision(value, test[:explained], 1, budgets, reference)
    return {"figures": {**figures, "peak megabytes": peak_memory()}, "explained": found}


def classifier(x: Tensor, shape: Tensor, epochs: int) -> nn.Module:
    """A residual network that tells the shapes in pictures, mirrored and turned in training."""
    torch.manual_seed(0)
    widths = (32, 64, 128)
    model = nn.Sequential(
        convolution(2, 3, widths[0], 5, 2, normalised=True),
        nn.BatchNorm2d(widths[0]),
        nn.ReLU(),
        *(ResidualBlock(2, *pair, 2, normalised=True) for pair in pairwise(widths)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(widths[-1], len(SHAPES)),
    )
    optimizer = torch.optim.AdamW(model.parameters(), RATE)
    steps = epochs * -(-len(x) // 64)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, steps)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(64):
            loss = F.cross_entropy(model(turned(x[rows])), shape[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.eval()


def turned(x: Tensor) -> Tensor:
    """Pictures mirrored or not, and turned by a right angle or more, all of them alike."""
    turns, mirrored = torch.randint(4, ()).item(), torch.rand(()) < 0.5
    return torch.rot90(x.flip(3) if mirrored else x, int(turns), (2, 3))


def tables(found: Found) -> list[Table]:
    return [records("", {"": found["figures"]}), records("one picture", found["explained"])]
