"""Estimates Shapley values from antithetic pairs of permutations.

A Shapley value is a player's expected marginal contribution when the players arrive in uniformly
random order; an asymmetric one, when they do so in an order that a partial order allows (Frye,
Rowat & Feige 2020). An order is evaluated together with its reverse, inside each component of
the partial order; the mean of the two is one sample, and standard errors are over these pairs.
Along one order the marginal contributions telescope, so they sum to v(N) - v(∅) whatever the number
of permutations.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from manifold_shap import _random
from manifold_shap._checks import check_whole
from manifold_shap.estimators.evaluator import Evaluator, check_one_budget
from manifold_shap.estimators.moments import Moments
from manifold_shap.estimators.ragged import by_player_count
from manifold_shap.estimators.sampling import Sampler
from manifold_shap.explanation import Explanation
from manifold_shap.ordering import Ordering
from manifold_shap.values.selected import Outputs

DEFAULT_PERMUTATIONS = 64
MAX_PERMUTATIONS = 2**16
# Ten players have 3.6 million orders, too many to evaluate them all.
_MOST_ORDERS = math.factorial(9)
_PAIRS_PER_ROUND = 32
_FIRST_ROUND = 8


@by_player_count
def permutation_shapley(
    value: Any,
    x: Any,
    *,
    evaluations: int | None = None,
    permutations: int | None = None,
    target_error: float | None = None,
    ordering: Ordering | Sequence[Sequence[str]] | None = None,
    outputs: Outputs = None,
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool | None = None,
) -> Explanation:
    """Estimate Shapley values from orders of the players and their reverses.

        >>> game = lambda x, mask: (x[:, None] + mask).prod(-1, keepdim=True)
        >>> explanation = permutation_shapley(game, torch.tensor([[1.0, 2.0, 3.0]]), seed=1)
        >>> explanation.phi.flatten()  # Three players have six orders: all of them are taken.
        tensor([8.8333, 5.3333, 3.8333])

    Args:
        value: a `ValueFunction`, or a callable; see `as_value_function`.
        x: rows to explain, `[instances, *event]`.
        evaluations: values of v per row, about; the budget in place of `permutations`.
        permutations: orders per row, an even number (an order and its reverse are a pair); 64 by
            default. With n! (or as many as `ordering` allows) or more and no `target_error`, every
            order is taken once and the result is exact, for the draws of a sampled value function.
        target_error: stop a row when its largest standard error falls below this share of the
            range of v on that row; `permutations` is then the most that a row may take (by
            default 65,536). Where orders are few all of them are taken instead, unless the value
            function is sampled: the error of its draws has to meet the target, too.
        ordering: names of the players, component after component, as in `[["a", "b"], ["c"]]`:
            only orders in which earlier components come first are taken. By default all are.
        outputs: those to explain: names or positions, or how many of those with the largest mean
            predictions; by default all. See `ValueFunction.select`.
        seed: of the orders. Same seed, same answer, for any `batch_size` and device.
        batch_size: model rows per call; changes memory and time, not the numbers.
        progress: show a bar with the time left on work of more than two seconds; by default
            where a person looks.

    Returns:
        An explanation with standard errors over pairs, from orders and draws; NaN (unknown) for a
        single pair, or where all orders share the draws of a sampled value function.

    Raises:
        ValueError: an odd or non-positive `permutations`, or `evaluations` beside it; a
            `target_error` that is not positive; an `ordering` that does not name every player once.
        TypeError: an `ordering` that is no list of lists.
    """
    game = Evaluator(value, x, batch_size, progress)
    if evaluations is not None:
        check_one_budget("permutations", permutations, evaluations)
        permutations = max(2, evaluations // max(1, len(game.players) - 1) // 2 * 2)
    if permutations is None:
        most = DEFAULT_PERMUTATIONS if target_error is None else MAX_PERMUTATIONS
    elif (most := check_whole("permutations", permutations)) % 2:
        raise ValueError(
            "Expected `permutations` to be a positive even number (orders come with their "
            f"reverses) but got {permutations}."
        )
    order = Ordering.of(ordering, game.players)
    sampler = _Orders(game, order, target_error, seed)
    # A target error usually takes far fewer orders than there are.
    worthwhile = most if target_error is None else min(most, DEFAULT_PERMUTATIONS)
    every = order.orders if order.orders <= _MOST_ORDERS else math.inf
    if game.sampled and target_error is not None:
        every = math.inf  # Only fresh draws estimate and reduce their own error.
    if every <= worthwhile:
        return sampler.enumerated()
    limit = int(min(most, every)) // 2
    for rows, numbers, bar in sampler.rounds(_rounds(limit, target_error), limit):
        sampler.take(rows, numbers, bar)
    if (
        len(sampler.above) and every <= most
    ):  # At the cost of this sample, all orders give exact values.
        return _Orders(game, order, target_error, seed).enumerated()
    sampler.warn()
    made_by = {"estimator": "permutation", "seed": seed, **order.provenance}
    return sampler.explanation(made_by, sampler.moments.counts.amin(1).cpu() - 1.0)


class _Orders(Sampler):
    """Marginal contributions along antithetic pairs of orders, the mean of each pair a sample."""

    unit, per_step = "permutations", 2

    def __init__(
        self, game: Evaluator, order: Ordering, target_error: float | None, seed: int
    ) -> None:
        super().__init__(game, target_error)
        self.order = order
        self.moments = Moments(game.shape, game.device, game.crossed)
        self.spread = self.moments.spread
        self.generator = torch.Generator().manual_seed(seed)
        self.keys = game.keys(seed)[:, None]
        self.every: Tensor | None = None  # All pairs, where they are enumerated.

    def take(self, rows: Tensor, numbers: range, bar: tqdm) -> None:
        # Draws are fresh for every pair, so that standard errors are of these, too; where all
        # orders share their draws, the values are exact for these.
        game, count, every = self.game, len(numbers), self.every
        if every is None:
            keys = _random.fold(self.keys, torch.tensor(numbers))
        else:
            keys = game.keys()[:, None].expand(-1, count)
        # As many rows at a time as fit one batch.
        for some in rows.split(game.rows_per_batch(2 * count * max(1, len(game.players) - 1))):
            if every is None:
                pairs = self.order.sample_pairs((len(some), count), self.generator)
            else:
                pairs = every.expand(len(some), -1, -1, -1)
            orders = pairs.to(game.device).flatten(1, 2)
            # An order and its reverse share their draws (common random numbers).
            values = game.along(some, orders, keys[some].repeat_interleave(2, 1))
            rank = orders.argsort(-1)[..., None].expand(-1, -1, -1, values.shape[-1])
            by_player = values.diff(dim=2).gather(2, rank)
            samples = by_player.unflatten(1, (-1, 2)).mean(2)
            self.moments.add(some, samples, values.amax((1, 2)) - values.amin((1, 2)))
            bar.update(len(some) * count)

    def estimate(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return self.moments.mean[rows.to(self.game.device)], self.moments.variance(rows)

    def enumerated(self) -> Explanation:
        """The result of all orders, each taken once."""
        self.every, rows = self.order.all_pairs(), torch.arange(len(self.game.x))
        pairs = len(self.every)
        with self.game.bar(len(rows) * pairs, self.unit, "step") as bar:
            self.take(rows, range(pairs), bar)
        made_by = {"estimator": "permutation", "permutations": 2 * pairs}
        return self.game.explanation(self.moments.mean, {**made_by, **self.order.provenance})


def _rounds(pairs: int, target_error: float | None) -> Iterator[range]:
    """Numbers of the pairs of each round."""
    # Small rounds first, so that an easy row stops early.
    done, size = 0, _PAIRS_PER_ROUND if target_error is None else _FIRST_ROUND
    while done < pairs:
        size = min(size, pairs - done)
        yield range(done, done + size)
        done += size
        size = min(done, _PAIRS_PER_ROUND)
