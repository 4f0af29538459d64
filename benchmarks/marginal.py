"""Marginal values: paired permutations against shap's permutation explainer, in one run.

    python benchmarks/marginal.py

20 rows x 20 features x 820 coalitions with 100 donors and a small MLP of 5 classes. shap walks 20
orders and their reverses, 41 coalitions each, nobody and everybody included. Ours knows those two,
so it is measured twice: on as many orders as make at least 820 evaluated coalitions, which is the
ratio to read, and on the same orders (760 other coalitions). Both sides call the same network in
float32 (shap hands it float64 rows), each at its best batch size; the sides alternate, and figures
are medians.
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import shap
import torch

import manifold_shap as ms
from benchmarks.timing import seconds
from manifold_shap.nn import MLP

FEATURES, CLASSES, DONORS, PAIRS = 20, 5, 100, 20
COALITIONS = PAIRS * (2 * FEATURES + 1)
BATCH_SIZES = {"shap": [5, 10, 21, 41], "ours": [2**k for k in range(11, 18)]}


def shap_side(network: torch.nn.Module, x: np.ndarray, donors: np.ndarray) -> Callable:
    @torch.no_grad()
    def probabilities(rows: np.ndarray) -> np.ndarray:
        return network(torch.from_numpy(rows).float()).softmax(-1).numpy()

    masker = shap.maskers.Independent(donors, max_samples=len(donors))
    explainer = shap.PermutationExplainer(probabilities, masker, seed=0)
    return lambda size: explainer(x, max_evals=COALITIONS, batch_size=size, silent=True).values


def our_side(
    network: torch.nn.Module, x: torch.Tensor, donors: torch.Tensor, permutations: int
) -> Callable:
    imputer = ms.MarginalImputer(donors)
    value = ms.imputed_value(network, imputer, "probability", draws=len(donors))
    return lambda size: ms.permutation_shapley(
        value, x, permutations=permutations, batch_size=size
    ).phi.numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 64])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="also write the figures to this JSON file")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    network = MLP(FEATURES, arguments.hidden, CLASSES).eval()
    x, donors = torch.randn(arguments.rows, FEATURES), torch.randn(DONORS, FEATURES)
    per_order = FEATURES - 1
    same_coalitions = 2 * -(-COALITIONS // (2 * per_order))
    sides = {
        "shap": shap_side(network, x.numpy(), donors.numpy()),
        "ours": our_side(network, x, donors, same_coalitions),
        "ours_same_orders": our_side(network, x, donors, 2 * PAIRS),
    }
    best = {}
    for name, work in sides.items():
        sizes = BATCH_SIZES[name.split("_")[0]]
        times = seconds({size: partial(work, size) for size in sizes}, repeats=3)
        best[name] = min(times, key=times.__getitem__)
        print(name, {size: round(figure, 2) for size, figure in times.items()}, flush=True)
    works = {name: partial(work, best[name]) for name, work in sides.items()}
    medians = seconds(works, arguments.repeats)
    exact = our_side(network, x, donors, 2000)(8192)
    figures = {
        "best_batch_size": best,
        "seconds": medians,
        "coalitions": {
            "shap": COALITIONS,
            "ours": same_coalitions * per_order,
            "ours_same_orders": 2 * PAIRS * per_order,
        },
        "error": {
            name: float(np.abs(work(best[name]) - exact).mean()) for name, work in sides.items()
        },
        "hidden": arguments.hidden,
        "ratio": medians["shap"] / medians["ours"],
        "ratio_same_orders": medians["shap"] / medians["ours_same_orders"],
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "shap": shap.__version__,
    }
    print(json.dumps(figures, indent=2))
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
