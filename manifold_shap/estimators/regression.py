"""Fits Shapley values by least squares to coalitions and their complements.

Shapley values are the weighted least-squares fit of v by an additive game with the same ends, v(∅)
and v(N) (Lundberg & Lee 2017). A coalition is taken together with its complement, under the same
weight: half their difference enters the fit, and their mean drops out (Covert & Lee 2021). With
u = 1_S - |S|/n, which sums to zero, and y = (v(S) - v(N∖S))/2 minus its value under equal shares of
v(N) - v(∅), the fit is equal shares plus the β of

    Σ w u uᵀ β = Σ w u y,    w = n / (|S| (n-|S|) C(n,|S|)).

Over all coalitions Σ w u uᵀ is the identity among vectors that sum to zero, and β is Σ w u y. For a
sample of coalitions, w is divided by the expected number of each. The left side depends on the
coalitions alone, which all rows and outputs share: it is factorised once.

Coalitions are drawn in pairs with their complements. The weight of a pair is w for either of the
two, over the expected number of it in the sample.
"""

import itertools
import math
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from manifold_shap.coalitions import all_coalitions, distinct_coalitions, sample_subsets
from manifold_shap.estimators.evaluator import Evaluator
from manifold_shap.laws import LeverageScores, ShapleyKernel

EVALUATIONS_PER_PLAYER = 64
LAWS: dict[str, type[LeverageScores | ShapleyKernel]] = {
    "leverage": LeverageScores,
    "kernel": ShapleyKernel,
}
# Pairs that are made, or in memory as float64, at a time.
PAIRS_PER_PART = 4096
# Pairs that do not determine all values are drawn again, at most so often.
_MOST_DRAWS = 10_000
# What is smaller, relative to one, counts as rounding error of float64.
_ROUNDING = 1e-10


class Pairs(NamedTuple):
    """Coalitions, each paired with its complement.

    Attributes:
        mask: one of the two, neither empty nor full, `[pairs, players]`.
        weight: w in the sum over pairs, `[pairs]`.
        sampled: how many were drawn: the last ones. The others are all pairs of their sizes.
        missing: share of the pairs of a pair's size that were not drawn, where each is drawn once
            at most; one where draws are independent.
    """

    mask: Bool[Tensor, "pairs players"]
    weight: Float[Tensor, " pairs"]
    sampled: int
    missing: Float[Tensor, " pairs"]

    @classmethod
    def all_of(cls, mask: Bool[Tensor, "pairs players"]) -> "Pairs":
        """Pairs of sizes of which none is missing."""
        weight = 2 * kernel_weight(mask)
        return cls(mask, weight, 0, torch.zeros_like(weight))

    def after(self, mask: Bool[Tensor, "some players"]) -> "Pairs":
        """With all pairs of other sizes before them."""
        first = Pairs.all_of(mask)
        return Pairs(
            torch.cat((first.mask, self.mask)),
            torch.cat((first.weight, self.weight)),
            self.sampled,
            torch.cat((first.missing, self.missing)),
        )

    @property
    def drawn(self) -> Bool[Tensor, "pairs 1"]:
        """Which pairs were drawn."""
        number = torch.arange(len(self.mask), device=self.mask.device)
        return (number >= len(number) - self.sampled)[:, None]

    def to(self, device: torch.device) -> "Pairs":
        """The same on a device."""
        mask, weight, sampled, missing = self
        return Pairs(mask.to(device), weight.to(device), sampled, missing.to(device))


