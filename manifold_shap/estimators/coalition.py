"""Estimates Shapley values from linearized contributions of all players at sampled coalitions.

A Shapley value is also the mean of v(T ∪ i) - v(T \\ i) over coalitions T in which every player is
present with the same probability, itself uniform (Owen 1972). One coalition serves all players: it
is evaluated with each of them toggled, which a value function that can be linearized gives for a
few values instead of n. Three things reduce the variance:

- Coalitions are stratified by size, with more small and large ones, where contributions vary most
  (`sample_stratified_pairs`), and come in antithetic pairs with their complements.
- The errors of all players at one coalition are correlated, and the expectation of their sum is
  known, v(N) - v(∅): a control variate (`with_sum`), which also makes the result efficient.
- The estimate has two levels: linearized contributions at most coalitions plus a correction, the
  mean linearization error at coalitions that are evaluated exactly as well, as many as reduce the
  error most for their cost (Giles 2015, Section 1.3). The only bias is that of the control variate.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap import _random
from manifold_shap._checks import check_whole
from manifold_shap.coalitions import Approximated, Toggled, sample_stratified_pairs, stratum_weights
from manifold_shap.estimators.evaluator import Evaluator, diagonal
from manifold_shap.estimators.runner import Asking, Result, explain
from manifold_shap.estimators.sampling import Sampler, check_one_budget, extended
from manifold_shap.explanation import Explanation
from manifold_shap.values.base import Linearized
from manifold_shap.values.selected import Outputs

DEFAULT_COALITIONS = 512
MAX_COALITIONS = 2**16
# Two pairs per stratum give an unbiased estimate of its variance.
_STRATA = 8
LEAST_COALITIONS = 4 * _STRATA
_PAIRS_PER_ROUND = 64
# Pairs per round that may be evaluated exactly as well, in fewer strata.
_EXACT_PAIRS, _EXACT_STRATA = 8, 4

_SMALLEST = torch.finfo(torch.float64).tiny
# A sum that varies by less than this share of its parts' variances varies by rounding alone.
_ROUNDING = 1e-10


def coalition_shapley(
    value: Any,
    x: Any,
    *,
    evaluations: int | None = None,
    coalitions: int | None = None,
    target_error: float | None = None,
    outputs: Outputs = None,
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool | None = None,
) -> Explanation:
    """Estimate Shapley values from all players' linearized contributions at sampled coalitions.

    For surrogates with a perceptron of many players: `network="mlp"`. Other value functions are
    refused, since `kernel_shapley` is more precise where every contribution costs a value.

        >>> import manifold_shap as ms
        >>> x = torch.randn(200, 60)
        >>> few = {"max_epochs": 1, "hidden": [256, 256], "trainer": {"limit_train_batches": 5}}
        >>> value = ms.fit_surrogate(torch.nn.Linear(60, 2), x, space="identity", **few)
        >>> found = coalition_shapley(value, x[:2], coalitions=32)
        >>> found.made_by["evaluations"] < 2 * 32 * 60
        True

    Coefficients of the control variate are estimated from the same coalitions, and so is the number
    of those evaluated exactly. That causes a bias of order 1/coalitions: a fifth of a standard
    error with 64 of them, less with more.

    Args:
        value: a `ValueFunction`, or a callable; see `as_value_function`.
        x: rows to explain, `[instances, *event]`.
        evaluations: values of v per row, about; the budget in place of `coalitions`.
        coalitions: per row, a multiple of 32 (eight strata, two of each, each with its complement).
            At most 16 of every 128 are evaluated exactly as well, with each player toggled. By
            default 512.
        target_error: stop a row when its largest standard error falls below this share of the
            range of v on that row; `coalitions` is then the most that a row may take (by default
            65,536).
        outputs: those to explain: names or positions, one or a list; by default all. See
            `ValueFunction.select`.
        seed: of the coalitions. Same seed, same answer, for any `batch_size`.
        batch_size: model rows per call; changes memory and time, not the numbers, but for rounding:
            in half precision that may be a noticeable part of a standard error.
        progress: show a bar with the time left on work of more than two seconds; by default
            where a person looks.

    Returns:
        An explanation with standard errors over coalitions. From fewer than 256 of them, and where
        a small network is nearly linear, so that errors are small and skewed, intervals of 95 %
        hold less than that.

    Raises:
        TypeError: `coalitions` that are no whole number.
        ValueError: a value function that cannot be linearized at less than a third of the cost of
            exact contributions; fewer than 32 `coalitions`, or `evaluations` beside them or too few
            for 32; a `target_error` that is not positive.
    """
    return explain(estimator=coalition, **locals())


def coalition(
    game: Evaluator,
    evaluations: int | None = None,
    coalitions: int | None = None,
    target_error: float | None = None,
    seed: int = 0,
) -> Asking[Result]:
    """The estimator of `coalition_shapley`."""
    near = game.linearized
    if near is None:
        raise ValueError(
            "Expected a value function whose contributions can be linearized at little cost, such "
            "as a surrogate with a perceptron of many players, but got "
            f"{game.value.name!r} of {len(game.players)} players; use `kernel_shapley`."
        )
    if evaluations is not None:
        check_one_budget("coalitions", coalitions, evaluations)
        coalitions = affordable(game, evaluations)
    if coalitions is not None:
        fix = "give more `evaluations`, or call `permutation_shapley`"
        coalitions = check_whole("coalitions", coalitions, LEAST_COALITIONS, fix=fix)
        coalitions -= coalitions % LEAST_COALITIONS
    sampler = _Coalitions(game, near, target_error, seed)
    pairs = (coalitions or (DEFAULT_COALITIONS if target_error is None else MAX_COALITIONS)) // 2
    starts = range(0, pairs, _PAIRS_PER_ROUND)
    rounds = [range(start, min(start + _PAIRS_PER_ROUND, pairs)) for start in starts]
    yield from sampler.run(rounds, pairs)
    return sampler.result({"estimator": "coalition", "seed": seed})


def affordable(game: Evaluator, evaluations: int) -> int:
    """The most coalitions that cost at most this many values v(S); 0 where none do.

    The cost includes all exact evaluations that there may be.
    """
    near = game.linearized
    if near is None:
        return 0
    counts = range(LEAST_COALITIONS, MAX_COALITIONS + 1, LEAST_COALITIONS)
    several = bisect_right(counts, float(evaluations), key=lambda count: _cost(game, near, count))
    return counts[several - 1] if several else 0


def _cost(game: Evaluator, near: Linearized, coalitions: int) -> float:
    rounds = -(-coalitions // (2 * _PAIRS_PER_ROUND))
    corrections = 2 * _EXACT_PAIRS * rounds
    return coalitions * near.cost + corrections * (len(game.players) + 1.0 + near.cost)


class _Coalitions(Sampler):
    """Contributions of all players at two levels: linearized ones and their errors."""

    unit, per_step = "coalitions", 2
    asked = 2.0 * (1 + 2 * _EXACT_PAIRS / _PAIRS_PER_ROUND)

    def __init__(
        self, game: Evaluator, near: Linearized, target_error: float | None, seed: int
    ) -> None:
        super().__init__(game, target_error)
        self.near = near
        self.keys = game.keys(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.spread = game.total.abs().double()
        self.moments = [
            StratifiedMoments(
                game.shape, stratum_weights(strata), game.device, game.full_covariance
            )
            for strata in (_STRATA, _EXACT_STRATA)
        ]

    def take(self, rows: Tensor, numbers: range) -> Asking[None]:
        everyone = torch.ones(len(rows), dtype=torch.bool)
        due = self._due(rows)
        for some, mask, keys in self._drawn(0, rows, numbers, everyone):
            self._add(0, some, _of_players((yield some, Approximated(mask, keys)), mask))
        for some, mask, keys in self._drawn(1, rows, numbers[:_EXACT_PAIRS], due):
            values = yield some, Toggled(mask, keys)
            self.see(some, values)
            linearized = yield some, Approximated(mask, keys)
            self._add(1, some, _of_players(values, mask) - _of_players(linearized, mask))

    def estimate(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        where = rows.to(self.game.device)
        phi, variance = with_sum(self.moments, self.game.total)
        return phi[where], variance[where]

    def _due(self, rows: Tensor) -> Bool[Tensor, " rows"]:
        """Rows where exact contributions reduce the error more, for their cost."""
        linearized, correction = (part.gain()[rows.to(self.game.device)] for part in self.moments)
        exact_cost = self.near.cost + len(self.game.players) + 1
        return ~(correction / exact_cost < linearized / self.near.cost).cpu()

    def _drawn(
        self, level: int, rows: Tensor, pairs: range, due: Bool[Tensor, " rows"]
    ) -> Iterator[tuple[Tensor, Bool[Tensor, "some m players"], Int64[Tensor, "some m"]]]:
        """Some of the rows, their coalitions and keys: pairs, two per stratum at a time.

        Coalitions are drawn for all rows, so that those of a row do not depend on which others are
        due.
        """
        game, strata = self.game, len(self.moments[level].weights)
        shape = (len(pairs) // (2 * strata), 2)
        blocks = game.blocks(2 * len(pairs) * (len(game.players) + 1), rows)
        for some, chosen in zip(blocks, due.split(len(blocks[0])), strict=True):
            mask = sample_stratified_pairs(
                (len(some), *shape), len(game.players), strata, self.generator
            )
            some, mask = some[chosen], mask[chosen].flatten(1, 4).to(game.device)
            if len(some):
                # Draws are fresh for every pair, so that standard errors are of these, too.
                keys = _random.fold(self.keys[some][:, None], torch.tensor(pairs))
                yield some, mask, keys.repeat_interleave(2, 1)

    def _add(
        self, level: int, rows: Tensor, found: Float[Tensor, "rows m players outputs"]
    ) -> None:
        """Add samples to one level: means of pairs, two per stratum at a time."""
        moments = self.moments[level]
        shape = (-1, 2, len(moments.weights), 2)
        moments.add(rows, found.unflatten(1, shape).mean(4))


def _of_players(
    values: Float[Tensor, "rows m places outputs"], mask: Bool[Tensor, "rows m players"]
) -> Float[Tensor, "rows m players outputs"]:
    """v(T ∪ i) - v(T \\ i), from the values of T and of T with each player toggled."""
    change = values[:, :, 1:] - values[:, :, :1]
    return torch.where(mask[..., None], -change, change)


class StratifiedMoments:
    """Mean of stratified samples of all players' contributions, and its variance, in float64.

    Two samples per stratum, a replicate, give an unbiased variance estimate. Covariances with the
    sum over players are accumulated, too: see `with_sum`.

    Args:
        shape: numbers of rows, players and outputs.
        weights: of the strata; they sum to one.
        device: where.
        full_covariance: also accumulate covariances between outputs.

    Attributes:
        mean: `[rows, players, outputs]`.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        weights: Float[Tensor, " strata"],
        device: torch.device,
        full_covariance: bool = False,
    ) -> None:
        self.weights = weights.to(device, torch.float64)
        self.mean = torch.zeros(shape, dtype=torch.float64, device=device)
        self._replicates = torch.zeros(shape[0], dtype=torch.int64, device=device)
        self._own = self.mean.new_zeros(*shape, *(shape[2:] if full_covariance else ()))
        self._summed = torch.zeros_like(self._own)
        self._fourth = torch.zeros_like(self.mean)
        self._pattern = "btsio,btsiq->bioq" if full_covariance else "btsio,btsio->bio"

    def add(
        self, rows: Tensor, samples: Float[Tensor, "rows replicates 2 strata players outputs"]
    ) -> None:
        """Add new samples."""
        rows, new = rows.to(self.mean.device), samples.shape[1]
        weighted = samples.double() * self.weights[:, None, None]
        mean = weighted.sum(3).mean((1, 2))
        before = self._replicates[rows]
        self.mean[rows] += (mean - self.mean[rows]) * extended(new / (before + new), mean)
        self._replicates[rows] += new
        apart = weighted[:, :, 0] - weighted[:, :, 1]
        summed = apart.sum(3, keepdim=True).expand_as(apart)
        self._own[rows] += torch.einsum(self._pattern, apart, apart)
        self._summed[rows] += torch.einsum(self._pattern, apart, summed)
        self._fourth[rows] += apart.square().square().sum((1, 2))

    def own(self) -> Float[Tensor, "rows players *errors"]:
        """Covariance of the means of each player's outputs, or its diagonal."""
        return self._of_mean(self._own)

    def summed(self) -> Float[Tensor, "rows players *errors"]:
        """The same of the outputs of a player's mean (first) and of the sum of all (second)."""
        return self._of_mean(self._summed)

    def _of_mean(self, products: Tensor) -> Tensor:
        # A mean of m replicates has the variance of a difference, over 4m.
        replicates = extended(self._replicates, products)
        return torch.where(replicates > 0, products / (4 * replicates.square()), torch.nan)

    def gain(self) -> Float[Tensor, " rows"]:
        """Reduction of the variance of all means by one more sample.

        It is that of the reported variance: without the part that the control variate explains, and
        widened. NaN with fewer than two replicates, from which it may by chance seem small and
        intervals be too short.
        """
        common = diagonal(self.summed())
        explained = common.square() / common.sum(1, keepdim=True).clamp(min=_SMALLEST)
        left = (diagonal(self.own()) - explained).clamp(min=0) * self.widening()
        gain = left.sum((1, 2)) / (self._replicates * len(self.weights))
        return torch.where(self._replicates > 1, gain, torch.nan)

    def widening(self) -> Float[Tensor, "rows players outputs"]:
        """Factor of the variance for few samples, unequal strata and an estimated coefficient.

        The squares of f normal differences have f degrees of freedom, effectively fewer where some
        are far larger than others (Satterthwaite 1946, by fourth moments). Estimating the
        coefficient of the control variate costs a factor of f/(f-2) (Lavenberg & Welch 1981).
        """
        squares = diagonal(self._own)
        count = extended(self._replicates * len(self.weights), squares)
        freedom = 3 * squares.square() / self._fourth.clamp(min=_SMALLEST)
        freedom = torch.where(self._fourth > 0, freedom.minimum(count), count).clamp(min=4)
        return freedom / (freedom - 2)


