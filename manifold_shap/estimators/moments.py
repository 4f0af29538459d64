"""Running mean and spread of sampled contributions, row by row."""

import torch
from jaxtyping import Float
from torch import Tensor


class Moments:
    """Mean of the contributions of the pairs walked so far, and its error, in float64.

    Attributes:
        mean: `[rows, players, outputs]`.
        pairs: walked so far for each row.
    """

    def __init__(self, rows: int, players: int, outputs: int, device: torch.device) -> None:
        shape = (rows, players, outputs)
        self.pairs = torch.zeros(rows, dtype=torch.int64)
        self.mean = torch.zeros(shape, dtype=torch.float64, device=device)
        self._squares = torch.zeros_like(self.mean)
        self._range = torch.zeros(rows, outputs, device=device)

    def add(
        self,
        rows: Tensor,
        contributions: Float[Tensor, "rows pairs players outputs"],
        spread: Float[Tensor, "rows outputs"],
    ) -> None:
        """Take in new pairs, and the range of v seen on each row (Chan et al. 1983)."""
        new = contributions.shape[1]
        before = self.pairs[rows].to(self.mean.device)[:, None, None]
        mean = contributions.mean(1, dtype=torch.float64)
        squares = (contributions - mean[:, None]).square().sum(1)
        where = rows.to(self.mean.device)
        shift = mean - self.mean[where]
        self._squares[where] += squares + shift.square() * (before * new / (before + new))
        self.mean[where] += shift * (new / (before + new))
        self.pairs[rows] += new
        self._range[where] = self._range[where].maximum(spread)

    def standard_error(self) -> Float[Tensor, "rows players outputs"]:
        """Of the means, over pairs; NaN for a row with one pair only."""
        pairs = self.pairs.to(self.mean.device)[:, None, None]
        variance = self._squares / (pairs - 1)
        return torch.where(pairs > 1, (variance / pairs).sqrt(), torch.nan)

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
