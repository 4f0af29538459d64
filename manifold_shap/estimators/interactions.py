"""Computes interactions of all pairs of players, by enumeration or by least squares.

The Shapley interaction index of players i and j (Grabisch & Roubens 1999) is the mean of what they
add together beyond what each adds alone,

    I_ij = Σ_T |T|! (n-|T|-2)! / (n-1)! [v(T ∪ ij) - v(T ∪ i) - v(T ∪ j) + v(T)],

over coalitions T of the other players: first a size of T, each with equal probability, then a
uniform subset of that size. The 2-additive values k-SII (Bordt & von Luxburg 2023) have the same
pairs and, for each player, φ_i - Σ_j I_ij / 2.

Where coalitions are drawn, half the difference of a coalition and its complement carries Shapley
values, and their mean carries interactions: two regressions, `regression` and `pairwise`, on the
same values. Single players and their complements are always evaluated: by them the sums of each
player's interactions are known. Rows have coalitions of their own, the same but for the names of
the players.
"""

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
from manifold_shap.estimators.pairs import draw_pairs
from manifold_shap.estimators.pairwise import MOST_PLAYERS, PairwiseRegression, equal_shares
from manifold_shap.estimators.regression import Regression
from manifold_shap.estimators.runner import Asking, Result, explain
from manifold_shap.explanation import Explanation
from manifold_shap.interactions import INDICES, Interactions
from manifold_shap.posets import shapley_weights
from manifold_shap.values.selected import Outputs

# How often a sampled value function is evaluated at single players, for the error of its draws.
REPEATS = 4


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
    interactions are a weighted least-squares fit to the even part of the game (see
    `estimators.pairwise`), and Shapley values that of `kernel_shapley`. Of games that are sums of
    terms of at most three players each, interactions are exact. Of others, interactions (Shapley
    values not) have a bias of order 1/evaluations: 0 to .3 standard deviations, for games of 7 and
    8 players with 98 to 200 evaluations.

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
        outputs: those to explain: names or positions, or how many of those with the largest mean
            predictions; by default all. See `ValueFunction.select`.
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
