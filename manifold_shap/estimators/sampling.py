"""Samples rows in rounds, until each meets a target error or its budget is spent."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float
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
