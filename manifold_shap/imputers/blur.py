"""Removes parts of pictures and series by blurring them."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from manifold_shap._checks import check_number
from manifold_shap.coalitions import Coalitions
from manifold_shap.convolutions import check_positions
from manifold_shap.imputers.base import Completions, Imputer, Rows
from manifold_shap.players import Players

# A Gaussian window reaches so many standard deviations to each side.
_REACH = 3


class BlurImputer(Imputer):
    """Absent elements come from a blurred copy of the row itself (Fong and Vedaldi 2017).

    The blurred copy is of the whole row, so that absent elements are washed out but not unseen: a
    wide `sigma` leaves little of them. v(∅) is the model's output at the blurred row, and differs
    from row to row. A single draw is exact.

    Args:
        reference: background data, pictures `[rows, channels, height, width]` or series
            `[rows, channels, time]`, on which the model is checked.
        players: see `Players`; by default pixels of pictures, else every element of a row.
        sigma: standard deviation of the Gaussian, in pixels or time points.

    Raises:
        TypeError, ValueError: `reference` is no tensor or array of finite pictures or series of the
            shape that `players` own, or `sigma` is no number above 0.

    >>> x = torch.zeros(1, 1, 5, 5)
    >>> x[..., 2, 2] = 1
    >>> imputer = BlurImputer(x, Players.pixels((1, 5, 5)), sigma=0.5)
    >>> mask = torch.zeros(1, 1, 25, dtype=torch.bool)
    >>> from manifold_shap.coalitions import Listed
    >>> blurred = imputer.impute(x, Listed(mask, torch.tensor([[0]])), range(1)).rows
    >>> [round(number, 2) for number in blurred[0, 0, 0, 0, 2].tolist()]
    [0.0, 0.08, 0.62, 0.08, 0.0]
    """

    name, distinct_draws, base_by_row, learned = "blur", 1, True, False

    def __init__(self, reference: Any, players: Players | None = None, sigma: float = 5.0) -> None:
        super().__init__(reference, players)
        self.axes = len(check_positions(self.players.event, self.players.index.flatten().tolist()))
        self.sigma = check_number("sigma", sigma, above=0)
        reach = math.ceil(_REACH * self.sigma)
        distance = torch.arange(-reach, reach + 1, device=self.device) / self.sigma
        window = (-distance.square() / 2).softmax(0).to(self.reference)
        self.window = nn.Buffer(window, persistent=False)

    @property
    def provenance(self) -> dict[str, Any]:
        return {"sigma": self.sigma}

    def impute(self, x: Rows, coalitions: Coalitions, draws: range) -> Completions:
        """Take absent elements from the blurred row, the same in all draws."""
        mask = coalitions.masks()
        rows = self.splice(x, mask, self.blurred(x)[:, None, None])
        return Completions(rows.expand(-1, -1, len(draws), *self.players.event))

    def blurred(self, x: Rows) -> Float[Tensor, "batch *event"]:
        """Rows smoothed along each of their axes but the channels; the border is continued."""
        reach = len(self.window) // 2
        for axis in range(-self.axes, 0):
            lines = x.movedim(axis, -1)
            flat = F.pad(lines.flatten(0, -2)[:, None], (reach, reach), mode="replicate")
            x = F.conv1d(flat, self.window[None, None]).view(lines.shape).movedim(-1, axis)
        return x
