"""Wraps a bare callable as a value function, once."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from manifold_shap._checks import check_returned, check_rows, to_tensor
from manifold_shap.players import Players
from manifold_shap.values.base import ValueFunction


class CallableValue(ValueFunction):
    """Any callable `function(x, mask)` as a value function; `as_value_function` makes it.

    Rows stay where they are, and no gradients are recorded.

    Args:
        function: maps rows `[batch, *event]` and a bool mask `[batch, m, players]` to values
            `[batch, m, outputs]`, as a tensor or an array.
        players: see `Players`.
        outputs: names of the outputs.
        device: where rows are.
    """

    def __init__(
        self,
        function: Callable[[Tensor, Tensor], Any],
        players: Players,
        outputs: Sequence[str],
        device: torch.device,
    ) -> None:
        super().__init__(players, outputs)
        self.function = function
        self._device = device

    @property
    def device(self) -> torch.device:
        return self._device

    def values(self, x: Tensor, mask: Tensor, keys: Tensor) -> Tensor:
        # Copies: a function that works in place must not change what the caller gave.
        values = check_returned("the value function", self.function(x.clone(), mask.clone()))
        if values.ndim != 3 or values.shape[:2] != mask.shape[:2]:
            rows, m = mask.shape[:2]
            raise ValueError(
                f"Expected the value function to return shape ({rows}, {m}, outputs) for {rows} "
                f"rows with {m} coalitions each but got {tuple(values.shape)}; a single output is "
                "`values[..., None]`."
            )
        return values if values.is_floating_point() else values.float()

    def prediction(self, x: Tensor) -> Tensor:
        return self._at(x, True)

    def base(self, x: Tensor) -> Tensor:
        return self._at(x, False)

    def _at(self, x: Tensor, everyone: bool) -> Tensor:
        mask = torch.full((len(x), 1, len(self.players)), everyone, device=x.device)
        return self.values(x, mask, torch.zeros(mask.shape[:2], dtype=torch.int64))[:, 0]


def as_value_function(
    value: Any,
    x: Any,
    players: Players | None = None,
    outputs: Sequence[str] | None = None,
) -> ValueFunction:
    """A value function as it is; a callable `value(x, mask)` wrapped as one.

        >>> x = torch.tensor([[1.0, 2.0]])
        >>> game = as_value_function(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> game.outputs, len(game.players)
        (('0',), 2)

    Args:
        value: a `ValueFunction`, or a callable from rows `[batch, *event]` and a bool mask
            `[batch, m, players]` to values `[batch, m, outputs]`.
        x: some rows.
        players: of a callable; by default every element of a row on its own.
        outputs: names of a callable's outputs; by default "0", "1", ...

    Raises:
        TypeError: `value` cannot be called, or does not return a tensor or an array.
        ValueError: values of another shape.
    """
    if isinstance(value, ValueFunction):
        return value
    _check_takes_coalitions(value)
    rows = to_tensor(x)
    players = players or Players.of_columns(x, rows.shape[1:])
    rows = check_rows(rows, players)
    wrapped = CallableValue(value, players, outputs or (), rows.device)
    with torch.no_grad():
        found = wrapped.prediction(rows[:1]).shape[-1]
    names = tuple(outputs) if outputs is not None else tuple(str(k) for k in range(found))
    if len(names) != found:
        raise ValueError(
            f"Expected `outputs` to name the {found} outputs of the value function but got {names}."
        )
    wrapped.outputs = names
    return wrapped


def _check_takes_coalitions(value: Any) -> None:
    """Raise TypeError unless it can be called with rows and a mask: a model takes rows alone."""
    what, reason = type(value).__name__, "cannot be called"
    if callable(value):
        what = f"{value!r:.100}"
        try:
            known = inspect.signature(value.forward if isinstance(value, nn.Module) else value)
        except ValueError:  # Of something built in.
            return
        try:
            known.bind(None, None)
        except TypeError as error:
            reason = f"does not take these: {error}"
        else:
            return
    raise TypeError(
        "Expected a value function, or a callable from rows and a mask to values, but "
        f"{what} {reason}; of a model, `ms.imputed_value(model, imputer)` and "
        "`ms.fit_surrogate(model, x)` make one. It comes first, then the rows."
    )
