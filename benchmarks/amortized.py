"""An amortised explainer against permutations: error, and time for each row.

    MANIFOLD_SHAP_DATA=... python benchmarks/amortized.py --data mnist

trains the default surrogate briefly and an explainer for it, and measures both the explainer and
permutations of several lengths by a long run of `coalition_shapley` on test rows, or by the exact
values where players are few. Its time is for all Shapley values of a row, in batches, v(N) of the
model included.
"""

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import manifold_shap as ms
from benchmarks.figures import machine, markdown, wait, write
from benchmarks.peers import surrogate_on

PAIRS = (8, 32, 128, 256)
CPU = {"accelerator": "cpu"}


def relative_error(found: Tensor, reference: Tensor) -> float:
    """Mean over rows of the root of squared errors over squared values."""
    squared = (found - reference).square().sum((1, 2)) / reference.square().sum((1, 2))
    return squared.sqrt().mean().item()


def milliseconds(explainer: Any, x: Tensor, repeats: int = 5) -> float:
    """For each row, in its own batches."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        explainer(x)
        wait(explainer.value.device)
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times) / len(x)


def measure(
    name: str,
    surrogate_epochs: int,
    epochs: int,
    rows: int,
    coalitions: int,
    precision: str,
    device: str = "cpu",
) -> dict[str, Any]:
    value, data = surrogate_on(name, surrogate_epochs, device)
    settings = {"x_validation": data.x_validation[:512], "max_epochs": epochs}
    on = torch.device(device)
    where = {"accelerator": "gpu", "devices": [on.index or 0]} if on.type == "cuda" else CPU
    trainer = {**where, "precision": precision}
    explainer = ms.fit_amortized(value, data.x_train, **settings, trainer=trainer)
    x = data.x_test[:rows]
    if len(value.players) <= 13:
        reference = ms.exact_shapley(value, x)
    else:
        reference = ms.coalition_shapley(value, x, coalitions=coalitions, seed=1)
    own = reference.standard_error.square().sum((1, 2)) / reference.phi.square().sum((1, 2))
    errors = {"reference": own.sqrt().mean().item(), "amortized": explainer.measure(reference)}
    for pairs in PAIRS:
        found = ms.permutation_shapley(value, x, permutations=2 * pairs)
        errors[f"{pairs} pairs"] = relative_error(found.phi, reference.phi)
    many = data.x_test[:2048]
    times = {"32-true": milliseconds(explainer, many)}
    explainer.value = value.in_precision("bf16-mixed")
    times["bf16-mixed"] = milliseconds(explainer, many)
    errors["amortized, bf16"] = explainer.measure(reference)
    return {
        "players": len(value.players),
        "outputs": len(value.outputs),
        "training": explainer.training,
        "relative_error": errors,
        "milliseconds_per_row": times,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    choices = ["digits", "census", "mnist"]
    parser.add_argument("--data", nargs="+", default=choices, choices=choices)
    parser.add_argument("--surrogate-epochs", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=6, help="of the explainer")
    parser.add_argument("--precision", default="bf16-mixed", help="of its training")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", type=int, default=24, help="test rows to compare on")
    parser.add_argument("--coalitions", type=int, default=2048, help="of the reference")
    parser.add_argument("--out", type=Path, help="folder for amortized.json and .md")
    chosen = parser.parse_args()
    settings = (
        chosen.surrogate_epochs,
        chosen.epochs,
        chosen.rows,
        chosen.coalitions,
        chosen.precision,
        chosen.device,
    )
    report: dict[str, Any] = machine(chosen.device)
    for name in chosen.data:
        report[name] = measure(name, *settings)
        print(name, report[name], flush=True)
    sides = list(report[chosen.data[0]]["relative_error"])
    text = markdown(
        ["data", *sides, "ms per row", "ms per row, bf16"],
        [
            [name, *report[name]["relative_error"].values(), *times.values()]
            for name in chosen.data
            for times in (report[name]["milliseconds_per_row"],)
        ],
    )
    print(text)
    if chosen.out:
        write(chosen.out, "amortized", report, text)


if __name__ == "__main__":
    main()
