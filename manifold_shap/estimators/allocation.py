"""Allocates samples to players greedily (Neyman-type), to reduce the total error most."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

# The threshold starts within a factor e^60 for any budget: this leaves it to twelve digits.
_HALVINGS = 46


def allocate(
    trace: Float[Tensor, "rows players"], counts: Int64[Tensor, "rows players"], samples: int
) -> Int64[Tensor, "rows players"]:
    """How many of `samples` more go to each player of each row.

    The squared errors of the players' means sum to Σ tr Σ_i/m_i (Noé et al. 2024, Eq. 27). Each
    sample goes where it takes most from this sum: to the player with the largest gain, tr Σ_i/m_i
    - tr Σ_i/(m_i + 1) = tr Σ_i/(m_i(m_i + 1)), the first of several that are equal. A player's
    gains fall, so samples given one by one are those of the largest gains of all.

    Args:
        trace: tr Σ_i, total variance of a player's contributions. Where no player has any, all
            are taken to have the same.
        counts: m_i, at least 1.
        samples: for each row.
    """
    trace = _or_equal(trace)

    def gain(counts: Tensor) -> Tensor:
        return trace / (counts.double() * (counts + 1))

    def above(threshold: Float[Tensor, "rows 1"]) -> Tensor:
        # A count m has a gain above the threshold where m(m + 1) < tr Σ_i/threshold.
        root = ((1 + 4 * trace / threshold).sqrt() - 1) / 2
        return (root.ceil().long() - counts).clamp(min=0)

    high = gain(counts).amax(1, keepdim=True)
    low = gain(counts + samples - 1).amax(1, keepdim=True)
    for _ in range(_HALVINGS):
        middle = low.sqrt() * high.sqrt()
        fits = above(middle).sum(1, keepdim=True) <= samples
        low, high = torch.where(fits, low, middle), torch.where(fits, middle, high)
    most = above(high)
    # What is left are gains as good as equal, of different players.
    left = samples - most.sum(1, keepdim=True)
    order = gain(counts + most).argsort(dim=1, descending=True, stable=True)
    return most + (order.argsort(1) < left)


def weights(trace: Float[Tensor, "rows players"]) -> Float[Tensor, "rows players"]:
    """Shares that sum to one, in proportion to the traces; equal where no player has any."""
    trace = _or_equal(trace)
    return trace / trace.sum(1, keepdim=True)


def _or_equal(trace: Float[Tensor, "rows players"]) -> Float[Tensor, "rows players"]:
    return torch.where(trace.sum(1, keepdim=True) > 0, trace, 1.0)
