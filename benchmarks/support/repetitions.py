"""Learners for many repetitions of a small experiment: cell means, and networks trained together.

Both learn m(x_S) = E[f(X) | x_S] and h(x_S) = P(Y | x_S) from rows, the model's outputs at them and
their labels, once for each part of rows that is left out.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.coalitions import Coalitions
from manifold_shap.laws import SizeUniform
from manifold_shap.spaces import Probability
from manifold_shap.values.base import Estimate

# Of rows and coalitions, conditional means `[batch, m, classes]`.
Means = Callable[[Tensor, Tensor], Tensor]
_HIDDEN = 64
_ROWS = 128
_LEARNING_RATE = 1e-2


class KnownMeans(ms.ValueFunction):
    """A value function of means that are given; the prediction is the model's own.

    Args:
        model: see `as_model`.
        players: of its rows.
        means: of proper coalitions.
        base: v of nobody, `[classes]`.
    """

    device = torch.device("cpu")

    def __init__(self, model: ms.Model, players: ms.Players, means: Means, base: Tensor) -> None:
        classes = tuple(model.classes)
        super().__init__(ms.values.GameSpec(players, classes, Probability(), classes, "means"))
        self.model, self.means, self.nobody = model, means, base

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        mask = coalitions.masks()
        whole = mask.all(-1, keepdim=True)
        return Estimate(
            torch.where(whole, self.prediction(x)[:, None], self.means(x, mask).double())
        )

    def prediction(self, x: Tensor) -> Tensor:
        return self.model(x, scale="probabilities").double()

    def base(self, x: Tensor) -> Tensor:
        return self.nobody.double().expand(len(x), -1)


def cell_means(x: Tensor, targets: Tensor, sizes: Sequence[int]) -> Means:
    """Means over the rows that agree on the present players, with one more row that is the mean.

    Args:
        x: states 0, 1, ... of the players.
        targets: `[rows, classes]`.
        sizes: numbers of states.
    """
    weighted = torch.cat((targets.double(), torch.ones(len(x), 1).double()), 1)
    sums = torch.zeros(*sizes, weighted.shape[1]).double()
    sums.index_put_(tuple(x.long().T), weighted, accumulate=True)
    for axis in range(len(sizes)):
        sums = torch.cat((sums, sums.sum(axis, keepdim=True)), axis)
    mean, every = targets.double().mean(0), torch.tensor(sizes)

    def means(x: Tensor, mask: Tensor) -> Tensor:
        found = sums[torch.where(mask, x[:, None].long(), every).unbind(-1)]
        return (found[..., :-1] + mean) / (found[..., -1:] + 1)

    return means


class Networks(nn.Module):
    """Perceptrons of the same shape, each with weights of its own, in one batch of products.

    Args:
        count: of the networks.
        inputs, outputs: of each.
        generator: of the first weights.
    """

    def __init__(self, count: int, inputs: int, outputs: int, generator: torch.Generator) -> None:
        super().__init__()
        widths = (inputs, _HIDDEN, _HIDDEN, outputs)
        pairs = list(itertools.pairwise(widths))
        self.weights = nn.ParameterList(
            torch.randn(count, a, b, generator=generator) / math.sqrt(a / 2) for a, b in pairs
        )
        self.biases = nn.ParameterList(torch.zeros(count, 1, b) for _, b in pairs)

    def forward(self, x: Tensor) -> Tensor:
        """From `[networks, rows, inputs]` to `[networks, rows, outputs]`."""
        for k, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x.relu() if k else x, weight)
        return x

    def one(self, number: int) -> Callable[[Tensor], Tensor]:
        """One of them, as a function of rows of inputs."""
        layers = [
            (weight[number].detach(), bias[number, 0].detach())
            for weight, bias in zip(self.weights, self.biases, strict=True)
        ]

        def network(x: Tensor) -> Tensor:
            for k, (weight, bias) in enumerate(layers):
                x = torch.addmm(bias, x.relu() if k else x, weight)
            return x

        return network


def trained_together(
    x: Tensor, targets: Tensor, encode: Callable[[Tensor, Tensor], Tensor], steps: int, seed: int
) -> list[Means]:
    """Conditional means of each set of rows, by a network of its own.

    Args:
        x: `[sets, rows, players]`.
        targets: `[sets, rows, outputs]`.
        encode: of rows and coalitions, what networks see.
        steps: of Adam; its learning rate falls to zero along a cosine.
        seed: of weights, batches and coalitions.
    """
    generator = torch.Generator().manual_seed(seed)
    sets, rows, players = x.shape
    law, every = SizeUniform(players), torch.arange(sets)[:, None]
    inputs = encode(x[0, :1], torch.ones(1, players, dtype=torch.bool)).shape[-1]
    center = targets.mean(1, keepdim=True)
    networks = Networks(sets, inputs, targets.shape[-1], generator)
    optimizer = torch.optim.Adam(networks.parameters(), lr=_LEARNING_RATE)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = (
            _LEARNING_RATE * (1 + math.cos(math.pi * step / steps)) / 2
        )
        chosen = torch.randint(rows, (sets, _ROWS), generator=generator)
        mask = law.sample_antithetic((sets, _ROWS // 2), generator).flatten(1, 2)
        loss = F.mse_loss(
            networks(encode(x[every, chosen], mask)), (targets - center)[every, chosen]
        )
        optimizer.zero_grad()
        # The mean over networks would make the steps of each depend on their number.
        (loss * sets).backward()
        optimizer.step()
    return [_means(networks.one(k), center[k, 0], encode) for k in range(sets)]


def _means(network: Callable[[Tensor], Tensor], center: Tensor, encode: Any) -> Means:
    def means(x: Tensor, mask: Tensor) -> Tensor:
        rows = x[:, None].expand(-1, mask.shape[1], -1).flatten(0, 1)
        with torch.no_grad():
            found = network(encode(rows, mask.flatten(0, 1)))
        return (found + center).unflatten(0, mask.shape[:2])

    return means
