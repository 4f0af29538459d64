"""Measures Shapley compositions: norms, angles and projections (Noé et al. 2024, 5 and 6.3).

Functions of Shapley values in log-ratio coordinates, `phi`. Norms, cosines and projections do not
depend on the basis of these coordinates.
"""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap.simplex import geometry

if TYPE_CHECKING:
    import pandas as pd

    from manifold_shap.explanation import Explanation

Basis = Float[Tensor, "outputs classes"]


# Above it Var √q / E q comes from three terms of its series in 1/k: to 1e-5 of itself, where the
# difference of the gamma functions would cancel.
_LARGE_SHAPE = 10.0


def norms(phi: Float[Tensor, "*batch outputs"]) -> Float[Tensor, "*batch"]:
    """How strongly each player changes the prediction, whatever the direction.

    >>> norms(torch.tensor([[3.0, 4.0]]))
    tensor([5.])
    """
    return phi.norm(dim=-1)


def norm_errors(
    phi: Float[Tensor, "*batch outputs"], covariance: Float[Tensor, "*batch outputs outputs"]
) -> Float[Tensor, "*batch"]:
    """Standard errors of the norms of estimates that are normal around `phi`.

    The squared norm q of φ + ε, ε ~ N(0, Σ), has mean |φ|² + tr Σ and variance 4 φ'Σφ + 2 tr Σ². A
    gamma distribution with these moments, of shape k = E²[q] / Var q, gives

        Var √q = E[q] (1 - (Γ(k + 1/2) / Γ(k))² / k) = E[q] (1/4k - 1/32k² - 1/128k³ + ...).

    For large |φ| this is the error along the composition itself, u'Σu with u = φ / |φ|. At φ = 0,
    where that first order says 0, it is exact for a Σ that is the same in all directions; in
    between, and for others, it is within an eighth of what simulations give.

    >>> norm_errors(torch.zeros(1), torch.eye(1)).square() + 2 / torch.pi
    tensor(1.)
    """
    along, spread = phi.double(), covariance.double()
    mean = along.square().sum(-1) + spread.diagonal(dim1=-2, dim2=-1).sum(-1)
    variance = 4 * torch.einsum("...o,...oq,...q->...", along, spread, along).clamp(min=0)
    variance = variance + 2 * spread.square().sum((-2, -1))
    # At least 1/2: both moments are largest, for their mean, of a single direction.
    shape = mean.square() / variance
    series = 1 / (4 * shape) - 1 / (32 * shape**2) - 1 / (128 * shape**3)
    ratio = 2 * (torch.lgamma(shape + 0.5) - torch.lgamma(shape)) - shape.log()
    relative = torch.where(shape < _LARGE_SHAPE, -torch.expm1(ratio), series)
    # No variance: also of a composition of norm zero, which has no shape.
    error = torch.where(variance == 0, variance, mean * relative)
    return error.sqrt().to(phi.dtype)


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
    along = phi / norms(phi)[..., None]
    # Rounding must not leave the domain of the arc cosine.
    return (along @ along.transpose(-1, -2)).clamp(-1, 1)


def projections(
    phi: Float[Tensor, "*batch outputs"], basis: Basis
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


def summary(explanation: "Explanation", instance: int, most: int) -> "pd.DataFrame":
    """A table of one row's players, the largest norm first; see `Explanation.summarize`."""
    import pandas as pd

    names = explanation.players.names
    row = explanation[instance]
    size, errors, by_class, angles = (
        figures[0] for figures in (row.norms(), row.norm_errors(), row.projections(), row.cosines())
    )
    order = size.argsort(descending=True, stable=True)[:most].tolist()
    columns = {
        "norm": size,
        "standard_error": errors,
        **{f"on {name}": by_class[:, k] for k, name in enumerate(explanation.classes)},
        **{f"cosine with {names[k]}": angles[:, k] for k in order},
    }
    frame = pd.DataFrame({name: column.numpy() for name, column in columns.items()})
    return frame.set_axis(list(names)).iloc[order].rename_axis("players")
