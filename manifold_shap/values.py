"""Value functions v(S) = E[T(f(X)) | x_S], with exact values for nobody and for everybody."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from manifold_shap.checkpoints import save_checkpoint
from manifold_shap.classifiers import Model, as_model, check_numbers, warn_of_zeros
from manifold_shap.coalitions import Players
from manifold_shap.outputs import Space
from manifold_shap.rows import check_pairs, check_rows
from manifold_shap.schema import Schema


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


class ValueFunction(ABC):
    """A game over the players for every row: `value(x, mask)`.

    Attributes:
        players: who plays, and how a mask over players expands to an input row.
        outputs: names of the outputs of T.
        space: the output space T.
        base: v(∅), the mean of T(f(X)) over the reference rows, `[outputs]`.
        draws: model rows spent on one value.
        name: as in the configuration and in the provenance of an explanation.
    """

    name: str
    draws: int = 1

    def __init__(self, model: Model, players: Players, space: Space, base: Tensor) -> None:
        self.model = model
        self.players = players
        self.space = space
        self.outputs = space.outputs(model.classes)
        self.base = base

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
    def __call__(self, x: Any, mask: Tensor) -> Float[Tensor, "batch m outputs"]:
        """Values of m coalitions per row.

        Args:
            x: rows `[batch, *event]`.
            mask: bool `[batch, m, players]`, `True` = in the coalition.

        Raises:
            TypeError, ValueError: `x` or `mask` of another type or shape, or not finite.
        """
        rows, mask = self._checked(x, mask)
        return self._anchored(rows, mask, self._values(rows, mask))

    def _checked(self, x: Any, mask: Tensor) -> tuple[Tensor, Tensor]:
        rows, mask = check_pairs(x, mask, self.players)
        return rows.to(self.device), mask.to(self.device)

    def _prediction(self, rows: Tensor) -> Tensor:
        outputs = self.space(self.model(rows))
        check_numbers(outputs)
        return outputs

    @torch.no_grad()
    def proper_values(self, x: Tensor, mask: Tensor) -> Float[Tensor, "batch m outputs"]:
        """A call without its checks, for coalitions known to be neither empty nor full.

        The inner loop of an estimator, which has checked its rows and knows the anchors.
        """
        return self._values(x, mask)

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
        self, x: Float[Tensor, "batch *event"], mask: Bool[Tensor, "batch m players"]
    ) -> Float[Tensor, "batch m outputs"]: ...


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
        surrogate: nn.Module,
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

    def _values(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.surrogate(x, mask)


class ImputedValue(ValueFunction):
    """v(S) = mean over draws of T(f(x')), x' ~ p(x' | x_S) of an imputer (Frye et al. Eqs. 2-3).

    The draws come from one seed, afresh for every call: coalitions share them (common random
    numbers), and neither the order of calls nor their size changes a value.

    Args:
        imputer: gives `impute(x, mask, draws, generator)` of shape `[batch, m, draws, *event]`,
            and `undrawn(draws)`: 0 where the draws are all there is, 1 for fresh samples.
        draws: completions per coalition.
        seed: of the draws.
        name: as in the configuration.
    """

    def __init__(
        self,
        imputer: Any,
        model: Model,
        space: Space,
        base: Tensor,
        draws: int,
        seed: int = 0,
        name: str = "imputed",
    ) -> None:
        super().__init__(model, imputer.players, space, base)
        if draws < 1:
            raise ValueError(f"Expected `draws` of at least 1 but got {draws}.")
        self.imputer = imputer
        self.draws = draws
        self.seed = seed
        self.name = name

    @property
    def provenance(self) -> dict[str, Any]:
        return {**super().provenance, "draws": self.draws, "draws_seed": self.seed}

    def to(self, device: torch.device | str) -> "ImputedValue":
        super().to(device)
        self.imputer.to(device)
        return self

    @torch.no_grad()
    def estimate(self, x: Any, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Values, and the variance that the finite number of draws leaves in them.

        Both `[batch, m, outputs]`. The variance is s²/K, times the share of the population that
        was not drawn, and NaN for one draw. Arguments as for a call.
        """
        rows, mask = self._checked(x, mask)
        draws = self._drawn(rows, mask)
        mean = draws.mean(2)
        variance = torch.full_like(mean, torch.nan)
        if self.draws > 1:
            variance = draws.var(2) / self.draws * self.imputer.undrawn(self.draws)
        return self._anchored(rows, mask, mean), variance

    def _values(self, x: Tensor, mask: Tensor) -> Tensor:
        return self._drawn(x, mask).mean(2)

    def _drawn(self, x: Tensor, mask: Tensor) -> Float[Tensor, "batch m draws outputs"]:
        generator = torch.Generator().manual_seed(self.seed)
        completed = self.imputer.impute(x, mask, self.draws, generator)
        outputs = self.space(self.model(completed.flatten(0, 2)))
        return outputs.unflatten(0, completed.shape[:3])


def imputed_value(
    model: Any,
    imputer: Any,
    output: str | Space = "probability",
    draws: int = 64,
    seed: int = 0,
    name: str | None = None,
) -> ImputedValue:
    """A value function from an imputer and a model.

    Args:
        model: see `as_model`.
        imputer: e.g. `MarginalImputer(x_train)`; its reference rows give v(∅).
        output: output space, one of `outputs.SPACES`, or a `Space` with its own replacement of
            zeros.
        draws: completions per coalition.
        seed: of the draws.
        name: for the provenance of explanations; by default the imputer's.

    Raises:
        TypeError, ValueError: the model gives no distribution, or an argument is out of range.
    """
    space = output if isinstance(output, Space) else Space(output)
    wrapped = model_for(model, imputer.reference, space.name)
    base = reference_outputs(wrapped, space, imputer.reference).mean(0)
    return ImputedValue(imputer, wrapped, space, base, draws, seed, name or imputer.name)


def model_for(model: Any, x: Tensor, output: str) -> Model:
    """`as_model`, with `identity` read as regression: the model's own outputs."""
    returns = "values" if output == "identity" and not isinstance(model, Model) else None
    return as_model(model, x[:64], returns=returns)
