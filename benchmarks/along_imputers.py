"""Imputers along orders: by one factorisation of each order, and coalition by coalition.

    python benchmarks/along_imputers.py

Abalone (8 players, 10 elements), breast cancer (30 players and elements) and census (13 players,
106 elements), 2,000 reference rows of each (at most), in front of a classifier of one hidden layer
of 64. Four rows and 16 orders of each are valued by `values_along`, and by a call for the same
masks. The sides alternate, and figures are medians of seconds. `model` is the part of both sides in
which the classifier is asked. The marginal imputer has nothing to keep along an order: it splices.
"""

import argparse
import json
from pathlib import Path

import torch
from sklearn.datasets import load_breast_cancer
from torch import Tensor

import manifold_shap as ms
from benchmarks.timing import seconds
from manifold_shap.data import Abalone, Census
from manifold_shap.imputers.empirical import EmpiricalImputer
from manifold_shap.imputers.gaussian import CopulaImputer, GaussianImputer
from manifold_shap.nn import MLP

IMPUTERS = {
    "gaussian": GaussianImputer,
    "copula": CopulaImputer,
    "empirical": EmpiricalImputer,
    "marginal": ms.MarginalImputer,
}
HIDDEN, CLASSES, ROWS, REFERENCE = 64, 2, 4, 2000


def table(name: str) -> tuple[Tensor, Tensor, ms.Players]:
    """Reference rows, rows to explain, and players."""
    if name == "cancer":
        x = torch.as_tensor(load_breast_cancer().data, dtype=torch.float32)
        x = (x - x.mean(0)) / x.std(0)
        return x[ROWS:], x[:ROWS], ms.Players.of_elements((x.shape[1],))
    loaded = {"abalone": Abalone, "census": Census}[name]().load()
    train = loaded.train[0]
    chosen = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))[:REFERENCE]
    return train[chosen], loaded.test[0][:ROWS], loaded.players


def measure(
    imputer: ms.Imputer, x: Tensor, draws: int, orders: int, repeats: int
) -> dict[str, float]:
    """Seconds of the orders of all rows, both ways; and how far values differ."""
    torch.manual_seed(0)
    model = MLP(imputer.players.index.numel(), [HIDDEN], CLASSES).eval()
    value = ms.imputed_value(model, imputer, draws=draws)
    players = len(imputer.players)
    order = torch.rand(len(x), orders, players).argsort(-1)
    keys = torch.arange(len(x) * orders).view(len(x), orders)
    masks = (order.argsort(-1)[:, :, None] <= torch.arange(players - 1)[:, None]).flatten(1, 2)
    own = keys.repeat_interleave(players - 1, 1)
    completed = imputer.impute(x, masks, range(value.draws), own).rows.flatten(0, 2)
    works = {
        "plain": lambda: value.values(x, masks, own),
        "along": lambda: value.values_along(x, order, keys),
        "model": lambda: value.space(value.model(completed)),
    }
    gap = (works["along"]().flatten(1, 2) - works["plain"]()).abs()
    found = seconds(works, repeats)
    return {
        **found,
        "ratio": found["plain"] / found["along"],
        "largest_difference": gap.max().item(),
    }


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=["abalone", "census", "cancer"])
    parser.add_argument("--imputers", nargs="+", default=[*IMPUTERS], choices=IMPUTERS)
    parser.add_argument("--draws", type=int, default=64)
    parser.add_argument("--orders", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, help="of torch; by default one per core")
    parser.add_argument("--out", type=Path, help="also write the figures to this JSON file")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    found = {}
    for data in arguments.data:
        reference, x, players = table(data)
        found[data] = {
            name: measure(
                IMPUTERS[name](reference, players),
                x,
                arguments.draws,
                arguments.orders,
                arguments.repeats,
            )
            for name in arguments.imputers
        }
    figures = {
        "data": found,
        "draws": arguments.draws,
        "orders": arguments.orders,
        "rows": ROWS,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    print(json.dumps(figures, indent=2))
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
