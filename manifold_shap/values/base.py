"""Value functions v(S) = E[T(f(X)) | x_S], with exact values for nobody and for everybody."""

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap._checks import check_pairs, check_rows
from manifold_shap.models import Model, as_model, check_numbers, warn_of_zeros
from manifold_shap.players import Players
from manifold_shap.spaces import Space


def reference_outputs(model: Model, space: Space, x: Tensor, batch_size: int = 8192) -> Tensor:
    """T(f(x)) of reference rows `[rows, outputs]`, after a check that f gives distributions.

    Warns once, with their number, where a log-ratio space has to replace exact zeros.

    Raises:
        ValueError: no row, no distribution, or an output that is NaN or infinite.
    """
    if model.returns == "values" and space.name != "identity":
        raise ValueError(
            f"Expected a model of class probabilities for output={space.name!r} but this one gives "
            "plain values (returns='values'); use output='identity'."
        )
    if len(x) == 0:
        raise ValueError("Expected at least one reference row but got none.")
    model.check(x[:batch_size])
    predictions = torch.cat([model(rows) for rows in x.split(batch_size)])
    if space.takes_logarithms:
        warn_of_zeros(predictions, space.zero_replacement / predictions.shape[-1])
    outputs = space(predictions)
    check_numbers(outputs)
    return outputs


def model_for(model: Any, x: Tensor, output: str) -> Model:
    """`as_model`, with `identity` read as regression: the model's own outputs."""
    returns = "values" if output == "identity" and not isinstance(model, Model) else None
    return as_model(model, x[:64], returns=returns)


class Estimate(NamedTuple):
    """Values, and how well the draws behind them pin them down.

    Attributes:
        values: `[batch, m, outputs]`.
        variance: left in the values by the finite number of draws, `[batch, m, outputs]`; NaN for
            one draw, 0 where nothing is drawn.
        effective_draws: (Σw)²/Σw² of the draws' weights or, where it is less, of the weights that
            they are drawn by, `[batch, m]`.
    """

    values: Tensor
    variance: Tensor
    effective_draws: Tensor


class ValueFunction(ABC):
    """A game over the players for every row: `value(x, mask)`.

    Attributes:
        players: who plays, and how a mask over players expands to an input row.
        outputs: names of the outputs of T.
        space: the output space T.
        base: v(∅), the mean of T(f(X)) over the reference rows, `[outputs]`.
        draws: model rows spent on one value.
        batch_size: model rows per call that suit it; None where only the device matters.
        noisy: whether another seed of its draws would give other values.
        walks: whether it has `values_along`: those of the coalitions that grow along an order, for
            less than one by one.
        surrounds: whether it has `values_around`: those of a coalition with each of the players
            toggled, for less than one by one.
        linearizes: whether it has these approximately, too, for `linearized_cost`.
        linearized_cost: in values, one by one; about so.
        name: as in the configuration and in the provenance of an explanation.
    """

    name: str
    draws: int = 1
    batch_size: int | None = None
    noisy: bool = False
    walks: bool = False
    surrounds: bool = False
    linearizes: bool = False
    linearized_cost: float = math.inf

    def __init__(self, model: Model, players: Players, space: Space, base: Tensor) -> None:
        self.model = model
        self.players = players
        self.space = space
        self.outputs = space.outputs(model.classes)
        self.base = base

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the model's classes."""
        return self.model.classes

    @property
    def device(self) -> torch.device:
        """Where values are computed."""
        return self.base.device

    def to(self, device: torch.device | str) -> "ValueFunction":
        """Move the value function, its model included."""
        self.base = self.base.to(device)
        self.model.to(device)
        return self

    @property
    def provenance(self) -> dict[str, Any]:
        """What an explanation records of it: plain numbers and strings."""
        return {"value_function": self.name}

    def prediction(self, x: Any) -> Float[Tensor, "batch outputs"]:
        """v(N) = T(f(x)), from the model itself.

        Raises:
            TypeError, ValueError: `x` is no batch of finite rows, or the model is not finite there.
        """
        return self._prediction(check_rows(x, self.players).to(self.device))

    @torch.no_grad()
    def __call__(
        self, x: Any, mask: Tensor, keys: Tensor | None = None
    ) -> Float[Tensor, "batch m outputs"]:
        """Values of m coalitions per row.

        Args:
            x: rows `[batch, *event]`.
            mask: bool `[batch, m, players]`, `True` = in the coalition.
            keys: int64 `[batch, m]`; coalitions with equal keys share the random numbers of a
                sampled value function. By default all of them do.

        Raises:
            TypeError, ValueError: `x` or `mask` of another type or shape, or not finite.
        """
        rows, mask = self._checked(x, mask)
        return self._anchored(rows, mask, self._values(rows, mask, keys_for(mask, keys)))

    @torch.no_grad()
    def estimate(self, x: Any, mask: Tensor, keys: Tensor | None = None) -> Estimate:
        """Values, and what their draws leave open. Arguments as for a call."""
        values = self(x, mask, keys)
        draws = values.new_full(values.shape[:2], self.draws)
        return Estimate(values, torch.zeros_like(values), draws)

    def _checked(self, x: Any, mask: Tensor) -> tuple[Tensor, Tensor]:
        rows, mask = check_pairs(x, mask, self.players)
        return rows.to(self.device), mask.to(self.device)

    def _prediction(self, rows: Tensor) -> Tensor:
        outputs = self.space(self.model(rows))
        check_numbers(outputs)
        return outputs

    @torch.no_grad()
    def proper_values(
        self, x: Tensor, mask: Tensor, keys: Tensor
    ) -> Float[Tensor, "batch m outputs"]:
        """A call without its checks, for coalitions known to be neither empty nor full.

        The inner loop of an estimator, which has checked its rows and knows the anchors.
        """
        return self._values(x, mask, keys)

    def _anchored(self, x: Tensor, mask: Tensor, values: Tensor) -> Tensor:
        # On bytes these are vectorised; `any` and `all` take sixty times as long on a CPU.
        present = mask.view(torch.uint8)
        somebody, everybody = present.amax(-1).bool(), present.amin(-1).bool()
        values = torch.where(somebody[..., None], values, self.base)
        if bool(everybody.any()):
            prediction = self._prediction(x)
            values = torch.where(everybody[..., None], prediction[:, None], values)
        return values

    @abstractmethod
    def _values(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        keys: Int64[Tensor, "batch m"],
    ) -> Float[Tensor, "batch m outputs"]: ...


def keys_for(mask: Tensor, keys: Tensor | None) -> Int64[Tensor, "batch m"]:
    if keys is None:
        return torch.zeros(mask.shape[:2], dtype=torch.int64, device=mask.device)
    if keys.dtype != torch.int64 or keys.shape != mask.shape[:2]:
        raise ValueError(
            f"Expected `keys` to be int64 of shape {tuple(mask.shape[:2])}, one per coalition, but "
            f"got {keys.dtype} of shape {tuple(keys.shape)}."
        )
    return keys.to(mask.device)
