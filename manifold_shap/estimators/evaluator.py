"""Evaluates a value function in chunks of at most `batch_size` model rows, with exact anchors."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap import _random
from manifold_shap._checks import check_whole
from manifold_shap._memory import lacks_memory
from manifold_shap._messages import warn
from manifold_shap._progress import progress_bar
from manifold_shap.coalitions import Approximated, Coalitions, Listed, Nested
from manifold_shap.ordering import Ordering
from manifold_shap.values.base import Estimate, Linearized, ValueFunction, check_estimate

# A CPU is fastest with what fits its cache, an accelerator with large batches.
BATCH_SIZE_CPU = 8192
BATCH_SIZE_ACCELERATOR = 65_536

# Covariances take as many numbers as outputs squared, for every row and player.
_MAX_COVARIANCE_OUTPUTS = 64


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
        full_covariance: whether to estimate covariances between outputs: log-ratios may be rotated.
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
        numbers: of the rows among all that are explained, by which their draws differ; by default
            0, 1, ...

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
        numbers: Int64[Tensor, " instances"] | None = None,
    ) -> None:
        if batch_size is not None:
            batch_size = check_whole("batch_size", batch_size)
        self.value, self.x, self.players = value, x, value.players
        self._numbers = torch.arange(len(x)) if numbers is None else numbers
        self.order = Ordering.of(None, self.players) if order is None else order
        if self.players.by_row:
            self.players = self.players.first(int(value.counts(x[:1].to(value.device))))
            self.order = self.order.among(self.players)
        self.draws, self.sampled = value.spec.work.draws, value.spec.work.sampled
        self.device, self._warned = value.device, False
        own = BATCH_SIZE_CPU if self.device.type == "cpu" else BATCH_SIZE_ACCELERATOR
        self.batch_size = batch_size or value.spec.work.batch_size or own
        self.bar = progress_bar(progress, name="values", unit="coalition")
        self.evaluations, self._dtype = 0, None
        nothing = Listed(torch.zeros(len(x), 1, 0, dtype=torch.bool), self.keys()[:, None])
        x = x.to(self.device)
        ends = []
        for anchor in (value.prediction, value.base):

            def alone(x: Tensor, _: Any, anchor: Any = anchor) -> Estimate:
                return Estimate(anchor(x)[:, None])

            ends.append(self._asked(alone, x, nothing)[:, 0])
            _check_finite(ends[-1], torch.arange(len(x)))
        # A model in double precision may have a surrogate in single precision.
        self._dtype = torch.promote_types(ends[0].dtype, ends[1].dtype)
        self.prediction, self.base = (end.to(self._dtype) for end in ends)
        self.total, self.device = self.prediction - self.base, self.prediction.device
        self.shape = (len(x), len(self.players), self.prediction.shape[1])
        self.partition = value.space.partition(value.classes)
        self.full_covariance = (
            self.partition is not None and self.shape[2] <= _MAX_COVARIANCE_OUTPUTS
        )
        self.evaluations = 0

    def evaluate(self, rows: Tensor, asked: Coalitions) -> Float[Tensor, "rows m *places outputs"]:
        """Values of coalitions of these rows: of orders for each size from 0 to n.

        Args:
            rows: indices of rows.
            asked: `items` and `keys` may be shared by the rows, on an axis of length one. Nested
                and toggled coalitions of a run have an axis of their own, with the anchors.
        """
        x, count, run = self.x[rows].to(self.device), asked.items.shape[1], asked.run
        items, keys = asked.items.to(self.device), asked.keys.to(self.device)
        asked = replace(
            asked,
            items=items.expand(len(x), -1, -1),
            keys=keys.expand(len(x), count),
            lacking=len(self.value.players) - len(self.players),
        )
        approximates = isinstance(asked, Approximated)
        near = self.linearized if approximates else None
        if count * run:
            values = self._asked(near.values if near else self.value.values, x, asked)
        else:  # A game of one player has no coalitions to evaluate.
            values = self.base.new_empty(len(x), 0, self.shape[2])
        self.evaluations += len(x) * count * (1 if approximates else run)
        values = self._with_anchors(values.unflatten(1, (count, run)), rows, asked)
        _check_finite(values, rows)
        return values

    @torch.no_grad()
    def _asked(
        self, ask: Callable[[Tensor, Any], Estimate], x: Tensor, asked: Coalitions
    ) -> Float[Tensor, "rows m outputs"]:
        """Values of coalitions, piece by piece; with fewer at a time where memory runs out."""
        values, most = None, self._most()
        for rows, which, piece in asked.split(most):
            if self._most() < most:  # Memory ran out before.
                found = self._asked(ask, x[rows], piece)
            else:
                try:
                    estimate = ask(x[rows], piece)
                except (RuntimeError, MemoryError) as error:
                    self._halve_or_raise(error, math.prod(piece.shape))
                    found = self._asked(ask, x[rows], piece)
                else:
                    outputs = len(self.value.outputs)
                    sampled = self.value.spec.work.sampled
                    found = check_estimate(estimate, piece.shape, outputs, x.device, sampled).values
                    done = math.prod(piece.shape) / asked.run
                    self.bar.update(int(done) if done.is_integer() else done)
            if piece.shape == asked.shape:
                return found.to(dtype=self._dtype)
            if values is None:
                values = found.new_empty((*asked.shape, found.shape[2]), dtype=self._dtype)
            values[rows, which] = found
        assert values is not None
        return values

    def _most(self) -> int:
        """How many values make one batch, at least one."""
        return max(1, self.batch_size // self.draws)

    @cached_property
    def linearized(self) -> Linearized | None:
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
        return max(1, self._most() // max(1, values))

    def batches(self, values: int) -> tuple[Int64[Tensor, " some"], ...]:
        """All rows, as many at a time as fit one batch with so many values each."""
        return torch.arange(len(self.x)).split(self.rows_per_batch(values))

    def keys(self, seed: int = 0) -> Int64[Tensor, " instances"]:
        """A key for each row, so that its draws are independent of those of other rows."""
        return _random.fold(self._numbers, seed)

    def _with_anchors(self, values: Tensor, rows: Tensor, asked: Coalitions) -> Tensor:
        """Values of nested coalitions between the anchors, and of toggled ones with these."""
        if isinstance(asked, Listed):
            return values[:, :, 0]
        base, prediction = (end[:, None, None] for end in self.ends(rows))
        if isinstance(asked, Nested):
            ends = [end.expand(-1, values.shape[1], -1, -1) for end in (base, prediction)]
            return torch.cat((ends[0], values, ends[1]), dim=2)
        items = asked.items.to(values.device)
        size = items.sum(2, keepdim=True)
        sizes = torch.cat((size, size + torch.where(items, -1, 1)), dim=2)[..., None]
        values = torch.where(sizes == 0, base, values)
        return torch.where(sizes == items.shape[2], prediction, values)

    def _halve_or_raise(self, error: Exception, values: int) -> None:
        if not lacks_memory(error) or self.batch_size == 1 or values * self.draws == 1:
            raise error
        if not self._warned:
            self._warned = True
            warn(
                f"Out of memory at batch_size={self.batch_size}: halved, without a change of the "
                "results. A smaller `batch_size` avoids the retry.",
            )
        self.batch_size = max(1, min(self.batch_size, values * self.draws) // 2)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


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
