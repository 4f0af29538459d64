"""Value functions that change something about another one, and leave the rest as it is."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from manifold_shap.players import Players
from manifold_shap.values.base import ValueFunction


class ForwardingValue(ValueFunction):
    """A value function that is another one, except for what a subclass changes.

    A subclass defines `values`, and overrides what else differs. What depends on the players or on
    the outputs and is only for speed (`values_along`, `linearized`) is not forwarded.

        >>> from manifold_shap.values.wrapped import as_value_function
        >>> class Negative(ForwardingValue):
        ...     def values(self, x, mask, keys):
        ...         return -self.value.values(x, mask, keys)
        >>> x = torch.tensor([[1.0, 2.0]])
        >>> game = as_value_function(lambda x, mask: x[:, None] * mask, x, outputs=["a", "b"])
        >>> Negative(game)
        Negative('callable', Players(2: x0, x1; event (2,)), outputs ['a', 'b'] in 'identity')

    Attributes:
        value: the other value function.

    Args:
        value: any value function.
        players: by default its own.
        outputs: names of some of its outputs; by default all.
    """

    def __init__(
        self,
        value: ValueFunction,
        players: Players | None = None,
        outputs: Sequence[str] | None = None,
    ) -> None:
        # Some outputs are not those of T of all classes any more.
        named = (value.outputs, value.classes) if outputs is None else (outputs, ())
        super().__init__(players or value.players, named[0], value.space, named[1])
        self.value, self.name = value, value.name
        self.draws, self.sampled, self.cost = value.draws, value.sampled, value.cost
        self.batch_size, self.schema, self.seen = value.batch_size, value.schema, value.seen
        self.quality = value.quality
        # A law is over players: those of coarser ones are not what the training was on.
        self.training_law = value.training_law if players is None else None

    @property
    def device(self) -> torch.device:
        return self.value.device

    def to(self, device: torch.device | str) -> "ForwardingValue":
        self.value.to(device)
        self.batch_size = self.value.batch_size
        return self

    def in_full_precision(self) -> "ForwardingValue":
        other = copy.copy(self)
        other.value = self.value.in_full_precision()
        return other

    def rows(self, x: Any, name: str = "x") -> Tensor:
        # Players by row do not say where rows are padded, those that they group do.
        return self.value.rows(x, name)

    @property
    def provenance(self) -> dict[str, Any]:
        return {**self.value.provenance, **super().provenance}

    def prediction(self, x: Tensor) -> Tensor:
        return self.value.prediction(x)

    def base(self, x: Tensor) -> Tensor:
        return self.value.base(x)
