"""Computes the kernel of the empirical imputer: scaled Mahalanobis distances, and bandwidths."""

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from manifold_shap.coalitions import distinct_coalitions
from manifold_shap.imputers.normal import Moments, factorised, factorised_by_arrival
from manifold_shap.players import Players

# Float64 numbers held at a time: 32 MiB; and of those that several steps pass over, on a CPU 2 MiB:
# more of them leave its cache and are slower.
_MOST_ELEMENTS = 2**22
_MOST_ELEMENTS_CPU = 2**18

# With fewer subsets, products of all pairs of elements take longer than they save.
_LEAST_SUBSETS = 16

# The search for a bandwidth: candidates, rows (whose squared number is held for each coalition),
# coalitions of a size, and sizes.
_GRID = torch.logspace(-1.5, 0.5, 25, dtype=torch.float64)
_ROWS = 400
_COALITIONS = 6
_SIZES = 16


class Mahalanobis(nn.Module):
    """ρ_S(x, z)² = (z - x)_S' Σ_S⁻¹ (z - x)_S / |S| to every reference row z (Aas et al. 2021).

    A constant column adds the same to all distances: it counts in |S| only, whatever x has in it.

    Args:
        rows: reference rows.
        moments: of the distribution; the mean is near the rows, so that few digits cancel.
    """

    centre: Tensor
    inverse_scale: Tensor
    correlation: Tensor
    standard: Tensor

    def __init__(self, rows: Float[Tensor, "rows elements"], moments: Moments) -> None:
        super().__init__()
        scale = moments.scale
        inverse = torch.where(scale > 0, 1 / scale, 0)
        buffers = {
            "centre": moments.mean,
            "inverse_scale": inverse,
            "correlation": moments.correlation,
            "standard": (rows - moments.mean) * inverse,
        }
        for name, tensor in buffers.items():
            self.register_buffer(name, tensor, persistent=False)

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
            precision = self._precision(block)
            of_rows = self._of_rows(precision)
            size = block.sum(-1).clamp(min=1)
            # A single matrix is not copied for each pair.
            copied = elements**2 if len(block) > 1 else elements
            step = max(1, min(self._at_a_time // rows, _MOST_ELEMENTS // max(rows, copied)))
            for some in own.split(step):
                each = which[some] - first
                yield some, self._squared(x[some], precision, of_rows, each).div_(size[each, None])

    def parts_nested(
        self,
        x: Float[Tensor, "runs elements"],
        present: Bool[Tensor, "runs run elements"],
    ) -> Iterator[tuple[Int64[Tensor, " some"], Float[Tensor, "some rows"]]]:
        """As `parts`, for the coalitions of runs, nested in each: for some runs at a time.

        With the elements in the order in which they join and Σ = L L', the distance on the first
        of them is the sum of the first squares of L⁻¹ (z - x).
        """
        rows, elements = self.standard.shape
        identity = torch.eye(elements, dtype=torch.float64, device=x.device)
        step = max(1, self._at_a_time // (max(rows, elements) * elements))
        numbers = torch.arange(present.shape[:2].numel(), device=x.device).view(present.shape[:2])
        split = (each.split(step) for each in (numbers, x, present))
        for some, given, coalitions in zip(*split, strict=True):
            factor, order, arrival = factorised_by_arrival(self.correlation, coalitions)
            whiten = torch.linalg.solve_triangular(factor, identity[order], upper=False)
            own = whiten @ ((given - self.centre) * self.inverse_scale)[..., None]
            squares = (whiten @ self.standard.T).sub_(own).square_()
            last = torch.arange(coalitions.shape[1], device=x.device)[:, None]
            size = coalitions.sum(-1, keepdim=True).clamp(min=1)
            arrived = (arrival[:, None] <= last).double()
            yield some.flatten(), (arrived @ squares).div_(size).flatten(0, 1)

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

    def _precision(
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
        squared = _pairwise(distance, rows[some], present)
        # By default only absent elements have to be predicted.
        absent = wanted * ~present[:, None] if targets is None else wanted.expand(len(mask), -1, -1)
        score = torch.stack([corrected_akaike(squared, absent, float(s)).mean() for s in _GRID])
        chosen.append(float(_GRID[int(score.argmin())]))
    between = np.interp(np.arange(count + 1), sizes.numpy(), np.log(chosen))
    return torch.from_numpy(np.exp(between)).float()


def _pairwise(
    distance: Mahalanobis,
    rows: Float[Tensor, "rows elements"],
    present: Bool[Tensor, "coalitions elements"],
) -> Float[Tensor, "coalitions rows rows"]:
    """Squared distances between the rows, for each coalition."""
    which = torch.arange(len(present), device=rows.device).repeat_interleave(len(rows))
    parts = distance.parts(rows.repeat(len(present), 1), present, which)
    order, squared = zip(*parts, strict=True)
    back = torch.cat(order).argsort()
    return torch.cat(squared).float()[back].unflatten(0, (len(present), len(rows)))


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
