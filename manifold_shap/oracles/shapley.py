"""True Shapley values, as exact as asked for, and the distance of others to them."""

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._checks import check_finite, check_number, check_seed
from manifold_shap._messages import shown
from manifold_shap.estimators.auto import auto_shapley
from manifold_shap.estimators.exact import MAX_PLAYERS, exact_shapley
from manifold_shap.estimators.permutation import permutation_shapley
from manifold_shap.explanation import Explanation
from manifold_shap.learning_error import in_order, other_rows
from manifold_shap.oracles.value import PosteriorValue, TrueValue
from manifold_shap.values.selected import output_position

# The truth is to be so much more exact than what is compared with it.
SHARE_OF_DISTANCE = 1 / 10

# Evaluations of v per player in the first estimate, and how many times as many in the next. With 16
# of them 95 % intervals of the network child held 90 % of the values, with 64 94 %.
_FIRST, _MORE = 64, 4


def true_shapley(
    truth: TrueValue | PosteriorValue,
    x: Any,
    error: float,
    *,
    evaluations: int = 2**20,
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool | None = None,
) -> Explanation:
    """Shapley values of a true value function, with an error that is known and small.

    They are sums over all coalitions where `truth` is exact and has up to 16 players. Elsewhere
    orders of the players or coalitions, and draws for them, are sampled until the standard errors
    are small enough, and these hold what that and v(∅) leave: as φ_i has v(∅) with a weight of 1/n,
    the error of `base_error` is shared by the n players.

        >>> from manifold_shap.oracles import GaussianMixture, true_value
        >>> law = GaussianMixture.random(3, seed=1)
        >>> truth = true_value(lambda x: x.prod(1, keepdim=True), law, "identity", rows=10_000)
        >>> phi = true_shapley(truth, law.sample(2).x, error=0.02)
        >>> phi.standard_error.square().mean().sqrt().item() <= 0.02
        True

    Args:
        truth: a true value function.
        x: rows to explain, or a frame of them.
        error: the root mean square of the standard errors, at most; a tenth of the distance that
            is to be measured, or less.
        evaluations: values of v per row, at most.
        seed: of coalitions and draws.
        batch_size, progress: as of `auto_shapley`.

    Raises:
        ValueError: `error` is not above 0, or cannot be had with so many evaluations, or not at all
            with so few rows for v(∅).
    """
    error, seed = check_number("error", error, above=0), check_seed(seed)
    how: dict[str, Any] = {"batch_size": batch_size, "progress": progress}
    players = len(truth.players)
    if not truth.spec.work.sampled and players <= MAX_PLAYERS:
        return exact_shapley(truth, x, **how)
    base = torch.zeros(len(truth.outputs), dtype=torch.float64)
    if isinstance(truth, TrueValue):
        base = truth.base_error.cpu().double() / players
    own = base.square().mean().item()
    if own > error**2 / 2:
        raise ValueError(
            f"Expected an `error` well above that of v(∅), which adds {own**0.5:.2g} to every "
            f"Shapley value, but got {error:.2g}; make the truth with more `rows`."
        )
    # A regression with interactions has a smaller error for as many evaluations, but takes as long
    # for as small an error, and its standard errors leave out what the data choose.
    estimator = auto_shapley if truth.spec.work.sampled else permutation_shapley
    budget = min(evaluations, _FIRST * players)
    for round_ in itertools.count():
        found = estimator(truth, x, evaluations=budget, seed=seed + round_, **how)
        variance = found.standard_error.double().square() + base.square().to(found.phi.device)
        left = variance.mean().sqrt().item()
        if left <= error:
            # Covariances between outputs would lack those of the base.
            known = variance.sqrt().to(found.standard_error.dtype)
            return replace(found, standard_error=known, covariance=None)
        if budget == evaluations:
            break
        budget = min(evaluations, _MORE * budget)
    raise ValueError(
        f"Expected true Shapley values to an error of {error:.2g} but {budget} evaluations per row "
        f"left {left:.2g}; allow more `evaluations`, or a larger `error`."
    )


