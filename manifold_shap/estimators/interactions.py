"""Computes interactions of all pairs of players, by enumeration or by least squares.

The Shapley interaction index of players i and j (Grabisch & Roubens 1999) is the mean of what they
add together beyond what each adds alone,

    I_ij = Σ_T |T|! (n-|T|-2)! / (n-1)! [v(T ∪ ij) - v(T ∪ i) - v(T ∪ j) + v(T)],

over coalitions T of the other players: first a size of T, each with equal probability, then a
uniform subset of that size. The 2-additive values k-SII (Bordt & von Luxburg 2023) have the same
pairs and, for each player, φ_i - Σ_j I_ij / 2.

Where coalitions are drawn, half the difference of a coalition and its complement carries Shapley
values (see `regression`), and their mean carries interactions: two regressions on the same values.
Single players and their complements are always evaluated: by them the sums of each player's
interactions are known. Rows have coalitions of their own, the same but for the names of the
players.

The second one is the pairwise regression. The even part of v,

    c(S) = v(N) + v(∅) - v(S) - v(N∖S),

holds all that there is of interactions of pairs: it is the same for S and N∖S, and the interactions
of the other part, as of a sum of contributions, are zero. If v is a sum of terms of one, two or
three players each, then c(S) is exactly the sum of I_ij over i in S and j in N∖S. For any v, two
facts make I the weighted least-squares fit of these sums.

For single players they are exact: Σ_j I_ij = c({i}) = r_i. With equal shares of these,

    J_ij = (r_i + r_j) / (n-2) - Σ r / ((n-1)(n-2)),

what is left, B = I - J, has rows that sum to zero. Let U be the symmetric matrix that is 1 where S
parts two players and 0 elsewhere, less equal shares of its rows' sums. Then ⟨U, B⟩, over pairs, is
the sum of B over i in S and j in N∖S, and with y = c(S) - ⟨U, J⟩ likewise

    Σ w U ⟨U, B⟩ = Σ w U y,    w = n (n-1)(n-2) / (4 C(n,s) s (s-1) (n-s) (n-s-1)),  s = |S|,

over all coalitions of sizes 2 to n-2: w U has the weights of I_ij there. These matrices B, of zero
diagonal and rows that sum to zero, are one irreducible representation of the permutations of
players, on which Σ w U ⟨U, ·⟩ is a multiple of the identity; w makes it the identity. All of this
is the regression of KernelSHAP one degree up, and as there w |U|² C(n,s) is the same for all s:
leverage scores draw |S| uniformly (Musco & Witter 2025). Fumagalli et al. (2024) have a regression
for the index, too, on all coalitions rather than on pairs of them.

Over all coalitions of one size, U sums to zero: what y has as a function of |S| alone, such as the
jumps of a learned v at N and ∅, is nothing to B, but noise to a fit of drawn coalitions. It has an
intercept for each size, shared with the complements' size, next to B; that is, y and U are centred
among the coalitions of each size.
"""

from collections.abc import Iterator
from math import nan
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from manifold_shap import _random
from manifold_shap._messages import check_choice
from manifold_shap.coalitions import all_coalitions
from manifold_shap.estimators.evaluator import Evaluator, diagonal
from manifold_shap.estimators.exact import MAX_PLAYERS, enumerated
from manifold_shap.estimators.kernel import (
    of_players,
    players_by_name,
    values_of_pairs,
)
from manifold_shap.estimators.regression import Pairs, Regression, draw_pairs
from manifold_shap.estimators.runner import Asking, Result, explain
from manifold_shap.explanation import Explanation
from manifold_shap.interactions import INDICES, Interactions
from manifold_shap.posets import shapley_weights
from manifold_shap.values.selected import Outputs

# How often a sampled value function is evaluated at single players, for the error of its draws.
REPEATS = 4
# The equations are factorised, as a matrix of all pairs of players by all pairs.
MOST_PLAYERS = 45
# Numbers at a time: so few stay in a processor's cache.
_MOST_NUMBERS = 2**19
_SMALLEST = 1e-10


class Found(NamedTuple):
    """Shapley values, and first-order terms followed by pairs.

    Attributes:
        shapley: Shapley values and their errors.
        terms: n first-order terms, then the pairs (0, 1), (0, 2), ..., (1, 2), ...; double
            precision, `[instances, terms, outputs]`.
        variance: of their errors, same shape; NaN where not known.
    """

    shapley: Result
    terms: Tensor
    variance: Tensor


