"""Exact Shapley values with the Gaussian imputer: 144 rows, 7 features, 1,000 draws, small MLP.

    python benchmarks/gaussian.py [--device cuda]

All 128 coalitions of every row: 18 million model rows. The reference is shapr's vignette on the
same size of problem, 12 s for at most 128 coalitions. Rows are Gaussian, correlated; the time
includes the fit of the imputer. Batch sizes alternate; figures are medians.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from torch import nn

import manifold_shap as ms
from manifold_shap.imputers.gaussian import GaussianImputer

BATCH_SIZES = [2**k for k in range(12, 20)]


def make_rows(rows: int, features: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(features, features, generator=generator)
    return torch.randn(rows, features, generator=generator) @ mixing


def seconds(
    model: nn.Module, x: torch.Tensor, reference: torch.Tensor, draws: int, batch_size: int | None
) -> float:
    synchronise = torch.cuda.synchronize if x.device.type == "cuda" else (lambda: None)
    synchronise()
    start = time.perf_counter()
    imputer = GaussianImputer(reference)
    value = ms.imputed_value(model, imputer, "probability", draws)
    ms.exact_shapley(value, x, batch_size=batch_size)
    synchronise()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--instances", type=int, default=144)
    parser.add_argument("--features", type=int, default=7)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="also write the figures to this JSON file")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    torch.manual_seed(0)
    features = arguments.features
    model = nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, 3)).to(device)
    reference = make_rows(1000, features).to(device)
    x = make_rows(arguments.instances, features).to(device)
    times: dict[int | None, list[float]] = {size: [] for size in (None, *BATCH_SIZES)}
    for _ in range(arguments.repeats):
        for size, measured in times.items():
            measured.append(seconds(model, x, reference, arguments.draws, size))
    medians = {size: statistics.median(measured) for size, measured in times.items()}
    default = medians.pop(None)
    best = min(medians, key=lambda size: medians[size])
    figures = {
        "seconds": medians[best],
        "batch_size": best,
        "seconds_at_default_batch_size": default,
        "seconds_by_batch_size": medians,
        "model_rows": arguments.instances * (2**features - 2) * arguments.draws,
        "device": str(device) if device.type == "cpu" else torch.cuda.get_device_name(device),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    print(json.dumps(figures, indent=2))
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
