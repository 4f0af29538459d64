"""Random numbers that are a function of a key and a position, not of what was drawn before.

A generator gives other numbers when work is cut into other chunks. Here equal keys give equal
numbers, wherever and whenever they are asked for: coalitions along one order share their draws
(common random numbers), other orders have draws of their own, and neither the size of a batch nor
the device matters. Keys are mixed by the finaliser of SplitMix64 (Steele, Lea & Flood 2014).
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_FIRST = 0xBF58476D1CE4E5B9 - 2**64
_SECOND = 0x94D049BB133111EB - 2**64
# One fewer than a float32 holds: with half a step added, 24 would round up to 1.
_BITS = 23


def fold(keys: Int64[Tensor, "..."], number: Tensor | int) -> Int64[Tensor, "..."]:
    """Keys derived from these keys and a number each, broadcast; they share no numbers."""
    number = torch.as_tensor(number, dtype=torch.int64, device=keys.device)
    return _mix(_mix(keys) + (number + 1) * _GOLDEN)


def uniform(
    keys: Int64[Tensor, "*shape"], size: Sequence[int], draws: range | None = None
) -> Float[Tensor, "..."]:
    """Uniform numbers strictly between 0 and 1: `[*shape, *size]`, or `[*shape, draws, *size]`.

    Args:
        keys: equal keys, equal numbers.
        size: of the block of numbers that each key (and each draw) gives.
        draws: numbers of the draws, where there are several: a draw's block depends on its own
            number only.
    """
    # Coalitions along an order repeat a key hundreds of times: its numbers are made once.
    distinct, position = keys.unique(return_inverse=True)
    width = math.prod(size)
    first, count = (0, 1) if draws is None else (draws.start, len(draws))
    places = torch.arange(first * width, (first + count) * width, device=keys.device)
    bits = _mix(_mix(distinct)[:, None] + (places + 1) * _GOLDEN)
    # The highest bits are the best mixed; half a step keeps 0 and 1 out.
    numbers = ((bits >> (64 - _BITS)) & (2**_BITS - 1)).float().add_(0.5).mul_(2.0**-_BITS)
    shape = size if draws is None else (count, *size)
    numbers = numbers.reshape(len(distinct), *shape)
    if len(distinct) == 1:
        return numbers[0].expand(*keys.shape, *shape)
    return numbers[position]


def normal(
    keys: Int64[Tensor, "*shape"], size: Sequence[int], draws: range | None = None
) -> Float[Tensor, "..."]:
    """Standard normal numbers, as `uniform` gives uniform ones."""
    return to_normal(uniform(keys, size, draws))


def to_normal(numbers: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The standard normal quantile of numbers strictly between 0 and 1."""
    return torch.erfinv(2 * numbers - 1) * math.sqrt(2)


def _mix(keys: Int64[Tensor, "*shape"]) -> Int64[Tensor, "*shape"]:
    keys = (keys ^ _shift(keys, 30)) * _FIRST
    keys = (keys ^ _shift(keys, 27)) * _SECOND
    return keys ^ _shift(keys, 31)


def _shift(keys: Int64[Tensor, "*shape"], by: int) -> Int64[Tensor, "*shape"]:
    # A logical shift: `>>` alone would repeat the sign.
    return (keys >> by) & (2 ** (64 - by) - 1)
