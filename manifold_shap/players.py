"""Defines the players of a game: their names, and the player of each element of an input row."""

import copy
import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from manifold_shap._arrays import column_names
from manifold_shap._checks import check_channels_first, check_distinct, check_number, check_whole
from manifold_shap._saved import saved

Padding = int | float | None


@saved
class Players:
    """The players of a game, and the input elements that each of them owns.

    Elements of one player (a one-hot block, the channels of a pixel, a superpixel) enter and
    leave a coalition together.

        >>> players = Players(["size", "colour"], [0, 1, 1])
        >>> players.expand(torch.tensor([True, False]))
        tensor([ True, False, False])

    Rows of differing length, such as sentences, are padded at the end of their last axis. The
    positions there at which all elements equal `padding` belong to nobody, and a row has the first
    of the players, as many as begin before its end:

        >>> players = Players.tokens(4, padding=0)
        >>> players.owners(torch.tensor([[7.0, 3.0, 0.0, 0.0], [5.0, 2.0, 4.0, 0.0]]))
        tensor([[ 0,  1, -1, -1],
                [ 0,  1,  2, -1]])

    Rows with such positions before others, as of tokenizers that pad in front, are refused wherever
    rows are trained on, drawn from or explained.

    Attributes:
        names: one per player.
        index: int64, shaped as one input row (`*event`): the player that owns each element. -1
            throughout where players differ from row to row, see `of_rows`.
        padding: the number that rows are padded by; None where all rows have one length.
        fixed: whether the owner of an element is the same in every row that has it; False of
            `of_rows`.
        by_row: whether a row may lack some of the players: whether rows are padded, or players
            differ from row to row.

    Args:
        names: one per player; converted by `str`.
        index: tensor, array or nested list of whole numbers, as the attribute.
        padding: as the attribute.

    Raises:
        TypeError: `index` or `padding` holds no numbers.
        ValueError: a name that occurs more than once, or an `index` that does not hold every
            player; with `padding`, players that do not begin one after another.
    """

    def __init__(self, names: Iterable[object], index: object, padding: Padding = None) -> None:
        self.names = tuple(str(name) for name in names)
        if not self.names:
            raise ValueError("Expected at least one player but got none; give rows an element.")
        check_distinct(
            self.names, "names of players", "number them, or let one player own their elements"
        )
        given = torch.as_tensor(index).cpu()
        owners, every = torch.unique(given), torch.arange(len(self.names), device="cpu")
        if given.is_floating_point() or not torch.equal(owners, every):
            raise ValueError(
                f"Expected `index` to hold every integer from 0 to {len(self.names) - 1}, one per "
                f"name in `names`, but got {owners.tolist()[:20]} for {len(self.names)} names."
            )
        self.index = given.long()
        self.padding = None if padding is None else check_number("padding", padding)
        self.fixed = True
        if self.by_row:
            _check_in_sequence(self)

    @property
    def by_row(self) -> bool:
        return self.padding is not None or not self.fixed

    @classmethod
    def of_elements(cls, event: Sequence[int], names: Iterable[object] | None = None) -> "Players":
        """One player per element of an input row of shape `event`.

        >>> Players.of_elements((2, 2)).names
        ('x0', 'x1', 'x2', 'x3')
        """
        index = torch.arange(math.prod(event)).reshape(tuple(event))
        return cls((f"x{i}" for i in range(index.numel())) if names is None else names, index)

    @classmethod
    def of_rows(
        cls, event: Sequence[int], count: int, names: Iterable[object] | None = None
    ) -> "Players":
        """Players that differ from row to row: superpixels of a picture, words of a sentence.

        Which elements they own is told by `ValueFunction.owners`. A row has the first of these
        players, as many as it needs. Where rows differ by their length alone, give `padding`.

            >>> players = Players.of_rows((4,), 3)
            >>> players.names, players.by_row
            (('player 0', 'player 1', 'player 2'), True)

        Args:
            event: shape of one input row.
            count: the most players that a row can have.
            names: of the players; by default "player 0", "player 1", ...

        Raises:
            TypeError, ValueError: `count` is no whole number of at least 1.
        """
        count = check_whole("count", count)
        names = [f"player {i}" for i in range(count)] if names is None else names
        players = cls(names, torch.arange(count))
        players.index, players.fixed = torch.full(tuple(event), -1, device="cpu"), False
        return players

    kind = "players"

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        plain = {"names": self.names, "padding": self.padding, "fixed": self.fixed}
        return plain, {"index": self.index}

    @classmethod
    def restored(cls, settings: dict[str, Any], tensors: dict[str, Tensor], _: Any) -> "Players":
        names, index = settings["names"], tensors["index"]
        if not settings["fixed"]:
            return cls.of_rows(index.shape, len(names), names)
        return cls(names, index, settings["padding"])

    def owning(self, index: Int64[Tensor, "*event"]) -> "Players":
        """The same players as owners of the elements of other rows; -1 where nobody owns one.

        >>> Players.of_elements((2,)).owning(torch.tensor([1, -1, 0])).event
        (3,)
        """
        other = copy.copy(self)
        other.index = index
        return other

    @classmethod
    def of_columns(cls, x: Any, event: Sequence[int]) -> "Players":
        """The players by default: pixels of pictures `(channels, height, width)`, else elements.

        These are named as the columns of `x` where that is a frame.

        >>> import pandas as pd
        >>> Players.of_columns(pd.DataFrame({"age": [30], "weight": [70.5]}), (2,)).names
        ('age', 'weight')
        >>> Players.of_columns(None, (3, 1, 2)).names
        ('pixel 0,0', 'pixel 0,1')
        """
        return cls.pixels(event) if len(event) == 3 else cls.of_elements(event, column_names(x))

    @classmethod
    def pixels(cls, event: Sequence[int]) -> "Players":
        """One player per pixel of pictures `(channels, height, width)` or `(height, width)`.

        >>> Players.pixels((3, 2, 2)).names
        ('pixel 0,0', 'pixel 0,1', 'pixel 1,0', 'pixel 1,1')

        Raises:
            TypeError, ValueError: another shape, or channels that come last.
        """
        return cls._blocks("pixel", event, 1)

    @classmethod
    def patches(cls, event: Sequence[int], size: int | Sequence[int]) -> "Players":
        """Rectangles of pixels, with their channels together.

        They are numbered row by row from the upper left corner. Where the height or the width of a
        picture is no multiple of theirs, as many share it evenly: the side of some is smaller.

            >>> Players.patches((1, 4, 4), 2).index
            tensor([[[0, 0, 1, 1],
                     [0, 0, 1, 1],
                     [2, 2, 3, 3],
                     [2, 2, 3, 3]]])

        Args:
            event: `(channels, height, width)` or `(height, width)`.
            size: of a patch in pixels, at most: one number for squares, or its height and width.

        Raises:
            TypeError, ValueError: another shape, channels that come last, or a size below 1.
        """
        return cls._blocks("patch", event, size)

    @classmethod
    def _blocks(cls, word: str, event: Sequence[int], size: int | Sequence[int]) -> "Players":
        shape = _shape(event, (2, 3), "a picture, such as (3, 32, 32) or (28, 28),")
        if len(shape) == 3:
            check_channels_first(shape)
        height, width = size if isinstance(size, Sequence) else (size, size)
        rows = -(-shape[-2] // check_whole("size", height))
        columns = -(-shape[-1] // check_whole("size", width))
        down = torch.arange(shape[-2]) * rows // shape[-2]
        across = torch.arange(shape[-1]) * columns // shape[-1]
        names = [f"{word} {i},{j}" for i in range(rows) for j in range(columns)]
        return cls(names, (down[:, None] * columns + across).expand(shape).contiguous())

    @classmethod
    def channels(cls, event: Sequence[int]) -> "Players":
        """One player per channel: all that stands at one place of the first axis.

        >>> Players.channels((2, 3)).index
        tensor([[0, 0, 0],
                [1, 1, 1]])

        Raises:
            TypeError, ValueError: rows of fewer than two axes, or channels that come last.
        """
        shape = _shape(event, (2, 3, 4), "channels first, such as (3, 32, 32),")
        check_channels_first(shape)
        number = torch.arange(shape[0]).reshape(-1, *(1,) * (len(shape) - 1))
        names = [f"channel {k}" for k in range(shape[0])]
        return cls(names, number.expand(shape).contiguous())

    @classmethod
    def segments(cls, event: Sequence[int], length: int, padding: Padding = None) -> "Players":
        """Stretches of time points of a series, channels together; the last may be shorter.

        >>> Players.segments((2, 5), 3).names, Players.segments((2,), 1).names
        (('time 0-2', 'time 3-4'), ('time 0', 'time 1'))

        Args:
            event: `(channels, time)` or `(time,)`.
            length: of a segment in time points.
            padding: see `Players`; None where all series have one length.

        Raises:
            TypeError, ValueError: another shape, channels that come last, a length below 1, or a
                padding that is no number.
        """
        shape = _shape(event, (1, 2), "a series, such as (3, 200),")
        length = check_whole("length", length)
        if 2 * length > shape[-1]:  # Several segments say which axis is that of time.
            check_channels_first(shape)
        ends = [(k, min(k + length, shape[-1]) - 1) for k in range(0, shape[-1], length)]
        names = [f"time {a}-{b}" if a < b else f"time {a}" for a, b in ends]
        return cls(names, (torch.arange(shape[-1]) // length).expand(shape), padding)

    @classmethod
    def tokens(cls, length: int, padding: Padding = 0) -> "Players":
        """One player per position of token ids `(length,)`.

        >>> Players.tokens(3).names
        ('token 0', 'token 1', 'token 2')

        Args:
            length: of the longest text, in tokens.
            padding: see `Players`; None where all texts have one length.

        Raises:
            TypeError, ValueError: a length below 1, or a padding that is no number.
        """
        count = check_whole("length", length)
        return cls([f"token {k}" for k in range(count)], torch.arange(count), padding)

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        shown = ", ".join(self.names[:5]) + (", ..." if len(self) > 5 else "")
        return f"Players({len(self)}: {shown}; event {self.event})"

    @property
    def event(self) -> tuple[int, ...]:
        """Shape of one input row."""
        return tuple(self.index.shape)

    def first(self, count: int) -> "Players":
        """The first players, for rows that have no more of them."""
        players = self.owning(self.index.where(self.index < count, -1))
        players.names = self.names[:count]
        return players

    def same_as(self, other: "Players") -> bool:
        """Whether they have the same names and own the same elements."""
        own, theirs = (self.names, self.padding), (other.names, other.padding)
        return own == theirs and torch.equal(self.index, other.index)

    def grouped(self, names: Iterable[object], member: Tensor) -> "Players":
        """Coarser players: player k of these is in group `member[k]`.

        Raises:
            ValueError: players that differ from row to row; groups of padded rows out of sequence.
        """
        check_fixed(self, "groups that all rows share")
        return Players(names, member[self.index], self.padding)

    def lengths(self, x: Tensor) -> Int64[Tensor, " batch"]:
        """How many positions of the last axis of each row come before its padding."""
        used = self.used(x)
        return (used * torch.arange(1, used.shape[1] + 1, device=x.device)).amax(1)

    def used(self, x: Tensor) -> Bool[Tensor, "batch positions"]:
        """Which positions of the last axis of each row have an element that is no padding."""
        if self.padding is None:
            return x.new_ones(len(x), self.event[-1], dtype=torch.bool)
        return x.ne(self.padding)[:, None].flatten(1, -2).any(1)

    def owned(self, x: Tensor) -> Bool[Tensor, "batch players"]:
        """Which players each row has: the first, as many as begin before its padding."""
        counts = self.owners(x).flatten(1).amax(1) + 1
        return torch.arange(len(self), device=x.device) < counts[:, None]

    def owners(self, x: Tensor) -> Int64[Tensor, "batch *event"]:
        """The player that owns each element of rows `[batch, *event]`; -1 for padding.

        Raises:
            ValueError: players that differ from row to row, which a value function alone knows.
        """
        check_fixed(self, "their owners")
        own = self.index.to(x.device).expand(x.shape[0], *self.event)
        if self.padding is None:
            return own
        place = torch.arange(self.event[-1], device=x.device)
        inside = place < self.lengths(x)[:, None]
        return own.where(inside.reshape(-1, *(1,) * (len(self.event) - 1), len(place)), -1)

    def expand(self, mask: Tensor) -> Tensor:
        """A mask over players `[..., players]` as a mask over input elements `[..., *event]`.

        Raises:
            ValueError: players that differ from row to row.
        """
        check_fixed(self, "masks over elements")
        return mask[..., self.index.to(mask.device)]

    def known(self, x: Tensor, mask: Tensor) -> Bool[Tensor, "batch m *event"]:
        """Elements of rows that are known: those of the players in the coalition, and padding."""
        present = self.expand(mask)
        return present if self.padding is None else present | (self.owners(x) < 0)[:, None]


def check_fixed(players: Players, what: str) -> Players:
    """Players that own the same elements of every row that has these; `what` needs them.

    Raises:
        ValueError: they differ from row to row (`Players.of_rows`).
    """
    if not players.fixed:
        raise ValueError(
            f"Expected `players` that own the same elements of every row for {what} but these "
            "differ from row to row; give `Players(names, index)`, or write a `ValueFunction` with "
            "`owners`."
        )
    return players


def check_same_players(players: Players, what: str) -> Players:
    """Players that every row has, and that own the same elements of it; `what` needs them.

    Raises:
        ValueError: they differ from row to row, or rows are padded.
    """
    if players.padding is not None:
        raise ValueError(
            f"Expected `players` of rows of one length for {what} but these are of rows padded by "
            f"{players.padding:g}."
        )
    return check_fixed(players, what)


def _check_in_sequence(players: Players) -> None:
    """Raise ValueError where a row that ends early may lack a player but not all behind it."""
    index = players.index.flatten()
    place = torch.arange(players.event[-1], device="cpu").expand(players.event).flatten()
    begin = index.new_zeros(len(players))
    begin.scatter_reduce_(0, index, place, "amin", include_self=False)
    late = (begin.diff() < 0).nonzero()[:, 0].tolist()
    if late:
        one, other = players.names[late[0]], players.names[late[0] + 1]
        raise ValueError(
            "Expected players of padded rows in the order in which they begin on the last axis, so "
            f"that a row has the first of them, but {other!r} begins before {one!r}; number and "
            "name them in that order."
        )


def _shape(event: Any, axes: tuple[int, ...], what: str) -> tuple[int, ...]:
    """The shape of a row of so many axes, none of which is empty."""
    if not isinstance(event, Sequence) or len(event) not in axes:
        raise TypeError(f"Expected `event` to be the shape of {what} but got {event!r}.")
    return tuple(check_whole("event", side) for side in event)
