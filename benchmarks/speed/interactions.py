"""Interactions of all pairs of players by shapiq and this package, beside those known exactly.

Install `.[peers]`. Games are sums of products (`support/products.py`). A figure is the error over
all pairs relative to their interactions: |estimate - truth| / |truth|, a mean over seeds. Budgets
double until a run takes longer than the limit. shapiq explains one output per run and is charged
for that one alone; this package explains all of them in each run. Seconds are of
the processor, which other work on the machine hardly changes. Equal time means the seconds of
every run of the other side, between which our seconds and errors are interpolated (both as
logarithms); where ours are all slower or all faster, there is no figure. SPEX and SVARMIQ are left
out: they take minutes at the smallest budget.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

import manifold_shap as ms
from benchmarks.plots import Panel, curves
from benchmarks.report import Found, Table
from benchmarks.support.packages import require
from benchmarks.support.products import Game, of_all, of_few

TITLE = "Interactions of pairs beside shapiq"
QUICK = {"players": 10, "outputs": 3, "methods": ["KernelSHAPIQ"], "start": 128, "most": 512}
OURS = "ours"
GAMES = {"products of 2 to 6 players": of_few, "products of all players": of_all}
# Seconds at which errors are compared.
TIMES = (3.0, 10.0)
# Interactions `[players, players, outputs]` within so many evaluations, by a seed.
Method = Callable[[int, int], Tensor]
Point = Mapping[str, float]


def run(
    games: Sequence[str] = tuple(GAMES),  # some of `GAMES`
    players: int = 45,
    outputs: int = 10,  # all of them explained by us, the first by shapiq
    methods: Sequence[str] = (  # of shapiq
        "KernelSHAPIQ", "InconsistentKernelSHAPIQ", "PermutationSamplingSII", "SHAPIQ", "ProxySPEX",
    ),
    limit: float = 10.0,  # seconds of a run, beyond which budgets no longer double
    start: int = 4096,  # the first budget
    most: int = 2**23,  # the largest budget
    seeds: int = 1,  # of coalitions
) -> dict[str, Any]:  # fmt: skip
    """Errors and seconds of every method on every game."""
    require("peers", "shapiq")
    found: dict[str, Any] = {}
    for name in games:
        game = GAMES[name](players, outputs, seed=0)
        truth = game.interactions()
        sides = {OURS: ours(game)} | {method: by_shapiq(method, game) for method in methods}
        found[name] = {}
        for side, method in sides.items():
            points: list[dict[str, float]] = []
            # Fewer than two for each pair leave interactions undetermined.
            budget = max(start, 2 * players**2) if side == OURS else start
            while budget <= most and (not points or points[-1]["seconds"] < limit):
                points.append(measured(method, truth, budget, seeds))
                budget *= 2
            found[name][side] = points
            print(name, side, points, flush=True)
    return found


def measured(method: Method, truth: Tensor, budget: int, seeds: int) -> dict[str, float]:
    """Median seconds of the processor, and the mean relative error."""
    seconds, errors = [], []
    for seed in range(seeds):
        begin = time.process_time()
        estimate = method(budget, seed)
        seconds.append(time.process_time() - begin)
        wanted = truth[..., : estimate.shape[2]]
        errors.append(float((estimate - wanted).norm() / wanted.norm()))
    return {
        "budget": budget,
        "seconds": statistics.median(seconds),
        "error": statistics.mean(errors),
    }


def ours(game: Game) -> Method:
    x = torch.zeros(1, game.inside.shape[1])

    def estimate(budget: int, seed: int) -> Tensor:
        values = ms.shapley_interactions(game, x, evaluations=budget, seed=seed).values[0].double()
        return values * (1 - torch.eye(len(values)))[..., None]

    return estimate


def by_shapiq(name: str, game: Game) -> Method:
    """One of its estimators of the Shapley interaction index, of the first output."""
    import shapiq.approximator

    players = game.inside.shape[1]
    one = game._replace(worth=game.worth[:, :1])

    def value(coalitions: Any) -> np.ndarray:
        mask = torch.as_tensor(np.atleast_2d(coalitions))
        return one(mask, mask)[:, 0].double().numpy()

    def estimate(budget: int, seed: int) -> Tensor:
        settings: dict[str, Any] = {"n": players, "max_order": 2, "index": "SII"}
        approximator = getattr(shapiq.approximator, name)(**settings, random_state=seed)
        found = approximator.approximate(budget, value)
        return torch.as_tensor(found.get_n_order_values(2)).double()[..., None]

    return estimate


def at_time(points: Sequence[Point], seconds: float) -> float | None:
    """The error of a curve there, None beyond its ends."""
    times, errors = ([point[key] for point in points] for key in ("seconds", "error"))
    if not min(times) <= seconds <= max(times):
        return None
    order = np.argsort(times)
    known = np.log(np.array(times)[order]), np.log(np.array(errors)[order])
    return float(np.exp(np.interp(np.log(seconds), *known)))


def tables(found: Found) -> list[Table]:
    """At given times, beside the best of shapiq."""
    best = []
    for game, sides in found.items():
        for seconds in TIMES:
            errors = {side: at_time(points, seconds) for side, points in sides.items()}
            own = errors.pop(OURS)
            theirs = {side: error for side, error in errors.items() if error is not None}
            side = min(theirs, key=theirs.__getitem__, default=None)
            ratio = own / theirs[side] if own and side else None
            best.append((game, seconds, own, side, side and theirs[side], ratio))
    columns = ("game", "seconds", "ours", "best of shapiq", "its error", "ours / this")
    return [Table(columns, best)]


def figures(found: Found) -> dict[str, Figure]:
    def drawn(game: str, key: str, unit: float, label: str) -> Panel:
        several = {
            side: [(point[key] / unit, point["error"]) for point in points]
            for side, points in found[game].items()
        }
        return Panel(game, label, "relative error", several)

    axes = (("seconds", 1, "seconds (ours: all outputs)"), ("budget", 1e3, "thousand evaluations"))
    panels = [drawn(game, *axis) for game in found for axis in axes]
    return {"": curves(panels, columns=2)}
