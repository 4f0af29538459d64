"""A value function that averages a model over completed rows."""

import warnings
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap import noise
from manifold_shap.classifiers import Model
from manifold_shap.imputers.base import Imputer
from manifold_shap.outputs import Space
from manifold_shap.values.base import (
    Estimate,
    ValueFunction,
    keys_for,
    model_for,
    reference_outputs,
)

# Elements of completed rows that are held at a time: 256 MiB.
_MOST_ELEMENTS = 2**26

# Weighted draws warn below this mean effective sample size, (Σw)²/Σw².
LEAST_EFFECTIVE_DRAWS = 2


class ImputedValue(ValueFunction):
    """v(S) = mean over draws of T(f(x')), x' ~ p(x' | x_S) of an imputer (Frye et al. Eqs. 2-3).

    Draws are a function of the seed and of the keys of a call, so neither the order of calls nor
    their size changes a value. An estimator gives one key to the coalitions along an order: they
    share their draws, and their differences do not drown in noise.

    Args:
        imputer: see `Imputer`.
        model: see `as_model`.
        space: the output space T.
        base: v(∅).
        draws: completions per coalition, at most: where there are fewer different ones, as of a
            single baseline, each is taken once.
        seed: of the draws.
        name: as in the configuration; by default the imputer's.
    """

    # A call completes rows besides asking the model, so that fewer calls pay.
    batch_size = 65_536

    def __init__(
        self,
        imputer: Imputer,
        model: Model,
        space: Space,
        base: Tensor,
        draws: int,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        super().__init__(model, imputer.players, space, base)
        if draws < 1:
            raise ValueError(f"Expected `draws` of at least 1 but got {draws}.")
        self.imputer = imputer
        self.draws = min(draws, imputer.population or draws)
        self.seed = seed
        self.name = name or imputer.name
        self._warned = False

    @property
    def provenance(self) -> dict[str, Any]:
        mine = {"draws": self.draws, "draws_seed": self.seed}
        return {**super().provenance, **mine, **self.imputer.provenance}

    def to(self, device: torch.device | str) -> "ImputedValue":
        super().to(device)
        self.imputer.to(device)
        return self

    @torch.no_grad()
    def estimate(self, x: Any, mask: Tensor, keys: Tensor | None = None) -> Estimate:
        """Values, and what their draws leave open. Arguments as for a call.

        The variance is that of a weighted mean, Σ w²(t - v)² · K/(K-1), which is s²/K for equal
        weights, times the share of the population that was not drawn.
        """
        rows, mask = self._checked(x, mask)
        outputs, weights = self._drawn(rows, mask, keys_for(mask, keys))
        values = _mean(outputs, weights)
        share = self.imputer.undrawn(self.draws)
        variance = torch.full_like(values, torch.nan if share else 0.0)
        if share and self.draws > 1:
            deviation = (outputs - values[:, :, None]) * weights[..., None]
            variance = deviation.square().sum(2) * (share * self.draws / (self.draws - 1))
        effective = 1 / weights.square().sum(-1)
        return Estimate(self._anchored(rows, mask, values), variance, effective)

    def _values(self, x: Tensor, mask: Tensor, keys: Tensor) -> Tensor:
        return _mean(*self._drawn(x, mask, keys))

    def _drawn(
        self, x: Tensor, mask: Tensor, keys: Tensor
    ) -> tuple[Float[Tensor, "batch m draws outputs"], Float[Tensor, "batch m draws"]]:
        """Outputs of the completed rows, and normalised weights."""
        keys = noise.fold(keys, self.seed)
        # Completed rows are made and read a part at a time where all of them would not fit.
        width = mask.shape[0] * mask.shape[1] * self.players.index.numel()
        most = max(1, _MOST_ELEMENTS // width)
        outputs: list[Tensor] = []
        log_weights: list[Tensor] = []
        for first in range(0, self.draws, most):
            draws = range(first, min(first + most, self.draws))
            completed = self.imputer.impute(x, mask, draws, keys)
            predicted = self.space(self.model(completed.rows.flatten(0, 2)))
            outputs.append(predicted.unflatten(0, completed.rows.shape[:3]))
            if completed.log_weights is not None:
                log_weights.append(completed.log_weights)
        together = torch.cat(outputs, dim=2) if len(outputs) > 1 else outputs[0]
        if not log_weights:
            return together, together.new_full(together.shape[:3], 1 / self.draws)
        return together, self._weights(torch.cat(log_weights, dim=2))

    def _weights(self, log_weights: Float[Tensor, "batch m draws"]) -> Tensor:
        weights = log_weights.softmax(-1)
        effective = (1 / weights.square().sum(-1)).mean().item()
        if effective < min(self.draws, LEAST_EFFECTIVE_DRAWS) and not self._warned:
            self._warned = True
            warnings.warn(
                f"The weights of {self.name!r} collapse: of {self.draws} draws {effective:.2f} are "
                f"effective on average, fewer than {LEAST_EFFECTIVE_DRAWS}, so values rest on "
                "single draws. Temper the weights, widen the kernel, or give more draws.",
                stacklevel=2,
            )
        return weights


def _mean(
    outputs: Float[Tensor, "batch m draws outputs"], weights: Float[Tensor, "batch m draws"]
) -> Float[Tensor, "batch m outputs"]:
    return torch.einsum("bmdo,bmd->bmo", outputs, weights)


def imputed_value(
    model: Any,
    imputer: Imputer,
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
    return ImputedValue(imputer, wrapped, space, base, draws, seed, name)
