"""Evaluates a value function in chunks of at most `batch_size` model rows, with exact anchors."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from tqdm import tqdm

from manifold_shap import _random, _stopping
from manifold_shap._arrays import row_labels
from manifold_shap._checks import check_whole
from manifold_shap._memory import lacks_memory
from manifold_shap._messages import warn
from manifold_shap._progress import progress_bar
from manifold_shap._version import __version__
from manifold_shap.coalitions import Coalitions, Listed, Nested, Toggled
from manifold_shap.explanation import Explanation
from manifold_shap.players import Players
from manifold_shap.tables.rows import codebook_of, constant_players, encoded
from manifold_shap.values.base import Estimate, Linearized
from manifold_shap.values.seen import outside
from manifold_shap.values.wrapped import as_value_function

# A CPU is fastest with what fits its cache, an accelerator with large batches.
BATCH_SIZE_CPU = 8192
BATCH_SIZE_ACCELERATOR = 65_536

# Covariances take as many numbers as outputs squared, for every row and player.
_MOST_CROSSED = 64


class Evaluator:
    """The game of each row, evaluated chunk by chunk for an estimator.

        >>> game = Evaluator(lambda x, mask: (x[:, None] * mask).sum(-1, True), torch.ones(2, 3))
        >>> game.total.flatten(), game.shape
        (tensor([3., 3.]), (2, 3, 1))

    Attributes:
        value: the value function.
        players: of the game on these rows.
        x: the rows.
        instances: their labels, where a frame has some.
        prediction: v(grand coalition) of each row, `[instances, outputs]`.
        base: v(empty coalition) of each row, `[instances, outputs]`.
        total: prediction minus base, the sum of a row's Shapley values.
        shape: numbers of instances, players and outputs.
        device: where the values come from.
        draws, sampled: of the value function.
        crossed: whether to estimate covariances between outputs: log-ratios may be rotated.
        batch_size: model rows per call; halved when memory runs out.
        evaluations: values computed so far, over all rows, without anchors.

    Args:
        value: a `ValueFunction`, or a callable; see `as_value_function`.
        x: rows, see `ValueFunction.rows`; where they have players of their own, equally many.
        batch_size: model rows per call; by default what suits the value function and the device.
            Changes memory, not the numbers.
        progress: show progress bars; by default where a person looks.

    Raises:
        TypeError: `x` holds no numbers, or `value` returns no tensor.
        ValueError: `batch_size` below 1, rows of another shape than the players', not finite, or
            none; values of another shape, or not finite.
    """

    def __init__(
        self, value: Any, x: Any, batch_size: int | None = None, progress: bool | None = None
    ) -> None:
        if batch_size is not None:
            batch_size = check_whole("batch_size", batch_size)
        self.value = as_value_function(value, x)
        self.x, self.instances = self.value.rows(x), row_labels(x)
        self.players = self.value.players
        if self.players.by_row:
            first = self.x[:1].to(self.value.device)
            self.players = self.players.first(int(self.value.counts(first)))
        self.draws, self.sampled = self.value.draws, self.value.sampled
        self.evaluations, self._warned, self._progress = 0, False, progress
        own = BATCH_SIZE_CPU if self.value.device.type == "cpu" else BATCH_SIZE_ACCELERATOR
        self.batch_size = batch_size or self.value.batch_size or own
        self.device = self.value.device
        self._dtype: torch.dtype | None = None
        self.prediction = self._anchor(self.value.prediction)
        self.base = self._anchor(self.value.base)
        # A model in double precision may have a surrogate in single precision.
        self._dtype = torch.promote_types(self.prediction.dtype, self.base.dtype)
        self.prediction, self.base = (end.to(self._dtype) for end in (self.prediction, self.base))
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
        values = self._in_chunks(Listed, rows, coalitions, keys.expand(-1, count))
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
        sizes, shape = orders.shape[2] - 1, (*orders.shape[:2], 1, self.shape[2])
        base, prediction = (end[:, None, None].expand(shape) for end in self.ends(rows))
        if sizes == 0:
            return torch.cat((base, prediction), dim=2)

        def some(start: int, stop: int) -> Tensor:
            return orders[:, start:stop]

        values = self._in_chunks(Nested, rows, some, keys).unflatten(1, (-1, sizes))
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

        def some(start: int, stop: int) -> Tensor:
            return mask[:, start:stop]

        places, own = mask.shape[2] + 1, linearized or self.value
        values = self._in_chunks(Toggled, rows, some, keys, own.values).unflatten(1, (-1, places))
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
        return progress_bar(self._progress, total, name, unit)

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
                outputs. None where all coalitions or orders were evaluated, each once:
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
        if self.evaluations and bool(variance.isnan().all()):
            warn(
                f"Standard errors are unknown (NaN): {self.evaluations // len(self.x)} evaluations "
                f"of a row of {len(self.players)} players leave nothing to compare. Give more "
                "`evaluations` or, where all coalitions were taken, `exact_shapley` several times "
                "as many; means over many rows, such as global values, need none."
            )
        # A variance of zero may come out negative by rounding.
        there = self.x.to(self.value.device)
        found = Explanation(
            phi=own(phi),
            standard_error=own(diagonal(variance).clamp(min=0).sqrt()),
            covariance=own(variance) if variance.ndim == 4 else None,
            degrees_of_freedom=degrees_of_freedom,
            partition=self._partition,
            base=own(self.base),
            prediction=own(self.prediction),
            x=self.x.to("cpu", copy=True),
            instances=self.instances or (),
            players=self.players,
            owners=self.value.owners(there).cpu() if self.players.by_row else None,
            outputs=self.value.outputs,
            space=self.value.space,
            schema=self.value.schema,
            made_by={
                "version": __version__,
                **self.value.provenance,
                "evaluations": self.evaluations,
                **outside(self.value.seen, encoded(self.x, self.value.schema)),
                **made_by,
            },
        )
        return with_constants(found)

    def _anchor(self, anchor: Callable[[Tensor], Tensor]) -> Float[Tensor, "instances outputs"]:
        def value(x: Tensor, coalitions: Coalitions) -> Estimate:
            return Estimate(anchor(x)[:, None])

        rows = torch.arange(len(self.x))
        nothing = torch.zeros(len(rows), 1, 0, dtype=torch.bool)
        values = self._in_chunks(
            Listed, rows, lambda start, stop: nothing, rows[:, None], function=value
        )
        _check_finite(values, rows)
        return values[:, 0]

    @torch.no_grad()
    def _in_chunks(
        self,
        kind: type[Coalitions],
        rows: Tensor,
        items: Callable[[int, int], Tensor],
        keys: Int64[Tensor, "rows runs"],
        function: Callable[[Tensor, Any], Estimate] | None = None,
    ) -> Float[Tensor, "rows m outputs"]:
        """Values of coalitions, in calls of at most `batch_size` model rows.

        Args:
            kind: of the coalitions.
            rows: indices of rows.
            items: gives the `items` of the coalitions, `[rows, some, players]`, from a run to
                another.
            keys: one per run.
            function: gives all values of a run for the cost of a few; by default the value
                function does, which gets no more coalitions at a time than fit.
        """
        x, keys, count = self.x[rows].to(self.device), keys.to(self.device), keys.shape[1]
        parts: list[tuple[slice, slice]] = []
        values, start, stop = None, 0, 0
        run = kind(items(0, 1), keys[:, :1]).run if count else 1
        while parts or stop < count:
            _stopping.stop_if_asked()
            if not parts:
                start, stop = stop, min(stop + self.rows_per_batch(len(x) * run), count)
                built = items(start, stop).expand(len(x), -1, -1)
                parts = [(slice(0, len(x)), slice(0, stop - start))]
            where, which = part = parts.pop()
            size = (where.stop - where.start) * (which.stop - which.start)
            if size > 1 and size * run * self.draws > self.batch_size:
                parts += _halves(*part)
                continue
            some = kind(built[part], keys[where, start:stop][:, which])
            try:
                if function is not None:
                    found = function(x[where], some).values
                else:
                    pieces = some.split(self.rows_per_batch(where.stop - where.start))
                    found = torch.cat([self._asked(x[where], each) for each in pieces], 1)
            except (RuntimeError, MemoryError) as error:
                self._halve_or_raise(error, size, run)
                parts.append(part)
                continue
            if values is None:
                values = found.new_empty((len(x), count * run, found.shape[-1]), dtype=self._dtype)
            values[where, start * run : stop * run][:, which.start * run : which.stop * run] = found
        # A game of one player has no coalitions to evaluate.
        return self.base.new_empty(len(x), 0, self.shape[2]) if values is None else values

    def _asked(self, x: Tensor, coalitions: Coalitions) -> Float[Tensor, "rows m outputs"]:
        found = self.value.values(x, coalitions).values
        if found.ndim != 3 or found.shape[:2] != coalitions.shape:
            raise ValueError(
                f"Expected the value function to return {coalitions.shape[1]} values for each of "
                f"{len(x)} rows but got shape {tuple(found.shape)}."
            )
        return found

    def _halve_or_raise(self, error: Exception, count: int, each: int) -> None:
        least = count * each * self.draws == 1 or (count == 1 and self.batch_size == 1)
        if not lacks_memory(error) or least:
            raise error
        if not self._warned:
            self._warned = True
            warn(
                f"Out of memory at batch_size={self.batch_size}: halved, without a change of the "
                "results. A smaller `batch_size` avoids the retry.",
            )
        self.batch_size = max(1, min(self.batch_size, count * each * self.draws) // 2)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _halves(rows: slice, items: slice) -> list[tuple[slice, slice]]:
    """The later and the earlier half of a chunk: of its items or, if it has one, of its rows."""
    split = items if items.stop - items.start > 1 else rows
    middle = split.start + (split.stop - split.start + 1) // 2
    halves = (slice(middle, split.stop), slice(split.start, middle))
    return [(rows, half) if split is items else (half, items) for half in halves]


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


def with_constants(explanation: Explanation) -> Explanation:
    """The explanation of rows of codes, with the constant columns of their table as players.

    A constant in a group with columns that vary belongs to their player.

    >>> import pandas as pd
    >>> from manifold_shap import Codebook, as_model, exact_shapley, imputed_value, table_imputer
    >>> from manifold_shap import MarginalImputer
    >>> frame = pd.DataFrame({"size": [1, 2, 3], "year": 2024})
    >>> codebook = Codebook.fit(frame)
    >>> model = as_model(lambda frame: frame["size"], codebook, returns="values")
    >>> imputer = table_imputer(MarginalImputer, codebook, frame)
    >>> explanation = exact_shapley(imputed_value(model, imputer, "identity", 3), frame)
    >>> explanation.players.names, explanation.phi[0].flatten()
    (('size', 'year'), tensor([-1.,  0.], dtype=torch.float64))
    """
    codebook, players = codebook_of(explanation.schema), explanation.players
    if codebook is None or not codebook.constants or players.by_row:
        return explanation
    alone = constant_players(players, codebook)
    whole, many = codebook.with_constants(), len(codebook.players)
    # Each column's player of the codebook; a constant in a group with others is their player's.
    index = whole.players.index.tolist()
    owners = [
        players.index[index.index(player)] if player < many else len(players) + player - many
        for player in index[len(codebook.names) :]
    ]
    made: dict[str, Any] = {}
    for name in ("phi", "standard_error", "covariance", "x"):
        known = vars(explanation)[name]
        if known is not None:
            more = len(owners) if name == "x" else len(alone)
            made[name] = torch.cat((known, known.new_zeros(len(known), more, *known.shape[2:])), 1)
    every = Players([*players.names, *alone], torch.cat((players.index, torch.tensor(owners))))
    return replace(explanation, **made, players=every, schema=whole)
