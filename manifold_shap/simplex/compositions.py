"""Reads Shapley values in log-ratio coordinates as compositions: norms, angles, projections.

Noé et al. (2024), Sections 5 and 6.3. Norms, cosines and projections do not depend on the basis of
the coordinates.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap.simplex import geometry

# Where log t is cut off in `norm_errors`, and its steps.
_LOG_T, _STEP = (-13.0, 21.0), 0.6
_TINY = torch.finfo(torch.float64).tiny


def norms(phi: Float[Tensor, "*batch players outputs"]) -> Float[Tensor, "*batch players"]:
    """How strongly each player moves the prediction; what rounding leaves of zero is 0.

    >>> norms(torch.tensor([[3.0, 4.0], [0.0, 1e-16]]))
    tensor([5., 0.])
    """
    found = phi.norm(dim=-1)
    least = torch.finfo().eps * found.nan_to_num().amax(-1, keepdim=True)
    return found.masked_fill(found < least, 0.0)


def norm_errors(
    phi: Float[Tensor, "*batch outputs"], covariance: Float[Tensor, "*batch outputs outputs"]
) -> Float[Tensor, "*batch"]:
    """Standard errors of the norms of estimates that are normal around `phi`.

    The squared norm q of φ + ε, ε ~ N(0, Σ), has the mean m = |φ|² + tr Σ and, with the variances λ
    along the eigenvectors of Σ and the coordinates b of φ there, the Laplace transform

        L(t) = E exp(-t q / m) = Π (1 + 2tλ/m)^(-1/2) exp(-t b²/m / (1 + 2tλ/m)).

    Since √q = ∫ (1 - exp(-tq)) t^(-3/2) dt / 2√π, its mean falls short of √m by a share of

        d = ∫ (L(t) - exp(-t)) t^(-3/2) dt / 2√π,        and        Var √q = m (2d - d²),

    an integral over log t, to six digits by the trapezoidal rule. For large |φ| this is the error
    along the composition itself, u'Σu with u = φ / |φ|; at φ = 0 that of a chi distribution.

    >>> norm_errors(torch.zeros(1), torch.eye(1)).square() + 2 / torch.pi
    tensor(1.)
    """
    spread = covariance.double()
    known = spread.isfinite().all(-1).all(-1) & phi.isfinite().all(-1)
    variances, axes = torch.linalg.eigh(spread.where(known[..., None, None], 0.0))
    variances = variances.clamp(min=0)
    along = (phi.double().nan_to_num()[..., None, :] @ axes)[..., 0, :].square()
    mean = (along + variances).sum(-1, keepdim=True)
    # A composition of norm zero without errors has no scale, and needs none.
    along, variances = (each / mean.clamp(min=_TINY) for each in (along, variances))
    short = torch.zeros_like(mean[..., 0])
    for log_t in torch.arange(*_LOG_T, _STEP, dtype=torch.float64).tolist():
        t = math.exp(log_t)
        grown = 2 * t * variances
        faded, log = t * along / (1 + grown), grown.log1p() / 2
        # L(t) - exp(-t) of small t, where it would cancel, by log L(t) + t: all terms are positive.
        above = (grown / 2 - log).clamp(min=0).sum(-1) + (faded * grown).sum(-1)
        apart = (-(faded + log).sum(-1)).exp() - math.exp(-t)
        apart = apart.where(above > 1, math.exp(-t) * above.expm1())
        short += _STEP / (2 * math.sqrt(math.pi * t)) * apart
    error = (mean[..., 0] * (2 * short - short.square())).clamp(min=0).sqrt()
    return error.where(known, torch.nan).to(phi.dtype)


def cosines(
    phi: Float[Tensor, "*batch players outputs"],
) -> Float[Tensor, "*batch players players"]:
    """Cosines of the angles between players.

    1 where two players change the prediction in the same direction, 0 where neither contributes in
    the other's direction, -1 where they oppose each other; NaN for a player whose norm is zero.

    >>> cosines(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    tensor([[1., 0.],
            [0., 1.]])
    """
    along = phi / phi.norm(dim=-1, keepdim=True)
    # Rounding must not leave the domain of the arc cosine.
    return (along @ along.transpose(-1, -2)).clamp(-1, 1)


def projections(
    phi: Float[Tensor, "*batch outputs"], basis: Float[Tensor, "outputs classes"]
) -> Float[Tensor, "*batch classes"]:
    """Projections on the class compositions (Eq. 26): positive in favour of a class.

    Args:
        phi: Shapley values.
        basis: of their coordinates, as in `Partition.basis`.

    >>> basis = geometry.gram_schmidt_basis(2)
    >>> projections(torch.tensor([[3.0]]), basis)
    tensor([[ 3., -3.]])
    """
    directions = geometry.coordinates(geometry.class_compositions(basis.shape[1]), basis)
    return phi @ directions.to(phi).T
