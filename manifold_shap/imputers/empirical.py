"""Imputes from rows of the data that resemble x on S: by a kernel, or by exact matches."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from manifold_shap import _random
from manifold_shap._checks import check_finite, check_number, to_tensor
from manifold_shap.coalitions import Coalitions, distinct_coalitions
from manifold_shap.imputers.base import (
    CompletedRows,
    Completions,
    Imputer,
    Mask,
    Rows,
)
from manifold_shap.imputers.gaussian import (
    REGULARISATION,
    Moments,
    factorised,
    regularised_moments,
)
from manifold_shap.players import Players

# Weights whose logarithms differ by less count as equal.
_TIE = 1e-6

# The stream of random numbers by which samples choose their donors.
_CHOICE = -2

# Comparisons, weights and float64 numbers held at a time: 16 or 32 MiB each.
_MOST_ELEMENTS = 2**22

# Of the numbers that several steps pass over, on a CPU, 2 MiB: more leave its cache and are slower.
_MOST_ELEMENTS_CPU = 2**18

# With fewer subsets, products of all pairs of elements take longer than they save.
_LEAST_SUBSETS = 16

# The search for a bandwidth: candidates, rows (whose squared number is held for each coalition),
# coalitions of a size, and sizes.
_GRID = torch.logspace(-1.5, 0.5, 25, dtype=torch.float64)
_ROWS = 400
_COALITIONS = 6
_SIZES = 16

_Weights = Iterator[tuple[Int64[Tensor, " some"], Float[Tensor, "some donors"]]]


class DonorImputer(Imputer):
    """x' = x_S ⊔ z_{S̄} with z one of the donors, weighted by how well z_S fits x_S.

    Fewer draws than donors are a priority sample of these (Duffield, Lund & Thorup 2007): with
    uniform numbers u of the key, one for each donor, draw number k is the donor with the k-th
    largest w/u. Given the largest w/u that is not drawn, the threshold τ, a donor was drawn with
    probability min(1, w/τ), and so counts max(w, τ): donors heavier than τ are all there, others in
    proportion to their weights. As many draws as donors are all of these, with their own weights.
    Coalitions of one key that weigh the donors alike draw the same ones. `sample` makes independent
    draws of equal weight instead.

    Attributes:
        numbers: of the reference rows that are donors.
    """

    numbers: Tensor

    @property
    def donors(self) -> Float[Tensor, "donors *event"]:
        """The reference rows that are drawn."""
        return self.reference[self.numbers]

    @abstractmethod
    def weigh(self, x: Rows, mask: Mask) -> _Weights:
        """Logarithms of the weights of all donors, up to a constant, for some pairs at a time.

        Yields:
            The numbers of some of the batch · m pairs (row, coalition), and their log-weights: no
            more at a time than fit in memory, however many rows and coalitions there are.
        """

    def sample(self, x: Rows, coalitions: Coalitions, draws: range) -> CompletedRows:
        """Equally weighted draws: donors chosen in proportion to their weights."""
        mask, keys = coalitions.masks(), coalitions.each_key()
        wanted = _random.uniform(_random.fold(keys, _CHOICE), (), draws).flatten(0, 1).double()
        index = torch.zeros(wanted.shape, dtype=torch.int64, device=x.device)
        for some, weights in self.weigh(x, mask):
            upper = weights.exp().double().cumsum(-1)
            index[some] = torch.searchsorted(upper, wanted[some] * upper[:, -1:])
        donors = self.numbers[index.unflatten(0, mask.shape[:2])]
        return self.splice(x, mask, self.reference[donors])

    def impute(self, x: Rows, coalitions: Coalitions, draws: range) -> Completions:
        """Complete each coalition from a priority sample of the donors; see `Imputer.impute`.

        Draws beyond the donors of any weight have a weight of zero.
        """
        mask, keys = coalitions.masks(), coalitions.each_key()
        donors = len(self.numbers)
        count, pairs = min(draws.stop, donors), mask[..., 0].numel()
        index = torch.zeros(pairs, draws.stop, dtype=torch.int64, device=x.device)
        log_weights = x.new_full(index.shape, -torch.inf)
        threshold = log_weights.new_full((pairs,), -torch.inf)
        for some, own in self.weigh(x, mask):
            distinct, position = keys.flatten()[some].unique(return_inverse=True)
            # Numbers of so many donors may be equal; with these added, no two are.
            apart = torch.arange(donors, device=x.device).double() * (_TIE / donors)
            priority = (apart - _random.uniform(distinct, (donors,)).log())[position] + own
            first = priority.topk(min(draws.stop + 1, donors), dim=-1)
            index[some, :count] = first.indices[:, :count]
            log_weights[some, :count] = own.gather(-1, first.indices[:, :count]).to(x)
            if count < donors:
                threshold[some] = first.values[:, count].to(x)
        parts = (index[:, draws.start :], log_weights[:, draws.start :], threshold)
        index, log_weights, threshold = (each.unflatten(0, mask.shape[:2]) for each in parts)
        chosen = self.numbers[index]
        rows = self.splice(x, mask, self.reference[chosen])
        return Completions(rows, log_weights, None, threshold, chosen)


class EmpiricalImputer(DonorImputer):
    """Reference rows z, weighted by exp(-ρ² / 2σ²) with ρ the scaled Mahalanobis distance on S.

    Aas, Jullum & Løland (2021), Section 3.3; Carballo (2022), Eqs. 3.4.5-3.4.7. Only the largest
    weights are used, which together make up the share η of all: this is part of the definition, not
    of the sampling. With as many draws as reference rows values are exact; fewer are a sample, see
    `DonorImputer`.

    Of a table (`table_imputer`) distances are those of the rows that the table encodes: a
    missing cell is at the column's mean but for its indicator, categories are one-hot, and dates
    are numbers of days. Absent cells are those of a row of the table, missing ones and all.

    Args:
        reference: at least two rows of background data, `[rows, *event]`.
        players: see `Players`; by default pixels of pictures, else every element of a row.
        bandwidth: σ, in units in which the mean ρ² of two random rows is about 2; or "aicc", by
            the corrected Akaike criterion, one for each number of present players.
        share: η; 1 keeps every row. Rows as heavy as the last one that is needed count, too.
        targets: what the kernel should predict well, `[rows, outputs]`, for bandwidth="aicc": give
            T(f(reference)) to choose σ for one model. By default the absent features themselves,
            which suits every model.
        regularisation: as for `GaussianImputer`.

    Attributes:
        bandwidth: σ for each number of present players, `[players + 1]`.

    Raises:
        TypeError, ValueError: `reference` or `targets` is no tensor or array of finite rows of the
            right shape, or another argument is out of range.

    >>> imputer = EmpiricalImputer(torch.randn(100, 3), bandwidth=0.3)
    >>> x, mask = torch.zeros(1, 3), torch.tensor([[[True, False, True]]])
    >>> from manifold_shap.coalitions import Listed
    >>> imputer.impute(x, Listed(mask, torch.tensor([[0]])), range(5)).log_weights.shape
    torch.Size([1, 1, 5])
    """

    name = "empirical"

    def __init__(
        self,
        reference: Any,
        players: Players | None = None,
        bandwidth: float | str = 0.1,
        share: float = 0.95,
        targets: Any = None,
        regularisation: float = REGULARISATION,
    ) -> None:
        super().__init__(reference, players)
        self.share = check_number("share", share, above=0, high=1)
        self.distinct_draws = len(self.reference)
        every = torch.arange(len(self.reference), device=self.device)
        self.numbers = nn.Buffer(every, persistent=False)
        rows = self.reference.flatten(1)
        moments = regularised_moments(rows, regularisation)
        self.ridge = moments.ridge
        self.distance = Mahalanobis(rows, moments)
        self._rule = bandwidth
        if bandwidth == "aicc":
            if targets is not None:
                targets = check_finite(to_tensor(targets, "targets"), "targets")
                if targets.ndim != 2 or len(targets) != len(rows):
                    raise ValueError(
                        f"Expected `targets` of shape ({len(rows)}, outputs), one row for each "
                        f"reference row, but got {tuple(targets.shape)}."
                    )
            chosen = choose_bandwidths(rows, moments, self.players, targets)
        elif targets is not None:
            raise ValueError("Expected bandwidth='aicc' beside `targets`, which choose one.")
        else:
            sigma = check_number("bandwidth", bandwidth, above=0, fix="'aicc' chooses one")
            chosen = torch.full((len(self.players) + 1,), sigma)
        self.bandwidth = nn.Buffer(chosen.to(self.device), persistent=False)

    @property
    def provenance(self) -> dict[str, Any]:
        return {"bandwidth": self._rule, "share": self.share, "ridge": self.ridge}

    def weigh(self, x: Rows, mask: Mask) -> _Weights:
        """See `DonorImputer.weigh`: the kernel at each reference row, normalised."""
        pairs = x.repeat_interleave(mask.shape[1], 0).flatten(1)
        players = mask.flatten(0, 1)
        coalitions, which = distinct_coalitions(players)
        present = self.players.expand(coalitions).flatten(1)
        for some, squared in self.distance.parts(pairs, present, which):
            sigma = self.bandwidth.double()[players[some].sum(-1)]
            weights = squared.div_(-2 * sigma[:, None].square()).log_softmax(-1)
            yield some, weights if self.share == 1 else self._within_share(weights)

    def _within_share(
        self, log_weights: Float[Tensor, "pairs donors"]
    ) -> Float[Tensor, "pairs donors"]:
        """Log-weights with no weight for donors beyond the share; equal ones count together."""
        donors = log_weights.shape[-1]
        lightest = torch.empty_like(log_weights[:, :1])
        left = torch.arange(len(log_weights), device=log_weights.device)
        for count in (16, 128, donors):
            # Mostly a few donors make up the share, and the others need not be sorted.
            largest = log_weights[left].topk(min(count, donors), dim=-1).values
            before = largest.exp().cumsum(-1) - largest.exp()
            last = (before < self.share).sum(-1, keepdim=True) - 1
            lightest[left] = largest.gather(-1, last) - _TIE
            left = left[before[:, -1] < self.share]
            if not len(left):
                break
        return log_weights.masked_fill(log_weights < lightest, -torch.inf)


class ExactMatchImputer(DonorImputer):
    """p(x' | x_S) of a discrete table itself: its rows with z_S = x_S, equally likely.

    Where no row agrees with x on all of S, the rows that disagree in the fewest players of S are
    used instead. A player agrees when all of its elements do, so a one-hot block counts once. Equal
    rows are one donor, weighted by their number: as many draws as distinct rows give the exact
    conditional mean of the table.

    Args:
        reference: rows of the table, `[rows, *event]`.
        players: see `Players`; by default pixels of pictures, else every element of a row.

    Raises:
        TypeError, ValueError: `reference` is no tensor or array of finite rows of the shape that
            `players` own; or it is continuous: in most players no value occurs twice.

    >>> imputer = ExactMatchImputer(torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 2.0], [1.0, 2.0]]))
    >>> x, mask = torch.zeros(1, 2), torch.tensor([[[True, False]]])
    >>> from manifold_shap.coalitions import Listed
    >>> imputer.impute(x, Listed(mask, torch.tensor([[0]])), range(3)).log_weights.exp().sort()[0]
    tensor([[[0.0000, 0.3333, 0.6667]]])
    """

    name, copies = "exact_match", True

    def __init__(self, reference: Any, players: Players | None = None) -> None:
        super().__init__(reference, players)
        distinct, position, counts = self.reference.flatten(1).unique(
            dim=0, return_inverse=True, return_counts=True
        )
        every = torch.arange(len(self.reference), device=self.device)
        first = torch.full_like(counts, len(every)).scatter_reduce(0, position, every, "amin")
        self.distinct_draws = len(first)
        self.numbers = nn.Buffer(first, persistent=False)
        self.distinct = nn.Buffer(distinct, persistent=False)
        self.log_count = nn.Buffer(counts.float().log(), persistent=False)
        index = self.players.index.flatten().to(self.device)
        owners = nn.functional.one_hot(index, len(self.players)).float()
        self.owners = nn.Buffer(owners, persistent=False)
        columns = [distinct[:, index == k] for k in range(len(self.players))]
        rows = len(self.reference)
        continuous = sum(len(column.unique(dim=0)) == rows for column in columns)
        if rows > 1 and continuous > len(columns) / 2:
            raise ValueError(
                f"Expected a discrete table but in {continuous} of {len(columns)} players no value "
                f"occurs twice among the {rows} reference rows, so that none would match; bin "
                "these columns, or use `EmpiricalImputer`, which weights by distance."
            )

    def weigh(self, x: Rows, mask: Mask) -> _Weights:
        """See `DonorImputer.weigh`: the shares of the distinct rows that agree with x."""
        donors = len(self.distinct)
        numbers = torch.arange(mask.shape[0] * mask.shape[1], device=x.device)
        by_row = numbers.unflatten(0, mask.shape[:2])
        rows = max(1, _MOST_ELEMENTS // (donors * len(self.owners)))
        for first in range(0, len(x), rows):
            some = slice(first, first + rows)
            unequal = x[some].flatten(1)[:, None] != self.distinct
            differs = (unequal.float() @ self.owners > 0).float()
            coalitions = max(1, _MOST_ELEMENTS // (donors * len(differs)))
            parts = mask[some].split(coalitions, 1), by_row[some].split(coalitions, 1)
            for own, which in zip(*parts, strict=True):
                mismatches = own.float() @ differs.mT
                worse = mismatches > mismatches.amin(-1, keepdim=True)
                weights = self.log_count.masked_fill(worse, -torch.inf).log_softmax(-1)
                yield which.flatten(), weights.flatten(0, 1)


class Mahalanobis(nn.Module):
    """ρ_S(x, z)² = (z - x)_S' Σ_S⁻¹ (z - x)_S / |S| to every reference row z (Aas et al. 2021).

    A constant column adds the same to all distances: it counts in |S| only, whatever x has in it.

    Args:
        rows: reference rows.
        moments: of the distribution; the mean is near the rows, so that few digits cancel.
    """

    def __init__(self, rows: Float[Tensor, "rows elements"], moments: Moments) -> None:
        super().__init__()
        inverse = torch.where(moments.scale > 0, 1 / moments.scale, 0)
        self.centre = nn.Buffer(moments.mean, persistent=False)
        self.inverse_scale = nn.Buffer(inverse, persistent=False)
        self.correlation = nn.Buffer(moments.correlation, persistent=False)
        self.standard = nn.Buffer((rows - moments.mean) * inverse, persistent=False)

    def parts(
        self,
        x: Float[Tensor, "pairs elements"],
        subsets: Bool[Tensor, "subsets elements"],
        which: Int64[Tensor, " pairs"],
    ) -> Iterator[tuple[Int64[Tensor, " some"], Float[Tensor, "some rows"]]]:
        """Squared distances of the pairs (x, S), part by part, with the numbers of the pairs.

        Pairs of equal S come together, since they share a factorisation. The distance on no
        element is zero.

        Args:
            x: a row for each pair.
            subsets: each S once.
            which: the number of each pair's S among them.
        """
        rows, elements = self.standard.shape
        most = max(1, _MOST_ELEMENTS // max(rows, elements**2))
        order = which.argsort(stable=True)
        counts = which.bincount(minlength=len(subsets)).split(most)
        by_block = order.split([int(count.sum()) for count in counts])
        for block, own, first in zip(
            subsets.split(most), by_block, range(0, len(subsets), most), strict=True
        ):
            precision = self.precision(block)
            of_rows = self._of_rows(precision)
            size = block.sum(-1).clamp(min=1)
            # A single matrix is not copied for each pair.
            copied = elements**2 if len(block) > 1 else elements
            step = max(1, min(self._at_a_time // rows, _MOST_ELEMENTS // max(rows, copied)))
            for some in own.split(step):
                each = which[some] - first
                yield some, self._squared(x[some], precision, of_rows, each).div_(size[each, None])

    @property
    def _at_a_time(self) -> int:
        return _MOST_ELEMENTS_CPU if self.standard.device.type == "cpu" else _MOST_ELEMENTS

    def _squared(
        self,
        x: Float[Tensor, "pairs elements"],
        precision: Float[Tensor, "subsets elements elements"],
        of_rows: Float[Tensor, "subsets rows"],
        which: Int64[Tensor, " pairs"],
    ) -> Float[Tensor, "pairs rows"]:
        """(z - x)_S' Σ_S⁻¹ (z - x)_S of each pair, given Σ_S⁻¹ and its quadratic form at z."""
        x = (x - self.centre) * self.inverse_scale
        if len(precision) == 1:
            towards = x @ precision[0]
        else:
            towards = torch.einsum("pij,pj->pi", precision[which], x)
        of_x = (towards * x).sum(-1, keepdim=True)
        squared = of_rows[which].add_(of_x)
        return squared.addmm_(towards, self.standard.T, alpha=-2).clamp_(min=0)

    def _of_rows(
        self, precision: Float[Tensor, "subsets elements elements"]
    ) -> Float[Tensor, "subsets rows"]:
        """z' Σ_S⁻¹ z of each subset and reference row."""
        z = self.standard.T
        elements, rows = z.shape
        pairs = elements * (elements + 1) // 2
        if len(precision) >= _LEAST_SUBSETS and pairs * rows <= _MOST_ELEMENTS:
            # Σ_ij P_ij z_i z_j of all subsets at once is one matrix product.
            first, second = torch.tril_indices(elements, elements, device=z.device)
            products = torch.cat([z[: k + 1] * z[k] for k in range(elements)])
            twice = torch.where(first == second, 1.0, 2.0).to(products)
            return precision[:, first, second].mul_(twice) @ products
        parts = precision.split(max(1, self._at_a_time // z.numel()))
        return torch.cat([(some @ z).mul_(z).sum(1) for some in parts])

    def precision(
        self, subsets: Bool[Tensor, "subsets elements"]
    ) -> Float[Tensor, "subsets elements elements"]:
        """Σ_S⁻¹ with zeros for absent elements, of all subsets by one factorisation."""
        inside = subsets[:, None] & subsets[:, :, None]
        return torch.cholesky_inverse(factorised(self.correlation, subsets)) * inside


def choose_bandwidths(
    rows: Float[Tensor, "rows elements"],
    moments: Moments,
    players: Players,
    targets: Float[Tensor, "rows outputs"] | None = None,
) -> Float[Tensor, " sizes"]:
    """A bandwidth for each number of present players, 0 to all: `[players + 1]`.

    For a size the criterion is averaged over a few random coalitions, on a bounded number of rows;
    where there are many sizes, those between are interpolated.

    Args:
        rows: of the data distribution.
        moments: of the rows.
        players: see `Players`.
        targets: what to predict; by default the absent elements, in standard deviations.
    """
    generator = torch.Generator().manual_seed(0)
    count = len(players)
    some = torch.randperm(len(rows), generator=generator)[:_ROWS].to(rows.device)
    distance = Mahalanobis(rows[some], moments)
    wanted = distance.standard.float() if targets is None else targets[some]
    sizes = torch.linspace(1, max(1, count - 1), _SIZES).round().unique()
    chosen = []
    for size in sizes.tolist():
        arrival = torch.rand(_COALITIONS, count, generator=generator).argsort(-1)
        mask = distinct_coalitions(arrival < size)[0].to(rows.device)
        present = players.expand(mask).flatten(1)
        z = distance.standard
        towards = z @ distance.precision(present)
        of_z = (towards * z).sum(-1)
        squared = of_z[:, :, None] + of_z[:, None] - 2 * towards @ z.mT
        squared = (squared.clamp(min=0) / present.sum(-1).clamp(min=1)[:, None, None]).float()
        # By default only absent elements have to be predicted.
        absent = wanted * ~present[:, None] if targets is None else wanted.expand(len(mask), -1, -1)
        score = torch.stack([corrected_akaike(squared, absent, float(s)).mean() for s in _GRID])
        chosen.append(float(_GRID[int(score.argmin())]))
    between = np.interp(np.arange(count + 1), sizes.numpy(), np.log(chosen))
    return torch.from_numpy(np.exp(between)).float()


def corrected_akaike(
    squared: Float[Tensor, "coalitions rows rows"],
    targets: Float[Tensor, "coalitions rows outputs"],
    bandwidth: float,
) -> Float[Tensor, " coalitions"]:
    """log σ̂² + 1 + 2 (tr H + 1) / (n - tr H - 2) of the kernel regression with smoother H.

    Hurvich, Simonoff & Tsai (1998), Eq. 5; σ̂² is the mean squared residual over rows and targets.
    Infinite where H has as many degrees of freedom as there are rows.

    Args:
        squared: distances of every row from every row.
        targets: what is regressed.
        bandwidth: of the Gaussian kernel.
    """
    smoother = (squared / (-2 * bandwidth**2)).softmax(-1)
    residual = (targets - smoother @ targets).square().mean((1, 2))
    freedom = smoother.diagonal(dim1=1, dim2=2).sum(-1)
    left = squared.shape[-1] - freedom - 2
    criterion = residual.log() + 1 + 2 * (freedom + 1) / left
    return criterion.masked_fill(left <= 0, torch.inf)
