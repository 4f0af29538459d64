"""A weighted mean of value functions of the same model."""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap._messages import shown
from manifold_shap._saved import saved
from manifold_shap.coalitions import Coalitions
from manifold_shap.spaces import OutputSpace
from manifold_shap.values.base import Estimate, ValueFunction


@saved
class StackedValue(ValueFunction):
    """v(S) = Σ w_k v_k(S), w_k > 0, Σ w_k = 1.

    Where value functions err differently, such as one of a parametric law and one of neighbours,
    their mean is closer to the truth than each of them (Breiman 1996, Stacked regressions).

        >>> import manifold_shap as ms
        >>> x = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
        >>> values = [ms.imputed_value(lambda x: x.sum(1, True), kind(x), "identity", draws=8)
        ...           for kind in (ms.imputers.GaussianImputer, ms.imputers.EmpiricalImputer)]
        >>> StackedValue(values, [0.75, 0.25])
        StackedValue('stacked', Players(2: x0, x1; event (2,)), model output, 16 draws)

    Attributes:
        parts: the value functions. Each has draws of its own.
        weights: in the same order.

    Args:
        values: one or more, of the same model, players and outputs.
        weights: positive numbers that sum to one.

    Raises:
        ValueError: value functions of other players or outputs, or other weights.
    """

    def __init__(self, values: Sequence[ValueFunction], weights: Sequence[float]) -> None:
        games = {(each.outputs, str(each.space.settings)) for each in values}
        alike = all(each.players.same_as(values[0].players) for each in values)
        if not alike or len(games) != 1:
            raise ValueError(
                "Expected value functions of the same players, outputs and output space but got "
                f"{shown(values, 3)}."
            )
        if len(weights) != len(values) or min(weights) <= 0 or abs(sum(weights) - 1) > 1e-6:
            raise ValueError(
                f"Expected {len(values)} positive `weights` that sum to one but got {[*weights]}."
            )
        super().__init__(replace(values[0].spec, name="stacked", training_law=None, quality=None))
        self.parts, self.weights = tuple(values), tuple(weights)
        self._add_work()

    kind = "stacked value"

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        quality = self.spec.quality
        return {"parts": self.parts, "weights": self.weights, "quality": quality}, {}

    @classmethod
    def restored(cls, settings: dict[str, Any], _: dict[str, Tensor], __: Any) -> "StackedValue":
        value = cls(settings["parts"], settings["weights"])
        value.update(quality=settings["quality"])
        return value

    def _add_work(self) -> None:
        first, *others = (part.spec.work for part in self.parts)
        self.update(work=sum(others, start=first))

    @property
    def device(self) -> torch.device:
        return self.parts[0].device

    def to(self, device: torch.device | str) -> "StackedValue":
        for part in self.parts:
            part.to(device)
        self._add_work()
        return self

    def in_precision(self, precision: str) -> "StackedValue":
        return self._of(part.in_precision(precision) for part in self.parts)

    def with_draws(self, draws: int) -> "StackedValue":
        return self._of(part.with_draws(draws) for part in self.parts)

    def _of(self, parts: Iterable[ValueFunction]) -> "StackedValue":
        other = copy.copy(self)
        other.parts = tuple(parts)
        other._add_work()
        return other

    @property
    def provenance(self) -> dict[str, Any]:
        parts = zip(self.parts, self.weights, strict=True)
        stacked = [{**part.provenance, "weight": weight} for part, weight in parts]
        return {**super().provenance, "draws": self.spec.work.draws, "stacked": stacked}

    def prediction_in(self, space: OutputSpace, x: Tensor) -> Float[Tensor, "batch outputs"]:
        return self.parts[0].prediction_in(space, x)

    def fitted(self, space: OutputSpace) -> OutputSpace:
        return self.parts[0].fitted(space)

    def owners(self, x: Tensor) -> Int64[Tensor, "batch *event"]:
        return self.parts[0].owners(x)

    def prediction(self, x: Tensor) -> Float[Tensor, "batch outputs"]:
        return self.parts[0].prediction(x)

    def base(self, x: Tensor) -> Float[Tensor, "batch outputs"]:
        return self._mean([part.base(x) for part in self.parts])

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        found = [part.values(x, coalitions.folded(k)) for k, part in enumerate(self.parts)]
        values = self._mean([each.values for each in found])
        parts = zip(self.parts, found, self.weights, strict=True)
        drawn = [each for each in parts if each[0].spec.work.sampled]
        if not drawn:
            return Estimate(values)

        def variance() -> Tensor:
            unknown = torch.full_like(values, torch.nan)
            own = [w**2 * (unknown if (v := each.variance) is None else v) for _, each, w in drawn]
            return torch.stack(own).sum(0)

        inverse = [
            w**2 / (part.spec.work.draws if each.effective_draws is None else each.effective_draws)
            for part, each, w in drawn
        ]
        return Estimate(values, variance, values.new_ones(values.shape[:2]) / sum(inverse))

    def _mean(self, values: Sequence[Tensor]) -> Tensor:
        weighted = zip(values, self.weights, strict=True)
        return torch.stack([weight * own for own, weight in weighted]).sum(0)
