"""Maps a row to all of its Shapley values in one pass, by moments of a fully connected surrogate.

It is derived from the surrogate by the multilinear extension (Owen 1972): if every player is
present with probability q, a player's Shapley value is the mean over q of its expected marginal
contribution. To first order that is the player's term in the first layer times the expected slope
of the layers behind. The input of a hidden unit is a sum of many independent terms, nearly normal,
so its mean and variance give the probability that the unit is active. The network therefore runs
forward with means and variances for a few q, and backward with these probabilities as slopes.
Without any training this finds values roughly.

The rest is learned: a small network corrects the probabilities and the slope of the outputs, and
the weights of the backward pass are initialised with the surrogate's. Labels are noisy estimates of
Shapley values (stochastic amortisation, Covert et al. 2024; FastSHAP, Jethani et al. 2022, trains
on values of coalitions instead). Unbiased noise in the labels does not bias the minimiser of a
squared error, so one coalition and its complement per row and step are enough.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from manifold_shap._checks import check_whole
from manifold_shap.amortized.network import AmortizedNetwork
from manifold_shap.nn import MLP, make_activation, product_dtype
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.network import SurrogateNetwork
from manifold_shap.surrogate.perceptron import Perceptron

_SMALL = 1e-6
# Initial probabilities of presence for which those of the first layer's units are computed.
_FIRST_SHARES = (0.15, 0.85)


class AmortizedPerceptron(AmortizedNetwork):
    """phi(x) of a fully connected surrogate, by moments of its layers.

    The product with the second layer's weights costs most of the backward pass. The slopes for all
    q are therefore mixed into a few before it, each with its own probabilities of the first layer's
    units.

    Args:
        game: that of the surrogate.
        features: player that owns each of the inputs of the surrogate's first layer.
        widths: of the surrogate's hidden layers.
        hidden: width of each hidden layer of the correcting network.
        activation: one of `nn.ACTIVATIONS`.
        shares: number of probabilities q.
    """

    takes_some_outputs = False
    features: Tensor

    def __init__(
        self,
        game: GameShape,
        features: Sequence[int],
        widths: Sequence[int],
        hidden: Sequence[int] = (512, 256),
        activation: str = "gelu",
        shares: int = 4,
    ) -> None:
        super().__init__(game)
        check_whole("shares", shares)
        self.register_buffer("features", torch.tensor(list(features)), persistent=False)
        self._one_element_each = list(features) == list(range(self.players))
        share, mix = _shares(shares)
        self.share = nn.Parameter(share.logit())
        self.first_share = nn.Parameter(torch.tensor(_FIRST_SHARES).logit())
        self.mix = nn.Parameter(mix)
        sizes = [len(features) + self.players, *widths, game.outputs]
        self.back = nn.ParameterList(
            torch.empty(after, before) for before, after in pairwise(sizes)
        )
        # Corrected are the units of the first layer, for its own shares, and for each q those of
        # the other layers, the outputs before the softmax, and their slopes.
        self.first_corrected = len(_FIRST_SHARES) * widths[0]
        self.corrected = (*widths[1:], game.outputs, game.outputs**2)
        seen = len(features) + game.outputs + shares * widths[-1]
        self.body = nn.Sequential(
            MLP(seen, hidden[:-1], hidden[-1], activation), make_activation(activation)
        )
        self.head = nn.Linear(hidden[-1], self.first_corrected + shares * sum(self.corrected))

    @classmethod
    def settings_for(
        cls, surrogate: SurrogateNetwork, x: Float[Tensor, "rows *event"]
    ) -> dict[str, Any]:
        if not isinstance(surrogate, Perceptron):
            raise ValueError(
                "Expected a surrogate of network='mlp' for network='mlp', which uses its layers, "
                f"but got {type(surrogate).__name__}; choose 'transformer', or leave it out."
            )
        widths = [layer.in_features for layer in surrogate.behind]
        return {"features": surrogate.first.index.tolist(), "widths": widths}

    @torch.no_grad()
    def start(self, surrogate: Any, change: Float[Tensor, "rows outputs"]) -> None:
        """Initialise with the surrogate's weights and no correction; see `AmortizedNetwork`."""
        super().start(surrogate, change)
        for mine, (weight, _) in zip(self.back, _linear(surrogate), strict=True):
            mine.copy_(weight)
        self.head.weight.zero_()
        self.head.bias.zero_()

    def raw(
        self,
        surrogate: Any,
        x: Float[Tensor, "batch *event"],
        change: Float[Tensor, "batch outputs"],
    ) -> Float[Tensor, "batch players outputs"]:
        """Shapley values, whatever their sum; see `AmortizedNetwork.raw`."""
        rows = surrogate.flat(x)
        inputs = _PreActivation.of(surrogate, x, rows)
        first, *layers = _moments(surrogate, inputs, self.share.sigmoid())
        seen = [rows, change / self.scale, (layers or [first])[-1].active.flatten(1).to(rows.dtype)]
        correction = self.head(self.body(torch.cat(seen, dim=1)))
        own, rest = correction.tensor_split([self.first_corrected], dim=1)
        *shifts, shift, slope = rest.unflatten(1, (len(self.share), -1)).split(self.corrected, -1)
        layers = [layer.shifted(by) for layer, by in zip(layers, shifts, strict=True)]
        mean = (layers or [first])[-1].relu_mean()
        reached = F.linear(mean, *_linear(surrogate)[-1]) + shift
        slopes = self._slopes(surrogate, reached, slope)
        own = own.unflatten(1, (len(self.mix), -1))
        gates = inputs.layer(self.first_share.sigmoid(), own)
        return self._back(slopes, [gates.active, *(layer.active for layer in layers)], rows)

    def loss(
        self,
        surrogate: Any,
        x: Float[Tensor, "batch *event"],
        change: Float[Tensor, "batch outputs"],
        base: Float[Tensor, "batch outputs"],
        generator: torch.Generator,
    ) -> Float[Tensor, " batch"]:
        """Squared errors against noisy estimates, of few players, too: it begins near them."""
        return self._label_loss(surrogate, x, change, generator)

    def _slopes(
        self, surrogate: Perceptron, out: Tensor, correction: Tensor
    ) -> Float[Tensor, "batch shares outputs outputs"]:
        """Derivatives of the outputs by the inputs of the softmax, or of the final scaling."""
        learned = correction.unflatten(-1, (self.outputs, self.outputs))
        if not self.game.on_simplex:
            one = torch.eye(self.outputs, dtype=out.dtype, device=out.device)
            slopes = surrogate.target_scale[:, None] * (one + learned)
        else:
            # In single precision, as p - p² of a p near 1 needs.
            p = out.float().softmax(-1)
            slopes = p.diag_embed() - p[..., None] * p[..., None, :] + learned
        return slopes.to(product_dtype(out))

    def _back(
        self, slopes: Tensor, active: Sequence[Tensor], rows: Tensor
    ) -> Float[Tensor, "batch players outputs"]:
        """From the slopes of the outputs to the contributions of the players."""
        first, second, *behind = self.back
        # In the precision of the products, so that nothing is widened between them.
        gate, *chances = (each.to(slopes.dtype)[:, :, None] for each in active)
        for weight, chance in zip(reversed(behind), reversed(chances), strict=True):
            slopes = (slopes @ weight) * chance
        mixed = (self.mix @ slopes.flatten(2)).unflatten(2, slopes.shape[2:])
        found = ((mixed @ second) * gate).sum(1) @ first
        by_element, presence = found.tensor_split([len(self.features)], dim=2)
        own = rows.to(found.dtype)[:, None]
        if self._one_element_each:
            return torch.addcmul(presence, by_element, own).mT
        return presence.index_add(2, self.features, by_element * own).mT


