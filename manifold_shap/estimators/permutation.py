"""Shapley values from paired permutations: all outputs of many rows at once.

A Shapley value is a player's expected marginal contribution when the players arrive in uniformly
random order. An order is walked together with its reverse; the mean of the two is one sample, and
standard errors are over these pairs. Along one order the contributions telescope, so they sum to
v(N) - v(∅) whatever the number of permutations.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from tqdm import tqdm

from manifold_shap import noise
from manifold_shap.coalitions import all_orders, sample_orders
from manifold_shap.estimators.game import Game
from manifold_shap.explanation import Explanation

DEFAULT_PERMUTATIONS = 64
MAX_PERMUTATIONS = 2**16
_PAIRS_PER_ROUND = 32
_FIRST_ROUND = 8


def permutation_shapley(
    value: Callable[[Tensor, Tensor], Tensor],
    x: Any,
    *,
    permutations: int | None = None,
    target_error: float | None = None,
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool = False,
) -> Explanation:
    """Estimate Shapley values from orders of the players and their reverses.

    Args:
        value: any callable from rows `[batch, *event]` and a bool mask `[batch, m, players]` to
            values `[batch, m, outputs]`; see `Game`.
        x: rows to explain, `[instances, *event]`.
        permutations: orders per row, an even number (an order and its reverse are a pair); 64 by
            default. With n! or more and no `target_error`, all n! orders are walked once and the
            result is exact.
        target_error: stop a row when its largest standard error falls below this share of the
            range of v on that row; `permutations` is then the most that a row may take (by
            default 65,536).
        seed: of the orders. Same seed, same answer, for any `batch_size` and device.
        batch_size: model rows per call; by default 4,096 on a CPU and 65,536 elsewhere. Changes
            memory, not the numbers.
        progress: show a bar with the time left on work of more than two seconds.

    Returns:
        An explanation with standard errors over pairs (NaN where there is one pair only).

    Raises:
        ValueError: an odd or non-positive `permutations`, a `target_error` that is not positive.
    """
    most = _most(permutations, target_error)
    game = Game(value, x, batch_size)
    # A target is met by far fewer than all n! orders, unless they are very few.
    worthwhile = most if target_error is None else min(most, DEFAULT_PERMUTATIONS)
    # Ten players have 3.6 million orders: more than anybody walks.
    every = math.factorial(len(game.players)) if len(game.players) < 10 else math.inf
    if every <= worthwhile:
        return _every_order(game, progress)
    limit = int(min(most, every)) // 2
    generator = torch.Generator().manual_seed(seed)
    running = _Running(game, seed)
    active = torch.arange(len(game.x))
    with _bar(len(active) * limit, progress) as bar:
        for size in _round_sizes(limit, target_error):
            _walk_round(game, running, active, partial(_sample, game, size, generator), bar)
            if target_error is not None:
                active, remaining = running.unfinished(active, target_error)
                bar.total = bar.n + min(remaining, len(active) * limit)
            if len(active) == 0:
                break
    if target_error is not None and len(active):
        if every <= most:  # For what sampling has cost, all orders give the exact values.
            return _every_order(game, progress)
        warnings.warn(
            f"{len(active)} of {len(game.x)} rows are above target_error={target_error} after "
            f"{most} permutations; give more `permutations` or a larger `target_error`.",
            stacklevel=2,
        )
    made_by = running.made_by(seed=seed, target_error=target_error)
    return game.explanation(running.mean, running.standard_error(), made_by)


def _most(permutations: int | None, target_error: float | None) -> int:
    if target_error is not None and not target_error > 0:
        raise ValueError(f"Expected `target_error` to be positive but got {target_error}.")
    if permutations is None:
        return DEFAULT_PERMUTATIONS if target_error is None else MAX_PERMUTATIONS
    if permutations < 2 or permutations % 2:
        raise ValueError(
            "Expected `permutations` to be a positive even number (orders come with their "
            f"reverses) but got {permutations}."
        )
    return permutations


def _every_order(game: Game, progress: bool) -> Explanation:
    # One order of each pair: the other is walked with it.
    orders = all_orders(len(game.players))[::2]
    # Draws are then the same for all orders, and the values exact for these draws.
    running = _Running(game, seed=None)
    rows = torch.arange(len(game.x))
    with _bar(len(rows) * len(orders), progress) as bar:
        _walk_round(game, running, rows, lambda count: orders.expand(count, -1, -1), bar)
    return game.explanation(running.mean, torch.zeros_like(running.mean), running.made_by())


def _bar(total: int, progress: bool) -> tqdm:
    return tqdm(total=total, desc="permutations", unit="pair", delay=2, disable=not progress)


def _round_sizes(pairs: int, target_error: float | None) -> Iterator[int]:
    # Small rounds first, so that an easy row can stop early; the sizes must not depend on
    # `batch_size`, or the orders would.
    done, size = 0, _PAIRS_PER_ROUND if target_error is None else _FIRST_ROUND
    while done < pairs:
        size = min(size, pairs - done)
        yield size
        done += size
        size = min(done, _PAIRS_PER_ROUND)


def _sample(
    game: Game, pairs: int, generator: torch.Generator, rows: int
) -> Int64[Tensor, "rows pairs players"]:
    return sample_orders((rows, pairs), len(game.players), generator)


def _walk_round(
    game: Game,
    running: "_Running",
    rows: Tensor,
    orders_for: Callable[[int], Tensor],
    bar: tqdm,
) -> None:
    """Walk the orders of a round, as many rows at a time as fit one batch."""
    pairs = orders_for(0).shape[1]
    per_row = 2 * pairs * max(1, len(game.players) - 1) * game.draws
    for some in rows.split(max(1, game.batch_size // per_row)):
        orders = orders_for(len(some)).to(game.device)
        running.add(some, *_walk(game, some, orders, running.keys(some, pairs)))
        bar.update(len(some) * pairs)


def _walk(
    game: Game,
    rows: Tensor,
    orders: Int64[Tensor, "rows pairs players"],
    keys: Int64[Tensor, "rows pairs"],
) -> tuple[Float[Tensor, "rows pairs players outputs"], Float[Tensor, "rows outputs"]]:
    """Mean contributions of each pair of orders, and the range of v seen on each row."""
    both = torch.stack((orders, orders.flip(-1)), dim=2).flatten(1, 2)
    rank = both.argsort(-1)
    # An order and its reverse share their draws, too.
    values = values_along(game, rows, rank, keys.repeat_interleave(2, 1))
    arrival = values.diff(dim=2)
    by_player = arrival.gather(2, rank[..., None].expand(-1, -1, -1, values.shape[-1]))
    spread = values.amax((1, 2)) - values.amin((1, 2))
    return by_player.unflatten(1, (-1, 2)).mean(2), spread


def values_along(
    game: Game,
    rows: Tensor,
    rank: Int64[Tensor, "rows orders players"],
    keys: Int64[Tensor, "rows orders"],
) -> Float[Tensor, "rows orders players+1 outputs"]:
    """v of the coalitions that grow along each order, from nobody to everybody.

    Args:
        game: the opened value function.
        rows: indices of its rows.
        rank: place of each player in each order.
        keys: one per order; its coalitions share the random numbers of a sampled value function.
    """
    count, players = rank.shape[1:]
    per_order = players - 1
    # Narrow integers make the memory-bound comparison cheaper.
    narrow = rank.to(torch.int16) if players < 2**15 else rank
    last = torch.arange(per_order, device=rank.device).to(narrow.dtype)[:, None]

    def grown(start: int, stop: int) -> Tensor:
        if stop - start < per_order:
            # A whole order takes n(n-1) bytes a row, whatever the batch.
            at = torch.arange(start, stop, device=rank.device)
            return narrow[:, at // per_order] <= last[at % per_order]
        # Whole orders are compared at once, and the ends cut to size.
        first = start // per_order
        orders = narrow[:, first : -(-stop // per_order), None]
        nested = (orders <= last).flatten(1, 2)
        return nested[:, start - first * per_order : stop - first * per_order]

    inner = game.evaluate(rows, grown, count * per_order, keys.repeat_interleave(per_order, 1))
    inner = inner.unflatten(1, (count, per_order))
    prediction = game.prediction[rows.to(game.device)]
    shape = (len(rows), count, 1, -1)
    return torch.cat(
        (game.base.expand(shape), inner, prediction[:, None, None].expand(shape)), dim=2
    )


class _Running:
    """Mean and spread of the pairs' contributions, row by row, in float64."""

    def __init__(self, game: Game, seed: int | None) -> None:
        self.row_keys = game.keys(torch.arange(len(game.x)), 0 if seed is None else seed)
        self.same_keys = seed is None
        shape = (len(game.x), len(game.players), len(game.base))
        self.pairs = torch.zeros(len(game.x), dtype=torch.int64)
        self.mean = torch.zeros(shape, dtype=torch.float64, device=game.device)
        self.squares = torch.zeros_like(self.mean)
        self.range = torch.zeros(shape[0], shape[2], device=game.device)

    def add(self, rows: Tensor, contributions: Tensor, spread: Tensor) -> None:
        """Take in new pairs `[rows, pairs, players, outputs]` (Chan et al. 1983)."""
        new = contributions.shape[1]
        before = self.pairs[rows].to(self.mean.device)[:, None, None]
        mean = contributions.mean(1, dtype=torch.float64)
        squares = (contributions - mean[:, None]).square().sum(1)
        where = rows.to(self.mean.device)
        shift = mean - self.mean[where]
        self.squares[where] += squares + shift.square() * (before * new / (before + new))
        self.mean[where] += shift * (new / (before + new))
        self.pairs[rows] += new
        self.range[where] = self.range[where].maximum(spread)

    def keys(self, rows: Tensor, pairs: int) -> Int64[Tensor, "rows pairs"]:
        """For the next pairs of these rows; without a seed the key of the row for all pairs."""
        keys = self.row_keys[rows, None]
        if self.same_keys:
            return keys.expand(-1, pairs)
        return noise.fold(keys, self.pairs[rows, None] + torch.arange(pairs))

    def made_by(self, **settings: float | int | None) -> dict[str, float | int | str]:
        """For the provenance of the explanation."""
        given = {name: setting for name, setting in settings.items() if setting is not None}
        return {"estimator": "permutation", "permutations": 2 * int(self.pairs.max()), **given}

    def standard_error(self) -> Float[Tensor, "rows players outputs"]:
        """Of the means, over pairs; NaN for a row with one pair only."""
        pairs = self.pairs.to(self.mean.device)[:, None, None]
        variance = self.squares / (pairs - 1)
        return torch.where(pairs > 1, (variance / pairs).sqrt(), torch.nan)

    def unfinished(self, rows: Tensor, target_error: float) -> tuple[Tensor, int]:
        """Rows above the target, and a guess of the pairs that they still need."""
        where = rows.to(self.mean.device)
        worst = self.standard_error()[where].amax((1, 2))
        target = target_error * self.range[where].amax(1)
        # The error of a single pair is unknown (NaN), not small; a constant game has 0 <= 0.
        above = ~(worst <= target).cpu()
        ratio = (worst / target).cpu().nan_to_num(nan=1.0, posinf=1.0)
        needed = self.pairs[rows] * (ratio.square() - 1)
        return rows[above], int(needed[above].sum())
