"""The regression whose fit are Shapley values, on coalitions and their complements.

Shapley values are the weighted least-squares fit of v by an additive game with the same ends, v(∅)
and v(N) (Lundberg & Lee 2017). A coalition is taken together with its complement, under the same
weight: half their difference is what the two tell the fit, and what they have in common drops out
(Covert & Lee 2021). With u = 1_S - |S|/n, which sums to zero, and y = (v(S) - v(N∖S))/2 less what
equal shares of v(N) - v(∅) make of it, the fit is equal shares plus the β of

    Σ w u uᵀ β = Σ w u y,    w = n / (|S| (n-|S|) C(n,|S|)).

Over all coalitions Σ w u uᵀ is the identity among vectors that sum to zero, and β is Σ w u y. For a
sample of coalitions, w is divided by what is expected of each. The left side depends on coalitions
alone, which all rows and outputs share: it is factorised once.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from tqdm import tqdm

from manifold_shap import _random
from manifold_shap._checks import check_seed, check_whole
from manifold_shap.coalitions import LeverageScores, ShapleyKernel, all_coalitions, sample_subsets
from manifold_shap.estimators.evaluator import Evaluator
from manifold_shap.estimators.moments import diagonal
from manifold_shap.explanation import Explanation

EVALUATIONS_PER_PLAYER = 64
LAWS: dict[str, type[LeverageScores | ShapleyKernel]] = {
    "leverage": LeverageScores,
    "kernel": ShapleyKernel,
}
# Pairs that are in memory as float64 together, and numbers of all pairs of some rows. They must not
# depend on `batch_size`, or the rounding of sums would.
_PAIRS_PER_PART = 4096
_MOST_NUMBERS = 2**24
# Parts of one below which they are taken for none: rounding, in float64.
_NOTHING = 1e-10


class Pairs(NamedTuple):
    """Coalitions, each of which stands for its complement, too.

    Attributes:
        mask: one of the two, neither empty nor full, `[pairs, players]`.
        weight: w in the sum over pairs, `[pairs]`.
        sampled: how many were drawn, independently: the last ones. Those before are all pairs of
            their sizes.
    """

    mask: Bool[Tensor, "pairs players"]
    weight: Float[Tensor, " pairs"]
    sampled: int

    @property
    def drawn(self) -> Bool[Tensor, "pairs 1"]:
        """Which ones were drawn."""
        number = torch.arange(len(self.mask), device=self.mask.device)
        return (number >= len(number) - self.sampled)[:, None]

    def coalitions(self, start: int, stop: int) -> Bool[Tensor, "coalitions players"]:
        """Those from number start to stop, where a complement follows its coalition."""
        number = torch.arange(start, stop, device=self.mask.device)
        return self.mask[number // 2] ^ (number % 2 == 1)[:, None]


def choose_pairs(
    game: Evaluator, evaluations: int | None, law: str, seed: int, fitted: bool = True
) -> Pairs:
    """All pairs that there are, where the budget covers them, or some by the law.

    Args:
        game: the opened value function.
        evaluations: coalitions per row.
        law: one of `LAWS`.
        seed: of the draws.
        fitted: whether values are fitted to them, for which few are not enough.

    Raises:
        ValueError: an odd number of coalitions per row, or fewer than are needed.
    """
    players = len(game.players)
    count, seed = _count(evaluations, players, fitted), check_seed(seed)
    if count >= 2 ** (players - 1) - 1:
        # Every coalition without the last player; the complements are those with that player.
        mask = all_coalitions(players - 1)[1:]
        mask = torch.cat((mask, mask.new_zeros(len(mask), 1)), dim=1)
        pairs = Pairs(mask, 2 * _weight(mask), 0)
    else:
        generator = torch.Generator().manual_seed(seed)
        # Sizes taken whole would hide the noise of their values from errors over draws.
        pairs = _draw(LAWS[law](players), count, generator, whole_sizes=not game.sampled)
    return Pairs(pairs.mask.to(game.device), pairs.weight.to(game.device), pairs.sampled)


def _count(evaluations: int | None, players: int, fitted: bool) -> int:
    if evaluations is None:
        evaluations = max(2, EVALUATIONS_PER_PLAYER * (players - 1))
    if check_whole("evaluations", evaluations) % 2:
        raise ValueError(
            "Expected `evaluations` to be a positive even number (coalitions come with their "
            f"complements) but got {evaluations}."
        )
    least = min(2 * players, 2**players - 2) if fitted else 2
    if evaluations < least:
        raise ValueError(
            f"Expected `evaluations` of at least {least} for {players} players but got "
            f"{evaluations}; fewer coalitions do not determine so many values."
        )
    return evaluations // 2


def _draw(
    law: LeverageScores | ShapleyKernel, count: int, generator: torch.Generator, whole_sizes: bool
) -> Pairs:
    """Pairs of the law; of sizes of which it would draw as many as there are, each pair once."""
    players, probability = law.players, law.size_probability.clone()
    taken, left = [torch.zeros(0, players, dtype=torch.bool)], count
    # Sizes below half of the players: complements have the others, with the same probability. There
    # are more pairs than are drawn, so that some sizes are always left.
    for size in range(1, (players + 1) // 2) if whole_sizes else ():
        expected = 2 * left * float(probability[size - 1] / probability.sum())
        if expected < math.comb(players, size):
            break
        taken.append(_all_of_size(size, players))
        probability[[size - 1, players - size - 1]] = 0
        left -= len(taken[-1])
    whole = torch.cat(taken)
    probability /= probability.sum()
    sizes = 1 + torch.multinomial(probability, left, replacement=True, generator=generator)
    drawn = [sample_subsets(some, players, generator) for some in sizes.split(_PAIRS_PER_PART)]
    weight = players / (sizes * (players - sizes) * probability[sizes - 1]) / left
    return Pairs(torch.cat((whole, *drawn)), torch.cat((2 * _weight(whole), weight)), left)


def _all_of_size(size: int, players: int) -> Bool[Tensor, "coalitions players"]:
    members = torch.tensor(list(itertools.combinations(range(players), size)))
    mask = torch.zeros(len(members), players, dtype=torch.bool)
    return mask.scatter_(1, members, True)


def _weight(mask: Bool[Tensor, "coalitions players"]) -> Float[Tensor, " coalitions"]:
    """w in the sum over all coalitions."""
    n = mask.shape[1]
    by_size = [0.0, *(n / (size * (n - size) * math.comb(n, size)) for size in range(1, n))]
    return torch.tensor(by_size, dtype=torch.float64)[mask.sum(1)]


class Design:
    """Sums over pairs, for any number of rows and outputs.

    Args:
        pairs: of coalitions, at which all of them are evaluated.
    """

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs

    def moment(
        self, y: Float[Tensor, "rows pairs outputs"]
    ) -> Float[Tensor, "rows players outputs"]:
        """Σ w u y."""
        total = y.new_zeros(len(y), self.pairs.mask.shape[1], y.shape[2])
        for part, u, w in self._parts():
            total += torch.einsum("pn,bpo->bno", w[:, None] * u, y[:, part])
        return total

    def residual(
        self, y: Float[Tensor, "rows pairs outputs"], beta: Float[Tensor, "rows players outputs"]
    ) -> Float[Tensor, "rows pairs outputs"]:
        """y less what β makes of it."""
        fitted = [torch.einsum("pn,bno->bpo", u, beta) for _, u, _ in self._parts()]
        return y - torch.cat([y[:, :0], *fitted], dim=1)

    def covariance(
        self,
        linear: Float[Tensor, "players players"],
        errors: Float[Tensor, "rows pairs outputs"],
        crossed: bool,
    ) -> Float[Tensor, "rows players *errors"]:
        """Of `linear` Σ w u e over the drawn pairs, from their spread; or its diagonal alone.

        Args:
            linear: a symmetric map.
            errors: e, zero for pairs that were not drawn.
            crossed: whether outputs are wanted together.
        """

        def products(of: Tensor) -> Tensor:
            return of[..., :, None] * of[..., None, :] if crossed else of.square()

        total = errors.new_zeros(len(errors), len(linear), errors.shape[2])
        squares = products(total)
        for part, u, w in self._parts():
            moved, own = (w[:, None] * u) @ linear, errors[:, part]
            total += torch.einsum("pn,bpo->bno", moved, own)
            squares += torch.einsum("pn,bp...->bn...", moved.square(), products(own))
        count = self.pairs.sampled
        if count < 2:
            return torch.full_like(squares, torch.nan)
        return (squares - products(total) / count) * (count / (count - 1))

    def _parts(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Numbers of some pairs, with their u `[part, players]` and w."""
        mask, weight, _ = self.pairs
        for start in range(0, len(mask), _PAIRS_PER_PART):
            part = slice(start, start + _PAIRS_PER_PART)
            u = mask[part].double()
            yield part, u - u.mean(1, keepdim=True), weight[part]


