"""A residual convolutional surrogate of pictures and series of any size."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor, nn

from manifold_shap.convolutions import (
    ResidualBlock,
    check_positions,
    convolution,
    halved,
    layer,
    usual_channels,
)
from manifold_shap.nn import make_activation
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.network import SurrogateNetwork

# The window of the first layer, and how far apart windows are.
_WINDOW, _STRIDE = 5, 2
_DENSE = 256


class Convolution(SurrogateNetwork):
    """A residual network on `(x ⊙ mask, mask)`, with the mask as further channels.

    Args:
        game: see `SurrogateNetwork`; of rows `(channels, height, width)` or `(channels, time)`.
        hidden: channels of the first layer and of each residual block; each of them halves the
            sides. By default 16, 32, 64, ... up to 256, until no side is longer than 7.
        activation: one of `nn.ACTIVATIONS`.

    Raises:
        ValueError: rows of another shape.
    """

    def __init__(
        self,
        game: GameShape,
        hidden: Sequence[int] | None = None,
        activation: str = "relu",
    ) -> None:
        super().__init__(game)
        size = check_positions(game.event, game.index)
        hidden = usual_channels(size) if hidden is None else hidden
        axes = len(size)
        self.stem: Any = convolution(
            axes, self.channels, hidden[0], _WINDOW, _STRIDE, normalised=True
        )
        self.norm: Any = layer("BatchNorm", axes)(hidden[0])
        self.activation = make_activation(activation)
        self.behind = nn.Sequential(
            *(ResidualBlock(axes, *pair, _STRIDE, activation, True) for pair in pairwise(hidden)),
            nn.Flatten(),
            nn.Linear(hidden[-1] * math.prod(halved(size, len(hidden))), _DENSE),
            make_activation(activation),
            nn.Linear(_DENSE, game.outputs),
        )

    def raw(
        self, x: Float[Tensor, "batch *event"], mask: Bool[Tensor, "batch m players"]
    ) -> Float[Tensor, "batch m outputs"]:
        first = self.norm(self.stem(self.masked(x, mask)))
        return self.behind(self.activation(first)).unflatten(0, mask.shape[:2])

    @property
    def numbers(self) -> int:
        size = self.x_mean.shape[1:]
        blocks = [part.channels for part in self.behind if isinstance(part, ResidualBlock)]
        widths = enumerate([self.stem.out_channels, *blocks], start=1)
        inputs = 3 * self.x_mean[0].numel() * self.stem.in_channels
        return inputs + 6 * sum(width * math.prod(halved(size, k)) for k, width in widths)
