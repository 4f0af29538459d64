"""The amortised explainer: a network that maps a row to all of its Shapley values in one pass.

It is the surrogate, unfolded. With every player present with probability q (Owen 1972), a player's
value is the mean over q of what it changes, and to first order that is what it adds to the first
layer times the mean slope of everything behind. What reaches a hidden unit then is a sum of many
independent terms, nearly normal, so its mean and deviation tell how often the unit is active: a
pass forward with means and variances for a few q, and one pass back with the chances to be active
as slopes. Without any training this finds the values of MNIST up to about a quarter.

The rest is learned: a small network shifts these chances and the slope of the outputs, and the
weights of the way back start as the surrogate's. Labels are noisy estimates of Shapley values
(Covert et al. 2024, stochastic amortisation; FastSHAP, Jethani et al. 2022, trains on values of
coalitions instead). Means of squared errors do not care about noise that is unbiased, so a single
coalition and its complement for each visit of a row are enough.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from manifold_shap.nn import MLP, check_hidden, make_activation
from manifold_shap.surrogate import Surrogate

_SMALL = 1e-6


class Explainer(nn.Module):
    """phi(x) of all players and outputs, which sums to v(N) - v(∅) by construction.

    Args:
        index: player that owns each of the flattened input elements.
        outputs: number of outputs of T.
        widths: of the surrogate's hidden layers.
        hidden: width of each hidden layer of the network that corrects.
        activation: one of `nn.ACTIVATIONS`.
        shares: number of probabilities q.
    """

    index: Tensor
    scale: Tensor

    def __init__(
        self,
        index: Sequence[int],
        outputs: int,
        widths: Sequence[int],
        hidden: Sequence[int] = (512, 512),
        activation: str = "gelu",
        shares: int = 4,
    ) -> None:
        super().__init__()
        check_hidden(hidden)
        _check_shares(shares)
        self.players, self.outputs, self.widths = max(index) + 1, outputs, tuple(widths)
        self.register_buffer("index", torch.tensor(list(index)), persistent=False)
        self._one_element_each = list(index) == list(range(self.players))
        # Of v(N) - v(∅).
        self.register_buffer("scale", torch.ones(outputs))
        nodes, weights = np.polynomial.legendre.leggauss(shares)
        self.share = nn.Parameter(torch.logit(torch.tensor((nodes + 1) / 2)).float())
        self.weight = nn.Parameter(torch.tensor(weights / 2).float())
        self.back = nn.ParameterList(
            torch.empty(after, before)
            for before, after in zip(
                (len(index) + self.players, *widths), (*widths, outputs), strict=True
            )
        )
        seen = len(index) + outputs + shares * widths[-1]
        # For each q: every hidden unit, the outputs before the softmax, and their slopes.
        self.corrected = (*widths, outputs, outputs**2)
        self.body = nn.Sequential(
            MLP(seen, hidden[:-1], hidden[-1], activation), make_activation(activation)
        )
        self.head = nn.Linear(hidden[-1], shares * sum(self.corrected))

    @torch.no_grad()
    def start(self, surrogate: Surrogate, change: Float[Tensor, "rows outputs"]) -> None:
        """Begin as the surrogate's own moments, without a correction.

        Args:
            surrogate: the network that is to be explained.
            change: v(N) - v(∅) of training rows.
        """
        for mine, its in zip(self.back, _weights(surrogate), strict=True):
            mine.copy_(its)
        scale = change.square().mean(0).sqrt()
        self.scale.copy_(torch.where(scale > 0, scale, 1.0))
        self.head.weight.zero_()
        self.head.bias.zero_()

    def forward(
        self,
        surrogate: Surrogate,
        rows: Float[Tensor, "batch elements"],
        change: Float[Tensor, "batch outputs"],
    ) -> Float[Tensor, "batch players outputs"]:
        """Shapley values of rows.

        Args:
            surrogate: the network that is explained.
            rows: standardised and flat.
            change: v(N) - v(∅).
        """
        layers = _moments(surrogate, rows, self.share.sigmoid())
        last = layers[-1]
        seen = torch.cat((rows, change / self.scale, last.active.flatten(1).to(rows.dtype)), dim=1)
        correction = self.head(self.body(seen)).unflatten(1, (len(self.share), -1))
        *shifts, shift, slope = correction.split(self.corrected, dim=-1)
        standing = [layer.standing + own for layer, own in zip(layers, shifts, strict=True)]
        active = [torch.special.ndtr(each) for each in standing]
        hidden = last.deviation * _rectified(standing[-1], active[-1])
        out = F.linear(hidden, *_weights_and_biases(surrogate)[-1]) + shift
        phi = self._back(self._slopes(surrogate, out, slope), active, rows).float()
        return phi + ((change - phi.sum(1)) / self.players)[:, None]

    def _slopes(
        self, surrogate: Surrogate, out: Tensor, correction: Tensor
    ) -> Float[Tensor, "batch shares outputs outputs"]:
        """Of the outputs by what reaches the softmax, or by what is to be scaled."""
        learned = correction.unflatten(-1, (self.outputs, self.outputs))
        if not surrogate.on_simplex:
            one = torch.eye(self.outputs, dtype=out.dtype, device=out.device)
            return surrogate.target_scale[:, None] * (one + learned)
        p = out.softmax(-1).to(learned.dtype)
        return p.diag_embed() - p[..., None] * p[..., None, :] + learned

    def _back(
        self, slopes: Tensor, active: Sequence[Tensor], rows: Tensor
    ) -> Float[Tensor, "batch players outputs"]:
        """From the slopes of the outputs to what each player changes."""
        first, *behind = self.back
        # Of each hidden layer; weights of the shares may stand anywhere in the product.
        own = [active[0] * self.weight[:, None], *active[1:]]
        for weight, chance in zip(reversed(behind), reversed(own), strict=True):
            slopes = (slopes @ weight) * chance[:, :, None]
        found = slopes.sum(1) @ first
        elements = len(self.index)
        by_element = found[..., :elements] * rows[:, None]
        if not self._one_element_each:
            start = by_element.new_zeros(*by_element.shape[:-1], self.players)
            by_element = start.index_add(-1, self.index, by_element)
        return (by_element + found[..., elements:]).mT


class _Layer(NamedTuple):
    """What reaches the units of a layer, and how often that is positive.

    Attributes:
        standing: mean, in units of the deviation.
        deviation: standard deviation.
        active: chance to be positive.
    """

    standing: Float[Tensor, "batch shares width"]
    deviation: Float[Tensor, "batch shares width"]
    active: Float[Tensor, "batch shares width"]


def _moments(
    surrogate: Surrogate, rows: Float[Tensor, "batch elements"], share: Float[Tensor, " shares"]
) -> list[_Layer]:
    """What reaches the hidden layers when every player is present with a probability.

    Units count as independent, and their activations as rectifiers, which all of `nn.ACTIVATIONS`
    are in the large.
    """
    first, (_, *rest) = surrogate.first, _weights_and_biases(surrogate)
    mean = first.bias + share[:, None] * first.sum_of_terms(rows)[:, None]
    variance = (share * (1 - share))[:, None] * first.sum_of_squared_terms(rows)[:, None]
    layers = []
    for weight, bias in rest:
        deviation = variance.clamp(min=_SMALL).sqrt()
        standing = mean / deviation
        active = torch.special.ndtr(standing)
        layers.append(_Layer(standing, deviation, active))
        passed = _rectified(standing, active)
        # In units of the deviation: the mean of squares, less the square of the mean.
        spread = (standing * passed + active - passed.square()).clamp(min=0)
        mean = F.linear(deviation * passed, weight, bias)
        variance = F.linear(deviation.square() * spread, weight.square())
    return layers


def _rectified(standing: Tensor, active: Tensor) -> Tensor:
    """Mean of a standard normal number plus this, where positive, and 0 elsewhere.

    Args:
        standing: what is added.
        active: chance that the sum is positive.
    """
    density = torch.exp(-0.5 * standing.square()) / math.sqrt(2 * math.pi)
    return standing * active + density


def _weights_and_biases(surrogate: Surrogate) -> list[tuple[Tensor, Tensor]]:
    """Of all layers, forward."""
    behind = [layer for layer in surrogate.rest if isinstance(layer, nn.Linear)]
    first = (surrogate.first.weight, surrogate.first.bias)
    return [first, *((layer.weight, layer.bias) for layer in behind)]


def _weights(surrogate: Surrogate) -> list[Tensor]:
    return [weight for weight, _ in _weights_and_biases(surrogate)]


def _check_shares(shares: object) -> None:
    if not isinstance(shares, int) or shares < 1:
        raise ValueError(f"Expected `shares` to be a whole number from 1 on but got {shares!r}.")
