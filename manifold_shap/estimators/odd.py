"""Estimates Shapley values by a regression with interactions of all odd orders.

KernelSHAP fits an additive game to pairs of complementary coalitions; what the game has beyond that
is noise to it. Here a game g of interactions is fitted as well:

    minimise Σ w (y - uᵀβ - g(S))² + λ |g|²,

with w, u and y as in `regression`, and |g| the norm that belongs to the covariance k: kernel ridge
regression with the additive part free of a penalty. The values are those of the fit, β + φ(g), both
in closed form. Since β is the fit of KernelSHAP to y - g, the estimate is φ(g) + φ(v - g) with the
second term estimated: g is a control variate, and need not be true.

What is not known beforehand, the relevance of each player to interactions and λ, is chosen for each
row and output by the error of predicted pairs that were left out, which least squares give in
closed form. The relevances begin as equal ones and as the sizes of the players' coefficients; then
players have that with which they are part of the interactions found so far, as long as this
predicts better.

Fumagalli et al. (2026) fit odd games by interactions that trees select, Fumagalli et al. (2025) by
all of low order; a covariance needs neither trees nor a limit of the order.

A coalition is z in {-1, 1}^n, 1 for the players in it. Of a random game with a term b_T Π_{i∈T} z_i
for every set T of players, independent and of variance Π_{i∈T} a_i, the covariance between two
coalitions is Π (1 + a_i z_i z'_i): a_i is the relevance of player i to interactions. Only sets of
odd size bear on Shapley values, since those of even size are the same for a coalition and its
complement (Fumagalli et al. 2026). The covariance of the odd part is

    k(z, z') = Π √(1 - a_i²) sinh(Σ artanh(a_i) z_i z'_i),

one matrix product for all interactions of the orders 1, 3, 5, ... The multilinear extension of the
game Π (1 + a_i z_i z'_i) is Π (1 + a_i z'_i t) where all z_i have the expectation t. Its Shapley
values, which are those of k(., z') as well, are

    φ_i = a_i z'_i ∫ Π_{j≠i} (1 + a_j z'_j t) dt,    t from -1 to 1 (Owen 1972).
"""

import math
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap.estimators.evaluator import Evaluator
from manifold_shap.estimators.kernel import MOST_NUMBERS, Estimate, explained
from manifold_shap.estimators.pairs import Pairs
from manifold_shap.estimators.ragged import by_player_count
from manifold_shap.estimators.regression import Regression
from manifold_shap.explanation import Explanation
from manifold_shap.values.selected import Outputs

# Pairs by which relevances are chosen, for each player and at least; and those whose sections span
# the games of the fit.
_CHOOSING_EACH, _CHOOSING = 4, 256
_CENTRES = 512
# Penalties, relative to the mean variance of the interactions of a pair.
_PENALTIES = torch.logspace(-3, 3, 13, dtype=torch.float64)
# Relevances are powers of involvements, in up to so many rounds.
_POWERS, _ROUNDS = (0.5, 1.0), 4
_LEAST_COEFFICIENT, _LEAST_INVOLVEMENT = 0.02, 1e-4
# Added to the covariance of the centres, relative to their variances.
_JITTER = 1e-7
_SMALLEST = 1e-30
# Nodes of Gauss-Legendre quadrature: exact up to 48 players, to rounding beyond, since the
# relevances of all add up to a few.
_NODES = 24
# Sum of the relevances of all players, and the largest of one.
_SUM, _LARGEST = 3.0, 0.9
# Halvings of the range of a factor.
_HALVINGS = 60


