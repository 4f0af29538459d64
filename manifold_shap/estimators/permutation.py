"""Estimates Shapley values from antithetic pairs of permutations.

A Shapley value is a player's expected marginal contribution when the players arrive in uniformly
random order; an asymmetric one, when they do so in an order that a partial order allows (Frye,
Rowat & Feige 2020). An order is evaluated together with its reverse, inside each component of
the partial order; the mean of the two is one sample, and standard errors are over these pairs. If a
causal graph allows no reverse, the second order is drawn by the opposite random numbers.
Along one order the marginal contributions telescope, so they sum to v(N) - v(∅) whatever the number
of permutations. With a law of orders of one's own, w(π), values are Σ_π w(π) · contributions along
π (Carballo 2022, Eq. 3.5.1): of listed orders exactly, or by single orders that a function draws.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap import _random
from manifold_shap._checks import check_whole
from manifold_shap._messages import shown
from manifold_shap.coalitions import Nested
from manifold_shap.estimators.evaluator import Evaluator
from manifold_shap.estimators.runner import Asking, Result, explain
from manifold_shap.estimators.sampling import Moments, Sampler, check_one_budget
from manifold_shap.explanation import Explanation
from manifold_shap.ordering import Relations
from manifold_shap.tables.rows import constant_players
from manifold_shap.values.selected import Outputs

DEFAULT_PERMUTATIONS = 64
MAX_PERMUTATIONS = 2**16
# Ten players have 3.6 million orders, too many to evaluate them all.
_MOST_ORDERS = math.factorial(9)
_PAIRS_PER_ROUND = 32
_FIRST_ROUND = 8


def permutation_shapley(
    value: Any,
    x: Any,
    *,
    evaluations: int | None = None,
    permutations: int | None = None,
    target_error: float | None = None,
    ordering: Relations = None,
    orders: Any = None,
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
        permutations: orders per row, an order and its reverse together; 64 by default. With n! (or
            as many as `ordering` allows) or more and no `target_error`, every order is taken once
            and the result is exact, for the draws of a sampled value function.
        target_error: stop a row when its largest standard error falls below this share of the
            range of v on that row; `permutations` is then the most that a row may take (by
            default 65,536). Where orders are few all of them are taken instead, unless the value
            function is sampled: the error of its draws has to meet the target, too.
        ordering: names of the players, component after component, as in `[["a", "b"], ["c"]]`, or
            the causes of each player, as in `{"c": ["a"]}`: only orders in which earlier components
            or causes come first are taken. Or an `Ordering`, such as that of groups that stay
            together, for Owen values (`Ordering.of_groups`). By default all are.
        orders: in place of `ordering`, a law of orders: a list of orders with their weights, as in
            `[(["a", "b"], 0.7), (["b", "a"], 0.3)]`, all taken for an exact weighted mean; or a
            function `orders(count, generator)` that draws so many independent orders from a
            `torch.Generator`, int64 `[count, players]`, entry k the number of the player that comes
            k-th. Errors are then over single orders, which have no reverse.
        outputs: those to explain: names or positions, one or a list; by default all. See
            `ValueFunction.select`.
        seed: of the orders. Same seed, same answer, for any `batch_size` and device.
        batch_size: model rows per call; changes memory and time, not the numbers.
        progress: show a bar with the time left on work of more than two seconds; by default
            where a person looks.

    Returns:
        An explanation with standard errors over pairs, from orders and draws; NaN (unknown) for a
        single pair, or where all orders share the draws of a sampled value function. The variance
        of m pairs is that of a player, (m-1)/m, and the mean of all players, 1/m, since a few pairs
        may agree by chance: without it, intervals from two pairs would be far too narrow.

    Raises:
        ValueError: `permutations` below 1, or `evaluations` beside it; a
            `target_error` that is not positive; an `ordering` that `Ordering` refuses; `orders`
            beside it, or that do not have every player once, or whose weights are negative, not
            finite or all zero.
        TypeError: an `ordering` that is no list of lists, mapping or `Ordering`.

    >>> mostly = [(["x0", "x1", "x2"], 3), (["x2", "x0", "x1"], 1)]
    >>> permutation_shapley(game, torch.tensor([[1.0, 2.0, 3.0]]), orders=mostly).phi.flatten()
    tensor([6.5000, 6.5000, 5.0000])
    """
    if orders is not None and ordering is not None:
        raise ValueError("Expected `ordering` or `orders` but got both; leave one of them out.")
    return explain(estimator=permutation, **locals())


