"""How far two explanations of the same days are apart, and by what a difference is sure."""

import itertools
from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

import manifold_shap as ms

# Ours: standard errors by which figures must differ to count as different.
SURELY = 3.0


def apart(one: ms.Explanation, other: ms.Explanation) -> Float[Tensor, " days"]:
    """How many bicycles two explanations of a day give to other features."""
    return (one.phi - other.phi)[..., 0].abs().sum(1) / 2


def share_apart(one: ms.Explanation, other: ms.Explanation) -> float:
    """The same over all days, as a part of what both share out: from 0, alike, to 1."""
    both = (one.phi.abs().sum() + other.phi.abs().sum()) / 2
    return (apart(one, other).sum() / both).item()


def largest_share(explanations: Iterable[ms.Explanation]) -> float:
    """Of any two of them."""
    return max(share_apart(*pair) for pair in itertools.combinations(explanations, 2))


def noise(one: ms.Explanation, other: ms.Explanation) -> float:
    """What `apart` is on average for the same values, of as many draws."""
    error = (one.standard_error.square() + other.standard_error.square()).sqrt()
    return ((2 / torch.pi) ** 0.5 * error[..., 0].sum(1) / 2).mean().item()


def earlier_share(
    explanation: ms.Explanation, ordering: Sequence[Sequence[str]]
) -> Float[Tensor, " days"]:
    """Part of Σ|φ| that all components but the last have."""
    size = explanation.phi[..., 0].abs()
    last = torch.tensor([name in ordering[-1] for name in explanation.players.names])
    return size[:, ~last].sum(1) / size.sum(1)


def surely_larger(one: Float[Tensor, " days"], other: Float[Tensor, " days"]) -> bool:
    """Whether the mean is, judged by the differences of each day."""
    gap = one - other
    return bool(gap.mean() > SURELY * gap.std() / len(gap) ** 0.5)


def all_surely_larger(ones: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    """Whether each of these means is larger than each of the others."""
    return all(surely_larger(one, other) for one in ones for other in others)


def between_days(explanation: ms.Explanation, player: str) -> tuple[float, float]:
    """By how much a value is larger in October than in December, and its error."""
    k = explanation.players.names.index(player)
    gap = explanation.phi[0, k, 0] - explanation.phi[1, k, 0]
    return gap.item(), explanation.standard_error[:2, k, 0].norm().item()


def surely_beyond(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether a figure is larger than another, judged by the errors of both."""
    return one[0] - other[0] > SURELY * (one[1] ** 2 + other[1] ** 2) ** 0.5


def mean(numbers: Float[Tensor, " days"]) -> tuple[float, float]:
    """With its error."""
    return numbers.mean().item(), (numbers.std() / len(numbers) ** 0.5).item()
