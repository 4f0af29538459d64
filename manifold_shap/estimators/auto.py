"""Chooses the estimator that suits a game: by its players, outputs and costs."""

from dataclasses import replace
from typing import Any

from manifold_shap.estimators.coalition import (
    DEFAULT_COALITIONS,
    affordable,
    coalition_shapley,
    linearization,
)
from manifold_shap.estimators.evaluator import Evaluator
from manifold_shap.estimators.exact import MAX_PLAYERS, exact_shapley
from manifold_shap.estimators.kernel import kernel_shapley
from manifold_shap.estimators.odd import odd_shapley
from manifold_shap.estimators.permutation import permutation_shapley
from manifold_shap.estimators.ragged import by_player_count
from manifold_shap.explanation import Explanation
from manifold_shap.ordering import Ordering, Relations
from manifold_shap.values.selected import Outputs

# Evaluations per player, in general, of large rows, of drawn values and of regressions with
# interactions, and where contributions are linearized; and model rows that take hardly any time, if
# they are not large.
_EVALUATIONS, _FEWER_EVALUATIONS = DEFAULT_COALITIONS, 64
_EVALUATIONS_LINEARIZED = 128
_LEAST_ROWS = 8192
# Fewer give poor standard errors.
_FEWEST_COALITIONS = 64
# Players whose coalitions are all evaluated where values are drawn.
_MOST_DRAWN = 6
# Bounds of regressions on fast networks: players, evaluations per player, share of all
# coalitions.
_MOST_FITTED = 20
_LEAST_FITTED = 32
_LEAST_SHARE = 1 / 8
# Bounds of regressions with interactions: players, and evaluations for each.
_FEWEST_INTERACTING, _MOST_INTERACTING = 3, 128
_LEAST_INTERACTING = 5
# Their time and memory grow with evaluations: so many are fitted at most, in 1 to 2 seconds. From
# the larger number on, contributions are as precise in some games.
_MOST_FITTED_INTERACTING, _MOST_INTERACTING_EVALUATIONS = 2**14, 2**16


