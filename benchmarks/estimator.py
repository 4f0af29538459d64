"""Estimator throughput: paired permutations against the bare forward of the same surrogate.

    MANIFOLD_SHAP_DATA=... python benchmarks/estimator.py [--device cuda]

Value-function rows per second on MNIST (784 players, 10 outputs, network 512-512). The bare
forward gets ready-made coalitions and its best batch size, in two forms: one coalition per row of
input, and many coalitions of one row at once. The sides alternate; figures are medians.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

import manifold_shap as ms
from manifold_shap.data import MNIST
from manifold_shap.models import Model
from manifold_shap.nn import MLP
from manifold_shap.surrogate.network import Surrogate

BATCH_SIZES = [2**k for k in range(8, 17)]


def make_value(data: MNIST) -> ms.SurrogateValue:
    torch.manual_seed(0)
    surrogate = Surrogate(data.players.event, range(784), 10, True)
    model = Model(MLP(784, [512], 10), data.classes, "logits")
    base = torch.full((10,), 0.1)
    return ms.SurrogateValue(surrogate, model, data.players, ms.as_space("probability"), base)


@torch.no_grad()
def forward(
    surrogate: Surrogate, x: torch.Tensor, mask: torch.Tensor, rows: int
) -> Callable[[], int]:
    def work() -> int:
        for _ in range(max(1, rows // mask[..., 0].numel())):
            surrogate(x, mask)
        return max(1, rows // mask[..., 0].numel()) * mask[..., 0].numel()

    return torch.no_grad()(work)


def rate(work: Callable[[], int], device: torch.device) -> float:
    synchronise = torch.cuda.synchronize if device.type == "cuda" else (lambda: None)
    synchronise()
    start = time.perf_counter()
    rows = work()
    synchronise()
    return rows / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--instances", type=int, default=8)
    parser.add_argument("--permutations", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="also write the figures to this JSON file")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    data = MNIST(name="mnist")
    data.setup()
    value = make_value(data).to(device)
    law = ms.SizeUniform(784)
    generator = torch.Generator(device).manual_seed(0)
    x = data.x_test[: arguments.instances].to(device)
    total = arguments.instances * arguments.permutations * 783

    def estimate(batch_size: int) -> int:
        explanation = ms.permutation_shapley(
            value, x, permutations=arguments.permutations, batch_size=batch_size
        )
        return explanation.made_by["evaluations"]

    sides: dict[str, dict[int, Callable[[], int]]] = {"one": {}, "many": {}, "estimator": {}}
    for size in BATCH_SIZES:
        rows = data.x_test[torch.arange(size) % len(data.x_test)].to(device)
        sides["one"][size] = forward(
            value.surrogate, rows, law.sample((size, 1), generator), total // 8
        )
        sides["many"][size] = forward(
            value.surrogate, x[:1], law.sample((1, size), generator), total // 8
        )
        sides["estimator"][size] = partial(estimate, size)
    best: dict[str, int] = {}
    for name, works in sides.items():
        rates = {size: rate(work, device) for size, work in works.items()}
        best[name] = max(rates, key=rates.__getitem__)
        print(name, {size: round(figure) for size, figure in rates.items()}, flush=True)
    repeated: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(arguments.repeats):
        for name in sides:
            repeated[name].append(rate(sides[name][best[name]], device))
    medians = {name: statistics.median(figures) for name, figures in repeated.items()}
    figures = {
        "best_batch_size": best,
        "rows_per_second": medians,
        "ratio_to_one_coalition_per_row": medians["estimator"] / medians["one"],
        "ratio_to_many_coalitions_per_row": medians["estimator"] / medians["many"],
        "device": str(device) if device.type == "cpu" else torch.cuda.get_device_name(device),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    print(json.dumps(figures, indent=2))
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
