"""What is known of a value function, in one place."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._messages import shown, warn
from manifold_shap._stored import StoredRows
from manifold_shap.players import Players
from manifold_shap.spaces import Identity, OutputSpace

if TYPE_CHECKING:
    from manifold_shap.laws import CoalitionLaw
    from manifold_shap.tables.base import RowAdapter

# Seconds of a value, nominally, by what it costs: arithmetic, a network of ours, calls of a model.
COSTS = {"closed form": 1e-6, "network": 5e-5, "model": 1e-3}

_PLAIN = Identity()

# The range of fewer rows says little: a baseline is one row, a contrast a few.
_FEWEST = 100


@dataclass(frozen=True)
class Work:
    """What one value takes, by which estimators plan.

    Two of these add up to those of a value function that asks both.

        >>> Work(8, sampled=True) + Work(batch_size=100, cost="network")
        Work(draws=9, sampled=True, batch_size=100, cost='model')

    Attributes:
        draws: model rows behind a value.
        sampled: whether another seed of the draws gives another value.
        batch_size: model rows per call that suit it; None where only the device matters.
        cost: `closed form`, `network` (one of ours) or `model` (calls of a model).
    """

    draws: int = 1
    sampled: bool = False
    batch_size: int | None = None
    cost: str = "model"

    def __add__(self, other: "Work") -> "Work":
        sizes = [each.batch_size for each in (self, other) if each.batch_size is not None]
        return Work(
            self.draws + other.draws,
            self.sampled or other.sampled,
            min(sizes, default=None),
            max(self.cost, other.cost, key=COSTS.__getitem__),
        )


class TrainingRange(NamedTuple):
    """The smallest and the largest value of each element of a row, as networks see it.

    >>> seen, players = TrainingRange.of(torch.rand(200, 2)), Players.of_elements((2,))
    >>> seen.count_far_outside(torch.ones(1, 2), players)
    0
    """

    low: Float[Tensor, "*event"]
    high: Float[Tensor, "*event"]

    @classmethod
    def of(cls, rows: Float[Tensor, "rows *event"] | StoredRows) -> "TrainingRange | None":
        """The range of rows; None of fewer than a hundred."""
        if len(rows) < _FEWEST:
            return None
        if isinstance(rows, StoredRows):
            return cls(*rows.extent)
        return cls(rows.amin(0).cpu(), rows.amax(0).cpu())

    def count_far_outside(self, x: Float[Tensor, "rows *event"], players: Players) -> int:
        """How many rows are far outside, with a warning that names players or numbers.

        A row is far outside if one of its elements is beyond the range by more than its width.
        Elements that never vary in the data do not count. Players own the elements.
        """
        width, rows = self.high - self.low, x.cpu()
        beyond = torch.maximum(self.low - rows, rows - self.high)
        far = (beyond > width) & (width > 0)
        outside = far.flatten(1).any(1)
        if count := int(outside.sum()):
            owners = [] if players.by_row else players.index[far.any(0)].unique().tolist()
            names = [players.names[k] for k in owners if k >= 0]
            where = f" in {shown(names)}" if names else ""
            if rows.ndim > 2:  # Of pictures numbers tell more than names of pixels.
                ends = (rows[outside].min(), rows[outside].max(), self.low.min(), self.high.max())
                where = " ({:.3g} to {:.3g}, where it learned {:.3g} to {:.3g})".format(*ends)
            warn(
                f"{count} of {len(rows)} rows are far outside of the data that the value function "
                f"was made from, by more than the whole range{where}. It extrapolates there, which "
                "no standard error counts; check the units of these rows."
            )
        return count


@dataclass(frozen=True, eq=False, repr=False)
class GameSpec:
    """What is known of a value function beside its values.

        >>> GameSpec(Players.of_elements((2,)), ("sum",), name="mine")
        'mine', Players(2: x0, x1; event (2,)), sum

    Attributes:
        players: see `Players`; they expand a mask over players to an input row.
        outputs: names of the outputs of T.
        space: the output space T; by default plain numbers.
        classes: names of the model's classes, where it has any.
        name: as in the configuration and in the provenance of an explanation.
        work: what one value takes.
        table: columns of the table that rows come from, if they come from one; with a `Table`,
            rows are its codes.
        training_range: of the rows that it was made from, where that is known.
        training_law: of the coalitions that it was trained on, where it was.
        learned: whether it is learned from rows, with an error that no draws tell.
        quality: what a `Quality` says of it, as plain data, where that was measured.

    Raises:
        TypeError: `outputs` is text.
    """

    players: Players
    outputs: tuple[str, ...]
    space: OutputSpace = _PLAIN
    classes: tuple[str, ...] = ()
    name: str = "callable"
    work: Work = Work()
    table: "RowAdapter | None" = None
    training_range: TrainingRange | None = None
    training_law: "CoalitionLaw | None" = None
    learned: bool = False
    quality: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.outputs, str):
            raise TypeError(
                f"Expected names of the outputs but got the text {self.outputs!r}; a single one is "
                f"({self.outputs!r},)."
            )
        object.__setattr__(self, "outputs", tuple(self.outputs))
        object.__setattr__(self, "classes", tuple(self.classes))

    def __repr__(self) -> str:
        drawn = f", {self.work.draws} draws" if self.work.draws > 1 else ""
        return f"{self.name!r}, {self.players}, {self.space.named(self.outputs)}{drawn}"