def shapley_interactions(
    value: Any,
    x: Any,
    *,
    index: str = "SII",
    evaluations: int | None = None,
    outputs: Outputs = None,
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool | None = None,
) -> Interactions:
    """Shapley interactions of all pairs of players and all outputs, beside Shapley values.

    Up to 16 players all coalitions are enumerated. Beyond, or where `evaluations` do not allow it,
    coalitions are drawn together with their complements, and each serves all pairs of players:
    interactions are a weighted least-squares fit to the even part of the game, v(N) + v(∅) - v(S) -
    v(N∖S), and Shapley values that of `kernel_shapley`. Of games that are sums of terms of at most
    three players each, interactions are exact. Of others, interactions (Shapley values not) have a
    bias of order 1/evaluations, a part of their standard error.

        >>> both = lambda x, mask: mask.all(-1, keepdim=True).float()  # Of two players, an AND.
        >>> shapley_interactions(both, torch.zeros(1, 2)).values[0, ..., 0]
        tensor([[0.5000, 1.0000],
                [1.0000, 0.5000]])

    Args:
        value: a `ValueFunction`, or a callable; see `as_value_function`.
        x: rows to explain, `[instances, *event]`. Each has coalitions of its own.
        index: "SII", the Shapley interaction index beside Shapley values; or "k-SII", whose
            first-order terms and pairs sum to the prediction minus the base. Pairs are the same.
        evaluations: values of v per row; by default all coalitions of up to 16 players, those of a
            sampled value function twice, and 4 n² for n > 16 players. With 2^n - 2 or more all are
            enumerated, those of a sampled value function as often as they allow, each time with new
            draws; with fewer they are drawn, of at least 7 players, which takes 2 n² or, of a
            sampled value function, 2 n² + 6 n.
        outputs: those to explain: names or positions, one or a list; by default all. See
            `ValueFunction.select`.
        seed: of coalitions and draws. Same seed, same answer.
        batch_size: model rows per call; changes memory and time, not the numbers.
        progress: show a bar on work of more than two seconds; by default where a person looks.

    Raises:
        ValueError: another index; fewer than two players, which have no interactions, or more than
            45; too few `evaluations`.
    """
    check_choice("index", index, INDICES)
    found: list[Found] = []  # Of the rows with 1, 2, ... players.

    def estimator(game: Evaluator, **settings: Any) -> Asking[Result]:
        found.append((yield from pairwise(game, index, **settings)))
        return found[-1].shapley

    shapley = explain(
        value,
        x,
        estimator,
        evaluations=evaluations,
        outputs=outputs,
        seed=seed,
        batch_size=batch_size,
        progress=progress,
    )
    order = shapley.counts.argsort(stable=True).argsort()
    values = torch.cat([_squares(each.terms, shapley) for each in found])
    errors = torch.cat([_squares(each.variance.clamp(min=0).sqrt(), shapley) for each in found])
    return Interactions(values[order], errors[order], shapley, index)


def pairwise(game: Evaluator, index: str, evaluations: int | None, seed: int) -> Asking[Found]:
    """The estimator of `shapley_interactions`."""
    players = len(game.players)
    if evaluations is None and game.sampled and players <= MAX_PLAYERS:
        # Twice each, for the errors that draws leave.
        evaluations = 2 * (2**players - 2)
    if players <= MAX_PLAYERS and (evaluations is None or evaluations >= 2**players - 2):
        return (yield from _enumerated(game, index, evaluations, seed))
    if players > MOST_PLAYERS:
        raise ValueError(
            f"Expected at most {MOST_PLAYERS} players for interactions of all pairs, which a "
            f"regression finds together, but got {players}; group features into fewer players by "
            "`value.grouped`."
        )
    if evaluations is None:
        evaluations = 4 * players**2
    least = 2 * players**2 + (2 * players * (REPEATS - 1) if game.sampled else 0)
    if players <= MAX_PLAYERS:
        least = min(least, 2**players - 2)
    if evaluations < least:
        raise ValueError(
            f"Expected `evaluations` of at least {least} for the interactions of {players} players "
            f"but got {evaluations}; fewer do not determine so many of them. Group features into "
            "fewer players by `value.grouped`, or give more."
        )
    return (yield from _drawn(game, index, evaluations, seed))


