"""A fully connected surrogate, and what its first layer makes cheap."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from manifold_shap.coalitions import Coalitions, Nested, Toggled
from manifold_shap.models import Model
from manifold_shap.nn import (
    MaskedLinear,
    layers_behind,
    product_dtype,
    value_and_slope,
)
from manifold_shap.spaces import OutputSpace
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.network import SurrogateNetwork
from manifold_shap.training.rows import without_padding

# Bins of an element that is encoded piecewise linearly, and the least width of one, in standard
# deviations: a value that is frequent has a bin of its own, a step.
BINS = 16
_LEAST_WIDTH = 1e-5
# Players from which on running sums along orders take less time than products with masks.
_MANY_PLAYERS = 64
# Multiplications in a product of matrices for the time of one element that is read and written.
_MEMORY_BOUND = 50


class Perceptron(SurrogateNetwork):
    """A fully connected network on `(x ⊙ mask, mask)`.

    The first layer changes by known terms when a player joins, see `MaskedLinear`.

    Args:
        game: see `SurrogateNetwork`.
        hidden: width of each hidden layer.
        activation: one of `nn.ACTIVATIONS`.
        binned: numbers of the elements that are encoded piecewise linearly, besides their values:
            how far x has come through each of 16 bins between quantiles (Gorishniy et al. 2022).
            Steps of a tree are learned in a fraction of the time; with few rows the network
            overfits.
    """

    blocks = 0.0
    binned: Tensor
    edges: Tensor

    def __init__(
        self,
        game: GameShape,
        hidden: Sequence[int] = (512, 512),
        activation: str = "relu",
        binned: Sequence[int] = (),
    ) -> None:
        super().__init__(game)
        bins = (game.index[element] for element in binned for _ in range(BINS))
        self.first = MaskedLinear([*game.index, *bins], self.players, hidden[0])
        padded = game.padding is not None
        # What the length of a row adds to the first layer: a term for each position before the end.
        self.of_length = nn.Linear(game.event[-1], hidden[0], bias=False) if padded else None
        self.rest = layers_behind(hidden, game.outputs, activation)
        chosen = torch.tensor(list(binned), dtype=torch.int64)
        self.register_buffer("binned", chosen, persistent=False)
        edges = torch.zeros(len(chosen), BINS + 1)
        self.register_buffer("edges", edges, persistent=len(chosen) > 0)

    @property
    def behind(self) -> list[nn.Linear]:
        """The linear layers behind the first."""
        return [layer for layer in self.rest if isinstance(layer, nn.Linear)]

    @classmethod
    def settings_for(
        cls, rows: Sequence[Tensor], model: Model, space: OutputSpace, drawn: bool
    ) -> dict[str, Any]:
        return {"binned": elements_to_bin(rows[0])} if drawn else {}

    def raw(
        self, x: Float[Tensor, "batch *event"], mask: Bool[Tensor, "batch m players"]
    ) -> Float[Tensor, "batch m outputs"]:
        if self.of_length is not None:
            mask = mask * self.game.players.owned(x)[:, None]
        return self.rest(self.with_length(x, self.first(self.flat(x), mask)))

    def values(
        self, x: Float[Tensor, "batch *event"], coalitions: Coalitions
    ) -> Float[Tensor, "batch m outputs"]:
        many = self.players >= _MANY_PLAYERS and self.of_length is None
        if isinstance(coalitions, Nested) and many:
            first = self.first.along(self.flat(x), coalitions.items)
            first = first[:, :, coalitions.first - 1 :][:, :, : coalitions.run]
        elif isinstance(coalitions, Toggled):
            terms, whole, change = self._around(x, coalitions.items)
            moved = torch.addcmul(whole[:, :, None], change[..., None], terms[:, None])
            first = torch.cat((whole[:, :, None], moved), dim=2)
        else:
            return super().values(x, coalitions)
        return self.finished(self.rest(first)).flatten(1, 2)

    def linearized(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        chosen: Int64[Tensor, " chosen"] | None = None,
    ) -> Float[Tensor, "batch m places chosen"]:
        """Values of `Toggled` coalitions, by the derivative of the layers behind the first.

        What a player adds to the first layer is known, so its activations are exact at little cost.
        The derivative is taken at the coalition, and is one for all players; the softmax at the end
        is exact again.

        Args:
            x: rows.
            mask: coalitions.
            chosen: numbers of the outputs that are asked for; by default all.
        """
        terms, first, change = self._around(x, mask)
        activation, behind = self.rest[0], self.rest[1:]
        terms, change = terms[:, None], change[..., None]
        active = activation(first.clone())
        if isinstance(activation, nn.ReLU):
            # max(a + d, 0) - max(a, 0) = max(min(a, 0) + d, -max(a, 0)): less memory is read, and
            # in half precision the step of an active unit is not rounded with the unit.
            toggled = torch.addcmul(first.clamp(max=0)[:, :, None], change, terms)
            toggled.clamp_(min=-active[:, :, None])
        else:
            toggled = activation(torch.addcmul(first[:, :, None], change, terms))
            toggled.sub_(active[:, :, None])
        out, slope = value_and_slope(behind, active)
        # Small changes of large numbers: in single precision.
        out = out.to(torch.promote_types(out.dtype, torch.float32))
        score = out
        if chosen is not None and self.game.on_simplex:
            # The softmax of a chosen class is the sigmoid of its log-odds against all others.
            score = out[..., chosen] - _others(out, chosen).logsumexp(-1)
            slope = slopes_of_log_odds(out, chosen).to(slope.dtype) @ slope
        elif chosen is not None:
            score, slope = out[..., chosen], slope[..., chosen, :]
        moved = slope.to(terms.dtype) @ toggled.mT
        found = torch.cat((score[..., None], score[..., None] + moved), dim=-1).mT
        if chosen is None:
            return self.finished(found)
        if self.game.on_simplex:
            return found.sigmoid()
        return self.target_mean[chosen] + self.target_scale[chosen] * found

    def linearized_cost(self, outputs: int) -> float:
        """What `linearized` costs for a coalition and so many outputs, in values one by one.

        Counts multiplications: the layers behind the first are run backward for every output, and
        the first forward for every player. An element that is read and written takes the time of
        dozens of them.
        """
        layers = self.behind
        one = sum(layer.weight.numel() + _MEMORY_BOUND * layer.in_features for layer in layers)
        width = layers[0].in_features
        return outputs + self.first.players * width * (outputs + _MEMORY_BOUND) / one

    @property
    def numbers(self) -> int:
        return 2 * sum(layer.in_features for layer in self.behind)

    def flat(self, x: Float[Tensor, "batch *event"]) -> Float[Tensor, "batch features"]:
        """Rows as the first layer sees them: standardised and flat, then elements in bins."""
        flat = self.standardised(x).flatten(1)
        if not len(self.binned):
            return flat
        lower, width = self.edges[:, :-1], self.edges.diff().clamp(min=_LEAST_WIDTH)
        passed = ((flat[:, self.binned, None] - lower) / width).clamp(0, 1) - 0.5
        return torch.cat((flat, passed.flatten(1)), dim=1)

    def terms(
        self, x: Float[Tensor, "batch *event"], flat: Float[Tensor, "batch features"]
    ) -> Float[Tensor, "batch players width"]:
        """What each player adds to the first layer; those that a row lacks add nothing."""
        found = self.first.terms(flat)
        if self.of_length is None:
            return found
        return found * self.game.players.owned(x)[..., None]

    def with_length(
        self, x: Float[Tensor, "batch *event"], first: Float[Tensor, "batch *some width"]
    ) -> Float[Tensor, "batch *some width"]:
        """The first layer, with what the length of each row adds to it."""
        if self.of_length is None:
            return first
        place = torch.arange(x.shape[-1], device=x.device)
        own = self.of_length((place < self.game.players.lengths(x)[:, None]).to(x.dtype))
        return first + own.reshape(-1, *(1,) * (first.ndim - 2), own.shape[1])

    def _around(
        self, x: Float[Tensor, "batch *event"], mask: Bool[Tensor, "batch m players"]
    ) -> tuple[
        Float[Tensor, "batch players width"],
        Float[Tensor, "batch m width"],
        Float[Tensor, "batch m players"],
    ]:
        """What each player adds to the first layer, this layer for coalitions, and signs."""
        dtype = product_dtype(x)
        with torch.autocast(x.device.type, enabled=False):
            # Of padded rows there are the first players alone.
            terms = self.terms(x, self.flat(x))[:, : mask.shape[2]]
            # Summed in single precision; what is behind takes its inputs in that of products.
            first = self.with_length(x, self.first.of_terms(terms, mask)).to(dtype)
            terms = terms.to(dtype)
        return terms, first, torch.where(mask, -1.0, 1.0).to(terms.dtype)

    @torch.no_grad()
    def standardise(
        self, x: Float[Tensor, "rows *event"], target: Float[Tensor, "rows outputs"]
    ) -> None:
        """Take means, scales and bins from training rows and their targets."""
        super().standardise(x, target)
        if len(self.binned):
            known = without_padding(x, self.game.players)
            own = self.standardised(known).flatten(1)[:, self.binned]
            shares = torch.linspace(0, 1, BINS + 1, device=x.device)
            self.edges.copy_(torch.quantile(own, shares, dim=0).T)


def elements_to_bin(x: Float[Tensor, "rows *event"]) -> list[int]:
    """Numbers of the elements of flat rows that have more values than there are bins.

    >>> elements_to_bin(torch.stack((torch.arange(40.0), torch.arange(40.0) % 2), dim=1))
    [0]
    """
    if x.ndim > 2:
        return []
    return [element for element, own in enumerate(x.T) if len(own.unique()) > BINS]


def slopes_of_log_odds(
    raw: Float[Tensor, "*batch outputs"], chosen: Int64[Tensor, " chosen"]
) -> Float[Tensor, "*batch chosen outputs"]:
    """Derivatives of the log-odds of chosen classes by all raw outputs.

    >>> slopes_of_log_odds(torch.zeros(3), torch.tensor([2]))
    tensor([[-0.5000, -0.5000,  1.0000]])
    """
    own = torch.eye(raw.shape[-1], device=raw.device, dtype=raw.dtype)[chosen]
    return own - _others(raw, chosen).softmax(-1)


def _others(
    raw: Float[Tensor, "*batch outputs"], chosen: Int64[Tensor, " chosen"]
) -> Float[Tensor, "*batch chosen outputs"]:
    """Raw outputs of all classes but, for each chosen one, its own."""
    own = torch.arange(raw.shape[-1], device=raw.device) == chosen.to(raw.device)[:, None]
    return raw[..., None, :].masked_fill(own, -torch.inf)
