"""Imputes by multivariate normal conditionals, of the features or of their normal scores.

One joint draw per key serves every coalition: x' = x⁰ + Σ_{·S} Σ_SS⁻¹ (x_S - x⁰_S) with
x⁰ ~ N(μ, Σ) has the conditional law (Matheron's rule; Journel 1974). Draws therefore change as
little as possible while a coalition grows, and only the regression depends on the coalition.

For nested coalitions one factorisation replaces all of their regressions. Let L L' = Σ with the
elements in the order in which they join, z = L⁻¹ (x - μ) and z⁰ = L⁻¹ (x⁰ - μ): the innovation of
each element given those before it. Then x' = μ + L (z_S, z⁰_{S̄}) for every coalition of the run.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

from manifold_shap import _random
from manifold_shap._checks import check_number
from manifold_shap._messages import UnfitError, warn
from manifold_shap.coalitions import Coalitions, Nested, distinct_coalitions
from manifold_shap.imputers.base import Completions, Imputer, Mask, Rows
from manifold_shap.imputers.levels import Numbers
from manifold_shap.players import Players

# Where the smallest eigenvalue of correlations is below it, it is added as a ridge.
REGULARISATION = 1e-6

# With fewer players most nested runs of a call have their coalitions in common, and one
# factorisation of each distinct coalition is faster than one of each run.
_LEAST_NESTED_PLAYERS = 8

# Elements of the matrices of distinct coalitions that are held at a time: 64 MiB each.
_MOST_ELEMENTS = 2**23

Elements = Float[Tensor, "*shape elements"]


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
        TypeError, ValueError: fewer than two rows, or λ is negative.
    """
    if len(rows) < 2:
        raise UnfitError(
            "Expected at least two rows in `reference`, to estimate their covariance, but got "
            f"{len(rows)}; pass more of the training data."
        )
    check_number("regularisation", regularisation, low=0)
    rows = rows.double()
    constant = rows.amax(0) == rows.amin(0)
    # The mean of equal numbers may differ from them by rounding.
    mean = torch.where(constant, rows[0], rows.mean(0))
    centred = rows - mean
    scale = (centred.square().sum(0) / (len(rows) - 1)).sqrt()
    standardised = centred / torch.where(constant, 1, scale)
    correlation = (standardised.mT @ standardised / (len(rows) - 1)).fill_diagonal_(1)
    smallest = torch.linalg.eigvalsh(correlation)[0].item()
    ridge = regularisation if smallest < regularisation else 0.0
    if ridge > 0:
        warn(
            "The covariance of `reference` is singular or nearly so (the smallest eigenvalue of "
            f"its correlations is {smallest:.1e}: collinear columns, or too few rows): a ridge of "
            f"{ridge:.1e} of every column's variance is added; `regularisation` sets it.",
        )
        identity = torch.eye(len(correlation), dtype=torch.float64, device=rows.device)
        correlation = (correlation + ridge * identity) / (1 + ridge)
    return Moments(mean, scale, correlation, ridge)


def factorised(
    correlation: Float64[Tensor, "*laws elements elements"],
    present: Bool[Tensor, "coalitions elements"],
) -> Float64[Tensor, "*batch elements elements"]:
    """Cholesky factors of the correlations of present elements; absent ones are independent.

    Several correlations, or covariances, are broadcast with the coalitions.
    """
    inside = present[:, None] & present[:, :, None]
    padded = torch.where(inside, correlation, 0) + torch.diag_embed((~present).double())
    return torch.linalg.cholesky(padded)


