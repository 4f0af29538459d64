"""Tells what each player was in each row, in original units."""

import datetime
import numbers
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap.players import Players
from manifold_shap.tables.table import Table

if TYPE_CHECKING:
    from manifold_shap.explanation import Explanation

# Elements of one player that are listed where rows are no table: a colour, but no superpixel.
_FEW = 1


def player_values(
    x: Float[Tensor, "rows *event"],
    players: Players,
    table: Table | None = None,
    owners: Int64[Tensor, "rows *event"] | None = None,
) -> pd.DataFrame | None:
    """What each player was, in original units `[rows, players]`.

    A player of several columns has them all as text, as in "street = Elm, number = 7"; one that a
    row lacks has NaN. None where a player owns several elements of rows that are no table, as a
    superpixel does. Of no rows there is no line.

        >>> player_values(torch.tensor([[1.0, 2.0]]), Players(["a", "b"], [1, 0]))
             a    b
        0  2.0  1.0

    Args:
        x: rows, as the model sees them.
        players: see `Players`.
        table: columns of the table that the rows come from, if they come from one.
        owners: the player that owns each element of each row, where rows have players of their
            own; -1 for padding.
    """
    if len(x) == 0:
        return pd.DataFrame(columns=list(players.names))
    own = (players.index.expand_as(x) if owners is None else owners).flatten(1)
    if table is None and torch.equal((own >= 0).sum(1), own.amax(1) + 1):
        return _of_elements(x.flatten(1), own, list(players.names))
    columns = player_columns(x, players, range(len(players)), table, owners)
    if not all(each.shape[1] for each in columns):
        return None
    together = [_together(each) for each in columns]
    return pd.DataFrame(dict(zip(players.names, together, strict=True)))


def player_columns(
    x: Float[Tensor, "rows *event"],
    players: Players,
    some: Iterable[int],
    table: Table | None = None,
    owners: Int64[Tensor, "rows *event"] | None = None,
) -> list[pd.DataFrame]:
    """For each of some players the columns that it owns, in original units, a line for each row.

    Columns of a table have their names. Elements of rows without a table are numbered, with NaN
    in rows that have fewer; several of one player are left out unless rows are those of a table.

        >>> x = torch.tensor([[1.0, 2.0, 3.0]])
        >>> [each.values.tolist() for each in player_columns(x, Players("ab", [1, 0, 1]), [0, 1])]
        [[[2.0]], [[1.0, 3.0]]]

    Args:
        x, players, table, owners: as of `player_values`.
        some: positions of players.
    """
    own = (players.index.expand_as(x) if owners is None else owners).flatten(1)
    if table is None:
        return [_elements(x, own == player) for player in some]
    frame = table.decode(x)
    return [frame.loc[:, (own[0] == player).tolist()] for player in some]


def other_rows(one: "Explanation", two: "Explanation") -> bool:
    """Whether two explanations of the same players are of different rows.

    Rows of tables that are encoded in different ways are compared in original units. False where
    one alone is of a table, since that cannot be told.

        >>> from manifold_shap import exact_shapley
        >>> def value(x, mask):
        ...     return (x[:, None] * mask).sum(-1, keepdim=True)
        >>> ones, twos = (exact_shapley(value, torch.full((3, 2), k)) for k in (1.0, 2.0))
        >>> other_rows(ones, ones), other_rows(ones, twos)
        (False, True)
    """
    if one.table == two.table:
        return one.x.shape != two.x.shape or bool((one.x != two.x).any())
    frames = one.features(), two.features()
    if one.table is None or two.table is None or frames[0] is None or frames[1] is None:
        return False
    return any(_differ(frames[0][name], frames[1][name]) for name in one.players.names)


