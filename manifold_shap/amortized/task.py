"""Defines what an amortised explainer learns: its labels, single noisy estimates, and its loss."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from manifold_shap.amortized.network import AmortizedNetwork
from manifold_shap.coalitions import sample_stratified_pairs, stratum_weights
from manifold_shap.surrogate.perceptron import Perceptron
from manifold_shap.training.task import Task

_STRATA = 8
# One row in 16 also has exact contributions, which correct the linearized ones.
_EXACT_EVERY = 16
# Hidden activations that fit a cache.
_CACHED = 2**21


class AmortizedTask(Task):
    """An amortised explainer, by squared error against single noisy estimates of Shapley values.

    Batches are `(x, v(N) - v(∅))`. Every row meets one coalition and its complement per step: the
    linearized contributions of all players there, see `Perceptron.linearized`, and for a few rows
    the error of the linearization. Eight rows share the strata of `sample_stratified_pairs`. The
    surrogate itself is given by `describe`.

    Settings: `index`, the player that owns each of the flattened input elements; the number of
    `outputs`; `surrogate_hidden`, the hidden layers of the surrogate; `hidden`, `activation` and
    `shares`, see `AmortizedNetwork`; and the options of the training.
    """

    kind = "explainer"
    described = ("probe",)
    probe: Tensor

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        own = self.settings
        network = ("index", "outputs", "hidden", "activation", "shares")
        widths = own["surrogate_hidden"]
        self.explainer = AmortizedNetwork(widths=widths, **{name: own[name] for name in network})
        # Recognises the surrogate that it was trained for.
        self.register_buffer("probe", torch.zeros(widths[0]))
        # In a tuple the surrogate is not a submodule, which would be trained and saved.
        self._kept: tuple[Perceptron, ...] = ()

    @torch.no_grad()
    def describe(self, surrogate: Perceptron, change: Tensor) -> None:
        """Take the surrogate, and the scale of v(N) - v(∅) over training rows."""
        # A copy: the caller may continue to use the surrogate on its device.
        self._kept = (copy.deepcopy(surrogate).requires_grad_(False),)
        self.probe.copy_(fingerprint(surrogate))
        self.explainer.start(surrogate, change)

    @property
    def _surrogate(self) -> Perceptron:
        (surrogate,) = self._kept
        return surrogate.to(self.probe.device)

    def loss(
        self, batch: tuple[Tensor, ...], generator: torch.Generator
    ) -> Float[Tensor, " batch"]:
        x, change = batch
        noisy = self._contributions(x, generator)
        surrogate = self._surrogate
        with torch.no_grad():
            rows = surrogate.flat(x)
        phi = self.explainer(surrogate, rows, change)
        return ((phi - noisy) / self.explainer.scale).square().sum(1).mean(1)

    @torch.no_grad()
    def _contributions(
        self, x: Tensor, generator: torch.Generator
    ) -> Float[Tensor, "batch players outputs"]:
        """An unbiased estimate of all Shapley values of each row, from one pair of coalitions.

        A two-level estimator: linearized contributions of all rows, plus a correction by the exact
        contributions of a few random rows.
        """
        mask, weight = self._pairs(len(x), generator)
        found = self._by_parts(x, mask, linearized=True)
        count = -(-len(x) // _EXACT_EVERY)
        few = torch.randperm(len(x), generator=generator, device=generator.device)[:count]
        missed = self._by_parts(x[few], mask[few], linearized=False) - found[few]
        found[few] += missed * (len(x) / count)
        return found * weight[:, None, None]

    def _pairs(
        self, count: int, generator: torch.Generator
    ) -> tuple[Bool[Tensor, "batch 2 players"], Float[Tensor, " batch"]]:
        """A pair of coalitions for each row, and its weight: strata in turn from a random one."""
        first = int(torch.randint(_STRATA, (), generator=generator, device=generator.device))
        rows = slice(first, first + count)
        groups = -(-(first + count) // _STRATA)
        pairs = sample_stratified_pairs((groups,), self.explainer.players, _STRATA, generator)
        weights = _STRATA * stratum_weights(_STRATA).to(pairs.device).repeat(groups)
        return pairs.flatten(0, 1)[rows], weights[rows]

    def _by_parts(
        self, x: Tensor, mask: Bool[Tensor, "batch 2 players"], linearized: bool
    ) -> Float[Tensor, "batch players outputs"]:
        found = []
        # Rows whose coalitions' hidden activations fit a cache.
        step = max(_STRATA, _CACHED // (2 * mask.shape[-1] * len(self.probe)))
        for rows, pairs in zip(x.split(step), mask.split(step), strict=True):
            near = self._surrogate.linearized if linearized else self._surrogate.around
            values = near(rows, pairs)
            change = values[:, :, 1:] - values[:, :, :1]
            found.append(torch.where(pairs[..., None], -change, change).mean(1))
        return torch.cat(found).float()


@torch.no_grad()
def fingerprint(surrogate: Perceptron) -> Float[Tensor, " width"]:
    """Sums of weights, biases and scales, by which to recognise a surrogate."""
    after = sum(layer.weight.mean() + layer.bias.mean() for layer in surrogate.behind)
    scales = (surrogate.x_mean, surrogate.x_scale, surrogate.target_mean, surrogate.target_scale)
    about = after + sum(scale.mean() for scale in scales)
    return surrogate.first.weight.sum(1) + surrogate.first.bias + about