class _Layer(NamedTuple):
    """The distribution of the inputs of a layer's units.

    Attributes:
        z_score: mean, in units of the standard deviation.
        deviation: standard deviation.
        active: probability to be positive.
    """

    z_score: Float[Tensor, "batch shares width"]
    deviation: Float[Tensor, "batch shares width"]
    active: Float[Tensor, "batch shares width"]

    @classmethod
    def of(cls, mean: Tensor, variance: Tensor, by: Tensor | float = 0.0) -> "_Layer":
        """From means and variances; the means are shifted by `by` standard deviations."""
        deviation = variance.clamp(min=_SMALL).sqrt()
        z_score = mean / deviation + by
        return cls(z_score, deviation, _chance(z_score))

    def shifted(self, by: Tensor) -> "_Layer":
        """With means that are shifted by `by` standard deviations."""
        z_score = self.z_score + by
        return _Layer(z_score, self.deviation, _chance(z_score))

    def relu_mean(self) -> Float[Tensor, "batch shares width"]:
        """Means of the rectified inputs."""
        density = torch.exp(-0.5 * self.z_score.square()) / math.sqrt(2 * math.pi)
        return self.deviation * (self.z_score * self.active + density)


class _PreActivation(NamedTuple):
    """Inputs of the first layer's units: bias, and sums over players of terms and squared terms."""

    bias: Float[Tensor, "*batch width"]
    terms: Float[Tensor, "batch width"]
    squares: Float[Tensor, "batch width"]

    @classmethod
    def of(
        cls, surrogate: Perceptron, x: Tensor, rows: Float[Tensor, "batch features"]
    ) -> "_PreActivation":
        """Of rows `x`, which are `rows` as the first layer sees them."""
        first = surrogate.first
        if surrogate.game.padding is None:
            return cls(first.bias, first.sum_of_terms(rows), first.sum_of_squared_terms(rows))
        bias = surrogate.with_length(x, first.bias.expand(x.shape[0], 1, -1))
        terms = surrogate.terms(x, rows)
        return cls(bias, terms.sum(1), terms.square().sum(1))

    def layer(self, share: Float[Tensor, " shares"], by: Tensor | float = 0.0) -> _Layer:
        """The first layer if every player is present with probability `share`; see `_Layer.of`."""
        share = share.to(self.terms.dtype)
        mean = self.bias.to(share.dtype) + share[:, None] * self.terms[:, None]
        return _Layer.of(mean, (share * (1 - share))[:, None] * self.squares[:, None], by)


