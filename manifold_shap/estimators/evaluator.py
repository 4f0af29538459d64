"""Evaluates a value function in chunks of at most `batch_size` model rows, with exact anchors."""

import itertools
import math
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap import _random, _stopping
from manifold_shap._checks import check_whole
from manifold_shap._memory import lacks_memory
from manifold_shap._messages import warn
from manifold_shap._progress import progress_bar
from manifold_shap.ordering import Ordering
from manifold_shap.values.base import Linearized as Approximation
from manifold_shap.values.base import ValueFunction

# A CPU is fastest with what fits its cache, an accelerator with large batches.
BATCH_SIZE_CPU = 8192
BATCH_SIZE_ACCELERATOR = 65_536

# Covariances take as many numbers as outputs squared, for every row and player.
_MOST_CROSSED = 64


class Listed(NamedTuple):
    """Coalitions of rows, none of them empty or full.

    Attributes:
        items: masks, `[rows, m, players]`, or `[1, m, players]` where rows have the same ones.
        keys: `[rows, m]` or `[rows, 1]`; coalitions with equal keys share the random numbers of a
            sampled value function.
        place: of each player in the masks, `[rows, players]`, where rows have the same ones but for
            the names of the players.
    """

    items: Tensor
    keys: Tensor
    place: Tensor | None = None


class Nested(Listed):
    """The first 0, 1, ..., n players of `items`, which are orders; keys are one per order."""


class Toggled(Listed):
    """Any coalitions, each followed by the same with player 0, 1, ... toggled; a key for each."""


class Linearized(Toggled):
    """The same by an approximation, `Evaluator.linearized`."""


