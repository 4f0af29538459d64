"""Samples rows in rounds, until each meets a target error or its budget is spent.

Means and covariances of the samples are accumulated row by row.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap._messages import warn
from manifold_shap.estimators.evaluator import Evaluator, diagonal
from manifold_shap.estimators.runner import Asking, Result


class Sampler(ABC):
    """Shapley values of all rows, estimated from samples that are taken round by round.

    Args:
        game: the evaluator.
        target_error: stop a row when its largest standard error falls below this share of the
            range of v on that row.

    Attributes:
        unit: what a row's budget is counted in.
        per_step: how many of them one step of a round takes.
        asked: how many coalitions or orders a step asks for, at most.
        spread: largest v seen on each row less the smallest, `[instances, outputs]`.
        taken: steps so far, of the row with the most.
        above: rows that are not done.
    """

    unit: str
    per_step: int = 1
    asked: float
    above: Tensor

    def __init__(self, game: Evaluator, target_error: float | None) -> None:
        self.game, self.target_error = game, target_error
        rows, _, outputs = game.shape
        self.spread = torch.zeros(rows, outputs, dtype=torch.float64, device=game.device)
        self.taken = 0

    @abstractmethod
    def take(self, rows: Tensor, numbers: range) -> Asking[None]:
        """Add the samples of these numbers to these rows."""

    @abstractmethod
    def estimate(
        self, rows: Tensor
    ) -> tuple[Float[Tensor, "rows players outputs"], Float[Tensor, "rows players *errors"]]:
        """Shapley values of rows, and the covariance of each player's outputs or its diagonal."""

    def see(self, rows: Tensor, values: Float[Tensor, "rows some more outputs"]) -> None:
        """Extend the spread of these rows by values of v."""
        where = rows.to(self.spread.device)
        seen = values.amax((1, 2)) - values.amin((1, 2))
        self.spread[where] = self.spread[where].maximum(seen.double())

    def run(self, rounds: Iterable[range], most: int, warns: bool = True) -> Asking[None]:
        """Take samples round by round; in the end `above` are rows that miss the target error.

        Args:
            rounds: numbers of the steps of each round. They must not depend on `batch_size`, or the
                samples would.
            most: steps in all.
            warns: whether to warn of rows that miss the target error.
        """
        self.above, bar = torch.arange(len(self.game.x)), self.game.batches.bar
        bar.total = len(self.above) * most * self.asked
        for some in rounds:
            yield from self.take(self.above, some)
            self.taken = some.stop
            if self.target_error is not None:
                self.above, needed = self._missing(self.above, self.target_error)
                bar.total = bar.n + int(needed.clamp(max=most).sum()) * self.asked
            if len(self.above) == 0:
                break
        if self.target_error is None:
            self.above = self.above[:0]
        if len(self.above) and warns:
            warn(
                f"{len(self.above)} of {len(self.game.x)} rows are above "
                f"target_error={self.target_error} after {self.per_step * self.taken} {self.unit}; "
                f"give more `{self.unit}` or a larger `target_error`.",
            )

    def result(self, made_by: dict[str, Any], degrees_of_freedom: Tensor | None = None) -> Result:
        """The estimates of all rows; `made_by` is extended by what was taken."""
        phi, variance = self.estimate(torch.arange(len(self.game.x)))
        made_by = {**made_by, self.unit: self.per_step * self.taken}
        if self.target_error is not None:
            made_by["target_error"] = self.target_error
        return Result(phi, made_by, variance, degrees_of_freedom)

    def _missing(self, rows: Tensor, target_error: float) -> tuple[Tensor, Tensor]:
        """Rows above the target error, and an estimate of the steps that each still needs."""
        error = diagonal(self.estimate(rows)[1]).clamp(min=0).sqrt()
        worst = error.amax((1, 2)).cpu()
        target = target_error * self.spread[rows.to(self.spread.device)].amax(1).cpu()
        # The error of a single sample is unknown (NaN), not small; a constant game has 0 <= 0.
        above = ~(worst <= target)
        needed = self.taken * ((worst / target).square() - 1)
        return rows[above], needed[above].nan_to_num(nan=torch.inf)


def check_one_budget(unit: str, given: int | None, evaluations: int) -> None:
    """Raise ValueError where a budget is given twice, in `evaluations` and in another unit."""
    if given is not None:
        raise ValueError(
            f"Expected one budget but got evaluations={evaluations} and {unit}={given}; leave one "
            "of them out."
        )


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
        counts, squares = extended(self.counts[where], self._squares), self._squares[where]
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
        self._squares[where] += within + between * extended(before * share, within)
        self.mean[where] += shift * share[..., None]
        self.counts[where] += new

    def _sum(self, numbers: Tensor, owner: Int64[Tensor, "rows samples"]) -> Tensor:
        """Of each player's own numbers `[rows, samples, ...]`."""
        sums = numbers.new_zeros(len(owner), self.counts.shape[1], *numbers.shape[2:])
        return sums.scatter_add_(1, extended(owner, numbers).expand_as(numbers), numbers)


def extended(numbers: Tensor, like: Tensor) -> Tensor:
    """Numbers of the first axes, to broadcast over the others."""
    return numbers.reshape(*numbers.shape, *[1] * (like.ndim - numbers.ndim))


def _products(one: Tensor, other: Tensor, full_covariance: bool) -> Tensor:
    """Of each output with itself, or of all outputs with all."""
    return one[..., :, None] * other[..., None, :] if full_covariance else one * other
