"""Aitchison geometry of the simplex: probabilities of K classes in K-1 log-ratio coordinates.

Everything works on log-probabilities or logits, in their own precision: for a softmax
`ilr(softmax(z)) = V z`, and rounded probabilities never enter (Noé et al. 2024, Section 3;
Egozcue et al. 2003).
"""

import torch
from jaxtyping import Float
from torch import Tensor


def gram_schmidt_basis(classes: int) -> Float[Tensor, "balances classes"]:
    """Orthonormal contrast rows, each summing to zero: balance j compares classes 0..j with j+1.

    The Gram-Schmidt basis of Egozcue et al. (2003), Eq. (18), in float64.

    Raises:
        ValueError: fewer than two classes.
    """
    if classes < 2:
        raise ValueError(f"Expected at least 2 classes for log-ratios but got {classes}.")
    j = torch.arange(1, classes, dtype=torch.float64)[:, None]
    column = torch.arange(classes, dtype=torch.float64)
    earlier = (column < j) / j
    contrast = earlier - (column == j).double()
    return contrast * (j / (j + 1)).sqrt()


def ilr(
    log_p: Float[Tensor, "*batch classes"], basis: Float[Tensor, "balances classes"] | None = None
) -> Float[Tensor, "*batch balances"]:
    """Isometric log-ratio coordinates of log-probabilities (or of logits: closure cancels)."""
    basis = gram_schmidt_basis(log_p.shape[-1]) if basis is None else basis
    return log_p @ basis.to(log_p).T


def ilr_inv(
    coordinates: Float[Tensor, "*batch balances"],
    basis: Float[Tensor, "balances classes"] | None = None,
) -> Float[Tensor, "*batch classes"]:
    """The composition (probabilities that sum to one) with these ILR coordinates."""
    basis = gram_schmidt_basis(coordinates.shape[-1] + 1) if basis is None else basis
    return (coordinates @ basis.to(coordinates)).softmax(-1)


def replace_zeros(
    p: Float[Tensor, "*batch classes"], amount: float
) -> Float[Tensor, "*batch classes"]:
    """Multiplicative replacement: zeros become `amount`, the other parts shrink to make room.

    Ratios between the nonzero parts are kept (Martín-Fernández et al. 2003).
    """
    zero = p <= 0
    room = 1 - amount * zero.sum(-1, keepdim=True)
    return torch.where(zero, torch.as_tensor(amount, dtype=p.dtype, device=p.device), p * room)
