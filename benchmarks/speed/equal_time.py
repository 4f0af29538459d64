"""Games are sums of products of all players, and of few. Every estimator explains them within some
evaluations per player, and `auto` does so with the cost that the value function declares: a closed
form, one with a network's work added, one with a millisecond added to each value; surrogates are
ours. The error of `auto` is compared with the least that any estimator has in the time that `auto`
took, on the line between its points in logarithms. Where `auto` is best the ratio is 1.
"""

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
from benchmarks.speed.interactions import Game, of_all, of_few
from benchmarks.support.measures import timed
from benchmarks.support.trained import brief_surrogate

TITLE = "Error of auto in equal time"
CAPTION = "error of `auto` over the best in equal time"
ERRORS = "none"
QUICK = {"games": ["6", "10"], "budgets": [10, 20], "rows": 2, "repeats": 1}
# Players of games, and data of surrogates, whose contributions are linearized.
OVER = {"games": ("6", "10", "14", "20", "40", "128", "784", "digits", "census")}
ESTIMATORS: dict[str, Callable[..., ms.Explanation]] = {
    "auto": ms.auto_shapley,
    "exact": ms.exact_shapley,
    "permutation": ms.permutation_shapley,
    "coalition": ms.coalition_shapley,
    "kernel": ms.kernel_shapley,
    "odd": ms.odd_shapley,
}
_MODEL_CALL = 1e-3
# Evaluations of a row, in general and of fits with interactions; of all rows, about; and rows.
_MOST, _MOST_ODD, _MANY, _ROWS = 20_000, 16_384, 30_000, 64
_EXACT = 1e-6  # What is smaller counts as no error.
# Of an estimator by budget: evaluations and seconds of a row, and the error.
Curve = dict[str, tuple[int, float, float]]


def measure(
    which: str,
    budgets: Sequence[float] = (5, 20, 80),  # evaluations per player
    costs: Sequence[str] = ("closed form", "network", "model"),
    rows: int = 4,  # of each game, at least
    repeats: int = 2,  # runs of each, of which the faster one counts
) -> dict[str, Any]:
    """The ratios of `auto` for games of so many players, or for a surrogate of these data."""
    settings: dict[str, Any] = {"budgets": budgets, "rows": rows, "repeats": repeats}
    if not which.isdigit():
        surrogate, loaded = brief_surrogate(which, 1)
        x = loaded.x_test[:_ROWS]
        best = ms.kernel_shapley(surrogate, x, evaluations=2**17, seed=99).phi[..., 0]
        return {"surrogate": compared(surrogate.select([0]), x, best, 0.0, **settings)}
    players, found = int(which), {}
    for name, make in GAMES.items():
        game = Game(*(each.double() for each in make(players, 1, players)))
        phi, x = game.shapley()[:, 0], torch.zeros(_ROWS, players).double()
        for cost in costs:
            own = with_work(game, players) if cost == "network" else game
            value = ms.as_value_function(own, x, cost=cost)
            added = _MODEL_CALL if cost == "model" else 0.0
            found[f"{name}, {cost}"] = compared(value, x, phi, added, **settings)
    return found


GAMES = {"product": of_all, "interactions": of_few}


def with_work(game: Game, players: int) -> Callable[[Tensor, Tensor], Tensor]:
    """The same values, with those of a perceptron of two layers of 1,024 units added and taken."""
    module = torch.nn.Sequential(
        torch.nn.Linear(players, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024),
        torch.nn.ReLU(), torch.nn.Linear(1024, 1),
    )  # fmt: skip
    return lambda x, mask: game(x, mask) + 0 * module(mask.float())