@by_player_count
def odd_shapley(
    value: Any,
    x: Any,
    *,
    evaluations: int | None = None,
    outputs: Outputs = None,
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool | None = None,
) -> Explanation:
    """Estimate Shapley values by least squares with interactions of all odd orders.

        >>> game = lambda x, mask: (x[:, None] + mask).prod(-1, keepdim=True)
        >>> x = torch.tensor([[1.0, 2.0, 3.0, 1.0, 2.0]])
        >>> exact = game(x, torch.ones(1, 1, 5)) - game(x, torch.zeros(1, 1, 5))
        >>> explanation = odd_shapley(game, x, evaluations=20)
        >>> bool(torch.isclose(explanation.phi.sum(), exact.sum()))
        True

    Coalitions come with their complements, as many of every size, none twice. The fit takes a
    fraction of a second per row and output, whatever the value function: this is for value
    functions that take as long, or longer. Of games of few interactions, such as trees, the error
    is a small part of that of `kernel_shapley`.

    Args:
        value: a `ValueFunction`, or a callable; see `as_value_function`.
        x: rows to explain, `[instances, *event]`. Each has coalitions of its own.
        evaluations: coalitions per row, an even number, at least two for each player; by default
            64 for each player but one. With 2^n - 2 or more, all are taken and the result is exact;
            where values are drawn, coalitions are, too, and come again with other draws.
        outputs: those to explain: names or positions, or how many of those with the largest mean
            predictions; by default all. See `ValueFunction.select`.
        seed: of the coalitions. Same seed, same answer, for any `batch_size`.
        batch_size: model rows per call; changes memory and time, not the numbers.
        progress: show a bar on work of more than two seconds; by default where a person looks.

    Returns:
        An explanation with standard errors over pairs, from coalitions and draws, by the jackknife;
        NaN (unknown) where the fit depends on one pair alone. They are widened by what the choice
        of relevances and penalties adds: of random games of 5 to 12 players (all coalitions
        independent, interactions of 2 to 4 players, products), intervals of 95 % held 90 to 96 % of
        the values with 5 evaluations for each player, 92 to 99 % with 7 or more. The estimate is
        shrunk, and so has a bias: of the error, 0 to .6 standard deviations in these games, less
        with more evaluations.

    Raises:
        ValueError: an odd `evaluations`, or too few of them.
    """
    game = Evaluator(value, x, batch_size, progress)
    regression = Regression.of_game(game, evaluations, "leverage", seed, once=True)
    fit = _Fit(regression, game.crossed)
    return explained(game, regression.pairs, fit.values, {"estimator": "odd"}, seed)


def nominal_seconds(players: int, evaluations: int) -> float:
    """What the fit of a row and an output takes on a processor core, by its sizes.

    Decompositions for each try of relevances, on some of the pairs, and for the fit to all.
    """
    pairs = evaluations // 2
    few, centres = min(pairs, max(_CHOOSING, _CHOOSING_EACH * players)), min(pairs, _CENTRES)
    tries = 2 + len(_POWERS) * _ROUNDS
    return 1e-9 * (tries * few**3 + centres**3 + pairs * centres**2 / 4) + 5e-3