def in_order(explanation: "Explanation", names: tuple[str, ...]) -> "Explanation":
    """The same explanation with its players in the order of `names`, which are theirs.

    Constant columns come behind the others: learned from other rows, which has no such column, a
    value function has the same players in another order.

        >>> from manifold_shap import as_value_function, exact_shapley
        >>> x, players = torch.tensor([[1.0, 2.0]]), Players.of_elements((2,), ["a", "b"])
        >>> def value(x, mask):
        ...     return (x[:, None] * mask).sum(-1, keepdim=True)
        >>> turned = in_order(exact_shapley(as_value_function(value, x, players), x), ("b", "a"))
        >>> turned.players.names, turned.phi.flatten().tolist()
        (('b', 'a'), [2.0, 1.0])
    """
    players = explanation.players
    if players.names == names:
        return explanation
    order = torch.tensor([players.names.index(name) for name in names])
    place = order.argsort()[players.index.clamp(min=0)].where(players.index >= 0, players.index)
    by_player = ("phi", "standard_error", "model_error", "covariance")
    found = {name: getattr(explanation, name) for name in by_player}
    taken: Any = {name: each[:, order] for name, each in found.items() if each is not None}
    return replace(explanation, players=Players(names, place, players.padding), **taken)


def _differ(one: pd.Series, two: pd.Series) -> bool:
    if pd.api.types.is_numeric_dtype(one) and pd.api.types.is_numeric_dtype(two):
        numbers = (
            one.to_numpy(np.float64, na_value=np.nan),
            two.to_numpy(np.float64, na_value=np.nan),
        )
        # Standardised by other rows, numbers differ by rounding to float32.
        noise = 1e-5 * max(np.nanmax(np.abs(numbers[0]), initial=0.0), 1e-30)
        return not np.allclose(*numbers, rtol=1e-5, atol=noise, equal_nan=True)
    return list(map(as_text, one)) != list(map(as_text, two))


def as_text(value: Any) -> str:
    """A value of a table in few characters, as a person would write it.

    >>> import pandas as pd
    >>> [as_text(v) for v in (70.0, 3.14159265, 1999.25, pd.Timestamp("1954-03-02"), None, "Rome")]
    ['70', '3.142', '1999.25', '1954-03-02', 'missing', 'Rome']
    """
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return "missing"
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return _number(float(value))
    if isinstance(value, np.datetime64 | datetime.datetime):
        moment = pd.Timestamp(value)
        return moment.date().isoformat() if moment == moment.normalize() else str(moment)
    if isinstance(value, np.timedelta64 | datetime.timedelta):
        return str(pd.Timedelta(value)).removesuffix(" 00:00:00")
    return str(value)


def _number(value: float) -> str:
    """Four digits, but all before the point of large numbers, and two after it."""
    if 1000 <= abs(value) < 1e15:
        return f"{value:.2f}".rstrip("0").removesuffix(".")
    # Adding zero turns -0.0 into 0.0.
    return f"{value + 0.0:.4g}"


def _of_elements(
    x: Float[Tensor, "rows elements"], own: Int64[Tensor, "rows elements"], names: list[str]
) -> pd.DataFrame:
    """The elements of rows whose players own one each."""
    # Padding is written to a place of its own, and left out.
    values = x.new_full((len(x), len(names) + 1), torch.nan)
    values.scatter_(1, own.where(own >= 0, len(names)), x)
    return pd.DataFrame(values[:, :-1].numpy(), columns=names)


def _elements(x: Float[Tensor, "rows *event"], owned: Tensor) -> pd.DataFrame:
    """The elements of one player, `owned` in each row."""
    number = int(owned.sum(1).max())
    if x.ndim > 2 and number > _FEW:
        return pd.DataFrame(index=range(len(x)))
    elements = x.new_full((len(x), number), torch.nan)
    row, _ = owned.nonzero(as_tuple=True)
    elements[row, (owned.cumsum(1) - 1)[owned]] = x.flatten(1)[owned]
    return pd.DataFrame(elements.numpy())


def _together(columns: pd.DataFrame) -> pd.Series:
    """The columns of one player, each with its name if it has one, as text if they are several."""
    if columns.shape[1] == 1:
        return columns.iloc[:, 0]
    return pd.Series([row_text(columns, row) for row in range(len(columns))])


def row_text(columns: pd.DataFrame, row: int) -> str:
    """Values of one row with the names of their columns: "Area = 3.1, Perimeter = 7".

    Numbered elements are listed without their numbers, those that are not there not at all.
    """
    values = {name: columns[name].iloc[row] for name in columns}
    if any(isinstance(name, str) for name in values):
        return ", ".join(f"{name} = {as_text(value)}" for name, value in values.items())
    return ", ".join(as_text(value) for value in values.values() if not pd.isna(value))
