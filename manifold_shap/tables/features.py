"""Tells what each player was in each row, in original units."""

import pandas as pd
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap.players import Players
from manifold_shap.tables.schema import Schema


def player_values(
    x: Float[Tensor, "rows *event"],
    players: Players,
    schema: Schema | None = None,
    owners: Int64[Tensor, "rows *event"] | None = None,
) -> pd.DataFrame | None:
    """What each player was, in original units `[rows, players]`.

    A player of several columns has them all, as in "street=Elm, number=7"; one that a row lacks
    has NaN. None where a player owns several elements that no schema describes, as a superpixel
    does.

        >>> player_values(torch.tensor([[1.0, 2.0]]), Players(["a", "b"], [1, 0]))
             a    b
        0  2.0  1.0

    Args:
        x: rows, as the model sees them.
        players: see `Players`.
        schema: columns of the table that the rows come from, if they come from one.
        owners: the player that owns each element of each row, where rows have players of their
            own; -1 for padding.
    """
    if schema is not None:
        return _of_columns(schema.decode(x), schema, players)
    flat, names = x.flatten(1), list(players.names)
    own = (players.index.expand_as(x) if owners is None else owners).flatten(1)
    if not torch.equal((own >= 0).sum(1), own.amax(1) + 1):
        return None
    # Padding is written to a place of its own, and left out.
    values = flat.new_full((len(flat), len(names) + 1), torch.nan)
    values.scatter_(1, own.where(own >= 0, len(names)), flat)
    return pd.DataFrame(values[:, :-1].numpy(), columns=names)


def _of_columns(frame: pd.DataFrame, schema: Schema, players: Players) -> pd.DataFrame:
    """The columns of each player: its values, or all of them in one text."""
    first = torch.searchsorted(schema.players.index, torch.arange(len(schema.names)))
    owner = players.index[first]
    if len(owner) == len(players):
        return frame.iloc[:, owner.argsort().tolist()].set_axis(list(players.names), axis=1)
    return pd.DataFrame(
        {
            name: _together(frame.iloc[:, (owner == player).nonzero()[:, 0].tolist()])
            for player, name in enumerate(players.names)
        }
    )


def _together(columns: pd.DataFrame) -> pd.Series:
    if columns.shape[1] == 1:
        return columns.iloc[:, 0]
    texts = pd.DataFrame(
        {
            name: f"{name}=" + column.map("{:.6g}".format if column.dtype.kind == "f" else str)
            for name, column in columns.items()
        }
    )
    return texts.agg(", ".join, axis=1)
