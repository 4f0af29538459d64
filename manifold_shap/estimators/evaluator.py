"""Evaluates a value function in chunks of at most `batch_size` model rows, with exact anchors."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap import _random
from manifold_shap._checks import check_rows, check_whole
from manifold_shap._version import __version__
from manifold_shap.explanation import Explanation
from manifold_shap.values.base import Linearized
from manifold_shap.values.wrapped import as_value_function

Coalitions = Callable[[int, int], Tensor]

# What fits a processor's cache is fastest there; an accelerator wants to be filled.
BATCH_SIZE_CPU = 8192
BATCH_SIZE_ACCELERATOR = 65_536

# Covariances take as many numbers as outputs squared, for every row and player.
_MOST_CROSSED = 64


class Evaluator:
    """The game of each row, evaluated chunk by chunk for an estimator.

    Attributes:
        value: the value function.
        players: who plays on these rows.
        x: the rows.
        prediction: v(grand coalition) of each row, `[instances, outputs]`.
        base: v(empty coalition) of each row, `[instances, outputs]`.
        batch_size: model rows per call; halved when memory runs out.
        evaluations: values asked for so far, over all rows.

    Args:
        value: a `ValueFunction`, or a callable; see `as_value_function`.
        x: rows `[instances, *event]`; where they have players of their own, equally many.
        batch_size: model rows per call; by default what suits the value function and the device.
            Changes memory, not the numbers.

    Raises:
        TypeError: `x` is no tensor or array of numbers, or `value` returns no tensor.
        ValueError: `batch_size` below 1, rows of another shape than the players', not finite, or
            none; values of another shape, or not finite.
    """

    def __init__(self, value: Any, x: Any, batch_size: int | None = None) -> None:
        if batch_size is not None:
            batch_size = check_whole("batch_size", batch_size)
        self.value = as_value_function(value, x)
        self.x = check_rows(x, self.value.players)
        self.players = self.value.players
        if self.players.by_row:
            self.players = self.players.first(int(self.value.counts(self.x[:1])))
        self.draws, self.sampled = self.value.draws, self.value.sampled
        self.evaluations = 0
        self._warned = False
        own = BATCH_SIZE_CPU if self.value.device.type == "cpu" else BATCH_SIZE_ACCELERATOR
        self.batch_size = batch_size or self.value.batch_size or own
        self.prediction = self._anchor(self.value.prediction)
        self.base = self._anchor(self.value.base)

    @property
    def device(self) -> torch.device:
        """Where the values come from."""
        return self.prediction.device

    @property
    def outputs(self) -> int:
        """How many outputs a value has."""
        return self.prediction.shape[1]

    @property
    def total(self) -> Float[Tensor, "instances outputs"]:
        """What the players of each row share: prediction less base."""
        return self.prediction - self.base

    def evaluate(
        self, rows: Tensor, coalitions: Coalitions, count: int, keys: Tensor
    ) -> Float[Tensor, "rows count outputs"]:
        """Values of `count` coalitions for each of these rows.

        Args:
            rows: indices of rows.
            coalitions: gives the masks `[rows, stop - start, players]` of those numbered from
                start to stop; they are built chunk by chunk, since all of them may not fit. None
                of them is empty or full.
            count: number of coalitions per row.
            keys: `[rows, count]` or `[rows, 1]`; coalitions with equal keys share the random
                numbers of a sampled value function.
        """
        x = self.x[rows].to(self.device)
        keys = keys.expand(-1, count).to(self.device)
        values = self.base.new_empty(len(rows), count, self.outputs)
        start = 0
        while start < count:
            step = max(1, self.batch_size // (len(rows) * self.draws))
            stop = min(start + step, count)
            values[:, start:stop] = self._chunked(
                self.value.values, x, coalitions(start, stop), keys[:, start:stop]
            )
            start = stop
        _check_finite(values, rows)
        self.evaluations += len(rows) * count
        return values

    def along(
        self,
        rows: Tensor,
        orders: Int64[Tensor, "rows orders players"],
        keys: Int64[Tensor, "rows orders"],
    ) -> Float[Tensor, "rows orders sizes outputs"]:
        """Values of the first 0, 1, ..., n players of each order, the anchors included.

        Args:
            rows: indices of rows.
            orders: players as they arrive, on the device of the values.
            keys: one per order; its coalitions share the random numbers of a sampled value
                function.
        """
        sizes, where = orders.shape[2] - 1, rows.to(self.device)
        shape = (*orders.shape[:2], 1, self.outputs)
        ends = [end[where][:, None, None].expand(shape) for end in (self.base, self.prediction)]
        if sizes == 0:
            return torch.cat(ends, dim=2)
        x, keys = self.x[rows].to(self.device), keys.to(self.device)

        def along(x: Tensor, some: Tensor, own: Tensor) -> Tensor:
            return self.value.values_along(x, some, own, self.batch_size).flatten(1, 2)

        values = self._whole(along, x, orders, keys, sizes)
        _check_finite(values, rows)
        self.evaluations += values[..., 0].numel()
        return torch.cat((ends[0], values, ends[1]), dim=2)

    def around(
        self,
        rows: Tensor,
        mask: Bool[Tensor, "rows m players"],
        keys: Int64[Tensor, "rows m"],
        linearized: Linearized | None = None,
    ) -> Float[Tensor, "rows m places outputs"]:
        """Values of coalitions, then of each with player 0, 1, ... toggled.

        Args:
            rows: indices of rows.
            mask: coalitions, on the device of the values.
            keys: one per coalition.
            linearized: what gives them approximately, instead of exactly.
        """
        x, keys, places = self.x[rows].to(self.device), keys.to(self.device), mask.shape[2] + 1

        def around(x: Tensor, some: Tensor, own: Tensor) -> Tensor:
            if linearized is not None:
                return linearized.values_around(x, some, own).flatten(1, 2)
            return self.value.values_around(x, some, own, self.batch_size).flatten(1, 2)

        values = self._whole(around, x, mask, keys, places)
        size = mask.sum(2, keepdim=True)
        sizes = torch.cat((size, size + torch.where(mask, -1, 1)), dim=2)[..., None]
        where = rows.to(self.device)
        values = torch.where(sizes == 0, self.base[where, None, None], values)
        values = torch.where(sizes == mask.shape[2], self.prediction[where, None, None], values)
        _check_finite(values, rows)
        self.evaluations += mask.shape[0] * mask.shape[1] * (1 if linearized else places)
        return values

    def keys(self, rows: Tensor, seed: int = 0) -> Int64[Tensor, " rows"]:
        """A key for each row, so that its draws are independent of those of other rows."""
        return _random.fold(rows, seed)

    def error_of_enumeration(self, phi: Tensor) -> Tensor:
        """Standard errors where all coalitions or orders are evaluated, all with the same draws.

        Zero for a value function without draws; NaN, not known, for a sampled one.
        """
        # A single player has no coalition that anything would be drawn for.
        unknown = self.sampled and len(self.players) > 1
        return torch.full_like(phi, torch.nan if unknown else 0.0)

    @property
    def crossed(self) -> bool:
        """Whether covariances between outputs are wanted: log-ratio coordinates may be rotated."""
        return self._partition is not None and self.outputs <= _MOST_CROSSED

    def explanation(
        self,
        phi: Tensor,
        standard_error: Tensor,
        made_by: dict[str, Any],
        covariance: Tensor | None = None,
        degrees_of_freedom: Tensor | None = None,
    ) -> Explanation:
        """The labelled result, on the CPU and in the precision of the value function."""
        dtype = torch.promote_types(self.prediction.dtype, torch.float32)

        def own(tensor: Tensor) -> Tensor:
            return tensor.to("cpu", dtype, copy=True)

        return Explanation(
            phi=own(phi),
            standard_error=own(standard_error),
            covariance=None if covariance is None else own(covariance),
            degrees_of_freedom=degrees_of_freedom,
            partition=self._partition,
            base=own(self.base),
            prediction=own(self.prediction),
            x=self.x.to("cpu", copy=True),
            players=self.players,
            owners=self.value.owners(self.x).cpu() if self.players.by_row else None,
            outputs=self.value.outputs,
            space=self.value.space,
            schema=self.value.schema,
            made_by={
                "version": __version__,
                **self.value.provenance,
                "evaluations": self.evaluations,
                **made_by,
            },
        )

    @functools.cached_property
    def _partition(self) -> Any:
        return self.value.space.partition(self.value.classes)

    def _anchor(self, anchor: Callable[[Tensor], Tensor]) -> Float[Tensor, "instances outputs"]:
        def value(x: Tensor, asked: Tensor, keys: Tensor) -> Tensor:
            return anchor(x)[:, None]

        asked = torch.zeros(len(self.x), 1, 0, dtype=torch.bool)
        keys = torch.zeros(len(self.x), 1, dtype=torch.int64)
        values = self._chunked(value, self.x.to(self.value.device), asked, keys)
        _check_finite(values, torch.arange(len(self.x)))
        return values[:, 0]

    def _whole(
        self,
        function: Callable[[Tensor, Tensor, Tensor], Tensor],
        x: Tensor,
        asked: Tensor,
        keys: Tensor,
        each: int,
    ) -> Float[Tensor, "rows asked each outputs"]:
        """`_chunked`, with several of what is asked for in a call, none of them split."""
        step = max(1, self.batch_size // (len(x) * each * self.draws))
        parts = [
            self._chunked(function, x, some, own, each)
            for some, own in zip(asked.split(step, 1), keys.split(step, 1), strict=True)
        ]
        return torch.cat(parts, dim=1).unflatten(1, (-1, each))

    @torch.no_grad()
    def _chunked(
        self,
        function: Callable[[Tensor, Tensor, Tensor], Tensor],
        x: Tensor,
        asked: Tensor,
        keys: Tensor,
        each: int = 1,
    ) -> Float[Tensor, "rows m outputs"]:
        """`function(x, asked, keys)` in calls of at most `batch_size` model rows.

        Args:
            function: gives `each` values for everything that is asked for.
            x: rows.
            asked: coalitions, or orders, `[rows, m, players]`; one of them is never split.
            keys: `[rows, m]`.
            each: 1 for coalitions.
        """
        count = len(x) * asked.shape[1]
        if count == 1 or count * each * self.draws <= self.batch_size:
            try:
                return _shaped(function(x, asked, keys), len(x), asked.shape[1] * each)
            except (RuntimeError, MemoryError) as error:
                self._halve_or_raise(error, count, each)
        # Only here, outside of `except`, is the memory of a failed call free again.
        if count == 1:
            return self._chunked(function, x, asked, keys, each)
        if asked.shape[1] > 1:
            halves = zip(asked.chunk(2, 1), keys.chunk(2, 1), strict=True)
            return torch.cat([self._chunked(function, x, *half, each) for half in halves], dim=1)
        by_rows = zip(x.chunk(2), asked.chunk(2), keys.chunk(2), strict=True)
        return torch.cat([self._chunked(function, *half, each) for half in by_rows])

    def _halve_or_raise(self, error: Exception, count: int, each: int) -> None:
        known = isinstance(error, (torch.OutOfMemoryError, MemoryError))
        least = count * each * self.draws == 1 or (count == 1 and self.batch_size == 1)
        if not (known or "can't allocate" in str(error)) or least:
            raise error
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"Out of memory at batch_size={self.batch_size}: halved, and the work goes on with "
                "the same numbers. A smaller `batch_size` avoids the retry.",
                stacklevel=4,
            )
        self.batch_size = max(1, min(self.batch_size, count * each * self.draws) // 2)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def check_one(unit: str, given: int | None, evaluations: int) -> None:
    """Raise ValueError where a budget is given twice, in `evaluations` and in another unit."""
    if given is not None:
        raise ValueError(
            f"Expected one budget but got evaluations={evaluations} and {unit}={given}; leave one "
            "of them out."
        )


def _shaped(values: Tensor, rows: int, m: int) -> Float[Tensor, "rows m outputs"]:
    if values.ndim != 3 or tuple(values.shape[:2]) != (rows, m):
        raise ValueError(
            f"Expected the value function to return {m} values for each of {rows} rows but got "
            f"shape {tuple(values.shape)}."
        )
    return values


def _check_finite(values: Float[Tensor, "rows m *outputs"], rows: Tensor) -> None:
    if not bool(values.isfinite().all()):
        bad = ~values.isfinite().flatten(1).all(1)
        raise ValueError(
            "Expected finite values but the value function gave NaN or infinite ones for "
            f"{int(bad.sum())} rows, the first of them row {int(rows[bad.cpu()][0])} of `x`; look "
            "for an overflow or a logarithm of zero in it."
        )