@by_player_count
def auto_shapley(
    value: Any,
    x: Any,
    *,
    evaluations: int | None = None,
    target_error: float | None = None,
    ordering: Relations = None,
    outputs: Outputs = None,
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool | None = None,
) -> Explanation:
    """Shapley values by the estimator that suits the game; `made_by["auto"]` says which and why.

        >>> import torch
        >>> game = lambda x, mask: (x[:, None] * mask).sum(-1, keepdim=True)
        >>> auto_shapley(game, torch.tensor([[1.0, 2.0]])).made_by["auto"]
        'exact: all 4 coalitions'

    - All coalitions, where they cost no more than `evaluations` and nothing is drawn: exact. Of up
      to 6 players also where values are drawn, as often for each coalition as `evaluations` allow,
      twice at least.
    - Networks that are fast, those whose contributions can be linearized: the contributions of all
      players at sampled coalitions (`coalition_shapley`), linearized where that is cheaper, or, of
      up to 20 players and with an eighth of all coalitions, a regression (`kernel_shapley`).
    - A regression with interactions (`odd_shapley`) of up to 128 players, on 5 evaluations or more
      for each, where nothing is drawn: on 16,384 at most, where more were allowed, and not beyond
      65,536.
    - The contributions of all players at sampled coalitions, computed in full, of more players or
      with more evaluations, where nothing is drawn.
    - Orders of the players (`permutation_shapley`), where values are drawn, an ordering restricts
      the orders, or `evaluations` are too few for the others.

    The bounds were measured, on other games than those of the benchmarks. For 5 to 80 evaluations
    for each player, a regression with interactions had 0.1 to 0.95 times the error of any other
    estimator, less with more of them: perceptrons, trees and support vectors of 10 to 40 features,
    products, and random games. It takes 0.1 to 0.9 seconds for a row and output, though, in which
    fast networks give ten times as many values or more, and a smaller error. With the most that it
    is given, 16,384 evaluations, it takes 1 to 2 seconds and 200 MB; contributions had the same
    error with 4 times as many evaluations or more, for perceptrons, trees and support vectors of 24
    and 60 features. Where values are drawn, draws cancel along an order, but not between a
    coalition and its complement: of 10 and 24 players, orders had 0.7 to 0.95 times the error of
    contributions, and 0.5 to 1.1 times that of regressions with one draw, 1 to 1.2 times with
    eight. For 4 to 6 players and as many evaluations, all coalitions had 0.2 to 0.8 times the error
    of the better of contributions and orders with Gaussian draws given x_S, and 0.5 to 1.3 times
    with marginal draws. On an eighth of all coalitions, regressions had 0.4 to 1 times the error of
    contributions in equal time (surrogates of 12 to 16 players, of perceptrons and of products with
    steps), 0.6 to 1.2 times on a sixteenth.

    Args:
        value: a `ValueFunction`, or a callable; see `as_value_function`.
        x: rows to explain, `[instances, *event]`.
        evaluations: values of v per row, about (fewer, where a regression with interactions would
            fit more than 16,384); by default all where 8,192 model rows are enough, 64 for each
            player in a regression with interactions and along orders of more than 6 where values
            are drawn (each is the mean over many model rows), otherwise 256 for each, 128 where
            contributions are linearized, or what 8,192 model rows are enough for. Of value
            functions with a smaller `batch_size`, whose rows are large, 64 for each player, or what
            one such batch is enough for. With `target_error`, the most.
        target_error: stop a row when its largest standard error falls below this share of the
            range of v on that row.
        ordering: see `permutation_shapley`.
        outputs: those to explain: names or positions, or how many of those with the largest mean
            predictions; by default all. See `ValueFunction.select`.
        seed: of coalitions or orders. Same seed, same answer, for any `batch_size`.
        batch_size: model rows per call; changes memory and time, not the numbers.
        progress: show a bar with the time left on work of more than two seconds; by default
            where a person looks.

    Raises:
        ValueError: `evaluations` below 1, or arguments that the chosen estimator refuses.
        TypeError: an `ordering` that `Ordering` refuses, `evaluations` that are no whole number.
    """
    game = Evaluator(value, value.rows(x)[:1], batch_size)
    order = Ordering.of(ordering, game.players)
    players = len(game.players)
    budget = evaluations or _usual_budget(game)
    common: dict[str, Any] = {"seed": seed, "batch_size": batch_size, "progress": progress}
    if _suits_enumeration(game, order, budget, target_error):
        common["evaluations"] = budget
        found = exact_shapley(value, x, ordering=ordering, **common)
        return _with_choice(found, f"exact: all {order.coalitions_count} coalitions")
    if not order.restricts and target_error is None:
        why = f"a regression of {players} players on pairs of coalitions"
        if _suits_regression(game, budget):
            found = kernel_shapley(value, x, evaluations=budget // 2 * 2, **common)
            return _with_choice(found, f"kernel: {why}")
        if _suits_interactions(game, budget):
            found = odd_shapley(value, x, evaluations=_interacting(players, evaluations), **common)
            return _with_choice(found, f"odd: {why}, with interactions")
    common["target_error"] = target_error
    common["evaluations"] = budget if evaluations or target_error is None else None
    if not order.restricts and not game.sampled and affordable(game, budget) >= _FEWEST_COALITIONS:
        found = coalition_shapley(value, x, **common)
        kind = "linearized and corrected" if found.made_by["linearized"] else "exact"
        why = f"contributions of all {players} players at once, {kind}"
        return _with_choice(found, f"coalition: {why}")
    found = permutation_shapley(value, x, ordering=ordering, **common)
    why = "there are few evaluations"
    if game.sampled or order.restricts:
        why = "values are drawn" if not order.restricts else "an ordering restricts them"
    return _with_choice(found, f"permutation: orders of {players} players, since {why}")


def _usual_budget(game: Evaluator) -> int:
    """Evaluations per row where nobody says how many."""
    rows = min(_LEAST_ROWS, game.value.batch_size or _LEAST_ROWS)
    drawn = game.sampled and len(game.players) > _MOST_DRAWN
    each = _FEWER_EVALUATIONS if rows < _LEAST_ROWS or drawn else _EVALUATIONS
    if linearization(game):
        each = _EVALUATIONS_LINEARIZED
    return max(each * (len(game.players) + 1), rows // game.draws)


def _suits_enumeration(
    game: Evaluator, order: Ordering, budget: int, target_error: float | None
) -> bool:
    """Whether all coalitions can be paid for and, where they are drawn for, tell their errors."""
    needed = order.coalitions_count - 2
    if not game.sampled or len(game.players) == 1:
        return needed <= budget and order.largest <= 2**MAX_PLAYERS
    return target_error is None and 2 * needed <= budget and order.largest <= 2**_MOST_DRAWN


def _suits_regression(game: Evaluator, budget: int) -> bool:
    """Whether a fast network has so few players that a regression is more precise."""
    players = len(game.players)
    fast = game.value.linearized() is not None
    if not fast or players > _MOST_FITTED or budget < _LEAST_FITTED * players:
        return False
    return budget >= _LEAST_SHARE * 2**players


def _suits_interactions(game: Evaluator, budget: int) -> bool:
    """Whether a regression with interactions is worth its time, which is that of many values of a
    fast network.
    """
    players = len(game.players)
    if game.sampled or game.value.linearized() is not None:
        return False
    if not _FEWEST_INTERACTING <= players <= _MOST_INTERACTING:
        return False
    if budget > _MOST_INTERACTING_EVALUATIONS and not _enough_for_all(players, budget):
        return False
    # Coalitions come in pairs.
    return budget // 2 >= _LEAST_INTERACTING * players // 2


def _interacting(players: int, evaluations: int | None) -> int:
    """Evaluations of a regression with interactions, in pairs."""
    allowed = evaluations or _FEWER_EVALUATIONS * players
    # With all coalitions nothing is left to fit.
    if not _enough_for_all(players, allowed):
        allowed = min(allowed, _MOST_FITTED_INTERACTING)
    return allowed // 2 * 2


def _enough_for_all(players: int, budget: int) -> bool:
    return budget >= 2**players - 2


def _with_choice(explanation: Explanation, choice: str) -> Explanation:
    return replace(explanation, made_by={**explanation.made_by, "auto": choice})