class GaussianImputer(Imputer):
    """x'_{S̄} ~ N(μ_{S̄|S}, Σ_{S̄|S}), with the mean and covariance of the reference rows.

    Aas, Jullum & Løland (2021), Section 3.1; Carballo (2022), Eqs. 3.4.1-3.4.2. Elements are taken
    as continuous: draws of a binary or one-hot column are real numbers outside its support, which
    the model has to accept. A constant column is drawn at its constant.

    Of a table (`table_imputer`) it draws the elements that the table encodes, and each cell
    becomes the nearest observed value: a category the one with the largest element, a date the
    nearest date. A missing cell is the column's mean together with an indicator of 1, drawn as one
    more continuous element, and a cell is missing where that is 0.5 or more; so the shares of
    missing cells and of categories are only roughly those of the data.

    Args:
        reference: at least two rows of background data, `[rows, *event]`.
        players: see `Players`; by default pixels of pictures, else every element of a row.
        regularisation: λ, a ridge of λ times the variance of every column, added if the smallest
            eigenvalue of the correlations is below λ: collinear columns (one-hot columns sum to 1),
            or no more rows than columns. A warning says so, once. With few rows a larger λ (0.01,
            0.1) also reduces the variance of the regressions.

    Attributes:
        mean: of the scores of each element: of a `CopulaImputer` normal scores, else numbers.
        scale: their standard deviations; an element of scale 0 is always drawn at its mean.
        correlation: of the scores, positive definite with a unit diagonal.
        root: Cholesky factor of the correlation.
        ridge: λ if the correlation was regularised, otherwise 0.

    Raises:
        TypeError, ValueError: `reference` is no tensor or array of at least two finite rows of the
            shape that `players` own, or λ is negative.
        torch.linalg.LinAlgError: λ is too small to make the covariance positive definite.

    >>> imputer = GaussianImputer(torch.randn(100, 3))
    >>> x, mask = torch.zeros(1, 3), torch.tensor([[[True, False, True]]])
    >>> from manifold_shap.coalitions import Listed
    >>> imputer.impute(x, Listed(mask, torch.tensor([[0]])), range(5)).rows.shape
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
        mean, scale, correlation, self.ridge = self._moments(
            self.reference.flatten(1), regularisation
        )
        self.mean = nn.Buffer(mean, persistent=False)
        self.scale = nn.Buffer(scale, persistent=False)
        self.correlation = nn.Buffer(correlation, persistent=False)
        self.root = nn.Buffer(torch.linalg.cholesky(correlation), persistent=False)

    @property
    def provenance(self) -> dict[str, Any]:
        return {"ridge": self.ridge}

    def _moments(self, rows: Float[Tensor, "rows elements"], regularisation: float) -> Moments:
        """Those of the scores of rows."""
        return regularised_moments(rows, regularisation)

    def _scores(self, x: Float[Tensor, "batch elements"]) -> Float[Tensor, "batch elements"]:
        """Scores of rows, which follow a multivariate normal distribution."""
        return x

    def _completions(
        self, x: Rows, mask: Mask, scores: Float[Tensor, "batch m draws elements"]
    ) -> Completions:
        """Completed rows with these scores."""
        return Completions(scores.unflatten(-1, self.players.event))

    def impute(self, x: Rows, coalitions: Coalitions, draws: range) -> Completions:
        """Complete each coalition from one joint draw per key and number, conditioned on x_S."""
        if isinstance(coalitions, Nested) and len(self.players) >= _LEAST_NESTED_PLAYERS:
            return self._impute_nested(x, coalitions, draws)
        mask, keys = coalitions.masks(), coalitions.each_key()
        given = self._scores(x.flatten(1)).repeat_interleave(mask.shape[1], 0)
        elements = given.shape[1]
        distinct, which = distinct_coalitions(mask.flatten(0, 1))
        present = self.players.expand(distinct).flatten(1)
        numbers, position = self._numbers(keys, draws)
        most = max(1, _MOST_ELEMENTS // elements**2)
        if len(given) <= most:
            rows = self._complete(given, present, which, numbers, position)
            return self._completions(x, mask, rows.unflatten(0, mask.shape[:2]))
        rows = given.new_empty(len(given), len(draws), elements)
        # Sorted, equal coalitions stand side by side and are factorised together.
        for some in which.argsort().split(most):
            own, place = which[some].unique(return_inverse=True)
            rows[some] = self._complete(given[some], present[own], place, numbers, position[some])
        return self._completions(x, mask, rows.unflatten(0, mask.shape[:2]))

    def _impute_nested(self, x: Rows, coalitions: Nested, draws: range) -> Completions:
        """By one factorisation for each run."""
        mask = coalitions.masks()
        runs, scores = mask.unflatten(1, (-1, coalitions.run)), self._scores(x.flatten(1))
        elements = scores.shape[1]
        step = max(1, _MOST_ELEMENTS // elements**2)
        given = scores.repeat_interleave(runs.shape[1], 0)
        numbers, position = self._numbers(coalitions.keys, draws)
        rows = scores.new_empty(len(given), coalitions.run, len(draws), elements)
        parts = (part.split(step) for part in (given, runs.flatten(0, 1), position, rows))
        for before, some, which, out in zip(*parts, strict=True):
            present = self.players.expand(some).flatten(2)
            self._complete_nested(before, present, numbers[which], out)
        return self._completions(x, mask, rows.view(len(x), -1, len(draws), elements))

    def _numbers(
        self, keys: Int64[Tensor, "batch some"], draws: range
    ) -> tuple[Float[Tensor, "keys elements draws"], Int64[Tensor, " pairs"]]:
        """Normal numbers of the distinct keys, and the place of each key among these."""
        distinct, position = keys.flatten().unique(return_inverse=True)
        return _random.normal(distinct, (len(self.mean),), draws).mT.contiguous(), position

    def _complete(
        self,
        x: Float[Tensor, "pairs elements"],
        coalitions: Bool[Tensor, "coalitions elements"],
        which: Int64[Tensor, " pairs"],
        numbers: Float[Tensor, "keys elements draws"],
        position: Int64[Tensor, " pairs"],
    ) -> Float[Tensor, "pairs draws elements"]:
        present = coalitions[which]
        regression, root = (factor[which] for factor in self._regressions(coalitions))
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
        """Complete nested coalitions into `rows`, by one factor of elements as they join."""
        # When each joins: 0 if it is present from the start, the length of the run if it never is.
        arrival, order = (~present).sum(1).sort(dim=-1, stable=True)
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

    def _standardised(self, x: Elements) -> Float64[Tensor, "*shape elements"]:
        return (x - self.mean) / torch.where(self.scale > 0, self.scale, 1)

    def _regressions(
        self, present: Bool[Tensor, "coalitions elements"]
    ) -> tuple[
        Float64[Tensor, "coalitions elements elements"],
        Float64[Tensor, "coalitions elements elements"],
    ]:
        """Σ_{S̄S} Σ_SS⁻¹ of standardised elements, and a square root of Σ_{S̄|S}, zero-padded.

        Eq. (3.4.1) of Carballo's thesis prints Σ_{S̄S̄} for Σ_{S̄S}.
        """
        rows, columns = present[:, :, None], present[:, None]
        cross = torch.where(rows & ~columns, self.correlation, 0)
        regression = torch.cholesky_solve(cross, factorised(self.correlation, present)).mT
        residual = (self.root - regression @ self.root) * self.scale[:, None]
        return regression, torch.where(rows, 0, residual)


class CopulaImputer(GaussianImputer):
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

    Of a table (`table_imputer`) the columns are the elements that the table encodes: those of
    a category, and the indicator of a missing cell, are drawn as 0 or 1 with the shares of the
    data, each for itself. A cell is missing where its indicator is 1, a category is one whose
    element is 1 (of several, or where none is, by how often they occur), and a date is the nearest
    observed one.

    Args:
        reference: at least two rows of background data, `[rows, *event]`.
        players: see `Players`; by default pixels of pictures, else every element of a row.
        regularisation: as for `GaussianImputer`, of the correlations of V.

    Raises:
        TypeError, ValueError: as for `GaussianImputer`.

    >>> imputer = CopulaImputer(torch.randn(100, 3).exp())
    >>> x, mask = torch.ones(1, 3), torch.tensor([[[True, False, True]]])
    >>> from manifold_shap.coalitions import Listed
    >>> bool((imputer.impute(x, Listed(mask, torch.tensor([[0]])), range(5)).rows > 0).all())
    True
    """

    name = "copula"

    def _moments(self, rows: Tensor, regularisation: float) -> Moments:
        owners = self.players.index.flatten().tolist()
        self.numbers = Numbers(range(rows.shape[1]), owners, rows.unbind(1)).to(rows.device)
        found = regularised_moments(self.numbers.scores(rows), regularisation)
        return found._replace(mean=torch.zeros_like(found.mean), scale=torch.ones_like(found.scale))

    def _scores(self, x: Tensor) -> Tensor:
        return self.numbers.scores(x).to(x.dtype)

    def _completions(self, x: Tensor, mask: Tensor, scores: Tensor) -> Completions:
        values = self.numbers.quantiles(scores).unflatten(-1, self.players.event)
        return Completions(self.splice(x, mask, values))
