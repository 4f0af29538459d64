"""Estimates Shapley values by maximum sample reuse, with a regression as control variate.

Every coalition can serve the values of all players: with m drawn ones, Σ w u y (see `regression`)
is an unbiased estimate of theirs (maximum sample reuse), but one that varies with all of y. Witter,
Liu & Musco (2025) let it estimate what a regression leaves of y, and add the values of the
regression, which for an additive game are its coefficients. The result is unbiased if the
regression that is taken from a coalition has not seen it: cross-fitting. Here it is the fit to all
others,

    1/m Σ_j [β_(-j) + m w_j u_j (y_j - u_jᵀ β_(-j))],

where the part of coalition j has the right expectation whatever β_(-j) is, since that of
m w_j u_j u_jᵀ is the identity among vectors that sum to zero. Least squares with one observation
left out have a closed form, so all of this takes one factorisation; and a fit to all but one leaves
less to estimate than one to a half.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._checks import to_tensor
from manifold_shap.estimators.evaluator import Evaluator
from manifold_shap.estimators.pairs import choose_pairs
from manifold_shap.estimators.ragged import by_player_count
from manifold_shap.estimators.regression import (
    Design,
    Estimate,
    Regression,
    explain_pairs,
)
from manifold_shap.explanation import Explanation


@by_player_count
def sample_reuse_shapley(
    value: Any,
    x: Any,
    *,
    evaluations: int | None = None,
    start: Any = None,
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool = False,
) -> Explanation:
    """Estimate Shapley values by regression-adjusted sample reuse: as `kernel_shapley`, unbiased.

        >>> game = lambda x, mask: (x[:, None] * mask).sum(-1, keepdim=True)
        >>> sample_reuse_shapley(game, torch.tensor([[1.0, 2.0, 3.0]])).phi.flatten()
        tensor([1., 2., 3.])

    Coalitions come with their complements, sizes by leverage: see `kernel_shapley`, which is as
    precise where coalitions are many. Without bias, the mean over seeds, or over rows each with a
    seed of its own, tends to the exact values. The sum is v(N) - v(∅) without being restored:
    corrections of all players sum to zero, coalition by coalition.

    Args:
        value: a `ValueFunction`, or a callable from rows `[batch, *event]` and a bool mask
            `[batch, m, players]` to values `[batch, m, outputs]`.
        x: rows to explain, `[instances, *event]`. All are evaluated at the same coalitions.
        evaluations: coalitions per row, an even number, at least two for each player and two more;
            by default 64 for each player but one. So few that they leave values undetermined,
            which happens below about four for each player, are drawn again. With 2^n - 2 or more,
            all are taken and the result is exact, for the draws of a sampled value function.
        start: Shapley values that are nearly right, as an amortised explainer gives them, `[rows,
            players, outputs]`. They take the place of the regression: any even number of
            `evaluations` is enough to make them unbiased, and to tell the errors of that.
        seed: of the coalitions. Same seed, same answer, for any `batch_size` and device.
        batch_size: model rows per call; by default what suits the value function and the device.
            Changes memory, not the numbers.
        progress: show a bar with the time left on work of more than two seconds.

    Returns:
        An explanation with standard errors over pairs, of coalitions and draws alike; NaN, not
        known, where a single pair is drawn, or where all coalitions share the draws of a sampled
        value function.

    Raises:
        ValueError: an odd `evaluations`, or too few of them; a `start` of another shape, or not
            finite.
    """
    game = Evaluator(value, x, batch_size)
    if start is not None:
        design = Design(next(choose_pairs(game, evaluations, "leverage", seed)))
        made_by = {"estimator": "sample_reuse", "start": "given"}
        known = _centred(start, game)
        return explain_pairs(game, design, _reused, made_by, seed, progress, known)
    regression = Regression.of_game(game, evaluations, "leverage", seed, spare=1)
    made_by = {"estimator": "sample_reuse"}
    return explain_pairs(game, regression, _corrected, made_by, seed, progress)


def _centred(start: Any, game: Evaluator) -> Float[Tensor, "rows players outputs"]:
    """What a start has over equal shares."""
    shape = (len(game.x), len(game.players), game.outputs)
    start = to_tensor(start, "start")
    if tuple(start.shape) != shape or not bool(start.isfinite().all()):
        raise ValueError(
            f"Expected `start` to be finite values of shape {shape} (rows, players, outputs) but "
            f"got shape {tuple(start.shape)}, of which {int((~start.isfinite()).sum())} are not "
            "finite; an explainer gives them as `explainer(x)`."
        )
    start = start.to(game.device, torch.float64)
    return start - start.mean(1, keepdim=True)


def _reused(design: Design, y: Float[Tensor, "rows pairs outputs"], crossed: bool) -> Estimate:
    drawn = torch.where(design.pairs.drawn, y, 0.0)
    identity = torch.eye(design.pairs.mask.shape[1]).to(y)
    return design.moment(y), design.covariance(identity, drawn, crossed)


def _corrected(
    regression: Regression, y: Float[Tensor, "rows pairs outputs"], crossed: bool
) -> Estimate:
    pairs, fitted = regression.pairs, regression.fit(y)
    errors = regression.left_out(y, fitted)
    # The mean of all β_(-j), each of which is β - `inverse` w_j u_j e_j.
    mean = fitted - regression.inverse @ regression.moment(errors) / max(1, pairs.sampled)
    # Of sizes taken whole the sum is known, not estimated: what any β leaves of it may be added.
    left = torch.where(pairs.drawn, errors, regression.residual(y, mean))
    identity = torch.eye(len(regression.inverse)).to(regression.inverse)
    return mean + regression.moment(left), regression.covariance(identity, errors, crossed)
