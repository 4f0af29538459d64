"""Defines what networks of amortised explainers have in common: efficient values, and a loss.

Shapley values solve a weighted least squares problem over coalitions, and a network can minimise it
for all rows together (FastSHAP, Jethani et al. 2022; ViT Shapley, Covert et al. 2023):

    phi(x) = argmin Σ_S μ(S) (v(S) - v(∅) - Σ_{i∈S} phi_i)²,  subject to Σ_i phi_i = v(N) - v(∅).

Its weights μ, those of the Shapley kernel, are those of coalitions in which every player is present
with probability q, integrated over dq / (q (1 - q)). Three things reduce the variance of gradients:

- Given q, the mean of the residual depends on the sum of phi alone, which is fixed. So the loss is
  the variance of residuals among the coalitions of one q, around their mean.
- Only the part of v that is odd under complements counts: (v(S) - v(N - S)) / 2.
- q follows the arcsine law, with what remains of its weight in the loss, stratified over a batch.

Where a surrogate gives the contributions of many players at a coalition at little cost, these are
labels instead: noise in labels does not bias the minimiser of a squared error (stochastic
amortisation, Covert et al. 2024).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from manifold_shap.amortized.contributions import contributions
from manifold_shap.nn import of_shape, own_network
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.network import SurrogateNetwork
from manifold_shap.surrogate.perceptron import Perceptron

# Pairs of complementary coalitions of each row and step, and elements of rows in one call.
_PAIRS = 8
_ELEMENTS = 2**24
# Smallest probability of presence.
_EDGE = 1e-4
# Players from which on labels are contributions at one pair of coalitions, not values of 16: these
# tell of each player the less the more there are. The number itself is not tuned.
_MANY_PLAYERS = 64


class AmortizedNetwork(nn.Module, ABC):
    """phi(x) of all players and outputs, which sums to v(N) - v(∅) by construction.

    A subclass defines `raw`, and overrides what its structure makes cheaper. What `raw` leaves of
    the change of the prediction is shared by all players alike.

    Attributes:
        takes_some_outputs: whether it may give some of the surrogate's outputs alone.

    Args:
        game: that of the surrogate.
        chosen: numbers of the outputs that it gives; None where these are all of the surrogate's.
    """

    takes_some_outputs: ClassVar[bool] = True
    scale: Tensor
    chosen: Tensor | None

    def __init__(self, game: GameShape, chosen: Sequence[int] | None = None) -> None:
        super().__init__()
        self.game, self.players = game, len(game.players)
        self.outputs = game.outputs if chosen is None else len(chosen)
        numbers = None if chosen is None else torch.tensor(list(chosen))
        self.register_buffer("chosen", numbers, persistent=False)
        # Of v(N) - v(∅).
        self.register_buffer("scale", torch.ones(self.outputs))

    # -- must be defined --------------------------------------------------------------------

    @abstractmethod
    def raw(
        self,
        surrogate: SurrogateNetwork,
        x: Float[Tensor, "batch *event"],
        change: Float[Tensor, "batch outputs"],
    ) -> Float[Tensor, "batch players outputs"]:
        """Shapley values, whatever their sum.

        Args:
            surrogate: the network that is explained.
            x: rows, as it sees them.
            change: v(N) - v(∅).
        """

    # -- may be overridden ------------------------------------------------------------------

    @classmethod
    def settings_for(
        cls, surrogate: SurrogateNetwork, x: Float[Tensor, "rows *event"]
    ) -> dict[str, Any]:
        """Arguments, besides the game and the user's options, as plain data.

        Args:
            surrogate: the network to explain.
            x: training rows, as it sees them.

        Raises:
            ValueError: a surrogate that it cannot explain.
        """
        return {}

    @torch.no_grad()
    def start(self, surrogate: SurrogateNetwork, change: Float[Tensor, "rows outputs"]) -> None:
        """Take scales, and what a training begins with, from the surrogate.

        Args:
            surrogate: the network to explain.
            change: v(N) - v(∅) of training rows.
        """
        scale = change.double().square().mean(0).sqrt()
        self.scale.copy_(torch.where(scale > 0, scale, 1.0))

    def loss(
        self,
        surrogate: SurrogateNetwork,
        x: Float[Tensor, "batch *event"],
        change: Float[Tensor, "batch outputs"],
        base: Float[Tensor, "batch outputs"],
        generator: torch.Generator,
    ) -> Float[Tensor, " batch"]:
        """An unbiased estimate, for each row, of what is to be minimised, up to a constant.

        Args:
            surrogate, x, change: see `raw`.
            base: v(∅).
            generator: of coalitions.
        """
        if isinstance(surrogate, Perceptron) and self.players >= _MANY_PLAYERS:
            return self._label_loss(surrogate, x, change, generator)
        number = torch.rand((len(x),), generator=generator, device=generator.device)
        place = torch.randperm(len(x), generator=generator, device=generator.device)
        q = torch.sin((place + number) / len(x) * (math.pi / 2)).square().clamp(_EDGE, 1 - _EDGE)
        shape = (len(x), _PAIRS, self.players)
        mask = torch.rand(shape, generator=generator, device=generator.device) < q[:, None, None]
        odd = self._odd_part(surrogate, x, mask, change, base)
        phi = self(surrogate, x, change)
        missed = (odd - (mask.to(phi.dtype) - 0.5) @ phi) / self.scale
        weight = self.players / (2 * (q * (1 - q)).sqrt())
        return weight * missed.var(1).mean(1)

    # -- final ------------------------------------------------------------------------------

    def _label_loss(
        self,
        surrogate: Any,
        x: Float[Tensor, "batch *event"],
        change: Float[Tensor, "batch outputs"],
        generator: torch.Generator,
    ) -> Float[Tensor, " batch"]:
        """Squared errors against single noisy estimates."""
        noisy = contributions(surrogate, x, generator, self.chosen)
        missed = (self(surrogate, x, change) - noisy) / self.scale
        return missed.square().sum(1).mean(1)

    @torch.no_grad()
    def _odd_part(
        self,
        surrogate: SurrogateNetwork,
        x: Tensor,
        mask: Bool[Tensor, "batch pairs players"],
        change: Tensor,
        base: Tensor,
    ) -> Float[Tensor, "batch pairs outputs"]:
        """(v(S) - v(N - S)) / 2 of coalitions."""
        # A row's coalitions have none of the players that it lacks.
        owned = self.game.players.owned(x)[:, None]
        both = torch.cat((mask, ~mask), dim=1) & owned
        rows = max(1, _ELEMENTS // (both.shape[1] * x[0].numel()))
        parts = zip(x.split(rows), both.split(rows), strict=True)
        values = torch.cat([surrogate(some, own) for some, own in parts]).float()
        values = values if self.chosen is None else values[..., self.chosen]
        size, every = both.sum(2, keepdim=True), owned.sum(2, keepdim=True)
        values = torch.where(size == 0, base[:, None], values)
        values = torch.where(size == every, (base + change)[:, None], values)
        present, absent = values.chunk(2, dim=1)
        return (present - absent) / 2

    def forward(
        self,
        surrogate: SurrogateNetwork,
        x: Float[Tensor, "batch *event"],
        change: Float[Tensor, "batch outputs"],
    ) -> Float[Tensor, "batch players outputs"]:
        """Shapley values of rows; 0 for players that a row lacks. Arguments as for `raw`."""
        # In place: on these sizes memory traffic, not arithmetic, takes the time.
        phi = self.raw(surrogate, x, change).float()
        if self.game.padding is None:
            return phi.add_(((change - phi.sum(1)) / self.players)[:, None])
        own = self.game.players.owned(x)[..., None].to(phi.dtype)
        phi = phi.mul_(own)
        return phi.addcmul_(own, ((change - phi.sum(1)) / own.sum(1).clamp(min=1))[:, None])


class OwnExplainer(AmortizedNetwork):
    """phi(x) of a module of the user's.

    Args:
        game, chosen: see `AmortizedNetwork`.
        network: takes rows, and v(N) - v(∅); gives `[rows, players, outputs]`. A copy of it is
            trained. Or a function that makes one, see `own_network`.
    """

    def __init__(self, game: GameShape, network: Any, chosen: Sequence[int] | None = None) -> None:
        super().__init__(game, chosen)
        self.module = own_network(network, game.event, (self.players, self.outputs))

    def raw(
        self,
        surrogate: SurrogateNetwork,
        x: Float[Tensor, "batch *event"],
        change: Float[Tensor, "batch outputs"],
    ) -> Float[Tensor, "batch players outputs"]:
        found = of_shape(self.module(x, change), (len(x), self.players, self.outputs))
        # What remains of the change is added in place, which the module's layers may not allow.
        return found.clone()
