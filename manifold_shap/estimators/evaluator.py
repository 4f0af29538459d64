"""Evaluates a value function for estimators, with exact anchors."""

from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap import _random
from manifold_shap._memory import keep_freed
from manifold_shap.coalitions import Approximated, Coalitions, Listed, Nested
from manifold_shap.ordering import Ordering
from manifold_shap.values.base import Linearized, ValueFunction, check_estimate
from manifold_shap.values.batches import Batches

# Numbers of all coalitions of some rows that are in memory together: not by `batch_size`, on which
# the rounding of sums would then depend.
MOST_NUMBERS = 2**22
# Covariances take as many numbers as outputs squared, for every row and player.
_MAX_COVARIANCE_OUTPUTS = 64

keep_freed()


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
        batches: of model rows.
        evaluations: values computed so far, over all rows, without anchors.

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
        self.value, self.x, self.players = value, x, value.players
        self._numbers = torch.arange(len(x)) if numbers is None else numbers
        self.order = Ordering.of(None, self.players) if order is None else order
        if self.players.by_row:
            self.players = self.players.first(int(value.counts(x[:1].to(value.device))))
            self.order = self.order.among(self.players)
        self.draws, self.sampled = value.spec.work.draws, value.spec.work.sampled
        self.batches = Batches(value, batch_size, progress)

        anchors = (partial(value.end, of) for of in (value.prediction, value.base))
        ends = [self.batches.of_rows(anchor, x.to(value.device)) for anchor in anchors]
        for each in ends:
            _check_finite(each, torch.arange(len(x)))
        # A model in double precision may have a surrogate in single precision.
        dtype = torch.promote_types(ends[0].dtype, ends[1].dtype)
        self.prediction, self.base = (each.to(dtype) for each in ends)
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
        ask = near.values if near else self.value.values

        def checked(x: Tensor, some: Any) -> Tensor:
            found, outputs = ask(x, some), len(self.value.outputs)
            return check_estimate(found, some.shape, outputs, x.device, self.sampled).values

        if count * run:
            values = self.batches(checked, x, asked).to(self.base.dtype)
        else:  # A game of one player has no coalitions to evaluate.
            values = self.base.new_empty(len(x), 0, self.shape[2])
        self.evaluations += len(x) * count * (1 if approximates else run)
        values = self._with_anchors(values.unflatten(1, (count, run)), rows, asked)
        _check_finite(values, rows)
        return values

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

    def blocks(self, values: int, rows: Tensor | None = None) -> tuple[Tensor, ...]:
        """These rows, or all, as many at a time as memory has room for so many values of each."""
        rows = torch.arange(len(self.x)) if rows is None else rows
        numbers = max(1, values) * self.shape[2] ** (2 if self.full_covariance else 1)
        return rows.split(max(1, MOST_NUMBERS // numbers))

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