class Regression(Design):
    """Least squares of y on u, for any number of rows and outputs.

    Args:
        pairs: of coalitions, at which all of them are evaluated.

    Attributes:
        inverse: of Σ w u uᵀ among vectors that sum to zero, `[players, players]`.
        leverage: w uᵀ `inverse` u of each pair, the share of its own y in what is fitted to it; 1
            where the fit hangs on it.

    Raises:
        ValueError: the pairs leave values undetermined.
    """

    def __init__(self, pairs: Pairs) -> None:
        super().__init__(pairs)
        players = pairs.mask.shape[1]
        # Of what all players share u says nothing: a one in its place keeps the sum invertible.
        gram = pairs.weight.new_full((players, players), 1 / players)
        for _, u, w in self._parts():
            gram += (w[:, None] * u).T @ u
        root, failed = torch.linalg.cholesky_ex(gram)
        if int(failed) or float(root.diagonal().square().min()) < _NOTHING:
            raise ValueError(
                f"Expected coalitions that determine the values of all {players} players but the "
                f"{2 * len(pairs.mask)} drawn leave some open; give more `evaluations`."
            )
        self.inverse = torch.cholesky_inverse(root)
        shares = [w * ((u @ self.inverse) * u).sum(1) for _, u, w in self._parts()]
        self.leverage = torch.cat([pairs.weight[:0], *shares])

    @property
    def hangs(self) -> Bool[Tensor, "pairs 1"]:
        """Drawn pairs without which values would be undetermined."""
        return self.pairs.drawn & (self.leverage > 1 - _NOTHING)[:, None]

    def fit(self, y: Float[Tensor, "rows pairs outputs"]) -> Float[Tensor, "rows players outputs"]:
        """β, which sums to zero over the players."""
        return self.inverse @ self.moment(y)

    def left_out(
        self, y: Float[Tensor, "rows pairs outputs"], beta: Float[Tensor, "rows players outputs"]
    ) -> Float[Tensor, "rows pairs outputs"]:
        """Residuals of drawn pairs in the fit to all other pairs, given β, the fit to all.

        Zero for pairs that were not drawn, NaN for one on which the fit hangs.
        """
        others = torch.where(self.hangs, torch.nan, 1 - self.leverage[:, None])
        return torch.where(self.pairs.drawn, self.residual(y, beta) / others, 0.0)


