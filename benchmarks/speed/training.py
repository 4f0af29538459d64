"""The MNIST surrogate of the default configuration. Throughput is against a bare PyTorch loop of as
many steps on the same network, coalitions, optimiser, schedule and weight averaging. Time to an
error: the smallest number of epochs, of those tried, after which every seed is below the error of
Frye et al. (2021), Table 1.
"""

import statistics
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.support.measures import timed
from benchmarks.support.trained import Trained
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.perceptron import Perceptron

TITLE = "Training"
QUICK = {
    "epochs": 1, "repeats": 1, "try_epochs": [1], "seeds": 1, "precisions": ["32-true"],
}  # fmt: skip
BATCH, DECAY, RATE = 256, 0.99, 2e-3
PAIRS = 50_000  # (row, coalition) pairs that a mean squared error is taken over.


def run(
    epochs: int = 2,  # of the throughput
    repeats: int = 5,  # of the throughput; 0: none is measured
    try_epochs: Sequence[int] = (4, 6, 8, 10, 12, 15, 20, 30),  # until all seeds are below the goal
    seeds: int = 3,  # of each
    precisions: Sequence[str] = ("bf16-mixed", "32-true"),  # of the trainings
    goal: float = 0.0121,  # mean squared error: Frye et al., Table 1, the supervised method
    data: str = "mnist",  # the data set
) -> dict[str, Any]:
    """Steps per second of both sides, and trainings of more and more epochs."""
    trained = Trained(data, seed=0)
    steps = epochs * max(100, -(-len(trained.data.x_train) // BATCH))
    ratios = []
    for _ in range(repeats):
        ours = timed(partial(fit, trained, epochs, "32-true"))[1]
        bare = timed(partial(bare_loop, trained, steps, epochs))[1]
        ratios.append({"steps": steps, "ours": steps / ours, "bare": steps / bare})
    tried = {
        precision: time_to_error(trained, precision, try_epochs, seeds, goal)
        for precision in precisions
    }
    return {"throughput": ratios, "time_to_error": tried, "goal": goal}


def fit(trained: Trained, epochs: int, precision: str, seed: int = 0) -> ms.SurrogateValue:
    trainer = {"accelerator": "cpu", "precision": precision}
    return trained.surrogate(trainer=trainer, max_epochs=epochs, seed=seed, learning_rate=RATE)


def bare_loop(trained: Trained, steps: int, epochs: int) -> None:
    """A loop without anything else, with a validation after every epoch."""
    data = trained.data
    (x, target), validation = (
        (rows, trained.model(rows).exp()) for rows in (data.x_train, data.x_validation)
    )
    torch.manual_seed(0)
    players = x[0].numel()
    network = Perceptron(GameShape(x.shape[1:], range(players), target.shape[1], True))
    network.standardise(x, target)
    law = ms.laws.SizeUniform(players)
    optimizer = torch.optim.AdamW(network.parameters(), RATE, weight_decay=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, steps)
    average = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(DECAY))
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        rows = torch.randint(len(x), (BATCH,), generator=generator)
        mask = law.sample_antithetic((BATCH,), generator)
        (network(x[rows], mask) - target[rows, None]).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        average.update_parameters(network)
        if (step + 1) % (steps // epochs) == 0:
            with torch.no_grad():
                mask = law.sample_antithetic((len(validation[0]),), torch.Generator())
                (average(validation[0], mask) - validation[1][:, None]).square().mean()


def finished(trained: Trained, epochs: int, precision: str, seed: int) -> tuple[float, float]:
    """Seconds of one whole training, and its error on the test split."""
    value, seconds = timed(partial(fit, trained, epochs, precision, seed))
    x = trained.data.x_test
    mask = ms.metrics.shapley_pairs(len(x), len(value.players), PAIRS)
    return seconds, ms.metrics.mean_squared_error(value, x, mask).mse


def time_to_error(
    trained: Any, precision: str, epochs: Sequence[int], seeds: int, goal: float
) -> list[dict[str, Any]]:
    """Trainings of more and more epochs, until one is below the goal with every seed."""
    tried: list[dict[str, Any]] = []
    for count in sorted(epochs):
        runs: list[tuple[float, float]] = []
        while len(runs) < seeds and all(error < goal for _, error in runs):
            runs.append(finished(trained, count, precision, len(runs)))
        took, errors = zip(*runs, strict=True)
        means = {"seconds": statistics.median(took), "mse": statistics.mean(errors)}
        tried.append({"epochs": count, **means, "worst": max(errors)})
        if max(errors) < goal:
            break
    return tried


def tables(found: Found) -> list[Table]:
    tried = {
        f"{precision}, {one['epochs']} epochs": one
        | {f"below {found['goal']}": one["worst"] < found["goal"]}
        for precision, runs in found["time_to_error"].items()
        for one in runs
    }
    rates = {f"repeat {k + 1}": one for k, one in enumerate(found["throughput"])}
    return [records("time to an error", tried), records("steps per second", rates)]


def summary(found: Found) -> dict[str, Any]:
    rates = found["throughput"]
    told = {
        "steps per second over a bare loop": statistics.median(o["ours"] / o["bare"] for o in rates)
    }
    for precision, runs in found["time_to_error"].items():
        if runs[-1]["worst"] < found["goal"]:
            told[f"seconds to an error of {found['goal']}, {precision}"] = runs[-1]["seconds"]
    return told
