"""The Gaussian copula: a normal dependence between features of any marginal distributions."""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from manifold_shap.imputers.base import (
    LEAST_NESTED_PLAYERS,
    Completions,
    Imputer,
    nested_parts,
)
from manifold_shap.imputers.covariance import REGULARISATION, regularised_moments
from manifold_shap.imputers.gaussian import ConditionalNormal
from manifold_shap.players import Players


class CopulaImputer(Imputer):
    """Normal conditionals of V_j = Φ⁻¹(F_j(X_j)), mapped back by F_j⁻¹ (thesis, 3.4.2).

    F_j is the empirical distribution of column j in the N reference rows: (rank - 1/2) / N, with
    the mean rank where values tie, and from 1/(2N) to 1 - 1/(2N) for values outside of their range.
    V is standard normal with the correlations of the reference rows, so that the columns keep their
    distributions whatever is present.

    Draws of a column whose values repeat, twice on average or more, are observed values (the
    inverse of F_j as a step function); others are interpolated linearly between the order
    statistics, and stay within their range. Between columns of few values the dependence comes out
    weaker than it is: their normal scores vary less than a normal variable.

    Args:
        reference: at least two rows.
        players: who plays; by default every element of a row on its own.
        regularisation: as for `GaussianImputer`, of the correlations of V.

    Raises:
        TypeError, ValueError: as for `GaussianImputer`.
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

    @property
    def provenance(self) -> dict[str, Any]:
        return {"ridge": self.ridge}

    def impute(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        draws: range,
        keys: Int64[Tensor, "batch m"],
    ) -> Completions:
        """Complete each coalition by normal draws, given the normal scores of what is present."""
        scores = self.normal_scores(x.flatten(1)).to(x.dtype)
        drawn = self.conditional.draw(scores, mask, self.players, draws, keys)
        return self._back(x, mask, drawn)

    def impute_nested(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch runs run players"],
        draws: range,
        keys: Int64[Tensor, "batch runs"],
        most: int,
    ) -> Iterator[Completions]:
        """Complete nested coalitions by one factorisation for each run."""
        if len(self.players) < LEAST_NESTED_PLAYERS:
            yield from super().impute_nested(x, mask, draws, keys, most)
            return
        scores = self.normal_scores(x.flatten(1)).to(x.dtype)
        for some, own in nested_parts(mask, keys, most):
            drawn = self.conditional.draw_along(scores, some, self.players, draws, own)
            yield self._back(x, some.flatten(1, 2), drawn)

    def _back(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        drawn: Float[Tensor, "batch m draws elements"],
    ) -> Completions:
        values = self.quantiles(drawn).unflatten(-1, self.players.event)
        return Completions(self.splice(x, mask, values))

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
        # Of the last row the share is zero: it does not matter what comes after it.
        above = self.order_statistics.take(index.add_(1).clamp_(max=columns * rows - 1))
        return torch.lerp(below, above, share.to(below.dtype))
