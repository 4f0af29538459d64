"""Implements Aitchison geometry: probabilities of K classes in K-1 log-ratio coordinates.

A composition is represented by its logarithms up to a constant, so that log-probabilities and
logits are equally valid: for a softmax `ilr(softmax(z)) = V z`, and no probability is ever rounded
(Noé et al. 2024, Section 4; Egozcue et al. 2003). All functions are differentiable, and keep the
precision of their arguments.
"""

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap._checks import check_finite

_TOLERANCE = 1e-3


def from_probabilities(
    p: Float[Tensor, "*batch classes"], zero_replacement: float | None = None
) -> Float[Tensor, "*batch classes"]:
    """Log-probabilities of distributions over the classes.

    Args:
        p: probabilities.
        zero_replacement: what exact zeros become (see `replace_zeros`), between 0 and 1 / K for
            K classes; by default they are refused, since a composition has none.

    Raises:
        ValueError: fewer than two classes; a row with a negative or non-finite entry, or with a sum
            that differs from one by more than 0.001; zeros without a `zero_replacement`, or one out
            of range.

    >>> from_probabilities(torch.tensor([0.5, 0.5, 0.0]), zero_replacement=0.1).exp()
    tensor([0.4500, 0.4500, 0.1000])
    """
    _check_classes(p.shape[-1])
    wrong = ~((p >= 0).all(-1) & ((p.sum(-1) - 1).abs() <= _TOLERANCE))
    if bool(wrong.any()):
        raise ValueError(
            "Expected probabilities that are not negative and sum to one but got "
            f"{p[wrong][0].tolist()[:10]}."
        )
    if zero_replacement is None and bool((p == 0).any()):
        raise ValueError(
            "Expected no probability of exactly zero, which has no logarithm; give "
            "`zero_replacement`, such as 1e-4."
        )
    return (p if zero_replacement is None else replace_zeros(p, zero_replacement)).log()


def closure(log_p: Float[Tensor, "*batch classes"]) -> Float[Tensor, "*batch classes"]:
    """The log-probabilities with these ratios: parts that sum to one (Noé et al., Eq. 6).

    Raises:
        ValueError: as `clr`; the same holds for all operations on compositions.

    >>> closure(torch.tensor([1.0, 3.0]).log()).exp()
    tensor([0.2500, 0.7500])
    """
    _check_logits(log_p)
    return log_p.log_softmax(-1)


def perturb(
    log_p: Float[Tensor, "*batch classes"], log_q: Float[Tensor, "*batch classes"]
) -> Float[Tensor, "*batch classes"]:
    """p ⊕ q, the addition of the simplex: a prior updated by a likelihood.

    >>> perturb(torch.tensor([0.5, 0.5]).log(), torch.tensor([0.2, 0.8]).log()).exp()
    tensor([0.2000, 0.8000])
    """
    return closure(log_p + log_q)


def power(
    log_p: Float[Tensor, "*batch classes"], exponent: float | Tensor
) -> Float[Tensor, "*batch classes"]:
    """a ⊙ p, the multiplication by a number; -1 gives the inverse of p under `perturb`.

    Args:
        log_p: compositions.
        exponent: a number, or a tensor that broadcasts over `*batch` with a last axis of 1.

    >>> power(torch.tensor([0.2, 0.8]).log(), -1.0).exp()
    tensor([0.8000, 0.2000])
    """
    return closure(exponent * log_p)


def clr(log_p: Float[Tensor, "*batch classes"]) -> Float[Tensor, "*batch classes"]:
    """Centred log-ratios: of each part to the geometric mean of all.

    Raises:
        ValueError: fewer than two classes, or a NaN or infinite entry.

    >>> clr(torch.tensor([1.0, 3.0]))
    tensor([-1.,  1.])
    """
    _check_logits(log_p)
    return _centred(log_p)


def inner(
    log_p: Float[Tensor, "*batch classes"], log_q: Float[Tensor, "*batch classes"]
) -> Float[Tensor, "*batch"]:
    """Aitchison's inner product (Noé et al., Eq. 7).

    Raises:
        ValueError: as `clr`.

    >>> inner(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 4.0]))
    tensor(4.)
    """
    return (clr(log_p) * clr(log_q)).sum(-1)


def norm(log_p: Float[Tensor, "*batch classes"]) -> Float[Tensor, "*batch"]:
    """Aitchison's norm: zero for the uniform distribution.

    Raises:
        ValueError: as `clr`.

    >>> norm(torch.tensor([5.0, 5.0, 5.0]))
    tensor(0.)
    """
    return clr(log_p).norm(dim=-1)


def distance(
    log_p: Float[Tensor, "*batch classes"], log_q: Float[Tensor, "*batch classes"]
) -> Float[Tensor, "*batch"]:
    """Aitchison's distance: the norm of p ⊖ q.

    Raises:
        ValueError: as `clr`.

    >>> distance(torch.tensor([0.0, 2.0]), torch.tensor([0.0, 0.0]))
    tensor(1.4142)
    """
    return (clr(log_p) - clr(log_q)).norm(dim=-1)


def gram_schmidt_basis(classes: int) -> Float[Tensor, "balances classes"]:
    """Orthonormal contrast rows, each summing to zero: balance j compares classes 0..j with j+1.

    The Gram-Schmidt basis of Egozcue et al. (2003), Eq. (18), in float64.

    Raises:
        ValueError: fewer than two classes.

    >>> gram_schmidt_basis(3)
    tensor([[ 0.7071, -0.7071,  0.0000],
            [ 0.4082,  0.4082, -0.8165]], dtype=torch.float64)
    """
    _check_classes(classes)
    return partition_basis(sequential_signs(classes))


