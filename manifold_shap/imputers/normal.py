"""Estimates the covariance of rows, and factorises it for many coalitions at once."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from manifold_shap._checks import check_number
from manifold_shap._messages import UnfitError, warn

REGULARISATION = 1e-6


class Moments(NamedTuple):
    """First and second moments of rows, in float64.

    Attributes:
        mean: `[elements]`.
        scale: standard deviations `[elements]`; exactly 0 for a constant column.
        correlation: `[elements, elements]`, positive definite with a unit diagonal; a constant
            column correlates with nothing.
        ridge: λ if the correlations were regularised, otherwise 0.
    """

    mean: Tensor
    scale: Tensor
    correlation: Tensor
    ridge: float


def regularised_moments(
    rows: Float[Tensor, "rows elements"], regularisation: float = REGULARISATION
) -> Moments:
    """Moments of rows; a singular covariance gets a ridge, and one warning.

    The ridge is relative: it is added to the correlations, so that neither the result nor the
    warning depends on units. Variances stay as they are and correlations shrink by 1 + λ. Constant
    columns alone need none.

    Args:
        rows: at least two.
        regularisation: λ, added where the smallest eigenvalue of the correlations is below it: with
            collinear columns (one-hot columns sum to 1), or no more rows than columns.

    Raises:
        TypeError, ValueError: fewer than two rows; λ is negative, or too small to make the
            correlations positive definite.
    """
    if len(rows) < 2:
        raise UnfitError(
            "Expected at least two rows in `reference`, to estimate their covariance, but got "
            f"{len(rows)}; pass more of the training data."
        )
    check_number("regularisation", regularisation, low=0)
    mean, scale, correlation = _moments(rows.double())
    smallest = torch.linalg.eigvalsh(correlation)[0].item()
    ridge = regularisation if smallest < regularisation else 0.0
    least = len(correlation) * torch.finfo(torch.float64).eps
    if (smallest + ridge) / (1 + ridge) <= least:
        raise UnfitError(
            "Expected a positive definite covariance of `reference` but the smallest eigenvalue "
            f"of its correlations is {smallest:.1e} and regularisation={regularisation} is too "
            f"small to change that; give more, e.g. {REGULARISATION}, or drop columns that others "
            "determine."
        )
    if ridge > 0:
        warn(
            "The covariance of `reference` is singular or nearly so (the smallest eigenvalue of "
            f"its correlations is {smallest:.1e}: collinear columns, or too few rows): a ridge of "
            f"{ridge:.1e} of every column's variance is added; `regularisation` sets it.",
        )
        identity = torch.eye(len(correlation), dtype=torch.float64, device=rows.device)
        correlation = (correlation + ridge * identity) / (1 + ridge)
    return Moments(mean, scale, correlation, ridge)


def _moments(rows: Float64[Tensor, "rows elements"]) -> tuple[Tensor, Tensor, Tensor]:
    constant = rows.amax(0) == rows.amin(0)
    # The mean of equal numbers may differ from them by rounding.
    mean = torch.where(constant, rows[0], rows.mean(0))
    centred = rows - mean
    scale = (centred.square().sum(0) / (len(rows) - 1)).sqrt()
    standardised = centred / torch.where(constant, 1, scale)
    correlation = standardised.mT @ standardised / (len(rows) - 1)
    return mean, scale, correlation.fill_diagonal_(1)


def factorised(
    correlation: Float64[Tensor, "*laws elements elements"],
    present: Bool[Tensor, "coalitions elements"],
) -> Float64[Tensor, "*batch elements elements"]:
    """Cholesky factors of the correlations of present elements; absent ones are independent.

    Several correlations, or covariances, are broadcast with the coalitions.
    """
    inside = present[:, None] & present[:, :, None]
    padded = torch.where(inside, correlation, 0) + torch.diag_embed((~present).double())
    return torch.linalg.cholesky(padded)


def factorised_by_arrival(
    correlation: Float64[Tensor, "elements elements"],
    present: Bool[Tensor, "runs run elements"],
) -> tuple[
    Float64[Tensor, "runs elements elements"],
    Int64[Tensor, "runs elements"],
    Int64[Tensor, "runs elements"],
]:
    """One Cholesky factor for all nested coalitions of a run: elements in the order they join.

    Returns:
        The factors, the elements in that order, and when each of them joins: 0 where it is present
        from the start, the length of the run where it never is.
    """
    arrival, order = (~present).sum(1).sort(dim=-1, stable=True)
    factor = torch.linalg.cholesky(correlation[order[:, :, None], order[:, None]])
    return factor, order, arrival
