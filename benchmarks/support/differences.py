"""Measures how far explanations are apart, and whether a mean difference is beyond its noise."""

import itertools
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

# Ours: explanations hardly differ if less than this part of Σ|φ| is at other features; and so many
# standard errors make a difference sure.
HARDLY, SURELY = 0.1, 3.0


def apart(one: Tensor, other: Tensor) -> Float[Tensor, " rows"]:
    """Half of Σ|φ - φ′| of each row."""
    return (one - other).abs().sum(1) / 2


def share_apart(one: Tensor, other: Tensor) -> float:
    """That over all rows as a part of what both share out: from 0, alike, to 1."""
    return (2 * apart(one, other).sum() / (one.abs() + other.abs()).sum()).item()


def shares_apart(phi: Sequence[Tensor]) -> list[float]:
    """That of any two."""
    return [share_apart(*two) for two in itertools.combinations(phi, 2)]


def gap(one: Tensor, other: Tensor) -> tuple[float, float]:
    """Mean difference over rows, with its error."""
    difference = one - other
    return difference.mean().item(), (difference.std() / len(difference) ** 0.5).item()


def jackknife(figure: Callable[[int | None], float], count: int) -> tuple[float, float]:
    """A figure of so many rows, with the error that leaving out each of them tells.

    Args:
        figure: of all rows but the one of this number, or of all.
    """
    without = torch.tensor([figure(k) for k in range(count)], dtype=torch.float64)
    return figure(None), ((count - 1) * without.var(correction=0)).sqrt().item()


def sure(difference: tuple[float, float]) -> bool:
    return difference[0] > SURELY * difference[1]
