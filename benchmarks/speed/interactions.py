"""Errors over all pairs, |estimate - truth| / |truth|, of games that are sums of products. Budgets
double until a run takes longer than the limit. shapiq explains one output per run, this package all
of them; seconds are of the processor. Equal time means the seconds of every run of the other side,
between which ours are interpolated. Needs `.[peers]`.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import manifold_shap as ms
from benchmarks import draw
from benchmarks.report import Figures, Found, Table
from benchmarks.support.measures import by_shapiq

TITLE = "Interactions of pairs beside shapiq"
CAPTION = "error of all outputs over the best of shapiq's for one"
QUICK = {"players": 10, "outputs": 3, "methods": ["KernelSHAPIQ"], "start": 128, "most": 512}
OURS = "ours"
# Seconds at which errors are compared.
TIMES = (3.0, 10.0)
# Interactions `[players, players, outputs]` within so many evaluations.
Method = Callable[[int], Tensor]


class Game(NamedTuple):
    """A game v(S) = Σ_k worth_k Π_{i in S} inside_ki Π_{i not in S} outside_ki.

    Attributes:
        inside, outside: factors of players in S and of others, `[products, players]`.
        worth: of each product, `[products, outputs]`.
    """

    inside: Tensor
    outside: Tensor
    worth: Tensor

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        """v of coalitions `[..., players]`; the same for all rows."""
        there = mask.to(self.worth.dtype)
        if bool((self.outside == 1).all()):
            return (there @ self.inside.log().T).exp() @ self.worth
        # Products of players that are 1 where all of them are in S, else 0.
        members = 1 - self.outside
        return (there @ members.T > members.sum(1) - 0.5).to(there.dtype) @ self.worth

    def _integral(self, terms: str, players: int) -> Tensor:
        """The mean over shares q of the others in S, uniform in [0, 1], of a change.

        Π_k (outside_k + q (inside_k - outside_k)) over the others is a polynomial in q, which
        Gauss-Legendre nodes integrate exactly.
        """
        inside, outside = self.inside.double(), self.outside.double()
        nodes, weights = np.polynomial.legendre.leggauss(inside.shape[1] // 2 + 1)
        found = torch.tensor(0.0)
        for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
            factor = outside + node * (inside - outside)
            share = (inside - outside) / factor
            found = found + torch.einsum(terms, weight * factor.prod(1), *[share] * players)
        return found @ self.worth.double()

    def shapley(self) -> Tensor:
        """Of all players, `[players, outputs]`, in double precision."""
        return self._integral("k,ki->ik", 1)

    def interactions(self) -> Tensor:
        """Of all pairs, `[players, players, outputs]`, in double precision."""
        found = self._integral("k,ki,kj->ijk", 2)
        return found * (1 - torch.eye(len(found)))[..., None]


def of_few(players: int, outputs: int, seed: int) -> Game:
    """Three products per player, each of two to six players that all have to be in S."""
    draw = torch.Generator().manual_seed(seed)
    count = 3 * players
    ranks = torch.rand(count, players, generator=draw).argsort(1).argsort(1)
    size = torch.randint(2, 7, (count, 1), generator=draw)
    worth = torch.randn(count, outputs, generator=draw)
    return Game(torch.ones(count, players), (ranks >= size).float(), worth)


def of_all(players: int, outputs: int, seed: int) -> Game:
    """Eight products of a factor for each player in S, of a standard deviation of about 0.2."""
    draw = torch.Generator().manual_seed(seed)
    inside = (0.2 * torch.randn(8, players, generator=draw)).exp()
    return Game(inside, torch.ones(8, players), torch.randn(8, outputs, generator=draw))


GAMES = {"products of 2 to 6 players": of_few, "products of all players": of_all}


def run(
    players: int = 45,
    outputs: int = 10,  # all of them explained by us, the first by shapiq
    methods: Sequence[str] = (  # of shapiq
        "KernelSHAPIQ", "InconsistentKernelSHAPIQ", "PermutationSamplingSII", "SHAPIQ", "ProxySPEX",
    ),
    start: int = 4096,  # the first budget
    most: int = 2**23,  # the largest budget
) -> dict[str, Any]:  # fmt: skip
    """Errors and seconds of every method on every game."""
    found: dict[str, Any] = {}
    for name, make in GAMES.items():
        game = make(players, outputs, seed=0)
        truth = game.interactions()
        sides = {OURS: partial(ours, game)}
        sides |= {method: partial(by_other, method, game) for method in methods}
        found[name] = {}
        for side, method in sides.items():
            points: list[dict[str, float]] = []
            # Fewer than two for each pair leave interactions undetermined.
            budget = max(start, 2 * players**2) if side == OURS else start
            while budget <= most and (not points or points[-1]["seconds"] < max(TIMES)):
                points.append(measured(method, truth, budget))
                budget *= 2
            found[name][side] = points
    return found


def measured(method: Method, truth: Tensor, budget: int) -> dict[str, float]:
    """Seconds of the processor, and the relative error."""
    begin = time.process_time()
    estimate = method(budget)
    seconds, wanted = time.process_time() - begin, truth[..., : estimate.shape[2]]
    error = float((estimate - wanted).norm() / wanted.norm())
    return {"budget": budget, "seconds": seconds, "error": error}


def ours(game: Game, budget: int) -> Tensor:
    x = torch.zeros(1, game.inside.shape[1])
    values = ms.shapley_interactions(game, x, evaluations=budget).values[0].double()
    return values * (1 - torch.eye(len(values)))[..., None]


def by_other(name: str, game: Game, budget: int) -> Tensor:
    """One of shapiq's estimators of the Shapley interaction index, of the first output."""
    one = game._replace(worth=game.worth[:, :1])
    how: Any = {"seed": 0, "order": 2, "max_order": 2, "index": "SII"}
    players = game.inside.shape[1]
    return by_shapiq(name, lambda mask: one(mask, mask), players, budget, **how)[..., None]


def at_time(points: Sequence[Mapping[str, float]], seconds: float) -> float | None:
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


def figures(found: Found) -> Figures:
    def drawn(game: str, key: str, unit: float, label: str) -> draw.Panel:
        several = {
            side: [(point[key] / unit, point["error"]) for point in points]
            for side, points in found[game].items()
        }
        return draw.Panel(game, label, "relative error", several)

    axes = (("seconds", 1, "seconds (ours: all outputs)"), ("budget", 1e3, "thousand evaluations"))
    panels = [drawn(game, *axis) for game in found for axis in axes]
    return {"": draw.curves(panels, columns=2)}


def summary(found: Found) -> dict[str, Any]:
    (best,) = tables(found)
    return {
        f"{game}, {seconds:g} s": ratio
        for game, seconds, *_, ratio in best.rows
        if ratio is not None
    }