def with_sum(
    parts: Sequence[StratifiedMoments], total: Float[Tensor, "rows outputs"]
) -> tuple[Float[Tensor, "rows players outputs"], Float[Tensor, "rows players *errors"]]:
    """Sum of independent parts of an estimate, with its sum over players as control variate.

    The mean of that sum is known: the regression of each player's estimate on it removes their
    common error. The coefficients sum to one, so that the result has exactly the known sum.

    Args:
        parts: of the estimate.
        total: the known sum over players.

    Returns:
        The estimate, and the covariance of each player's outputs, or its diagonal.
    """
    mean: Any = sum(part.mean for part in parts)
    own: Any = sum(part.own() for part in parts)
    summed: Any = sum(part.summed() for part in parts)
    common = diagonal(summed)
    variance = common.sum(1, keepdim=True)
    # Where the sum does not vary, as with two players, shares are by size: zeros stay zero.
    size = mean.abs()
    whole = size.sum(1, keepdim=True)
    by_size = torch.where(whole > 0, size / whole, 1 / mean.shape[1])
    varies = variance > _ROUNDING * diagonal(own).sum(1, keepdim=True)
    share = torch.where(varies, common / variance, by_size)
    mean = mean - share * (mean.sum(1) - total)[:, None]
    widening = _widening(parts)
    if own.ndim == 3:
        return mean, (own - share * common).clamp(min=0) * widening
    taken = summed * share[:, :, None]
    both = share[..., :, None] * share[..., None, :] * summed.sum(1, keepdim=True)
    root = widening.sqrt()
    return mean, (own - taken - taken.mT + both) * root[..., :, None] * root[..., None, :]


def _widening(parts: Sequence[StratifiedMoments]) -> Float[Tensor, "rows players outputs"]:
    """Mean of the parts' factors, weighted by their variances."""
    variances = [diagonal(part.own()) for part in parts]
    total: Any = sum(variances)
    weighted: Any = sum(each * part.widening() for each, part in zip(variances, parts, strict=True))
    return torch.where(total > 0, weighted / total, 1.0)
