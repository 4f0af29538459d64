"""Rows of a network with two layers of 256 units are explained, by so many evaluations per player,
as a function of rows and coalitions whose layers are not seen. The bare network computes as many
masked rows that are ready, in the batch size of those tried that is best for it. Each number of
players has a process of its own, whose peak memory includes that of the libraries.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.support.measures import in_own_process, peak_memory, seconds

TITLE = "How cost grows with players"
CAPTION = "time of `auto` over that of the bare network"
QUICK = {"players": ["64", "256"], "rows": 2, "repeats": 1}
OVER = {"players": ("64", "256", "1024", "4096")}
BATCHES = (64, 256, 1024, 4096, 16384)
ESTIMATORS: dict[str, Callable[..., ms.Explanation]] = {
    "auto": ms.auto_shapley,
    "permutation": ms.permutation_shapley,
}


def measure(
    players: str,
    evaluations: int = 16,  # per player
    rows: int = 8,
    repeats: int = 3,
) -> dict[str, Any]:
    """Seconds per row, and peak memory, for so many players."""
    return in_own_process(grown, int(players), evaluations, rows, repeats)


def grown(players: int, evaluations: int, rows: int, repeats: int) -> dict[str, Any]:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(players, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
                            nn.Linear(256, 10), nn.Softmax(-1)).requires_grad_(False)  # fmt: skip
    x, count = torch.randn(rows, players), evaluations * players
    value = ms.as_value_function(
        lambda x, mask: network(x[:, None] * mask), x, None, list("0123456789"), "probability",
        cost="network",
    )  # fmt: skip
    works: dict[Any, Callable[[], object]] = {
        name: partial(estimator, value, x, evaluations=count)
        for name, estimator in ESTIMATORS.items()
    }
    works["auto"]()
    peak = peak_memory()
    works |= {batch: partial(bare, network, x, batch, count * rows) for batch in BATCHES}
    took = seconds(works, repeats)
    best = min(BATCHES, key=took.__getitem__)
    return {
        "seconds per row": {name: took[name] / rows for name in ESTIMATORS},
        "over the bare network": {name: took[name] / took[best] for name in ESTIMATORS},
        "best batch": best,
        "peak memory, MB": peak,
    }


def bare(network: nn.Module, x: Tensor, batch: int, count: int) -> None:
    """The network's values of so many masked rows."""
    masked = x[:1] * (torch.rand(batch, x.shape[1]) < 0.5)
    for start in range(0, count, batch):
        network(masked[: count - start])


def tables(found: Found) -> list[Table]:
    return [records("players", found)]


def summary(found: Found) -> dict[str, Any]:
    told = {f"{name} players": one["over the bare network"]["auto"] for name, one in found.items()}
    took = {math.log(int(n)): math.log(o["seconds per row"]["auto"]) for n, o in found.items()}
    (few, first), *_, (many, last) = took.items()
    return told | {"exponent of seconds in players": (last - first) / (many - few)}
