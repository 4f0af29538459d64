"""Estimates Shapley values and interactions of all pairs from the same drawn coalitions.

Half the difference of a coalition and its complement carries Shapley values, and their mean carries
interactions: two regressions, `regression` and `parting`, on the same values. Single players and
their complements are always evaluated: by them the sums of each player's interactions are known.
Rows have coalitions of their own, the same but for the names of the players.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap import _random
from manifold_shap.estimators.evaluator import Evaluator, diagonal
from manifold_shap.estimators.kernel import of_players, players_by_name
from manifold_shap.estimators.pairs import draw_pairs
from manifold_shap.estimators.parting import Parting, equal_shares
from manifold_shap.estimators.regression import Regression

# How often a sampled value function is evaluated at single players, for the error of its draws.
REPEATS = 4
_MOST_NUMBERS = 2**24


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
        step = _MOST_NUMBERS // (count * outputs ** (2 if self.game.crossed else 1))
        with self.game.bar(instances, "interactions", "row") as bar:
            found = []
            for rows in torch.arange(instances).split(max(1, step)):
                found.append(self._of_rows(rows))
                bar.update(len(rows))
        return Terms(*(torch.cat(parts) for parts in zip(*found, strict=True)))

    def _of_rows(self, rows: Tensor) -> Terms:
        count, alone = 2 * len(self._evaluated.mask), self._repeats * len(self.game.players)
        step = self.game.rows_per_batch(count)
        keys = self._keys[rows].repeat_interleave(2, 1)
        name = self._named[rows].argsort(1)
        found = []
        for some, own, names in zip(
            *(each.split(step) for each in (rows, keys, name)), strict=True
        ):

            def coalitions(start: int, stop: int, names: Tensor = names) -> Tensor:
                return self._evaluated.coalitions(start, stop).T[names.to(self.game.device)].mT

            found.append(self.game.evaluate(some, coalitions, count, own).double())
        values = torch.cat(found)
        first, second = values[:, 0::2], values[:, 1::2]
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