def _chance(z_score: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Probability that a normal number with this mean and deviation 1 is positive."""
    # `torch.special.ndtr` is also exact far below zero, at eight times the time.
    return torch.erf(z_score * math.sqrt(0.5)).add_(1).mul_(0.5)


def _moments(
    surrogate: Perceptron, inputs: _PreActivation, share: Float[Tensor, " shares"]
) -> list[_Layer]:
    """Inputs of the hidden layers if every player is present with probability `share`.

    Units are taken to be independent, and their activations to be rectifiers, to which those of
    `nn.ACTIVATIONS` are close, up to a constant. The error of both is learned.
    """
    layers = [inputs.layer(share)]
    for weight, bias in _linear(surrogate)[1:-1]:
        last, mean = layers[-1], layers[-1].relu_mean()
        squares = last.deviation * (last.z_score * mean + last.deviation * last.active)
        spread = (squares - mean.square()).clamp(min=0)
        layers.append(_Layer.of(F.linear(mean, weight, bias), F.linear(spread, weight.square())))
    return layers


def _linear(surrogate: Perceptron) -> list[tuple[Tensor, Tensor]]:
    """Weights and biases of all layers, from first to last."""
    first = (surrogate.first.weight, surrogate.first.bias)
    return [first, *((layer.weight, layer.bias) for layer in surrogate.behind)]


def _shares(count: int) -> tuple[Float[Tensor, " shares"], Float[Tensor, "few shares"]]:
    """Nodes of a Gauss-Legendre quadrature on [0, 1], and weights by the first layer's shares."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    share = (nodes + 1) / 2
    near = [np.interp(share, _FIRST_SHARES, one) for one in np.eye(len(_FIRST_SHARES))]
    mix = np.stack(near) * weights / 2
    return torch.tensor(share).float(), torch.tensor(mix).float()
