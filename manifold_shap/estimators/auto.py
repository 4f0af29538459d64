"""Chooses the estimator that suits a game: by its sizes, and by what its value function costs."""

import math
from bisect import bisect_right
from typing import Any

from manifold_shap._messages import warn
from manifold_shap.estimators.coalition import affordable, coalition
from manifold_shap.estimators.evaluator import Evaluator
from manifold_shap.estimators.exact import MAX_PLAYERS, exact
from manifold_shap.estimators.kernel import kernel
from manifold_shap.estimators.odd import nominal_seconds, odd
from manifold_shap.estimators.permutation import permutation
from manifold_shap.estimators.runner import Asking, Result, explain
from manifold_shap.explanation import Explanation
from manifold_shap.ordering import Relations
from manifold_shap.values.selected import Outputs
from manifold_shap.values.spec import COSTS

# Evaluations per player by default, where a value is a model call, or drawn, or rows are large.
_EVALUATIONS_DEAR = 64
# Model rows per player by default, where values are means of few draws: each pair of coalitions has
# draws of its own, so that more coalitions lessen the noise of the draws as well as more draws do.
_ROWS_DRAWN = 1024
# The same where contributions are linearized, and elsewhere.
_EVALUATIONS_LINEARIZED, _EVALUATIONS = 128, 256
# Model rows that take hardly any time, and values in closed form.
_FREE_ROWS, _FREE_VALUES = 8192, 2**16
# Standard errors of contributions are poor with fewer coalitions.
_FEWEST_COALITIONS = 64
# Players whose coalitions are all evaluated where values are drawn.
_MOST_DRAWN = 6
# Where values are drawn or contributions are linearized, a regression is more precise for so few
# players; where values are drawn, with so many evaluations for each of them.
_MOST_FITTED, _LEAST_FITTED = 20, 32
# Evaluations per player with which a regression is more precise than orders are, and most players.
# Most of more, such as pixels, hardly matter: orders give these values without noise, a regression
# gives all players the same noise, and takes longer.
_LEAST_PAIRED, _MOST_PAIRED = 4, 512
# Players, and evaluations for each, with which a regression with interactions is more precise.
_FEWEST_INTERACTING, _MOST_INTERACTING, _LEAST_INTERACTING = 3, 128, 7
# It is fitted to so many evaluations at most. Of the first number of players the fit may take as
# long as all that are allowed, of twice as many half as long; of the second number of players it
# has to be on all of these, of half as many players on half.
_MOST_FITTED_INTERACTING, _FIT_AS_LONG, _ALL_INTERACTING = 2**14, 20, 40


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
    - Networks whose contributions can be linearized, of more than 20 players or with a
      `target_error`: the contributions of all players at sampled coalitions (`coalition_shapley`).
    - A regression with interactions (`odd_shapley`), where nothing is drawn or linearized, of 3 to
      128 players on 7 evaluations or more for each. It takes as many of those that are allowed, and
      16,384 at most, as leave time for the fit, which of 20 players may take as long as all of
      them, of 40 half as long. Where this leaves it too few, other estimators are more precise.
    - A regression (`kernel_shapley`) of up to 512 players on 4 evaluations or more for each or,
      where values are drawn, of up to 20 players on 32 or more for each.
    - Orders of the players (`permutation_shapley`), where players are more, an ordering restricts
      the orders, a `target_error` is to be met, or `evaluations` are too few for the others.

    What evaluations take is not measured, so that a call gives the same answer on any machine: it
    follows from the `cost` of a value, see `Work`: `closed form` (a microsecond), `network` (some
    50) and `model` (a millisecond and more). A callable counts as a model call;
    `as_value_function(f, x, cost="closed form")` says otherwise.

    Args:
        value: a `ValueFunction`, or a callable; see `as_value_function`.
        x: rows to explain, `[instances, *event]`.
        evaluations: the most values of v per row, never exceeded; a linearized coalition counts as
            the few values that it costs. By default all coalitions where 8,192 model rows, or
            65,536 values in closed form, are enough; else 64 for each player where each is a model
            call or drawn, or rows are large, and as many as take 1,024 model rows where draws are
            few; otherwise 256, or 128 where contributions are linearized, and at least 8,192.
        target_error: stop a row when its largest standard error falls below this share of the
            range of v on that row.
        ordering: see `permutation_shapley`.
        outputs: those to explain: names or positions, one or a list; by default all. See
            `ValueFunction.select`.
        seed: of coalitions or orders. Same seed, same answer, for any `batch_size`.
        batch_size: model rows per call; changes memory and time, not the numbers.
        progress: show a bar with the time left on work of more than two seconds; by default
            where a person looks.

    Raises:
        ValueError: `evaluations` too few for a pair of orders, or arguments that the chosen
            estimator refuses.
        TypeError: an `ordering` that `Ordering` refuses, `evaluations` that are no whole number.

    Warns:
        UserWarning: `evaluations` too few for standard errors: less than two pairs of orders take.
    """
    found = explain(estimator=auto, **locals())
    if bool(found.standard_error[found.present].isnan().any()):
        enough = 4 * (int(found.counts.max()) - 1)
        few = evaluations is not None and evaluations < enough
        fix = f"`evaluations` of {enough} or more" if few else "a `target_error`"
        warn(
            f"Standard errors are unknown (NaN), since each row has a single estimate: give {fix}."
        )
    return found


def auto(
    game: Evaluator, evaluations: int | None, target_error: float | None, seed: int
) -> Asking[Result]:
    """The estimator of `auto_shapley`."""
    estimator, why = choose(game, evaluations, target_error, seed)
    found = yield from estimator
    return found._replace(made_by={**found.made_by, "auto": f"{found.made_by['estimator']}: {why}"})


def choose(
    game: Evaluator, evaluations: int | None, target_error: float | None, seed: int
) -> tuple[Asking[Result], str]:
    """The estimator that suits a game, and the reason."""
    order, players = game.order, len(game.players)
    budget = evaluations or _usual_budget(game)
    if _suits_enumeration(game, budget, target_error):
        return exact(game, budget, seed), f"all {order.allowed.coalitions} coalitions"
    linear = game.linearized is not None and not (game.sampled or order.restricts)
    if not order.restricts and target_error is None:
        pairs = f"a regression of {players} players on pairs of coalitions"
        fitted = 0 if game.sampled or linear else _fitted_interacting(game, budget)
        if fitted:
            why = f"{pairs}, with interactions, on as many as leave time for the fit"
            return odd(game, fitted, seed), why
        most = _MOST_FITTED if game.sampled or linear else _MOST_PAIRED
        least = _LEAST_FITTED if game.sampled else _LEAST_PAIRED
        if players <= most and budget >= least * players:
            return kernel(game, budget // 2 * 2, seed=seed), pairs
    limit = budget if target_error is None else evaluations
    rounds: dict[str, Any] = {"target_error": target_error, "seed": seed}
    if linear and affordable(game, budget) >= _FEWEST_COALITIONS:
        why = f"contributions of all {players} players at once, linearized and corrected"
        return coalition(game, limit, **rounds), why
    if evaluations is not None and evaluations < 2 * (players - 1):
        raise ValueError(
            f"Expected `evaluations` of at least {2 * (players - 1)}, which an order of {players} "
            f"players and its reverse take, but got {evaluations}; give more, or group players."
        )
    reasons = {
        "an ordering restricts them": order.restricts,
        "values are drawn": game.sampled,
        "a target error is to be met": target_error is not None,
        "a regression of so many takes longer": players > _MOST_PAIRED,
        f"{budget} evaluations are too few for a regression": True,
    }
    why = next(reason for reason, holds in reasons.items() if holds)
    return permutation(game, limit, **rounds), f"orders of {players} players, since {why}"


def _usual_budget(game: Evaluator) -> int:
    """Evaluations per row where nobody says how many."""
    free = min(_FREE_ROWS, game.value.spec.work.batch_size or _FREE_ROWS)
    dear = game.value.spec.work.cost == "model"
    few = free < _FREE_ROWS or dear or game.sampled
    each = _EVALUATIONS_DEAR if few else _EVALUATIONS
    if game.sampled:
        each = max(each, _ROWS_DRAWN // game.draws)
    if game.linearized:
        each = _EVALUATIONS_LINEARIZED
    usual = max(each * (len(game.players) + 1), 0 if dear else free)
    if game.value.spec.work.cost == "closed form":
        free = _FREE_VALUES
    everything = game.order.allowed.coalitions - 2
    return int(everything) if usual < everything <= free // game.draws else usual


def _suits_enumeration(game: Evaluator, budget: int, target_error: float | None) -> bool:
    """Whether all coalitions can be paid for and, where they are drawn for, tell their errors."""
    needed = game.order.allowed.coalitions - 2
    if not game.sampled or len(game.players) == 1:
        return needed <= min(budget, 2**MAX_PLAYERS)
    return target_error is None and 2 * needed <= budget and needed <= 2**_MOST_DRAWN


def _fitted_interacting(game: Evaluator, budget: int) -> int:
    """Evaluations on which a regression with interactions is worth its time; 0 if on none."""
    _, players, outputs = game.shape
    if not _FEWEST_INTERACTING <= players <= _MOST_INTERACTING:
        return 0
    share = min(1, players / _ALL_INTERACTING)
    least = math.ceil(max(_LEAST_INTERACTING * players, share * (budget - 1)))
    possible = range(least + least % 2, min(budget, _MOST_FITTED_INTERACTING) + 1, 2)
    cost = COSTS[game.value.spec.work.cost]

    def seconds(evaluations: int) -> float:
        return evaluations * cost + outputs * nominal_seconds(players, evaluations)

    most = (1 + _FIT_AS_LONG / players) * budget * cost
    fast = bisect_right(possible, most, key=seconds)
    return possible[fast - 1] if fast else 0
