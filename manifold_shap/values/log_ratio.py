"""Log-ratios of another value function's probabilities: a game of its own on the simplex."""

from typing import Any

import torch
from torch import Tensor

from manifold_shap.spaces import Space
from manifold_shap.values.base import Estimate, ValueFunction


class LogRatioOfMean(ValueFunction):
    """v(S) = ilr(E[f(X) | x_S]): compositions of a value function on probabilities.

    Not the game of Noé et al. (2024), Eq. (8), which is E[ilr f(X) | x_S]: logarithms of a mean are
    not means of logarithms. It is efficient all the same, between the mean distribution and the
    prediction, and it asks nothing of a surrogate that was trained on probabilities. Of a sampled
    value function it has, besides noise, a bias that falls with the number of draws.

    Attributes:
        value: the value function on probabilities.

    Args:
        value: a value function with output="probability".
        zero_replacement: see `Space`.

    Raises:
        ValueError: the value function is in another output space.
    """

    def __init__(self, value: ValueFunction, zero_replacement: float = 1e-3) -> None:
        if value.space.name != "probability":
            raise ValueError(
                "Expected a value function with output='probability' to take log-ratios of but got "
                f"one with output={value.space.name!r}."
            )
        space = Space("ilr", zero_replacement)
        super().__init__(value.model, value.players, space, space(value.base.log()))
        self.value = value
        self.name = f"log-ratio of {value.name}"
        self.draws, self.batch_size, self.noisy = value.draws, value.batch_size, value.noisy
        self.walks, self.surrounds = value.walks, value.surrounds
        self.linearizes = value.linearizes
        self.linearized_cost = value.linearized_cost
        self.schema = getattr(value, "schema", None)

    @property
    def provenance(self) -> dict[str, Any]:
        return {**self.value.provenance, "value_function": self.name}

    def to(self, device: torch.device | str) -> "LogRatioOfMean":
        super().to(device)
        self.value.to(device)
        return self

    @torch.no_grad()
    def estimate(self, x: Any, mask: Tensor, keys: Tensor | None = None) -> Estimate:
        """Values; what their draws leave open is not known. Arguments as for a call."""
        values, variance, draws = super().estimate(x, mask, keys)
        return Estimate(
            values, torch.full_like(variance, torch.nan) if self.noisy else variance, draws
        )

    def values_along(
        self, x: Tensor, orders: Tensor, keys: Tensor, batch_size: int | None = None
    ) -> Tensor:
        """As of the value function that the log-ratios are taken of, where it `walks`."""
        inner: Any = self.value
        return self.space(inner.values_along(x, orders, keys, batch_size=batch_size).log())

    def values_around(self, x: Tensor, mask: Tensor, keys: Tensor, **settings: Any) -> Tensor:
        """As of the value function that the log-ratios are taken of, where it `surrounds`."""
        inner: Any = self.value
        return self.space(inner.values_around(x, mask, keys, **settings).log())

    def _values(self, x: Tensor, mask: Tensor, keys: Tensor) -> Tensor:
        return self.space(self.value.proper_values(x, mask, keys).log())
