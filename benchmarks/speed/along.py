"""Imputers along orders of the players, against coalition by coalition.

A Gaussian, copula or empirical imputer factorises once for an order instead of once for each of its
coalitions; the bank of a VAE keeps log p(x_S|z), which grows by one term per player. `tables`:
abalone, breast cancer and census, 2,000 reference rows (at most), four rows and 16 orders of each,
a classifier of one hidden layer of 64. `bank`: 784 binary pixels, a decoder of random weights and a
classifier 784-512-10, one row and one order. Sides alternate; figures are medians of seconds.
"""

from collections.abc import Sequence
from typing import Any

import torch
from sklearn.datasets import load_breast_cancer
from torch import Tensor

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.timing import seconds
from manifold_shap.coalitions import Listed, Nested
from manifold_shap.data import load
from manifold_shap.nn import MLP
from manifold_shap.vae.network import MaskedVAE

TITLE = "Imputers along orders"
QUICK = {"data": ["abalone"], "draws": 8, "orders": 2, "codes": [1000], "repeats": 1}
IMPUTERS: dict[str, Any] = {
    "Gaussian": ms.imputers.GaussianImputer,
    "copula": ms.imputers.CopulaImputer,
    "empirical": ms.imputers.EmpiricalImputer,
}
PIXELS, ROWS, REFERENCE = 784, 4, 2000


def run(
    data: Sequence[str] = ("abalone", "census", "cancer"),  # tables
    draws: int = 64,  # completions of a coalition
    orders: int = 16,  # of each row
    codes: Sequence[int] = (54_000, 5_000),  # in the bank
    bank_draws: int = 32,  # completions of a coalition from it
    repeats: int = 5,  # of which seconds are medians
) -> dict[str, Any]:
    """Seconds both ways."""
    found = {}
    for name in data:
        reference, x, players = table(name)
        for kind, make in IMPUTERS.items():
            found[f"{name}, {kind}"] = measure(make(reference, players), x, draws, orders, repeats)
    for count in codes:
        imputer = bank(count)
        one = measure(imputer, imputer.reference[:1], bank_draws, 1, repeats, [512], 10)
        found[f"bank of {count:,} codes"] = one
    return found


def table(name: str) -> tuple[Tensor, Tensor, ms.Players]:
    """Reference rows, rows to explain, and players."""
    if name == "cancer":
        x = torch.as_tensor(load_breast_cancer().data, dtype=torch.float32)
        x = (x - x.mean(0)) / x.std(0)
        return x[ROWS:], x[:ROWS], ms.Players.of_elements((x.shape[1],))
    data = load(name)
    train = data.x_train
    chosen = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))[:REFERENCE]
    return train[chosen], data.x_test[:ROWS], data.players


def bank(codes: int, players: int = PIXELS) -> ms.VAEImputer:
    """An imputer of binary pixels with as many rows as codes."""
    generator = torch.Generator().manual_seed(0)
    x = (torch.rand(codes, players, generator=generator) < 0.2).float()
    torch.manual_seed(0)
    network = MaskedVAE([["Bernoulli", [*range(players)]]], range(players), latent=32)
    return ms.VAEImputer(network, x, bank_size=codes)


def grown(order: Tensor) -> Tensor:
    """The coalitions of orders but the full one, `[..., players - 1, players]`."""
    return order.argsort(-1)[..., None, :] <= torch.arange(order.shape[-1] - 1)[:, None]


@torch.no_grad()
def measure(
    imputer: Any,
    x: Tensor,
    draws: int,
    orders: int,
    repeats: int,
    hidden: Sequence[int] = (64,),
    classes: int = 2,
) -> dict[str, float]:
    """Seconds of the orders of all rows, both ways; and how far values differ."""
    torch.manual_seed(0)
    model = MLP(imputer.players.index.numel(), hidden, classes).eval()
    value = ms.imputed_value(model, imputer, draws=draws)
    players = len(imputer.players)
    order = torch.rand(len(x), orders, players).argsort(-1)
    keys = torch.arange(len(x) * orders).view(len(x), orders)
    masks, own = grown(order).flatten(1, 2), keys.repeat_interleave(players - 1, 1)
    works = {
        "plain": lambda: value.values(x, Listed(masks, own)).values,
        "along": lambda: value.values(x, Nested(order, keys)).values,
    }
    gap = (works["along"]() - works["plain"]()).abs().max().item()
    found = seconds(works, repeats)
    return {**found, "ratio": found["plain"] / found["along"], "largest_difference": gap}


def tables(found: Found) -> list[Table]:
    return [records("seconds", found)]
