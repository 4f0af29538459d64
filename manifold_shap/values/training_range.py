"""The range of the training rows, and which rows are far outside of it."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._messages import warn
from manifold_shap._stored import StoredRows

# The range of fewer rows says little: a baseline is one row, a contrast a few.
_FEWEST = 100


class TrainingRange(NamedTuple):
    """The smallest and the largest value of each element of a row, as networks see it.

    >>> TrainingRange.of(torch.rand(200, 2)).count_far_outside(torch.tensor([[0.5, 0.7]]))
    0
    """

    low: Float[Tensor, "*event"]
    high: Float[Tensor, "*event"]

    @classmethod
    def of(cls, rows: Float[Tensor, "rows *event"] | StoredRows) -> "TrainingRange | None":
        """The range of rows; None of fewer than a hundred."""
        if len(rows) < _FEWEST:
            return None
        if isinstance(rows, StoredRows):
            return cls(*rows.extent)
        return cls(rows.amin(0).cpu(), rows.amax(0).cpu())

    def count_far_outside(self, x: Float[Tensor, "rows *event"]) -> int:
        """How many rows are far outside, with a warning if there are any.

        A row is far outside if one of its elements is beyond the range by more than its width.
        Elements that never vary in the data do not count.
        """
        width, rows = self.high - self.low, x.cpu()
        beyond = torch.maximum(self.low - rows, rows - self.high)
        far = int(((beyond > width) & (width > 0)).flatten(1).any(1).sum())
        if far:
            warn(
                f"{far} of {len(rows)} rows are far outside of the data that the value function "
                "was made from (by more than its whole range in some column). It extrapolates "
                "there, which no standard error counts; check the units of these rows."
            )
        return far
