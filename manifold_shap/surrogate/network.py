"""The supervised surrogate g(x_S) ≈ E[T(f(X)) | X_S = x_S] (Frye et al. 2021, Section 4.1).

The mean of T(f(X)) given x_S is what minimises squared error, so a network that sees x_S alone
and is trained by

    L = E_x E_{S~Shapley} mean_y |T_y(f(x)) - g_y(x_S)|²                          (Eq. 17)

learns the on-manifold value function. No labels enter: any rows of the data distribution serve.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from manifold_shap.nn import (
    MaskedLinear,
    check_hidden,
    layers_behind,
    product_dtype,
    units,
    value_and_slope,
)

# Multiplications in a product of matrices for the time of one element that is read and written.
_MEMORY_BOUND = 50
_SHORT = 64

# Bins of an element that is encoded piecewise linearly, and the least width of one, in standard
# deviations: a value that is frequent has a bin of its own, a step.
BINS = 16
_LEAST_WIDTH = 1e-5


class Surrogate(nn.Module):
    """A network g(x_S) on `(x ⊙ mask, mask)`.

    Inputs and outputs are standardised inside, so that learning rates mean the same for any unit.

    Args:
        event: shape of one input row.
        index: player that owns each of the flattened input elements.
        outputs: number of outputs of T.
        on_simplex: whether outputs are probabilities of classes: then a softmax ends the network.
        hidden: width of each hidden layer.
        activation: one of `nn.ACTIVATIONS`.
        binned: numbers of the elements that are encoded piecewise linearly, besides their values:
            how far x has come through each of 16 bins between quantiles (Gorishniy et al. 2022).
            Steps of a tree are learned in a fraction of the time; of few rows they are learned by
            heart.
    """

    x_mean: Tensor
    x_scale: Tensor
    binned: Tensor
    edges: Tensor
    target_mean: Tensor
    target_scale: Tensor

    def __init__(
        self,
        event: Sequence[int],
        index: Sequence[int],
        outputs: int,
        on_simplex: bool,
        hidden: Sequence[int] = (512, 512),
        activation: str = "relu",
        binned: Sequence[int] = (),
    ) -> None:
        super().__init__()
        check_hidden(hidden)
        self.on_simplex = on_simplex
        features = [*index, *(index[element] for element in binned for _ in range(BINS))]
        self.first = MaskedLinear(features, max(index) + 1, hidden[0])
        self.rest = layers_behind(hidden, outputs, activation)
        self.register_buffer("x_mean", torch.zeros(tuple(event)))
        self.register_buffer("x_scale", torch.ones(tuple(event)))
        chosen = torch.tensor(list(binned), dtype=torch.int64)
        self.register_buffer("binned", chosen, persistent=False)
        edges = torch.zeros(len(chosen), BINS + 1)
        self.register_buffer("edges", edges, persistent=len(chosen) > 0)
        self.register_buffer("target_mean", torch.zeros(outputs))
        self.register_buffer("target_scale", torch.ones(outputs))

    @property
    def behind(self) -> list[nn.Linear]:
        """The linear layers behind the first."""
        return [layer for layer in self.rest if isinstance(layer, nn.Linear)]

    def forward(
        self, x: Float[Tensor, "batch *event"], mask: Bool[Tensor, "batch m players"]
    ) -> Float[Tensor, "batch m outputs"]:
        return self._outputs(self.first(self.standardised(x), mask))

    def along(
        self, x: Float[Tensor, "batch *event"], orders: Int64[Tensor, "batch orders players"]
    ) -> Float[Tensor, "batch orders sizes outputs"]:
        """Outputs for the coalitions of 1, 2, ... n-1 players that grow along orders."""
        return self._outputs(self.first.along(self.standardised(x), orders))

    def around(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        linearized: bool = False,
    ) -> Float[Tensor, "batch m places outputs"]:
        """Outputs for each coalition, and for it with each of the players toggled in turn.

        Toggled is: joined where absent, gone where present. What a player adds to the first layer
        is known, so its activations are exact at little cost. Linearized, the layers behind them
        are replaced by their derivative at the coalition, which is one for all players; the softmax
        at the end is exact again.
        """
        dtype = product_dtype(x)
        with torch.autocast(x.device.type, enabled=False):
            terms = self.first.terms(self.standardised(x))
            # Summed in single precision; what is behind takes its inputs in that of products.
            first = self.first.of_terms(terms, mask).to(dtype)
            terms = terms.to(dtype)
        change = torch.where(mask, -1.0, 1.0).to(terms.dtype)
        if linearized:
            return self._linearized(terms, first, change)
        toggled = torch.addcmul(first[:, :, None], change[..., None], terms[:, None])
        return self._outputs(torch.cat((first[:, :, None], toggled), dim=2))

    @property
    def linearized_cost(self) -> float:
        """What `around` costs for a coalition if linearized, in outputs one by one.

        Counts multiplications: the layers behind the first are run backward for every output, and
        the first forward for every player. An element that is read and written takes the time of
        dozens of them.
        """
        layers = self.behind
        one = sum(layer.weight.numel() + _MEMORY_BOUND * layer.in_features for layer in layers)
        outputs, width = layers[-1].out_features, layers[0].in_features
        return outputs + self.first.players * width * (outputs + _MEMORY_BOUND) / one

    def _linearized(
        self,
        terms: Float[Tensor, "batch players width"],
        first: Float[Tensor, "batch m width"],
        change: Float[Tensor, "batch m players"],
    ) -> Float[Tensor, "batch m places outputs"]:
        activation, behind = self.rest[0], self.rest[1:]
        # Players last: products and softmax then run along the longest axis.
        columns = terms.mT.contiguous()[:, None]
        active = activation(first.clone())
        if isinstance(activation, nn.ReLU):
            # max(a + d, 0) - max(a, 0) = max(min(a, 0) + d, -max(a, 0)): less memory is read, and
            # in half precision the step of an active unit is not rounded with the unit.
            toggled = torch.addcmul(first.clamp(max=0)[..., None], change[:, :, None], columns)
            toggled.clamp_(min=-active[..., None])
        else:
            toggled = activation(torch.addcmul(first[..., None], change[:, :, None], columns))
            toggled.sub_(active[..., None])
        out, slope = value_and_slope(behind, active)
        moved = slope.to(terms.dtype) @ toggled
        # Small changes of large numbers: in single precision.
        out = out.to(torch.promote_types(out.dtype, torch.float32))[..., None]
        return self._finished(torch.cat((out, out + moved), dim=-1).mT)

    def standardised(self, x: Float[Tensor, "batch *event"]) -> Float[Tensor, "batch features"]:
        """Rows as the first layer sees them: standardised and flat, then elements in bins."""
        flat = ((x - self.x_mean) / self.x_scale).flatten(1)
        if not len(self.binned):
            return flat
        lower, width = self.edges[:, :-1], self.edges.diff().clamp(min=_LEAST_WIDTH)
        passed = ((flat[:, self.binned, None] - lower) / width).clamp(0, 1) - 0.5
        return torch.cat((flat, passed.flatten(1)), dim=1)

    def _outputs(self, first: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch outputs"]:
        return self._finished(self.rest(first))

    def _finished(self, out: Float[Tensor, "*batch outputs"]) -> Float[Tensor, "*batch outputs"]:
        if self.on_simplex:
            # Along a short last axis a CPU takes several times as long.
            if out.shape[-1] < _SHORT and out.device.type == "cpu":
                return out.movedim(-1, 0).softmax(0).movedim(0, -1)
            return out.softmax(-1)
        return self.target_mean + self.target_scale * out

    @torch.no_grad()
    def standardise(
        self, x: Float[Tensor, "rows *event"], target: Float[Tensor, "rows outputs"]
    ) -> None:
        """Take means, scales and bins from training rows and their targets."""
        # An image has one mean for all of its pixels, as it has one unit.
        mean = x.mean(0 if x.ndim == 2 else tuple(range(x.ndim)))
        self.x_mean.copy_(mean.expand_as(self.x_mean))
        self.x_scale.copy_(units(x))
        if len(self.binned):
            own = ((x - self.x_mean) / self.x_scale).flatten(1)[:, self.binned]
            shares = torch.linspace(0, 1, BINS + 1, device=x.device)
            self.edges.copy_(torch.quantile(own, shares, dim=0).T)
        self.target_mean.copy_(target.mean(0))
        deviation = target.std(0, correction=0)
        self.target_scale.copy_(torch.where(deviation > 0, deviation, 1.0))


def squared_error(found: Tensor, target: Tensor, scale: Tensor | None) -> Tensor:
    """Squares of what a network has missed.

    Args:
        found, target: outputs on their last axis.
        scale: of each output, to divide by the root mean square of: then steps are the same for any
            unit of a regression, and squares of large numbers no overflow.

    >>> y = torch.tensor([[1e-6, 1e-6], [1e25, 1e25]])
    >>> [round(squared_error(0.9 * own, own, scale=own).sum().item(), 4) for own in y]
    [0.02, 0.02]
    """
    missed = found - target
    if scale is None:
        return missed.square()
    largest = scale.max()
    return (missed / largest / (scale / largest).square().mean().sqrt()).square()


def elements_to_bin(x: Float[Tensor, "rows *event"]) -> list[int]:
    """Numbers of the elements of flat rows that have more values than there are bins.

    >>> elements_to_bin(torch.stack((torch.arange(40.0), torch.arange(40.0) % 2), dim=1))
    [0]
    """
    if x.ndim > 2:
        return []
    return [element for element, own in enumerate(x.T) if len(own.unique()) > BINS]
