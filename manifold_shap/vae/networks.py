"""Builds the networks of a masked-encoder VAE: fully connected or convolutional ones.

They take vectors and give vectors, of which `MaskedVAE` makes distributions:

- an encoder, from the features of a row to the numbers of q(z|x), two for each dimension of z;
- a decoder, from a code to the parameters of p(x|z);
- a masked encoder, from the features of present elements and the mask beside them to the numbers of
  r(z|x_S), as many as `mixture`; None where that is 0.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manifold_shap.convolutions import (
    ConvolutionalDecoder,
    ConvolutionalEncoder,
    check_positions,
)
from manifold_shap.nn import MLP, layers_behind, of_shape, options_given, own_network
from manifold_shap.players import Players
from manifold_shap.vae.likelihood import Likelihood

# Numbers that a layer holds at a time: 64 MiB.
_MOST_HELD = 2**24

# A row of at least this many elements, such as an image, needs wider networks.
_MANY_ELEMENTS = 100

Networks: TypeAlias = tuple[nn.Module, nn.Module, nn.Module | None]


def fully_connected(
    likelihood: Likelihood,
    players: Players,
    latent: int,
    mixture: int,
    hidden: Sequence[int],
    activation: str,
) -> Networks:
    """Networks of rows as vectors: any rows; the mask is over players.

    Args:
        likelihood: families of the elements.
        players: those of the rows.
        latent: dimensions of z.
        mixture: numbers of r(z|x_S).
        hidden: width of each hidden layer.
        activation: one of `nn.ACTIVATIONS`.
    """
    features, parameters = len(likelihood.feature_of), len(likelihood.parameter_of)
    encoder = MLP(features, hidden, 2 * latent, activation)
    decoder = MLP(latent, [*reversed(hidden)], parameters, activation)
    seen = features + len(players)
    return encoder, decoder, MLP(seen, hidden, mixture, activation) if mixture else None


def own_networks(
    likelihood: Likelihood, players: Players, latent: int, mixture: int, make: Any
) -> Networks:
    """A user's networks of vectors; the mask is over players.

    Args:
        likelihood, players, latent, mixture: see `fully_connected`.
        make: a function that makes a network of these widths, see `nn.own_network`.
    """
    features, parameters = len(likelihood.feature_of), len(likelihood.parameter_of)
    encoder = UsersNetwork(make, features, 2 * latent)
    decoder = UsersNetwork(make, latent, parameters)
    seen = features + len(players)
    return encoder, decoder, UsersNetwork(make, seen, mixture) if mixture else None


class UsersNetwork(nn.Module):
    """A user's network of vectors, which are as wide as they should be."""

    def __init__(self, make: Any, inputs: int, outputs: int) -> None:
        super().__init__()
        self.network, self.outputs = own_network(make, (inputs,), (outputs,)), outputs

    def forward(self, x: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        return of_shape(self.network(x), (len(x), self.outputs))


def convolutional(
    likelihood: Likelihood,
    players: Players,
    latent: int,
    mixture: int,
    hidden: Sequence[int],
    activation: str,
) -> Networks:
    """Networks of pictures `(channels, height, width)` or series `(channels, time)`.

    The mask is over elements: channels beside those of the row.

    Args:
        likelihood, players, latent, mixture, activation: see `fully_connected`.
        hidden: channels of each block.
    """
    event = players.event
    size = check_positions(event, players.index.flatten().tolist())
    features = Channels(likelihood.feature_of, event)
    parameters = Channels(likelihood.parameter_of, event)
    most = max(1, _MOST_HELD // (max(hidden) * math.prod(size)))
    # Initial weights are drawn in this order, so that those of q and p do not depend on r.
    decode = ConvolutionalDecoder(
        latent, [*reversed(hidden)], parameters.channels, size, activation
    )
    encode = ConvolutionalEncoder(features.channels, size, hidden, 2 * latent, activation)
    encoder = InParts(nn.Sequential(features, encode), most)
    decoder = InParts(nn.Sequential(decode, FromChannels(parameters)), most)
    if not mixture:
        return encoder, decoder, None
    width = 4 * hidden[-1]
    both = Channels(torch.cat((likelihood.feature_of, torch.arange(math.prod(event)))), event)
    masked = ConvolutionalEncoder(both.channels, size, hidden, width, activation)
    rest = layers_behind([width], mixture, activation)
    return encoder, decoder, InParts(nn.Sequential(both, masked, rest), most)


class Channels(nn.Module):
    """Lays what elements have, a few numbers each, out as the channels of a picture or a series.

    >>> spread = Channels(torch.tensor([0, 1, 2, 3, 1]), event=(2, 2))
    >>> spread(torch.tensor([[5.0, 6.0, 7.0, 8.0, 9.0]]))
    tensor([[[5., 6.],
             [7., 8.],
             [0., 9.],
             [0., 0.]]])

    Args:
        element_of: the element that each number belongs to.
        event: shape of one input row, channels first.

    Attributes:
        channels: those of a row times the most numbers that an element has.
    """

    place: Tensor

    def __init__(self, element_of: Tensor, event: Sequence[int]) -> None:
        super().__init__()
        elements = math.prod(event)
        order = element_of.argsort(stable=True)
        counts = torch.bincount(element_of, minlength=elements)
        # How many numbers of the same element come before each.
        earlier = torch.empty_like(order)
        earlier[order] = torch.arange(len(order)) - (counts.cumsum(0) - counts)[element_of[order]]
        self.register_buffer("place", earlier * elements + element_of, persistent=False)
        self.channels = event[0] * int(counts.max())
        self.shape = (self.channels, *event[1:])

    def forward(self, flat: Float[Tensor, "rows numbers"]) -> Float[Tensor, "rows channels *size"]:
        spread = flat.new_zeros(len(flat), math.prod(self.shape))
        return spread.index_copy(1, self.place, flat).unflatten(1, self.shape)


class FromChannels(nn.Module):
    """The numbers that `Channels` lays out, from their channels."""

    place: Tensor

    def __init__(self, channels: Channels) -> None:
        super().__init__()
        self.register_buffer("place", channels.place, persistent=False)

    def forward(self, x: Float[Tensor, "rows channels *size"]) -> Float[Tensor, "rows numbers"]:
        return x.flatten(1).index_select(1, self.place)


class InParts(nn.Module):
    """A network of rows, at most so many of them at a time: convolutions take much memory."""

    def __init__(self, network: nn.Module, most: int) -> None:
        super().__init__()
        self.network, self.most = network, most

    def forward(self, x: Float[Tensor, "rows numbers"]) -> Float[Tensor, "rows outputs"]:
        return torch.cat([self.network(some) for some in x.split(self.most)])


# How they are built, by name: "own" are the user's, which are not called by a name.
NETWORKS: Mapping[str, Callable[..., Networks]] = {
    "mlp": fully_connected,
    "conv": convolutional,
    "own": own_networks,
}
NAMED = tuple(name for name in NETWORKS if name != "own")
# Widths or channels of long rows, and of short ones.
_HIDDEN = {"mlp": ((512, 512), (256, 256)), "conv": ((32, 64, 64), (32, 64))}


def network_options(
    kind: str,
    elements: int,
    latent: int | None,
    hidden: Sequence[int] | None,
    activation: str | None,
) -> dict[str, Any]:
    """Arguments of `MaskedVAE` for rows of so many elements; None for the usual ones.

    Raises:
        ValueError: an option that this kind of network does not have.
    """
    few = elements < _MANY_ELEMENTS
    of_kind = {"hidden": hidden, "activation": activation}
    given = options_given(NETWORKS[kind], kind, of_kind)
    usual = of_kind if kind == "own" else {"hidden": _HIDDEN[kind][few], "activation": "relu"}
    return (
        {"network": kind, "latent": (16 if few else 32) if latent is None else latent}
        | usual
        | given
    )
