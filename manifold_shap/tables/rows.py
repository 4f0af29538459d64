"""Rows and players of tables: as value functions take them, and as networks see them.

Rows of a `Table` are codes, one for each column, which networks and distances see as floats; rows
of no table are what they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from manifold_shap._arrays import is_frame, is_inputs
from manifold_shap._checks import check_known
from manifold_shap._saved import saved
from manifold_shap.players import Players
from manifold_shap.tables.base import RowAdapter


def is_for_table(x: Any) -> bool:
    """Whether rows are a frame, texts, or several tensors, of which a table makes a tensor."""
    return is_inputs(x) or is_texts(x) or is_frame(x)


def is_texts(x: Any) -> bool:
    """Whether this is a list, an array or a column of texts, some of which may be missing.

    >>> is_texts(["a good film"]), is_texts([["a", "b"]]), is_texts("text")
    (True, False, False)
    """
    several = isinstance(x, list | tuple | np.ndarray) or hasattr(x, "to_list")
    return several and getattr(x, "ndim", 1) == 1 and any(isinstance(text, str) for text in x)


def rows_of(x: Any, table: RowAdapter | None) -> Any:
    """Rows of the user's kind as those of their table; rows as they are."""
    return x if table is None or not is_for_table(x) else table.rows(x)


def encoded(
    x: Float[Tensor, "*batch event"], table: RowAdapter | None
) -> Float[Tensor, "*batch elements"]:
    """Rows as networks see them: codes as floats, rows of floats as they are."""
    return x if table is None else table.encode(x)


def elements_of(players: Players, table: RowAdapter | None) -> Players:
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

    table: RowAdapter

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


def constant_players(players: Players, table: RowAdapter | None) -> tuple[str, ...]:
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
    if table is None or players.by_row:
        return ()
    names = table.constant_players
    taken = [name for name in names if name in players.names]
    if taken:
        raise ValueError(
            f"Expected players with other names than those of constant columns but got {taken}; "
            "explanations have these columns as players of exactly 0, so choose another name."
        )
    return names


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
