"""Measures seconds, memory and errors of Shapley values, and whether a difference is sure."""

import itertools
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

import manifold_shap as ms

T = TypeVar("T")
# Ours: explanations hardly differ if less than this part of Σ|φ| is at other features; and so many
# standard errors make a difference sure.
HARDLY, SURELY = 0.1, 3.0
FEW = 13  # So few players are enumerated.
LONGEST = 2**16  # Orders of the longest run that a reference is the mean of.
MOST = 2**20  # The largest budget.
# Approximators of shapiq, with their settings.
SHAPIQ: dict[str, tuple[str, dict[str, Any]]] = {
    "LeverageSHAP": ("LeverageSHAP", {}),
    "RegressionMSR": ("RegressionMSR", {"index": "SV"}),
    "OddSHAP": ("OddSHAP", {}),
    "PolySHAP": ("PolySHAP", {"max_order": 3, "pairing_trick": True}),
    "ProxySHAP": ("ProxySHAP", {"index": "SV", "max_order": 1, "adjustment": True}),
    "shapiq, kernel": ("KernelSHAP", {"pairing_trick": True}),
    "shapiq, permutation": ("PermutationSamplingSV", {}),
}


def timed(work: Callable[[], T], device: torch.device | str = "cpu") -> tuple[T, float]:
    """What it returns, and its seconds, until the device has done what it was given."""
    start = time.perf_counter()
    result = work()
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
    return result, time.perf_counter() - start


def seconds(
    works: Mapping[Any, Callable[[], object]], repeats: int, device: torch.device | str = "cpu"
) -> dict[Any, float]:
    """The median of each; works alternate, so that what else the machine does meets all alike."""
    times = [{name: timed(work, device)[1] for name, work in works.items()} for _ in range(repeats)]
    return {name: statistics.median(one[name] for one in times) for name in works}


def peak_memory() -> float:
    """Most megabytes that were resident at once in this process, where there is a Linux."""
    # The kernel starts a new program's `ru_maxrss` at the peak of the process that started it.
    status = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (line for line in status if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024


def in_own_process(work: Callable[..., T], *arguments: Any) -> T:
    """The same in a fresh interpreter with as many threads, whose peak memory is its own."""
    threads = torch.get_num_threads()
    with ProcessPoolExecutor(
        1, get_context("spawn"), initializer=torch.set_num_threads, initargs=(threads,)
    ) as pool:
        return pool.submit(work, *arguments).result()


def relative(gap: Tensor, phi: Tensor) -> Tensor:
    """|gap| / |phi| of each row, over players and outputs."""
    return gap.flatten(1).norm(dim=1) / phi.flatten(1).norm(dim=1)


def reference(value: ms.SurrogateValue, x: Tensor, values: int) -> tuple[Tensor, Tensor]:
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


def by_shapiq(
    name: str,
    game: Callable[[Tensor], Tensor],
    players: int,
    budget: int,
    seed: int,
    order: int = 1,
    **settings: Any,
) -> Tensor:
    """What an approximator of shapiq has of this order, from so many values of coalitions.

    Args:
        name: a key of `SHAPIQ`, or a class of shapiq.
    """
    # Without boosted trees, shapiq silently takes a single one.
    import lightgbm  # noqa: F401
    import shapiq
    import xgboost  # noqa: F401

    method, usual = SHAPIQ.get(name, (name, {}))
    if method == "PolySHAP":  # All triples where evaluations and memory are enough.
        settings["max_terms"] = max(players + 1, min(budget // 2, 2048))

    def values(coalitions: Any) -> np.ndarray:
        mask = torch.as_tensor(np.atleast_2d(coalitions)) > 0.5
        return game(mask[None]).flatten().double().numpy()

    if not getattr(shapiq, method, None):
        raise ValueError(f"shapiq {shapiq.__version__} lacks {method}")
    made = getattr(shapiq, method)(n=players, random_state=seed, **usual, **settings)
    return torch.as_tensor(made.approximate(budget, values).get_n_order_values(order)).double()


def apart(one: Tensor, other: Tensor) -> Float[Tensor, " rows"]:
    """Half of Σ|φ - φ′| of each row."""
    return (one - other).abs().sum(1) / 2


def share_apart(one: Tensor, other: Tensor) -> float:
    """That over all rows as a part of what both share out: from 0, alike, to 1."""
    return (2 * apart(one, other).sum() / (one.abs() + other.abs()).sum()).item()


def shares_apart(phi: Sequence[Tensor]) -> list[float]:
    """That of any two."""
    return [share_apart(*two) for two in itertools.combinations(phi, 2)]


def pearson(one: Tensor, other: Tensor) -> float:
    """NaN where all figures of either are equal."""
    return torch.corrcoef(torch.stack((one, other)))[0, 1].item()


def gap(one: Tensor, other: Tensor) -> tuple[float, float]:
    """Mean difference over rows, with its error."""
    difference = one - other
    return difference.mean().item(), (difference.std() / len(difference) ** 0.5).item()


def sure(difference: tuple[float, float]) -> bool:
    return difference[0] > SURELY * difference[1]
