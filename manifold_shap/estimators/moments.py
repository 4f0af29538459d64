"""Accumulates means and covariances of sampled contributions, row by row."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

_SMALLEST = torch.finfo(torch.float64).tiny


class Moments:
    """Mean of the contributions of the pairs so far, and its standard error, in float64.

    Args:
        rows, players, outputs: how many.
        device: where.
        crossed: also accumulate covariances between outputs.

    Attributes:
        mean: `[rows, players, outputs]`.
        pairs: so far, for each row.
    """

    def __init__(
        self, rows: int, players: int, outputs: int, device: torch.device, crossed: bool = False
    ) -> None:
        shape = (rows, players, outputs)
        self.pairs = torch.zeros(rows, dtype=torch.int64)
        self.mean = torch.zeros(shape, dtype=torch.float64, device=device)
        self._crossed = crossed
        self._squares = self.mean.new_zeros(*shape, *((outputs,) if crossed else ()))
        self._range = self.mean.new_zeros(rows, outputs)

    def add(
        self,
        rows: Tensor,
        contributions: Float[Tensor, "rows pairs players outputs"],
        spread: Float[Tensor, "rows outputs"],
    ) -> None:
        """Add new pairs, and the range of v on each row (Chan et al. 1983)."""
        new = contributions.shape[1]
        before = self.pairs[rows].to(self.mean)
        mean = contributions.mean(1, dtype=torch.float64)
        where = rows.to(self.mean.device)
        shift = mean - self.mean[where]
        within = self._products(contributions - mean[:, None])
        between = self._products(shift[:, None])
        weight = before * new / (before + new)
        self._squares[where] += within + between * _over(weight, within)
        self.mean[where] += shift * _over(new / (before + new), shift)
        self.pairs[rows] += new
        self._range[where] = self._range[where].maximum(spread.double())

    def standard_error(self) -> Float[Tensor, "rows players outputs"]:
        """Of the means, over pairs; NaN for a row with one pair only."""
        covariance = self._of_mean()
        return (covariance.diagonal(dim1=2, dim2=3) if self._crossed else covariance).sqrt()

    def covariance(self) -> Float[Tensor, "rows players outputs outputs"] | None:
        """Of the means, over pairs; NaN for a row with one pair only, None if it is not kept."""
        return self._of_mean() if self._crossed else None

    def unfinished(self, rows: Tensor, target_error: float) -> tuple[Tensor, int]:
        """Rows above the target error, and an estimate of the pairs that they still need.

        The target is a share of the range of v on the row.
        """
        where = rows.to(self.mean.device)
        error, spread = self.standard_error()[where], self._range[where]
        return above_target(rows, error, spread, self.pairs[rows], target_error)

    def _products(self, apart: Float[Tensor, "rows pairs players outputs"]) -> Tensor:
        """Squares, or products of all outputs with all, summed over pairs."""
        if self._crossed:
            return torch.einsum("bpio,bpiq->bioq", apart, apart)
        return apart.square().sum(1)

    def _of_mean(self) -> Tensor:
        pairs = _over(self.pairs.to(self.mean.device), self._squares)
        return torch.where(pairs > 1, self._squares / (pairs - 1) / pairs, torch.nan)


class PlayerMoments:
    """Mean of each player's contributions so far, and its error, in float64.

    Players have different numbers of contributions, and those of different players are independent.

    Args:
        rows, players, outputs: how many.
        device: where.
        crossed: also accumulate covariances between outputs.

    Attributes:
        mean: `[rows, players, outputs]`.
        counts: contributions so far `[rows, players]`.
    """

    def __init__(
        self, rows: int, players: int, outputs: int, device: torch.device, crossed: bool = False
    ) -> None:
        shape = (rows, players, outputs)
        self.counts = torch.zeros(rows, players, dtype=torch.int64, device=device)
        self.mean = torch.zeros(shape, dtype=torch.float64, device=device)
        self._crossed = crossed
        self._squares = self.mean.new_zeros(*shape, *((outputs,) if crossed else ()))
        self._range = self.mean.new_zeros(rows, outputs)

    def add(
        self,
        rows: Tensor,
        owner: Int64[Tensor, "rows samples"],
        contributions: Float[Tensor, "rows samples outputs"],
        spread: Float[Tensor, "rows outputs"],
    ) -> None:
        """Add contributions of these players, and the range of v on each row."""
        where = rows.to(self.mean.device)
        before, new = self.counts[where], self._sum(torch.ones_like(owner), owner)
        share = new.double() / (before + new).clamp(min=1)
        mean = self._sum(contributions.double(), owner) / new.clamp(min=1)[..., None]
        apart = contributions - mean.gather(1, owner[..., None].expand_as(contributions))
        shift = mean - self.mean[where]
        within, between = self._sum(self._products(apart), owner), self._products(shift)
        self._squares[where] += within + between * _over(before * share, between)
        self.mean[where] += shift * share[..., None]
        self.counts[where] += new
        self._range[where] = self._range[where].maximum(spread.double())

    def covariance(self, rows: Tensor) -> Float[Tensor, "rows players *errors"]:
        """Of the means, or its diagonal where no more is kept; zero where there are none."""
        where = rows.to(self.mean.device)
        counts, squares = self.counts[where], self._squares[where]
        return squares / _over((counts * (counts - 1)).clamp(min=1), squares)

    def unfinished(
        self, rows: Tensor, error: Float[Tensor, "rows players outputs"], target_error: float
    ) -> tuple[Tensor, int]:
        """Rows above the target, and a guess of the samples that they still need.

        The target is a share of the range of v on the row.
        """
        where = rows.to(self.mean.device)
        taken = self.counts[where].sum(1).cpu()
        return above_target(rows, error, self._range[where], taken, target_error)

    def _products(self, apart: Float[Tensor, "rows many outputs"]) -> Tensor:
        """Squares, or products of all outputs with all."""
        return apart[..., :, None] * apart[..., None, :] if self._crossed else apart.square()

    def _sum(self, numbers: Tensor, owner: Int64[Tensor, "rows samples"]) -> Tensor:
        """Of each player's own numbers `[rows, samples, ...]`."""
        sums = numbers.new_zeros(len(owner), self.counts.shape[1], *numbers.shape[2:])
        return sums.scatter_add_(1, _over(owner, numbers).expand_as(numbers), numbers)


