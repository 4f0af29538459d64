"""Tells rows far outside of the data that a value function was made from."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._messages import warn
from manifold_shap._stored import StoredRows

# Of fewer rows the range says little: a baseline is one row, a contrast a few.
_FEWEST = 100


class Seen(NamedTuple):
    """The smallest and the largest value of each element of a row, as networks see it, in the data.

    >>> seen = Seen.of(torch.rand(200, 2))
    >>> outside(None, torch.tensor([[0.5, 70.0]]))
    {}
    """

    low: Float[Tensor, "*event"]
    high: Float[Tensor, "*event"]

    @classmethod
    def of(cls, rows: Float[Tensor, "rows *event"] | StoredRows) -> "Seen | None":
        """The range of rows; None of fewer than a hundred."""
        if len(rows) < _FEWEST:
            return None
        if isinstance(rows, StoredRows):
            return cls(*rows.extent)
        return cls(rows.amin(0).cpu(), rows.amax(0).cpu())


def outside(seen: Seen | None, x: Float[Tensor, "rows *event"]) -> dict[str, int]:
    """What an explanation records of rows far outside, after a warning; nothing if there are none.

    A row is far outside if one of its elements is beyond the range of the data by more than the
    width of that range. Elements that never vary in the data do not count.
    """
    if seen is None:
        return {}
    width, rows = seen.high - seen.low, x.cpu()
    beyond = torch.maximum(seen.low - rows, rows - seen.high)
    far = int(((beyond > width) & (width > 0)).flatten(1).any(1).sum())
    if far == 0:
        return {}
    warn(
        f"{far} of {len(rows)} rows are far outside of the data that the value function was made "
        "from (by more than its whole range in some column). It extrapolates there, which no "
        "standard error counts; check the units of these rows.",
    )
    return {"rows_far_outside": far}