def sequential_signs(classes: int) -> Int64[Tensor, "balances classes"]:
    """Signs of the partition whose j-th balance compares the first j classes with the next one.

    >>> sequential_signs(3)
    tensor([[ 1, -1,  0],
            [ 1,  1, -1]])
    """
    j, column = torch.arange(1, classes)[:, None], torch.arange(classes)
    return (column < j).long() - (column == j).long()


def partition_basis(signs: Int64[Tensor, "balances classes"]) -> Float[Tensor, "balances classes"]:
    """Orthonormal contrast rows of a sequential binary partition, in float64.

    A balance of r classes (+1) against s classes (-1) is √(rs/(r+s)) times the log-ratio of their
    geometric means (Egozcue & Pawlowsky-Glahn 2005). Unchecked: `Partition` checks its signs.

    >>> partition_basis(torch.tensor([[1, -1]]))
    tensor([[ 0.7071, -0.7071]], dtype=torch.float64)
    """
    first, second = (signs > 0).double(), (signs < 0).double()
    r, s = first.sum(1, keepdim=True), second.sum(1, keepdim=True)
    return (first / r - second / s) * (r * s / (r + s)).sqrt()


def ilr(
    log_p: Float[Tensor, "*batch classes"], basis: Float[Tensor, "balances classes"] | None = None
) -> Float[Tensor, "*batch balances"]:
    """Isometric log-ratio coordinates: inner products with a basis.

    Args:
        log_p: log-probabilities or logits.
        basis: orthonormal rows that sum to zero; by default `gram_schmidt_basis`.

    Raises:
        ValueError: as `clr`.

    >>> ilr(torch.tensor([2.0, 0.0]))
    tensor([1.4142])
    """
    _check_logits(log_p)
    return coordinates(log_p, basis)


def coordinates(
    log_p: Float[Tensor, "*batch classes"], basis: Float[Tensor, "balances classes"] | None = None
) -> Float[Tensor, "*batch balances"]:
    """`ilr` without its checks, for inner loops.

    >>> coordinates(torch.zeros(3))
    tensor([0., 0.])
    """
    basis = gram_schmidt_basis(log_p.shape[-1]) if basis is None else basis
    # Centred first: a common offset of logits would leave its rounding error in the products.
    return _centred(log_p) @ basis.to(log_p).T


def ilr_inv(
    coordinates: Float[Tensor, "*batch balances"],
    basis: Float[Tensor, "balances classes"] | None = None,
) -> Float[Tensor, "*batch classes"]:
    """The log-probabilities with these ILR coordinates; arguments as for `ilr`.

    >>> ilr_inv(torch.zeros(2)).exp()
    tensor([0.3333, 0.3333, 0.3333])
    """
    basis = gram_schmidt_basis(coordinates.shape[-1] + 1) if basis is None else basis
    return closure(coordinates @ basis.to(coordinates))


def class_compositions(classes: int) -> Float[Tensor, "classes classes"]:
    """Compositions of norm one, the k-th in favour of class k and equally against all others.

    Log-probabilities in float64 (Noé et al., Eq. 26).

    Raises:
        ValueError: fewer than two classes.

    >>> class_compositions(2).exp()
    tensor([[0.8044, 0.1956],
            [0.1956, 0.8044]], dtype=torch.float64)
    """
    _check_classes(classes)
    return closure(math.sqrt(classes / (classes - 1)) * torch.eye(classes, dtype=torch.float64))


def replace_zeros(
    p: Float[Tensor, "*batch classes"], amount: float
) -> Float[Tensor, "*batch classes"]:
    """Multiplicative replacement: zeros become `amount`, the other parts shrink to make room.

    Ratios between the other parts are kept (Martín-Fernández et al. 2003). Parts that would be
    below `amount` become it, too, or zeros would become more than they are: x = max(c p, amount).

    Raises:
        ValueError: an amount that is not between 0 and 1 / K for K classes.

    >>> replace_zeros(torch.tensor([0.5, 0.5, 0.0]), 0.1)
    tensor([0.4500, 0.4500, 0.1000])
    """
    classes = p.shape[-1]
    # All but one class may be zero: a larger amount would leave nothing for that one.
    if not 0 < amount < 1 / classes:
        raise ValueError(
            f"Expected `zero_replacement` to be between 0 and 1/{classes} for {classes} classes "
            f"but got {amount}."
        )
    ordered, place = p.sort(-1).values, torch.arange(classes).to(p)
    # c where as many as come before are replaced; those that are to be come first.
    room = (1 - amount * place) / ordered.flip(-1).cumsum(-1).flip(-1)
    count = (ordered * room < amount).sum(-1, keepdim=True)
    return (p * room.gather(-1, count)).clamp(min=amount)


def _centred(log_p: Float[Tensor, "*batch classes"]) -> Float[Tensor, "*batch classes"]:
    return log_p - log_p.mean(-1, keepdim=True)


def _check_classes(classes: int) -> None:
    if classes < 2:
        raise ValueError(f"Expected at least 2 classes for log-ratios but got {classes}.")


def _check_logits(log_p: Float[Tensor, "*batch classes"]) -> None:
    _check_classes(log_p.shape[-1])
    check_finite(log_p.reshape(-1, log_p.shape[-1]), "log_p", "it may be the logarithm of a zero")
