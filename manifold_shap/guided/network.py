"""Defines the guide, which says what codes of a VAE make of x_S, and the network that weighs it."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.perceptron import Perceptron
from manifold_shap.vae.likelihood import Likelihood, Product

# Weights held at a time: what a CPU's cache holds.
_WEIGHT_ELEMENTS = 2**21

# Rows drawn of each code, whose predictions are averaged.
_ROWS_PER_CODE = 8

# Hints about a value: the mean prediction of the codes, and that for the completed row.
HINTS = 2


class Guide(nn.Module):
    """E[T(f(X')) | x_S] and E[X' | x_S] by a few thousand codes z of a VAE, without a model call.

    Codes are weighed by p(x_S|z)^τ, as in the bank of a `VAEImputer`. What they predict was
    averaged before, over rows that ignore x_S. So the mean is close where few players are known,
    and too smooth where most are.

    Args:
        families: distributions of the elements; see `choose_families`.
        index: player that owns each element.
        codes: how many.
        outputs: of T.
        temper: τ.
    """

    owner: Tensor
    coefficients: Tensor
    outputs: Tensor
    rows: Tensor

    def __init__(
        self,
        families: Sequence[Sequence[Any]],
        index: Sequence[int],
        codes: int,
        outputs: int,
        temper: float,
    ) -> None:
        super().__init__()
        self.likelihood, self.temper = Likelihood(families), temper
        owner = torch.tensor(list(index))[self.likelihood.statistic_of]
        self.register_buffer("owner", owner, persistent=False)
        self.register_buffer("coefficients", torch.zeros(len(owner), codes))
        self.register_buffer("outputs", torch.zeros(codes, outputs))
        self.register_buffer("rows", torch.zeros(codes, len(index)))

    @torch.no_grad()
    def describe(
        self,
        likelihood: Likelihood,
        codes: Float[Tensor, "codes f"],
        predicted: Callable[[Tensor], Tensor],
        generator: torch.Generator,
    ) -> None:
        """Take units from the VAE's likelihood, and what the codes predict from the model.

        Args:
            likelihood: of the VAE.
            codes: coefficients of decoded codes.
            predicted: from rows of elements to T(f(x)).
            generator: of the rows, on the CPU.
        """
        self.likelihood.load_state_dict(likelihood.state_dict())
        codes = codes.to(self.rows.device)
        self.coefficients.copy_(codes.T)
        decoded = Product(self.likelihood, codes)
        self.rows.copy_(decoded.mean)
        draws = [
            predicted(decoded.quantile(uniform.to(codes.device)))
            for uniform in torch.rand(_ROWS_PER_CODE, *self.rows.shape, generator=generator)
        ]
        self.outputs.copy_(torch.stack(draws).mean(0))

    @torch.no_grad()
    def forward(
        self, x: Float[Tensor, "batch elements"], mask: Bool[Tensor, "batch m players"]
    ) -> tuple[Float[Tensor, "batch m outputs"], Float[Tensor, "batch m elements"]]:
        """The mean prediction of the codes, and a typical row: its absent elements count."""
        statistics = self.temper * self.likelihood.statistics(x)
        present = (statistics[:, None] * mask[..., self.owner]).flatten(0, 1)
        known = torch.cat((self.outputs, self.rows), dim=1)
        most, means = max(1, _WEIGHT_ELEMENTS // len(known)), []
        held = known.new_empty(most, len(known))
        for some in present.split(most):
            weights = torch.mm(some, self.coefficients, out=held[: len(some)])
            means.append(torch.softmax(weights, -1, out=weights) @ known)
        both = torch.cat(means).unflatten(0, mask.shape[:2])
        outputs, rows = both.tensor_split([self.outputs.shape[1]], dim=-1)
        return outputs, self.likelihood.typical(rows)


class GuidedNetwork(nn.Module):
    """Σ_k w_k h_k + w_0 g: a convex combination of hints and an output of its own.

    A `Perceptron` gives both g and the logarithms of the weights, from x_S, the completed row and
    the hints. Of hints that are distributions the combination is one.

    Args:
        index: player that owns each of the flattened input elements.
        outputs: number of outputs of T.
        on_simplex: whether outputs are probabilities of classes.
        hidden, activation, binned: see `Perceptron`.
    """

    def __init__(
        self,
        index: Sequence[int],
        outputs: int,
        on_simplex: bool,
        hidden: Sequence[int] = (512, 512),
        activation: str = "relu",
        binned: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.outputs, self.on_simplex = outputs, on_simplex
        # The completed row and the hints are a player of their own, who is always present.
        hints = [max(index) + 1] * (len(index) + HINTS * outputs)
        owners, wide = [*index, *hints], outputs + HINTS + 1
        game = GameShape((len(owners),), owners, wide, on_simplex=False)
        self.body = Perceptron(game, hidden, activation, binned)

    @property
    def target_scale(self) -> Float[Tensor, " outputs"]:
        """Of the output of its own, off the simplex."""
        return self.body.target_scale[: self.outputs]

    @torch.no_grad()
    def standardise(self, x: Tensor, completed: Tensor, hints: Tensor, target: Tensor) -> None:
        """Take means, scales and bins from some pairs; arguments as for a call."""
        # Logarithms, of weights and of probabilities, have no unit.
        own = torch.zeros_like(target) if self.on_simplex else target
        units = torch.cat((own, target.new_zeros(len(target), HINTS + 1)), dim=1)
        self.body.standardise(torch.cat((x, completed, hints.flatten(1)), dim=1), units)

    def forward(
        self,
        x: Float[Tensor, "pairs elements"],
        mask: Bool[Tensor, "pairs players"],
        completed: Float[Tensor, "pairs elements"],
        hints: Float[Tensor, "pairs hints outputs"],
    ) -> Float[Tensor, "pairs outputs"]:
        inputs = torch.cat((x, completed, hints.flatten(1)), dim=1)
        present = torch.cat((mask, torch.ones_like(mask[:, :1])), dim=1)
        raw = self.body(inputs, present[:, None])[:, 0].float()
        own, weights = raw.tensor_split([self.outputs], dim=1)
        own = own.softmax(-1) if self.on_simplex else own
        every = torch.cat((hints, own[:, None]), dim=1)
        return (weights.softmax(-1)[..., None] * every).sum(1)
