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
from manifold_shap.nn import (
    MLP,
    MaskedLinear,
    check_hidden,
    layers_behind,
    of_shape,
    options_given,
    own_network,
)
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
    """

    likelihood: Likelihood
    owner: Tensor
    event: Sequence[int]
    latent: int
    mixture: int

    @property
    def players(self) -> int:
        return int(self.owner.max()) + 1


def fully_connected(plan: Plan, hidden: Sequence[int], activation: str) -> Networks:
    """Networks of rows as vectors: any rows.

    Args:
        plan: what they are built for.
        hidden: width of each hidden layer.
        activation: one of `nn.ACTIVATIONS`.
    """
    check_hidden(hidden)
    likelihood = plan.likelihood
    features, parameters = likelihood.feature_of, len(likelihood.parameter_of)
    encoder = MLP(len(features), hidden, 2 * plan.latent, activation)
    decoder = MLP(plan.latent, [*reversed(hidden)], parameters, activation)
    if not plan.mixture:
        return Networks(encoder, decoder, None, None)
    first = MaskedLinear(plan.owner[features].tolist(), plan.players, hidden[0])
    return Networks(encoder, decoder, first, layers_behind(hidden, plan.mixture, activation))


def own_networks(plan: Plan, module: Any) -> Networks:
    """A user's networks of vectors; the masked encoder sees `(x ⊙ mask, mask)` side by side.

    Args:
        plan: what they are built for.
        module: an `nn.ModuleDict` of an `encoder`, a `decoder` and, where it is wanted, a
            `masked_encoder`; or a function that makes each of them, see `nn.own_network`.
    """
    features, parameters = len(plan.likelihood.feature_of), len(plan.likelihood.parameter_of)
    shapes = {"encoder": (features, 2 * plan.latent), "decoder": (plan.latent, parameters)}
    if plan.mixture:
        shapes["masked_encoder"] = (features + plan.players, plan.mixture)
    named = isinstance(module, nn.ModuleDict)
    made = [
        UsersNetwork(own_network(module[name] if named else module, (inputs,), (outputs,)), outputs)
        for name, (inputs, outputs) in shapes.items()
    ]
    encoder, decoder, *masked = made
    if not masked:
        return Networks(encoder, decoder, None, None)
    owner = plan.owner[plan.likelihood.feature_of]
    return Networks(encoder, decoder, MaskedInputs(owner, masked[0]), nn.Identity())


class UsersNetwork(nn.Module):
    """A user's network of vectors, which are as wide as they should be."""

    def __init__(self, network: nn.Module, outputs: int) -> None:
        super().__init__()
        self.network, self.outputs = network, outputs

    def forward(self, x: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        return of_shape(self.network(x), (len(x), self.outputs))


class MaskedInputs(nn.Module):
    """A network of `(x ⊙ mask, mask)`, side by side, the mask over players."""

    owner: Tensor

    def __init__(self, owner: Tensor, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("owner", owner, persistent=False)

    def forward(
        self, x: Float[Tensor, "batch features"], mask: Bool[Tensor, "batch m players"]
    ) -> Float[Tensor, "batch m width"]:
        seen = torch.cat((x[:, None] * mask[..., self.owner], mask.to(x.dtype)), dim=-1)
        return self.network(seen.flatten(0, 1)).unflatten(0, mask.shape[:2])


def convolutional(plan: Plan, hidden: Sequence[int], activation: str) -> Networks:
    """Networks of pictures `(channels, height, width)` or series `(channels, time)`.

    The masked encoder sees the present elements and, as channels beside them, which these are.

    Args:
        plan: what they are built for.
        hidden: channels of each block.
        activation: one of `nn.ACTIVATIONS`.
    """
    check_hidden(hidden)
    size = check_positions(plan.event, plan.owner.tolist())
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
