"""Networks of the classifiers that the commands train: from rows to logits."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from manifold_shap.convolutions import ConvolutionalEncoder, check_positions, usual_channels
from manifold_shap.nn import MLP
from manifold_shap.players import Players
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.transformer import Transformer


class ClassifierNetwork(nn.Module):
    """A network from rows `[batch, *event]` to logits `[batch, classes]`."""

    def standardise(self, x: Float[Tensor, "rows *event"]) -> None:
        """Take means and scales from training rows; by default none are used."""


class Dense(ClassifierNetwork):
    """A fully connected network on flattened rows.

    Args:
        event: shape of a row.
        classes: how many.
        padding: see `Players`; it is like any other number here.
        hidden, activation, dropout: see `MLP`.
    """

    def __init__(
        self,
        event: Sequence[int],
        classes: int,
        padding: float | None,
        hidden: Sequence[int] = (512,),
        activation: str = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.layers = MLP(math.prod(event), hidden, classes, activation, dropout)

    def forward(self, x: Float[Tensor, "batch *event"]) -> Float[Tensor, "batch classes"]:
        return self.layers(x)


class Residual(ClassifierNetwork):
    """A residual convolutional network on pictures or series; padding is zero in it.

    Args:
        event: `(channels, height, width)` or `(channels, time)`.
        classes: how many.
        padding: see `Players`.
        hidden: channels of each block; by default 16, 32, 64, ... up to 256, until no side is
            longer than 7.
        activation: one of `nn.ACTIVATIONS`.

    Raises:
        ValueError: rows of another shape.
    """

    mean: Tensor
    scale: Tensor

    def __init__(
        self,
        event: Sequence[int],
        classes: int,
        padding: float | None,
        hidden: Sequence[int] | None = None,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        size = check_positions(event)
        by_channel = (event[0], *(1 for _ in size))
        self.register_buffer("mean", torch.zeros(by_channel))
        self.register_buffer("scale", torch.ones(by_channel))
        self.positions = _positions(event, padding)
        channels = usual_channels(size) if hidden is None else hidden
        self.layers = ConvolutionalEncoder(event[0], size, channels, classes, activation)

    @torch.no_grad()
    def standardise(self, x: Float[Tensor, "rows *event"]) -> None:
        known = _known(self.positions, x).movedim(1, 0)
        for channel, own in enumerate(x.movedim(1, 0)):
            values = own[known[channel]]
            deviation = values.std(correction=0)
            self.mean[channel] = values.mean()
            self.scale[channel] = torch.where(deviation > 0, deviation, 1.0)

    def forward(self, x: Float[Tensor, "batch *event"]) -> Float[Tensor, "batch classes"]:
        known = (x - self.mean) / self.scale
        if self.positions.padding is not None:
            known = known.where(_known(self.positions, x), 0.0)
        return self.layers(known)


class Attentive(ClassifierNetwork):
    """The transformer of the surrogates, on rows of which nothing is absent but their padding.

    Args:
        event: `(length,)` of tokens, `(channels, height, width)` or `(channels, time)`.
        classes: how many.
        padding: see `Players`.
        hidden, activation, patch, vocabulary: see `Transformer`.

    Raises:
        ValueError: rows of another shape, tokens without a `vocabulary`, widths that differ.
    """

    def __init__(
        self,
        event: Sequence[int],
        classes: int,
        padding: float | None,
        hidden: Sequence[int] = (64, 64),
        activation: str = "gelu",
        patch: int | None = None,
        vocabulary: int | None = None,
    ) -> None:
        super().__init__()
        self.classes, self.positions = classes, _positions(event, padding)
        game = GameShape.of(self.positions, classes, on_simplex=False)
        self.transformer = Transformer(game, hidden, activation, patch, vocabulary)

    @torch.no_grad()
    def standardise(self, x: Float[Tensor, "rows *event"]) -> None:
        self.transformer.standardise(x, torch.zeros(len(x), self.classes))

    def forward(self, x: Shaped[Tensor, "batch *event"]) -> Float[Tensor, "batch classes"]:
        x = x.float()
        return self.transformer.raw(x, self.positions.owned(x)[:, None])[:, 0]


# The kinds of networks by name.
KINDS: dict[str, type[ClassifierNetwork]] = {
    "mlp": Dense,
    "conv": Residual,
    "transformer": Attentive,
}


def make_network(
    settings: Mapping[str, Any], event: Sequence[int], classes: int, padding: float | None
) -> ClassifierNetwork:
    """The network of these settings: its `kind`, one of `KINDS`, and the arguments of that.

    >>> settings = {"kind": "conv", "hidden": [4], "activation": "relu"}
    >>> make_network(settings, (3, 8, 6), 2, None)(torch.zeros(5, 3, 8, 6)).shape
    torch.Size([5, 2])
    """
    own = {key: settings[key] for key in settings if key != "kind"}
    return KINDS[settings["kind"]](event, classes, padding, **own)


def _positions(event: Sequence[int], padding: float | None) -> Players:
    """A player for each token, time point or pixel of a row, with its channels."""
    if len(event) == 1:
        return Players.tokens(event[0], padding)
    if len(event) == 2:
        return Players.segments(event, 1, padding)
    return Players.pixels(event)


def _known(positions: Players, x: Tensor) -> Bool[Tensor, "rows *event"]:
    """What is no padding."""
    return positions.owners(x) >= 0
