"""Means, spreads and correlations of rows, positive definite where the rows alone are not."""

import math
import warnings
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64
from torch import Tensor

REGULARISATION = 1e-6


class Moments(NamedTuple):
    """First and second moments of rows, in float64.

    Attributes:
        mean: `[elements]`.
        scale: standard deviations `[elements]`; exactly 0 of a constant column.
        correlation: `[elements, elements]`, positive definite with a unit diagonal; a constant
            column correlates with nothing.
        ridge: what was added to every variance, as a share of it: λ or 0.
    """

    mean: Tensor
    scale: Tensor
    correlation: Tensor
    ridge: float


def regularised_moments(
    rows: Float[Tensor, "rows elements"], regularisation: float = REGULARISATION
) -> Moments:
    """Moments of rows; a singular covariance gets a ridge, and one warning.

    The ridge is relative: it is added to the correlations, so that neither the answer nor the
    warning depends on units. Variances stay: correlations shrink by 1 + λ. Constant columns alone
    need none.

    Args:
        rows: at least two.
        regularisation: λ, added where the smallest eigenvalue of the correlations is below it:
            columns are collinear (one-hot ones sum to 1), or rows no more than columns.

    Raises:
        ValueError: fewer than two rows; λ is negative, or too small to make the correlations
            positive definite.
    """
    if len(rows) < 2:
        raise ValueError(
            "Expected at least two rows in `reference`, to estimate their covariance, but got "
            f"{len(rows)}; pass more of the training data."
        )
    if not 0 <= regularisation < math.inf:
        raise ValueError(
            f"Expected `regularisation` of at least 0 and finite but got {regularisation}."
        )
    mean, scale, correlation = _moments(rows.double())
    smallest = torch.linalg.eigvalsh(correlation)[0].item()
    ridge = regularisation if smallest < regularisation else 0.0
    least = len(correlation) * torch.finfo(torch.float64).eps
    if (smallest + ridge) / (1 + ridge) <= least:
        raise ValueError(
            "Expected a positive definite covariance of `reference` but the smallest eigenvalue "
            f"of its correlations is {smallest:.1e} and regularisation={regularisation} does not "
            f"make up for it; give more, e.g. {REGULARISATION}, or drop columns that others "
            "determine."
        )
    if ridge > 0:
        warnings.warn(
            "The covariance of `reference` is singular or nearly so (the smallest eigenvalue of "
            f"its correlations is {smallest:.1e}: collinear columns, or too few rows): a ridge of "
            f"{ridge:.1e} of every column's variance is added; `regularisation` sets it.",
            stacklevel=3,
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
