"""Error of `auto` in equal time: over the best of all estimators, on cheap to dear value functions.

Games are products, sums of random interactions of 1 to 4 players, and a network on rows whose
absent players are zero; each row is a game like the others, with a sample of its own. Every
estimator explains them within 4, 10, 20, ... evaluations per player, and `auto` does so with the
cost that the value function declares. A closed form is the game itself. A network is one more, wide
enough to take what networks take, on whose output nothing depends; a surrogate is ours, on digits.
A model call is the closed form with a millisecond added to each value, which no machine needs to
wait for.

The error of `auto` is compared with the least that any estimator has in the time that `auto` took:
on the line between its points in logarithms or, beyond the last, falling as the root of the time.
Where evaluations are bound, no estimator has more of them. Where `auto` is best the ratio is 1.
"""

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

import manifold_shap as ms
from benchmarks.report import Found, Table
from benchmarks.support.measures import timed
from benchmarks.support.trained import brief_surrogate

TITLE = "Error of auto in equal time"
ERRORS = "none"
QUICK = {"players": [6, 10], "budgets": [10, 20], "rows": 2, "repeats": 1, "surrogates": []}
ESTIMATORS: dict[str, Callable[..., ms.Explanation]] = {
    "exact": lambda value, x, evaluations, seed=0: ms.exact_shapley(value, x),
    "permutation": ms.permutation_shapley,
    "coalition": ms.coalition_shapley,
    "kernel": ms.kernel_shapley,
    "odd": ms.odd_shapley,
}
_MODEL_CALL = 1e-3
# Evaluations of a row, in general and of fits with interactions; of all rows, about; and rows.
_MOST, _MOST_ODD, _MANY, _ROWS = 120_000, 16_384, 100_000, 64
# What is smaller counts as no error.
_EXACT = 1e-6
Game = Callable[[Tensor, Tensor], Tensor]
# By estimator and budget: the estimator's name, evaluations and seconds of a row, and the error.
Curves = dict[str, dict[str, tuple[str, int, float, float]]]
AUTO: dict[str, Callable[..., ms.Explanation]] = {"auto": ms.auto_shapley}


def run(
    players: Sequence[int] = (6, 10, 14, 20, 40, 128, 784),
    budgets: Sequence[float] = (5, 20, 80),  # evaluations per player
    costs: Sequence[str] = ("closed form", "network", "model"),
    surrogates: Sequence[str] = ("digits", "census"),  # ours, whose contributions are linearized
    rows: int = 4,  # of each game, at least
    repeats: int = 2,  # runs of each, of which the faster one counts
) -> dict[str, Any]:
    """Evaluations, seconds and errors of each estimator, and the ratio of `auto`."""
    found = {}
    for number in players:
        for name, make in GAMES.items():
            game, phi = make(number, torch.Generator().manual_seed(number))
            x, least = torch.zeros(_ROWS, number).double(), rows if number < 128 else 2
            values = {}
            for cost in costs:
                own = with_work(game, number) if cost == "network" else game
                values[cost] = ms.as_value_function(own, x, cost=cost)
            ratios = measure(values, x, phi, budgets, least, repeats)
            found.update({f"{number} players, {name}, {cost}": ratios[cost] for cost in costs})
    for name in surrogates:
        value, loaded = brief_surrogate(name, 1)
        x, number = loaded.x_test[:_ROWS], len(value.players)
        best = ms.kernel_shapley(value, x, evaluations=2**17, seed=99).phi[..., 0]
        one = {"surrogate": value.select([0])}
        ratios = measure(one, x, best, budgets, rows, repeats)
        found[f"{number} players, {name}, surrogate"] = ratios["surrogate"]
    return found


def product(players: int, generator: torch.Generator) -> tuple[Game, Tensor]:
    """Π (1 + a_i) over the players of a coalition."""
    a = torch.randn(players, generator=generator).double() * min(0.7, 2 / math.sqrt(players))
    a = a.clamp(min=-0.9)
    nodes, weights = map(torch.from_numpy, np.polynomial.legendre.leggauss(48))
    logs = torch.log1p(a[:, None] * (nodes + 1) / 2)
    phi = a * ((logs.sum(0) - logs).exp() * weights / 2).sum(1)
    return lambda x, mask: (mask.double() @ torch.log1p(a)[:, None]).exp(), phi


