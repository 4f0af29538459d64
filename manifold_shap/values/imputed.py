"""Averages a model over completed rows: the value function of an imputer."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._checks import check_seed, check_whole
from manifold_shap._messages import warn
from manifold_shap._saved import saved
from manifold_shap.coalitions import Coalitions, Listed, is_proper
from manifold_shap.imputers.base import Completions, Imputer
from manifold_shap.models import Model
from manifold_shap.spaces import OutputSpace, as_space
from manifold_shap.tables.rows import elements_of, encoded
from manifold_shap.values.base import Estimate, put_together
from manifold_shap.values.model import (
    ModelValue,
    model_for,
    reference_outputs,
    reference_space,
    table_behind,
)
from manifold_shap.values.spec import TrainingRange, Work

# Elements of completed rows that are held at a time: 64 MiB.
_MOST_ELEMENTS = 2**24

# A call completes rows besides asking the model, so that fewer calls pay.
_BATCH_SIZE = 65_536

# Rows that are saved, to recognise the model by.
_PROBE_ROWS = 32

# New rows that are drawn at a time.
_ROWS_DRAWN = 8192

# At least so many stand behind v(∅) of a row, whose error is in all its values and in none of ±.
_BASE_DRAWS = 256

# Weighted samples warn below this mean effective sample size, (Σw)²/Σw²: about one draw counts.
LEAST_EFFECTIVE_DRAWS = 2.0

# The same for equally weighted draws from weighted codes. With most features present one code is
# rightly all there is, so that only a mean near 1 over coalitions of all sizes is a collapse.
LEAST_EFFECTIVE_CODES = 1.2

# Coalitions evaluated before a mean over codes is judged.
_LEAST_JUDGED = 64


@saved
class ImputedValue(ModelValue):
    """v(S) = mean over draws of T(f(x')), x' ~ p(x' | x_S) of an imputer (Frye et al. Eqs. 2-3).

    Draws are a function of the seed and of the keys of a call, so neither the order of calls nor
    their size changes a value. An estimator gives one key to the coalitions along an order: these
    common random numbers keep the noise of the draws out of marginal contributions.

        >>> from manifold_shap.imputers import MarginalImputer
        >>> imputer = MarginalImputer(torch.tensor([[0.0, 0.0], [1.0, 3.0]]))
        >>> value = imputed_value(lambda x: x.sum(1, keepdim=True), imputer, "identity", draws=8)
        >>> value.draws_requested, value.draws, value.expectation
        (8, 2, tensor([2.]))

    Attributes:
        draws: completions per coalition: those asked for or, where the imputer has fewer distinct
            ones (a single baseline, say), each of these once.
        draws_requested: completions per coalition that were asked for.

    Args:
        imputer: see `Imputer`.
        model: see `as_model`.
        space: the output space T.
        expectation: mean of T(f(X)) over the reference rows.
        draws: completions per coalition, at most.
        seed: of the draws.
        name: as in the configuration; by default the imputer's.
    """

    def __init__(
        self,
        imputer: Imputer,
        model: Model,
        space: OutputSpace,
        expectation: Tensor,
        draws: int,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        self.imputer, self.seed = imputer, check_seed(seed)
        self.draws_requested = check_whole("draws", draws)
        self.draws = draws = min(self.draws_requested, imputer.distinct_draws or draws)
        table = imputer.table or table_behind(model)
        # Numbers that are held for each completed row.
        self._elements = elements_of(imputer.players, imputer.table).index.numel()
        super().__init__(
            model,
            imputer.players,
            space,
            expectation,
            name=name or imputer.name,
            work=Work(
                draws,
                sampled=imputer.unsampled_fraction(draws) > 0,
                batch_size=max(1, min(_BATCH_SIZE, _MOST_ELEMENTS // self._elements)),
            ),
            table=table,
            learned=imputer.learned,
            training_range=TrainingRange.of(encoded(imputer.reference, table)),
        )
        self._warned = False
        self._effective, self._judged = 0.0, 0

    @property
    def provenance(self) -> dict[str, Any]:
        mine = {"draws": self.draws, "draws_seed": self.seed}
        return {**super().provenance, **mine, **self.imputer.provenance}

    kind = "imputed value"

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        rows = self.imputer.reference
        count = min(_PROBE_ROWS, len(rows))
        probe = rows[torch.arange(count) * len(rows) // count]
        tensors = {"expectation": self.expectation, "probe": probe}
        plain = {**self._made_of(), "space": self.space.settings, "quality": self.spec.quality}
        del plain["expectation"]
        return plain, {**tensors, "outputs": self.prediction(probe)}

    @classmethod
    def restored(
        cls, settings: dict[str, Any], tensors: dict[str, Tensor], _: Any
    ) -> "ImputedValue":
        quality = settings.pop("quality")
        settings["space"] = as_space(**settings["space"])
        value = cls(**settings, expectation=tensors["expectation"])
        value.check_model(tensors["probe"], tensors["outputs"])
        value.update(quality=quality)
        return value

    def to(self, device: torch.device | str) -> "ImputedValue":
        super().to(device)
        self.imputer.to(device)
        return self

    def base(self, x: Tensor) -> Float[Tensor, "batch outputs"]:
        """v(empty coalition): the mean over the reference rows, or over completions of each row."""
        if not self.imputer.base_by_row:
            return super().base(x)
        none = torch.zeros(1, 1, len(self.players), dtype=torch.bool, device=x.device)
        keys = torch.zeros(1, 1, dtype=torch.int64, device=x.device)
        several = Listed(none.expand(len(x), 1, -1), keys.expand(len(x), 1))
        precise = self.with_draws(max(self.draws_requested, _BASE_DRAWS))
        return precise.values(x, several).values[:, 0]

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        """Means over draws, with the variance that these leave.

        It is that of a weighted mean by the jackknife, Σ (w/(1-w))² (1-p) (t-v)² · (K-1)/K, with p
        the probability that a distinct draw is among the K: s²/K for independent draws of equal
        weight, of which there are infinitely many, s²/K · (1 - K/N) for K of N rows, and nothing
        for donors that are always drawn. For equally weighted draws from weighted codes the
        effective draws are those of the codes, K at most.
        """
        coalitions = coalitions.folded(self.seed)
        rows = max(1, _MOST_ELEMENTS // self._elements)
        firsts = range(0, self.draws, rows)
        draws = [range(first, min(first + rows, self.draws)) for first in firsts]
        pieces = [*coalitions.split(max(1, rows // self.draws))]
        means = [self._mean(x[piece.rows], piece.coalitions, draws) for piece in pieces]
        return put_together(pieces, means, coalitions.shape)

    def _mean(self, x: Tensor, coalitions: Coalitions, draws: Sequence[range]) -> Estimate:
        """The weighted mean over draws, which are completed in parts."""
        parts, log_weights = [], []
        for some in draws:
            completed = self.imputer.impute(x, coalitions, some)
            expected = (*coalitions.shape, len(some), *x.shape[1:])
            if tuple(completed.rows.shape) != expected:
                raise ValueError(
                    f"Expected {type(self.imputer).__name__} to complete rows of shape {expected}, "
                    f"rows by coalitions by draws, but got {tuple(completed.rows.shape)}."
                )
            parts.append(self._outputs(completed.rows))
            if completed.log_weights is not None:
                log_weights.append(completed.log_weights)
        outputs = torch.cat(parts, dim=2) if len(parts) > 1 else parts[0]
        if log_weights:
            completed = completed._replace(log_weights=torch.cat(log_weights, dim=2))
        weights, effective, left = self._weights(outputs, completed, coalitions)
        values = torch.einsum("bmdo,bmd->bmo", outputs, weights.to(outputs.dtype))

        def variance() -> Tensor:
            # How far the mean moves without one of the draws; a single weight may round to 1.
            share = weights / (1 - weights).clamp(min=1e-6)
            moved = (outputs - values[:, :, None]) * share[..., None]
            scale = 1 - 1 / self.draws if self.draws > 1 else torch.nan
            found = (moved.square() * left[..., None]).sum(2) * scale
            known = (weights * left == 0).all(2, keepdim=True)
            return found.masked_fill(known, 0)

        return Estimate(values, variance if self.spec.work.sampled else None, effective)

    def fitted(self, space: OutputSpace) -> OutputSpace:
        return reference_space(self.model, space, self.imputer.reference)

    def with_draws(self, draws: int) -> "ImputedValue":
        return self.replaced(draws=draws)

    def replaced(self, **changes: Any) -> "ImputedValue":
        """The same value function with another imputer, or more draws: arguments of the class."""
        return ImputedValue(**(self._made_of() | changes))

    def _made_of(self) -> dict[str, Any]:
        return {
            "imputer": self.imputer,
            "model": self.model,
            "space": self.space,
            "expectation": self.expectation,
            "draws": self.draws_requested,
            "seed": self.seed,
            "name": self.name,
        }

    def draw_rows(self, count: int, seed: int) -> Float[Tensor, "count *event"]:
        """Completions of the empty coalition: new rows, as the imputer has them distributed."""
        x = self.imputer.reference[:1]
        none = torch.zeros(1, 1, len(self.players), dtype=torch.bool, device=x.device)
        some = Listed(none, torch.full((1, 1), seed, device=x.device))
        numbers = range(0, count, _ROWS_DRAWN)
        draws = [range(first, min(first + _ROWS_DRAWN, count)) for first in numbers]
        return torch.cat([self.imputer.sample(x, some, numbers)[0, 0] for numbers in draws])

    def _outputs(
        self, rows: Float[Tensor, "batch m draws *event"]
    ) -> Float[Tensor, "batch m draws outputs"]:
        outputs = self.space(self.model(rows.flatten(0, 2), scale=self.space.takes))
        return outputs.unflatten(0, rows.shape[:3])

    def _weights(
        self,
        outputs: Float[Tensor, "batch m draws outputs"],
        completed: Completions,
        coalitions: Coalitions,
    ) -> tuple[
        Float[Tensor, "batch m draws"], Float[Tensor, "batch m"], Float[Tensor, "batch m draws"]
    ]:
        """Normalised weights, their effective number, and the probabilities to be left out.

        Warns of a collapse.
        """
        effective = completed.effective_draws
        left = outputs.new_full(outputs.shape[:3], self.imputer.unsampled_fraction(self.draws))
        if completed.log_weights is not None:
            # In the precision of the outputs: that sums to one as closely as these are known.
            own = completed.log_weights.to(outputs.dtype)
            if completed.threshold is not None:
                # Finite, so that a weight of zero is not compared with another.
                least = completed.threshold.to(outputs.dtype)
                least = least.clamp(min=torch.finfo(own.dtype).min)[..., None]
                left, own = 1 - (own - least).exp().clamp(max=1), own.maximum(least)
            weights = own.softmax(-1)
            effective = 1 / weights.square().sum(-1)
            # Weights of donors are the conditional distribution itself.
            if completed.threshold is None:
                self._watch(effective, coalitions, LEAST_EFFECTIVE_DRAWS, 1)
            return weights, effective, left
        weights = outputs.new_full(outputs.shape[:3], 1 / self.draws)
        if effective is None:
            return weights, outputs.new_full(outputs.shape[:2], self.draws), left
        self._watch(effective, coalitions, LEAST_EFFECTIVE_CODES, _LEAST_JUDGED)
        return weights, effective.clamp(max=self.draws), left

    def _watch(
        self,
        effective: Float[Tensor, "batch m"],
        coalitions: Coalitions,
        least: float,
        least_judged: int,
    ) -> None:
        """Warn once where the weights of the coalitions so far collapse, on average."""
        if self._warned or self.draws == 1:
            return
        proper = is_proper(coalitions.masks())
        # Over all calls: one alone may hold but a few coalitions, as the batch size has it.
        self._effective += effective[proper].double().sum().item()
        self._judged += int(proper.sum())
        mean = self._effective / max(1, self._judged)
        if self._judged < least_judged or mean >= least:
            return
        self._warned = True
        warn(
            f"The weights of {self.name!r} collapse: {mean:.2f} are effective on average over "
            f"{self._judged} coalitions, fewer than {least:g}, so values rest on single draws. "
            "Temper the weights (a `temper` below 1), or give more draws or codes.",
        )


def imputed_value(
    model: Any,
    imputer: Any,
    space: str | OutputSpace = "probability",
    draws: int = 64,
    seed: int = 0,
    name: str | None = None,
) -> ImputedValue:
    """A value function from an imputer and a model.

    It warns once, with the figure, where the weights of the draws collapse on average over the
    coalitions so far: below `LEAST_EFFECTIVE_DRAWS` = 2 effective draws for weighted samples (an
    encoder with importance weights), below `LEAST_EFFECTIVE_CODES` = 1.2 codes for equally weighted
    draws from weighted codes (a bank). Weighted donors that are all used are no sample, and may be
    single. `estimate` and `mean_squared_error` report the number.

        >>> from manifold_shap.imputers import MarginalImputer
        >>> x = torch.tensor([[0.0, 0.0], [1.0, 3.0]])
        >>> value = imputed_value(lambda x: x @ torch.ones(2, 1), MarginalImputer(x), "identity")
        >>> value.draws, value(x[1:], torch.tensor([[[True, False]]]))
        (2, tensor([[[2.5000]]]))

    Args:
        model: see `as_model`. It gets rows of whole numbers from an imputer of tokens, and of
            floats from any other or, where it fails on these, the whole numbers that the imputer
            was given and draws from. With an imputer that computes fractions, a model that needs
            whole numbers is wrapped before, by `as_model(model, x)` with an array or a tensor `x`
            of these.
        imputer: e.g. `MarginalImputer(x_train)`; its reference rows give v(∅).
        space: output space: a name in `spaces.SPACES`, or an `OutputSpace`.
        draws: completions per coalition, at least 1; where the imputer has fewer distinct ones,
            each of these once.
        seed: of the draws.
        name: for the provenance of explanations; by default the imputer's.

    Raises:
        TypeError: `imputer` is not an imputer, or `draws` not a whole number.
        ValueError: the model gives no distribution, or an argument is out of range.
    """
    if not isinstance(imputer, Imputer):
        raise TypeError(
            f"Expected `imputer` to be an imputer but got {type(imputer).__name__}; the model "
            "comes first, then for example `ms.imputers.MarginalImputer(x)`."
        )
    space = as_space(space)
    rows = imputer.reference
    try:
        wrapped = model_for(model, rows.to(imputer.dtype or rows.dtype), space, imputer.table)
    except RuntimeError:
        # The model gets floats unless it needs whole numbers, and draws are such.
        if not imputer.copies or not torch.equal(rows, rows.round()):
            raise
        wrapped = model_for(model, rows.to(imputer.given or torch.int64), space, imputer.table)
    space = reference_space(wrapped, space, rows)
    expectation = reference_outputs(wrapped, space, rows).mean(0)
    return ImputedValue(imputer, wrapped, space, expectation, draws, seed, name)
