"""Fits Shapley values by least squares to coalitions and their complements.

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
from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from tqdm import tqdm

from manifold_shap import _random
from manifold_shap.estimators.evaluator import Evaluator
from manifold_shap.estimators.moments import diagonal
from manifold_shap.estimators.pairs import Pairs, choose_pairs
from manifold_shap.explanation import Explanation

# Pairs that are in memory as float64 together, and numbers of all pairs of some rows. They must not
# depend on `batch_size`, or the rounding of sums would.
_PAIRS_PER_PART = 4096
_MOST_NUMBERS = 2**24
# So few pairs that they often leave values open are drawn again, at most so often.
_MOST_DRAWS = 10_000
# Parts of one below which they are taken for none: rounding, in float64.
_NOTHING = 1e-10


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
            where the fit depends on it alone.

        determined: whether the pairs determine all values; else `inverse` and `leverage` are NaN.
    """

    def __init__(self, pairs: Pairs) -> None:
        super().__init__(pairs)
        players = pairs.mask.shape[1]
        # Of what all players share u says nothing: a one in its place keeps the sum invertible.
        gram = pairs.weight.new_full((players, players), 1 / players)
        for _, u, w in self._parts():
            gram += (w[:, None] * u).T @ u
        root, failed = torch.linalg.cholesky_ex(gram)
        self.determined = not int(failed) and float(root.diagonal().square().min()) >= _NOTHING
        self.inverse = torch.cholesky_inverse(root) if self.determined else gram * torch.nan
        shares = [w * ((u @ self.inverse) * u).sum(1) for _, u, w in self._parts()]
        self.leverage = torch.cat([pairs.weight[:0], *shares])

    @classmethod
    def of_game(
        cls, game: Evaluator, evaluations: int | None, law: str, seed: int, spare: int = 0
    ) -> "Regression":
        """The regression on the first pairs by a law that determine all values.

        Args:
            game: the evaluator.
            evaluations: coalitions per row.
            law: one of `pairs.LAWS`.
            seed: of the draws.
            spare: 1 where values must be determined without any one of the drawn pairs, too.

        Raises:
            ValueError: an odd number of coalitions per row, or fewer than two for each player and
                two for a spare pair.
        """
        least = 2 * (len(game.players) + spare)
        for pairs in itertools.islice(
            choose_pairs(game, evaluations, law, seed, least), _MOST_DRAWS
        ):
            found = cls(pairs)
            if found.determined and not (spare and bool(found.hangs.any())):
                return found
        raise ValueError(
            f"Expected coalitions that determine the values of all {len(game.players)} players but "
            f"{_MOST_DRAWS} draws of {2 * len(pairs.mask)} left some open; give more `evaluations`."
        )

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

        Zero for pairs that were not drawn, NaN for one that the fit depends on alone.
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
        game: the evaluator.
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
    freedom = torch.full((len(rows),), float(pairs.sampled - 1))
    crossed = covariance if game.crossed else None
    return game.explanation(phi, error, made_by, crossed, freedom)


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
