"""The door of every estimator: a callable and its rows, opened for evaluation in chunks."""

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap import _random
from manifold_shap._checks import check_rows, to_tensor
from manifold_shap._version import __version__
from manifold_shap.explanation import Explanation
from manifold_shap.players import Players
from manifold_shap.simplex.partition import Partition

Coalitions = Callable[[int, int], Tensor]

# What fits a processor's cache is fastest there; an accelerator wants to be filled.
BATCH_SIZE_CPU = 8192
BATCH_SIZE_ACCELERATOR = 65_536

# Covariances take as many numbers as outputs squared, for every row and player.
_MOST_CROSSED = 64


class Game:
    """One game per row, from any callable `value(x, mask)` that keeps the contract.

    What the callable does not know is filled in: `players` (one per element of a row), `outputs`
    (numbered), `base` and `prediction` (by calling it with nobody and with everybody). It sees
    rows where `x` is, and records no gradients.

    Args:
        value: maps rows `[batch, *event]` and a bool mask `[batch, m, players]` to values
            `[batch, m, outputs]`.
        x: rows `[instances, *event]`.
        batch_size: model rows per call; by default what suits the value function and the device.
            Changes memory, not the numbers; out of memory halves it.

    Raises:
        TypeError: `x` is no tensor or array of numbers, or `value` returns no tensor.
        ValueError: `batch_size` below 1, rows of another shape than the players', not finite, or
            none; values of another shape, or not finite.
    """

    def __init__(
        self, value: Callable[[Tensor, Tensor], Tensor], x: Any, batch_size: int | None = None
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"Expected `batch_size` of at least 1 but got {batch_size}.")
        self.value = value
        self.evaluations = 0
        self._warned = False
        rows = to_tensor(x)
        own = getattr(value, "players", None)
        self.players: Players = own or Players.of_elements(rows.shape[1:])
        self.x = check_rows(rows, self.players)
        device = getattr(value, "device", self.x.device)
        self.draws: int = getattr(value, "draws", 1)
        self.noisy: bool = getattr(value, "noisy", False)
        default = BATCH_SIZE_CPU if device.type == "cpu" else BATCH_SIZE_ACCELERATOR
        self.batch_size = batch_size or getattr(value, "batch_size", None) or default
        self.prediction = self._prediction()
        self.base = self._base()

    @property
    def device(self) -> torch.device:
        """Where the values come from."""
        return self.prediction.device

    def evaluate(
        self, rows: Tensor, coalitions: Coalitions, count: int, keys: Tensor
    ) -> Float[Tensor, "rows count outputs"]:
        """Values of `count` coalitions for each of these rows.

        Args:
            rows: indices of rows.
            coalitions: gives the masks `[rows, stop - start, players]` of those numbered from
                start to stop; they are built chunk by chunk, since all of them may not fit. None
                of them is empty or full: those values are `base` and `prediction`.
            count: number of coalitions per row.
            keys: `[rows, count]` or `[rows, 1]`; coalitions with equal keys share the random
                numbers of a sampled value function.
        """
        x = self.x[rows].to(self.device)
        keys = keys.expand(-1, count).to(self.device)
        values = self.base.new_empty(len(rows), count, len(self.base))
        start = 0
        while start < count:
            step = max(1, self.batch_size // (len(rows) * self.draws))
            stop = min(start + step, count)
            values[:, start:stop] = self._call(
                self._proper_values, x, coalitions(start, stop), keys[:, start:stop]
            )
            start = stop
        _check_finite(values, rows)
        self.evaluations += len(rows) * count
        return values

    @property
    def walks(self) -> bool:
        """Whether the value function itself has values along orders."""
        return getattr(self.value, "walks", False)

    @property
    def linearizes(self) -> bool:
        """Whether the value function itself has approximate values around coalitions."""
        return getattr(self.value, "linearizes", False)

    def evaluate_along(
        self,
        rows: Tensor,
        orders: Int64[Tensor, "rows orders players"],
        keys: Int64[Tensor, "rows orders"],
    ) -> Float[Tensor, "rows orders sizes outputs"]:
        """Values of the first 1, 2, ... n-1 players of each order, by `value.values_along`.

        Args:
            rows: indices of rows.
            orders: players as they arrive, on the device of the values.
            keys: one per order.
        """
        x, sizes = self.x[rows].to(self.device), len(self.players) - 1
        keys = keys.to(self.device)

        def along(x: Tensor, some: Tensor, own: Tensor) -> Any:
            # An order is asked for whole; what its values hold in memory they cut themselves.
            value: Any = self.value
            return value.values_along(x, some, own, batch_size=self.batch_size)

        step = max(1, self.batch_size // (len(rows) * sizes * self.draws))
        values = torch.cat(
            [
                self._call(along, x, some, own, sizes)
                for some, own in zip(orders.split(step, 1), keys.split(step, 1), strict=True)
            ],
            dim=1,
        )
        _check_finite(values, rows)
        self.evaluations += values.shape[0] * values.shape[1]
        return values.unflatten(1, (-1, sizes))

    @property
    def linearized_cost(self) -> float:
        """What a linearized coalition costs, in values."""
        return getattr(self.value, "linearized_cost", math.inf)

    def evaluate_around(
        self,
        rows: Tensor,
        mask: Bool[Tensor, "rows m players"],
        keys: Int64[Tensor, "rows m"],
        linearized: bool = False,
    ) -> Float[Tensor, "rows m places outputs"]:
        """Values of coalitions, and of each with player 0, 1, ... toggled: players + 1 of them.

        Args:
            rows: indices of rows.
            mask: coalitions, on the device of the values.
            keys: one per coalition.
            linearized: approximately, by a value function that `linearizes`.
        """
        x, keys, places = self.x[rows].to(self.device), keys.to(self.device), mask.shape[2] + 1
        around = partial(self._turned, linearized) if self._surrounds else self._around
        step = max(1, self.batch_size // (len(rows) * places * self.draws))
        values = torch.cat(
            [
                self._call(around, x, some, own, places)
                for some, own in zip(mask.split(step, 1), keys.split(step, 1), strict=True)
            ],
            dim=1,
        )
        _check_finite(values, rows)
        self.evaluations += values.shape[0] * (mask.shape[1] if linearized else values.shape[1])
        return self._anchored(rows, mask, values.unflatten(1, (-1, places)))

    @property
    def _surrounds(self) -> bool:
        return self.linearizes or getattr(self.value, "surrounds", False)

    def _turned(self, linearized: bool, x: Tensor, mask: Tensor, keys: Tensor) -> Any:
        value: Any = self.value
        if linearized:
            return value.values_around(x, mask, keys, linearized=True)
        return value.values_around(x, mask, keys, batch_size=self.batch_size)

    def _around(self, x: Tensor, mask: Tensor, keys: Tensor) -> Any:
        players = mask.shape[2]
        toggles = torch.eye(players + 1, players, dtype=torch.bool, device=mask.device).roll(1, 0)
        around = (mask[:, :, None] ^ toggles).flatten(1, 2)
        size = around.sum(2)
        # These values are known, and any proper coalition may stand in.
        around[(size == 0) | (size == players)] = toggles[1]
        return self._proper_values(x, around, keys.repeat_interleave(players + 1, 1))

    def _anchored(
        self,
        rows: Tensor,
        mask: Bool[Tensor, "rows m players"],
        values: Float[Tensor, "rows m places outputs"],
    ) -> Float[Tensor, "rows m places outputs"]:
        """The known values in the places of nobody and of everybody."""
        size = mask.sum(2, keepdim=True)
        sizes = torch.cat((size, size + torch.where(mask, -1, 1)), dim=2)[..., None]
        prediction = self.prediction[rows.to(self.device), None, None]
        values = torch.where(sizes == 0, self.base, values)
        return torch.where(sizes == mask.shape[2], prediction, values)

    def keys(self, rows: Tensor, seed: int = 0) -> Int64[Tensor, " rows"]:
        """A key for each row: its sampled values owe nothing to the other rows."""
        return _random.fold(rows, seed)

    def error_of_enumeration(self, phi: Tensor) -> Tensor:
        """Standard errors where all orders count: those of the draws, which share their numbers.

        Zero for a value function without noise; NaN, not known, for one whose draws leave some.
        """
        # A single player has no coalition that anything would be drawn for.
        unknown = self.noisy and len(self.players) > 1
        return torch.full_like(phi, torch.nan if unknown else 0.0)

    @property
    def crossed(self) -> bool:
        """Whether errors of outputs are wanted together: in log-ratio space, to be rotated."""
        return self._on_simplex and len(self.base) <= _MOST_CROSSED

    def explanation(
        self, phi: Tensor, standard_error: Tensor, made_by: dict, covariance: Tensor | None = None
    ) -> Explanation:
        """The labelled result."""
        space, classes = getattr(self.value, "space", None), getattr(self.value, "classes", ())
        return Explanation(
            phi=_own(phi),
            standard_error=_own(standard_error),
            covariance=None if covariance is None else _own(covariance),
            partition=Partition.sequential(classes) if self._on_simplex else None,
            base=_own(self.base),
            prediction=_own(self.prediction),
            x=_own(self.x),
            players=self.players,
            outputs=getattr(self.value, "outputs", None)
            or tuple(str(k) for k in range(phi.shape[-1])),
            space=space.name if space else "identity",
            schema=getattr(self.value, "schema", None),
            made_by={
                "version": __version__,
                **getattr(self.value, "provenance", {"value_function": "callable"}),
                "evaluations": self.evaluations,
                **made_by,
            },
        )

    @property
    def _on_simplex(self) -> bool:
        space = getattr(self.value, "space", None)
        return space is not None and space.name == "ilr"

    def _proper_values(self, x: Tensor, mask: Tensor, keys: Tensor) -> Any:
        proper = getattr(self.value, "proper_values", None)
        return self.value(x, mask) if proper is None else proper(x, mask, keys)

    def _prediction(self) -> Float[Tensor, "instances outputs"]:
        known = getattr(self.value, "prediction", None)

        def value(x: Tensor, mask: Tensor, keys: Tensor) -> Any:
            return self.value(x, mask) if known is None else known(x)[:, None]

        everybody = self.x.new_ones(len(self.x), 1, len(self.players), dtype=torch.bool)
        prediction = self._call(value, self.x, everybody, _no_keys(everybody))
        _check_finite(prediction, torch.arange(len(self.x)))
        return prediction[:, 0]

    def _base(self) -> Float[Tensor, " outputs"]:
        base = getattr(self.value, "base", None)
        if base is not None:
            return base
        nobody = self.x.new_zeros(1, 1, len(self.players), dtype=torch.bool)
        values = self._call(self._values, self.x[:1], nobody, _no_keys(nobody))
        _check_finite(values, torch.arange(1))
        return values[0, 0]

    def _values(self, x: Tensor, mask: Tensor, keys: Tensor) -> Any:
        return self.value(x, mask)

    @torch.no_grad()
    def _call(
        self,
        value: Callable[[Tensor, Tensor, Tensor], Any],
        x: Tensor,
        asked: Tensor,
        keys: Tensor,
        each: int = 1,
    ) -> Float[Tensor, "rows m outputs"]:
        """`value(x, asked, keys)` by calls of at most `batch_size` model rows, or for one of them.

        Args:
            value: gives `each` values for everything that is asked for.
            x: rows.
            asked: coalitions, or orders, `[rows, m, players]`.
            keys: `[rows, m]`.
            each: 1 for coalitions.
        """
        count = len(x) * asked.shape[1]
        if count == 1 or count * each * self.draws <= self.batch_size:
            try:
                return _shaped(value(x, asked, keys), len(x), asked.shape[1] * each)
            except (RuntimeError, MemoryError) as error:
                self._halve_or_raise(error, count, each)
        # Only here, outside of `except`, is the memory of a failed call free again.
        if count == 1:
            return self._call(value, x, asked, keys, each)
        if asked.shape[1] > 1:
            halves = zip(asked.chunk(2, 1), keys.chunk(2, 1), strict=True)
            return torch.cat([self._call(value, x, *half, each) for half in halves], dim=1)
        by_rows = zip(x.chunk(2), asked.chunk(2), keys.chunk(2), strict=True)
        return torch.cat([self._call(value, *half, each) for half in by_rows])

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


def _no_keys(mask: Tensor) -> Int64[Tensor, "rows m"]:
    return torch.zeros(mask.shape[:2], dtype=torch.int64, device=mask.device)


def _shaped(values: Any, rows: int, m: int) -> Tensor:
    """Values as floating-point numbers, or an error where they are not `[rows, m, outputs]`."""
    if not isinstance(values, Tensor):
        raise TypeError(
            f"Expected the value function to return a tensor but got {type(values).__name__}."
        )
    if values.ndim != 3 or tuple(values.shape[:2]) != (rows, m):
        raise ValueError(
            f"Expected the value function to return shape ({rows}, {m}, outputs) for {rows} rows "
            f"with {m} coalitions each but got {tuple(values.shape)}; a single output is "
            "`values[..., None]`."
        )
    return values if values.is_floating_point() else values.float()


def _check_finite(values: Float[Tensor, "rows m outputs"], rows: Tensor) -> None:
    if not bool(values.isfinite().all()):
        bad = ~values.isfinite().flatten(1).all(1)
        raise ValueError(
            "Expected finite values but the value function gave NaN or infinite ones for "
            f"{int(bad.sum())} rows, the first of them row {int(rows[bad.cpu()][0])} of `x`; look "
            "for an overflow or a logarithm of zero in it."
        )


def _own(tensor: Tensor) -> Tensor:
    """A float32 copy on the CPU: an explanation shares no memory with what it was made from."""
    return tensor.to("cpu", torch.float32, copy=True)
