"""Imputes by multivariate normal conditionals, of the features or of their normal scores."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from manifold_shap.imputers.base import (
    LEAST_NESTED_PLAYERS,
    Completions,
    Imputer,
    Keys,
    Mask,
    NestedMask,
    Rows,
    RunKeys,
    nested_parts,
)
from manifold_shap.imputers.normal import REGULARISATION, ConditionalNormal, regularised_moments
from manifold_shap.players import Players


class _NormalImputer(Imputer):
    """Imputes scores of the rows that follow a multivariate normal distribution.

    Attributes:
        conditional: the distribution of the scores.
        ridge: λ if the covariance was regularised, otherwise 0.
    """

    conditional: ConditionalNormal
    ridge: float

    @abstractmethod
    def _scores(self, x: Float[Tensor, "batch elements"]) -> Float[Tensor, "batch elements"]:
        """Normal scores of rows."""

    @abstractmethod
    def _completions(
        self, x: Rows, mask: Mask, scores: Float[Tensor, "batch m draws elements"]
    ) -> Completions:
        """Completed rows with these scores."""

    @property
    def provenance(self) -> dict[str, Any]:
        return {"ridge": self.ridge}

    def impute(self, x: Rows, mask: Mask, draws: range, keys: Keys) -> Completions:
        """Complete each coalition from one joint draw per key and number, conditioned on x_S."""
        scores = self._scores(x.flatten(1))
        drawn = self.conditional.draw(scores, mask, self.players, draws, keys)
        return self._completions(x, mask, drawn)

    def impute_nested(
        self, x: Rows, mask: NestedMask, draws: range, keys: RunKeys, most: int
    ) -> Iterator[Completions]:
        """Complete nested coalitions by one factorisation for each run."""
        if len(self.players) < LEAST_NESTED_PLAYERS:
            yield from super().impute_nested(x, mask, draws, keys, most)
            return
        scores = self._scores(x.flatten(1))
        for some, own in nested_parts(mask, keys, most):
            drawn = self.conditional.draw_nested(scores, some, self.players, draws, own)
            yield self._completions(x, some.flatten(1, 2), drawn)


class GaussianImputer(_NormalImputer):
    """x'_{S̄} ~ N(μ_{S̄|S}, Σ_{S̄|S}), with the mean and covariance of the reference rows.

    Aas, Jullum & Løland (2021), Section 3.1; Carballo (2022), Eqs. 3.4.1-3.4.2. Elements are taken
    as continuous: draws of a binary or one-hot column are real numbers outside its support, which
    the model has to accept. A constant column is drawn at its constant.

    Args:
        reference: at least two rows of background data, `[rows, *event]`.
        players: who plays; by default every element of a row is a player.
        regularisation: λ, a ridge of λ times the variance of every column, added if the smallest
            eigenvalue of the correlations is below λ: collinear columns (one-hot columns sum to 1),
            or no more rows than columns. A warning says so, once. With few rows a larger λ (0.01,
            0.1) also reduces the variance of the regressions.

    Raises:
        TypeError, ValueError: `reference` is no tensor or array of at least two finite rows of the
            shape that `players` own; λ is negative, or too small to make the covariance positive
            definite.

    >>> imputer = GaussianImputer(torch.randn(100, 3))
    >>> x, mask = torch.zeros(1, 3), torch.tensor([[[True, False, True]]])
    >>> imputer.impute(x, mask, range(5), keys=torch.tensor([[0]])).rows.shape
    torch.Size([1, 1, 5, 3])
    """

    name = "gaussian"

    def __init__(
        self,
        reference: Any,
        players: Players | None = None,
        regularisation: float = REGULARISATION,
    ) -> None:
        super().__init__(reference, players)
        moments = regularised_moments(self.reference.flatten(1), regularisation)
        self.ridge = moments.ridge
        self.conditional = ConditionalNormal(moments.mean, moments.scale, moments.correlation)

    def _scores(self, x: Float[Tensor, "batch elements"]) -> Float[Tensor, "batch elements"]:
        return x

    def _completions(self, x: Tensor, mask: Tensor, scores: Tensor) -> Completions:
        return Completions(scores.unflatten(-1, self.players.event))


class CopulaImputer(_NormalImputer):
    """Normal conditionals of V_j = Φ⁻¹(F_j(X_j)), mapped back by F_j⁻¹: a Gaussian copula.

    Aas, Jullum & Løland (2021), Section 3.2; Carballo (2022), Section 3.4.2. F_j is the empirical
    distribution of column j in the N reference rows: (rank - 1/2) / N, with the mean rank for ties,
    and from 1/(2N) to 1 - 1/(2N) for values outside their range. V is standard normal with the
    correlations of the reference rows' normal scores, so that columns keep their marginal
    distributions under any coalition.

    Draws of a column whose values repeat, twice on average or more, are observed values (the
    inverse of F_j as a step function); others are interpolated linearly between the order
    statistics, and stay within their range. Between columns of few values the dependence is
    underestimated: their normal scores vary less than a normal variable.

    Args:
        reference: at least two rows of background data, `[rows, *event]`.
        players: who plays; by default every element of a row is a player.
        regularisation: as for `GaussianImputer`, of the correlations of V.

    Raises:
        TypeError, ValueError: as for `GaussianImputer`.

    >>> imputer = CopulaImputer(torch.randn(100, 3).exp())
    >>> x, mask = torch.ones(1, 3), torch.tensor([[[True, False, True]]])
    >>> bool((imputer.impute(x, mask, range(5), keys=torch.tensor([[0]])).rows > 0).all())
    True
    """

    name = "copula"
    order_statistics: Tensor
    stepwise: Tensor

    def __init__(
        self,
        reference: Any,
        players: Players | None = None,
        regularisation: float = REGULARISATION,
    ) -> None:
        super().__init__(reference, players)
        ordered = self.reference.flatten(1).mT.contiguous().sort(-1).values
        distinct = (ordered.diff(dim=-1) > 0).sum(-1) + 1
        self.register_buffer("order_statistics", ordered, persistent=False)
        self.register_buffer("stepwise", 2 * distinct <= ordered.shape[1], persistent=False)
        scores = self.normal_scores(self.reference.flatten(1))
        moments = regularised_moments(scores, regularisation)
        self.ridge = moments.ridge
        mean = torch.zeros_like(moments.mean)
        self.conditional = ConditionalNormal(mean, mean + 1, moments.correlation)

    def normal_scores(
        self, x: Float[Tensor, "batch elements"]
    ) -> Float64[Tensor, "batch elements"]:
        """Φ⁻¹(F_j(x_j))."""
        columns, rows = x.mT.contiguous(), len(self.reference)
        below = torch.searchsorted(self.order_statistics, columns)
        up_to = torch.searchsorted(self.order_statistics, columns, right=True)
        share = (below + up_to).double() / (2 * rows)
        return torch.special.ndtri(share.clamp(0.5 / rows, 1 - 0.5 / rows)).mT

    def quantiles(
        self, scores: Float[Tensor, "*shape elements"]
    ) -> Float[Tensor, "*shape elements"]:
        """F_j⁻¹(Φ(v_j))."""
        columns, rows = self.order_statistics.shape
        smooth = (~self.stepwise).to(scores.dtype)
        place = torch.special.ndtr(scores).mul_(rows).sub_(0.5 * smooth).clamp_(0, rows - 1)
        low = place.long()
        share = place.sub_(low).mul_(smooth)
        index = low.add_(torch.arange(0, columns * rows, rows, device=low.device))
        below = self.order_statistics.take(index)
        # The last row has a share of zero, whatever comes after it.
        above = self.order_statistics.take(index.add_(1).clamp_(max=columns * rows - 1))
        return torch.lerp(below, above, share.to(below.dtype))

    def _scores(self, x: Float[Tensor, "batch elements"]) -> Float[Tensor, "batch elements"]:
        return self.normal_scores(x).to(x.dtype)

    def _completions(self, x: Tensor, mask: Tensor, scores: Tensor) -> Completions:
        values = self.quantiles(scores).unflatten(-1, self.players.event)
        return Completions(self.splice(x, mask, values))
