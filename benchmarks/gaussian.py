"""Exact Shapley values with the Gaussian imputer: 144 rows, 7 features, 1,000 draws, small MLP.

    python benchmarks/gaussian.py [--device cuda]

All 128 coalitions of every row: 18 million model rows. The reference is shapr's vignette on the
same size of problem, 12 s for at most 128 coalitions. Rows are Gaussian, correlated; the time
includes the fit of the imputer. Batch sizes alternate; figures are medians. Processor seconds, of
all threads, are less at the mercy of what else runs.
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

BATCH_SIZES = [2**k for k in range(12, 19, 2)]


def make_rows(rows: int, features: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(features, features, generator=generator)
    return torch.randn(rows, features, generator=generator) @ mixing


def seconds(
    model: nn.Module, x: torch.Tensor, reference: torch.Tensor, draws: int, batch_size: int
) -> tuple[float, float]:
    synchronise = torch.cuda.synchronize if x.device.type == "cuda" else (lambda: None)
    synchronise()
    start, used = time.perf_counter(), time.process_time()
    imputer = GaussianImputer(reference)
    value = ms.imputed_value(model, imputer, "probability", draws)
    ms.exact_shapley(value, x, batch_size=batch_size)
    synchronise()
    return time.perf_counter() - start, time.process_time() - used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--instances", type=int, default=144)
    parser.add_argument("--features", type=int, default=7)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, help="of torch; by default one per core")
    parser.add_argument("--out", type=Path, help="also write the figures to this JSON file")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    device = torch.device(arguments.device)
    torch.manual_seed(0)
    features = arguments.features
    model = nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, 3)).to(device)
    reference = make_rows(1000, features).to(device)
    x = make_rows(arguments.instances, features).to(device)
    times: dict[int, list[tuple[float, float]]] = {size: [] for size in BATCH_SIZES}
    for _ in range(arguments.repeats):
        for size, measured in times.items():
            measured.append(seconds(model, x, reference, arguments.draws, size))
    wall, used = (
        {size: statistics.median(pair[k] for pair in measured) for size, measured in times.items()}
        for k in (0, 1)
    )
    best = min(wall, key=lambda size: wall[size])
    figures = {
        "seconds": wall[best],
        "processor_seconds": used[best],
        "batch_size": best,
        "seconds_by_batch_size": wall,
        "processor_seconds_by_batch_size": used,
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