@dataclass(frozen=True)
class ShapleyDistance:
    """How far Shapley values are from the true ones: over rows, players and outputs.

        >>> ShapleyDistance(0.1, 0.01, 0.1, 0.002, torch.tensor([0.01])).resolved
        True

    Attributes:
        error: root mean squared difference, less what the truth's own errors add to it.
        standard_error: of `error`, over rows; NaN for one row.
        value_error: likewise, and less what sampling adds to the explanation: what the error of its
            value function alone would leave. NaN where the explanation does not know its errors.
        truth_error: root mean square of the truth's own standard errors.
        by_row: mean squared difference of each row, less the truth's own, `[rows]`.
    """

    error: float
    standard_error: float
    value_error: float
    truth_error: float
    by_row: Float[Tensor, " rows"] = field(repr=False, compare=False)

    @property
    def resolved(self) -> bool:
        """Whether the truth's own error is at most a tenth of the distance."""
        return self.truth_error <= SHARE_OF_DISTANCE * self.error


def distance_to_true_shapley(
    explanation: Explanation, truth: Explanation, output: str | int | None = None
) -> ShapleyDistance:
    """Compare Shapley values with the true ones of the same rows, in their own units.

        >>> import manifold_shap as ms
        >>> law = ms.oracles.GaussianMixture([1.0], [[0.0, 0.0]], [[[1.0, 0.9], [0.9, 1.0]]])
        >>> model, x = lambda x: x[:, :1], law.sample(100).x
        >>> truth = ms.oracles.true_value(model, law, "identity")
        >>> true_phi = true_shapley(truth, x[:5], error=0.02)
        >>> off = ms.imputed_value(model, ms.imputers.MarginalImputer(x), "identity", draws=100)
        >>> distance = distance_to_true_shapley(ms.exact_shapley(off, x[:5]), true_phi)
        >>> distance.error > 0.2, distance.resolved
        (True, True)

    Args:
        explanation: of any value function.
        truth: true Shapley values of the same rows, from `true_shapley`.
        output: name or position of one; by default all.

    Raises:
        ValueError: they are of other rows, players or outputs; no such output; or the truth does
            not know its errors.
    """
    names = truth.players.names
    if {*names} != {*explanation.players.names} or truth.outputs != explanation.outputs:
        raise ValueError(
            f"Expected Shapley values of the truth's players and outputs, {shown(names)} and "
            f"{shown(truth.outputs)}, but got {shown(explanation.players.names)} and "
            f"{shown(explanation.outputs)}; give both value functions the same ones."
        )
    explanation = in_order(explanation, names)
    if len(explanation.phi) != len(truth.phi) or other_rows(explanation, truth):
        raise ValueError(
            "Expected Shapley values of the truth's rows but the `x` of the two differ; explain "
            "the same `x` with both, in the same order."
        )
    chosen = slice(None)
    if output is not None:
        position = output_position("output", output, truth.outputs)
        chosen = slice(position, position + 1)
    own = truth.standard_error[..., chosen].double().square()
    check_finite(own, "truth.standard_error", "`ms.oracles.true_shapley` knows its errors")
    squares = (explanation.phi - truth.phi)[..., chosen].double().square() - own
    sampling = explanation.standard_error[..., chosen].double().square().mean().item()
    by_row = squares.mean((1, 2))
    mse = by_row.mean().item()
    error = max(mse, 0.0) ** 0.5
    spread = by_row.std().item() / len(by_row) ** 0.5 if len(by_row) > 1 else math.nan
    return ShapleyDistance(
        error=error,
        # That of the mean of squares, carried over to its root.
        standard_error=spread / (2 * error) if error else math.nan,
        value_error=max(mse - sampling, 0.0) ** 0.5 if math.isfinite(sampling) else math.nan,
        truth_error=own.mean().item() ** 0.5,
        by_row=by_row,
    )
