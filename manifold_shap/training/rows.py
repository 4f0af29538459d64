"""Says which rows and players a training is of, and how its networks see the rows."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._checks import check_rows, to_tensor
from manifold_shap._stored import MappedRows, PartRows, StoredRows, stored
from manifold_shap.players import Players, check_fixed
from manifold_shap.tables.rows import elements_of, encoded, is_for_table, rows_of

if TYPE_CHECKING:
    from manifold_shap.tables.base import RowAdapter


class TrainingRows(NamedTuple):
    """Rows to train and to validate on.

    Attributes:
        players: see `Players`; they own the elements of a row.
        train, validation: rows as the model sees them: tensors, or `StoredRows` where those of the
            caller were.
        table: whose codes the rows are, if they are codes.
    """

    players: Players
    train: Any
    validation: Any
    table: "RowAdapter | None"

    @property
    def encoded(self) -> tuple[Any, Any]:
        """Both as networks see them."""
        return seen_rows(self.train, self.table), seen_rows(self.validation, self.table)

    @property
    def settings(self) -> dict[str, Any]:
        """What a `Task` of a network on these rows has to know of them, as plain data."""
        seen = elements_of(self.players, self.table).index
        return {
            "event": self.players.event,
            "index": self.players.index.flatten().tolist(),
            "elements": None if self.table is None else seen.tolist(),
            "players": self.players.names,
            "padding": self.players.padding,
        }


def training_rows(
    x_train: Any,
    x_validation: Any,
    seed: int,
    players: Players | Mapping[str, Any] | str | None = None,
    table: "RowAdapter | None" = None,
) -> TrainingRows:
    """The players, and the rows to train and to validate on, checked.

    Args:
        x_train: rows, a frame, or what `stored` makes `StoredRows` of.
        x_validation: the same, or None to hold out a tenth of the others by the seed.
        players: by default those of the table, or else pixels or elements of a row. With a frame
            or a table also groups of its columns by name.
        table: by default none for rows, and one of its cells for a frame.

    Raises:
        TypeError, ValueError: rows that are not finite, of another shape than `players` own, no
            codes of the table, or fewer than two; players that are none, or differ from row to row
            by more than padding.
    """
    x_train, x_validation = stored(x_train), stored(x_validation, "x_validation")
    if table is None and is_for_table(x_train):
        from manifold_shap.tables.fitted import fit_table

        table = fit_table(x_train, None if isinstance(players, Players) else players)
        players = players if isinstance(players, Players) else None
    if table is not None and isinstance(players, Mapping):
        players = table.grouped(players)
    x_train = rows_of(x_train, table)
    is_stored = isinstance(x_train, StoredRows)
    shape = x_train.shape if is_stored else to_tensor(x_train, "x_train").shape
    players = _players(players, shape, table)
    x_train = checked_rows(x_train, players, "x_train")
    if x_validation is not None:
        x_validation = checked_rows(rows_of(x_validation, table), players, "x_validation")
        return TrainingRows(players, x_train, x_validation, table)
    if len(x_train) < 2:
        raise ValueError(
            f"Expected at least 2 training rows but got {len(x_train)}; one of them is held out "
            "for validation."
        )
    order = torch.randperm(len(x_train), generator=torch.Generator().manual_seed(seed))
    held_out = max(1, round(0.1 * len(x_train)))
    parts = (order[held_out:], order[:held_out])
    train, validation = (PartRows(x_train, k) if is_stored else x_train[k] for k in parts)
    return TrainingRows(players, train, validation, table)


def seen_rows(rows: Any, table: "RowAdapter | None") -> Any:
    """Rows, in memory or elsewhere, as networks see them."""
    if isinstance(rows, StoredRows):
        return rows if table is None else MappedRows(rows, table.encode)
    return encoded(rows, table)


def without_padding(x: Float[Tensor, "rows *event"], players: Players) -> Tensor:
    """Rows with values of longer rows in place of their padding: units are those of what is there.

    Positions that no row has get what is at the last that some row has.

    >>> x = torch.tensor([[5.0, 0.0, 0.0], [3.0, 4.0, 0.0]])
    >>> without_padding(x, Players.tokens(3, padding=0))
    tensor([[5., 4., 4.],
            [3., 4., 4.]])
    """
    if players.padding is None:
        return x
    own, lengths = players.owners(x) >= 0, players.lengths(x)
    longest = lengths.argsort(descending=True, stable=True)
    count = own.sum(0).clamp(min=1)
    number = torch.arange(len(x), device=x.device).reshape(-1, *(1,) * (x.ndim - 1))
    filled = torch.where(own, x, x[longest].gather(0, number % count))
    return filled[..., torch.arange(x.shape[-1], device=x.device).clamp(max=lengths.max() - 1)]


def checked_rows(x: Any, players: Players, name: str) -> "Tensor | StoredRows":
    """Rows of the shape that players own, on the CPU; those elsewhere are finite when gathered."""
    if isinstance(x, StoredRows):
        check_rows(x[:1], players, name)
        x.players = players
        return x
    return check_rows(x, players, name).cpu()


def _players(players: Any, shape: torch.Size, table: "RowAdapter | None") -> Players:
    """The players, or those of the table, or the elements of a row."""
    if not isinstance(players, Players | None):
        raise TypeError(
            "Expected `players` to be a Players or, with a frame or a table, groups of columns by "
            f"name, but got {type(players).__name__}; name columns of numbers by "
            "`Players.of_elements((columns,), names)`."
        )
    if players is not None:
        check_fixed(players, "a training")
    return players or (Players.of_columns(None, shape[1:]) if table is None else table.players)
