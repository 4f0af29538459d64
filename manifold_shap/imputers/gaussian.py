"""The multivariate normal conditional: absent features regressed on the present ones, with noise.

One joint draw per key serves every coalition: x' = x⁰ + Σ_{·S} Σ_SS⁻¹ (x_S - x⁰_S) with
x⁰ ~ N(μ, Σ) has the law of Eqs. (3.4.1)-(3.4.2) of the thesis (conditioning by kriging, Journel
1974; Matheron's rule). So draws change as little as they can while a coalition grows, and only the
regression depends on the coalition.

Along an order none of the regressions is needed. Let L L' = Σ with the elements as they arrive,
z = L⁻¹ (x - μ) and z⁰ = L⁻¹ (x⁰ - μ): what is new in each element, given those before it. Then
x' = μ + L (z_S, z⁰_{S̄}) for every coalition of the order.
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

from manifold_shap import _random
from manifold_shap.coalitions import distinct_coalitions
from manifold_shap.imputers.base import (
    LEAST_NESTED_PLAYERS,
    Completions,
    Imputer,
    arrivals,
    nested_parts,
)
from manifold_shap.imputers.covariance import REGULARISATION, regularised_moments
from manifold_shap.players import Players

# Elements of the matrices of distinct coalitions that are held at a time: 64 MiB each.
_MOST_ELEMENTS = 2**23


class ConditionalNormal(nn.Module):
    """p(z_{S̄} | z_S) of one multivariate normal distribution, for every S.

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
        mask: Bool[Tensor, "batch m players"],
        players: Players,
        draws: range,
        keys: Int64[Tensor, "batch m"],
    ) -> Float[Tensor, "batch m draws elements"]:
        """Rows that keep the present elements of `x`, the others drawn given these."""
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
        # Equal coalitions stand side by side, so that they are factorised together.
        for some in which.argsort().split(most):
            first, last = int(which[some[0]]), int(which[some[-1]])
            own = present[first : last + 1], which[some] - first
            rows[some] = self._complete(given[some], *own, numbers, position[some])
        return rows.unflatten(0, mask.shape[:2])

    def draw_along(
        self,
        x: Float[Tensor, "batch elements"],
        mask: Bool[Tensor, "batch runs run players"],
        players: Players,
        draws: range,
        keys: Int64[Tensor, "batch runs"],
    ) -> Float[Tensor, "batch m draws elements"]:
        """The same rows, for coalitions that grow within each run."""
        given, elements = x.repeat_interleave(mask.shape[1], 0), x.shape[1]
        distinct, position = keys.flatten().unique(return_inverse=True)
        numbers = self._numbers(distinct, draws)
        rows = x.new_empty(len(given), mask.shape[2], len(draws), elements)
        step = max(1, _MOST_ELEMENTS // elements**2)
        parts = (part.split(step) for part in (given, mask.flatten(0, 1), position, rows))
        for some, coalitions, which, out in zip(*parts, strict=True):
            self._walk(some, players.expand(coalitions).flatten(2), numbers[which], out)
        return rows.view(len(x), -1, len(draws), elements)

    def _walk(
        self,
        x: Float[Tensor, "runs elements"],
        present: Bool[Tensor, "runs run elements"],
        numbers: Float[Tensor, "runs elements draws"],
        rows: Float[Tensor, "runs run draws elements"],
    ) -> None:
        """Complete growing coalitions into `rows`."""
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
            # What arrives early owes nothing to what comes late: present elements stay, to the bit.
            own_root = (root * absent[:, :, None]).flatten(1, 2)
            completed = torch.baddbmm(middle.flatten(1)[..., None], own_root, drawn)
            out.copy_(completed.unflatten(1, middle.shape[1:]).mT)

    def _numbers(
        self, keys: Int64[Tensor, " keys"], draws: range
    ) -> Float[Tensor, "keys elements draws"]:
        # An estimator asks for a row's coalitions in many calls that share one key.
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
        # The root has zeros in the rows of present elements: they stay as they are, to the bit.
        location = torch.where(present, x, expected.to(x.dtype))
        one_key = len(numbers) == 1
        numbers = numbers.expand(len(x), -1, -1) if one_key else numbers[position]
        # Long rows of draws: with the few elements last, the product takes ten times as long.
        return torch.baddbmm(location[..., None], root.to(x.dtype), numbers).mT

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
        """Σ_{S̄S} Σ_SS⁻¹ between standardised elements, and a square root of Σ_{S̄|S}, zero-padded.

        Eq. (3.4.1) of the thesis prints Σ_{S̄S̄} for Σ_{S̄S}.
        """
        rows, columns = present[:, :, None], present[:, None]
        own = torch.where(rows & columns, self.correlation, 0)
        own = own + torch.diag_embed((~present).double())
        cross = torch.where(rows & ~columns, self.correlation, 0)
        regression = torch.cholesky_solve(cross, torch.linalg.cholesky(own)).mT
        residual = (self.root - regression @ self.root) * self.scale[:, None]
        return regression, torch.where(rows, 0, residual)


class GaussianImputer(Imputer):
    """x'_{S̄} ~ N(μ_{S̄|S}, Σ_{S̄|S}), μ and Σ those of the reference rows (thesis, 3.4.1).

    Elements are taken for continuous ones: draws of a binary or one-hot column are any numbers, not
    members of its support, and the model has to read them. A constant column is drawn at its
    constant.

    Args:
        reference: at least two rows.
        players: who plays; by default every element of a row on its own.
        regularisation: λ, a ridge of λ times the variance of every column, for covariances whose
            correlations have an eigenvalue below λ: collinear columns (one-hot ones sum to 1), or
            no more rows than columns. A warning says so, once. Where rows are few, a larger λ
            (0.01, 0.1) also keeps the regressions from following chance.

    Raises:
        TypeError, ValueError: `reference` is no tensor or array of at least two finite rows of the
            shape that `players` own; λ is negative, or too small to make the covariance positive
            definite.
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
        """Complete each coalition by one joint draw per key and number, corrected for x_S."""
        rows = self.conditional.draw(x.flatten(1), mask, self.players, draws, keys)
        return Completions(rows.unflatten(-1, self.players.event))

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
        for some, own in nested_parts(mask, keys, most):
            rows = self.conditional.draw_along(x.flatten(1), some, self.players, draws, own)
            yield Completions(rows.unflatten(-1, self.players.event))
