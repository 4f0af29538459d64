"""Shapley values from paired permutations: all outputs of many rows at once.

A Shapley value is a player's expected marginal contribution when the players arrive in uniformly
random order. An order is walked together with its reverse; the mean of the two is one sample, and
standard errors are over these pairs. Along one order the contributions telescope, so they sum to
v(N) - v(∅) whatever the number of permutations.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from tqdm import tqdm

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
    every = _every_order(len(game.players), worthwhile)
    sizes = _round_sizes(most // 2, target_error) if every is None else iter([len(every)])
    generator = torch.Generator().manual_seed(seed)
    running = _Running(game)
    active = torch.arange(len(game.x))
    with tqdm(desc="permutations", unit="pair", delay=2, disable=not progress) as bar:
        bar.total = len(active) * (most // 2 if every is None else len(every))
        for size in sizes:
            for rows in active.split(_rows_per_block(game, size)):
                orders = _orders(every, len(rows), size, len(game.players), generator)
                running.add(rows, *_walk(game, rows, orders.to(game.device)))
                bar.update(len(rows) * size)
            if target_error is not None and every is None:
                active, remaining = running.unfinished(active, target_error)
                bar.total = bar.n + min(remaining, len(active) * (most // 2))
            if len(active) == 0:
                break
        else:
            _warn_of_unfinished(active, len(game.x), target_error, most, every)
    error = running.standard_error() if every is None else torch.zeros_like(running.mean)
    made_by = {
        "estimator": "permutation",
        "permutations": 2 * int(running.pairs.max()),
        "seed": seed,
    }
    return game.explanation(running.mean, error, made_by)


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


def _every_order(players: int, most: int) -> Tensor | None:
    # One order of each pair, if `most` covers all of them. Ten players have 3.6 million orders.
    if players > 9 or math.factorial(players) > most:
        return None
    return all_orders(players)[::2]


def _round_sizes(pairs: int, target_error: float | None) -> Iterator[int]:
    # Small rounds first, so that an easy row can stop early; the sizes must not depend on
    # `batch_size`, or the orders would.
    done, size = 0, _PAIRS_PER_ROUND if target_error is None else _FIRST_ROUND
    while done < pairs:
        size = min(size, pairs - done)
        yield size
        done += size
        size = min(done, _PAIRS_PER_ROUND)


def _rows_per_block(game: Game, pairs: int) -> int:
    per_row = 2 * pairs * max(1, len(game.players) - 1) * game.draws
    return max(1, game.batch_size // per_row)


def _orders(
    every: Tensor | None, rows: int, pairs: int, players: int, generator: torch.Generator
) -> Int64[Tensor, "rows pairs players"]:
    if every is not None:
        return every.expand(rows, -1, -1)
    return sample_orders((rows, pairs), players, generator)


def _walk(
    game: Game, rows: Tensor, orders: Int64[Tensor, "rows pairs players"]
) -> tuple[Float[Tensor, "rows pairs players outputs"], Float[Tensor, "rows outputs"]]:
    """Mean contributions of each pair of orders, and the range of v seen on each row."""
    both = torch.stack((orders, orders.flip(-1)), dim=2).flatten(1, 2)
    rank = both.argsort(-1)
    values = values_along(game, rows, rank)
    arrival = values.diff(dim=2)
    by_player = arrival.gather(2, rank[..., None].expand(-1, -1, -1, values.shape[-1]))
    spread = values.amax((1, 2)) - values.amin((1, 2))
    return by_player.unflatten(1, (-1, 2)).mean(2), spread


def values_along(
    game: Game, rows: Tensor, rank: Int64[Tensor, "rows orders players"]
) -> Float[Tensor, "rows orders players+1 outputs"]:
    """v of the coalitions that grow along each order, from nobody to everybody.

    Args:
        game: the opened value function.
        rows: indices of its rows.
        rank: place of each player in each order.
    """
    count, players = rank.shape[1:]
    # Masks are compared chunk by chunk; narrow integers make that memory-bound step cheaper.
    narrow = rank.to(torch.int16) if players < 2**15 else rank

    def grown(which: Tensor) -> Tensor:
        order, size = which // (players - 1), which % (players - 1)
        return narrow[:, order] <= size[:, None].to(narrow.dtype)

    inner = game.evaluate(rows, grown, count * (players - 1))
    inner = inner.unflatten(1, (count, players - 1))
    prediction = game.prediction[rows.to(game.device)]
    shape = (len(rows), count, 1, -1)
    return torch.cat(
        (game.base.expand(shape), inner, prediction[:, None, None].expand(shape)), dim=2
    )


class _Running:
    """Mean and spread of the pairs' contributions, row by row, in float64."""

    def __init__(self, game: Game) -> None:
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


def _warn_of_unfinished(
    active: Tensor, rows: int, target_error: float | None, most: int, every: Tensor | None
) -> None:
    if target_error is not None and every is None and len(active):
        warnings.warn(
            f"{len(active)} of {rows} rows are above target_error={target_error} after {most} "
            "permutations; give more `permutations` or a larger `target_error`.",
            stacklevel=3,
        )
