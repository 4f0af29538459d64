"""Running mean and spread of sampled contributions, row by row."""

import torch
from jaxtyping import Float
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
        self._range = torch.zeros(rows, outputs, device=device)

    def add(
        self,
        rows: Tensor,
        contributions: Float[Tensor, "rows pairs players outputs"],
        spread: Float[Tensor, "rows outputs"],
    ) -> None:
        """Take in new pairs, and the range of v seen on each row (Chan et al. 1983)."""
        new = contributions.shape[1]
        before = self.pairs[rows].to(self.mean.device)
        mean = contributions.mean(1, dtype=torch.float64)
        where = rows.to(self.mean.device)
        shift = mean - self.mean[where]
        within = self._products(contributions - mean[:, None])
        between = self._products(shift[:, None])
        weight = before * new / (before + new)
        self._squares[where] += within + between * _over(weight, within)
        self.mean[where] += shift * _over(new / (before + new), shift)
        self.pairs[rows] += new
        self._range[where] = self._range[where].maximum(spread)

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
        worst = self.standard_error()[where].amax((1, 2))
        target = target_error * self._range[where].amax(1)
        # The error of a single pair is unknown (NaN), not small; a constant game has 0 <= 0.
        above = ~(worst <= target).cpu()
        ratio = (worst / target).cpu().nan_to_num(nan=1.0, posinf=1.0)
        needed = self.pairs[rows] * (ratio.square() - 1)
        return rows[above], int(needed[above].sum())

    def _products(self, apart: Float[Tensor, "rows pairs players outputs"]) -> Tensor:
        """Squares, or products of all outputs with all, summed over pairs."""
        if self._crossed:
            return torch.einsum("bpio,bpiq->bioq", apart, apart)
        return apart.square().sum(1)

    def _of_mean(self) -> Tensor:
        pairs = _over(self.pairs.to(self.mean.device), self._squares)
        return torch.where(pairs > 1, self._squares / (pairs - 1) / pairs, torch.nan)


def _over(numbers: Tensor, like: Tensor) -> Tensor:
    """One number per row, to broadcast over the other axes."""
    return numbers.reshape(-1, *[1] * (like.ndim - 1))
