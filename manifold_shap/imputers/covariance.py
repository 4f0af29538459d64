"""Mean and covariance of rows, made positive definite where the rows alone do not make it so."""

import warnings

import torch
from jaxtyping import Float
from torch import Tensor

DEFAULT_REGULARISATION = 1e-6


def regularised_covariance(
    rows: Float[Tensor, "rows elements"], regularisation: float = DEFAULT_REGULARISATION
) -> tuple[Float[Tensor, " elements"], Float[Tensor, "elements elements"]]:
    """Mean and covariance in float64; a singular covariance gets a ridge, and one warning.

    The ridge is relative: it is added to the correlations, so that neither the answer nor the
    warning depends on units. Covariances that need none are left as they are.

    Args:
        rows: at least two.
        regularisation: least eigenvalue of the correlation matrix; a ridge lifts a smaller one.

    Raises:
        ValueError: fewer than two rows, a `regularisation` that is not positive, or a covariance
            that is not positive definite even so.
    """
    if len(rows) < 2:
        raise ValueError(f"Expected at least 2 rows to take a covariance of but got {len(rows)}.")
    if not regularisation > 0:
        raise ValueError(f"Expected `regularisation` to be positive but got {regularisation}.")
    centred = rows.double()
    mean = centred.mean(0)
    centred = centred - mean
    scale, constant = _scale(centred, mean)
    correlation = (centred / scale).T @ (centred / scale) / (len(rows) - 1)
    least = float(torch.linalg.eigvalsh(correlation)[0]) if correlation.isfinite().all() else 0.0
    if least < regularisation:
        ridge = regularisation - least
        _warn(least, ridge, constant)
        correlation.diagonal().add_(ridge)
    covariance = correlation * scale * scale[:, None]
    _check(covariance, regularisation)
    return mean, covariance


def _scale(
    centred: Float[Tensor, "rows elements"], mean: Float[Tensor, " elements"]
) -> tuple[Float[Tensor, " elements"], int]:
    """Standard deviations, and how many columns are constant; those get the least one."""
    scale = (centred.square().sum(0) / (len(centred) - 1)).sqrt()
    # Rounding leaves a constant column of large numbers a spread of its own.
    constant = scale <= 1e-9 * mean.abs()
    varying = scale[~constant]
    least = varying.amin() if len(varying) else scale.new_ones(())
    return torch.where(constant, least, scale), int(constant.sum())


def _warn(least: float, ridge: float, constant: int) -> None:
    why = f", {constant} columns are constant" if constant else ""
    warnings.warn(
        f"The covariance is singular: the smallest eigenvalue of the correlations is {least:.1e}"
        f"{why}. A ridge of {ridge:.1e} of each column's variance was added; `regularisation` "
        "sets it.",
        stacklevel=4,
    )


def _check(covariance: Float[Tensor, "elements elements"], regularisation: float) -> None:
    if int(torch.linalg.cholesky_ex(covariance).info):
        raise ValueError(
            f"Expected a covariance that is positive definite with regularisation={regularisation} "
            "but its Cholesky factorisation fails; give a larger `regularisation`, or standardise "
            "the columns."
        )
