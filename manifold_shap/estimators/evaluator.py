"""Evaluates a value function in chunks of at most `batch_size` model rows, with exact anchors."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from tqdm import tqdm

from manifold_shap import _random
from manifold_shap._checks import check_rows, check_whole
from manifold_shap._version import __version__
from manifold_shap.explanation import Explanation
from manifold_shap.values.base import Linearized
from manifold_shap.values.wrapped import as_value_function

# A CPU is fastest with what fits its cache, an accelerator with large batches.
BATCH_SIZE_CPU = 8192
BATCH_SIZE_ACCELERATOR = 65_536

# Covariances take as many numbers as outputs squared, for every row and player.
_MOST_CROSSED = 64

Function = Callable[[Tensor, Tensor, Tensor], Tensor]


class Evaluator:
    """The game of each row, evaluated chunk by chunk for an estimator.

        >>> game = Evaluator(lambda x, mask: (x[:, None] * mask).sum(-1, True), torch.ones(2, 3))
        >>> game.total.flatten(), game.shape
        (tensor([3., 3.]), (2, 3, 1))

    Attributes:
        value: the value function.
        players: who plays on these rows.
        x: the rows.
        prediction: v(grand coalition) of each row, `[instances, outputs]`.
        base: v(empty coalition) of each row, `[instances, outputs]`.
        total: prediction minus base, the sum of a row's Shapley values.
        shape: numbers of instances, players and outputs.
        device: where the values come from.
        draws, sampled: of the value function.
        crossed: whether to estimate covariances between outputs: log-ratio coordinates may be
            rotated.
        batch_size: model rows per call; halved when memory runs out.
        evaluations: values computed so far, over all rows, without anchors.

    Args:
        value: a `ValueFunction`, or a callable; see `as_value_function`.
        x: rows `[instances, *event]`; where they have players of their own, equally many.
        batch_size: model rows per call; by default what suits the value function and the device.
            Changes memory, not the numbers.
        progress: show progress bars.

    Raises:
        TypeError: `x` is no tensor or array of numbers, or `value` returns no tensor.
        ValueError: `batch_size` below 1, rows of another shape than the players', not finite, or
            none; values of another shape, or not finite.
    """

    def __init__(
        self, value: Any, x: Any, batch_size: int | None = None, progress: bool = False
    ) -> None:
        if batch_size is not None:
            batch_size = check_whole("batch_size", batch_size)
        self.value = as_value_function(value, x)
        self.x = check_rows(x, self.value.players)
        self.players = self.value.players
        if self.players.by_row:
            self.players = self.players.first(int(self.value.counts(self.x[:1])))
        self.draws, self.sampled = self.value.draws, self.value.sampled
        self.evaluations = 0
        self._warned, self._progress = False, progress
        own = BATCH_SIZE_CPU if self.value.device.type == "cpu" else BATCH_SIZE_ACCELERATOR
        self.batch_size = batch_size or self.value.batch_size or own
        self.prediction = self._anchor(self.value.prediction)
        self.base = self._anchor(self.value.base)
        self.total, self.device = self.prediction - self.base, self.prediction.device
        self.shape = (len(self.x), len(self.players), self.prediction.shape[1])
        self._partition = self.value.space.partition(self.value.classes)
        self.crossed = self._partition is not None and self.shape[2] <= _MOST_CROSSED

    def evaluate(
        self, rows: Tensor, coalitions: Callable[[int, int], Tensor], count: int, keys: Tensor
    ) -> Float[Tensor, "rows count outputs"]:
        """Values of `count` coalitions for each of these rows.

        Args:
            rows: indices of rows.
            coalitions: gives the masks `[stop - start, players]` of those numbered from start to
                stop, or `[rows, stop - start, players]` where rows differ; they are built chunk by
                chunk, since all of them may not fit. None of them is empty or full.
            count: number of coalitions per row.
            keys: `[rows, count]` or `[rows, 1]`; coalitions with equal keys share the random
                numbers of a sampled value function.
        """
        keys = keys.expand(-1, count)
        values = self._in_chunks(self.value.values, rows, coalitions, keys)[:, :, 0]
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
        sizes = orders.shape[2] - 1
        shape = (*orders.shape[:2], 1, self.shape[2])
        base, prediction = (end[:, None, None].expand(shape) for end in self.ends(rows))
        if sizes == 0:
            return torch.cat((base, prediction), dim=2)

        def along(x: Tensor, some: Tensor, own: Tensor) -> Tensor:
            return self.value.values_along(x, some, own, self.batch_size).flatten(1, 2)

        values = self._in_chunks(
            along, rows, lambda start, stop: orders[:, start:stop], keys, sizes
        )
        _check_finite(values, rows)
        self.evaluations += values[..., 0].numel()
        return torch.cat((base, values, prediction), dim=2)

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
            linearized: an approximation that gives them instead.
        """
        places = mask.shape[2] + 1

        def around(x: Tensor, some: Tensor, own: Tensor) -> Tensor:
            if linearized is not None:
                return linearized.values_around(x, some, own).flatten(1, 2)
            return self.value.values_around(x, some, own, self.batch_size).flatten(1, 2)

        values = self._in_chunks(
            around, rows, lambda start, stop: mask[:, start:stop], keys, places
        )
        size = mask.sum(2, keepdim=True)
        sizes = torch.cat((size, size + torch.where(mask, -1, 1)), dim=2)[..., None]
        base, prediction = (end[:, None, None] for end in self.ends(rows))
        values = torch.where(sizes == 0, base, values)
        values = torch.where(sizes == mask.shape[2], prediction, values)
        _check_finite(values, rows)
        self.evaluations += mask.shape[0] * mask.shape[1] * (1 if linearized else places)
        return values

    def ends(
        self, rows: Tensor
    ) -> tuple[Float[Tensor, "rows outputs"], Float[Tensor, "rows outputs"]]:
        """Base and prediction of these rows."""
        where = rows.to(self.device)
        return self.base[where], self.prediction[where]

    def rows_per_batch(self, values: int) -> int:
        """How many rows with so many values each make one batch, at least one."""
        return max(1, self.batch_size // max(1, values * self.draws))

    def keys(self, seed: int = 0) -> Int64[Tensor, " instances"]:
        """A key for each row, so that its draws are independent of those of other rows."""
        return _random.fold(torch.arange(len(self.x)), seed)

    def bar(self, total: int, name: str, unit: str) -> tqdm:
        """A progress bar, shown on work of more than two seconds."""
        return tqdm(total=total, desc=name, unit=unit, delay=2, disable=not self._progress)

    def explanation(
        self,
        phi: Float[Tensor, "instances players outputs"],
        made_by: dict[str, Any],
        variance: Float[Tensor, "instances players *errors"] | None = None,
        degrees_of_freedom: Float[Tensor, " instances"] | None = None,
    ) -> Explanation:
        """The labelled result, on the CPU and in the precision of the value function.

        Args:
            phi: Shapley values.
            made_by: the estimator and its settings, as plain data.
            variance: of the error of each value, or covariances between those of a player's
                outputs. None where all coalitions or orders were evaluated, with the same draws:
                errors are then zero or, for a sampled value function, unknown (NaN).
            degrees_of_freedom: of the standard errors; None where they are as good as known.
        """
        dtype = torch.promote_types(self.prediction.dtype, torch.float32)

        def own(tensor: Tensor) -> Tensor:
            return tensor.to("cpu", dtype, copy=True)

        if variance is None:
            # A single player has no coalition that anything would be drawn for.
            unknown = self.sampled and len(self.players) > 1
            variance = torch.full_like(phi, torch.nan if unknown else 0.0)
        # A variance of zero may come out negative by rounding.
        return Explanation(
            phi=own(phi),
            standard_error=own(diagonal(variance).clamp(min=0).sqrt()),
            covariance=own(variance) if variance.ndim == 4 else None,
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

    def _anchor(self, anchor: Callable[[Tensor], Tensor]) -> Float[Tensor, "instances outputs"]:
        def value(x: Tensor, nothing: Tensor, keys: Tensor) -> Tensor:
            return anchor(x)[:, None]

        rows, x = len(self.x), self.x.to(self.value.device)
        nothing = torch.zeros(rows, 1, 0, dtype=torch.bool)
        values = self._chunked(value, x, nothing, torch.zeros(rows, 1, dtype=torch.int64))
        _check_finite(values, torch.arange(rows))
        return values[:, 0]

    def _in_chunks(
        self,
        function: Function,
        rows: Tensor,
        items: Callable[[int, int], Tensor],
        keys: Int64[Tensor, "rows m"],
        each: int = 1,
    ) -> Float[Tensor, "rows m each outputs"]:
        """`_chunked`, for items of which `items(start, stop)` gives some."""
        x, keys = self.x[rows].to(self.device), keys.to(self.device)
        count = keys.shape[1]
        values = self.base.new_empty(len(rows), count, each, self.shape[2])
        start = 0
        while start < count:
            stop = min(start + self.rows_per_batch(len(x) * each), count)
            some = items(start, stop).expand(len(x), -1, -1)
            part = self._chunked(function, x, some, keys[:, start:stop], each)
            values[:, start:stop] = part.unflatten(1, (-1, each))
            start = stop
        return values

    @torch.no_grad()
    def _chunked(
        self, function: Function, x: Tensor, items: Tensor, keys: Tensor, each: int = 1
    ) -> Float[Tensor, "rows m outputs"]:
        """`function(x, items, keys)` in calls of at most `batch_size` model rows.

        Args:
            function: gives `each` values for every item.
            x: rows.
            items: coalitions or orders, `[rows, m, players]`; one of them is never split.
            keys: `[rows, m]`.
            each: 1 for coalitions.
        """
        count = len(x) * items.shape[1]
        if count == 1 or count * each * self.draws <= self.batch_size:
            try:
                values = function(x, items, keys)
            except (RuntimeError, MemoryError) as error:
                self._halve_or_raise(error, count, each)
            else:
                if values.ndim == 3 and values.shape[:2] == (len(x), items.shape[1] * each):
                    return values
                raise ValueError(
                    f"Expected the value function to return {items.shape[1] * each} values for "
                    f"each of {len(x)} rows but got shape {tuple(values.shape)}."
                )
        # Only here, outside of `except`, is the memory of a failed call free again.
        if count == 1:
            return self._chunked(function, x, items, keys, each)
        if items.shape[1] > 1:
            halves = zip(items.chunk(2, 1), keys.chunk(2, 1), strict=True)
            return torch.cat([self._chunked(function, x, *half, each) for half in halves], dim=1)
        by_rows = zip(x.chunk(2), items.chunk(2), keys.chunk(2), strict=True)
        return torch.cat([self._chunked(function, *half, each) for half in by_rows])

    def _halve_or_raise(self, error: Exception, count: int, each: int) -> None:
        known = isinstance(error, (torch.OutOfMemoryError, MemoryError))
        least = count * each * self.draws == 1 or (count == 1 and self.batch_size == 1)
        if not (known or "can't allocate" in str(error)) or least:
            raise error
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"Out of memory at batch_size={self.batch_size}: halved, without a change of the "
                "results. A smaller `batch_size` avoids the retry.",
                stacklevel=4,
            )
        self.batch_size = max(1, min(self.batch_size, count * each * self.draws) // 2)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def diagonal(variance: Float[Tensor, "rows players *errors"]) -> Tensor:
    """Variances `[rows, players, outputs]`, from covariances between outputs or as they are."""
    return variance.diagonal(dim1=2, dim2=3) if variance.ndim == 4 else variance


def check_one_budget(unit: str, given: int | None, evaluations: int) -> None:
    """Raise ValueError where a budget is given twice, in `evaluations` and in another unit."""
    if given is not None:
        raise ValueError(
            f"Expected one budget but got evaluations={evaluations} and {unit}={given}; leave one "
            "of them out."
        )


def _check_finite(values: Float[Tensor, "rows m *outputs"], rows: Tensor) -> None:
    if not bool(values.isfinite().all()):
        bad = ~values.isfinite().flatten(1).all(1)
        raise ValueError(
            "Expected finite values but the value function gave NaN or infinite ones for "
            f"{int(bad.sum())} rows, the first of them row {int(rows[bad.cpu()][0])} of `x`; look "
            "for an overflow or a logarithm of zero in it."
        )