class Regression:
    """Least squares of y on u, for any number of rows and outputs.

    Args:
        pairs: of coalitions, at which all of them are evaluated.
    """

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs

    @classmethod
    def of_game(
        cls,
        game: Evaluator,
        evaluations: int | None,
        law: str,
        seed: int,
        without_replacement: bool = False,
    ) -> "Regression":
        """The regression on the first pairs by a law that determine all values.

        Args:
            game: the evaluator.
            evaluations: coalitions per row.
            law: one of `LAWS`.
            seed: of the draws.
            without_replacement: see `choose_pairs`.

        Raises:
            ValueError: fewer than two coalitions per row for each player.
        """
        draws = choose_pairs(
            game, evaluations, law, seed, 2 * len(game.players), without_replacement
        )
        for pairs in itertools.islice(draws, _MOST_DRAWS):
            found = cls(pairs)
            if not bool(found.inverse.isnan().any()):
                return found
        raise ValueError(
            f"Expected coalitions that determine the values of all {len(game.players)} players but "
            f"{_MOST_DRAWS} draws of {2 * len(pairs.mask)} did not; give more `evaluations`."
        )

    @cached_property
    def inverse(self) -> Float[Tensor, "players players"]:
        """Of Σ w u uᵀ among vectors that sum to zero; NaN where it leaves values undetermined."""
        players = self.pairs.mask.shape[1]
        # u is orthogonal to constants: adding their projection makes the sum invertible.
        gram = self.pairs.weight.new_full((players, players), 1 / players)
        for _, u, w in self._parts():
            gram += (w[:, None] * u).T @ u
        root, failed = torch.linalg.cholesky_ex(gram)
        if int(failed) or float(root.diagonal().square().min()) < _ROUNDING:
            return gram * torch.nan
        return torch.cholesky_inverse(root)

    @cached_property
    def leverage(self) -> Float[Tensor, " pairs"]:
        """w uᵀ `inverse` u, the weight of a pair's own y in its fitted value: at most 1."""
        shares = [w * ((u @ self.inverse) * u).sum(1) for _, u, w in self._parts()]
        return torch.cat([self.pairs.weight[:0], *shares])

    @property
    def leverage_one(self) -> Bool[Tensor, "pairs 1"]:
        """Drawn pairs without which values would be undetermined: of leverage one."""
        return self.pairs.drawn & (self.leverage > 1 - _ROUNDING)[:, None]

    def moment(
        self, y: Float[Tensor, "rows pairs outputs"]
    ) -> Float[Tensor, "rows players outputs"]:
        """Σ w u y."""
        total = y.new_zeros(len(y), self.pairs.mask.shape[1], y.shape[2])
        for part, u, w in self._parts():
            total += torch.einsum("pn,bpo->bno", w[:, None] * u, y[:, part])
        return total

    def fit(self, y: Float[Tensor, "rows pairs outputs"]) -> Float[Tensor, "rows players outputs"]:
        """β, which sums to zero over the players."""
        return self.inverse @ self.moment(y)

    def residual(
        self, y: Float[Tensor, "rows pairs outputs"], beta: Float[Tensor, "rows players outputs"]
    ) -> Float[Tensor, "rows pairs outputs"]:
        """y minus its fitted values."""
        fitted = [torch.einsum("pn,bno->bpo", u, beta) for _, u, _ in self._parts()]
        return y - torch.cat([y[:, :0], *fitted], dim=1)

    def loo_residuals(
        self, y: Float[Tensor, "rows pairs outputs"], beta: Float[Tensor, "rows players outputs"]
    ) -> Float[Tensor, "rows pairs outputs"]:
        """Residuals of drawn pairs in the fit to all other pairs, given β, the fit to all.

        Zero for pairs that were not drawn, NaN for leverage_one ones.
        """
        others = torch.where(self.leverage_one, torch.nan, 1 - self.leverage[:, None])
        return torch.where(self.pairs.drawn, self.residual(y, beta) / others, 0.0)

    def unbiased(
        self, y: Float[Tensor, "rows pairs outputs"], errors: Float[Tensor, "rows pairs outputs"]
    ) -> Float[Tensor, "rows players outputs"]:
        """The mean of the fits to all but one of the drawn pairs, and Σ w u e of what they leave.

        Essential pairs stay in all of the fits.

        Args:
            y: as for `fit`.
            errors: e, those of `loo_residuals`.
        """
        errors = torch.where(self.leverage_one, 0.0, errors)
        # Each of the fits is β - `inverse` w_j u_j e_j.
        moment = self.moment(y - errors / max(1, self.pairs.sampled))
        mean = self.inverse @ moment
        # At enumerated sizes the sum over the residuals of any β is exact.
        left_in = ~self.pairs.drawn | self.leverage_one
        return mean + self.moment(torch.where(left_in, self.residual(y, mean), errors))

    def covariance(
        self,
        linear: Float[Tensor, "players players"],
        errors: Float[Tensor, "rows pairs outputs"],
        full_covariance: bool,
    ) -> Float[Tensor, "rows players *errors"]:
        """Of `linear` Σ w u e over the drawn pairs, from their spread; or its diagonal alone.

        Args:
            linear: a symmetric map.
            errors: e, zero for pairs that were not drawn.
            full_covariance: whether to give covariances between outputs.
        """

        def products(of: Tensor) -> Tensor:
            return of[..., :, None] * of[..., None, :] if full_covariance else of.square()

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
        mask, weight = self.pairs.mask, self.pairs.weight
        for start in range(0, len(mask), PAIRS_PER_PART):
            part = slice(start, start + PAIRS_PER_PART)
            u = mask[part].double()
            yield part, u - u.mean(1, keepdim=True), weight[part]


