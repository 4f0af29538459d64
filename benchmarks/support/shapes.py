"""Draws pictures of one coloured shape before a structured background."""

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor

SHAPES = ("disc", "square", "triangle", "cross", "ring")
# Pictures that are drawn together.
_TOGETHER = 100


def pictures(
    count: int, side: int = 64, seed: int = 0
) -> tuple[Float[Tensor, "count 3 side side"], Int64[Tensor, " count"]]:
    """Pictures with values from 0 to 1, and the number of the shape in each.

    A shape has any colour, place, angle and size from a quarter to half of the side. Behind it are
    stripes of two colours, of any direction and width, under a gradient of light and some noise.

    >>> x, shape = pictures(4, side=16)
    >>> x.shape, x.amin() >= 0, len(shape)
    (torch.Size([4, 3, 16, 16]), tensor(True), 4)
    """
    generator = torch.Generator().manual_seed(seed)
    x, shape = torch.empty(count, 3, side, side), torch.empty(count, dtype=torch.long)
    for place in torch.arange(count).split(_TOGETHER):
        x[place], shape[place] = _pictures(len(place), side, generator)
    return x, shape


def _pictures(
    count: int, side: int, generator: torch.Generator
) -> tuple[Float[Tensor, "count 3 side side"], Int64[Tensor, " count"]]:
    def uniform(*size: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        return low + (high - low) * torch.rand(count, *size, generator=generator)

    axis = (torch.arange(side) + 0.5) / side
    down, right = torch.meshgrid(axis, axis, indexing="ij")
    angle, width = uniform(1, 1, high=2 * math.pi), uniform(1, 1, low=0.06, high=0.3)
    along = right * angle.cos() + down * angle.sin()
    stripe = torch.sigmoid(20 * torch.sin(2 * math.pi * (along / width + uniform(1, 1))))[:, None]
    one, other = uniform(3, 1, 1), uniform(3, 1, 1)
    behind = stripe * one + (1 - stripe) * other
    light = 1 + 0.4 * uniform(1, 1, low=-1) * (down - 0.5) + 0.4 * uniform(1, 1, low=-1) * right
    behind = behind * light[:, None]
    shape = torch.randint(len(SHAPES), (count,), generator=generator)
    radius = uniform(1, 1, low=0.13, high=0.25)
    across, below = uniform(1, 1, low=0.3, high=0.7), uniform(1, 1, low=0.3, high=0.7)
    turn = uniform(1, 1, high=2 * math.pi)
    u = ((right - across) * turn.cos() + (down - below) * turn.sin()) / radius
    v = ((down - below) * turn.cos() - (right - across) * turn.sin()) / radius
    inside = _inside(u, v)[shape, torch.arange(count)]
    colour = uniform(3, 1, 1)
    # A shape is told from what is behind it by its brightness.
    contrast = (colour - behind.mean((2, 3), keepdim=True)).mean(1, keepdim=True)
    colour = (colour + 0.35 * contrast.sign()).clamp(0, 1)
    drawn = torch.where(inside[:, None], colour, behind)
    noise = 0.03 * torch.randn(drawn.shape, generator=generator)
    return (drawn + noise).clamp(0, 1), shape


def _inside(u: Tensor, v: Tensor) -> Tensor:
    """Which places are inside of each shape of radius one: `[shapes, count, side, side]`."""
    distance = u.square() + v.square()
    square = u.abs().maximum(v.abs()) < 0.85
    triangle = (v < 0.6) & (math.sqrt(3) * u.abs() - v < 1.1)
    bars = u.abs().minimum(v.abs()) < 0.28
    cross = bars & (u.abs().maximum(v.abs()) < 1)
    return torch.stack((distance < 1, square, triangle, cross, (distance < 1) & (distance > 0.4)))
