"""Scaled Mahalanobis distances on any subset of elements, many subsets at once."""

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from manifold_shap.imputers.base import arrivals
from manifold_shap.imputers.covariance import Moments

# Float64 numbers held at a time: 32 MiB. More leave a processor's cache and are slower.
_MOST_ELEMENTS = 2**22


class Mahalanobis(nn.Module):
    """ρ_S(x, z)² = (z - x)_S' Σ_S⁻¹ (z - x)_S / |S| to every reference row z (Carballo, Eq. 3.4.5).

    Of a constant column all rows are equally far: it counts in |S| only, whatever x has in it.

    Args:
        rows: reference rows.
        moments: of the distribution; the mean is near the rows, so that few digits cancel.
    """

    centre: Tensor
    inverse_scale: Tensor
    correlation: Tensor
    standard: Tensor

    def __init__(
        self,
        rows: Float[Tensor, "rows elements"],
        moments: Moments,
    ) -> None:
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
        """Squared distances of the pairs (x, S), a part of the pairs at a time, with their numbers.

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
            of_rows = (precision @ self.standard.T).mul_(self.standard.T).sum(1)
            size = block.sum(-1).clamp(min=1)
            # One matrix for all pairs is not copied for each of them.
            step = most if len(block) > 1 else max(1, _MOST_ELEMENTS // max(rows, elements))
            for some in own.split(step):
                each = which[some] - first
                yield some, self._squared(x[some], precision, of_rows, each).div_(size[each, None])

    def parts_along(
        self,
        x: Float[Tensor, "runs elements"],
        present: Bool[Tensor, "runs run elements"],
    ) -> Iterator[Float[Tensor, "some rows"]]:
        """Squared distances on each of the coalitions that grow within a run, of some runs in turn.

        With the elements as they arrive and Σ = L L', the distance on the first of them is the sum
        of the first squares of L⁻¹ (z - x).
        """
        rows, elements = self.standard.shape
        identity = torch.eye(elements, dtype=torch.float64, device=x.device)
        step = max(1, _MOST_ELEMENTS // (max(rows, elements) * elements))
        for given, coalitions in zip(x.split(step), present.split(step), strict=True):
            order, arrival = arrivals(coalitions)
            factor = torch.linalg.cholesky(self.correlation[order[:, :, None], order[:, None]])
            whiten = torch.linalg.solve_triangular(factor, identity[order], upper=False)
            own = whiten @ ((given - self.centre) * self.inverse_scale)[..., None]
            squares = (whiten @ self.standard.T).sub_(own).square_()
            last = torch.arange(coalitions.shape[1], device=x.device)[:, None]
            size = coalitions.sum(-1, keepdim=True).clamp(min=1)
            arrived = (arrival[:, None] <= last).double()
            yield (arrived @ squares).div_(size).flatten(0, 1)

    def _squared(
        self,
        x: Float[Tensor, "pairs elements"],
        precision: Float[Tensor, "subsets elements elements"],
        of_rows: Float[Tensor, "subsets rows"],
        which: Int64[Tensor, " pairs"],
    ) -> Float[Tensor, "pairs rows"]:
        """(z - x)_S' Σ_S⁻¹ (z - x)_S of each pair, given Σ_S⁻¹ and its form on the rows z."""
        x = (x - self.centre) * self.inverse_scale
        if len(precision) == 1:
            towards = x @ precision[0]
        else:
            towards = torch.einsum("pij,pj->pi", precision[which], x)
        of_x = (towards * x).sum(-1, keepdim=True)
        return (of_rows[which] + of_x - 2 * towards @ self.standard.T).clamp_(min=0)

    def _precision(
        self, subsets: Bool[Tensor, "subsets elements"]
    ) -> Float[Tensor, "subsets elements elements"]:
        """Σ_S⁻¹ with zeros for absent elements, of all subsets by one factorisation."""
        inside = (subsets[:, None] & subsets[:, :, None]).double()
        padded = self.correlation * inside + torch.diag_embed((~subsets).double())
        return torch.cholesky_inverse(torch.linalg.cholesky(padded)) * inside
