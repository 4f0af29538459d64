"""Estimates Shapley values by the regression of KernelSHAP, on pairs of complements.

They are the weighted least-squares fit of v by an additive game with the same ends, v(∅) and v(N)
(Lundberg & Lee 2017); see `regression` for the fit. Sizes of coalitions are by default drawn by the
leverage of the fit (Musco & Witter 2025).
"""

from typing import Any

from jaxtyping import Float
from torch import Tensor

from manifold_shap._checks import check_choice
from manifold_shap.estimators.evaluator import Evaluator
from manifold_shap.estimators.pairs import LAWS
from manifold_shap.estimators.ragged import by_player_count
from manifold_shap.estimators.regression import (
    Estimate,
    Regression,
    explain_pairs,
)
from manifold_shap.explanation import Explanation


@by_player_count
def kernel_shapley(
    value: Any,
    x: Any,
    *,
    evaluations: int | None = None,
    law: str = "leverage",
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool = False,
) -> Explanation:
    """Estimate Shapley values by least squares on pairs of complementary coalitions.

        >>> import torch
        >>> game = lambda x, mask: (x[:, None] * mask).sum(-1, keepdim=True)
        >>> kernel_shapley(game, torch.tensor([[1.0, 2.0, 3.0]])).phi.flatten()
        tensor([1., 2., 3.])

    Additive games are fitted exactly, and so are those of interactions between two players, whose
    halves a pair tells apart. Of the smallest (and largest) sizes all coalitions are taken, where
    the law would draw as many; the others are drawn. The estimate has a bias of the order of
    1/evaluations; that of `sample_reuse_shapley` has none.

    Args:
        value: a `ValueFunction`, or a callable from rows `[batch, *event]` and a bool mask
            `[batch, m, players]` to values `[batch, m, outputs]`.
        x: rows to explain, `[instances, *event]`. All are evaluated at the same coalitions.
        evaluations: coalitions per row, an even number, at least two for each player; by default
            64 for each player but one. So few that they leave values undetermined are drawn
            again. With 2^n - 2 or more, all are taken and the result is exact,
            for the draws of a sampled value function.
        law: of the sizes of coalitions: `leverage`, all alike (Musco & Witter 2025), or `kernel`,
            small and large ones more often (Lundberg & Lee 2017).
        seed: of the coalitions. Same seed, same answer, for any `batch_size` and device.
        batch_size: model rows per call; by default what suits the value function and the device.
            Changes memory, not the numbers.
        progress: show a bar with the time left on work of more than two seconds.

    Returns:
        An explanation with standard errors over pairs, of coalitions and draws alike; NaN, not
        known, where a single pair is drawn or the fit hangs on one, or where all coalitions share
        the draws of a sampled value function.

    Raises:
        ValueError: an odd `evaluations`, too few of them, or another `law`.
    """
    check_choice("law", law, LAWS)
    game = Evaluator(value, x, batch_size)
    regression = Regression.of_game(game, evaluations, law, seed)
    made_by = {"estimator": "kernel", "law": law}
    return explain_pairs(game, regression, _least_squares, made_by, seed, progress)


def _least_squares(
    regression: Regression, y: Float[Tensor, "rows pairs outputs"], crossed: bool
) -> Estimate:
    beta = regression.fit(y)
    # Residuals of a fit are smaller than its errors: the jackknife's (HC3) are not.
    errors = regression.left_out(y, beta)
    return beta, regression.covariance(regression.inverse, errors, crossed)
