"""Rows and players of tables: as value functions take them, and as networks see them.

Rows of a `Table` are codes, one for each column, which networks and distances see as floats; rows
of no table are what they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap._arrays import is_frame
from manifold_shap._checks import check_known
from manifold_shap._saved import saved
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


@saved
@dataclass(frozen=True, eq=False)
class EncodedRows:
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

    kind = "encoded rows"

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return {"table": self.table}, {}

    @classmethod
    def restored(cls, settings: dict[str, Any], _: dict[str, Tensor], __: Any) -> "EncodedRows":
        return cls(settings["table"])


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
    owners = dict.fromkeys(map(table.player_of, table.constants))
    names = tuple(name for name in owners if name not in table.players.names)
    taken = [name for name in names if name in players.names]
    if taken:
        raise ValueError(
            f"Expected players with other names than those of constant columns but got {taken}; "
            "explanations have these columns as players of exactly 0, so choose another name."
        )
    return names


def in_frame(
    x: Float[Tensor, "rows columns"],
    players: Players,
    owners: Int64[Tensor, "rows columns"] | None,
    table: "Table",
) -> tuple[Any, Players, Tensor | None]:
    """Rows of a table as the model sees them, and who owns the columns of this frame.

    Constant columns are players of their own, behind the others, or belong to their group's player;
    columns that are left out belong to nobody. An array of numbers comes as a tensor.

    >>> import pandas as pd
    >>> from manifold_shap import Table
    >>> table = Table.fit(pd.DataFrame({"year": 2024, "size": [1, 2, 3]}))
    >>> frame, players, _ = in_frame(torch.tensor([[2.0]]), table.players, None, table)
    >>> frame.to_numpy().tolist(), players.names, players.index.tolist()
    ([[2024, 3]], ('size', 'year'), [1, 0])
    """
    frame, columns = table.frame(x), list(map(str, table.header))
    of_column = torch.full((len(columns),), -1)
    own = torch.tensor([columns.index(name) for name in table.names])
    if owners is not None:
        owners = of_column.expand(len(x), -1).index_copy(1, own, owners)
    of_column[own] = players.index
    if not players.by_row:
        names = [*players.names, *constant_players(players, table)]
        for name in table.constants:
            owner = table.player_of(name)
            # A constant in a group with columns that vary belongs to their player.
            of_column[columns.index(name)] = (
                players.index[table.players.index == table.players.names.index(owner)][0]
                if owner in table.players.names
                else names.index(owner)
            )
        players = Players.of_elements((len(names),), names)
    if isinstance(frame, np.ndarray) and frame.dtype.kind in "biuf":
        frame = torch.from_numpy(frame)
    elif isinstance(frame, np.ndarray):
        import pandas as pd

        frame = pd.DataFrame(frame, columns=columns)
    return frame, players.owning(of_column), owners


def named_groups(
    players: Mapping[str, Sequence[Any]] | None, columns: Sequence[Any], playing: Sequence[Any]
) -> dict[str, list[str]]:
    """Groups of the columns that play or are constant, checked, as text.

    Raises:
        ValueError: an unknown column, a group of none, or one with the name of another column.
    """
    groups = dict[str, list[str]]()
    for group, members in (players or {}).items():
        listed = [members] if isinstance(members, str) else list(members)
        check_known(listed, columns, f"columns of the group {group!r}")
        taken = str(group) in map(str, frozenset(columns) - frozenset(listed))
        if taken or not listed:
            problem = "a name that no column outside of it has" if taken else "columns"
            raise ValueError(f"Expected the group {group!r} to have {problem} but got {listed}.")
        own = [str(name) for name in listed if name in playing]
        if own:
            groups[str(group)] = own
    return groups


def players_of(names: Sequence[str], groups: Mapping[str, Sequence[str]]) -> Players:
    """Each group of columns, and each other column, as a player.

    >>> players_of(["age", "town", "street"], {"address": ["town", "street"]}).index.tolist()
    [0, 1, 1]

    Raises:
        ValueError: a column in two groups.
    """
    group_of = dict[str, str]()
    for group, members in groups.items():
        for name in members:
            if name in group_of:
                raise ValueError(
                    f"Expected every column in one group at most but column {name!r} is in "
                    f"{group_of[name]!r} and in {group!r}; list it once."
                )
            group_of[name] = group
    owners = [group_of.get(name, name) for name in names]
    order = list(dict.fromkeys(owners))
    return Players(order, [order.index(owner) for owner in owners])