def interactions(players: int, generator: torch.Generator) -> tuple[Game, Tensor]:
    """Sums of three times as many interactions, of 1 to 4 players."""
    which = torch.zeros(3 * players, players).double()
    worth = torch.randn(len(which), generator=generator).double()
    sizes = 1 + torch.randint(4, (len(which),), generator=generator)
    for own, size in zip(which, sizes.tolist(), strict=True):
        own[torch.randperm(players, generator=generator)[:size]] = 1
    phi = (which * (worth / which.sum(1))[:, None]).sum(0)
    least = which.sum(1) - 0.5
    return lambda x, mask: (mask.double() @ which.T > least).double() @ worth[:, None], phi


def network(players: int, generator: torch.Generator) -> tuple[Game, Tensor]:
    """A network of 32 units, whose values are known from many evaluations."""
    first = 3 * torch.randn(players, 32, generator=generator).double() / math.sqrt(players)
    second = torch.randn(32, 1, generator=generator).double()

    def game(x: Tensor, mask: Tensor) -> Tensor:
        return torch.tanh(mask.double() @ first - first.sum(0) / 2 + 0.3) @ second

    x = torch.zeros(1, players)
    many = min(2**players - 2, 2**19 if players < 128 else 2**17)
    return game, ms.kernel_shapley(game, x, evaluations=many, seed=99).phi[0, :, 0].double()


GAMES = {"product": product, "interactions": interactions, "network": network}


def with_work(game: Game, players: int) -> Game:
    """The same values, with those of a perceptron of two layers of 1,024 units added and taken."""
    module = torch.nn.Sequential(
        torch.nn.Linear(players, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024),
        torch.nn.ReLU(), torch.nn.Linear(1024, 1),
    )  # fmt: skip

    def slower(x: Tensor, mask: Tensor) -> Tensor:
        return game(x, mask) + 0 * module(mask.float())

    return slower


