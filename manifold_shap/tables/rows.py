"""Rows of a table, as value functions take them and as networks see them.

A `Schema` describes rows of floats. A `Codebook` describes rows of codes, one for each column,
which networks and distances see as floats.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap._arrays import is_frame
from manifold_shap._saved import saved
from manifold_shap.players import Players
from manifold_shap.tables.schema import Schema

if TYPE_CHECKING:
    from manifold_shap.tables.codebook import Codebook


def rows_of(x: Any, schema: "Schema | Codebook | None") -> Any:
    """A frame as rows of its schema; rows as they are.

    Raises:
        TypeError, ValueError: a frame of another library, or that does not fit the schema.
    """
    return x if schema is None or not is_frame(x) else schema.rows(x)


def codebook_of(schema: "Schema | Codebook | None") -> "Codebook | None":
    """The codebook whose codes the rows are, if they are codes."""
    return None if schema is None or isinstance(schema, Schema) else schema


def encoded(
    x: Float[Tensor, "*batch event"], schema: "Schema | Codebook | None"
) -> Float[Tensor, "*batch elements"]:
    """Rows as networks see them: codes as floats, rows of floats as they are."""
    codebook = codebook_of(schema)
    return x if codebook is None else codebook.encode(x)


@saved
@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Makes encoded rows of codes, for a model that was trained on these: see `as_model`.

    >>> import pandas as pd
    >>> from manifold_shap import Codebook
    >>> codebook = Codebook.fit(pd.DataFrame({"town": ["Oslo", "Rome", "Bern"]}))
    >>> EncodedRows(codebook).frame(torch.tensor([[1.0]]))
    tensor([[0., 1., 0.]])
    """

    codebook: "Codebook"
    kind = "encoded rows"

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return {"codebook": self.codebook}, {}

    @classmethod
    def restored(cls, settings: dict[str, Any], _: dict[str, Tensor], __: Any) -> "EncodedRows":
        return cls(settings["codebook"])

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns, one for each code of a row."""
        return self.codebook.names

    def frame(self, x: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows elements"]:
        """The rows that the codes stand for."""
        return self.codebook.encode(x)


def elements_of(players: Players, schema: "Schema | Codebook | None") -> Players:
    """The players as owners of the elements that networks see.

    >>> from manifold_shap.tables.schema import Column
    >>> schema = Schema((Column("kind", "categorical", ("a", "b", "c")),))
    >>> elements_of(schema.players, schema).index
    tensor([0, 0, 0])
    """
    codebook = codebook_of(schema)
    if codebook is None:
        return players
    widths = torch.tensor([column.width for column in codebook.schema.columns])
    return Players(players.names, players.index.repeat_interleave(widths))


def constant_players(players: Players, schema: "Schema | Codebook | None") -> tuple[str, ...]:
    """Names of the players that explanations add, for the constant columns of the table.

    >>> import pandas as pd
    >>> from manifold_shap import Codebook
    >>> codebook = Codebook.fit(pd.DataFrame({"size": [1, 2, 3], "year": 2024}))
    >>> constant_players(codebook.players, codebook)
    ('year',)

    Raises:
        ValueError: a player of the game has one of their names.
    """
    codebook = codebook_of(schema)
    # Rows with players of their own are explained by these alone.
    if codebook is None or not codebook.constants or players.by_row:
        return ()
    names = codebook.with_constants().players.names[len(codebook.players) :]
    taken = [name for name in names if name in players.names]
    if taken:
        raise ValueError(
            f"Expected players with other names than those of constant columns but got {taken}; "
            "explanations have these columns as players of exactly 0, so choose another name."
        )
    return names


def in_frame(
    x: Float[Tensor, "rows *event"],
    players: Players,
    owners: Int64[Tensor, "rows *event"] | None,
    schema: "Schema | Codebook",
) -> tuple[Any, Players, Tensor | None]:
    """Rows of a table as the model sees them, and who owns the columns of this frame.

    Constant columns are players of their own, behind the others, or belong to their group's player;
    columns that are left out belong to nobody. An array of numbers comes as a tensor.

    >>> import pandas as pd
    >>> from manifold_shap import Codebook
    >>> codebook = Codebook.fit(pd.DataFrame({"year": 2024, "size": [1, 2, 3]}))
    >>> frame, players, _ = in_frame(torch.tensor([[2.0]]), codebook.players, None, codebook)
    >>> frame.to_numpy().tolist(), players.names, players.index.tolist()
    ([[2024, 3]], ('size', 'year'), [1, 0])
    """
    if isinstance(schema, Schema):
        decoded, names = schema.decode(x), list(schema.names)
        if x[0].numel() > len(names):  # Elements, several of which may be those of a column.
            of_column = schema.players.index
            first = torch.tensor([int((of_column == k).nonzero()[0]) for k in range(len(names))])
            players = players.owning(players.index[first])
            owners = None if owners is None else owners[:, first]
        return decoded, players, owners
    frame: Any = schema.frame(x)
    columns = list(map(str, schema.columns))
    index = players.index
    if schema.constants and not players.by_row:
        whole, count = schema.with_constants(), len(schema.players)
        # A constant in a group with columns that vary belongs to their player.
        place = schema.players.index.tolist()
        added = [
            int(index[place.index(own)]) if own < count else len(players) + own - count
            for own in whole.players.index.tolist()[len(place) :]
        ]
        names = [*players.names, *constant_players(players, schema)]
        index = torch.cat((index, torch.tensor(added)))
        players, schema = Players.of_elements((len(names),), names), whole
    at = torch.tensor([columns.index(name) for name in schema.names])
    nobody = torch.full((len(columns),), -1)
    players = players.owning(nobody.index_copy(0, at, index))
    if owners is not None:
        owners = nobody.expand(len(x), -1).index_copy(1, at, owners)
    if isinstance(frame, np.ndarray) and frame.dtype.kind in "biuf":
        frame = torch.from_numpy(frame)
    elif isinstance(frame, np.ndarray):
        import pandas as pd

        frame = pd.DataFrame(frame, columns=columns)
    return frame, players, owners


def schema_from(plain: Mapping[str, Any] | None) -> "Schema | Codebook | None":
    """The schema or codebook whose `to_dict` wrote this; None for None."""
    if plain is None:
        return None
    if "vocabularies" not in plain:
        return Schema.from_dict(plain)
    from manifold_shap.tables.codebook import Codebook

    return Codebook.from_dict(plain)
