"""Training: throughput against a bare PyTorch loop, and time to the error of the paper.

Both on the MNIST surrogate of the default configuration. *Throughput*: `fit_surrogate`, which also
asks the model for its targets and writes checkpoints, against a bare loop of as many steps on the
same network, coalitions, optimiser, schedule and weight averaging, which validates after every
epoch, too; and against that loop with its network and loss compiled into one graph by
`torch.compile`, whose compilation is not counted. Sides alternate. *Time to an error*: the smallest
number of epochs, of those tried, after which the finished training of every seed is below a mean
squared error of 0.0121 on the test split (Eq. 16; Frye et al. 2021, Table 1, after 2,000 epochs),
and the seconds that it takes. The learning rate runs one cycle, so that each number of epochs is a
training of its own.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.support.measures import timed
from benchmarks.support.trained import Trained
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.perceptron import Perceptron

TITLE = "Training"
QUICK = {
    "epochs": 1, "repeats": 1, "compiled": False, "try_epochs": [1], "seeds": 1,
    "precisions": ["32-true"],
}  # fmt: skip
BATCH, DECAY, RATE = 256, 0.99, 2e-3
PUBLISHED = 0.0121  # Frye et al., Table 1: the supervised method.
PAIRS = 50_000  # (row, coalition) pairs that a mean squared error is taken over.
CPU = {"accelerator": "cpu"}


def run(
    epochs: int = 2,  # of the throughput
    repeats: int = 5,  # of the throughput; 0: none is measured
    compiled: bool = True,  # whether the bare loop is timed with its graph compiled, too
    try_epochs: Sequence[int] = (4, 6, 8, 10, 12, 15, 20, 30),  # until all seeds are below the goal
    seeds: int = 3,  # of each
    precisions: Sequence[str] = ("bf16-mixed", "32-true"),  # of the trainings
    goal: float = PUBLISHED,  # mean squared error
    data: str = "mnist",  # the data set
    learning_rate: float = RATE,  # of the trainings whose errors are measured
) -> dict[str, Any]:
    """Steps per second of both sides, and trainings of more and more epochs."""
    trained = Trained(data, seed=0)
    ratios = [throughput(trained, epochs, compiled) for _ in range(repeats)]
    tried = {
        precision: time_to_error(trained, precision, try_epochs, seeds, goal, learning_rate)
        for precision in precisions
    }
    return {"throughput": ratios, "time_to_error": tried, "goal": goal}


def throughput(trained: Trained, epochs: int, compiled: bool) -> dict[str, float]:
    """Steps per second of all sides."""
    data = trained.data
    rows, validation = ((x, trained.model(x).exp()) for x in (data.x_train, data.x_validation))
    steps = epochs * max(100, -(-len(data.x_train) // BATCH))
    sides: dict[str, Callable[[], Any]] = {
        "ours": lambda: fit(trained, epochs, "32-true", 0),
        "bare": Bare(rows, validation).loop(steps, epochs),
    }
    if compiled:
        sides["bare, compiled"] = Bare(rows, validation, compiled).loop(steps, epochs)
    found = {name: steps / timed(side)[1] for name, side in sides.items()}
    print(found, flush=True)
    return {"steps": steps, **found}


def fit(
    trained: Trained, epochs: int, precision: str, seed: int, learning_rate: float = RATE
) -> ms.SurrogateValue:
    trainer = {**CPU, "precision": precision}
    settings = {"max_epochs": epochs, "seed": seed, "learning_rate": learning_rate}
    return trained.surrogate(trainer=trainer, **settings)


class Bare:
    """A loop without anything else.

    Args:
        rows, validation: inputs and targets.
        compiled: whether network and loss are one compiled graph, which is made here.
    """

    def __init__(
        self,
        rows: tuple[Tensor, Tensor],
        validation: tuple[Tensor, Tensor],
        compiled: bool = False,
    ) -> None:
        torch.manual_seed(0)
        (x, target), self.validation = rows, validation
        self.x, self.target = x, target
        event, players = x.shape[1:], x[0].numel()
        self.surrogate = Perceptron(GameShape(event, range(players), target.shape[1], True))
        self.surrogate.standardise(x, target)
        self.law = ms.laws.SizeUniform(players)
        self.loss: Callable[..., Tensor] = torch.compile(self._loss) if compiled else self._loss
        self._step(0).backward()
        self.surrogate.zero_grad()

    def _loss(self, x: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        return (self.surrogate(x, mask) - target[:, None]).square().mean()

    def _step(self, step: int) -> Tensor:
        generator = torch.Generator().manual_seed(step)
        rows = torch.randint(len(self.x), (BATCH,), generator=generator)
        mask = self.law.sample_antithetic((BATCH,), generator)
        return self.loss(self.x[rows], mask, self.target[rows])

    def loop(self, steps: int, epochs: int) -> Callable[[], float]:
        """A function that trains, and returns the last validation error."""

        def train() -> float:
            weights = self.surrogate.parameters()
            optimizer = torch.optim.AdamW(weights, RATE, weight_decay=0.01, fused=True)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, steps)
            average = AveragedModel(self.surrogate, multi_avg_fn=get_ema_multi_avg_fn(DECAY))
            error = torch.tensor(0.0)
            for step in range(steps):
                self._step(step).backward()
                optimizer.step()
                optimizer.zero_grad()
                schedule.step()
                average.update_parameters(self.surrogate)
                if (step + 1) % (steps // epochs) == 0:
                    error = self._validated(average)
            return error.item()

        return train

    @torch.no_grad()
    def _validated(self, average: AveragedModel) -> Tensor:
        x, target = self.validation
        mask = self.law.sample_antithetic((len(x),), torch.Generator())
        return (average(x, mask) - target[:, None]).square().mean()


def finished(
    trained: Trained, epochs: int, precision: str, seed: int, learning_rate: float = RATE
) -> dict[str, float]:
    """Seconds of one whole training, and its error on the test split."""
    value, seconds = timed(lambda: fit(trained, epochs, precision, seed, learning_rate))
    x = trained.data.x_test
    score = ms.metrics.mean_squared_error(
        value, x, ms.metrics.shapley_pairs(len(x), len(value.players), PAIRS)
    )
    return {"seconds": seconds, "mse": score.mse, "standard_error": score.standard_error}


def time_to_error(
    trained: Any,
    precision: str,
    epochs: Sequence[int],
    seeds: int,
    goal: float,
    learning_rate: float = RATE,
) -> list[dict[str, Any]]:
    """Trainings of more and more epochs, until one is below the goal with every seed.

    A number of epochs is given up at the first seed above.
    """
    tried: list[dict[str, Any]] = []
    for count in sorted(epochs):
        runs: list[dict[str, float]] = []
        while len(runs) < seeds and all(one["mse"] < goal for one in runs):
            runs.append(finished(trained, count, precision, len(runs), learning_rate))
        tried.append({
            "epochs": count,
            "seconds": statistics.median(one["seconds"] for one in runs),
            "mse": statistics.mean(one["mse"] for one in runs),
            "worst": max(one["mse"] for one in runs),
            "runs": runs,
        })  # fmt: skip
        print(precision, tried[-1], flush=True)
        if tried[-1]["worst"] < goal:
            break
    return tried


def tables(found: Found) -> list[Table]:
    tried = {
        f"{precision}, {one['epochs']} epochs": {k: v for k, v in one.items() if k != "runs"}
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
