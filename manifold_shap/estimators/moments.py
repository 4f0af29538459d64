"""Running mean and spread of sampled contributions, row by row."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor


class Moments:
    """Mean of the contributions of the pairs walked so far, and its error, in float64.

    Args:
        rows, players, outputs: how many.
        device: where.
        crossed: keep what outputs have to do with each other, too.

    Attributes:
        mean: `[rows, players, outputs]`.
        pairs: walked so far for each row.
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
        """Take in new pairs, and the range of v seen on each row (Chan et al. 1983)."""
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
        """Rows above the target, and a guess of the pairs that they still need.

        The target is a share of the range of v on the row.
        """
        where = rows.to(self.mean.device)
        error, spread = self.standard_error()[where], self._range[where]
        return _unfinished(rows, error, spread, self.pairs[rows], target_error)

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
        crossed: keep what outputs have to do with each other, too.

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
        """Take in contributions of these players, and the range of v seen on each row."""
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
        return _unfinished(rows, error, self._range[where], taken, target_error)

    def _products(self, apart: Float[Tensor, "rows many outputs"]) -> Tensor:
        """Squares, or products of all outputs with all."""
        return apart[..., :, None] * apart[..., None, :] if self._crossed else apart.square()

    def _sum(self, numbers: Tensor, owner: Int64[Tensor, "rows samples"]) -> Tensor:
        """Of each player's own numbers `[rows, samples, ...]`."""
        sums = numbers.new_zeros(len(owner), self.counts.shape[1], *numbers.shape[2:])
        return sums.scatter_add_(1, _over(owner, numbers).expand_as(numbers), numbers)


def diagonal(covariance: Float[Tensor, "rows players *errors"]) -> Tensor:
    """Variances `[rows, players, outputs]` of covariances, or of their diagonals."""
    return covariance.diagonal(dim1=2, dim2=3) if covariance.ndim == 4 else covariance


def _unfinished(
    rows: Tensor,
    error: Float[Tensor, "rows players outputs"],
    spread: Float[Tensor, "rows outputs"],
    taken: Int64[Tensor, " rows"],
    target_error: float,
) -> tuple[Tensor, int]:
    worst, target = error.amax((1, 2)), target_error * spread.amax(1)
    # The error of a single pair is unknown (NaN), not small; a constant game has 0 <= 0.
    above = ~(worst <= target).cpu()
    ratio = (worst / target).cpu().nan_to_num(nan=1.0, posinf=1.0)
    needed = taken * (ratio.square() - 1)
    return rows[above], int(needed[above].sum())


def _over(numbers: Tensor, like: Tensor) -> Tensor:
    """Numbers of the first axes, to broadcast over the others."""
    return numbers.reshape(*numbers.shape, *[1] * (like.ndim - numbers.ndim))
