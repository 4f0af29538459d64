"""True value functions, of data whose law is known: what learned ones are compared with.

v(S) = E[T(f(X)) | x_S] is a mean over exact draws or, where the table of all states is small, a sum
over the joint states of the absent players. The sums of all coalitions are made at once: T(f(x))
p(x), with its total appended along every axis, holds the numerator of every v(S), and p(x) the
denominators (the data cube of Gray et al. 1997).
"""

import math
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from manifold_shap._arrays import is_frame
from manifold_shap._checks import check_whole
from manifold_shap.coalitions import Coalitions
from manifold_shap.imputers.base import Completions, Imputer, Rows
from manifold_shap.oracles.base import ConditionalLaw, check_possible
from manifold_shap.spaces import OutputSpace, Probability
from manifold_shap.values import Estimate, ImputedValue, ModelValue, ValueFunction, imputed_value
from manifold_shap.values.spec import GameSpec, Work

# Numbers in the table of all sums: 128 MiB.
MOST_SUMS = 2**24
# Rows on which the model is checked.
_CHECKED_ROWS = 64
# Completions for which the model is asked at a time.
_AT_ONCE = 2**16


class OracleImputer(Imputer):
    """x'_{S̄} ~ p(x' | x_S) of a law that is known, by its exact draws.

    Its reference rows are drawn from the law; v(∅) is the mean over them.

    Attributes:
        law: see `ConditionalLaw`.

    Args:
        law: see `ConditionalLaw`.
        rows: how many reference rows.

    >>> from manifold_shap.oracles import GaussianMixture
    >>> imputer = OracleImputer(GaussianMixture.random(3), rows=100)
    >>> x, mask = torch.zeros(1, 3), torch.tensor([[[True, False, True]]])
    >>> from manifold_shap.coalitions import Listed
    >>> imputer.impute(x, Listed(mask, torch.tensor([[0]])), range(5)).rows.shape
    torch.Size([1, 1, 5, 3])

    Raises:
        TypeError, ValueError: `rows` is no whole number of at least 1.
    """

    name = "oracle"

    def __init__(self, law: ConditionalLaw, rows: int = 2**14) -> None:
        super().__init__(law.sample(rows).x, law.players)
        self.law = law

    @property
    def provenance(self) -> dict[str, Any]:
        return {"law": self.law.name}

    def impute(self, x: Rows, coalitions: Coalitions, draws: range) -> Completions:
        """Complete each coalition by exact draws; see `Imputer.impute`."""
        mask, keys = coalitions.masks(), coalitions.each_key()
        return Completions(self.law.draw(x, mask, draws, keys).x)


class TrueValue(ModelValue):
    """v(S) = E[T(f(X)) | x_S] under a law that is known; in double precision.

    `true_value` makes one. Values are exact for a law whose rows have few joint states, and means
    over `draws` exact draws for others; `estimate` gives their variance.

        >>> import manifold_shap as ms
        >>> law = ms.oracles.GaussianMixture([1.0], [[0.0, 0.0]], [[[1.0, 0.9], [0.9, 1.0]]])
        >>> truth = true_value(lambda x: x[:, :1], law, "identity", draws=10_000)
        >>> x, mask = torch.tensor([[0.0, 2.0]]), torch.tensor([[[False, True]]])
        >>> round(truth(x, mask).item(), 1)  # E[X0 | X1 = 2]
        1.8

    Attributes:
        law: see `ConditionalLaw`.
        base_error: standard error of v(∅), `[outputs]`; 0 where it is exact.

    Args:
        drawn: the mean over exact draws.
        law: see `ConditionalLaw`.
        most: numbers in the table of all sums, at most.
        base_rows: rows whose mean is v(∅), where it is not summed.
    """

    def __init__(
        self, drawn: ImputedValue, law: ConditionalLaw, most: int, base_rows: Tensor
    ) -> None:
        each = len(drawn.outputs) + 1
        sampled = not law.sizes or each * math.prod(n + 1 for n in law.sizes) > most
        work = replace(drawn.spec.work, sampled=True) if sampled else Work()
        mean = drawn.expectation.double()
        super().__init__(drawn.model, drawn.players, drawn.space, mean, name="truth", work=work)
        self.law, self._drawn, self._sums = law, drawn, None
        self.base_error = torch.zeros_like(self.expectation)
        if sampled:
            outputs = torch.cat([self.prediction(x) for x in base_rows.split(_AT_ONCE)])
            self.expectation = outputs.mean(0)
            self.base_error = outputs.std(0) / len(outputs) ** 0.5
        else:
            self._sums = self._all_sums()
            nobody = torch.zeros(1, 1, len(self.players), dtype=torch.bool)
            self.expectation = self._exact(base_rows[:1], nobody)[0, 0]

    @property
    def provenance(self) -> dict[str, Any]:
        work = self.spec.work
        drawn = {"draws": work.draws, "draws_seed": self._drawn.seed} if work.sampled else {}
        return {**super().provenance, "law": self.law.name, **drawn}

    def to(self, device: torch.device | str) -> "TrueValue":
        self._drawn.to(device)
        super().to(device)
        self.base_error = self.base_error.to(device)
        self._sums = None if self._sums is None else self._sums.to(device)
        return self

    def rows(self, x: Any, name: str = "x") -> Tensor:
        """Rows of the law, checked; a frame becomes what `law.frame` made it from."""
        return super().rows(self.law.rows(x) if is_frame(x) else x, name)

    def prediction(self, x: Tensor) -> Float64[Tensor, "batch outputs"]:
        """v(grand coalition) = T(f(x)), from the model itself."""
        return super().prediction(x).double()

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        """Sums, or means over draws."""
        if self._sums is None:
            return self._drawn.values(x, coalitions).map(Tensor.double, Tensor.double)
        return Estimate(self._exact(x, coalitions.masks()))

    def _exact(
        self, x: Tensor, mask: Bool[Tensor, "batch m players"]
    ) -> Float64[Tensor, "batch m outputs"]:
        """Σ T(f(x')) p(x' | x_S) over the joint states of the absent players."""
        assert self._sums is not None
        # The state after the last one is the total.
        states = torch.where(mask, x[:, None].long(), torch.tensor(self.law.sizes, device=x.device))
        total = self._sums[tuple(states.unbind(-1))]
        check_possible((total[..., -1] > 0).flatten())
        return total[..., :-1] / total[..., -1:]

    def _all_sums(self) -> Float64[Tensor, "..."]:
        """Sums of T(f(x)) p(x), and of p(x); the model is not asked for what never occurs."""
        sizes = self.law.sizes or ()
        grid = torch.cartesian_prod(*(torch.arange(n) for n in sizes)).view(-1, len(sizes))
        parts = []
        for x in grid.float().to(self.device).split(_AT_ONCE):
            weight = self.law.probability(x)[:, None]
            found = torch.cat((weight.new_zeros(len(x), len(self.outputs)), weight), 1)
            there = weight[:, 0] > 0
            if bool(there.any()):
                found[there, :-1] = self.prediction(x[there]) * weight[there]
            parts.append(found)
        sums = torch.cat(parts).unflatten(0, sizes)
        for axis in range(len(sizes)):
            sums = torch.cat((sums, sums.sum(axis, keepdim=True)), axis)
        return sums


