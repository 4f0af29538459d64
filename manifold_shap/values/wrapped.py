"""Wraps a bare callable as a value function, once."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manifold_shap._arrays import column_names
from manifold_shap._checks import check_returned, check_rows, to_tensor
from manifold_shap._messages import check_choice
from manifold_shap.coalitions import Coalitions, Listed
from manifold_shap.models.outputs import check_outputs, differs_between_calls
from manifold_shap.nn import evaluated, precision
from manifold_shap.players import Players
from manifold_shap.spaces import Identity, OutputSpace, as_space
from manifold_shap.values.base import Estimate, ValueFunction
from manifold_shap.values.spec import COSTS, GameSpec, Work


class CallableValue(ValueFunction):
    """Any callable `function(x, mask)` as a value function; `as_value_function` makes it.

    It counts as sampled where it gave other values for the same row and coalition. A module is
    asked in evaluation mode, whatever its mode is, on rows of its precision.

    Rows stay where they are, and no gradients are recorded.

    Args:
        function: maps rows `[batch, *event]` and a bool mask `[batch, m, players]` to values
            `[batch, m, outputs]`, as a tensor or an array.
        players: see `Players`.
        outputs: names of the outputs.
        device: where rows are.
        space: that values are in; None for plain numbers.
        cost: of a value, see `Work`.
    """

    def __init__(
        self,
        function: Callable[[Tensor, Tensor], Any],
        players: Players,
        outputs: Sequence[str],
        device: torch.device,
        space: OutputSpace | None = None,
        cost: str = "model",
    ) -> None:
        work = Work(cost=check_choice("cost", cost, COSTS))
        super().__init__(GameSpec(players, tuple(outputs), space or Identity(), work=work))
        self.function, self._device = function, device

    @property
    def device(self) -> torch.device:
        return self._device

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        values = self._of(x, coalitions.masks())
        return Estimate(
            values, torch.full_like(values, torch.nan) if self.spec.work.sampled else None
        )

    def _of(self, x: Tensor, mask: Tensor) -> Float[Tensor, "batch m outputs"]:
        of = self.function
        # Copies: a function that works in place must not change what the caller gave.
        rows = x.to(precision(of, x.dtype) if isinstance(of, nn.Module) else x.dtype, copy=True)
        with evaluated(of) if isinstance(of, nn.Module) else nullcontext():
            found = of(rows, mask.clone())
        values = check_returned("the value function", found)
        if values.ndim != 3 or values.shape[:2] != mask.shape[:2] or values.shape[2] == 0:
            count, m = mask.shape[:2]
            raise ValueError(
                f"Expected the value function to return shape ({count}, {m}, outputs) for {count} "
                f"rows with {m} coalitions each but got {tuple(values.shape)}; a single output is "
                "`values[..., None]`."
            )
        return values if values.is_floating_point() else values.float()

    def prediction(self, x: Tensor) -> Tensor:
        return self._of(x, torch.ones_like(self.owned(x))[:, None])[:, 0]

    def base(self, x: Tensor) -> Tensor:
        return self._of(x, ~self.owned(x)[:, None])[:, 0]


def as_value_function(
    value: Any,
    x: Any,
    players: Players | None = None,
    outputs: Sequence[str] | None = None,
    space: str | OutputSpace = "identity",
    cost: str = "model",
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
        outputs: names of a callable's outputs or, of other spaces than `identity`, of its classes;
            by default "0", "1", ...
        space: the output space that a callable's values are in: `identity` for plain numbers;
            figures name probabilities and log-ratios as such.
        cost: of a callable's value: `closed form` (microseconds), `network` or `model`
            (milliseconds); `auto_shapley` chooses by it.

    Warns where the values of a callable for a row depend on the other rows of the call.

    Raises:
        TypeError: `value` cannot be called, or does not return a tensor or an array.
        ValueError: values of another shape, or no distribution where they are to be probabilities.
    """
    if isinstance(value, ValueFunction):
        return value
    rows = to_tensor(x)
    players = players or Players.of_elements(rows.shape[1:], column_names(x))
    rows = check_rows(rows, players)
    space = as_space(space)
    wrapped = CallableValue(value, players, (), rows.device, space, cost)
    some = rows[[0, len(rows) // 2, -1]]
    # Everybody, nobody, and a coalition twice.
    mask = torch.zeros(4, len(players), dtype=torch.bool, device=rows.device)
    mask[0], mask[2:, : (len(players) + 1) // 2] = True, True

    def ask(some: Tensor, coalitions: Tensor) -> Tensor:
        keys = torch.zeros(len(some), len(coalitions), dtype=torch.int64)
        return wrapped.values(some, Listed(coalitions.expand(len(some), -1, -1), keys)).values

    with torch.no_grad():
        try:
            found = ask(some, mask)
        except (TypeError, NotImplementedError) as error:
            raise TypeError(
                "Expected a value function, or a callable from rows and a mask to values, but got "
                f"{type(value).__name__}: {error}. Of a model, `ms.imputed_value(model, imputer)` "
                "and `ms.fit_surrogate(model, x)` make one; that of an explainer is "
                "`explainer.value`. It comes first, then the rows."
            ) from error
        spread = found.amax((0, 1)) - found.amin((0, 1))
        rounding = 4 * torch.finfo(found.dtype).eps * found.abs().amax((0, 1))
        gap = (found[:, 2] - found[:, 3]).abs()
        # Draws that all coalitions of a call share differ between calls.
        sampled = bool((gap > 1e-3 * spread + rounding).any()) or differs_between_calls(
            "the value function",
            # Of everybody, values are known.
            lambda few: ask(few, mask[1:3]),
            some,
            found[:, 1:3],
            # It has rows on either side, where these are read as the steps of a series.
            parts=[slice(1, 2)],
        )
    if space.on_simplex:
        check_outputs(found.flatten(0, 1), "probabilities")
    # Log-ratios are one fewer than the classes that they compare.
    count = found.shape[-1] + space.takes_logarithms
    classes = tuple(map(str, range(count))) if outputs is None else tuple(outputs)
    if len(classes) != count:
        raise ValueError(
            f"Expected `outputs` to name the {count} outputs, or classes, of the value function "
            f"but got {classes}."
        )
    wrapped.update(
        outputs=space.outputs(classes),
        classes=() if space.regression else classes,
        work=replace(wrapped.spec.work, sampled=sampled),
    )
    return wrapped
