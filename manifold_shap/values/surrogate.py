"""A value function that a network regresses: v(S) = g(x_S)."""

from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap.checkpoints import save_checkpoint
from manifold_shap.classifiers import Model
from manifold_shap.coalitions import Players
from manifold_shap.outputs import Space
from manifold_shap.schema import Schema
from manifold_shap.surrogate import Surrogate
from manifold_shap.values.base import ValueFunction


class SurrogateValue(ValueFunction):
    """v(S) = g(x_S), one network call per coalition (Frye et al. Eq. 17).

    Attributes:
        surrogate: the network g.
        schema: columns of the table that the rows come from, if they come from one.
        checkpoint: what `save` writes: tensors and plain data.
        training: epochs, seconds and validation error, where it was trained in this process.
    """

    name = "surrogate"

    def __init__(
        self,
        surrogate: Surrogate,
        model: Model,
        players: Players,
        space: Space,
        base: Tensor,
        *,
        schema: Schema | None = None,
        checkpoint: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(model, players, space, base)
        self.surrogate = surrogate.eval()
        self.schema = schema
        self.checkpoint = checkpoint or {}
        self.training: dict[str, float] = {}

    def save(self, path: str | Path) -> None:
        """Write the surrogate, not the model, to one file; `load_surrogate` reads it.

        Raises:
            ValueError: it was put together by hand, neither trained nor loaded.
            OSError: no space or no permission; what stood at `path` is left as it was.
        """
        if not self.checkpoint:
            raise ValueError(
                "Expected a surrogate from `fit_surrogate` or `load_surrogate` but this one has no "
                "checkpoint; save its network by `torch.save(value.surrogate.state_dict(), path)`."
            )
        save_checkpoint(path, self.checkpoint)

    def to(self, device: torch.device | str) -> "SurrogateValue":
        super().to(device)
        self.surrogate.to(device)
        return self

    def _values(self, x: Tensor, mask: Tensor, keys: Tensor) -> Tensor:
        return self.surrogate(x, mask)

    @torch.no_grad()
    def values_along(
        self, x: Tensor, orders: Int64[Tensor, "batch orders players"], keys: Tensor
    ) -> Float[Tensor, "batch m outputs"]:
        """Values of the coalitions that grow along orders, without their ends; unchecked.

        The first layer is a running sum: see `MaskedLinear.along`.

        Args:
            x: rows.
            orders: players as they arrive.
            keys: of the orders; nothing is drawn here.

        Returns:
            For each order in turn, values of its first 1, 2, ... n-1 players.
        """
        return self.surrogate.along(x, orders).flatten(1, 2)
