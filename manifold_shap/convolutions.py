"""Defines convolutional networks of pictures and series: residual blocks for rows of any size.

The same code serves series (one axis of positions) and pictures (two). Normalisation is up to the
network: without it a row's output does not depend on other rows in training, and the number of
absent elements is not divided away.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from manifold_shap._checks import check_channels_first
from manifold_shap.nn import make_activation

# Channels of the first layer, most channels, and the longest side that the last layers see.
_FIRST, _MOST, _LAST_SIDE = 16, 256, 7
# Side from which a square is rather a picture than a series of as many channels as time points.
_LEAST_SIDE = 8


def layer(name: str, axes: int) -> Any:
    """torch's layer of this name along so many axes.

    >>> layer("Conv", axes=2)
    <class 'torch.nn.modules.conv.Conv2d'>
    """
    return getattr(nn, f"{name}{axes}d")


def check_positions(event: Sequence[int], owner: Sequence[int] | None = None) -> tuple[int, ...]:
    """The size of a picture or a series, the shape of one row without its channels.

    Args:
        event: the shape of one row.
        owner: of each of its flattened elements, the player; by default each is one. Those of two
            axes tell a picture without an axis of channels from a series.

    Raises:
        ValueError: a row is neither of them, or has its channels last or no axis for them.

    >>> check_positions((3, 28, 30))
    (28, 30)
    """
    if len(event) not in (2, 3):
        raise ValueError(
            "Expected rows (channels, height, width) or (channels, time) for a convolutional "
            f"network but got rows of shape {tuple(event)}; give one channel an axis of its own by "
            "`x[:, None]`, or use network='mlp'."
        )
    single = torch.arange(math.prod(event)) if owner is None else torch.tensor(owner)
    player = single.reshape(tuple(event))
    # Players that own time points of all channels say which axis is that of time.
    if len(event) > 2 or bool((player != player[:1]).any()) or not bool(player.any()):
        check_channels_first(event)
        if len(event) == 2 and event[0] == event[1] >= _LEAST_SIDE:
            raise ValueError(
                f"Expected rows (channels, time) but got {tuple(event)}, which look like pictures "
                "without an axis of channels: give `x[:, None]` and `lambda x: model(x[:, 0])`; of "
                "a series give players that own time points of all channels."
            )
    return tuple(event[1:])


def convolution(
    axes: int,
    inputs: int,
    outputs: int,
    width: int = 3,
    stride: int = 1,
    normalised: bool = False,
) -> nn.Module:
    """A convolution along one or two axes, which keeps sizes or, with a stride of 2, halves them.

    Sizes are rounded up. Initial weights keep the scale of inputs that pass a ReLU behind them (He
    et al. 2015). Normalisation makes scales equal anyway: then torch's own weights are smaller, and
    steps of the same learning rate turn them further.

    >>> import torch
    >>> convolution(1, 2, 4, stride=2)(torch.zeros(5, 2, 7)).shape
    torch.Size([5, 4, 4])

    Args:
        axes: 1 for series, 2 for pictures.
        inputs, outputs: channels.
        width: of the window, odd.
        stride: positions from one window to the next.
        normalised: whether batch normalisation is behind it.
    """
    made = layer("Conv", axes)(inputs, outputs, width, stride, padding=width // 2)
    if not normalised:
        nn.init.kaiming_normal_(made.weight, nonlinearity="relu")
        nn.init.zeros_(made.bias)
    return made


class ResidualBlock(nn.Module):
    """Two convolutions beside a shortcut (He et al. 2016), for inputs of any size.

    Without normalisation the block begins as its shortcut alone, its last weights being zero (as in
    Zhang et al. 2019, "Fixup initialization").

    >>> import torch
    >>> ResidualBlock(2, 3, 8, stride=2)(torch.zeros(5, 3, 9, 4)).shape
    torch.Size([5, 8, 5, 2])

    Args:
        axes: 1 for series, 2 for pictures.
        inputs, outputs: channels.
        stride: 2 halves the sizes, rounded up.
        activation: one of `nn.ACTIVATIONS`.
        normalised: whether convolutions are followed by batch normalisation: fewer steps lead as
            far, but in training a row's output then depends on the other rows.
    """

    def __init__(
        self,
        axes: int,
        inputs: int,
        outputs: int,
        stride: int = 1,
        activation: str = "relu",
        normalised: bool = False,
    ) -> None:
        super().__init__()
        self.channels = outputs
        first = convolution(axes, inputs, outputs, 3, stride, normalised)
        last = convolution(axes, outputs, outputs, normalised=normalised)
        self.shortcut = nn.Sequential()
        if stride > 1:
            # Before the convolution (He et al. 2019, "ResNet-D"): with steps of its own it would
            # see a quarter of the positions, and oneDNN 3.13 crashes with few channels.
            self.shortcut.append(layer("AvgPool", axes)(stride, ceil_mode=True))
        if normalised:
            norm, again, beside = (layer("BatchNorm", axes)(outputs) for _ in range(3))
            self.change = nn.Sequential(first, norm, make_activation(activation), last, again)
            self.shortcut.extend([convolution(axes, inputs, outputs, 1, normalised=True), beside])
        else:
            nn.init.zeros_(last.weight)  # type: ignore[arg-type]
            self.change = nn.Sequential(first, make_activation(activation), last)
            if inputs != outputs:
                self.shortcut.append(convolution(axes, inputs, outputs, width=1))
        self.activation = make_activation(activation)

    def forward(self, x: Float[Tensor, "rows inputs *size"]) -> Float[Tensor, "rows outputs *less"]:
        return self.activation(self.shortcut(x) + self.change(x))


def halved(size: Sequence[int], times: int) -> tuple[int, ...]:
    """Sizes that are halved so many times, each time rounded up.

    >>> halved((28, 5), 2)
    (7, 2)
    """
    return tuple(-(-length // 2**times) for length in size)


def usual_channels(size: Sequence[int]) -> list[int]:
    """Channels of the layers of a network on pictures or series, each of which halves the sides.

    >>> usual_channels((28, 28)), usual_channels((224, 224))
    ([16, 32, 64], [16, 32, 64, 128, 256])
    """
    times = max(3, math.ceil(math.log2(max(size) / _LAST_SIDE)))
    return [min(_FIRST * 2**k, _MOST) for k in range(times)]


class ConvolutionalEncoder(nn.Sequential):
    """A network from pictures or series to a vector: each step halves the sizes.

    The first step is a single convolution: layers of the full size would take most of the time.

    >>> import torch
    >>> ConvolutionalEncoder(3, (9, 6), [8, 16], outputs=4)(torch.zeros(5, 3, 9, 6)).shape
    torch.Size([5, 4])

    Args:
        channels: of the input.
        size: of the input, without its channels.
        hidden: channels behind each step.
        outputs: width of the result.
        activation: one of `nn.ACTIVATIONS`.
    """

    def __init__(
        self,
        channels: int,
        size: Sequence[int],
        hidden: Sequence[int],
        outputs: int,
        activation: str = "relu",
    ) -> None:
        axes, positions = len(size), math.prod(halved(size, len(hidden)))
        super().__init__(
            convolution(axes, channels, hidden[0], width=5, stride=2),
            make_activation(activation),
            *(
                ResidualBlock(axes, before, after, 2, activation)
                for before, after in pairwise(hidden)
            ),
            nn.Flatten(),
            nn.Linear(hidden[-1] * positions, outputs),
        )


class ConvolutionalDecoder(nn.Module):
    """A network from a vector to pictures or series: each step doubles the sizes.

    >>> import torch
    >>> ConvolutionalDecoder(4, [16, 8], 3, (9, 6))(torch.zeros(5, 4)).shape
    torch.Size([5, 3, 9, 6])

    Args:
        inputs: width of the vector.
        hidden: channels before each step.
        channels: of the result.
        size: of the result, without its channels.
        activation: one of `nn.ACTIVATIONS`.
    """

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        channels: int,
        size: Sequence[int],
        activation: str = "relu",
    ) -> None:
        super().__init__()
        axes = len(size)
        self.sizes = [halved(size, left) for left in reversed(range(len(hidden) + 1))]
        self.first = nn.Sequential(
            nn.Linear(inputs, hidden[0] * math.prod(self.sizes[0])),
            nn.Unflatten(1, (hidden[0], *self.sizes[0])),
            make_activation(activation),
        )
        self.blocks = nn.ModuleList(
            ResidualBlock(axes, before, after, activation=activation)
            for before, after in pairwise(hidden)
        )
        # A window of 4 with steps of 2: no position gets more than another.
        self.last = layer("ConvTranspose", axes)(hidden[-1], channels, 4, 2, 1)

    def forward(self, z: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows channels *size"]:
        x = self.first(z)
        for block, size in zip(self.blocks, self.sizes[1:], strict=False):
            # A block before its sizes are doubled takes a quarter of the time of one behind.
            x = F.interpolate(block(x), size=size, mode="nearest")
        return self.last(x)[(..., *(slice(length) for length in self.sizes[-1]))]