class StratifiedMoments:
    """Mean of stratified samples of all players' contributions, and its error, in float64.

    Two samples per stratum, a replicate, give an unbiased variance estimate. Covariances with the
    sum over players are accumulated, too: see `with_sum`.

    Args:
        rows, players, outputs: how many.
        weights: of the strata; they sum to one.
        device: where.
        crossed: also accumulate covariances between outputs.

    Attributes:
        mean: `[rows, players, outputs]`.
    """

    def __init__(
        self,
        rows: int,
        players: int,
        outputs: int,
        weights: Float[Tensor, " strata"],
        device: torch.device,
        crossed: bool = False,
    ) -> None:
        self.weights = weights.to(device, torch.float64)
        self.mean = torch.zeros((rows, players, outputs), dtype=torch.float64, device=device)
        self._replicates = torch.zeros(rows, dtype=torch.int64, device=device)
        shape = (*self.mean.shape, *((outputs,) if crossed else ()))
        self._own, self._summed = self.mean.new_zeros(shape), self.mean.new_zeros(shape)
        self._fourth = torch.zeros_like(self.mean)
        self._pattern = "btsio,btsiq->bioq" if crossed else "btsio,btsio->bio"

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
        """What one more sample takes away from the variance of all means.

        Of the variance as it is reported: less what the sum over players explains, and widened. NaN
        with fewer than two replicates, which hardly determine it: intervals would be too short
        where it happens to look small.
        """
        common = diagonal(self.summed())
        explained = common.square() / common.sum(1, keepdim=True).clamp(min=_SMALLEST)
        left = (diagonal(self.own()) - explained).clamp(min=0) * self.widening()
        gain = left.sum((1, 2)) / (self._replicates * len(self.weights))
        return torch.where(self._replicates > 1, gain, torch.nan)

    def widening(self) -> Float[Tensor, "rows players outputs"]:
        """What few samples, unequal strata and an uncertain coefficient make of a variance.

        The squares of f normal differences have f degrees of freedom; where some are far larger
        than others it is as if there were fewer (Satterthwaite 1946, by fourth moments). The
        coefficient of the control variate is as uncertain: by f/(f-2) (Lavenberg & Welch 1981).
        """
        squares = diagonal(self._own)
        count = _over(self._replicates * len(self.weights), squares)
        freedom = 3 * squares.square() / self._fourth.clamp(min=_SMALLEST)
        freedom = torch.where(self._fourth > 0, freedom.minimum(count), count).clamp(min=4)
        return freedom / (freedom - 2)


