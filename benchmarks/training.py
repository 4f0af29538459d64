"""Training: throughput against a bare PyTorch loop, and time to the error of the paper.

    MANIFOLD_SHAP_DATA=... python benchmarks/training.py --out benchmarks/results

Two parts (`--parts`), both on the MNIST surrogate of the default configuration:

- `throughput`: ours and the bare loop train on the same batches, coalitions, optimiser, schedule
  and weight averaging, and validate after every epoch; ours writes checkpoints besides. The sides
  alternate; the figure is the median ratio.
- `time_to_error`: the smallest number of epochs, of those tried, after which the finished training
  of every seed is below a mean squared error of 0.0121 on the test split (Eq. 16; Frye et al.,
  Table 1, after 2,000 epochs), and the seconds that it takes: the median over seeds of the whole
  call of `fit_surrogate`, in each precision. The learning rate runs one cycle, so that each number
  of epochs is a training of its own.

`--out` names a folder for `training.json`, `training.md` and `training.png`.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader

import manifold_shap as ms
from benchmarks.figures import Panel, draw, machine, markdown, write
from manifold_shap.data import MNIST
from manifold_shap.models import Model
from manifold_shap.surrogate.fit import SurrogateTask
from manifold_shap.training.batches import loader
from manifold_shap.training.classifier import MLPClassifier, fit_classifier, load_classifier
from manifold_shap.training.loop import train
from manifold_shap.training.task import training_options

PARTS = ("throughput", "time_to_error")
DECAY = 0.99
# Frye et al., Table 1: the supervised surrogate.
PUBLISHED = 0.0121
# (row, coalition) pairs that a mean squared error is taken over.
PAIRS = 50_000


def make_task(data: MNIST, target: torch.Tensor) -> SurrogateTask:
    torch.manual_seed(0)
    settings = {
        "event": data.players.event,
        "index": data.players.index.flatten().tolist(),
        "players": data.players.names,
        "outputs": data.classes,
        "space": {"output": "probability"},
        "hidden": (512, 512),
        "activation": "relu",
    }
    task = SurrogateTask({**settings, **training_options(make_task, {}, patience=20)})
    task.describe(data.x_train, target)
    return task


def bare(task: SurrogateTask, batches: DataLoader, validation: DataLoader, epochs: int) -> float:
    surrogate, law = task.surrogate, task.law
    optimizer = torch.optim.AdamW(surrogate.parameters(), 2e-3, weight_decay=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, epochs * len(batches))
    average = AveragedModel(surrogate, multi_avg_fn=get_ema_multi_avg_fn(DECAY))
    sampler: Any = batches.sampler
    step = 0
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, target in batches:
            generator = torch.Generator().manual_seed(step)
            mask = law.sample_antithetic((len(x),), generator)
            (surrogate(x, mask) - target[:, None]).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            average.update_parameters(surrogate)
            step += 1
        with torch.no_grad():
            generator = torch.Generator().manual_seed(-1)
            masks = [law.sample_antithetic((len(x),), generator) for x, _ in validation]
            pairs = zip(masks, validation, strict=True)
            errors = [
                (average(x, mask) - target[:, None]).square().flatten()
                for mask, (x, target) in pairs
            ]
    return torch.cat(errors).mean().item()


def ours(task: SurrogateTask, batches: DataLoader, validation: DataLoader, epochs: int) -> float:
    given = {"max_epochs": epochs, "weight_averaging": DECAY, "trainer": {"accelerator": "cpu"}}
    options = training_options(ours, given, progress=False)
    result = train(task, batches, validation, options)
    return result.validation


def throughput(epochs: int, repeats: int) -> dict[str, Any]:
    """Steps per second of both sides, and their ratios."""
    data = MNIST(name="mnist")
    data.setup()
    # Throughput does not depend on the model explained: labels stand in for its probabilities.
    one_hot = torch.nn.functional.one_hot
    target = one_hot(data.y_train, 10).float()
    batches = loader(data.x_train, target, batch_size=256, shuffle=True)
    check = one_hot(data.y_validation, 10).float()
    validation = loader(data.x_validation, check, batch_size=1024)
    steps = epochs * len(batches)
    rates: dict[str, list[float]] = {"bare": [], "ours": []}
    for _ in range(repeats):
        for name, side in (("bare", bare), ("ours", ours)):
            task = make_task(data, target)
            start = time.perf_counter()
            error = side(task, batches, validation, epochs)
            rates[name].append(steps / (time.perf_counter() - start))
            print(f"{name}: {rates[name][-1]:.1f} steps/s, validation MSE {error:.5f}", flush=True)
    ratios = [b / a for a, b in zip(rates["bare"], rates["ours"], strict=True)]
    return {
        "steps": steps,
        "bare_steps_per_second": statistics.median(rates["bare"]),
        "our_steps_per_second": statistics.median(rates["ours"]),
        "ratio": statistics.median(ratios),
        "ratios": ratios,
    }


def classified() -> tuple[MNIST, Model]:
    """MNIST, and the classifier of the default configuration."""
    data = MNIST(name="mnist")
    data.setup()
    with tempfile.TemporaryDirectory() as place:
        fit_classifier(MLPClassifier(), data, place, {"accelerator": "cpu"})
        return data, load_classifier(Path(place), data)


def finished(data: Any, model: Model, epochs: int, precision: str, seed: int) -> dict[str, float]:
    """Seconds of one whole training, and its error on the test split."""
    rows = {key: getattr(data, key) for key in ("x_train", "x_validation", "players")}
    trainer = {"accelerator": "cpu", "precision": precision}
    start = time.perf_counter()
    value = ms.fit_surrogate(model, **rows, max_epochs=epochs, seed=seed, trainer=trainer)
    seconds = time.perf_counter() - start
    mask = ms.shapley_pairs(len(data.x_test), len(data.players), least=PAIRS)
    score = ms.mean_squared_error(value, data.x_test, mask)
    return {"seconds": seconds, "mse": score.mse, "standard_error": score.standard_error}


def time_to_error(
    data: Any, model: Model, precision: str, epochs: Sequence[int], seeds: int, goal: float
) -> dict[str, Any]:
    """Trainings of more and more epochs, until one is below the goal with every seed.

    A number of epochs is given up at the first seed above.
    """
    tried: list[dict[str, Any]] = []
    for count in sorted(epochs):
        runs: list[dict[str, float]] = []
        while len(runs) < seeds and all(one["mse"] < goal for one in runs):
            runs.append(finished(data, model, count, precision, seed=len(runs)))
        tried.append(
            {
                "epochs": count,
                "seconds": statistics.median(one["seconds"] for one in runs),
                "mse": statistics.mean(one["mse"] for one in runs),
                "worst": max(one["mse"] for one in runs),
                "runs": runs,
            }
        )
        print(precision, json.dumps(tried[-1]), flush=True)
        if tried[-1]["worst"] < goal:
            return {"goal": goal, "epochs": count, "seconds": tried[-1]["seconds"], "tried": tried}
    return {"goal": goal, "epochs": None, "seconds": None, "tried": tried}


def table(report: Mapping[str, Any]) -> str:
    text = []
    if "throughput" in report:
        found = report["throughput"]
        rates = found["bare_steps_per_second"], found["our_steps_per_second"]
        columns = ["steps", "bare, steps per second", "ours", "ratio"]
        text.append(markdown(columns, [[found["steps"], *rates, found["ratio"]]]))
    if "time_to_error" in report:
        columns = ["precision", "epochs", "seconds", "mean squared error", "worst seed", ""]
        lines = []
        for precision, found in report["time_to_error"].items():
            for one in found["tried"]:
                below = one["epochs"] == found["epochs"]
                told = f"below {found['goal']}" if below else None
                figures = [one[key] for key in ("epochs", "seconds", "mse", "worst")]
                lines.append([precision, *figures, told])
        text.append(markdown(columns, lines))
    return "\n".join(text)


def panels(report: Mapping[str, Any]) -> list[Panel]:
    drawn = []
    if "time_to_error" in report:
        found = report["time_to_error"]
        curves = {
            precision: [(one["seconds"], one["mse"]) for one in entry["tried"]]
            for precision, entry in found.items()
        }
        levels = {f"Frye et al.: {PUBLISHED}": PUBLISHED}
        labels = "time to an error", "seconds of the whole training", "mean squared error"
        drawn.append(Panel(*labels, curves, levels, log=""))
    if "throughput" in report:
        points = list(enumerate(report["throughput"]["ratios"], start=1))
        labels = "throughput", "repeat", "ours / bare loop"
        drawn.append(Panel(*labels, {"ours / bare loop": points}, {"equal": 1.0}, log=""))
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--epochs", type=int, default=2, help="of the throughput")
    parser.add_argument("--repeats", type=int, default=5, help="of the throughput")
    parser.add_argument("--try-epochs", type=int, nargs="+", default=[4, 6, 8, 10, 12, 15, 20, 30])
    parser.add_argument("--seeds", type=int, default=3)
    precisions = ["bf16-mixed", "32-true"]
    parser.add_argument("--precisions", nargs="+", default=precisions, choices=precisions)
    parser.add_argument("--goal", type=float, default=PUBLISHED, help="mean squared error")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    report: dict[str, Any] = {}
    if "throughput" in chosen.parts:
        report["throughput"] = throughput(chosen.epochs, chosen.repeats)
    if "time_to_error" in chosen.parts:
        data, model = classified()
        settings = chosen.try_epochs, chosen.seeds, chosen.goal
        report["time_to_error"] = {
            precision: time_to_error(data, model, precision, *settings)
            for precision in chosen.precisions
        }
    print(json.dumps(report, indent=2))
    print(table(report))
    if chosen.out:
        write(chosen.out, "training", {**machine(), **report}, table(report), draw(panels(report)))


if __name__ == "__main__":
    main()
