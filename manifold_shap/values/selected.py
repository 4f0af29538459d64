"""Restricts any value function to some of its outputs.

Linearized contributions and the model's backward passes are computed for these alone. Values are
computed for all outputs, and those that are not asked for are dropped.
"""

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap._checks import check_distinct, check_whole
from manifold_shap._messages import check_choice
from manifold_shap.values.base import Linearized, OneNetwork, ValueFunction
from manifold_shap.values.mapped import MappedValue

# An output by its name or its position; those of `ValueFunction.select`, None for all.
Output = int | np.integer | str
Outputs = Output | Sequence[Output] | None


class SelectedValue(MappedValue):
    """A value function of some of the outputs of another one; `ValueFunction.select` makes it.

        >>> from manifold_shap.values.wrapped import as_value_function
        >>> x = torch.tensor([[1.0, 2.0]])
        >>> game = as_value_function(lambda x, mask: x[:, None] * mask, x, outputs=["a", "b"])
        >>> SelectedValue(game, ["b"])(x, torch.tensor([[[True, True]]]))
        tensor([[[2.]]])

    Attributes:
        value: that of all outputs.
        chosen: numbers of the outputs among its own.

    Args:
        value: any value function.
        outputs: names of outputs, or positions among them, in the order that they shall have.

    Raises:
        TypeError: `outputs` that are neither names nor positions.
        ValueError: an output that there is not, one that is named twice, none at all; outputs that
            are log-ratios, which mean nothing one by one.
    """

    def __init__(self, value: ValueFunction, outputs: Sequence[Output]) -> None:
        if value.space.partition(value.classes) is not None:
            raise ValueError(
                f"Expected all outputs in {value.space.name!r}, which are coordinates of one "
                "composition and mean little without each other, but got "
                f"outputs={list(outputs)}; leave `outputs` out, or use space='probability'."
            )
        numbers = [output_position("outputs", each, value.outputs) for each in outputs]
        if not numbers:
            raise ValueError("Expected at least one output in `outputs` but got none.")
        names = [value.outputs[k] for k in numbers]
        check_distinct(names, "outputs", "name each of them once")
        # Some outputs are not those of T of all classes any more.
        super().__init__(value, outputs=tuple(names), classes=())
        self.chosen = torch.tensor(numbers, device=value.device)

    @property
    def provenance(self) -> dict[str, Any]:
        # Of outputs that a selection selects from, too.
        return {"outputs_of": len(self.value.outputs), **super().provenance}

    def mapped(self, values: Float[Tensor, "*batch all"]) -> Float[Tensor, "*batch outputs"]:
        return values[..., self.chosen]

    def mapped_variance(self, variance: Float[Tensor, "*batch all"]) -> Tensor:
        return self.mapped(variance)

    def to(self, device: torch.device | str) -> "SelectedValue":
        super().to(device)
        self.chosen = self.chosen.to(self.device)
        return self

    def one_network(self, chosen: Int64[Tensor, " chosen"] | None = None) -> OneNetwork | None:
        return self.value.one_network(self.chosen if chosen is None else self.chosen[chosen])

    def linearized(self, chosen: Int64[Tensor, " chosen"] | None = None) -> Linearized | None:
        return self.value.linearized(self.chosen if chosen is None else self.chosen[chosen])


def selected(value: ValueFunction, outputs: Outputs) -> ValueFunction:
    """A value function of the outputs that are asked for, see `ValueFunction.select`."""
    if outputs is None:
        return value
    if isinstance(outputs, str) or not isinstance(outputs, Iterable):
        return SelectedValue(value, [outputs])
    return SelectedValue(value, [*outputs])


def output_position(name: str, output: Any, outputs: tuple[str, ...]) -> int:
    """The position of an output among others, by its name or by its position.

    Classes 1, 2, 3 are outputs "1", "2", "3": where names are numbers, a number is a name.

    >>> output_position("output", -1, ("no", "yes")), output_position("output", 3, ("3", "1"))
    (1, 0)

    Args:
        name: of the argument, for errors.
        output: a name or a position.
        outputs: names of all.

    Raises:
        TypeError, ValueError: it is none of them.
    """
    numbered = any(each.lstrip("-").isdigit() for each in outputs)
    is_number = isinstance(output, Integral) and not isinstance(output, bool)
    if is_number and not numbered:
        return check_whole(name, output, -len(outputs), len(outputs) - 1) % len(outputs)
    return outputs.index(check_choice(name, str(output) if is_number else output, outputs))
