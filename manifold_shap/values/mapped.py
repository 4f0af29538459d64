"""Value functions that ask another one: of other players, or for a function of its outputs."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap.coalitions import Coalitions
from manifold_shap.spaces import OutputSpace
from manifold_shap.values.base import Estimate, Linearized, ValueFunction
from manifold_shap.values.spec import GameSpec


class MappedValue(ValueFunction):
    """A value function that is another one, except for a map of coalitions, of outputs, or both.

    A subclass overrides `mapped`, `within` or both; precision, devices, draws and what is known of
    the value function are those of the other one, also if they change later.

        >>> from manifold_shap.values.wrapped import as_value_function
        >>> class Negative(MappedValue):
        ...     def mapped(self, values):
        ...         return -values
        >>> x = torch.tensor([[1.0, 2.0]])
        >>> game = as_value_function(lambda x, mask: x[:, None] * mask, x, outputs=["a", "b"])
        >>> Negative(game)(x, torch.ones(1, 1, 2, dtype=torch.bool))
        tensor([[[-1., -2.]]])

    Attributes:
        value: the other value function.

    Args:
        value: any value function.
        changes: entries of `spec` that differ from those of `value`.
    """

    def __init__(self, value: ValueFunction, **changes: Any) -> None:
        self.value, self._changes = value, changes

    @property
    def spec(self) -> GameSpec:
        return replace(self.value.spec, **self._changes)

    def update(self, **changes: Any) -> None:
        self._changes = self._changes | changes

    # -- may be overridden ------------------------------------------------------------------

    def mapped(self, values: Float[Tensor, "*batch inner"]) -> Float[Tensor, "*batch outputs"]:
        """Outputs, of those of the other value function."""
        return values

    def mapped_variance(self, variance: Float[Tensor, "*batch inner"]) -> Tensor:
        """Variances of the mapped outputs; by default NaN, since those of the others say little."""
        return torch.full_like(self.mapped(variance), torch.nan)

    def within(self, x: Float[Tensor, "batch *event"], coalitions: Coalitions) -> Coalitions:
        """Coalitions of the players of the other value function."""
        return coalitions

    # -- that of the other value function ---------------------------------------------------

    @property
    def device(self) -> torch.device:
        return self.value.device

    def to(self, device: torch.device | str) -> "MappedValue":
        self.value.to(device)
        return self

    def of_another(self, change: Callable[[ValueFunction], ValueFunction]) -> "MappedValue":
        """This map of what `change` makes of the other value function."""
        value = change(self.value)
        if value is self.value:
            return self
        other = copy.copy(self)
        other.value = value
        return other

    def in_precision(self, precision: str) -> "MappedValue":
        return self.of_another(lambda value: value.in_precision(precision))

    def with_draws(self, draws: int) -> "MappedValue":
        return self.of_another(lambda value: value.with_draws(draws))

    def draw_rows(self, count: int, seed: int) -> Float[Tensor, "count *event"] | None:
        return self.value.draw_rows(count, seed)

    def rows(self, x: Any, name: str = "x") -> Tensor:
        # Players by row do not say where rows are padded, those that they group do.
        return self.value.rows(x, name)

    def owners(self, x: Tensor) -> Int64[Tensor, "batch *event"]:
        return self.value.owners(x)

    @property
    def provenance(self) -> dict[str, Any]:
        inner = self.value.provenance
        inner.pop("quality", None)  # Of this one `spec` says it.
        return {**inner, **super().provenance}

    def prediction_in(self, space: OutputSpace, x: Tensor) -> Float[Tensor, "batch outputs"]:
        return self.value.prediction_in(space, x)

    def fitted(self, space: OutputSpace) -> OutputSpace:
        return self.value.fitted(space)

    def prediction(self, x: Tensor) -> Float[Tensor, "batch outputs"]:
        return self.mapped(self.value.prediction(x))

    def base(self, x: Tensor) -> Float[Tensor, "batch outputs"]:
        return self.mapped(self.value.base(x))

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        found = self.value.values(x, self.within(x, coalitions))
        return found.map(self.mapped, self.mapped_variance)

    def linearized(self, chosen: Int64[Tensor, " chosen"] | None = None) -> Linearized | None:
        """That of the other value function, with its outputs mapped; None where players differ."""
        inner = self.value.linearized()
        if inner is None or self.players is not self.value.players:
            return None
        which = slice(None) if chosen is None else chosen

        def values(x: Tensor, coalitions: Any) -> Estimate:
            return inner.values(x, coalitions).map(lambda own: self.mapped(own)[..., which])

        return Linearized(inner.cost, values)