def choose_pairs(
    game: Evaluator,
    evaluations: int | None,
    law: str,
    seed: int,
    least: int = 2,
    without_replacement: bool = False,
) -> Iterator[Pairs]:
    """All pairs where the budget covers them and values are not drawn, else samples of the law.

    Args:
        game: the evaluator.
        evaluations: coalitions per row; of an odd number one less.
        law: one of `LAWS`.
        seed: of the draws.
        least: coalitions per row that determine the values.
        without_replacement: whether to draw no pair twice, sizes by leverage, where the draws of a
            value function are not what varies.

    Yields:
        All pairs each time, or an independent sample each time.

    Raises:
        ValueError: fewer coalitions per row than `least`.
    """
    players = len(game.players)
    if evaluations is None:
        evaluations = max(2, EVALUATIONS_PER_PLAYER * (players - 1))
    least, count = min(least, 2**players - 2), evaluations // 2
    if evaluations < least:
        raise ValueError(
            f"Expected `evaluations` of at least {least} for {players} players but got "
            f"{evaluations}; fewer coalitions do not determine so many values."
        )
    every = 2 ** (players - 1) - 1
    generator = torch.Generator().manual_seed(seed)
    while True:
        # Errors over drawn pairs are those of the draws of a value function, too.
        if count >= every and not (game.sampled and every):
            # Every coalition without the last player; the complements are those with that player.
            pairs = Pairs.all_of(pad(all_coalitions(players - 1)[1:], (0, 1)))
        elif without_replacement and not game.sampled:
            pairs = draw_once(players, count, generator)
        else:
            # Errors over drawn pairs miss the noise of values at sizes that are enumerated.
            whole = range(1, 1 if game.sampled else (players + 1) // 2)
            probability = LAWS[law](players).size_probability[1:-1]
            pairs = draw_pairs(probability, count, generator, whole)
        yield pairs.to(game.device)


def draw_pairs(
    probability: Float[Tensor, " sizes"], count: int, generator: torch.Generator, whole: range
) -> Pairs:
    """Pairs, drawn by the size of a coalition.

    Args:
        probability: of the sizes 1, 2, ..., n-1, up to a factor.
        count: of pairs.
        generator: of the draws.
        whole: sizes below half of the players at which all pairs are taken, each once, as long as
            as many are expected. Complements have the others, with the same probability. There are
            more pairs than are drawn, so that some sizes are always left.
    """
    players, probability = len(probability) + 1, probability.clone()
    taken, left = [torch.zeros(0, players, dtype=torch.bool)], count
    for size in whole:
        expected = 2 * left * float(probability[size - 1] / probability.sum())
        if expected < math.comb(players, size):
            break
        taken.append(_all_of_size(players, size))
        probability[[size - 1, players - size - 1]] = 0
        left -= len(taken[-1])
    enumerated = torch.cat(taken)
    probability /= probability.sum()
    sizes = 1 + torch.multinomial(probability, left, replacement=True, generator=generator)
    drawn = [sample_subsets(some, players, generator) for some in sizes.split(PAIRS_PER_PART)]
    weight = players / (sizes * (players - sizes) * probability[sizes - 1]) / left
    mask = torch.cat((enumerated[:0], *drawn))
    return Pairs(mask, weight, left, torch.ones_like(weight)).after(enumerated)


def draw_once(players: int, count: int, generator: torch.Generator) -> Pairs:
    """Distinct pairs: as many of each size, or all that there are (Musco & Witter 2025, Section 4).

        >>> pairs = draw_once(6, 20, torch.Generator().manual_seed(0))
        >>> pairs.mask.sum(1).unique(return_counts=True)  # Of 6, 15 and 10 pairs.
        (tensor([1, 2, 3]), tensor([6, 9, 5]))

    Args:
        players: how many, three at least.
        count: of pairs, fewer than there are and no fewer than players.
        generator: the only source of random numbers.
    """
    # A pair is known by its smaller coalition or, of equal sizes, by that without the first player.
    sizes = range(1, players // 2 + 1)
    share = torch.tensor([1.0 if 2 * size < players else 0.5 for size in sizes])
    there = [
        math.comb(players, size) * int(2 * part) // 2
        for size, part in zip(sizes, share.tolist(), strict=True)
    ]
    numbers = _allocated(share, there, count)
    parts = []
    for size, number, most in zip(sizes, numbers, there, strict=True):
        mask = _distinct(players, size, number, most, generator)
        weight = 2 * kernel_weight(mask) * (most / number)
        missing = torch.full((number,), 1 - number / most, dtype=torch.float64)
        parts.append((mask, weight, missing))
    # All pairs of a size first.
    parts.sort(key=lambda part: bool(part[2][0] > 0))
    mask, weight, missing = (torch.cat(some) for some in zip(*parts, strict=True))
    return Pairs(mask, weight, int((missing > 0).sum()), missing)


def _allocated(share: Tensor, there: list[int], count: int) -> list[int]:
    """Whole numbers in proportion to the shares, none above what is there, that sum to a count."""
    numbers, open_ = [0] * len(there), list(range(len(there)))
    while open_:
        whole, left = sum(float(share[i]) for i in open_), count - sum(numbers)
        full = [i for i in open_ if left * float(share[i]) / whole >= there[i]]
        for i in full:
            numbers[i] = there[i]
        open_ = [i for i in open_ if i not in full]
        if not full:
            break
    # Largest remainders.
    wanted = {i: left * float(share[i]) / whole for i in open_}
    numbers = [int(wanted.get(i, numbers[i])) for i in range(len(numbers))]
    for i in sorted(open_, key=lambda i: int(wanted[i]) - wanted[i])[: count - sum(numbers)]:
        numbers[i] += 1
    return numbers


def _distinct(
    players: int, size: int, number: int, there: int, generator: torch.Generator
) -> Bool[Tensor, "number players"]:
    """So many of the pairs with a coalition of this size, each with the same probability."""
    half = 2 * size == players
    if there < 4 * number:
        mask = _all_of_size(players - half, size)
        mask = torch.cat((mask.new_zeros(len(mask), int(half)), mask), 1)
        return mask[torch.randperm(there, generator=generator)[:number]]
    mask = torch.zeros(0, players, dtype=torch.bool)
    while len(mask) < number:
        new = sample_subsets(torch.full((number,), size), players, generator)
        mask = torch.cat((mask, new ^ (new[:, :1] & half)))
        distinct, position = distinct_coalitions(mask)
        first = torch.full((len(distinct),), len(mask)).scatter_reduce(
            0, position, torch.arange(len(mask)), "amin"
        )
        mask = mask[first.sort().values]
    return mask[:number]


def _all_of_size(players: int, size: int) -> Bool[Tensor, "coalitions players"]:
    members = torch.tensor(list(itertools.combinations(range(players), size)))
    mask = torch.zeros(len(members), players, dtype=torch.bool)
    return mask.scatter_(1, members, True)


def kernel_weight(mask: Bool[Tensor, "coalitions players"]) -> Float[Tensor, " coalitions"]:
    """w in the sum over all coalitions."""
    n = mask.shape[1]
    by_size = [0.0, *(n / (size * (n - size) * math.comb(n, size)) for size in range(1, n))]
    return torch.tensor(by_size, dtype=torch.float64, device=mask.device)[mask.sum(1)]
