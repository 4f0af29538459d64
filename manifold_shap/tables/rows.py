"""Rows as value functions take them and as networks see them.

Rows of a `Table` are codes, one for each column, which networks and distances see as floats; rows
of no table are what they are.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtyping import Float
from torch import Tensor

from manifold_shap._arrays import is_frame
from manifold_shap.players import Players

if TYPE_CHECKING:
    from manifold_shap.tables.table import Table


def rows_of(x: Any, table: "Table | None") -> Any:
    """A frame as rows of its table; rows as they are."""
    return x if table is None or not is_frame(x) else table.rows(x)


def encoded(
    x: Float[Tensor, "*batch event"], table: "Table | None"
) -> Float[Tensor, "*batch elements"]:
    """Rows as networks see them: codes as floats, rows of floats as they are."""
    return x if table is None else table.encode(x)


def elements_of(players: Players, table: "Table | None") -> Players:
    """The players as owners of the elements that networks see."""
    return players if table is None else table.owners(players)


class EncodedRows(NamedTuple):
    """Makes encoded rows of codes, for a model that was trained on these: see `as_model`.

    >>> import pandas as pd
    >>> import torch
    >>> from manifold_shap import Table
    >>> table = Table.fit(pd.DataFrame({"town": ["Oslo", "Rome", "Bern"]}))
    >>> EncodedRows(table).frame(torch.tensor([[1.0]]))
    tensor([[0., 1., 0.]])
    """

    table: "Table"

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns, one for each code of a row."""
        return self.table.names

    def frame(self, x: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows elements"]:
        """The rows that the codes stand for."""
        return self.table.encode(x)


def constant_players(players: Players, table: "Table | None") -> tuple[str, ...]:
    """Names of the players that explanations add, for the constant columns of the table.

    >>> import pandas as pd
    >>> from manifold_shap import Table
    >>> table = Table.fit(pd.DataFrame({"size": [1, 2, 3], "year": 2024}))
    >>> constant_players(table.players, table)
    ('year',)

    Raises:
        ValueError: a player of the game has one of their names.
    """
    # Rows with players of their own are explained by these alone.
    if table is None or not table.constants or players.by_row:
        return ()
    names = table.with_constants().players.names[len(table.players) :]
    taken = [name for name in names if name in players.names]
    if taken:
        raise ValueError(
            f"Expected players with other names than those of constant columns but got {taken}; "
            "explanations have these columns as players of exactly 0, so choose another name."
        )
    return names
