"""An amortised explainer of pictures and series: a convolutional network with a value per position.

It is a U-Net (Ronneberger et al. 2015), as in FastSHAP (Jethani et al. 2022): sides are halved, the
whole row is looked at, and sides are doubled again, with what was found on the way down, as far as
players are small: patches of 8 pixels have values on a grid of every eighth pixel. A player has the
mean of the values of its places on the grid.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from manifold_shap.amortized.network import AmortizedNetwork
from manifold_shap.amortized.sums import PlayerSums
from manifold_shap.convolutions import ResidualBlock, check_positions, convolution, halved
from manifold_shap.nn import check_hidden, make_activation
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.network import SurrogateNetwork

_WINDOW = 5
_STRIDE = 2
# Channels of the first layer, most channels, longest side of the last, and the layer between.
_FIRST, _MOST, _LAST_SIDE = 32, 256, 4
_DENSE = 256


class AmortizedConvolution(AmortizedNetwork):
    """phi(x) by residual blocks that halve the sides of a row, and others that double them again.

    Args:
        game: that of the surrogate, of rows `(channels, height, width)` or `(channels, time)`.
        chosen: see `AmortizedNetwork`.
        hidden: channels of the first layer and of each block, at sides that are halved each time.
            By default 32, 64, 128, ... up to 256, until no side is longer than 4.
        activation: one of `nn.ACTIVATIONS`.

    Raises:
        ValueError: rows of another shape.
    """

    def __init__(
        self,
        game: GameShape,
        hidden: Sequence[int] | None = None,
        activation: str = "relu",
        chosen: Sequence[int] | None = None,
    ) -> None:
        super().__init__(game, chosen)
        size = check_positions(game.event, game.index)
        hidden = _channels(size) if hidden is None else hidden
        check_hidden(hidden)
        axes = len(size)
        owners = game.players.index
        level = _level(owners, len(hidden))
        if level:
            owners = owners[(slice(None), *[slice(None, None, 2**level)] * axes)]
        self.sums = PlayerSums(
            owners.shape, owners.flatten().tolist(), self.outputs, 1 if level else _STRIDE
        )
        self.first: Any = convolution(axes, game.event[0] + 1, hidden[0], _WINDOW, _STRIDE)
        self.activation = make_activation(activation)
        self.down = nn.ModuleList(
            ResidualBlock(axes, *pair, _STRIDE, activation) for pair in pairwise(hidden)
        )
        inside = hidden[-1] * math.prod(halved(size, len(hidden)))
        self.inward = nn.Linear(inside + self.outputs, _DENSE)
        self.outward = nn.Linear(_DENSE, inside)
        # The first halving has no block, and places between those of the first layer none either.
        kept = hidden[max(0, level - 1) :]
        self.up = nn.ModuleList(
            ResidualBlock(axes, after, before, 1, activation)
            for before, after in reversed([*pairwise(kept)])
        )
        self.near = ResidualBlock(axes, kept[0], kept[0], 1, activation)
        self.last: Any = convolution(axes, kept[0], self.sums.channels)
        # Training begins with equal values of all players.
        nn.init.zeros_(self.last.weight)  # type: ignore[arg-type]
        if axes == 2:
            self.to(memory_format=torch.channels_last)

    def raw(
        self,
        surrogate: SurrogateNetwork,
        x: Float[Tensor, "batch *event"],
        change: Float[Tensor, "batch outputs"],
    ) -> Float[Tensor, "batch players outputs"]:
        """Shapley values, whatever their sum; see `AmortizedNetwork.raw`."""
        every = self.game.players.owned(x)[:, None]
        # Where there is a row at all: convolutions fill the surroundings by zeros.
        inputs = surrogate.masked(x, every)[:, : x.shape[1] + 1]
        form = torch.channels_last if inputs.ndim == 4 else torch.contiguous_format
        passed = [self.activation(self.first(inputs.contiguous(memory_format=form)))]
        for block in self.down:
            passed.append(block(passed[-1]))
        seen = torch.cat((passed[-1].flatten(1), change / self.scale), dim=1)
        whole = self.outward(self.activation(self.inward(seen)))
        h = passed[-1] + whole.reshape(passed[-1].shape)
        for block, before in zip(self.up, reversed(passed[:-1]), strict=False):
            h = before + F.interpolate(block(h), size=before.shape[2:], mode="nearest")
        return self.sums(self.last(self.near(h))) * (self.scale / math.sqrt(self.players))


def _level(owners: Int64[Tensor, "channels *size"], most: int) -> int:
    """How often sides may be halved until some place on the grid is of several players.

    >>> import manifold_shap as ms
    >>> of = lambda players: _level(players.index, most=6)
    >>> of(ms.Players.pixels((1, 28, 28))), of(ms.Players.patches((3, 224, 224), 32))
    (0, 5)
    """
    level, size = 0, owners.shape[1:]
    while level < most:
        step = 2 ** (level + 1)
        for axis, length in enumerate(size, start=1):
            place = torch.arange(length)
            owners_of_first = owners.index_select(axis, place // step * step)
            if not torch.equal(owners_of_first, owners):
                return level
        level += 1
    return level


def _channels(size: Sequence[int]) -> list[int]:
    """Channels of the layers, each of which halves the sides until they are short.

    >>> _channels((28, 28)), _channels((8, 8))
    ([32, 64, 128], [32, 64])
    """
    times = max(2, math.ceil(math.log2(max(size) / _LAST_SIDE)))
    return [min(_FIRST * 2**k, _MOST) for k in range(times)]