Estimate = tuple[Float[Tensor, "rows players outputs"], Float[Tensor, "rows players *errors"]]
Estimator = Callable[[Any, Float[Tensor, "rows pairs outputs"], bool], Estimate]


def explain_pairs(
    game: Evaluator,
    design: Design,
    estimator: Estimator,
    made_by: dict[str, Any],
    seed: int,
    progress: bool,
    start: Float[Tensor, "rows players outputs"] | None = None,
) -> Explanation:
    """Shapley values of all rows from the same pairs of coalitions.

    Args:
        game: the opened value function.
        design: the pairs.
        estimator: from the design, y and `Evaluator.crossed` to β and the covariance of its errors.
        made_by: what the explanation records.
        seed: of the draws of a sampled value function.
        progress: show a bar.
        start: β that is known before. The estimator sees what it leaves of y, and it is added.
    """
    pairs, rows = design.pairs, torch.arange(len(game.x))
    count, outputs = len(pairs.mask), game.outputs
    keys = _keys(game, rows, pairs, seed)
    per_row = max(1, count * outputs ** (2 if game.crossed else 1))
    found = []
    with _bar(len(rows) * count, progress) as bar:
        for some in rows.split(max(1, _MOST_NUMBERS // per_row)):
            y = _targets(game, pairs, some, keys[some], bar)
            if start is not None:
                y = design.residual(y, start[some])
            found.append(estimator(design, y, game.crossed))
    beta, covariance = (torch.cat(parts) for parts in zip(*found, strict=True))
    if start is not None:
        beta = beta + start
    phi = beta + game.total.double()[:, None] / len(game.players)
    made_by = {**made_by, "pairs": count}
    if not pairs.sampled:
        return game.explanation(phi, game.error_of_enumeration(phi), made_by)
    # Of a player who does not vary, rounding may leave less than nothing.
    error = diagonal(covariance).clamp(min=0).sqrt()
    made_by["seed"] = seed
    return game.explanation(phi, error, made_by, covariance if game.crossed else None)


def _keys(game: Evaluator, rows: Tensor, pairs: Pairs, seed: int) -> Int64[Tensor, "rows pairs"]:
    number = torch.arange(len(pairs.mask))
    if not pairs.sampled:  # Values are exact for draws that are the same for all coalitions.
        return game.keys(rows)[:, None].expand(-1, len(number))
    # Draws are fresh for every pair, so that standard errors are of these, too.
    return _random.fold(game.keys(rows, seed)[:, None], number)


def _bar(total: int, progress: bool) -> tqdm:
    return tqdm(total=total, desc="coalitions", unit="pair", delay=2, disable=not progress)


def _targets(
    game: Evaluator, pairs: Pairs, rows: Tensor, keys: Int64[Tensor, "rows pairs"], bar: tqdm
) -> Float[Tensor, "rows pairs outputs"]:
    """y: half of what a coalition has over its complement, less what equal shares make of it."""
    count = len(pairs.mask)
    # As many rows at a time as fit one batch: a row's own work is done once for its coalitions.
    step = max(1, game.batch_size // max(1, 2 * count * game.draws))
    halves = []
    for some, own in zip(rows.split(step), keys.split(step), strict=True):
        coalition, complement = _values(game, pairs, some, own).double().unbind(2)
        halves.append((coalition - complement) / 2)
        bar.update(len(some) * count)
    share = pairs.mask.sum(1).double() / len(game.players) - 0.5
    change = game.total[rows.to(game.device)].double()
    return torch.cat(halves) - share[:, None] * change[:, None]


def _values(
    game: Evaluator, pairs: Pairs, rows: Tensor, keys: Int64[Tensor, "rows pairs"]
) -> Float[Tensor, "rows pairs 2 outputs"]:
    def coalitions(start: int, stop: int) -> Tensor:
        return pairs.coalitions(start, stop).expand(len(rows), -1, -1)

    # A coalition and its complement share their draws.
    twice, count = keys.repeat_interleave(2, 1), len(pairs.mask)
    return game.evaluate(rows, coalitions, 2 * count, twice).unflatten(1, (count, 2))
