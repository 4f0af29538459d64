"""Defines the players of a game: their names, and the player of each element of an input row."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from manifold_shap._arrays import column_names
from manifold_shap._checks import check_distinct, check_whole


class Players:
    """The players of a game, and the input elements that each of them owns.

    Elements of one player (a one-hot block, the channels of a pixel, a superpixel) enter and
    leave a coalition together.

        >>> players = Players(["size", "colour"], [0, 1, 1])
        >>> players.expand(torch.tensor([True, False]))
        tensor([ True, False, False])

    Attributes:
        names: one per player.
        index: int64, shaped as one input row (`*event`): the player that owns each element. -1
            throughout where rows have players of their own, see `of_rows`.

    Args:
        names: one per player; converted by `str`.
        index: tensor, array or nested list of whole numbers, as the attribute.

    Raises:
        TypeError: `index` holds no numbers.
        ValueError: a name that occurs more than once, or an `index` that does not hold every
            player.
    """

    def __init__(self, names: Iterable[object], index: object) -> None:
        self.names = tuple(str(name) for name in names)
        check_distinct(
            self.names, "names of players", "number them, or let one player own their elements"
        )
        given = as_labels("index", index)
        owners = torch.unique(given)
        if given.is_floating_point() or not torch.equal(
            owners.cpu(), torch.arange(len(self.names))
        ):
            raise ValueError(
                f"Expected `index` to hold every integer from 0 to {len(self.names) - 1}, one per "
                f"name in `names`, but got {owners.tolist()[:20]} for {len(self.names)} names."
            )
        self.index = given.long()

    @classmethod
    def of_elements(cls, event: Sequence[int], names: Iterable[object] | None = None) -> "Players":
        """One player per element of an input row of shape `event`.

        >>> Players.of_elements((2, 2)).names
        ('x0', 'x1', 'x2', 'x3')
        """
        if not isinstance(event, Sequence):
            raise TypeError(f"Expected `event` to be a shape, such as (4,), but got {event!r}.")
        count = math.prod(event)
        names = [f"x{i}" for i in range(count)] if names is None else list(names)
        if len(names) != count:
            raise ValueError(
                f"Expected {count} names, one per element of shape {tuple(event)}, but got "
                f"{len(names)}."
            )
        return cls(names, torch.arange(count).reshape(tuple(event)))

    @classmethod
    def of_rows(
        cls, event: Sequence[int], count: int, names: Iterable[object] | None = None
    ) -> "Players":
        """Players that differ from row to row: superpixels of a picture, words of a sentence.

        Which elements they own is told by `ValueFunction.owners`. A row has the first of these
        players, as many as it needs.

            >>> players = Players.of_rows((4,), 3)
            >>> players.names, players.by_row
            (('player 0', 'player 1', 'player 2'), True)

        Args:
            event: shape of one input row.
            count: the most players that a row can have.
            names: of the players; by default "player 0", "player 1", ...

        Raises:
            TypeError, ValueError: `count` is no whole number of at least 0.
        """
        count = check_whole("count", count, 0)
        players = cls(
            names if names is not None else [f"player {i}" for i in range(count)],
            torch.arange(count),
        )
        players.index = torch.full(tuple(event), -1)
        return players

    @classmethod
    def of_columns(cls, x: Any, event: Sequence[int]) -> "Players":
        """One player per element of a row, named as the columns of `x` where that is a frame.

        >>> import pandas as pd
        >>> Players.of_columns(pd.DataFrame({"age": [30], "weight": [70.5]}), (2,)).names
        ('age', 'weight')
        """
        return cls.of_elements(event, column_names(x))

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        shown = ", ".join(self.names[:5]) + (", ..." if len(self) > 5 else "")
        return f"Players({len(self)}: {shown}; event {self.event})"

    @property
    def event(self) -> tuple[int, ...]:
        """Shape of one input row."""
        return tuple(self.index.shape)

    @property
    def by_row(self) -> bool:
        """Whether rows have players of their own (`of_rows`)."""
        return len(self) > 0 and bool((self.index < 0).any())

    def first(self, count: int) -> "Players":
        """The first players of those that differ from row to row."""
        return Players.of_rows(self.event, count, self.names[:count])

    def expand(self, mask: Tensor) -> Tensor:
        """A mask over players `[..., players]` as a mask over input elements `[..., *event]`."""
        return mask[..., self.index.to(mask.device)]


def check_same_players(players: Players, what: str) -> Players:
    """Players that own the same elements of every row; `what` needs them.

    Raises:
        ValueError: they differ from row to row (`Players.of_rows`).
    """
    if players.by_row:
        raise ValueError(
            f"Expected `players` that own the same elements of every row for {what} but these "
            "differ from row to row; give `Players(names, index)`, or write a `ValueFunction` with "
            "`owners`."
        )
    return players


def as_labels(name: str, labels: Any) -> Tensor:
    """Numbers of players or groups as a tensor; TypeError if `labels` holds no numbers."""
    try:
        return torch.as_tensor(labels)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"Expected `{name}` to be a tensor, an array or a nested list of whole numbers but got "
            f"{labels!r:.100}; it says by number whose each element is, as in [0, 1, 1]."
        ) from error
