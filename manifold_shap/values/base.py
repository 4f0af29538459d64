"""Defines the contract of value functions v(S) = E[T(f(X)) | x_S], with exact anchors.

The anchors are v(grand coalition), the model's own prediction, and v(empty coalition), the base.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap import _random
from manifold_shap._checks import check_coalitions, check_finite, check_rows
from manifold_shap._messages import Instead
from manifold_shap.coalitions import Coalitions, Listed, Piece, Toggled
from manifold_shap.players import Players
from manifold_shap.spaces import OutputSpace
from manifold_shap.tables.rows import rows_of
from manifold_shap.values.exportable import Exportable
from manifold_shap.values.spec import GameSpec

if TYPE_CHECKING:
    from manifold_shap.quality import Quality
    from manifold_shap.surrogate.value import SurrogateValue
    from manifold_shap.values.grouped import GroupedValue
    from manifold_shap.values.selected import Outputs


class Estimate:
    """Values, and how well the draws behind them determine them.

        >>> Estimate(torch.zeros(1, 2, 3)).variance is None  # Nothing is drawn.
        True

    Attributes:
        values: `[batch, m, outputs]`.
        variance: left in the values by the finite number of draws, `[batch, m, outputs]`; NaN
            where it is unknown, as of one draw; None where nothing is drawn.
        effective_draws: effective sample size (Σw)²/Σw² of the draws' weights or, where it is
            smaller, of the weights that they are drawn by, `[batch, m]`; None where nobody says.

    Args:
        values, effective_draws: see above.
        variance: or a function that computes it, when it is asked for.
    """

    def __init__(
        self,
        values: Tensor,
        variance: Tensor | Callable[[], Tensor] | None = None,
        effective_draws: Tensor | None = None,
    ) -> None:
        self.values, self.effective_draws = values, effective_draws
        self._variance = variance

    @property
    def variance(self) -> Tensor | None:
        if callable(self._variance):
            self._variance = self._variance()
        return self._variance

    @property
    def is_drawn(self) -> bool:
        """Whether `variance` is anything but None; it is not computed for that."""
        return self._variance is not None

    def noise(self) -> Tensor:
        """`variance`, and zeros where nothing is drawn."""
        return torch.zeros_like(self.values) if self.variance is None else self.variance

    def map(
        self,
        values: Callable[[Tensor], Tensor],
        variance: Callable[[Tensor], Tensor] | None = None,
    ) -> "Estimate":
        """Of functions of the values, and of their variance; by default this becomes unknown.

        >>> Estimate(torch.zeros(1, 1, 1), torch.ones(1, 1, 1)).map(torch.exp).variance
        tensor([[[nan]]])
        """
        mapped = values(self.values)
        of = variance or (lambda _: torch.full_like(mapped, torch.nan))
        later = (lambda: of(self.noise())) if self.is_drawn else None
        return Estimate(mapped, later, self.effective_draws)


def put_together(
    pieces: Sequence[Piece], estimates: Sequence[Estimate], shape: tuple[int, int]
) -> Estimate:
    """One estimate of several, of pieces of coalitions of this shape."""
    if len(pieces) == 1:
        return estimates[0]

    def whole(parts: Sequence[Tensor]) -> Tensor:
        found = parts[0].new_empty((*shape, *parts[0].shape[2:]))
        for piece, part in zip(pieces, parts, strict=True):
            found[piece.rows, piece.which] = part
        return found

    drawn = any(each.is_drawn for each in estimates)
    effective = [each.effective_draws for each in estimates if each.effective_draws is not None]
    return Estimate(
        whole([each.values for each in estimates]),
        (lambda: whole([each.noise() for each in estimates])) if drawn else None,
        whole(effective) if len(effective) == len(estimates) else None,
    )


def check_estimate(
    found: Any, shape: tuple[int, ...], outputs: int, device: torch.device, sampled: bool = False
) -> Estimate:
    """What a value function has returned for so many rows, coalitions of each, and outputs.

    Raises:
        TypeError: it is no `Estimate`.
        ValueError: values of another shape, on another device than the rows, or that are no floats;
            a variance where nothing is said to be drawn.
    """
    if not isinstance(found, Estimate):
        raise TypeError(
            "Expected `values` of the value function to return an `Estimate` but got "
            f"{type(found).__name__}; return `Estimate(values)`."
        )
    values, expected = found.values, (*shape, outputs)
    if (tuple(values.shape), values.device) != (expected, device) or not values.is_floating_point():
        raise ValueError(
            f"Expected the value function to return floats of shape {expected}, rows by coalitions "
            f"by outputs, on {device}, where the rows are, but got {values.dtype} of shape "
            f"{tuple(values.shape)} on {values.device}."
        )
    if found.is_drawn and not sampled:
        raise ValueError(
            "Expected values without a variance, since nothing is drawn by what the value function "
            "says of its work, but got one; say `GameSpec(..., work=Work(sampled=True))`."
        )
    return found


class Linearized(NamedTuple):
    """An approximation of the values of `Toggled` coalitions, and what it costs.

    Attributes:
        cost: of a coalition with all of those around it, in single values.
        values: as the method of a value function, approximately; exact at the coalition itself.
    """

    cost: float
    values: Callable[[Tensor, Toggled], Estimate]


class OneNetwork(NamedTuple):
    """A network that gives all values, and numbers of the outputs that count; None for all."""

    value: "SurrogateValue"
    chosen: Tensor | None = None


class ValueFunction(Exportable, Instead, ABC):
    """A game for every row: `value(x, mask)` gives v(S) for coalitions S of the players.

    A subclass defines `values`, `prediction` and `base`, which get rows and coalitions that were
    checked before.

        >>> class Sum(ValueFunction):
        ...     def values(self, x, coalitions):
        ...         return Estimate((x[:, None] * coalitions.masks()).sum(-1, keepdim=True))
        ...     def prediction(self, x):
        ...         return x.sum(-1, keepdim=True)
        ...     def base(self, x):
        ...         return torch.zeros(len(x), 1)
        >>> value = Sum(GameSpec(Players.of_elements((2,)), ("sum",)))
        >>> value
        Sum('callable', Players(2: x0, x1; event (2,)), sum)
        >>> value(torch.tensor([[1.0, 2.0]]), torch.tensor([[[True, False], [True, True]]]))
        tensor([[[1.],
                 [3.]]])

    Args:
        spec: see `GameSpec`.
    """

    def __init__(self, spec: GameSpec) -> None:
        self._spec = spec

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.spec})"

    # -- what is known of it ----------------------------------------------------------------

    @property
    def spec(self) -> GameSpec:
        """What is known of it; value functions made of this one see what changes later."""
        return self._spec

    def update(self, **changes: Any) -> None:
        """Replace entries of `spec`."""
        self._spec = replace(self._spec, **changes)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def players(self) -> Players:
        return self.spec.players

    @property
    def space(self) -> OutputSpace:
        return self.spec.space

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.spec.outputs

    @property
    def classes(self) -> tuple[str, ...]:
        return self.spec.classes

    @property
    def quality(self) -> "Quality | None":
        """How good it is on rows that it has not seen, where that was measured."""
        from manifold_shap.quality import Quality

        return None if self.spec.quality is None else Quality(**self.spec.quality)

    # -- must be defined --------------------------------------------------------------------

    @abstractmethod
    def values(self, x: Float[Tensor, "batch *event"], coalitions: Coalitions) -> Estimate:
        """Values of coalitions that are neither empty nor full.

        Coalitions may be related (`Nested`, `Toggled`), which some value functions use to be
        faster; the values are the same as of these coalitions one by one, `Listed`.

        A player that a row lacks (`Players.by_row`) is in every coalition, and changes nothing.

        Args:
            x: rows.
            coalitions: m of each row.
        """

    @abstractmethod
    def prediction(self, x: Float[Tensor, "batch *event"]) -> Float[Tensor, "batch outputs"]:
        """v(grand coalition): T(f(x)), from the model itself."""

    @abstractmethod
    def base(self, x: Float[Tensor, "batch *event"]) -> Float[Tensor, "batch outputs"]:
        """v(empty coalition), which may differ by row: a blurred image, say, is a row's own."""

    # -- may be overridden ------------------------------------------------------------------

    def owners(self, x: Float[Tensor, "batch *event"]) -> Int64[Tensor, "batch *event"]:
        """The player that owns each element of each row; -1 for padding that no player owns.

        To be overridden where `Players` cannot tell (`Players.of_rows`): a row then has the
        players 0, 1, ... up to the largest one named here.

        Raises:
            ValueError: players differ from row to row, and this is not overridden.
        """
        return self.players.owners(x)

    @property
    def device(self) -> torch.device:
        """Where values are computed."""
        return torch.device("cpu")

    def to(self, device: torch.device | str) -> "ValueFunction":
        """Move the value function, its model included."""
        return self

    def in_precision(self, precision: str) -> "ValueFunction":
        """The same value function, with a network's products in another precision.

        To be overridden where there is a network, see `SurrogateValue.in_precision`.
        """
        return self

    def with_draws(self, draws: int) -> "ValueFunction":
        """The same value function, with so many draws where values are drawn."""
        return self

    def prediction_in(self, space: OutputSpace, x: Tensor) -> Float[Tensor, "batch outputs"]:
        """The prediction of probabilities in a space of log-ratios."""
        return space(self.prediction(x).log())

    def fitted(self, space: OutputSpace) -> OutputSpace:
        """A space of log-ratios, fitted to the model's outputs where there are rows to ask it."""
        return space

    def draw_rows(self, count: int, seed: int) -> Float[Tensor, "count *event"] | None:
        """New rows, as the value function has them distributed; None where it does not say how."""
        return None

    def one_network(self, chosen: Int64[Tensor, " chosen"] | None = None) -> OneNetwork | None:
        """The surrogate that gives all values, where that is one network with these players.

        Args:
            chosen: numbers of the outputs that are asked for; by default all.
        """
        return None

    @property
    def provenance(self) -> dict[str, Any]:
        """What an explanation records of it: plain numbers and strings."""
        quality, table = self.spec.quality, self.spec.table
        measured: dict[str, Any] = {} if quality is None else {"quality": dict(quality)}
        measured |= {"learned": True} if self.spec.learned else {}
        return {"value_function": self.name, **measured, **(table.provenance if table else {})}

    def linearized(self, chosen: Int64[Tensor, " chosen"] | None = None) -> Linearized | None:
        """A cheap approximation of the values of `Toggled` coalitions; None where there is none.

        Args:
            chosen: numbers of the outputs that it gives; by default all.
        """
        return None

    # -- final ------------------------------------------------------------------------------

    def rows(self, x: Any, name: str = "x") -> Float[Tensor, "batch *event"]:
        """Rows as this value function takes them, checked; a frame is encoded by the table.

        Args:
            x: a tensor, an array, a list of rows or a data frame: of numbers, or with the columns
                of the table, where there is one.
            name: what errors call it.

        Raises:
            TypeError, ValueError: rows of another type or shape, or not finite.
        """
        table = self.spec.table
        rows = check_rows(rows_of(x, table), self.players, name)
        if table is not None:
            table.check(rows, name)
        return rows

    @torch.no_grad()
    def __call__(
        self, x: Any, mask: Any, keys: Tensor | None = None
    ) -> Float[Tensor, "batch m outputs"]:
        """Values of m coalitions per row.

        Args:
            x: rows `[batch, *event]`, or a frame where the value function has a table.
            mask: bool `[batch, m, players]`, `True` = in the coalition. What it says of players
                that a row does not have is ignored.
            keys: int64 `[batch, m]`; coalitions with equal keys share the random numbers of a
                sampled value function. By default all of them do.

        Raises:
            TypeError, ValueError: `x`, `mask` or `keys` of another type or shape, or not finite.
        """
        return self.estimate(x, mask, keys).values

    @torch.no_grad()
    def estimate(self, x: Any, mask: Any, keys: Tensor | None = None) -> Estimate:
        """Values, and the variance that their draws leave in them. Arguments as for a call."""
        rows = self.rows(x)
        mask = check_coalitions(mask, len(rows), self.players).to(self.device)
        rows = rows.to(self.device)
        keys = _random.keys_for(mask, keys)
        owned = self.owned(rows)[:, None]
        found = self._anchored(rows, mask | ~owned, owned, keys)
        check_finite(found.values, "value(x, mask)", "look for an overflow in the value function")
        return found

    def counts(self, x: Float[Tensor, "batch *event"]) -> Int64[Tensor, " batch"]:
        """How many players each row has."""
        if not self.players.by_row:
            return torch.full((len(x),), len(self.players), device=x.device)
        return self.owners(x).flatten(1).amax(1) + 1

    def owned(self, x: Float[Tensor, "batch *event"]) -> Bool[Tensor, "batch players"]:
        """Which players each row has."""
        return torch.arange(len(self.players), device=x.device) < self.counts(x)[:, None]

    def grouped(self, groups: Any, count: int | None = None) -> "GroupedValue":
        """The same value function with coarser players; see `GroupedValue`."""
        from manifold_shap.values.grouped import GroupedValue

        return GroupedValue(self, groups, count)

    def select(self, outputs: "Outputs") -> "ValueFunction":
        """The same value function with some of its outputs alone; see `SelectedValue`.

        Args:
            outputs: names of outputs or their positions, one or a list; where names are numbers,
                a number is a name. None is all of them.

        Raises:
            TypeError, ValueError: outputs that there are not, or the same one twice; log-ratios.
        """
        from manifold_shap.values.selected import selected

        return selected(self, outputs)

    def end(self, of: Callable[[Tensor], Tensor], x: Tensor) -> Float[Tensor, "batch outputs"]:
        """`prediction` or `base` of rows, checked."""
        found = Estimate(of(x)[:, None])
        return check_estimate(found, (len(x), 1), len(self.outputs), x.device).values[:, 0]

    def _anchored(self, x: Tensor, mask: Tensor, owned: Tensor, keys: Tensor) -> Estimate:
        """Values of any coalitions, with the anchors in their places."""
        # On bytes these are vectorised; `any` and `all` take sixty times as long on a CPU.
        own, whole = ((mask & owned).view(torch.uint8), mask.view(torch.uint8))
        empty, full = own.amax(-1, keepdim=True) == 0, whole.amin(-1, keepdim=True) == 1
        proper, work = ~(empty | full)[..., 0], self.spec.work
        if bool(proper.any()):
            # Any proper one stands in for empty and full ones, whose values are known.
            some = torch.where(proper[..., None], mask, mask[proper][0] | ~owned)
            found = self.values(x, Listed(some, keys))
            check_estimate(found, mask.shape[:2], len(self.outputs), x.device, work.sampled)
        else:
            found = Estimate(torch.zeros((*mask.shape[:2], len(self.outputs)), device=x.device))
        values, variance = found.values, found.variance
        for anchored, of in ((empty, self.base), (full, self.prediction)):
            # Of the rows alone that have such a coalition: a model may be asked for each.
            rows = anchored[..., 0].any(1)
            if bool(rows.any()):
                some = self.end(of, x[rows])
                end = some.new_zeros(len(x), 1, some.shape[1])
                end[rows, 0] = some
                values = torch.where(anchored, end, values)
        if variance is None and work.sampled:
            variance = torch.full_like(values, torch.nan)
        if variance is not None:
            variance = torch.where(proper[..., None], variance, 0.0)
        effective = found.effective_draws
        if effective is None:
            effective = values.new_full(values.shape[:2], work.draws)
        return Estimate(values, variance, torch.where(proper, effective, float(work.draws)))