def with_sum(
    parts: Sequence[StratifiedMoments], total: Float[Tensor, "rows outputs"]
) -> tuple[Float[Tensor, "rows players outputs"], Float[Tensor, "rows players *errors"]]:
    """Independent parts of an estimate added up, and corrected by what is known of its sum.

    The sum over players is a control variate with a known mean: each player's regression on it
    takes away what the two have in common. The coefficients sum to one, so that the result has
    exactly this sum.

    Args:
        parts: of the estimate.
        total: what the sum over players is.

    Returns:
        The estimate, and the covariance of each player's outputs, or its diagonal.
    """
    mean: Any = sum(part.mean for part in parts)
    own: Any = sum(part.own() for part in parts)
    summed: Any = sum(part.summed() for part in parts)
    common = diagonal(summed)
    variance = common.sum(1, keepdim=True)
    share = torch.where(variance > 0, common / variance, _sizes(mean))
    mean = mean - share * (mean.sum(1) - total)[:, None]
    widening = _widening(parts)
    if own.ndim == 3:
        return mean, (own - share * common).clamp(min=0) * widening
    taken = summed * share[:, :, None]
    both = share[..., :, None] * share[..., None, :] * summed.sum(1, keepdim=True)
    root = widening.sqrt()
    return mean, (own - taken - taken.mT + both) * root[..., :, None] * root[..., None, :]


def _sizes(mean: Float[Tensor, "rows players outputs"]) -> Tensor:
    """Shares where samples happen not to vary: who adds nothing gets nothing."""
    size = mean.abs()
    total = size.sum(1, keepdim=True)
    return torch.where(total > 0, size / total, 1 / mean.shape[1])


def _widening(parts: Sequence[StratifiedMoments]) -> Float[Tensor, "rows players outputs"]:
    """That of the parts, each by its share of the variance."""
    variances = [diagonal(part.own()) for part in parts]
    total: Any = sum(variances)
    weighted: Any = sum(each * part.widening() for each, part in zip(variances, parts, strict=True))
    return torch.where(total > 0, weighted / total, 1.0)


def diagonal(covariance: Float[Tensor, "rows players *errors"]) -> Tensor:
    """Variances `[rows, players, outputs]` of covariances, or of their diagonals."""
    return covariance.diagonal(dim1=2, dim2=3) if covariance.ndim == 4 else covariance


def above_target(
    rows: Tensor,
    error: Float[Tensor, "rows players outputs"],
    spread: Float[Tensor, "rows outputs"],
    taken: Int64[Tensor, " rows"],
    target_error: float,
) -> tuple[Tensor, int]:
    """Rows whose largest error is above a share of the range of v, and a guess of what they need.

    Args:
        rows: numbers of rows.
        error: standard errors.
        spread: range of v.
        taken: samples so far.
        target_error: the share.
    """
    worst, target = error.amax((1, 2)), target_error * spread.amax(1)
    # The error of a single pair is unknown (NaN), not small; a constant game has 0 <= 0.
    above = ~(worst <= target).cpu()
    ratio = (worst / target).cpu().nan_to_num(nan=1.0, posinf=1.0)
    needed = taken * (ratio.square() - 1)
    return rows[above], int(needed[above].sum())


def _over(numbers: Tensor, like: Tensor) -> Tensor:
    """Numbers of the first axes, to broadcast over the others."""
    return numbers.reshape(*numbers.shape, *[1] * (like.ndim - numbers.ndim))
