"""A residual convolutional surrogate of pictures and series of any size."""

import math
import operator
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64, Shaped
from torch import Tensor, nn

from manifold_shap.convolutions import (
    BATCH_NORMS,
    ResidualBlock,
    check_positions,
    convolution,
    halved,
    usual_channels,
)
from manifold_shap.nn import check_hidden, make_activation
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.network import MEMORY_BOUND, SurrogateNetwork, slopes

# The window of the first layer, and how far apart windows are.
_WINDOW, _STRIDE = 5, 2
_DENSE = 256
# How often an element of the first layer is read or written for one place of the window.
_PASSES = 4


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
        check_hidden(hidden)
        axes = len(size)
        # One position each: then what a player changes in the first layer is a window.
        self.single = self.mask_channels == 1 and math.prod(size) == self.players
        self.stem: Any = convolution(
            axes, self.channels, hidden[0], _WINDOW, _STRIDE, normalised=True
        )
        self.norm: Any = BATCH_NORMS[axes](hidden[0])
        self.activation = make_activation(activation)
        self.behind = nn.Sequential(
            *(ResidualBlock(axes, *pair, _STRIDE, activation, True) for pair in pairwise(hidden)),
            nn.Flatten(),
            nn.Linear(hidden[-1] * math.prod(halved(size, len(hidden))), _DENSE),
            make_activation(activation),
            nn.Linear(_DENSE, game.outputs),
        )
        if axes == 2:
            self.to(memory_format=torch.channels_last)

    def raw(
        self, x: Float[Tensor, "batch *event"], mask: Shaped[Tensor, "batch m players"]
    ) -> Float[Tensor, "batch m outputs"]:
        first = self.activation(self._first(x, mask))
        return self.behind(first).unflatten(0, mask.shape[:2])

    def linearized(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        chosen: Int64[Tensor, " chosen"] | None = None,
    ) -> Float[Tensor, "batch m places chosen"]:
        """As `around`, with the layers behind the first replaced by their derivative.

        A pixel changes the first layer in a window, by known terms, so its activations there are
        exact; the softmax at the end is exact again. Players that own several positions are
        linearized from the mask on, see `SurrogateNetwork.linearized`.
        """
        if not self.single:
            return super().linearized(x, mask, chosen)
        first = self._first(x, mask)
        active = self.activation(first.clone())
        with torch.inference_mode(False), torch.enable_grad():
            leaf = active.clone().requires_grad_()
            score = self.scores(self.behind(leaf).float(), chosen)
            slope = slopes(score, leaf, rows=1).to(first.dtype)
        first, active, slope, score = (
            part.unflatten(0, mask.shape[:2]) for part in (first, active, slope, score.detach())
        )
        moved = self._moved(x, mask, first, active, slope).float()
        score = score[..., None]
        return self.of_scores(torch.cat((score, score + moved), dim=-1).mT, chosen)

    def linearized_cost(self, outputs: int) -> float | None:
        """What `linearized` costs for a coalition and so many outputs, in values one by one.

        Counts multiplications: the first layer is computed anew for every place in the window, and
        what is behind it backward for every output.
        """
        if not self.single:
            return super().linearized_cost(outputs)
        size, positions = self.x_mean.shape[1:], self._positions
        layers: list[nn.Module] = [self.stem, *self.behind]
        # Those behind the blocks are fully connected.
        counts = positions + [1] * (len(layers) - len(positions))
        one = sum(
            count * sum(weight.numel() for weight in layer.parameters())
            for count, layer in zip(counts, layers, strict=True)
        )
        first = positions[0] * len(self.stem.weight)
        windows = _WINDOW ** len(size) * first * (outputs + _PASSES * MEMORY_BOUND)
        return 1 + 2.5 * outputs + windows / one

    @property
    def numbers(self) -> int:
        widths = [self.stem.out_channels, *(block.channels for block in self._blocks)]
        inputs = 3 * self.x_mean[0].numel() * self.stem.in_channels
        return inputs + 6 * sum(map(operator.mul, self._positions, widths))

    @property
    def _positions(self) -> list[int]:
        """How many positions the first layer and each residual block give."""
        size, times = self.x_mean.shape[1:], range(1, len(self._blocks) + 2)
        return [math.prod(halved(size, each)) for each in times]

    @property
    def _blocks(self) -> list[ResidualBlock]:
        return [part for part in self.behind if isinstance(part, ResidualBlock)]

    def _first(
        self, x: Float[Tensor, "batch *event"], mask: Shaped[Tensor, "batch m players"]
    ) -> Float[Tensor, "pairs channels *size"]:
        """The first layer, before its activation, of all pairs of a row and a coalition."""
        inputs = self.masked(x, mask)
        form = torch.channels_last if inputs.ndim == 4 else torch.contiguous_format
        return self.norm(self.stem(inputs.contiguous(memory_format=form)))

    def _moved(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        first: Float[Tensor, "batch m channels *size"],
        active: Float[Tensor, "batch m channels *size"],
        slope: Float[Tensor, "batch m outputs channels *size"],
    ) -> Float[Tensor, "batch m outputs players"]:
        """What toggling each player changes: by each weight of the window in turn."""
        size, axes = x.shape[2:], first.ndim - 3
        edge = [_WINDOW // 2, _WINDOW // 2 + _STRIDE] * axes
        # What a player adds: its elements and its mask.
        every = torch.ones_like(mask[:, :1, :1]).expand(-1, -1, self.players)
        rows = F.pad(self.masked(x, every)[:, : x.shape[1] + 1], edge)
        # Zero beyond the edge, and for players that padded rows lack: nobody is toggled there.
        signs = torch.where(mask, -1.0, 1.0).to(x.dtype)
        signs = F.pad(signs, (0, self.players - mask.shape[2]))
        signs = F.pad(signs[..., self.index[0]], edge)
        moved = first.new_zeros(*mask.shape[:2], slope.shape[2], *signs.shape[2:])
        for weight, window in self._windows(first.shape[3:]):
            own = weight[:, : rows.shape[1]].to(x.dtype)
            term = torch.einsum("oc,bc...->bo...", own, rows[window])
            toggled = first + signs[window][:, :, None] * term[:, None]
            changed = self.activation(toggled) - active
            moved[window] += torch.einsum("bmc...,bmkc...->bmk...", changed, slope)
        inside: Any = (..., *(slice(_WINDOW // 2, _WINDOW // 2 + length) for length in size))
        place = self.index[0].flatten().argsort()[: mask.shape[2]]
        return moved[inside].flatten(3)[..., place]

    def _windows(self, size: Sequence[int]) -> Iterator[tuple[Tensor, Any]]:
        """The weights of each place in the window, and the padded inputs that they multiply."""
        scale = self.norm.weight * (self.norm.running_var + self.norm.eps).rsqrt()
        for offset in product(range(_WINDOW), repeat=len(size)):
            ends = (at + _STRIDE * (n - 1) + 1 for at, n in zip(offset, size, strict=True))
            inputs = (slice(at, end, _STRIDE) for at, end in zip(offset, ends, strict=True))
            yield scale[:, None] * self.stem.weight[(..., *offset)], (..., *inputs)