class Evaluator:
    """The game of each row, evaluated chunk by chunk for an estimator.

        >>> from manifold_shap.values.wrapped import as_value_function
        >>> x = torch.ones(2, 3)
        >>> value = as_value_function(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> game = Evaluator(value, x)
        >>> game.total.flatten(), game.shape
        (tensor([3., 3.]), (2, 3, 1))
        >>> mask = torch.tensor([[[True, False, True]]])
        >>> game.evaluate(torch.tensor([0]), Listed(mask, torch.tensor([[0]]))).flatten()
        tensor([2.])

    Attributes:
        value: the value function.
        players: of the game on these rows.
        order: which orders of the players count.
        x: the rows.
        prediction: v(grand coalition) of each row, `[instances, outputs]`.
        base: v(empty coalition) of each row, `[instances, outputs]`.
        total: prediction minus base, the sum of a row's Shapley values.
        shape: numbers of instances, players and outputs.
        device: where the values come from.
        draws, sampled: of the value function.
        partition: of the classes, what each output compares; of log-ratios only.
        crossed: whether to estimate covariances between outputs: log-ratios may be rotated.
        batch_size: model rows per call; halved when memory runs out.
        evaluations: values computed so far, over all rows, without anchors.
        bar: shows how many coalitions or orders of its `total` are done.

    Args:
        value: what is explained.
        x: rows as it takes them; where they have players of their own, equally many.
        order: by default, all orders count.
        batch_size: model rows per call; by default what suits the value function and the device.
            Changes memory, not the numbers.
        progress: show a bar on work of more than two seconds; by default where a person looks.

    Raises:
        ValueError: `batch_size` below 1; values of another shape, or not finite.
    """

    def __init__(
        self,
        value: ValueFunction,
        x: Float[Tensor, "instances *event"],
        order: Ordering | None = None,
        batch_size: int | None = None,
        progress: bool | None = None,
    ) -> None:
        if batch_size is not None:
            batch_size = check_whole("batch_size", batch_size)
        self.value, self.x, self.players = value, x, value.players
        self.order = Ordering.of(None, self.players) if order is None else order
        if self.players.by_row:
            self.players = self.players.first(int(value.counts(x[:1].to(value.device))))
            self.order = self.order.among(self.players)
        self.draws, self.sampled = value.draws, value.sampled
        self.device, self._warned = value.device, False
        own = BATCH_SIZE_CPU if self.device.type == "cpu" else BATCH_SIZE_ACCELERATOR
        self.batch_size = batch_size or value.batch_size or own
        self.bar = progress_bar(progress, name="values", unit="coalition")
        self.evaluations, self._dtype = 0, None
        rows = torch.arange(len(x))
        nothing = Listed(torch.zeros(len(x), 1, 0, dtype=torch.bool), rows[:, None])
        ends = [
            self.evaluate(rows, nothing, lambda x, *_, end=end: end(x)[:, None])[:, 0]
            for end in (value.prediction, value.base)
        ]
        # A model in double precision may have a surrogate in single precision.
        self._dtype = torch.promote_types(ends[0].dtype, ends[1].dtype)
        self.prediction, self.base = (end.to(self._dtype) for end in ends)
        self.total, self.device = self.prediction - self.base, self.prediction.device
        self.shape = (len(x), len(self.players), self.prediction.shape[1])
        self.partition = value.space.partition(value.classes)
        self.crossed = self.partition is not None and self.shape[2] <= _MOST_CROSSED
        self.evaluations = 0

    @torch.no_grad()
    def evaluate(
        self, rows: Tensor, asked: Listed, instead: Callable[..., Tensor] | None = None
    ) -> Float[Tensor, "rows m *places outputs"]:
        """Values of coalitions of these rows, with the anchors of those that are empty or full.

        Args:
            rows: indices of rows.
            asked: coalitions; nested and toggled ones have their places on an axis of their own.
            instead: what gives them instead of the value function.
        """
        x, items, keys = (each.to(self.device) for each in (self.x[rows], asked.items, asked.keys))
        count, players, place = items.shape[1], len(self.players), asked.place
        items, keys = items.expand(len(x), -1, -1), keys.expand(len(x), count)
        function: Callable[..., Tensor]
        match asked:
            case Linearized() if self.linearized:
                function, each = self.linearized.values_around, players + 1
            case Toggled():
                function, each = self.value.values_around, players + 1
            case Nested():
                function, each = self.value.values_along, players - 1
            case _:
                function, each = instead or self.value.values, 1
        places = () if type(asked) is Listed else (each,)
        values, step = None, self.rows_per_batch(count * each)
        # Whole rows, as what takes time for a row is done once; or parts of one.
        some, most = _slices(len(x), step), self.rows_per_batch(step * each)
        parts = [*itertools.product(some, _slices(count if each else 0, most))][::-1]
        while parts:
            _stopping.stop_if_asked()
            where, which = part = parts.pop()
            size = (where.stop - where.start) * (which.stop - which.start)
            if size > 1 and size * each * self.draws > self.batch_size:
                parts += _halves(*part)
                continue
            chunk = items[part] if place is None else items[0, which].T[place[where]].mT
            try:
                found = function(
                    x[where], chunk, keys[part], *((self.batch_size,) if places else ())
                )
            except (RuntimeError, MemoryError) as error:
                self._halve_or_raise(error, size, each)
                parts.append(part)
                continue
            shape = (*keys[part].shape, *places)
            if found.ndim != len(shape) + 1 or found.shape[:-1] != shape:
                raise ValueError(
                    f"Expected the value function to return {math.prod(shape[1:])} values for "
                    f"each of {shape[0]} rows but got shape {tuple(found.shape)}."
                )
            if values is None:
                values = found.new_empty(
                    (len(x), count, *places, found.shape[-1]), dtype=self._dtype
                )
            values[part] = found
            self.bar.update(size)
        if values is None:  # A game of one player has no coalitions to evaluate.
            values = self.base.new_empty(len(x), count, *places, self.shape[2])
        self.evaluations += len(x) * count * (1 if isinstance(asked, Linearized) else each)
        if places:
            values = self._with_anchors(values, rows, asked)
        _check_finite(values, rows)
        return values

    @cached_property
    def linearized(self) -> Approximation | None:
        """Linearized contributions, where they cost well less than exact ones."""
        found = self.value.linearized()
        return found if found and found.cost < (len(self.players) + 1) / 3 else None

    def ends(
        self, rows: Tensor
    ) -> tuple[Float[Tensor, "rows outputs"], Float[Tensor, "rows outputs"]]:
        """Base and prediction of these rows."""
        where = rows.to(self.device)
        return self.base[where], self.prediction[where]

    def rows_per_batch(self, values: int) -> int:
        """How many rows with so many values each make one batch, at least one."""
        return max(1, self.batch_size // max(1, values * self.draws))

    def batches(self, values: int) -> tuple[Int64[Tensor, " some"], ...]:
        """All rows, as many at a time as fit one batch with so many values each."""
        return torch.arange(len(self.x)).split(self.rows_per_batch(values))

    def keys(self, seed: int = 0) -> Int64[Tensor, " instances"]:
        """A key for each row, so that its draws are independent of those of other rows."""
        return _random.fold(torch.arange(len(self.x)), seed)

    def _with_anchors(self, values: Tensor, rows: Tensor, asked: Listed) -> Tensor:
        """Values of nested coalitions between the anchors, and of toggled ones with these."""
        base, prediction = (end[:, None, None] for end in self.ends(rows))
        if isinstance(asked, Nested):
            ends = (end.expand(-1, values.shape[1], -1, -1) for end in (base, prediction))
            return torch.cat((next(ends), values, next(ends)), dim=2)
        mask = asked.items
        size = mask.sum(2, keepdim=True)
        sizes = torch.cat((size, size + torch.where(mask, -1, 1)), dim=2)[..., None]
        values = torch.where(sizes == 0, base, values)
        return torch.where(sizes == mask.shape[2], prediction, values)

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


def _slices(count: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def _halves(rows: slice, items: slice) -> list[tuple[slice, slice]]:
    """The later and the earlier half of a chunk: of its items or, if it has one, of its rows."""
    split = items if items.stop - items.start > 1 else rows
    middle = split.start + (split.stop - split.start + 1) // 2
    halves = (slice(middle, split.stop), slice(split.start, middle))
    return [(rows, half) if split is items else (half, items) for half in halves]


def diagonal(variance: Float[Tensor, "rows players *errors"]) -> Tensor:
    """Variances `[rows, players, outputs]`, from covariances between outputs or as they are."""
    return variance.diagonal(dim1=2, dim2=3) if variance.ndim == 4 else variance


def _check_finite(values: Float[Tensor, "rows m *outputs"], rows: Tensor) -> None:
    if not bool(values.isfinite().all()):
        bad = ~values.isfinite().flatten(1).all(1)
        raise ValueError(
            "Expected finite values but the value function gave NaN or infinite ones for "
            f"{int(bad.sum())} rows, the first of them row {int(rows[bad.cpu()][0])} of `x`; look "
            "for an overflow or a logarithm of zero in it."
        )