def compared(
    value: Any,
    x: Tensor,
    phi: Tensor,
    added: float,
    budgets: Sequence[float],
    rows: int,
    repeats: int,
) -> dict[str, float]:
    """The error of `auto` over the best of all estimators in equal time, by budget.

    Args:
        added: seconds that each evaluation takes beside those measured.
    """
    players = len(value.players)
    measure = partial(points, value, x, phi, rows, repeats)
    asked = [int(each * players) // 2 * 2 for each in budgets]
    auto = measure("auto", [None, *asked])
    every = sorted({*asked, *(evaluations for evaluations, *_ in auto.values())})
    curves = {name: measure(name, every) for name in ESTIMATORS if name != "auto"}
    allowed = {f"{each / players:g}": each for each in asked}
    ratios = {}
    for budget, (evaluations, seconds, error) in auto.items():
        # With bound evaluations, and to be exact, more than are allowed are no choice.
        choices = [
            [(s + added * e, err) for e, s, err in curve.values()
             if e <= allowed.get(budget, math.inf if err > _EXACT else evaluations)]
            for curve in curves.values()
        ]  # fmt: skip
        taken, further = seconds + added * evaluations, budget not in allowed
        best = min(within(choice, taken, further) for choice in choices)
        ratios[budget] = 1.0 if error <= max(best, _EXACT) else error / best
    return ratios


def points(
    value: Any,
    x: Tensor,
    phi: Tensor,
    rows: int,
    repeats: int,
    name: str,
    evaluations: Sequence[int | None],
) -> Curve:
    """Of an estimator; budgets are left out that take minutes, or are too few for it."""
    players, estimator, curve = len(value.players), ESTIMATORS[name], dict[str, Any]()
    if name == "exact":
        evaluations = [2**players] if players <= 14 else []
    most = _MOST_ODD * (players <= 128) if name == "odd" else _MOST
    for each in evaluations:
        if each is not None and each > most:
            continue
        try:
            first = estimator(value, x[:1], evaluations=each).made_by
            # A call's own time does not count where rows are many, nor where a fit is slow.
            many = _MANY // max(1, first["evaluations"])
            some = x[: max(rows, 0 if first["estimator"] == "odd" else many)]
            work = partial(estimator, value, some, evaluations=each)
            runs = [timed(partial(work, seed=seed)) for seed in range(repeats)]
        except ValueError:  # Too few evaluations for it.
            continue
        exact = phi if phi.ndim == 1 else phi[: len(some)]
        squares = [(one.phi[..., 0].double() - exact).square().sum(-1) for one, _ in runs]
        error = (torch.stack(squares) / exact.double().square().sum(-1)).mean().sqrt().item()
        budget = "default" if each is None else f"{each / players:g}"
        taken = min(seconds for _, seconds in runs) / len(some)
        curve[budget] = (first["evaluations"], taken, error)
    return curve


def within(curve: Sequence[tuple[float, float]], taken: float, further: bool) -> float:
    """The least error in this time: on lines in logarithms, beyond as the root of the time."""
    if not curve or taken < min(seconds for seconds, _ in curve):
        return math.inf
    seconds, errors = np.log(np.maximum(np.array(sorted(curve)), 1e-12)).T
    errors = np.minimum.accumulate(errors)
    beyond = max(0.0, math.log(taken) - seconds[-1]) / 2 if further else 0.0
    return float(np.exp(np.interp(math.log(taken), seconds, errors) - beyond))


def tables(found: Found) -> list[Table]:
    """Ratios by cost, where evaluations are bound and where they are not; and the largest ones."""
    of_kind = dict[tuple[str, str], list[tuple[float, str]]]()
    for which, games in found.items():
        for game, by in games.items():
            for budget, ratio in by.items():
                kind = "by default" if budget == "default" else "bound"
                some = of_kind.setdefault((game.split(", ")[-1], kind), [])
                some.append((ratio, f"{which}, {game}, {budget}"))
    means = {kind: statistics.geometric_mean(r for r, _ in some) for kind, some in of_kind.items()}
    rows = [[*kind, means[kind], *max(some)] for kind, some in of_kind.items()]
    return [Table(["cost", "evaluations", "geometric mean", "largest", "of"], rows)]


def summary(found: Found) -> dict[str, Any]:
    return {f"{cost}, {kind}": mean for cost, kind, mean, *_ in tables(found)[0].rows}
