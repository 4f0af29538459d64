"""Asks for numbers of rows and coalitions in batches, the only ones in the package."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._checks import check_whole
from manifold_shap._memory import lacks_memory
from manifold_shap._messages import warn
from manifold_shap._progress import progress_bar
from manifold_shap.coalitions import Coalitions, Listed
from manifold_shap.values.base import ValueFunction

# A CPU is fastest with what fits its cache, an accelerator with large batches.
BATCH_SIZE_CPU = 8192
BATCH_SIZE_ACCELERATOR = 65_536


class Batches:
    """Batches of at most `size` model rows, which change memory and time, not the numbers.

        >>> from manifold_shap.values.wrapped import as_value_function
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> value = as_value_function(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> mask = torch.tensor([[[True, False]], [[False, True]]])
        >>> asked = Listed(mask, torch.zeros(2, 1, dtype=torch.int64))
        >>> Batches(value, 1)(lambda x, some: value.values(x, some).values, x, asked).flatten()
        tensor([1., 4.])

    Attributes:
        size: model rows per batch; halved where memory runs out.
        draws: model rows behind a value.
        bar: shows how many coalitions or orders of its `total` are done.

    Args:
        value: what is asked.
        size: by default what suits the value function and the device.
        progress: show a bar on work of more than two seconds; by default where a person looks.

    Raises:
        ValueError: `size` below 1.
    """

    def __init__(
        self, value: ValueFunction, size: int | None = None, progress: bool | None = None
    ) -> None:
        usual = BATCH_SIZE_CPU if value.device.type == "cpu" else BATCH_SIZE_ACCELERATOR
        size = size if size is None else check_whole("batch_size", size)
        self.size = size or value.spec.work.batch_size or usual
        self.draws, self._warned = value.spec.work.draws, False
        self.bar = progress_bar(progress, name="values", unit="coalition")

    @torch.no_grad()
    def __call__(
        self, ask: Callable[[Tensor, Coalitions], Tensor], x: Tensor, asked: Coalitions
    ) -> Float[Tensor, "rows m numbers"]:
        """Numbers of all coalitions: those that `ask` gives for rows and coalitions of these."""
        numbers, most = None, self._most()
        for rows, which, piece in asked.split(most):
            if self._most() < most:  # Memory ran out before.
                found = self(ask, x[rows], piece)
            else:
                try:
                    found = ask(x[rows], piece)
                except (RuntimeError, MemoryError) as error:
                    self._halve_or_raise(error, math.prod(piece.shape))
                    found = self(ask, x[rows], piece)
                else:
                    self.bar.update(math.prod(piece.shape) / asked.run)
            if piece.shape == asked.shape:
                return found
            if numbers is None:
                numbers = found.new_empty((*asked.shape, found.shape[2]))
            numbers[rows, which] = found
        assert numbers is not None
        return numbers

    def of_rows(self, ask: Callable[[Tensor], Tensor], x: Tensor) -> Float[Tensor, "rows numbers"]:
        """Numbers of rows, one after the other batch of them."""
        nobody = Listed(torch.zeros(len(x), 1, 0, dtype=torch.bool), torch.zeros(len(x), 1).long())
        return self(lambda x, _: ask(x)[:, None], x, nobody)[:, 0]

    def _most(self) -> int:
        """How many values make one batch, at least one."""
        return max(1, self.size // self.draws)

    def _halve_or_raise(self, error: Exception, values: int) -> None:
        if not lacks_memory(error) or self.size == 1 or values * self.draws == 1:
            raise error
        if not self._warned:
            self._warned = True
            warn(
                f"Out of memory at batch_size={self.size}: halved, without a change of the "
                "results. A smaller `batch_size` avoids the retry.",
            )
        self.size = max(1, min(self.size, values * self.draws) // 2)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
