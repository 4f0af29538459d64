"""Accumulates means and covariances of sampled contributions, row by row."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap.estimators.evaluator import diagonal

_SMALLEST = torch.finfo(torch.float64).tiny
# A sum that varies by less than this share of its parts' variances varies by rounding alone.
_ROUNDING = 1e-10


class Moments:
    """Mean of each player's contributions so far, and its variance, in float64.

    Args:
        shape: numbers of rows, players and outputs.
        device: where.
        full_covariance: also accumulate covariances between outputs.

    Attributes:
        mean: `[rows, players, outputs]`.
        counts: contributions so far, `[rows, players]`.
    """

    def __init__(
        self, shape: tuple[int, int, int], device: torch.device, full_covariance: bool = False
    ) -> None:
        rows, players, outputs = shape
        self.mean = torch.zeros(shape, dtype=torch.float64, device=device)
        self.counts = torch.zeros(rows, players, dtype=torch.int64, device=device)
        self._full_covariance = full_covariance
        self._squares = self.mean.new_zeros(*shape, *((outputs,) if full_covariance else ()))

    def add(
        self,
        rows: Tensor,
        contributions: Float[Tensor, "rows samples players outputs"],
    ) -> None:
        """Add equally many contributions of all players."""
        mean = contributions.mean(1, dtype=torch.float64)
        apart = contributions - mean[:, None]
        if self._full_covariance:
            within = torch.einsum("bpio,bpiq->bioq", apart, apart)
        else:
            within = apart.square().sum(1)
        new = torch.full_like(self.counts[:1], contributions.shape[1])
        self._merge(rows, new, mean, within)

    def add_single(
        self,
        rows: Tensor,
        owner: Int64[Tensor, "rows samples"],
        contributions: Float[Tensor, "rows samples outputs"],
    ) -> None:
        """Add contributions of one player each, the owner."""
        new = self._sum(torch.ones_like(owner), owner)
        mean = self._sum(contributions.double(), owner) / new.clamp(min=1)[..., None]
        apart = contributions - mean.gather(1, owner[..., None].expand_as(contributions))
        self._merge(
            rows, new, mean, self._sum(_products(apart, apart, self._full_covariance), owner)
        )

    def variance(self, rows: Tensor) -> Float[Tensor, "rows players *errors"]:
        """Covariances of the means, or their diagonal where no more is kept.

        NaN where there are fewer than two contributions.
        """
        where = rows.to(self.mean.device)
        counts, squares = _over(self.counts[where], self._squares), self._squares[where]
        return torch.where(counts > 1, squares / (counts - 1) / counts, torch.nan)

    def _merge(
        self,
        rows: Tensor,
        new: Int64[Tensor, "#rows players"],
        mean: Float[Tensor, "rows players outputs"],
        within: Float[Tensor, "rows players *errors"],
    ) -> None:
        """Add new contributions by their number, mean and squares about it (Chan et al. 1983)."""
        where = rows.to(self.mean.device)
        before = self.counts[where]
        share = new.double() / (before + new).clamp(min=1)
        shift = mean - self.mean[where]
        between = _products(shift, shift, self._full_covariance)
        self._squares[where] += within + between * _over(before * share, within)
        self.mean[where] += shift * share[..., None]
        self.counts[where] += new

    def _sum(self, numbers: Tensor, owner: Int64[Tensor, "rows samples"]) -> Tensor:
        """Of each player's own numbers `[rows, samples, ...]`."""
        sums = numbers.new_zeros(len(owner), self.counts.shape[1], *numbers.shape[2:])
        return sums.scatter_add_(1, _over(owner, numbers).expand_as(numbers), numbers)