def permutation(
    game: Evaluator,
    evaluations: int | None = None,
    permutations: int | None = None,
    target_error: float | None = None,
    orders: Any = None,
    seed: int = 0,
) -> Asking[Result]:
    """The estimator of `permutation_shapley`."""
    if orders is not None and not callable(orders):
        listed, probability = _checked_orders(orders, game)
        found = yield from _enumerated(game, listed, seed, probability)
        return found._replace(made_by={**found.made_by, "orders": len(listed)})
    order, each = game.order, 2 if orders is None else 1
    if evaluations is not None:
        check_one_budget("permutations", permutations, evaluations)
        permutations = max(1, evaluations // max(1, len(game.players) - 1))
    if permutations is None:
        permutations = DEFAULT_PERMUTATIONS if target_error is None else MAX_PERMUTATIONS
    most = max(each, check_whole("permutations", permutations) // each * each)
    # A target error usually takes far fewer orders than there are.
    worthwhile = most if target_error is None else min(most, DEFAULT_PERMUTATIONS)
    every = order.allowed.count if order.allowed.count <= _MOST_ORDERS else math.inf
    if orders is not None or (game.sampled and target_error is not None):
        every = math.inf  # Only fresh draws estimate and reduce their own error.
    if every <= worthwhile:
        return (yield from _enumerated(game, order.allowed.all(), seed))
    sampler = _Orders(game, target_error, seed, orders)
    limit = int(min(most, every)) // each
    yield from sampler.run(_rounds(limit, target_error), limit, warns=every > most)
    if len(sampler.above) and every <= most:
        # At the cost of this sample, all orders give exact values.
        return (yield from _enumerated(game, order.allowed.all(), seed))
    made_by: dict[str, Any] = {"estimator": "permutation", "seed": seed}
    if orders is not None:
        made_by["orders"] = getattr(orders, "__name__", type(orders).__name__)
    return sampler.result(made_by, sampler.moments.counts.amin(1).cpu() - 1.0)


class _Orders(Sampler):
    """Marginal contributions along antithetic pairs of orders, the mean of each pair a sample.

    Where a function draws orders, each of them is a sample.
    """

    unit = "permutations"

    def __init__(
        self,
        game: Evaluator,
        target_error: float | None,
        seed: int,
        draw: Callable[..., Any] | None,
    ) -> None:
        super().__init__(game, target_error)
        self.draw, self.per_step = draw, 1 if draw else 2
        self.asked = self.per_step
        self.moments = Moments(game.shape, game.device, game.full_covariance)
        self.generator = torch.Generator().manual_seed(seed)
        self.keys = game.keys(seed)[:, None]

    def take(self, rows: Tensor, numbers: range) -> Asking[None]:
        # Draws are fresh for every pair, so that standard errors are of these, too.
        game, count = self.game, len(numbers)
        keys = _random.fold(self.keys, torch.tensor(numbers))
        for some in game.blocks(self.per_step * count * (len(game.players) + 1), rows):
            orders = self._drawn(len(some), count).flatten(1, 2).to(game.device)
            # An order and its reverse share their draws (common random numbers).
            asked = Nested(orders, keys[some].repeat_interleave(self.per_step, 1))
            values = yield some, asked
            self.see(some, values)
            samples = _contributions(values, orders).unflatten(1, (-1, self.per_step))
            self.moments.add(some, samples.mean(2))

    def _drawn(self, rows: int, count: int) -> Int64[Tensor, "rows count halves players"]:
        if self.draw is None:
            pairs = self.game.order.allowed.draw(rows * count, self.generator)
            return pairs.unflatten(0, (rows, count))
        # Row by row, or the batch size would decide which numbers a row gets.
        drawn = [torch.as_tensor(self.draw(count, self.generator)) for _ in range(rows)]
        every = torch.arange(len(self.game.players))
        for orders in drawn:
            if orders.shape != (count, len(every)) or not bool(
                (orders.sort(-1).values == every).all()
            ):
                raise ValueError(
                    f"Expected `orders` to draw {count} orders of 0, 1, ..., {len(every) - 1} but "
                    f"got {shown(orders.tolist(), 2)}."
                )
        return torch.stack(drawn).long()[:, :, None]

    def estimate(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        moments, where = self.moments, rows.to(self.game.device)
        variance = moments.variance(rows)
        if not self.game.order.restricts and self.draw is None:
            # A few pairs may agree by chance: those of all players count as one pair more.
            others = variance.mean(1, keepdim=True)
            variance = variance + (others - variance) / moments.counts[where].amin()
        return moments.mean[where], variance


def _enumerated(
    game: Evaluator,
    orders: Int64[Tensor, "orders players"],
    seed: int,
    probability: Float[Tensor, " orders"] | None = None,
) -> Asking[Result]:
    """The mean of these orders, each taken once, with the same draws: exact for these."""
    count, orders = len(orders), orders.to(game.device)
    if probability is None:
        probability = torch.full((count,), 1 / count, dtype=torch.float64)
    probability = probability.to(game.device)
    game.batches.bar.total = len(game.x) * count
    found = []
    for rows in game.blocks(count * (len(game.players) + 1)):
        every = orders.expand(len(rows), -1, -1)
        values = yield rows, Nested(every, game.keys(seed)[rows, None])
        samples = _contributions(values, every).double()
        found.append(torch.einsum("s,bspo->bpo", probability, samples))
    return Result(torch.cat(found), {"estimator": "permutation", "permutations": count})


def _contributions(
    values: Float[Tensor, "rows orders sizes outputs"], orders: Int64[Tensor, "rows orders players"]
) -> Float[Tensor, "rows orders players outputs"]:
    """Marginal contributions along orders, by player."""
    rank = orders.argsort(-1)[..., None].expand(-1, -1, -1, values.shape[-1])
    return values.diff(dim=2).gather(2, rank)


def _rounds(pairs: int, target_error: float | None) -> Iterator[range]:
    """Numbers of the pairs of each round."""
    # Small rounds first, so that an easy row stops early.
    done, size = 0, _PAIRS_PER_ROUND if target_error is None else _FIRST_ROUND
    while done < pairs:
        size = min(size, pairs - done)
        yield range(done, done + size)
        done += size
        size = min(done, _PAIRS_PER_ROUND)


def _checked_orders(
    given: Any, game: Evaluator
) -> tuple[Int64[Tensor, "orders players"], Float[Tensor, " orders"]]:
    """Listed orders by numbers, and their probabilities; without players that do not play."""
    every = game.value.players
    constants = constant_players(every, game.value.spec.table)
    listed = [[name for name in names if name not in constants] for names, _ in given]
    for names in listed:
        if sorted(names) != sorted(every.names):
            raise ValueError(
                f"Expected every order of `orders` to name all players, {shown(every.names)}, once "
                f"but got {names}."
            )
    weights = torch.tensor([float(weight) for _, weight in given], dtype=torch.float64)
    if not bool((weights.isfinite() & (weights >= 0)).all() and weights.sum() > 0):
        raise ValueError(
            "Expected weights of `orders` that are finite, not negative and not all zero but got "
            f"{shown(weights.tolist(), 3)}."
        )
    number = {name: k for k, name in enumerate(game.players.names)}
    orders = [[number[name] for name in names if name in number] for names in listed]
    return torch.tensor(orders), weights / weights.sum()
