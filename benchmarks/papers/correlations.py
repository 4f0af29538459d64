"""Correlations of two lists of figures, or of each row of two tables: Pearson's and Kendall's."""

import torch
from jaxtyping import Float
from torch import Tensor

# Differences below this part of the largest figure are rounding, and count as ties.
_TIE = 1e-4


def pearson(one: Float[Tensor, " figures"], other: Float[Tensor, " figures"]) -> float:
    """NaN where all figures of either are equal."""
    return torch.corrcoef(torch.stack((one, other)))[0, 1].item()


def kendall(one: Float[Tensor, " figures"], other: Float[Tensor, " figures"]) -> float:
    """Tau-b; NaN where all figures of either are equal."""
    return kendall_by_row(one[None], other[None]).item()


def kendall_by_row(
    one: Float[Tensor, "rows figures"], other: Float[Tensor, "rows figures"]
) -> Float[Tensor, " rows"]:
    """Kendall's tau-b of each row; NaN where all entries of either are equal."""
    first, second = torch.triu_indices(one.shape[1], one.shape[1], 1)
    signs, others = ((v[:, first] - v[:, second]).sign() for v in (_tied(one), _tied(other)))
    untied = signs.square().sum(1) * others.square().sum(1)
    return (signs * others).sum(1) / untied.sqrt()


def _tied(figures: Tensor) -> Tensor:
    """Equal where they differ by rounding alone, as those of variables with equal roles do."""
    return (figures / (_TIE * figures.abs().max())).round()
