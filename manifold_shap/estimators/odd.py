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
closed form. The relevances begin as equal ones, of which all rows share the decompositions, and as
the sizes of the players' coefficients; then players have that with which they are part of the
interactions found so far, as long as this predicts better. Every try takes one inverse: it also
gives the slopes of the errors in λ, and so the λ of the next try, by a Gauss-Newton step.

The game g is fitted to 1,536 pairs at most, β to what it leaves of all.

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
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap.estimators.evaluator import MOST_NUMBERS, Evaluator
from manifold_shap.estimators.kernel import Estimate, fitted
from manifold_shap.estimators.regression import Pairs, Regression
from manifold_shap.estimators.runner import Asking, Result, explain
from manifold_shap.explanation import Explanation
from manifold_shap.values.selected import Outputs

# Pairs by which relevances are chosen, for each player and at least; and those that the games are
# fitted to.
_CHOOSING_EACH, _CHOOSING = 4, 256
_FITTED = 1536
# Penalties of equal relevances, relative to the mean variance of the interactions of a pair; and
# the largest step from one to the next.
_PENALTIES = torch.logspace(-3, 3, 7, dtype=torch.float64)
_STEP = math.log(10)
# Rounds in which relevances follow involvements, at most.
_ROUNDS = 5
_LEAST_COEFFICIENT, _LEAST_INVOLVEMENT = 0.02, 1e-4
_SMALLEST, _ROUNDING = 1e-30, 1e-9
# Outputs whose sum varies by less than this part of them are a class and its opposite.
_MIRRORED = 1e-5
# Nodes of Gauss-Legendre quadrature: exact up to 48 players, to rounding beyond, since the
# relevances of all add up to a few.
_NODES = 24
# Sum of the relevances of all players, and the largest of one.
_SUM, _LARGEST = 3.0, 0.9


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

    Coalitions come with their complements, as many of every size, none twice. The fit takes some
    hundredths of a second per row and output, half a second from 3,000 coalitions on, whatever the
    value function: this is for value functions that take as long, or longer. Of games of few
    interactions, such as trees, the error is a small part of that of `kernel_shapley`.

    Args:
        value: a `ValueFunction`, or a callable; see `as_value_function`.
        x: rows to explain, `[instances, *event]`. Each has coalitions of its own.
        evaluations: coalitions per row, two for each pair, at least two for each player; by default
            64 for each player but one. With 2^n - 2 or more, all are taken and the result is exact;
            where values are drawn, coalitions are, too, and come again with other draws.
        outputs: those to explain: names or positions, one or a list; by default all. See
            `ValueFunction.select`.
        seed: of the coalitions. Same seed, same answer, for any `batch_size`.
        batch_size: model rows per call; changes memory and time, not the numbers.
        progress: show a bar on work of more than two seconds; by default where a person looks.

    Returns:
        An explanation with standard errors over pairs, from coalitions and draws, by the jackknife;
        NaN (unknown) where the fit depends on one pair alone. They are widened by what the choice
        of relevances and penalties adds. The estimate is shrunk, and so has a bias, which
        may exceed half a standard error where evaluations are few.

    Raises:
        ValueError: too few `evaluations`.
    """
    return explain(estimator=odd, **locals())


def odd(game: Evaluator, evaluations: int | None = None, seed: int = 0) -> Asking[Result]:
    """The estimator of `odd_shapley`."""
    regression = Regression.of_game(game, evaluations, "leverage", seed, without_replacement=True)
    fit = _Fit(regression, game.full_covariance)
    return (yield from fitted(game, regression.pairs, fit.values, {"estimator": "odd"}, seed))


def nominal_seconds(players: int, evaluations: int) -> float:
    """What the fit of a row and an output takes on a processor core, by its sizes.

    An inverse for each try of relevances, on some of the pairs, and one for the fit; and what the
    game that is fitted says about all pairs.
    """
    pairs = evaluations // 2
    few, fitted = min(pairs, max(_CHOOSING, _CHOOSING_EACH * players)), min(pairs, _FITTED)
    tries = 2 + _ROUNDS
    return 1.8e-10 * tries * few**3 + 7e-11 * fitted**3 + 2e-8 * pairs * fitted + 1e-3


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

    def _odd(self, z: Tensor, other: Tensor) -> Float[Tensor, "games m k"]:
        return ((z * self.relevance.atanh()[:, None]) @ other.mT).sinh() * _scale(self.relevance)

    def _share(self, z: Tensor) -> Float[Tensor, "games m 1"]:
        """Covariance with the grand coalition, over its variance."""
        whole = torch.ones_like(z[:1])
        return self._odd(z, whole) / self._odd(whole, whole)


def _scale(relevance: Float[Tensor, "games players"]) -> Float[Tensor, "games 1 1"]:
    return (torch.log1p(-relevance.square()).sum(1) / 2).exp()[:, None, None]


def relevances(weights: Float[Tensor, "games players"]) -> Float[Tensor, "games players"]:
    """Relevances in proportion to positive weights, which sum to three and are at most 0.9."""
    total = min(_SUM, _LARGEST * weights.shape[1] * (1 - 1e-6))
    weights = weights / weights.amax(1, keepdim=True)
    # With the k largest at the bound the others share the rest; the least k that needs no more.
    largest = weights.sort(1, descending=True).values
    shared = largest.flip(1).cumsum(1).flip(1)
    bound = _LARGEST * torch.arange(weights.shape[1], device=weights.device)
    factor = (total - bound) / shared
    first = (factor * largest <= _LARGEST).long().argmax(1, keepdim=True)
    return (weights * factor.gather(1, first)).clamp(max=_LARGEST)


class _Tried(NamedTuple):
    """What games have with relevances that were tried.

    Attributes:
        loss: mean squares of the errors of pairs that are left out, `[*games]`.
        relevance: of the players, `[*games, players]`.
        penalty: that promises the least loss, `[*games]`.
        coefficients: of the sections of the covariance, `[*games, m]`.
    """

    loss: Float[Tensor, "*games"]
    relevance: Float[Tensor, "*games players"]
    penalty: Float[Tensor, "*games"]
    coefficients: Float[Tensor, "*games m"]

    def at(self, games: Any) -> "_Tried":
        """Of some of the games, by an index."""
        return _Tried(*(each[games] for each in self))

    def update(self, games: Int64[Tensor, " some"], other: "_Tried") -> None:
        """Take what is better of the other for some of the games."""
        better = other.loss < self.loss[games]
        for each, new in zip(self, other, strict=True):
            each[games[better]] = new[better]


class _Fit:
    """Values of rows and outputs from the same pairs.

    Args:
        regression: of these pairs on additive games.
        full_covariance: whether to give covariances between outputs.
    """

    def __init__(self, regression: Regression, full_covariance: bool) -> None:
        self.regression, self.full_covariance = regression, full_covariance
        count, players = regression.pairs.mask.shape
        # Any generator will do: pairs are drawn already, here some are chosen.
        order = torch.randperm(count, generator=torch.Generator().manual_seed(count))
        order = order.to(regression.pairs.mask.device)
        self.choosing = self._among(order[: max(_CHOOSING, _CHOOSING_EACH * players)])
        self.fitted = self._among(order[:_FITTED])

    def _among(self, some: Int64[Tensor, " some"]) -> tuple[Int64[Tensor, " m"], Regression]:
        """Some of the pairs with their regression; all, where these leave values undetermined."""
        pairs = self.regression.pairs
        few = Pairs(pairs.mask[some], pairs.weight[some], len(some), pairs.missing[some])
        regression = Regression(few)
        if bool(regression.inverse.isnan().any()):
            return torch.arange(len(pairs.mask), device=some.device), self.regression
        return some, regression

    def values(self, y: Float[Tensor, "rows pairs outputs"]) -> Estimate:
        """β and the covariance of its errors."""
        pairs = self.regression.pairs
        if pairs.sampled == 0:
            beta = self.regression.fit(y)
            return beta, self.regression.covariance(
                self.regression.inverse, y * 0, self.full_covariance
            )
        fitted = torch.ones(len(y), y.shape[2], dtype=torch.bool, device=y.device)
        if y.shape[2] == 2:
            # Of the probabilities of two classes, one is fitted.
            fitted[:, 1] = y.sum(2).abs().amax(1) > _MIRRORED * y.abs().amax((1, 2))

        def of_outputs(games: Tensor) -> Tensor:
            every = games.new_empty(*fitted.shape, *games.shape[1:])
            every[fitted] = games
            every[~fitted] = -every[~fitted[:, -1], 0]
            return every

        # Outputs of a row are games like those of other rows.
        games = y.mT[fitted][..., None]
        step = max(1, MOST_NUMBERS // (len(pairs.mask) * len(self.fitted[0])))
        parts = [self._of(some) for some in games.split(step)]
        beta, change = (of_outputs(torch.cat(some)) for some in zip(*parts, strict=True))
        if self.full_covariance:
            return beta[..., 0].mT, torch.einsum("bonp,bqnp->bnoq", change, change)
        return beta[..., 0].mT, change.square().sum(3).mT

    def _of(
        self, y: Float[Tensor, "games pairs 1"]
    ) -> tuple[Float[Tensor, "games players 1"], Float[Tensor, "games players pairs"]]:
        """Values less equal shares, and what leaving each pair out would change of them."""
        some, regression = self.fitted
        best = self._best(y)
        games = OddGames(best.relevance)
        ridge = _Ridge(regression, games, best.penalty)
        coefficients = ridge.coefficients(y[:, some])
        pairs = self.regression.pairs
        sections = games.covariance(_signs(pairs), ridge.z)
        rest = y - sections @ coefficients
        additive = self.regression.fit(rest)
        shapley = games.shapley(ridge.z).mT
        errors = self.regression.loo_residuals(rest, additive)
        errors[:, some] = torch.where(
            self.regression.leverage_one[some], torch.nan, coefficients / ridge.weight
        )
        # Errors of pairs that are left out do not show that relevances and penalties were chosen by
        # them. The variance is widened by the share of the pairs that the fit takes as its own.
        errors *= (pairs.missing[:, None] * (1 + ridge.freedom / len(pairs.mask))).sqrt()
        # A pair's part in every value, times its error.
        to_values = shapley - self.regression.fit(sections)
        u = pairs.mask.double()
        u = pairs.weight[:, None] * (u - u.mean(1, keepdim=True))
        change = (self.regression.inverse @ u.T).repeat(len(y), 1, 1)
        change[..., some] += ridge.coefficients(to_values.mT).mT
        return additive + shapley @ coefficients, change * errors.mT

    @cached_property
    def _equal(self) -> "_Ridge":
        """By the choosing pairs, with equal relevances, for every penalty."""
        _, regression = self.choosing
        penalties = _PENALTIES.to(regression.pairs.mask.device)
        games = OddGames(
            relevances(penalties.new_ones(len(penalties), regression.pairs.mask.shape[1]))
        )
        return _Ridge(regression, games, penalties)

    def _best(self, y: Float[Tensor, "games pairs 1"]) -> _Tried:
        """With the relevances that predict the choosing pairs best."""
        some, regression = self.choosing
        y, every = y[:, some], torch.arange(len(y), device=y.device)
        equal = self._equal.tried(y[..., 0].T)
        best = equal.at((equal.loss.argmin(0), every))

        def attempt(weights: Float[Tensor, "some players"], games: Int64[Tensor, " some"]) -> None:
            ridge = _Ridge(regression, OddGames(relevances(weights)), best.penalty[games])
            best.update(games, ridge.tried(y[games]).at((slice(None), 0)))

        attempt(_shares(regression.fit(y)[..., 0].abs()) + _LEAST_COEFFICIENT, every)
        for _ in range(_ROUNDS):
            before = best.loss[every]
            games = OddGames(best.relevance[every])
            found = games.involvement(self._equal.z, best.coefficients[every][..., None])
            attempt(_shares(found) + _LEAST_INVOLVEMENT, every)
            every = every[best.loss[every] < before]
            if len(every) == 0:
                break
        return best


class _Ridge:
    """Penalised least squares on interactions, after additive games.

    Interactions are spanned by sections of their covariance at the pairs, K; rows and columns are
    multiplied by √w, like y. Q is the projection on what additive games leave, and

        P = Q C⁻¹ Q = C⁻¹ - (I - Q) / λ,    C = Q K Q + λ I.

    P y are the coefficients of the sections and, over the diagonal of P, the errors of pairs in the
    fit to all others. Where λ rises, P falls by P²: this is their slope.

    Args:
        regression: on additive games, of these pairs.
        games: random games.
        penalty: of each of them, relative to the mean variance of the interactions of a pair.
    """

    def __init__(
        self, regression: Regression, games: OddGames, penalty: Float[Tensor, " games"]
    ) -> None:
        self.regression, self.games, self.penalty = regression, games, penalty[:, None]
        self.z, self.root = _signs(regression.pairs), regression.pairs.weight.sqrt()[:, None]
        u = regression.pairs.mask.double()
        self.additive = self.root * (u - u.mean(1, keepdim=True))
        self.to_beta = regression.inverse @ self.additive.T
        covariance = games.covariance(self.z, self.z) * (self.root * self.root.T)
        least = _ROUNDING * covariance.diagonal(dim1=1, dim2=2).mean(1, keepdim=True)
        # What Q takes from the left, with half of what it takes from both sides; and the same from
        # the right.
        taken = covariance @ self.to_beta.T
        taken -= self.additive @ (self.to_beta @ taken) / 2
        every = self.additive.expand_as(taken)
        left, right = torch.cat((every, taken), 2), torch.cat((taken, every), 2)
        system = covariance.baddbmm_(left, right.mT, alpha=-1)
        diagonal = system.diagonal(dim1=1, dim2=2)
        self.size = self.penalty * diagonal.mean(1, keepdim=True).maximum(least)
        diagonal += self.size
        self.inverse = torch.cholesky_inverse(torch.linalg.cholesky(system))
        own = self.inverse.diagonal(dim1=1, dim2=2) - regression.leverage / self.size
        self.diagonal = own.clamp(min=_ROUNDING / self.size)[..., None]

    @property
    def weight(self) -> Float[Tensor, "games m 1"]:
        """Of a pair's error, when it is left out, in its coefficient."""
        return self.root.square() * self.diagonal

    @property
    def freedom(self) -> Float[Tensor, "games 1 1"]:
        """Of the pairs, how many the fit takes as its own."""
        return (1 - self.size[..., None] * self.diagonal).sum(1, keepdim=True)

    def coefficients(self, y: Float[Tensor, "... m columns"]) -> Float[Tensor, "games m columns"]:
        """Of the sections of the covariance."""
        return self.root * self._dual(y)

    def tried(self, y: Float[Tensor, "... m columns"]) -> _Tried:
        """Of columns of y, which are games with the same relevances, `[games, columns]`."""
        dual = self._dual(y)
        errors = dual / self.diagonal
        loss = errors.square().mean(1)
        square = self.inverse.square().sum(2) - self.regression.leverage / self.size.square()
        slope = (errors * square[..., None] - self.inverse @ dual) / self.diagonal
        slope *= self.size[..., None]
        # A Gauss-Newton step of the logarithm.
        step = -(errors * slope).sum(1) / slope.square().sum(1).clamp(min=_SMALLEST)
        penalty = self.penalty * step.clamp(-_STEP, _STEP).exp()
        penalty = penalty.clamp(float(_PENALTIES[0]), float(_PENALTIES[-1]))
        relevance = self.games.relevance[:, None].expand(-1, loss.shape[1], -1)
        return _Tried(loss, relevance, penalty, (self.root * dual).mT)

    def _dual(self, y: Float[Tensor, "... m columns"]) -> Float[Tensor, "games m columns"]:
        """P y."""
        y = self.root * y
        return self.inverse @ (y - self.additive @ (self.to_beta @ y))


def _signs(pairs: Pairs) -> Float[Tensor, "pairs players"]:
    return 2 * pairs.mask.double() - 1


def _shares(sizes: Float[Tensor, "games players"]) -> Float[Tensor, "games players"]:
    """Relative to the largest one."""
    return sizes / sizes.amax(1, keepdim=True).clamp(min=_SMALLEST)