def true_value(
    model: Any,
    law: ConditionalLaw,
    space: str | OutputSpace = "probability",
    *,
    draws: int = 256,
    most: int = MOST_SUMS,
    rows: int = 2**16,
    seed: int = 0,
) -> TrueValue:
    """The true value function of a model, on data whose law is known.

        >>> from manifold_shap.oracles import GaussianMixture
        >>> law = GaussianMixture([1.0], [[0.0, 0.0]], [[[1.0, 0.8], [0.8, 1.0]]])
        >>> value = true_value(lambda x: x.sum(1, keepdim=True), law, "identity", draws=10_000)
        >>> v = value(torch.tensor([[1.0, 0.0]]), torch.tensor([[[True, False]]]))
        >>> abs(v.item() - 1.8) < 0.05
        True

    Args:
        model: see `as_model`, of the law's rows.
        law: see `ConditionalLaw`.
        space: output space: a name in `spaces.SPACES`, or an `OutputSpace`.
        draws: of a coalition, where values are not sums.
        most: numbers in the table of all sums, at most; with more, values are means over draws.
        rows: drawn for v(∅), where it is not exact.
        seed: of the draws.

    Raises:
        TypeError: a number is no whole one.
        ValueError: the model gives no distribution, or a number below 1.
    """
    check_whole("most", most)
    drawn = imputed_value(model, OracleImputer(law, _CHECKED_ROWS), space, draws, seed)
    return TrueValue(drawn, law, most, law.sample(rows, seed).x)


class PosteriorValue(ValueFunction):
    """v(S) = P(Y = y | x_S), the label's own distribution given the present players, exactly.

    It is the true value function of the model f(x) = P(y | x), the best there is, and needs neither
    sums over states nor draws.

        >>> from manifold_shap.oracles import GaussianMixture
        >>> law = GaussianMixture([0.5, 0.5], [[0.0, 0.0], [2.0, 2.0]], [torch.eye(2)] * 2)
        >>> value = PosteriorValue(law)
        >>> value(torch.tensor([[1.0, 2.0]]), torch.tensor([[[True, False]]]))
        tensor([[[0.5000, 0.5000]]], dtype=torch.float64)

    Args:
        law: see `ConditionalLaw`.
    """

    def __init__(self, law: ConditionalLaw) -> None:
        self.law, work, classes = law, Work(cost="closed form"), tuple(law.classes)
        super().__init__(GameSpec(law.players, classes, Probability(), classes, "posterior", work))

    @property
    def device(self) -> torch.device:
        return self.law.device

    @property
    def provenance(self) -> dict[str, Any]:
        return {**super().provenance, "law": self.law.name}

    def to(self, device: torch.device | str) -> "PosteriorValue":
        self.law.to(device)
        return self

    def rows(self, x: Any, name: str = "x") -> Tensor:
        """Rows of the law, checked; a frame becomes what `law.frame` made it from."""
        return super().rows(self.law.rows(x) if is_frame(x) else x, name)

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        return Estimate(self.law.posterior(x, coalitions.masks()))

    def prediction(self, x: Tensor) -> Tensor:
        return self._ends(x, everybody=True)

    def base(self, x: Tensor) -> Tensor:
        return self._ends(x, everybody=False)

    def _ends(self, x: Tensor, everybody: bool) -> Float64[Tensor, "batch outputs"]:
        shape = (len(x), 1, len(self.players))
        return self.law.posterior(x, torch.full(shape, everybody, device=x.device))[:, 0]
