"""Estimates Shapley values from antithetic pairs of permutations.

A Shapley value is a player's expected marginal contribution when the players arrive in uniformly
random order; an asymmetric one, when they do so in an order that a partial order allows (Frye,
Rowat & Feige 2020). An order is evaluated together with its reverse, inside each component of
the partial order; the mean of the two is one sample, and standard errors are over these pairs.
Along one order the marginal contributions telescope, so they sum to v(N) - v(∅) whatever the number
of permutations.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from tqdm import tqdm

from manifold_shap import _random
from manifold_shap._checks import check_number, check_seed, check_whole
from manifold_shap.estimators.evaluator import Evaluator, check_one
from manifold_shap.estimators.moments import Moments
from manifold_shap.estimators.ragged import by_player_count
from manifold_shap.explanation import Explanation
from manifold_shap.ordering import Ordering

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
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool = False,
) -> Explanation:
    """Estimate Shapley values from orders of the players and their reverses.

        >>> game = lambda x, mask: (x[:, None] + mask).prod(-1, keepdim=True)
        >>> explanation = permutation_shapley(game, torch.tensor([[1.0, 2.0, 3.0]]), seed=1)
        >>> explanation.phi.flatten()  # Three players have six orders: all of them are taken.
        tensor([8.8333, 5.3333, 3.8333])

    Args:
        value: a `ValueFunction`, or a callable from rows `[batch, *event]` and a bool mask
            `[batch, m, players]` to values `[batch, m, outputs]`.
        x: rows to explain, `[instances, *event]`.
        evaluations: values of v per row, about; the budget in place of `permutations`.
        permutations: orders per row, an even number (an order and its reverse are a pair); 64 by
            default. With n! (or as many as `ordering` allows) or more and no `target_error`, every
            order is taken once and the result is exact, for the draws of a sampled value function.
        target_error: stop a row when its largest standard error falls below this share of the
            range of v on that row; `permutations` is then the most that a row may take (by
            default 65,536). Where orders are few all of them are taken instead, unless the value
            function is sampled: its draws go on until their error, too, is below.
        ordering: names of the players, component after component, as in `[["a", "b"], ["c"]]`:
            only orders in which earlier components come first are taken. By default all are.
        seed: of the orders. Same seed, same answer, for any `batch_size` and device.
        batch_size: model rows per call; by default what suits the value function and the device.
            Changes memory, not the numbers.
        progress: show a bar with the time left on work of more than two seconds.

    Returns:
        An explanation with standard errors over pairs, of orders and draws alike; NaN, not known,
        for a single pair, or where all orders share the draws of a sampled value function.

    Raises:
        ValueError: an odd or non-positive `permutations`, a `target_error` that is not positive,
            an `ordering` that does not name every player once.
        TypeError: an `ordering` that is no list of lists.
    """
    game = Evaluator(value, x, batch_size)
    if evaluations is not None:
        permutations = _affordable(permutations, evaluations, len(game.players))
    most = _most(permutations, target_error)
    seed = check_seed(seed)
    order = Ordering.of(ordering, game.players)
    # A target error takes far fewer than all n! orders, unless these are very few.
    worthwhile = most if target_error is None else min(most, DEFAULT_PERMUTATIONS)
    every = order.orders if order.orders <= _MOST_ORDERS else math.inf
    if game.sampled and target_error is not None:
        every = math.inf  # Only fresh draws estimate and reduce their own error.
    if every <= worthwhile:
        return _every_order(game, order, progress)
    limit = int(min(most, every)) // 2
    moments, active = _sampled(game, order, limit, target_error, seed, progress)
    if target_error is not None and len(active):
        if every <= most:  # At the cost of this sample, all orders give the exact values.
            return _every_order(game, order, progress)
        warnings.warn(
            f"{len(active)} of {len(game.x)} rows are above target_error={target_error} after "
            f"{most} permutations; give more `permutations` or a larger `target_error`.",
            stacklevel=2,
        )
    made_by = {**_made_by(moments, order), "seed": seed}
    if target_error is not None:
        made_by["target_error"] = target_error
    error, covariance = moments.standard_error(), moments.covariance()
    return game.explanation(moments.mean, error, made_by, covariance, moments.pairs - 1.0)


def _sampled(
    game: Evaluator,
    order: Ordering,
    limit: int,
    target_error: float | None,
    seed: int,
    progress: bool,
) -> tuple[Moments, Tensor]:
    """Moments over at most `limit` pairs, and the rows still above the target error."""
    generator = torch.Generator().manual_seed(seed)
    moments = _moments(game)
    active = torch.arange(len(game.x))
    row_keys = game.keys(active, seed)[:, None]
    with _bar(len(active) * limit, progress) as bar:
        for pairs in _rounds(limit, target_error):
            sample = partial(_sample, order, len(pairs), generator)
            # Draws are fresh for every pair, so that standard errors are of these, too.
            keys = _random.fold(row_keys, torch.arange(pairs.start, pairs.stop))
            _add_round(game, moments, active, sample, keys, bar)
            if target_error is not None:
                active, remaining = moments.unfinished(active, target_error)
                bar.total = bar.n + min(remaining, len(active) * limit)
            if len(active) == 0:
                break
    return moments, active


def _affordable(permutations: int | None, evaluations: int, players: int) -> int:
    """The permutations that a budget pays for."""
    check_one("permutations", permutations, evaluations)
    return max(2, check_whole("evaluations", evaluations) // max(1, players - 1) // 2 * 2)


def _most(permutations: int | None, target_error: float | None) -> int:
    if target_error is not None:
        check_number("target_error", target_error, above=0)
    if permutations is None:
        return DEFAULT_PERMUTATIONS if target_error is None else MAX_PERMUTATIONS
    if check_whole("permutations", permutations) % 2:
        raise ValueError(
            "Expected `permutations` to be a positive even number (orders come with their "
            f"reverses) but got {permutations}."
        )
    return permutations


def _every_order(game: Evaluator, order: Ordering, progress: bool) -> Explanation:
    pairs = order.all_pairs()
    moments = _moments(game)
    rows = torch.arange(len(game.x))
    # Draws are the same for all orders, and the values exact for these draws.
    keys = game.keys(rows)[:, None].expand(-1, len(pairs))
    with _bar(len(rows) * len(pairs), progress) as bar:
        _add_round(game, moments, rows, lambda count: pairs.expand(count, -1, -1, -1), keys, bar)
    error = game.error_of_enumeration(moments.mean)
    return game.explanation(moments.mean, error, _made_by(moments, order))


def _moments(game: Evaluator) -> Moments:
    rows, players, outputs = len(game.x), len(game.players), game.outputs
    return Moments(rows, players, outputs, game.device, crossed=game.crossed)


def _made_by(moments: Moments, order: Ordering) -> dict[str, Any]:
    taken = 2 * int(moments.pairs.max())
    return {"estimator": "permutation", "permutations": taken, **order.provenance}


def _bar(total: int, progress: bool) -> tqdm:
    return tqdm(total=total, desc="permutations", unit="pair", delay=2, disable=not progress)


def _rounds(pairs: int, target_error: float | None) -> Iterator[range]:
    """Numbers of the pairs of each round."""
    # Small rounds first, so that an easy row stops early. Sizes must not depend on `batch_size`,
    # or the orders would.
    done, size = 0, _PAIRS_PER_ROUND if target_error is None else _FIRST_ROUND
    while done < pairs:
        size = min(size, pairs - done)
        yield range(done, done + size)
        done += size
        size = min(done, _PAIRS_PER_ROUND)


def _sample(
    order: Ordering, pairs: int, generator: torch.Generator, rows: int
) -> Int64[Tensor, "rows pairs 2 players"]:
    return order.sample_pairs((rows, pairs), generator)


def _add_round(
    game: Evaluator,
    moments: Moments,
    rows: Tensor,
    orders_for: Callable[[int], Tensor],
    keys: Int64[Tensor, "instances pairs"],
    bar: tqdm,
) -> None:
    """Evaluate the pairs of a round, as many rows at a time as fit one batch."""
    pairs = keys.shape[1]
    per_row = 2 * pairs * max(1, len(game.players) - 1) * game.draws
    for some in rows.split(max(1, game.batch_size // per_row)):
        orders = orders_for(len(some)).to(game.device)
        moments.add(some, *_contributions(game, some, orders, keys[some]))
        bar.update(len(some) * pairs)


def _contributions(
    game: Evaluator,
    rows: Tensor,
    orders: Int64[Tensor, "rows pairs 2 players"],
    keys: Int64[Tensor, "rows pairs"],
) -> tuple[Float[Tensor, "rows pairs players outputs"], Float[Tensor, "rows outputs"]]:
    """Mean marginal contributions of each pair of orders, and the range of v on each row."""
    orders = orders.flatten(1, 2)
    rank = orders.argsort(-1)
    # An order and its reverse share their draws (common random numbers).
    values = game.along(rows, orders, keys.repeat_interleave(2, 1))
    arrival = values.diff(dim=2)
    by_player = arrival.gather(2, rank[..., None].expand(-1, -1, -1, values.shape[-1]))
    spread = values.amax((1, 2)) - values.amin((1, 2))
    return by_player.unflatten(1, (-1, 2)).mean(2), spread