class StratifiedMoments:
    """Mean of stratified samples of all players' contributions, and its variance, in float64.

    Two samples per stratum, a replicate, give an unbiased variance estimate. Covariances with the
    sum over players are accumulated, too: see `with_sum`.

    Args:
        shape: numbers of rows, players and outputs.
        weights: of the strata; they sum to one.
        device: where.
        full_covariance: also accumulate covariances between outputs.

    Attributes:
        mean: `[rows, players, outputs]`.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        weights: Float[Tensor, " strata"],
        device: torch.device,
        full_covariance: bool = False,
    ) -> None:
        self.weights = weights.to(device, torch.float64)
        self.mean = torch.zeros(shape, dtype=torch.float64, device=device)
        self._replicates = torch.zeros(shape[0], dtype=torch.int64, device=device)
        self._own = self.mean.new_zeros(*shape, *(shape[2:] if full_covariance else ()))
        self._summed = torch.zeros_like(self._own)
        self._fourth = torch.zeros_like(self.mean)
        self._pattern = "btsio,btsiq->bioq" if full_covariance else "btsio,btsio->bio"

    def add(
        self, rows: Tensor, samples: Float[Tensor, "rows replicates 2 strata players outputs"]
    ) -> None:
        """Add new samples."""
        rows, new = rows.to(self.mean.device), samples.shape[1]
        weighted = samples.double() * self.weights[:, None, None]
        mean = weighted.sum(3).mean((1, 2))
        before = self._replicates[rows]
        self.mean[rows] += (mean - self.mean[rows]) * _over(new / (before + new), mean)
        self._replicates[rows] += new
        apart = weighted[:, :, 0] - weighted[:, :, 1]
        summed = apart.sum(3, keepdim=True).expand_as(apart)
        self._own[rows] += torch.einsum(self._pattern, apart, apart)
        self._summed[rows] += torch.einsum(self._pattern, apart, summed)
        self._fourth[rows] += apart.square().square().sum((1, 2))

    def own(self) -> Float[Tensor, "rows players *errors"]:
        """Covariance of the means of each player's outputs, or its diagonal."""
        return self._of_mean(self._own)

    def summed(self) -> Float[Tensor, "rows players *errors"]:
        """The same of the outputs of a player's mean (first) and of the sum of all (second)."""
        return self._of_mean(self._summed)

    def _of_mean(self, products: Tensor) -> Tensor:
        # A mean of m replicates has the variance of a difference, over 4m.
        replicates = _over(self._replicates, products)
        return torch.where(replicates > 0, products / (4 * replicates.square()), torch.nan)

    def gain(self) -> Float[Tensor, " rows"]:
        """Reduction of the variance of all means by one more sample.

        It is that of the reported variance: without the part that the control variate explains, and
        widened. NaN with fewer than two replicates, from which it may by chance seem small and
        intervals be too short.
        """
        common = diagonal(self.summed())
        explained = common.square() / common.sum(1, keepdim=True).clamp(min=_SMALLEST)
        left = (diagonal(self.own()) - explained).clamp(min=0) * self.widening()
        gain = left.sum((1, 2)) / (self._replicates * len(self.weights))
        return torch.where(self._replicates > 1, gain, torch.nan)

    def widening(self) -> Float[Tensor, "rows players outputs"]:
        """Factor of the variance for few samples, unequal strata and an estimated coefficient.

        The squares of f normal differences have f degrees of freedom, effectively fewer where some
        are far larger than others (Satterthwaite 1946, by fourth moments). Estimating the
        coefficient of the control variate costs a factor of f/(f-2) (Lavenberg & Welch 1981).
        """
        squares = diagonal(self._own)
        count = _over(self._replicates * len(self.weights), squares)
        freedom = 3 * squares.square() / self._fourth.clamp(min=_SMALLEST)
        freedom = torch.where(self._fourth > 0, freedom.minimum(count), count).clamp(min=4)
        return freedom / (freedom - 2)


def with_sum(
    parts: Sequence[StratifiedMoments], total: Float[Tensor, "rows outputs"]
) -> tuple[Float[Tensor, "rows players outputs"], Float[Tensor, "rows players *errors"]]:
    """Sum of independent parts of an estimate, with its sum over players as control variate.

    The mean of that sum is known: the regression of each player's estimate on it removes their
    common error. The coefficients sum to one, so that the result has exactly the known sum.

    Args:
        parts: of the estimate.
        total: the known sum over players.

    Returns:
        The estimate, and the covariance of each player's outputs, or its diagonal.
    """
    mean: Any = sum(part.mean for part in parts)
    own: Any = sum(part.own() for part in parts)
    summed: Any = sum(part.summed() for part in parts)
    common = diagonal(summed)
    variance = common.sum(1, keepdim=True)
    # Where the sum does not vary, as with two players, shares are by size: zeros stay zero.
    size = mean.abs()
    whole = size.sum(1, keepdim=True)
    by_size = torch.where(whole > 0, size / whole, 1 / mean.shape[1])
    varies = variance > _ROUNDING * diagonal(own).sum(1, keepdim=True)
    share = torch.where(varies, common / variance, by_size)
    mean = mean - share * (mean.sum(1) - total)[:, None]
    widening = _widening(parts)
    if own.ndim == 3:
        return mean, (own - share * common).clamp(min=0) * widening
    taken = summed * share[:, :, None]
    both = share[..., :, None] * share[..., None, :] * summed.sum(1, keepdim=True)
    root = widening.sqrt()
    return mean, (own - taken - taken.mT + both) * root[..., :, None] * root[..., None, :]


def _widening(parts: Sequence[StratifiedMoments]) -> Float[Tensor, "rows players outputs"]:
    """Mean of the parts' factors, weighted by their variances."""
    variances = [diagonal(part.own()) for part in parts]
    total: Any = sum(variances)
    weighted: Any = sum(each * part.widening() for each, part in zip(variances, parts, strict=True))
    return torch.where(total > 0, weighted / total, 1.0)


def _over(numbers: Tensor, like: Tensor) -> Tensor:
    """Numbers of the first axes, to broadcast over the others."""
    return numbers.reshape(*numbers.shape, *[1] * (like.ndim - numbers.ndim))


def _products(one: Tensor, other: Tensor, full_covariance: bool) -> Tensor:
    """Of each output with itself, or of all outputs with all."""
    return one[..., :, None] * other[..., None, :] if full_covariance else one * other