def _enumerated(game: Evaluator, index: str, evaluations: int | None, seed: int) -> Asking[Found]:
    """By all coalitions."""
    players = len(game.players)
    masks = all_coalitions(players)
    own, pairs = shapley_weights(masks), pair_weights(masks)
    first = own - pairs @ incidence(players) / 2 if index == "k-SII" else own
    weights = torch.cat((own, first, pairs), dim=1)
    sums = yield from enumerated(game, masks, weights, evaluations, seed)
    terms, variance = sums.phi[:, players:], sums.variance
    shapley = sums._replace(
        phi=sums.phi[:, :players], variance=None if variance is None else variance[:, :players]
    )
    if variance is None:
        unknown = nan if game.sampled and players > 1 else 0.0
        return Found(shapley, terms, torch.full_like(terms, unknown))
    return Found(shapley, terms, diagonal(variance)[:, players:])


def _drawn(game: Evaluator, index: str, evaluations: int, seed: int) -> Asking[Found]:
    """By coalitions of two players or more that are drawn, single players, and complements."""
    players = len(game.players)
    repeats = REPEATS if game.sampled else 1
    probability = torch.ones(players - 1, dtype=torch.float64)
    probability[[0, -1]] = 0
    # Errors over drawn pairs miss the noise of values at sizes that are taken as a whole.
    whole = range(2, 2 if game.sampled else (players + 1) // 2)
    generator = torch.Generator().manual_seed(seed)
    count = evaluations // 2 - repeats * players
    drawn = draw_pairs(probability, count, generator, whole).to(game.device)
    alone = torch.eye(players, dtype=torch.bool, device=game.device)
    regression = Regression(drawn.after(alone))
    pairwise = PairwiseRegression(drawn, torch.promote_types(game.prediction.dtype, torch.float32))
    mask = torch.cat((alone.repeat(repeats, 1), drawn.mask))
    keys = game.keys(seed)[:, None]
    if game.sampled:  # A coalition and its complement share their draws.
        keys = _random.fold(keys, torch.arange(len(mask)))
    keys, named = keys.expand(-1, len(mask)), players_by_name(game, seed)
    one, other = torch.triu_indices(players, players, 1)
    parts: list[tuple[Tensor, ...]] = []
    for rows in game.blocks(2 * len(mask)):
        evaluated = regression.pairs._replace(mask=mask)
        first, second = yield from values_of_pairs(game, evaluated, rows, named[rows], keys[rows])
        base, prediction = (end.double()[:, None] for end in game.ends(rows))
        change, even = (first - second) / 2, base + prediction - first - second
        noise = _noise(change, even, players, repeats)
        change, even = (_means(each, players, repeats) for each in (change, even))
        phi, phi_variance, both = _first_order(
            regression, change, noise, prediction - base, game.full_covariance
        )
        terms, variance = phi, diagonal(phi_variance)
        if index == "k-SII":
            terms, variance = phi - even[:, :players] / 2, both
        name = named[rows].argsort(1)
        by_pair = (
            of_players(of_players(each, name).transpose(1, 2), name)[:, one, other]
            for each in _pairs(pairwise, even, noise.even)
        )
        by_player = (of_players(each, name) for each in (phi, phi_variance, terms, variance))
        phi, phi_variance, terms, variance = by_player
        terms, variance = (
            torch.cat(each, 1) for each in zip((terms, variance), by_pair, strict=True)
        )
        parts.append((phi, phi_variance, terms, variance))
    phi, phi_variance, terms, variance = (torch.cat(part) for part in zip(*parts, strict=True))
    made_by = {"estimator": "pairwise regression", "pairs": len(drawn.mask), "seed": seed}
    freedom = torch.full((len(game.x),), float(drawn.sampled - 1))
    return Found(Result(phi, made_by, phi_variance, freedom), terms, variance)


def pair_weights(
    masks: Bool[Tensor, "coalitions players"],
) -> Float[Tensor, "coalitions pairs"]:
    """Weight of v(S) in the interaction of players i and j, for the pairs (0, 1), (0, 2), ...

    With k of the others in S it is k!(n-k-2)!/(n-1)!, and minus that where S has one of the two.
    """
    players = masks.shape[1]
    first, second = torch.triu_indices(players, players, 1, device=masks.device)
    size = torch.arange(max(1, players - 1), dtype=torch.float64, device=masks.device)
    total = torch.tensor(float(players), dtype=torch.float64, device=masks.device)
    weight = ((size + 1).lgamma() + (total - size - 1).lgamma() - total.lgamma()).exp()
    both = masks[:, first].long() + masks[:, second].long()
    return weight[masks.sum(1, keepdim=True) - both] * (1 - 2 * (both % 2))


def incidence(players: int) -> Float[Tensor, "pairs players"]:
    """1 where a player is in a pair."""
    pairs = torch.triu_indices(players, players, 1).T
    return torch.zeros(len(pairs), players, dtype=torch.float64).scatter_(1, pairs, 1.0)


def _squares(terms: Tensor, shapley: Explanation) -> Tensor:
    """Terms as symmetric matrices of all players of an explanation, and in its precision."""
    players = int((8 * terms.shape[1] + 1) ** 0.5 - 1) // 2
    place = torch.arange(players).diag()
    first, second = torch.triu_indices(players, players, 1)
    place[first, second] = place[second, first] = players + torch.arange(len(first))
    # Last come players that these rows lack, or constant columns, which do not interact.
    more, fill = shapley.phi.shape[1] - players, nan if shapley.players.by_row else 0.0
    square = terms.to("cpu", shapley.phi.dtype)[:, place]
    return pad(square, (0, 0, 0, more, 0, more), value=fill)


class PairwiseRegression:
    """Least squares of even parts, for any number of games on the same coalitions.

    Even parts `[games, pairs]` and matrices `[games, players, players]` are in double precision.

    Args:
        pairs: coalitions of sizes 2 to n-2 and their complements, with the weights of KernelSHAP.
        dtype: precision of products with all pairs of players, such as that of the game's values.

    Raises:
        ValueError: the pairs do not determine all interactions.
    """

    def __init__(self, pairs: Pairs, dtype: torch.dtype = torch.float64) -> None:
        self.pairs, self._players = pairs, pairs.mask.shape[1]
        # By player, so that products of two are quickly made.
        self._sign = 2 * pairs.mask.T.to(dtype) - 1
        self._size = pairs.mask.sum(1).double()
        self._pair = torch.triu_indices(self._players, self._players, 1, device=pairs.mask.device)
        n, s = self._players, self._size
        self._weight = pairs.weight * (n - 1) * (n - 2) / (4 * (s - 1) * (n - s - 1))
        # Coalitions of one size, or of the complements' size, have equal weights.
        smaller = torch.minimum(s, n - s)
        _, self._kind, counts = smaller.unique(return_inverse=True, return_counts=True)
        self._counts = counts.double()
        # Sums of ±1 for pairs of players over the coalitions of each size.
        total = self._counts.new_zeros(len(counts), self._pair.shape[1])
        for part, products in self._products():
            total.index_add_(0, self._kind[part], products.T.double())
        # U of their means.
        means = self._matrix(total / self._counts[:, None])
        self._center = self._upper(without_shares(means)) / -2
        # What an even part weighs in its own fitted value: in that of its size, besides.
        self._in_size = 1 / self._counts[self._kind]
        self._inverse = self._factorise()

    def targets(
        self, c: Float[Tensor, "games pairs"], alone: Float[Tensor, "games players"]
    ) -> Float[Tensor, "games pairs"]:
        """y: what is left of c where each player's part is shared equally: c(S) - ⟨U, J⟩."""
        n, s = self._players, self._size
        total = alone.sum(1, keepdim=True)
        own = (_times(alone, self._sign) + total) / 2
        parted = ((n - s) * own + s * (total - own)) / (n - 2)
        return c - parted + s * (n - s) * total / ((n - 1) * (n - 2))

    def fit(
        self, y: Float[Tensor, "games pairs"]
    ) -> tuple[Float[Tensor, "games players players"], Float[Tensor, "games pairs"]]:
        """B, and the residuals of y, less their mean for each size."""
        y = y - self._means(y)[:, self._kind]
        fitted = self._matrix(self._upper(self.moment(y)) @ self._inverse)
        return fitted, y - self.fitted(fitted)

    def fitted(self, b: Float[Tensor, "games players players"]) -> Float[Tensor, "games pairs"]:
        """⟨U, B⟩, less its mean for each size."""
        own = self._upper(b) / -2
        found = torch.cat([_times(own, products) for _, products in self._products()], dim=1)
        return found - self._means(found)[:, self._kind]

    def moment(self, y: Float[Tensor, "games pairs"]) -> Float[Tensor, "games players players"]:
        """Σ w U y."""
        weight, total = self._weight * y, y.new_zeros(len(y), self._pair.shape[1])
        for part, products in self._products():
            total += _times(weight[:, part], products.T)
        return without_shares(self._matrix(total)) / -2

    def variance(
        self, errors: Float[Tensor, "games pairs"]
    ) -> Float[Tensor, "games players players"]:
        """Of B, by the spread of drawn pairs, from the residuals of the fit.

        Those of a fit to all others are larger by 1 / (1 - leverage): this is the jackknife, whose
        variances are too large, if anything.
        """
        count = self.pairs.sampled
        drawn = torch.where(self.pairs.drawn[:, 0], count / (count - 1), 0.0)
        left = errors.square() * drawn
        total = left.new_zeros(len(left), len(self._inverse))
        for part, u, w in self._parts():
            moved = u @ self._inverse
            others = (1 - w * (moved * u).sum(1) - self._in_size[part]).clamp(min=_SMALLEST)
            total += left[:, part] @ ((w / others)[:, None] * moved).square()
        return self._matrix(total)

    def _products(self) -> Iterator[tuple[slice, Float[Tensor, "half some"]]]:
        """Numbers of some coalitions, with ±1 for pairs of players; they last until the next."""
        n = self._players
        step = max(1, _MOST_NUMBERS // self._pair.shape[1])
        room = self._sign.new_empty(self._pair.shape[1], min(step, self._sign.shape[1]))
        for start in range(0, self._sign.shape[1], step):
            part = slice(start, start + step)
            z = self._sign[:, part]
            products = room[:, : z.shape[1]]
            for player, others in enumerate(products.split(list(range(n - 1, 0, -1)))):
                torch.mul(z[player], z[player + 1 :], out=others)
            yield part, products

    def _upper(self, matrix: Float[Tensor, "games players players"]) -> Float[Tensor, "games half"]:
        return matrix[:, self._pair[0], self._pair[1]]

    def _matrix(self, upper: Float[Tensor, "games half"]) -> Float[Tensor, "games players players"]:
        matrix = upper.new_zeros(len(upper), self._players, self._players)
        matrix[:, self._pair[0], self._pair[1]] = upper
        return matrix + matrix.mT

    def _factorise(self) -> Float[Tensor, "unknowns unknowns"]:
        """The inverse of the left side."""
        n = self._players
        # In the space of row sums, which no U enters, anything that is invertible will do.
        of_pairs = incidence(n).to(self._sign.device)
        gram = of_pairs @ of_pairs.T / n
        for _, u, w in self._parts():
            gram += (w[:, None] * u).T @ u
        root, failed = torch.linalg.cholesky_ex(gram)
        if int(failed):
            raise ValueError(
                f"Expected coalitions that determine the interactions of {n} players but the "
                f"{len(self.pairs.mask)} pairs drawn do not; give more `evaluations`, or another "
                "`seed`."
            )
        return torch.cholesky_inverse(root)

    def _parts(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Numbers of some coalitions, with their U, centred by size, of pairs of players and w."""
        step = max(1, _MOST_NUMBERS // self._players**2)
        for start in range(0, self._sign.shape[1], step):
            part = slice(start, start + step)
            z = self._sign[:, part].T.double()
            u = self._upper(without_shares(z[:, :, None] * z[:, None, :])) / -2
            yield part, u - self._center[self._kind[part]], self._weight[part]

    def _means(self, y: Float[Tensor, "games pairs"]) -> Float[Tensor, "games sizes"]:
        total = y.new_zeros(len(y), len(self._counts))
        return total.index_add_(1, self._kind, y) / self._counts


class Noise(NamedTuple):
    """Variances of means that draws leave for single players, `[rows, players, outputs]`.

    Attributes:
        change: of half the difference of a coalition and its complement.
        even: of the even part.
        both: covariance of the two.
    """

    change: Tensor
    even: Tensor
    both: Tensor


def _means(
    each: Float[Tensor, "rows evaluated outputs"], players: int, repeats: int
) -> Float[Tensor, "rows pairs outputs"]:
    """Of the repeats of single players, then what drawn pairs have."""
    alone, drawn = each.tensor_split([repeats * players], dim=1)
    return torch.cat((alone.unflatten(1, (repeats, -1)).mean(1), drawn), dim=1)


def _noise(change: Tensor, even: Tensor, players: int, repeats: int) -> Noise:
    """What draws leave in the means of single players; nothing where there are no draws."""
    alone = (part[:, : repeats * players].unflatten(1, (repeats, -1)) for part in (change, even))
    a, b = (each - each.mean(1, keepdim=True) for each in alone)
    scale = max(1, repeats * (repeats - 1))
    return Noise(*((one * other).sum(1) / scale for one, other in ((a, a), (b, b), (a, b))))


def _first_order(
    regression: Regression,
    change: Float[Tensor, "rows pairs outputs"],
    noise: Noise,
    total: Float[Tensor, "rows 1 outputs"],
    full_covariance: bool,
) -> tuple[Float[Tensor, "rows players outputs"], Tensor, Tensor]:
    """Shapley values by KernelSHAP's regression, and their variance.

    And the variance of these less half of the sums of each player's interactions, which have an
    error from the draws of a sampled value function only.
    """
    players = noise.change.shape[1]
    share = regression.pairs.mask.sum(1).double() / players - 0.5
    y = change - share[:, None] * total
    errors = regression.loo_residuals(y, regression.fit(y))
    variance = regression.covariance(regression.inverse, errors, full_covariance)
    u = torch.eye(players, dtype=torch.float64, device=y.device) - 1 / players
    moved = (regression.pairs.weight[:players, None] * u) @ regression.inverse
    added = torch.einsum("pn,bpo->bno", moved.square(), noise.change)
    variance = variance + (added.diag_embed() if full_covariance else added)
    both = diagonal(variance) + noise.even / 4 - moved.diagonal()[:, None] * noise.both
    return regression.unbiased(y, errors) + total / players, variance, both


def _pairs(
    pairwise: PairwiseRegression,
    even: Float[Tensor, "rows pairs outputs"],
    noise: Float[Tensor, "rows players outputs"],
) -> tuple[
    Float[Tensor, "rows players players outputs"], Float[Tensor, "rows players players outputs"]
]:
    """Interactions by the pairwise regression, and their variance."""
    rows, players, outputs = noise.shape
    games = even.mT.flatten(0, 1)
    alone = games[:, :players].contiguous()
    fitted, residuals = pairwise.fit(pairwise.targets(games[:, players:], alone))
    variance = pairwise.variance(residuals) + _of_shares(noise.mT.flatten(0, 1))

    def by_row(matrix: Tensor) -> Tensor:
        return matrix.unflatten(0, (rows, outputs)).movedim(1, 3)

    return by_row(fitted + equal_shares(alone)), by_row(variance)


def _of_shares(
    noise: Float[Tensor, "games players"],
) -> Float[Tensor, "games players players"]:
    """Variance of `equal_shares`, from that of the even parts of single players."""
    n = noise.shape[1]
    own = noise[:, :, None] + noise[:, None, :]
    others = noise.sum(1)[:, None, None] - own
    return own / (n - 1) ** 2 + others / ((n - 1) * (n - 2)) ** 2


def equal_shares(
    alone: Float[Tensor, "games players"],
) -> Float[Tensor, "games players players"]:
    """J, whose rows sum to the even parts of single players; zero on the diagonal."""
    n = alone.shape[1]
    total = alone.sum(1)[:, None, None]
    shares = (alone[:, :, None] + alone[:, None, :]) / (n - 2) - total / ((n - 1) * (n - 2))
    return shares * _others(shares)


def without_shares(
    matrix: Float[Tensor, "games players players"],
) -> Float[Tensor, "games players players"]:
    """A symmetric matrix without its diagonal and without equal shares of its rows' sums."""
    own = matrix * _others(matrix)
    return own - equal_shares(own.sum(2))


def _others(like: Float[Tensor, "games players players"]) -> Float[Tensor, "players players"]:
    return 1 - torch.eye(like.shape[1], dtype=like.dtype, device=like.device)


def _times(
    left: Float[Tensor, "games some"], right: Float[Tensor, "some more"]
) -> Float[Tensor, "games more"]:
    """In the precision of the right side, given in double precision."""
    return (left.to(right.dtype) @ right).double()
