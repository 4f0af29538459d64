"""Compares estimates of Shapley values with references as good as they get, at given costs."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

import manifold_shap as ms

FEW = 13  # So few players are enumerated.
# Values behind the reference of a row, about, and the longest run that it is the mean of.
REFERENCE, LONGEST = 2**24, 2**16
MOST = 2**20  # The largest budget.


def reference(
    value: ms.SurrogateValue, x: Tensor, values: int = REFERENCE
) -> tuple[Tensor, Tensor]:
    """phi of rows from about so many values each, and standard errors; exact of few players."""
    players = len(value.players)
    if players <= FEW:
        exact = ms.exact_shapley(value, x)
        return exact.phi, exact.standard_error
    orders = max(2, values // players // 2 * 2)
    runs = [
        ms.permutation_shapley(value, x, permutations=min(orders, LONGEST), seed=2**20 + number)
        for number in range(max(1, orders // LONGEST))
    ]
    variance = torch.stack([run.standard_error.square() for run in runs]).mean(0) / len(runs)
    return torch.stack([run.phi for run in runs]).mean(0), variance.sqrt()


def relative(gap: Tensor, phi: Tensor) -> Tensor:
    """|gap| / |phi| of each row, over players and outputs."""
    return gap.flatten(1).norm(dim=1) / phi.flatten(1).norm(dim=1)


def calibrated(seconds_of: Callable[[int], float], seconds: float, start: int) -> int:
    """The even budget, from `start` on, with which a run takes about so many seconds."""
    budget, tried = start, dict[int, float]()
    while budget not in tried and len(tried) < 20:
        took = tried[budget] = seconds_of(budget)
        if 0.93 < took / seconds < 1.07:
            break
        # Fixed costs weigh on short runs, so what these promise is approached by steps.
        longer = int(budget * min(seconds / took, 4)) // 2 * 2
        budget = min(MOST, max(start, longer, budget + 2 if took < seconds else 0))
    return min(tried, key=lambda budget: abs(math.log(tried[budget] / seconds)))
