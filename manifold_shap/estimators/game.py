"""The door of every estimator: a callable and its rows, opened for evaluation in chunks."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap.coalitions import Players
from manifold_shap.explanation import Explanation

Coalitions = Callable[[int, int], Tensor]

# What fits a processor's cache is fastest there; an accelerator wants to be filled.
BATCH_SIZE_CPU = 4096
BATCH_SIZE_ACCELERATOR = 65_536


class Game:
    """One game per row, from any callable `value(x, mask)` that keeps the contract.

    What the callable does not know is filled in: `players` (one per element of a row), `outputs`
    (numbered), `base` and `prediction` (by calling it with nobody and with everybody).

    Args:
        value: maps rows `[batch, *event]` and a bool mask `[batch, m, players]` to values
            `[batch, m, outputs]`.
        x: rows `[instances, *event]`.
        batch_size: model rows per call; by default 4,096 on a CPU and 65,536 elsewhere. Changes
            memory, not the numbers; out of memory halves it.

    Raises:
        ValueError: `batch_size` below 1, or no row.
    """

    def __init__(
        self, value: Callable[[Tensor, Tensor], Tensor], x: Any, batch_size: int | None = None
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"Expected `batch_size` of at least 1 but got {batch_size}.")
        self.value = value
        self.evaluations = 0
        self._warned = False
        device = getattr(value, "device", torch.device("cpu"))
        default = BATCH_SIZE_CPU if device.type == "cpu" else BATCH_SIZE_ACCELERATOR
        self.batch_size = batch_size or default
        self.draws: int = getattr(value, "draws", 1)
        self.x = torch.as_tensor(x, dtype=torch.float32)
        if self.x.ndim < 2 or len(self.x) == 0:
            raise ValueError(
                "Expected `x` of shape (instances, *event) with at least one row but got "
                f"{tuple(self.x.shape)}; one row is `x[:1]`."
            )
        self.players: Players = getattr(value, "players", None) or Players.of_elements(
            self.x.shape[1:]
        )
        self.prediction = self._prediction()
        self.base = self._base()

    @property
    def device(self) -> torch.device:
        """Where the values come from."""
        return self.prediction.device

    def evaluate(
        self, rows: Tensor, coalitions: Coalitions, count: int
    ) -> Float[Tensor, "rows count outputs"]:
        """Values of `count` coalitions for each of these rows.

        Args:
            rows: indices of rows.
            coalitions: gives the masks `[rows, stop - start, players]` of those numbered from
                start to stop; they are built chunk by chunk, since all of them may not fit.
            count: number of coalitions per row.
        """
        x = self.x[rows].to(self.device)
        values = self.base.new_empty(len(rows), count, len(self.base))
        start = 0
        while start < count:
            step = max(1, self.batch_size // (len(rows) * self.draws))
            stop = min(start + step, count)
            values[:, start:stop] = self._call(self.value, x, coalitions(start, stop))
            start = stop
        self.evaluations += len(rows) * count
        return values

    def explanation(self, phi: Tensor, standard_error: Tensor, made_by: dict) -> Explanation:
        """The labelled result."""
        space = getattr(self.value, "space", None)
        return Explanation(
            phi=phi.float().cpu(),
            standard_error=standard_error.float().cpu(),
            base=self.base.float().cpu(),
            prediction=self.prediction.float().cpu(),
            x=self.x.cpu(),
            players=self.players,
            outputs=getattr(self.value, "outputs", None)
            or tuple(str(k) for k in range(phi.shape[-1])),
            space=space.name if space else "identity",
            schema=getattr(self.value, "schema", None),
            made_by={
                "value_function": getattr(self.value, "name", "callable"),
                "evaluations": self.evaluations,
                **made_by,
            },
        )

    def _prediction(self) -> Float[Tensor, "instances outputs"]:
        known = getattr(self.value, "prediction", None)
        value = self.value if known is None else lambda rows, _: known(rows)[:, None]
        everybody = torch.ones(len(self.x), 1, len(self.players), dtype=torch.bool)
        return self._call(value, self.x, everybody)[:, 0]

    def _base(self) -> Float[Tensor, " outputs"]:
        base = getattr(self.value, "base", None)
        if base is not None:
            return base
        nobody = torch.zeros(1, 1, len(self.players), dtype=torch.bool)
        return self.value(self.x[:1], nobody)[0, 0]

    def _call(
        self, value: Callable[[Tensor, Tensor], Tensor], x: Tensor, mask: Tensor
    ) -> Float[Tensor, "rows m outputs"]:
        """`value(x, mask)` by calls of at most `batch_size` model rows, or of one coalition."""
        coalitions = len(x) * mask.shape[1]
        if coalitions == 1 or coalitions * self.draws <= self.batch_size:
            try:
                return value(x, mask)
            except (RuntimeError, MemoryError) as error:
                self._halve_or_raise(error, coalitions)
        # Only here, outside of `except`, is the memory of a failed call free again.
        if mask.shape[1] > 1:
            return torch.cat([self._call(value, x, half) for half in mask.chunk(2, 1)], dim=1)
        halves = zip(x.chunk(2), mask.chunk(2), strict=True)
        return torch.cat([self._call(value, rows, half) for rows, half in halves])

    def _halve_or_raise(self, error: Exception, coalitions: int) -> None:
        known = isinstance(error, (torch.OutOfMemoryError, MemoryError))
        if not (known or "can't allocate" in str(error)) or coalitions == 1:
            raise error
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"Out of memory at batch_size={self.batch_size}: halved, and the work goes on with "
                "the same numbers. A smaller `batch_size` avoids the retry.",
                stacklevel=4,
            )
        self.batch_size = max(1, min(self.batch_size, coalitions * self.draws) // 2)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
