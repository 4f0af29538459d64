"""Fits a multivariate normal distribution to rows, and draws from its conditionals.

One joint draw per key serves every coalition: x' = x⁰ + Σ_{·S} Σ_SS⁻¹ (x_S - x⁰_S) with
x⁰ ~ N(μ, Σ) has the conditional law (Matheron's rule; Journel 1974). Draws therefore change as
little as possible while a coalition grows, and only the regression depends on the coalition.

For nested coalitions one factorisation replaces all of their regressions. Let L L' = Σ with the
elements in the order in which they join, z = L⁻¹ (x - μ) and z⁰ = L⁻¹ (x⁰ - μ): the innovation of
each element given those before it. Then x' = μ + L (z_S, z⁰_{S̄}) for every coalition of the run.
"""

import warnings
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

from manifold_shap import _random
from manifold_shap._checks import check_number
from manifold_shap.coalitions import distinct_coalitions
from manifold_shap.imputers.base import (
    Keys,
    Mask,
    NestedMask,
    RunKeys,
    arrivals,
)
from manifold_shap.players import Players

REGULARISATION = 1e-6

# Elements of the matrices of distinct coalitions that are held at a time: 64 MiB each.
_MOST_ELEMENTS = 2**23


class Moments(NamedTuple):
    """First and second moments of rows, in float64.

    Attributes:
        mean: `[elements]`.
        scale: standard deviations `[elements]`; exactly 0 for a constant column.
        correlation: `[elements, elements]`, positive definite with a unit diagonal; a constant
            column correlates with nothing.
        ridge: λ if the correlations were regularised, otherwise 0.
    """

    mean: Tensor
    scale: Tensor
    correlation: Tensor
    ridge: float


def regularised_moments(
    rows: Float[Tensor, "rows elements"], regularisation: float = REGULARISATION
) -> Moments:
    """Moments of rows; a singular covariance gets a ridge, and one warning.

    The ridge is relative: it is added to the correlations, so that neither the result nor the
    warning depends on units. Variances stay as they are and correlations shrink by 1 + λ. Constant
    columns alone need none.

    Args:
        rows: at least two.
        regularisation: λ, added where the smallest eigenvalue of the correlations is below it: with
            collinear columns (one-hot columns sum to 1), or no more rows than columns.

    Raises:
        TypeError, ValueError: fewer than two rows; λ is negative, or too small to make the
            correlations positive definite.
    """
    if len(rows) < 2:
        raise ValueError(
            "Expected at least two rows in `reference`, to estimate their covariance, but got "
            f"{len(rows)}; pass more of the training data."
        )
    check_number("regularisation", regularisation, low=0)
    mean, scale, correlation = _moments(rows.double())
    smallest = torch.linalg.eigvalsh(correlation)[0].item()
    ridge = regularisation if smallest < regularisation else 0.0
    least = len(correlation) * torch.finfo(torch.float64).eps
    if (smallest + ridge) / (1 + ridge) <= least:
        raise ValueError(
            "Expected a positive definite covariance of `reference` but the smallest eigenvalue "
            f"of its correlations is {smallest:.1e} and regularisation={regularisation} is too "
            f"small to change that; give more, e.g. {REGULARISATION}, or drop columns that others "
            "determine."
        )
    if ridge > 0:
        warnings.warn(
            "The covariance of `reference` is singular or nearly so (the smallest eigenvalue of "
            f"its correlations is {smallest:.1e}: collinear columns, or too few rows): a ridge of "
            f"{ridge:.1e} of every column's variance is added; `regularisation` sets it.",
            stacklevel=3,
        )
        identity = torch.eye(len(correlation), dtype=torch.float64, device=rows.device)
        correlation = (correlation + ridge * identity) / (1 + ridge)
    return Moments(mean, scale, correlation, ridge)


