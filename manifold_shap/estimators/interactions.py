"""Computes interactions of all pairs of players, by enumeration or by least squares.

The Shapley interaction index of players i and j (Grabisch & Roubens 1999) is the mean of what they
add together beyond what each adds alone,

    I_ij = Σ_T |T|! (n-|T|-2)! / (n-1)! [v(T ∪ ij) - v(T ∪ i) - v(T ∪ j) + v(T)],

over coalitions T of the other players: first a size of T, each with equal probability, then a
uniform subset of that size. The 2-additive values k-SII (Bordt & von Luxburg 2023) have the same
pairs and, for each player, φ_i - Σ_j I_ij / 2.

Where coalitions are drawn, half the difference of a coalition and its complement carries Shapley
values, and their mean carries interactions: two regressions, `regression` and `parting`, on the
same values. Single players and their complements are always evaluated: by them the sums of each
player's interactions are known. Rows have coalitions of their own, the same but for the names of
the players.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad
from tqdm import tqdm

from manifold_shap import _random
from manifold_shap._arrays import row_labels
from manifold_shap._checks import check_seed, check_whole
from manifold_shap._messages import check_choice
from manifold_shap.coalitions import all_coalitions
from manifold_shap.estimators.evaluator import Evaluator, diagonal
from manifold_shap.estimators.exact import MAX_PLAYERS, enumerated_sums
from manifold_shap.estimators.kernel import (
    MOST_NUMBERS,
    of_players,
    players_by_name,
    values_of_pairs,
)
from manifold_shap.estimators.pairs import draw_pairs
from manifold_shap.estimators.parting import MOST_PLAYERS, Parting, equal_shares
from manifold_shap.estimators.ragged import joined_rows, rows_by_count
from manifold_shap.estimators.regression import Regression
from manifold_shap.explanation import Explanation
from manifold_shap.interactions import INDICES, Interactions
from manifold_shap.posets import shapley_weights
from manifold_shap.values.selected import Outputs
from manifold_shap.values.wrapped import as_value_function

# How often a sampled value function is evaluated at single players, for the error of its draws.
REPEATS = 4


class Found(NamedTuple):
    """What an estimator found: Shapley values, and first-order terms followed by pairs.

    Attributes:
        shapley: the explanation.
        terms: n first-order terms, then the pairs (0, 1), (0, 2), ..., (1, 2), ...; double
            precision, `[instances, terms, outputs]`.
        variance: of their errors, same shape; NaN where not known.
    """

    shapley: Explanation
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
    interactions are a weighted least-squares fit to what a coalition and its complement lose by
    parting (see `estimators.parting`), and Shapley values that of `kernel_shapley`. Of games that
    are sums of terms of at most three players each, interactions are exact. Of others, interactions
    (Shapley values not) have a bias of order 1/evaluations: 0 to .3 standard deviations, for games
    of 7 and 8 players with 98 to 200 evaluations.

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
    seed = check_seed(seed)
    if evaluations is not None:
        evaluations = check_whole("evaluations", evaluations)
    value = as_value_function(value, x).select(outputs, x)
    rows = value.rows(x)
    groups = rows_by_count(value, rows)

    def of_rows(some: Any) -> Interactions:
        game = Evaluator(value, some, batch_size, progress)
        return _labelled(_of_game(game, index, evaluations, seed), index)

    if not value.players.by_row:
        return of_rows(x)
    parts = [of_rows(rows[group]) for group in groups]
    order, players = torch.cat(groups).argsort(), len(value.players)
    shapley = joined_rows([part.shapley for part in parts], order, value.players)

    def joined(name: str) -> Tensor:
        padded = []
        for part in parts:
            lacking = players - len(part.players)
            own = vars(part)[name]
            padded.append(pad(own, (0, 0, 0, lacking, 0, lacking), value=torch.nan))
        return torch.cat(padded)[order]

    return Interactions(
        joined("values"), joined("standard_error"), shapley.with_labels(row_labels(x)), index
    )


def _of_game(game: Evaluator, index: str, evaluations: int | None, seed: int) -> Found:
    players = len(game.players)
    if evaluations is None and game.sampled and players <= MAX_PLAYERS:
        # Twice each, for the errors that draws leave.
        evaluations = 2 * (2**players - 2)
    if players <= MAX_PLAYERS and (evaluations is None or evaluations >= 2**players - 2):
        return _enumerated(game, index, evaluations, seed)
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
    return _drawn(game, index, evaluations, seed)


def _drawn(game: Evaluator, index: str, evaluations: int, seed: int) -> Found:
    """By drawn coalitions and their complements."""
    pairs = SampledPairs(game, evaluations, seed)
    found = pairs.terms()
    made_by = {"estimator": "parting", "pairs": len(pairs.drawn.mask), "seed": seed}
    freedom = torch.full((len(game.x),), float(pairs.drawn.sampled - 1))
    shapley = game.explanation(found.phi, made_by, found.phi_variance, freedom)
    first, error = found.phi, diagonal(found.phi_variance)
    if index == "k-SII":
        first, error = first - found.sums / 2, found.less_sums_variance
    one, other = torch.triu_indices(len(game.players), len(game.players), 1)
    terms = torch.cat((first, found.pairs[:, one, other]), dim=1)
    return Found(shapley, terms, torch.cat((error, found.variance[:, one, other]), dim=1))


def _enumerated(game: Evaluator, index: str, evaluations: int | None, seed: int) -> Found:
    """By all coalitions."""
    players = len(game.players)
    masks = all_coalitions(players)
    own, pairs = shapley_weights(masks), pair_weights(masks)
    first = own - pairs @ incidence(players) / 2 if index == "k-SII" else own
    weights = torch.cat((own, first, pairs), dim=1).to(game.device)

    def weighted(values: Tensor, power: int) -> Tensor:
        return torch.einsum("bso,sn->bno", values, weights**power)

    sums, variance, freedom, repeats = enumerated_sums(game, masks, weighted, evaluations, seed)
    made_by: dict[str, Any] = {"estimator": "exact"}
    if variance is None:
        shapley = game.explanation(sums[:, :players], made_by)
        unknown = torch.nan if game.sampled and players > 1 else 0.0
        return Found(shapley, sums[:, players:], torch.full_like(sums[:, players:], unknown))
    made_by |= {"repeats": repeats, "seed": seed}
    shapley = game.explanation(sums[:, :players], made_by, variance[:, :players], freedom)
    return Found(shapley, sums[:, players:], diagonal(variance)[:, players:])


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


def _labelled(found: Found, index: str) -> Interactions:
    """Terms as symmetric matrices on the CPU, in the precision of the Shapley values."""
    phi = found.shapley.phi
    players = int((8 * found.terms.shape[1] + 1) ** 0.5 - 1) // 2
    place = torch.arange(players).diag()
    first, second = torch.triu_indices(players, players, 1)
    place[first, second] = place[second, first] = players + torch.arange(len(first))
    # Columns that hold one value are players without interactions, the last ones.
    constants = phi.shape[1] - players

    def square(terms: Tensor) -> Tensor:
        return pad(terms.to("cpu", phi.dtype)[:, place], (0, 0, 0, constants, 0, constants))

    errors = square(found.variance.clamp(min=0).sqrt())
    return Interactions(square(found.terms), errors, found.shapley, index)


class Terms(NamedTuple):
    """Terms of first order and pairs of rows, in double precision.

    Attributes:
        phi: Shapley values, `[rows, players, outputs]`.
        phi_variance: covariances of each player's outputs, or their diagonal.
        pairs: interactions, `[rows, players, players, outputs]`; zero on the diagonal.
        variance: of `pairs`, same shape.
        sums: of each player's interactions, `[rows, players, outputs]`.
        less_sums_variance: of `phi` less half of `sums`, same shape. The sums have an error from
            the draws of a sampled value function only.
    """

    phi: Tensor
    phi_variance: Tensor
    pairs: Tensor
    variance: Tensor
    sums: Tensor
    less_sums_variance: Tensor


class Noise(NamedTuple):
    """Variances of means that draws leave for single players, `[rows, players, outputs]`.

    Attributes:
        change: of half the difference of a coalition and its complement.
        losses: of what they lose by parting.
        both: covariance of the two.
    """

    change: Tensor
    losses: Tensor
    both: Tensor


class SampledPairs:
    """Coalitions and their complements for the interactions of all rows of a game.

    Args:
        game: the evaluator, of at least seven players.
        evaluations: of v per row, at least 2 n² for n players; those at single players, `REPEATS`
            times of a sampled value function, are among them.
        seed: of coalitions and draws.

    Attributes:
        drawn: pairs of coalitions of two players or more, with those that are taken as a whole.
    """

    def __init__(self, game: Evaluator, evaluations: int, seed: int) -> None:
        self.game = game
        players, device = len(game.players), game.device
        self._repeats = REPEATS if game.sampled else 1
        probability = torch.ones(players - 1, dtype=torch.float64)
        probability[[0, -1]] = 0
        # Errors over drawn pairs miss the noise of values at sizes that are taken as a whole.
        whole = range(2, 2 if game.sampled else (players + 1) // 2)
        generator = torch.Generator().manual_seed(seed)
        count = evaluations // 2 - self._repeats * players
        self.drawn = draw_pairs(probability, count, generator, whole).to(device)
        alone = torch.eye(players, dtype=torch.bool, device=device)
        every = self.drawn.after(alone)
        dtype = torch.promote_types(game.prediction.dtype, torch.float32)
        self._regression, self._parting = Regression(every), Parting(self.drawn, dtype)
        mask = torch.cat((alone.repeat(self._repeats, 1), self.drawn.mask))
        self._evaluated = every._replace(mask=mask)
        keys = game.keys(seed)[:, None]
        if game.sampled:  # A coalition and its complement share their draws.
            keys = _random.fold(keys, torch.arange(len(mask)))
        self._keys = keys.expand(-1, len(mask))
        self._named = players_by_name(game, seed)

    def terms(self) -> Terms:
        """Of all rows."""
        instances, _, outputs = self.game.shape
        count = len(self._evaluated.mask)
        step = MOST_NUMBERS // (count * outputs ** (2 if self.game.crossed else 1))
        with self.game.bar(instances * count, "interactions", "pair") as bar:
            every = torch.arange(instances).split(max(1, step))
            found = [self._of_rows(rows, bar) for rows in every]
        return Terms(*(torch.cat(parts) for parts in zip(*found, strict=True)))

    def _of_rows(self, rows: Tensor, bar: tqdm) -> Terms:
        alone, named = self._repeats * len(self.game.players), self._named[rows]
        first, second = values_of_pairs(
            self.game, self._evaluated, rows, named, self._keys[rows], bar
        )
        name = named.argsort(1)
        base, prediction = (end.double()[:, None] for end in self.game.ends(rows))
        change, losses = (first - second) / 2, base + prediction - first - second
        noise = self._noise(change, losses, alone)
        change, losses = self._means(change, alone), self._means(losses, alone)
        phi, phi_variance, both = self._first_order(change, noise, prediction - base)
        pairs, variance = self._pairs(losses, noise.losses)
        sums = losses[:, : len(self.game.players)]
        pairs, variance = (
            of_players(of_players(each, name).transpose(1, 2), name) for each in (pairs, variance)
        )
        return Terms(
            phi=of_players(phi, name),
            phi_variance=of_players(phi_variance, name),
            pairs=pairs,
            variance=variance,
            sums=of_players(sums, name),
            less_sums_variance=of_players(both, name),
        )

    def _means(
        self, each: Float[Tensor, "rows evaluated outputs"], alone: int
    ) -> Float[Tensor, "rows pairs outputs"]:
        """Of the repeats of single players, then what drawn pairs have."""
        repeated = each[:, :alone].unflatten(1, (self._repeats, -1))
        return torch.cat((repeated.mean(1), each[:, alone:]), dim=1)

    def _noise(self, change: Tensor, losses: Tensor, alone: int) -> Noise:
        """What draws leave in the means of single players."""
        if self._repeats == 1:
            nothing = torch.zeros_like(change[:, :alone])
            return Noise(nothing, nothing, nothing)
        a, b = (
            each - each.mean(1, keepdim=True)
            for each in (
                part[:, :alone].unflatten(1, (self._repeats, -1)) for part in (change, losses)
            )
        )
        products = [(p * q).sum(1) for p, q in ((a, a), (b, b), (a, b))]
        return Noise(*(each / (self._repeats * (self._repeats - 1)) for each in products))

    def _first_order(
        self,
        change: Float[Tensor, "rows pairs outputs"],
        noise: Noise,
        total: Float[Tensor, "rows 1 outputs"],
    ) -> tuple[Float[Tensor, "rows players outputs"], Tensor, Tensor]:
        """Shapley values by KernelSHAP's regression, their variance and the last of `Terms`."""
        regression, players = self._regression, len(self.game.players)
        share = regression.pairs.mask.sum(1).double() / players - 0.5
        y = change - share[:, None] * total
        errors = regression.left_out(y, regression.fit(y))
        variance = regression.covariance(regression.inverse, errors, self.game.crossed)
        u = torch.eye(players, dtype=torch.float64, device=y.device) - 1 / players
        moved = (regression.pairs.weight[:players, None] * u) @ regression.inverse
        added = torch.einsum("pn,bpo->bno", moved.square(), noise.change)
        variance = variance + (added.diag_embed() if self.game.crossed else added)
        both = diagonal(variance) + noise.losses / 4 - moved.diagonal()[:, None] * noise.both
        return regression.unbiased(y, errors) + total / players, variance, both

    def _pairs(
        self,
        losses: Float[Tensor, "rows pairs outputs"],
        noise: Float[Tensor, "rows players outputs"],
    ) -> tuple[
        Float[Tensor, "rows players players outputs"], Float[Tensor, "rows players players outputs"]
    ]:
        """Interactions by the regression on losses by parting, and their variance."""
        rows, players, outputs = noise.shape
        games = losses.mT.flatten(0, 1)
        alone = games[:, :players].contiguous()
        y = self._parting.losses(games[:, players:], alone)
        fitted, residuals = self._parting.fit(y)
        variance = self._parting.variance(residuals) + _of_shares(noise.mT.flatten(0, 1))

        def by_row(matrix: Tensor) -> Tensor:
            return matrix.unflatten(0, (rows, outputs)).movedim(1, 3)

        return by_row(fitted + equal_shares(alone)), by_row(variance)


def _of_shares(
    noise: Float[Tensor, "games players"],
) -> Float[Tensor, "games players players"]:
    """Variance of `equal_shares`, from that of what single players lose."""
    n = noise.shape[1]
    own = noise[:, :, None] + noise[:, None, :]
    others = noise.sum(1)[:, None, None] - own
    return own / (n - 1) ** 2 + others / ((n - 1) * (n - 2)) ** 2
