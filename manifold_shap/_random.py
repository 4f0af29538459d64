"""Computes random numbers from a key and a position (a counter-based generator).

A stateful generator gives other numbers when the same work is split into other batches. Here equal
keys give equal numbers in any call: coalitions along one order share their draws (common random
numbers), other orders have draws of their own, and neither the batch size nor the device matters.
Keys are mixed by the finaliser of SplitMix64 (Steele, Lea & Flood 2014).
"""

import itertools
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
    """New keys from keys and numbers, broadcast, whose random numbers are independent.

    >>> bool((fold(torch.tensor([1, 2]), 0) == fold(torch.tensor([1, 3]), 0))[0])
    True
    """
    number = torch.as_tensor(number, dtype=torch.int64, device=keys.device)
    return _mix(_mix(keys) + (number + 1) * _GOLDEN)


def uniform(
    keys: Int64[Tensor, "*shape"], size: Sequence[int], draws: range | None = None
) -> Float[Tensor, "..."]:
    """Uniform numbers strictly between 0 and 1: `[*shape, *size]`, or `[*shape, draws, *size]`.

    Args:
        keys: equal keys give equal numbers.
        size: shape of the block of numbers for each key (and each draw).
        draws: numbers of the draws, where there are several: a draw's block depends on its own
            number only.

    >>> few = uniform(torch.tensor([7]), (2,), range(3))
    >>> torch.equal(few, uniform(torch.tensor([7]), (2,), range(9))[:, :3])
    True
    """
    # Coalitions along an order repeat a key hundreds of times: its numbers are computed once.
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
    """Standard normal numbers; arguments as for `uniform`.

    >>> torch.equal(normal(torch.tensor([7]), (2,)), to_normal(uniform(torch.tensor([7]), (2,))))
    True
    """
    return to_normal(uniform(keys, size, draws))


def to_normal(numbers: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The standard normal quantile of numbers strictly between 0 and 1.

    >>> to_normal(torch.tensor([0.5, 0.975]))
    tensor([0.0000, 1.9600])
    """
    return torch.erfinv(2 * numbers - 1) * math.sqrt(2)


def permuted(
    keys: Int64[Tensor, "*shape"], draws: range, count: int
) -> Int64[Tensor, "*shape draws"]:
    """Whole numbers below `count` in an order that the key decides: each once, then in turn.

    The order is start + stride · k modulo a prime, both of the key, without what is not below
    `count`. Two draws are then any two numbers, equally likely (for a prime exactly): means over
    them have the variance of a sample without replacement.

    >>> sorted(permuted(torch.tensor(7), range(5), 5).tolist())
    [0, 1, 2, 3, 4]
    """
    prime = next(
        n for n in itertools.count(max(2, count)) if all(n % k for k in range(2, math.isqrt(n) + 1))
    )
    start, stride = uniform(keys, (2,)).double()[..., None, :].unbind(-1)
    start, stride = (start * prime).long(), 1 + (stride * (prime - 1)).long()
    place = torch.arange(draws.start, draws.stop, device=keys.device) % count
    found = (start + stride * place) % prime
    # The order goes on from a number that is left out, of which there are so many at most.
    for _ in range(prime - count):
        found = torch.where(found >= count, (start + stride * found) % prime, found)
    return found


def _mix(keys: Int64[Tensor, "*shape"]) -> Int64[Tensor, "*shape"]:
    keys = (keys ^ _shift(keys, 30)) * _FIRST
    keys = (keys ^ _shift(keys, 27)) * _SECOND
    return keys ^ _shift(keys, 31)


def _shift(keys: Int64[Tensor, "*shape"], by: int) -> Int64[Tensor, "*shape"]:
    # A logical shift: `>>` alone would repeat the sign.
    return (keys >> by) & (2 ** (64 - by) - 1)


def keys_for(mask: Tensor, keys: Tensor | None) -> Int64[Tensor, "batch m"]:
    """Keys of coalitions `[batch, m, players]`, checked; without any, all share one.

    Raises:
        TypeError, ValueError: `keys` is no int64 tensor with one for each coalition.
    """
    if keys is None:
        return torch.zeros(mask.shape[:2], dtype=torch.int64, device=mask.device)
    shape = tuple(mask.shape[:2])
    expected = f"Expected `keys` to be an int64 tensor of shape {shape}, one per coalition, but got"
    if not isinstance(keys, Tensor):
        raise TypeError(f"{expected} {keys!r:.100}; without any, all coalitions share one key.")
    if keys.dtype != torch.int64 or keys.shape != shape:
        raise ValueError(f"{expected} {keys.dtype} of shape {tuple(keys.shape)}.")
    return keys.to(mask.device)
