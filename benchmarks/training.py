"""Training throughput: our Lightning training against a bare PyTorch loop doing the same steps.

    MANIFOLD_SHAP_DATA=... python benchmarks/training.py

Both sides train the MNIST surrogate of the default configuration on the same batches, coalitions,
optimiser, schedule and weight averaging, and validate after every epoch; ours writes checkpoints
besides. The sides alternate; the figure is the median ratio.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader

from manifold_shap.data import MNIST
from manifold_shap.data.batches import loader
from manifold_shap.surrogate import squared_error
from manifold_shap.training.loop import train
from manifold_shap.training.surrogate import SurrogateTask

DECAY = 0.99


def make_task(data: MNIST, target: torch.Tensor) -> SurrogateTask:
    torch.manual_seed(0)
    task = SurrogateTask(
        event=list(data.players.event),
        index=data.players.index.flatten().tolist(),
        players=list(data.players.names),
        outputs=list(data.classes),
        space="probability",
        zero_replacement=1e-3,
    )
    task.describe(data.x_train, target)
    return task


def bare(task: SurrogateTask, batches: DataLoader, validation: DataLoader, epochs: int) -> float:
    surrogate, law = task.surrogate, task.law
    optimizer = torch.optim.AdamW(surrogate.parameters(), 2e-3, weight_decay=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, epochs * len(batches))
    average = AveragedModel(surrogate, multi_avg_fn=get_ema_multi_avg_fn(DECAY))
    step = 0
    for epoch in range(epochs):
        batches.sampler.set_epoch(epoch)
        for x, target in batches:
            generator = torch.Generator().manual_seed(step)
            mask = law.sample_antithetic((len(x),), generator)
            squared_error(surrogate(x, mask), target).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            average.update_parameters(surrogate)
            step += 1
        with torch.no_grad():
            generator = torch.Generator().manual_seed(-1)
            errors = [
                squared_error(average(x, law.sample_antithetic((len(x),), generator)), target)
                for x, target in validation
            ]
    return torch.cat(errors).mean().item()


def ours(task: SurrogateTask, batches: DataLoader, validation: DataLoader, epochs: int) -> float:
    with tempfile.TemporaryDirectory() as directory:
        result = train(
            task,
            batches,
            validation,
            directory,
            max_epochs=epochs,
            weight_averaging=DECAY,
            trainer={"accelerator": "cpu"},
        )
    return result.validation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="also write the figures to this JSON file")
    arguments = parser.parse_args()
    data = MNIST(name="mnist")
    data.setup()
    # Throughput does not depend on the model explained: labels stand in for its probabilities.
    one_hot = torch.nn.functional.one_hot
    target = one_hot(data.y_train, 10).float()
    batches = loader(data.x_train, target, batch_size=256, shuffle=True)
    check = one_hot(data.y_validation, 10).float()
    validation = loader(data.x_validation, check, batch_size=1024)
    steps = arguments.epochs * len(batches)
    rates: dict[str, list[float]] = {"bare": [], "ours": []}
    for _ in range(arguments.repeats):
        for name, side in (("bare", bare), ("ours", ours)):
            task = make_task(data, target)
            start = time.perf_counter()
            error = side(task, batches, validation, arguments.epochs)
            rates[name].append(steps / (time.perf_counter() - start))
            print(f"{name}: {rates[name][-1]:.1f} steps/s, validation MSE {error:.5f}", flush=True)
    ratios = [b / a for a, b in zip(rates["bare"], rates["ours"], strict=True)]
    figures = {
        "steps": steps,
        "bare_steps_per_second": statistics.median(rates["bare"]),
        "our_steps_per_second": statistics.median(rates["ours"]),
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    print(json.dumps(figures, indent=2))
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