def measure(
    values: dict[str, ms.ValueFunction],
    x: Tensor,
    phi: Tensor,
    budgets: Sequence[float],
    rows: int,
    repeats: int,
) -> dict[str, Any]:
    """What `auto` chooses for a game at each cost, and its ratios."""
    one = next(iter(values.values()))
    asked = [int(each * len(one.players)) // 2 * 2 for each in budgets]
    autos = {
        cost: points(AUTO, value, x, phi, [None, *asked], rows, repeats)
        for cost, value in values.items()
    }
    by_default = {auto["auto"]["default"][1] for auto in autos.values()}
    others: dict[str, Curves] = {}
    found = {}
    for cost, value in values.items():
        work = "closed form" if cost == "model" else cost
        if work not in others:
            many = sorted({*asked, *by_default})
            others[work] = points(ESTIMATORS, value, x, phi, many, rows, repeats)
        added = _MODEL_CALL if cost == "model" else 0.0
        allowed = {f"{each / len(one.players):g}": each for each in asked}
        found[cost] = compared(autos[cost], others[work], added, allowed)
        print(len(one.players), cost, found[cost]["chosen"], found[cost]["ratios"], flush=True)
    return found


def points(
    estimators: dict[str, Callable[..., ms.Explanation]],
    value: ms.ValueFunction,
    x: Tensor,
    phi: Tensor,
    evaluations: Sequence[int | None],
    rows: int,
    repeats: int,
) -> Curves:
    """By estimator and budget: its name, evaluations and seconds of a row, and the error."""
    players = len(value.players)
    curves: Curves = {}
    for each, (name, estimator) in itertools.product(evaluations, estimators.items()):
        if too_much(name, players, each) or (name == "exact" and "exact" in curves):
            continue
        runs = []
        try:
            first = estimator(value, x[:1], evaluations=each).made_by
            # A call's own time does not count where rows are many, nor where a fit is slow.
            many = _MANY // max(1, first["evaluations"])
            some = x[: max(rows, 0 if first["estimator"] == "odd" else many)]
            for seed in range(repeats):
                runs.append(timed(partial(estimator, value, some, seed=seed, evaluations=each)))
        except ValueError:  # Too few evaluations for it.
            continue
        taken = min(seconds for _, seconds in runs) / len(some)
        squares = torch.stack([relative(found.phi[..., 0], phi) for found, _ in runs])
        budget = "default" if each is None else f"{each / players:g}"
        point = (first["estimator"], first["evaluations"], taken, float(squares.mean().sqrt()))
        curves.setdefault(name, {})[budget] = point
    return curves


def compared(auto: Curves, others: Curves, added: float, allowed: dict[str, int]) -> dict[str, Any]:
    """What `auto` chose, and its error over the best of the others in equal time, by budget.

    Args:
        auto: points of `auto`.
        others: points of the estimators.
        added: seconds that each evaluation takes beside those measured.
        allowed: evaluations, of budgets that bind.
    """
    chosen, ratios = {}, {}
    for budget, (estimator, asked, seconds, error) in auto.get("auto", {}).items():
        curves = [
            # With bound evaluations, and to be exact, more than are allowed are no choice.
            [
                (s + added * e, err)
                for _, e, s, err in curve.values()
                if e <= allowed.get(budget, math.inf if err > _EXACT else asked)
            ]
            for curve in others.values()
        ]
        further = budget not in allowed
        best = min(within(curve, seconds + added * asked, further) for curve in curves)
        chosen[budget] = estimator
        ratios[budget] = 1.0 if error <= max(best, _EXACT) else error / best
    return {"curves": {**others, **auto}, "chosen": chosen, "ratios": ratios}


def too_much(name: str, players: int, evaluations: int | None) -> bool:
    """Whether an estimator is left out: it takes minutes, or is not what these budgets are for."""
    if name == "exact":
        return players > 14
    if evaluations is None:
        return name != "auto"
    if name == "odd":
        return players > 128 or evaluations > _MOST_ODD
    return evaluations > _MOST


def relative(phi: Tensor, exact: Tensor) -> Tensor:
    """Squared error over squared values, by row; of the first rows that there are exact ones of."""
    exact = exact if exact.ndim == 1 else exact[: len(phi)]
    return (phi.double() - exact).square().sum(-1) / exact.double().square().sum(-1)


def within(curve: Sequence[tuple[float, float]], taken: float, further: bool) -> float:
    """The least error of an estimator in this time, between its points or further."""
    points = sorted(curve)
    earlier = [point for point in points if point[0] <= taken]
    if not earlier:
        return math.inf
    least = min(error for _, error in earlier)
    later = [point for point in points if point[0] > taken]
    seconds, error = earlier[-1]
    if not later:
        return least if not further else min(least, error * math.sqrt(seconds / taken))
    after, its_error = later[0]
    if min(error, its_error) < 1e-9:
        return least
    share = math.log(taken / seconds) / math.log(after / seconds)
    return min(least, math.exp((1 - share) * math.log(error) + share * math.log(its_error)))


def tables(found: Found) -> list[Table]:
    """Ratios by cost, where evaluations are bound and where they are not."""
    ratios: dict[tuple[str, str], list[float]] = {}
    for name, one in found.items():
        cost = name.split(", ")[-1]
        for budget, ratio in one["ratios"].items():
            kind = "by default" if budget == "default" else "bound"
            ratios.setdefault((cost, kind), []).append(ratio)
    rows = [
        [cost, kind, statistics.geometric_mean(some), max(some)]
        for (cost, kind), some in ratios.items()
    ]
    return [Table(["cost", "evaluations", "geometric mean", "largest"], rows)]


def summary(found: Found) -> dict[str, Any]:
    (ratios,) = tables(found)
    return {
        f"{cost}, {kind}: error of `auto` over the best in equal time": mean
        for cost, kind, mean, _ in ratios.rows
    }
