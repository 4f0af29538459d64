"""Builds the networks of a masked-encoder VAE: fully connected or convolutional ones."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from manifold_shap.convolutions import (
    ConvolutionalDecoder,
    ConvolutionalEncoder,
    check_positions,
)
from manifold_shap.nn import MLP, MaskedLinear, layers_behind
from manifold_shap.vae.likelihood import Likelihood

# Numbers that a layer holds at a time: 64 MiB.
_MOST_HELD = 2**24

# A row of at least this many elements, such as an image, needs wider networks.
_MANY_ELEMENTS = 100


class Networks(NamedTuple):
    """The networks of a VAE: numbers in, numbers out; `MaskedVAE` makes distributions of them.

    Attributes:
        encoder: from features `[rows, features]` to the numbers of q(z|x), two for each dimension.
        decoder: from codes `[rows, latent]` to the parameters of p(x|z).
        first: what sees the present elements alone, from features `[batch, features]` and
            coalitions `[batch, m, players]` to `[batch, m, width]`; None where r is not wanted.
        rest: the layers behind it, to the numbers of r(z|x_S).
    """

    encoder: nn.Module
    decoder: nn.Module
    first: nn.Module | None
    rest: nn.Module | None


class Plan(NamedTuple):
    """What networks are built for.

    Attributes:
        likelihood: families of the elements.
        owner: player of each of the flattened elements.
        event: shape of one input row.
        latent: dimensions of z.
        mixture: numbers of r(z|x_S); 0 where it is not wanted.
        hidden: width of each hidden layer or, of convolutions, channels of each block.
        activation: one of `nn.ACTIVATIONS`.
    """

    likelihood: Likelihood
    owner: Tensor
    event: Sequence[int]
    latent: int
    mixture: int
    hidden: Sequence[int]
    activation: str


def fully_connected(plan: Plan) -> Networks:
    """Networks of rows as vectors: any rows."""
    likelihood, hidden = plan.likelihood, plan.hidden
    features, parameters = likelihood.feature_of, len(likelihood.parameter_of)
    encoder = MLP(len(features), hidden, 2 * plan.latent, plan.activation)
    decoder = MLP(plan.latent, [*reversed(hidden)], parameters, plan.activation)
    if not plan.mixture:
        return Networks(encoder, decoder, None, None)
    first = MaskedLinear(plan.owner[features].tolist(), int(plan.owner.max()) + 1, hidden[0])
    return Networks(encoder, decoder, first, layers_behind(hidden, plan.mixture, plan.activation))


def convolutional(plan: Plan) -> Networks:
    """Networks of pictures `(channels, height, width)` or series `(channels, time)`.

    The masked encoder sees the present elements and, as channels beside them, which these are.
    """
    size, hidden = check_positions(plan.event, plan.owner.tolist()), plan.hidden
    activation = plan.activation
    features = Channels(plan.likelihood.feature_of, plan.event)
    parameters = Channels(plan.likelihood.parameter_of, plan.event)
    most = max(1, _MOST_HELD // (max(hidden) * math.prod(size)))
    width = 4 * hidden[-1]
    channels = features.channels + plan.event[0]
    # Initial weights are drawn in this order, so that those of q and p do not depend on r.
    decode = ConvolutionalDecoder(
        plan.latent, [*reversed(hidden)], parameters.channels, size, activation
    )
    encode = ConvolutionalEncoder(features.channels, size, hidden, 2 * plan.latent, activation)
    encoder = InParts(nn.Sequential(features, encode), most)
    decoder = InParts(nn.Sequential(decode, FromChannels(parameters)), most)
    if not plan.mixture:
        return Networks(encoder, decoder, None, None)
    masked = ConvolutionalEncoder(channels, size, hidden, width, activation)
    first = MaskedConvolutions(features, plan.owner, masked, most)
    return Networks(encoder, decoder, first, layers_behind([width], plan.mixture, activation))


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


class MaskedConvolutions(nn.Module):
    """A convolutional network of `(x ⊙ mask, mask)`, the mask as channels beside those of x.

    Args:
        features: lays features out as channels.
        index: player that owns each of the flattened elements.
        network: of both together.
        most: pairs of row and coalition at a time.
    """

    index: Tensor

    def __init__(
        self, features: Channels, index: Tensor, network: ConvolutionalEncoder, most: int
    ) -> None:
        super().__init__()
        self.features, self.network, self.most = features, network, most
        self.register_buffer("index", index, persistent=False)

    def forward(
        self, x: Float[Tensor, "batch features"], mask: Bool[Tensor, "batch m players"]
    ) -> Float[Tensor, "batch m width"]:
        spread, coalitions = self.features(x), mask.flatten(0, 1)
        numbers = torch.arange(len(coalitions), device=x.device)
        parts = [
            self.network(self._masked(spread[some // mask.shape[1]], coalitions[some]))
            for some in numbers.split(self.most)
        ]
        return torch.cat(parts).unflatten(0, mask.shape[:2])

    def _masked(
        self, x: Float[Tensor, "pairs channels *size"], mask: Bool[Tensor, "pairs players"]
    ) -> Float[Tensor, "pairs more *size"]:
        present = mask[:, self.index].to(x.dtype).view(len(x), -1, *x.shape[2:])
        copies = x.shape[1] // present.shape[1]
        return torch.cat((x * present.repeat(1, copies, *(1,) * (x.ndim - 2)), present), dim=1)


NETWORKS: Mapping[str, Callable[[Plan], Networks]] = {
    "mlp": fully_connected,
    "conv": convolutional,
}
# Widths or channels of long rows, and of short ones.
_HIDDEN = {"mlp": ((512, 512), (256, 256)), "conv": ((32, 64, 64), (32, 64))}


def usual_sizes(network: str, elements: int) -> dict[str, Any]:
    """Dimensions of z, and widths of hidden layers, for rows of so many elements."""
    wide, narrow = _HIDDEN[network]
    if elements < _MANY_ELEMENTS:
        return {"latent": 16, "hidden": narrow}
    return {"latent": 32, "hidden": wide}