def _moments(rows: Float64[Tensor, "rows elements"]) -> tuple[Tensor, Tensor, Tensor]:
    constant = rows.amax(0) == rows.amin(0)
    # The mean of equal numbers may differ from them by rounding.
    mean = torch.where(constant, rows[0], rows.mean(0))
    centred = rows - mean
    scale = (centred.square().sum(0) / (len(rows) - 1)).sqrt()
    standardised = centred / torch.where(constant, 1, scale)
    correlation = standardised.mT @ standardised / (len(rows) - 1)
    return mean, scale, correlation.fill_diagonal_(1)


class ConditionalNormal(nn.Module):
    """p(z_{S̄} | z_S) of a multivariate normal distribution, for every coalition S.

    Args:
        mean: of each element.
        scale: standard deviations; an element of scale 0 is always drawn at its mean.
        correlation: of the elements, positive definite with a unit diagonal.
    """

    mean: Tensor
    scale: Tensor
    correlation: Tensor
    root: Tensor

    def __init__(
        self,
        mean: Float64[Tensor, " elements"],
        scale: Float64[Tensor, " elements"],
        correlation: Float64[Tensor, "elements elements"],
    ) -> None:
        super().__init__()
        for name, statistic in (("mean", mean), ("scale", scale), ("correlation", correlation)):
            self.register_buffer(name, statistic, persistent=False)
        self.register_buffer("root", torch.linalg.cholesky(correlation), persistent=False)
        self._drawn: tuple[range, Tensor, Tensor] | None = None

    def draw(
        self,
        x: Float[Tensor, "batch elements"],
        mask: Mask,
        players: Players,
        draws: range,
        keys: Keys,
    ) -> Float[Tensor, "batch m draws elements"]:
        """Rows that keep the present elements of `x` and draw the others given these."""
        given, elements = x.repeat_interleave(mask.shape[1], 0), x.shape[1]
        coalitions, which = distinct_coalitions(mask.flatten(0, 1))
        present = players.expand(coalitions).flatten(1)
        distinct, position = keys.flatten().unique(return_inverse=True)
        numbers = self._numbers(distinct, draws)
        most = max(1, _MOST_ELEMENTS // elements**2)
        if len(given) <= most:
            rows = self._complete(given, present, which, numbers, position)
            return rows.unflatten(0, mask.shape[:2])
        rows = x.new_empty(len(given), len(draws), elements)
        # Sorted, equal coalitions stand side by side and are factorised together.
        for some in which.argsort().split(most):
            first, last = int(which[some[0]]), int(which[some[-1]])
            own = present[first : last + 1], which[some] - first
            rows[some] = self._complete(given[some], *own, numbers, position[some])
        return rows.unflatten(0, mask.shape[:2])

    def draw_nested(
        self,
        x: Float[Tensor, "batch elements"],
        mask: NestedMask,
        players: Players,
        draws: range,
        keys: RunKeys,
    ) -> Float[Tensor, "batch m draws elements"]:
        """The same rows, for coalitions that are nested within each run."""
        given, elements = x.repeat_interleave(mask.shape[1], 0), x.shape[1]
        distinct, position = keys.flatten().unique(return_inverse=True)
        numbers = self._numbers(distinct, draws)
        rows = x.new_empty(len(given), mask.shape[2], len(draws), elements)
        step = max(1, _MOST_ELEMENTS // elements**2)
        parts = (part.split(step) for part in (given, mask.flatten(0, 1), position, rows))
        for some, coalitions, which, out in zip(*parts, strict=True):
            self._complete_nested(some, players.expand(coalitions).flatten(2), numbers[which], out)
        return rows.view(len(x), -1, len(draws), elements)

    def _numbers(
        self, keys: Int64[Tensor, " keys"], draws: range
    ) -> Float[Tensor, "keys elements draws"]:
        # An estimator passes a row's coalitions in many calls that share one key.
        if self._drawn is not None:
            before, same_keys, numbers = self._drawn
            if before == draws and same_keys.device == keys.device and same_keys.equal(keys):
                return numbers
        numbers = _random.normal(keys, (len(self.mean),), draws).mT.contiguous()
        self._drawn = draws, keys, numbers
        return numbers

    def _complete(
        self,
        x: Float[Tensor, "pairs elements"],
        coalitions: Bool[Tensor, "coalitions elements"],
        which: Int64[Tensor, " pairs"],
        numbers: Float[Tensor, "keys elements draws"],
        position: Int64[Tensor, " pairs"],
    ) -> Float[Tensor, "pairs draws elements"]:
        present = coalitions[which]
        regression, root = (factor[which] for factor in self._factors(coalitions))
        known = torch.where(present, self._standardised(x), 0)
        expected = (regression @ known[..., None]).squeeze(-1) * self.scale + self.mean
        # The root is zero in the rows of present elements, which therefore stay exactly as given.
        location = torch.where(present, x, expected.to(x.dtype))
        one_key = len(numbers) == 1
        numbers = numbers.expand(len(x), -1, -1) if one_key else numbers[position]
        # Draws last: with the few elements last, the product takes ten times as long.
        return torch.baddbmm(location[..., None], root.to(x.dtype), numbers).mT

    def _complete_nested(
        self,
        x: Float[Tensor, "runs elements"],
        present: Bool[Tensor, "runs run elements"],
        numbers: Float[Tensor, "runs elements draws"],
        rows: Float[Tensor, "runs run draws elements"],
    ) -> None:
        """Complete nested coalitions into `rows`."""
        order, arrival = arrivals(present)
        factor = torch.linalg.cholesky(self.correlation[order[:, :, None], order[:, None]])
        own = self._standardised(x).gather(1, order)[..., None]
        innovations = torch.linalg.solve_triangular(
            factor, torch.cat((self.root[order], own), dim=-1), upper=False
        )
        place = order.argsort(-1)[..., None].expand_as(factor)
        factor = factor.gather(1, place) * self.scale[:, None]
        late = arrival[:, None] > torch.arange(present.shape[1], device=x.device)[:, None]
        known = torch.where(late, 0, innovations[:, None, :, -1])
        expected = (known @ factor.mT + self.mean).to(x.dtype)
        location = torch.where(present, x[:, None], expected)
        drawn = innovations[..., :-1].to(x.dtype) @ numbers
        root = factor.to(x.dtype)[:, None]
        step = max(1, _MOST_ELEMENTS // root.numel())
        parts = (part.split(step, 1) for part in (rows, location, late))
        for out, middle, absent in zip(*parts, strict=True):
            # L is triangular: later innovations leave present elements exactly as given.
            own_root = (root * absent[:, :, None]).flatten(1, 2)
            completed = torch.baddbmm(middle.flatten(1)[..., None], own_root, drawn)
            out.copy_(completed.unflatten(1, middle.shape[1:]).mT)

    def _standardised(
        self, x: Float[Tensor, "*shape elements"]
    ) -> Float64[Tensor, "*shape elements"]:
        return (x - self.mean) / torch.where(self.scale > 0, self.scale, 1)

    def _factors(
        self, present: Bool[Tensor, "coalitions elements"]
    ) -> tuple[
        Float64[Tensor, "coalitions elements elements"],
        Float64[Tensor, "coalitions elements elements"],
    ]:
        """Σ_{S̄S} Σ_SS⁻¹ of standardised elements, and a square root of Σ_{S̄|S}, zero-padded.

        Eq. (3.4.1) of Carballo's thesis prints Σ_{S̄S̄} for Σ_{S̄S}.
        """
        rows, columns = present[:, :, None], present[:, None]
        own = torch.where(rows & columns, self.correlation, 0)
        own = own + torch.diag_embed((~present).double())
        cross = torch.where(rows & ~columns, self.correlation, 0)
        regression = torch.cholesky_solve(cross, torch.linalg.cholesky(own)).mT
        residual = (self.root - regression @ self.root) * self.scale[:, None]
        return regression, torch.where(rows, 0, residual)
