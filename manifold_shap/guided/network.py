"""Defines the network that weighs the model's answer for a completed row."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.perceptron import Perceptron


class GuidedNetwork(nn.Module):
    """w h + (1 - w) g: the hint h is T(f(x)) of a completed row, and g an output of the network.

    A `Perceptron` gives both g and the log-odds of w, from x_S, E[X | x_S] and the hint. Of a hint
    that is a distribution the combination is one.

    Args:
        index: player that owns each of the flattened input elements.
        outputs: number of outputs of T.
        on_simplex: whether outputs are probabilities of classes.
        hidden, activation, binned: see `Perceptron`.
    """

    index: Tensor

    def __init__(
        self,
        index: Sequence[int],
        outputs: int,
        on_simplex: bool,
        hidden: Sequence[int] = (128, 128),
        activation: str = "relu",
        binned: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.outputs, self.on_simplex = outputs, on_simplex
        self.register_buffer("index", torch.tensor(list(index)), persistent=False)
        # The expected row and the hint are a player of their own, who is always present.
        owners = [*index, *[max(index) + 1] * (len(index) + outputs)]
        game = GameShape((len(owners),), owners, outputs + 1, on_simplex=False)
        self.body = Perceptron(game, hidden, activation, binned)

    @property
    def target_scale(self) -> Float[Tensor, " outputs"]:
        """Of g, off the simplex."""
        return self.body.target_scale[: self.outputs]

    @torch.no_grad()
    def standardise(self, pairs: Sequence[Tensor], target: Float[Tensor, "pairs outputs"]) -> None:
        """Take means, scales and bins from some pairs, the arguments of a call."""
        # Logarithms, of weights and of probabilities, have no unit.
        own = torch.zeros_like(target) if self.on_simplex else target
        units = torch.cat((own, target.new_zeros(len(target), 1)), dim=1)
        self.body.standardise(self._inputs(*pairs), units)

    def forward(
        self,
        x: Float[Tensor, "pairs elements"],
        mask: Bool[Tensor, "pairs players"],
        expected: Float[Tensor, "pairs elements"],
        hint: Float[Tensor, "pairs outputs"],
    ) -> Float[Tensor, "pairs outputs"]:
        present = torch.cat((mask, torch.ones_like(mask[:, :1])), dim=1)
        inputs = self._inputs(x, mask, expected, hint)
        raw = self.body(inputs, present[:, None])[:, 0].float()
        own, log_odds = raw.tensor_split([self.outputs], dim=1)
        own = own.softmax(-1) if self.on_simplex else own
        return torch.lerp(own, hint, log_odds.sigmoid())

    def _inputs(self, x: Tensor, mask: Tensor, expected: Tensor, hint: Tensor) -> Tensor:
        return torch.cat((x, torch.where(mask[:, self.index], x, expected), hint), dim=1)
