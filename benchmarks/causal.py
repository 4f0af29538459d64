"""Causal Shapley values with the masked-encoder VAE, its training included.

    python benchmarks/causal.py

144 rows x 7 features, three components in causal order of which the second is confounded, a small
MLP of 3 classes. Twice: exact Shapley values over all 128 coalitions with 100 draws, and values of
20 random coalitions per row with 1,000 draws, which is the size of shapr's vignette (383 s). The
rows are a mixture of two correlated normal distributions; the VAE is trained on 1,000 others.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.coalitions import SizeUniform
from manifold_shap.imputers.causal import CausalImputer

FEATURES = 7
COMPONENTS = [["x0", "x1"], ["x2", "x3", "x4"], ["x5", "x6"]]
CONFOUNDING = [False, True, False]
SETTINGS: dict[str, Any] = {
    "latent": 4,
    "hidden": [64, 64],
    "components": 2,
    "max_epochs": 5,
    "bank_size": 1000,
    "temper": 1.0,
    "seed": 0,
}


def make_rows(rows: int, seed: int) -> Tensor:
    law, generator = torch.Generator().manual_seed(0), torch.Generator().manual_seed(seed)
    mixing = torch.randn(2, FEATURES, FEATURES, generator=law) / FEATURES**0.5
    centre = torch.randn(2, FEATURES, generator=law)
    of = torch.randint(2, (rows,), generator=generator)
    standard = torch.randn(rows, 1, FEATURES, generator=generator)
    return centre[of] + (standard @ mixing[of])[:, 0]


def fit(reference: Tensor, posterior: str) -> CausalImputer:
    imputer = ms.fit_imputer(reference, posterior=posterior, **SETTINGS)
    return CausalImputer(imputer, COMPONENTS, CONFOUNDING)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=144)
    parser.add_argument("--reference", type=int, default=1000, help="rows of the training")
    parser.add_argument("--posterior", choices=["bank", "encoder"], default="bank")
    parser.add_argument("--threads", type=int, help="of torch; by default one per core")
    parser.add_argument("--out", type=Path, help="also write the figures to this JSON file")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 3))
    reference, x = make_rows(arguments.reference, 1), make_rows(arguments.rows, 2)
    seconds, used = {}, {}

    def timed(name: str, since: tuple[float, float]) -> tuple[float, float]:
        now = time.perf_counter(), time.process_time()
        seconds[name], used[name] = now[0] - since[0], now[1] - since[1]
        return now

    start = time.perf_counter(), time.process_time()
    imputer = fit(reference, arguments.posterior)
    since = timed("fit", start)
    value = ms.imputed_value(model, imputer, "probability", draws=100)
    ms.exact_shapley(value, x)
    since = timed("explain_128_coalitions_100_draws", since)
    mask = SizeUniform(FEATURES).sample((len(x), 20), torch.Generator().manual_seed(0))
    many = ms.imputed_value(model, imputer, "probability", draws=1000)
    many(x, mask)
    timed("values_20_coalitions_1000_draws", since)
    exact, some = list(seconds)[1:]
    figures = {
        "total_seconds": seconds["fit"] + seconds[exact],
        "total_seconds_1000_draws": seconds["fit"] + seconds[some],
        "seconds": seconds,
        "processor_seconds": used,
        "model_rows": {exact: len(x) * 126 * 100, some: len(x) * 20 * 1000},
        "settings": {**SETTINGS, "posterior": arguments.posterior, "reference": len(reference)},
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    print(json.dumps(figures, indent=2))
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