class OddGames:
    """Random games of odd interactions, without effect on v(N) - v(∅), which is known.

    Args:
        relevance: a of each player, below one; as many games as there are rows of it.
    """

    def __init__(self, relevance: Float[Tensor, "games players"]) -> None:
        self.relevance = relevance

    def covariance(
        self, z: Float[Tensor, "m players"], other: Float[Tensor, "k players"]
    ) -> Float[Tensor, "games m k"]:
        """Between coalitions, given that the value of the grand coalition is zero."""
        whole = torch.ones_like(other[:1])
        explained = self._odd(z, whole) * self._share(other).mT
        return self._odd(z, other) - explained

    def shapley(self, z: Float[Tensor, "m players"]) -> Float[Tensor, "games m players"]:
        """Of the games `covariance(., z)`; they sum to zero."""
        every = torch.cat((z, torch.ones_like(z[:1])))
        own = self.relevance[:, None] * every
        found = torch.zeros_like(own)
        nodes, weights = np.polynomial.legendre.leggauss(min(_NODES, z.shape[1] // 2 + 1))
        for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
            logs = torch.log1p(own * node)
            found += weight * (logs.sum(2, keepdim=True) - logs).exp()
        found *= own
        return found[:, :-1] - self._share(z) * found[:, -1:]

    def involvement(
        self, z: Float[Tensor, "m players"], coefficients: Float[Tensor, "games m outputs"]
    ) -> Float[Tensor, "games players"]:
        """Mean squares of the terms of three or more players that a player is part of.

        Of the games Σ `coefficients` `covariance(., z)`, summed over outputs.
        """
        every = torch.cat((z, torch.ones_like(z[:1])))
        anchor = -self._share(z).mT @ coefficients
        coefficients = torch.cat((coefficients, anchor), 1)
        # Terms are independent and have variances Π a_i: products of two sections are sums over
        # sets with a_i² in place of a_i. Those with player i are a_i² z_i z'_i times the even part
        # of the others, of which the term of no other player is left out.
        square = self.relevance.square()
        exponent = (every * square.atanh()[:, None]) @ every.mT
        scale = _scale(square)
        weight = coefficients @ coefficients.mT
        even = exponent.cosh() * scale * weight
        odd = (exponent.sinh() * scale * weight).sum((1, 2))[:, None]
        of_even = (every * (even @ every)).sum(1)
        alone = (every * (weight @ every)).sum(1)
        of_others = (of_even - square * odd) / (1 - square.square()) - alone
        return (square * of_others).clamp(min=0)

    @cached_property
    def _angle(self) -> Float[Tensor, "games 1 players"]:
        return self.relevance.atanh()[:, None]

    def _odd(self, z: Tensor, other: Tensor) -> Float[Tensor, "games m k"]:
        return ((z * self._angle) @ other.mT).sinh() * _scale(self.relevance)

    def _share(self, z: Tensor) -> Float[Tensor, "games m 1"]:
        """Covariance with the grand coalition, over its variance."""
        whole = torch.ones_like(z[:1])
        return self._odd(z, whole) / self._odd(whole, whole)


def _scale(relevance: Float[Tensor, "games players"]) -> Float[Tensor, "games 1 1"]:
    return (torch.log1p(-relevance.square()).sum(1) / 2).exp()[:, None, None]


def relevances(weights: Float[Tensor, "games players"]) -> Float[Tensor, "games players"]:
    """Relevances in proportion to positive weights, which sum to three and are at most 0.9."""
    weights = weights / weights.amax(1, keepdim=True)
    total = min(_SUM, _LARGEST * weights.shape[1] * (1 - 1e-6))
    low, high = (torch.full_like(weights[:, :1], math.log(end)) for end in (1e-6, 1e9))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        small = (weights * middle.exp()).clamp(max=_LARGEST).sum(1, keepdim=True) < total
        low, high = torch.where(small, middle, low), torch.where(small, high, middle)
    return (weights * high.exp()).clamp(max=_LARGEST)


class _Fit:
    """Values of rows and outputs from the same pairs.

    Args:
        regression: of these pairs on additive games.
        crossed: whether to give covariances between outputs.
    """

    def __init__(self, regression: Regression, crossed: bool) -> None:
        self.regression, self.crossed = regression, crossed
        pairs, device = regression.pairs, regression.pairs.mask.device
        count, players = pairs.mask.shape
        # Any generator will do: pairs are drawn already, here some are chosen.
        order = torch.randperm(count, generator=torch.Generator().manual_seed(count)).to(device)
        some = order[: max(_CHOOSING, _CHOOSING_EACH * players)]
        self.centres = order[:_CENTRES]
        few = Pairs(pairs.mask[some], pairs.weight[some], len(some), pairs.missing[some])
        self.few, self.some = Regression(few), some
        if bool(self.few.inverse.isnan().any()):
            self.few, self.some = regression, torch.arange(count, device=device)

    def values(self, y: Float[Tensor, "rows pairs outputs"]) -> Estimate:
        """β and the covariance of its errors."""
        pairs = self.regression.pairs
        if pairs.sampled == 0:
            beta = self.regression.fit(y)
            return beta, self.regression.covariance(self.regression.inverse, y * 0, self.crossed)
        count, players = pairs.mask.shape
        step = max(1, MOST_NUMBERS // (count * max(len(self.centres), players)))
        parts = [self._of_rows(some, step) for some in y.split(max(1, step // y.shape[2]))]
        beta, variance = (torch.cat(some) for some in zip(*parts, strict=True))
        return beta, variance

    def _of_rows(self, y: Float[Tensor, "rows pairs outputs"], step: int) -> Estimate:
        """Outputs of a row are games like those of other rows; so many are fitted at a time."""
        games = y.mT.flatten(0, 1)[..., None]
        parts = [self._of(some) for some in games.split(step)]
        beta, change = (torch.cat(some) for some in zip(*parts, strict=True))
        beta, change = (some.unflatten(0, (len(y), -1)) for some in (beta, change))
        if self.crossed:
            return beta[..., 0].mT, torch.einsum("bonp,bqnp->bnoq", change, change)
        return beta[..., 0].mT, change.square().sum(3).mT

    def _of(
        self, y: Float[Tensor, "games pairs 1"]
    ) -> tuple[Float[Tensor, "games players 1"], Float[Tensor, "games players pairs"]]:
        relevance = self._relevance(y[:, self.some])
        ridge = _Ridge(self.regression, OddGames(relevance), self.centres)
        losses = ridge.losses(y)
        return ridge.values(y, _PENALTIES.to(y.device)[losses.argmin(0)])

    def _relevance(self, y: Float[Tensor, "games pairs 1"]) -> Float[Tensor, "games players"]:
        """Of all players to the interactions of each game."""
        own = self.few.fit(y)[..., 0].abs()
        own = own / own.amax(1, keepdim=True).clamp(min=_SMALLEST) + _LEAST_COEFFICIENT
        best, involved = torch.zeros_like(own), torch.zeros_like(own)
        least = own.new_full((len(y),), math.inf)

        def is_better(games: Tensor, weights: Tensor) -> Tensor:
            """Of which games relevances by these weights predict better; they are taken there."""
            relevance = relevances(weights)
            everything = torch.arange(len(self.some), device=y.device)
            ridge = _Ridge(self.few, OddGames(relevance), everything)
            losses, penalty = ridge.losses(y[games]).min(0)
            coefficients = ridge.coefficients(y[games], _PENALTIES.to(y.device)[penalty])
            found = ridge.games.involvement(ridge.z, coefficients)
            better = losses[:, 0] < least[games]
            where = games[better]
            least[where], involved[where] = losses[better, 0], found[better]
            best[where] = relevance.expand_as(found)[better]
            return better

        every = torch.arange(len(y), device=y.device)
        is_better(every, torch.ones_like(own[:1]))
        is_better(every, own)
        for _ in range(_ROUNDS):
            shares = involved / involved.amax(1, keepdim=True).clamp(min=_SMALLEST)
            better = torch.zeros(len(y), dtype=torch.bool, device=y.device)
            for power in _POWERS:
                weights = (shares[every] + _LEAST_INVOLVEMENT) ** power
                better[every] |= is_better(every, weights)
            every = better.nonzero()[:, 0]
            if len(every) == 0:
                break
        return best


class _Ridge:
    """Penalised least squares on interactions, after additive games, for any penalty.

    Everything is multiplied by √w. Interactions are spanned by sections of their covariance at
    some of the pairs, in an orthonormal basis, turned to the principal axes of what additive games
    leave of it.

    Args:
        regression: on additive games.
        games: random games, for each game.
        centres: the pairs whose sections are taken.
    """

    def __init__(
        self, regression: Regression, games: OddGames, centres: Int64[Tensor, " m"]
    ) -> None:
        self.regression, self.games = regression, games
        pairs = regression.pairs
        z = 2 * pairs.mask.double() - 1
        self.z, self.root = z[centres], pairs.weight.sqrt()
        covariance = games.covariance(self.z, self.z)
        jitter = _JITTER * covariance.diagonal(dim1=1, dim2=2).mean(1)[:, None].expand(
            -1, len(centres)
        )
        self.lower = torch.linalg.cholesky(covariance + jitter.diag_embed())
        sections = self.root[:, None] * games.covariance(z, self.z)
        whitened = torch.linalg.solve_triangular(self.lower.mT, sections, upper=True, left=False)
        self.additive = self.root[:, None] * (
            pairs.mask.double() - pairs.mask.double().mean(1, keepdim=True)
        )
        self.to_beta = regression.inverse @ self.additive.T
        self.of_additive = self.to_beta @ whitened
        left = whitened - self.additive @ self.of_additive
        values, vectors = torch.linalg.eigh(left.mT @ left)
        self.strength, self.axes = values.clamp(min=0), vectors
        self.left = left @ vectors
        self.unit = self.strength.sum(1)[:, None] / len(z)

    def losses(self, y: Float[Tensor, "games pairs 1"]) -> Float[Tensor, "penalties games 1"]:
        """Mean squares of the errors of pairs that are left out, for every penalty."""
        penalties = _PENALTIES.to(y.device)[:, None, None].expand(-1, len(y), y.shape[2])
        return torch.stack([self.left_out(y, some).square().mean(1) for some in penalties])

    def left_out(
        self, y: Float[Tensor, "games pairs 1"], penalty: Float[Tensor, "games 1"]
    ) -> Float[Tensor, "games pairs 1"]:
        """√w times the errors of each pair in the fit to all others."""
        rest = self._rest(y)
        errors = rest - self.left @ (self._shrunk(penalty) * (self.left.mT @ rest))
        return errors / (1 - self._leverage(penalty)).clamp(min=1e-9)

    def coefficients(
        self, y: Float[Tensor, "games pairs 1"], penalty: Float[Tensor, "games 1"]
    ) -> Float[Tensor, "games m 1"]:
        """Of the sections of the covariance."""
        found = self.axes @ (self._shrunk(penalty) * (self.left.mT @ self._rest(y)))
        return torch.linalg.solve_triangular(self.lower.mT, found, upper=True)

    def values(
        self,
        y: Float[Tensor, "games pairs 1"],
        penalty: Float[Tensor, "games 1"],
    ) -> tuple[Float[Tensor, "games players 1"], Float[Tensor, "games players pairs"]]:
        """Shapley values less equal shares, and what leaving each pair out would change of them."""
        shrunk = self._shrunk(penalty)
        own = torch.linalg.solve_triangular(self.lower, self.games.shapley(self.z), upper=False)
        to_values = (own.mT - self.of_additive) @ self.axes
        beta = self.to_beta @ (self.root[:, None] * y) + to_values @ (
            shrunk * (self.left.mT @ self._rest(y))
        )
        errors = self.left_out(y, penalty)
        pairs = self.regression.pairs
        errors = torch.where(self.regression.essential, torch.nan, errors)
        # Errors of pairs that are left out do not show that relevances and penalties were chosen by
        # them. The variance is widened by the share of the pairs that the fit takes as its own.
        fitted = self._leverage(penalty).sum(1, keepdim=True) / len(pairs.mask)
        errors = errors * (pairs.missing[:, None] * (1 + fitted)).sqrt()
        # A pair's part in every value, times its error.
        change = torch.einsum("bnm,bmo,bpm->bnp", to_values, shrunk, self.left) + self.to_beta
        return beta, change * errors[..., 0][:, None]

    def _rest(self, y: Tensor) -> Float[Tensor, "games pairs 1"]:
        """√w times what additive games leave of y."""
        y = self.root[:, None] * y
        return y - self.additive @ (self.to_beta @ y)

    def _leverage(self, penalty: Tensor) -> Float[Tensor, "games pairs 1"]:
        """The weight of a pair's own y in its fitted value."""
        return self.regression.leverage[:, None] + self.left.square() @ self._shrunk(penalty)

    def _shrunk(self, penalty: Tensor) -> Float[Tensor, "games m 1"]:
        """Of every axis, one over what it counts with the penalty."""
        return 1 / (self.strength[..., None] + (self.unit * penalty)[:, None])
