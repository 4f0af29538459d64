"""The surrogate has v(S) itself; the VAE has a draw of it. The ratio of the variances of one
marginal contribution is that of the evaluations for equal standard errors. The paper says "roughly
10 times fewer", and not of which values. MNIST is left out.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

import manifold_shap as ms
from benchmarks import draw
from benchmarks.report import Claim, Figures, Found, number, spread
from benchmarks.support.of_paper import of_paper
from benchmarks.support.trained import shorter
from manifold_shap.coalitions import sample_orders

TITLE = "The supervised method takes fewer evaluations for the same standard error"
SOURCE = "Frye et al. (2021), Section 4.2"
QUICK = {"data": ["drug"], "rows": 100, "orders": 16, "epochs": 2}
LOCAL = "local values, draws of each coalition"
SHARED = "local values, draws shared along an order"
GLOBAL = "global values, draws of each coalition"
PAPER, WITHIN = 10.0, 2.0  # "Roughly": within this factor.
PARTS = 10
BLOCK = 50  # Rows at a time.


OVER = {"data": ("drug", "abalone", "census")}


def measure(
    name: str,
    rows: int = 400,  # of the test split
    orders: int = 64,  # of the players of each row
    epochs: int | None = None,  # of the trainings; None: those of the commands
) -> dict[str, Any]:
    """Ratios of the evaluations, and variances in units of the model's, of one data set."""
    own = of_paper(name)
    x, y = own.data.x_test[:rows], own.data.y_test[:rows]
    surrogate, vae = own.surrogate(**shorter(epochs)), own.vae(1, **shorter(epochs))
    exact = contributions(surrogate, x, y, orders)
    own_draws, shared = (contributions(vae, x, y, orders, each) for each in (False, True))
    kinds = ((LOCAL, own_draws, False), (SHARED, shared, False), (GLOBAL, own_draws, True))
    whole = float(own.model(own.data.x_test).exp().double().var(0)[0])
    return {
        kind: {"ratio": ratio(drawn, exact, overall),
               "variances": [variance(some, overall) / whole for some in (exact, drawn)]}
        for kind, drawn, overall in kinds
    }  # fmt: skip


def contributions(
    value: ms.ValueFunction, x: Tensor, y: Tensor, orders: int, shared: bool = False
) -> Float[Tensor, "rows orders players"]:
    """Of every player along random orders of each row, to the true class's probability."""
    generator, players = torch.Generator().manual_seed(0), len(value.players)
    found = []
    for numbers in torch.arange(len(x)).split(BLOCK):
        order = sample_orders((len(numbers), orders), players, generator)
        rank = order.argsort(-1)
        mask = rank[:, :, None] < torch.arange(players + 1)[:, None]
        keys = numbers[:, None, None] * orders + torch.arange(orders)[:, None]
        if not shared:
            keys = keys * (players + 1) + torch.arange(players + 1)
        keys = keys.expand(mask.shape[:3]).flatten(1)
        v = value(x[numbers], mask.flatten(1, 2), keys)
        v = v[torch.arange(len(numbers)), :, y[numbers]].unflatten(1, (orders, players + 1))
        found.append(v.diff(dim=2).gather(2, rank))
    return torch.cat(found)


def variance(c: Float[Tensor, "rows orders players"], overall: bool) -> float:
    """Of a contribution, summed over players: of each row, or over all rows."""
    rows = c.double().flatten(0, 1)[None] if overall else c.double()
    return rows.var(1).sum(1).mean().item()


def ratio(drawn: Tensor, exact: Tensor, overall: bool) -> tuple[float, float | None]:
    """Of the variances, and its standard error by groups of rows."""
    groups = [
        variance(a, overall) / variance(b, overall)
        for a, b in zip(drawn.chunk(PARTS), exact.chunk(PARTS), strict=True)
    ]
    return variance(drawn, overall) / variance(exact, overall), spread(groups, of_mean=True)[1]


def claims(found: Found) -> list[Claim]:
    made = []
    for kind in (LOCAL, GLOBAL, SHARED):
        ratios = {name: by[kind]["ratio"][0] for name, by in found.items()}
        ours = ", ".join(f"{number(each)} ({name})" for name, each in ratios.items())
        far = [n for n, each in ratios.items() if not PAPER / WITHIN <= each <= PAPER * WITHIN]
        pairs = {name: by[kind]["variances"] for name, by in found.items()}
        ways = ", ".join(f"from {number(a)} to {number(b)} ({n})" for n, (a, b) in pairs.items())
        why = f"of {', '.join(far)}: draws take the variance, as a multiple of the model's, {ways}"
        text = f"roughly 10 times fewer evaluations (5 to 20) on every data set: {kind}"
        made.append(Claim(text, "roughly 10", ours, not far, why))
        text = f"fewer evaluations on every data set: {kind}"
        made.append(Claim(text, "fewer", ours, all(each > 1 for each in ratios.values())))
    return made


def figures(found: Found) -> Figures:
    kinds = (LOCAL, SHARED, GLOBAL)
    sides = {name: {kind: by[kind]["ratio"] for kind in kinds} for name, by in found.items()}
    sides["paper"] = dict.fromkeys(kinds, PAPER)
    return {"": draw.dots({"": sides}, "evaluations of the VAE\nfor one of the surrogate")}
