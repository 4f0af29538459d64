"""The true Shapley values of a model on rows of a table whose law is known, by exact draws."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap import _random
from manifold_shap.data.mixture import NAMES, MixtureLaw

_BASE_DRAWS = 2**16


class TrueValue(ms.ValueFunction):
    """v(S) = E[f(X) | x_S] of a model of frames, the mean over exact draws of absent cells.

    A row is told by its position among the rows of a frame: each element of `x` is the row that the
    cell is from.

    Attributes:
        x: all of these rows.

    Args:
        predict: maps a frame to an array `[rows, outputs]`.
        law: of the table.
        frame: rows to explain.
        outputs: names.
        draws: of a coalition.
    """

    name = "truth"
    sampled = True
    batch_size = 2**18

    def __init__(
        self,
        predict: Callable[[pd.DataFrame], Any],
        law: MixtureLaw,
        frame: pd.DataFrame,
        outputs: Sequence[str],
        draws: int = 256,
    ) -> None:
        super().__init__(ms.Players.of_elements((len(NAMES),), NAMES), outputs)
        self.predict, self.law, self.draws = predict, law, draws
        self.x = torch.arange(float(len(frame)))[:, None].expand(-1, len(NAMES)).contiguous()
        self._cells = law.cells(frame)
        self._predictions = self._mean(self._cells[:, None])
        self._base = self._mean(law.cells(law.sample(_BASE_DRAWS))[None])

    def values(self, x: Tensor, mask: Tensor, keys: Tensor) -> Tensor:
        # Other coalitions of a row have numbers of their own: their errors average out.
        places = (1 << torch.arange(len(NAMES))) * mask
        own = _random.fold(_random.fold(keys, x[:, :1].long()), places.sum(-1))
        drawn = self.law.complete(self._of(x), mask, range(self.draws), own)
        return self._mean(drawn.reshape(-1, *drawn.shape[2:])).unflatten(0, mask.shape[:2])

    def prediction(self, x: Tensor) -> Tensor:
        return self._predictions[x[:, 0].long()]

    def base(self, x: Tensor) -> Tensor:
        return self._base.expand(len(x), -1)

    def _of(self, x: Tensor) -> Any:
        return self._cells[x.long().numpy(), np.arange(len(NAMES))]

    def _mean(self, cells: Any) -> Tensor:
        """Of the model's outputs on `[batch, draws, columns]`, over the draws."""
        frame = self.law.frame(cells.reshape(-1, cells.shape[-1]))
        outputs = np.asarray(self.predict(frame)).reshape(*cells.shape[:2], -1)
        return torch.from_numpy(outputs.mean(1, dtype=np.float64)).float()


class Truth(NamedTuple):
    """True values and their standard errors, both `[rows, players, outputs]`."""

    phi: Tensor
    standard_error: Tensor


def true_values(value: TrueValue, repeats: int = 4) -> Truth:
    """Exact Shapley values, the mean over independent draws of all coalitions' values."""
    each = torch.stack([ms.exact_shapley(value, value.x, seed=s).phi for s in range(repeats)])
    return Truth(each.mean(0), each.std(0) / repeats**0.5)
