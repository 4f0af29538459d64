"""Makes players of columns and of groups of columns."""

from collections.abc import Mapping, Sequence
from typing import Any

from manifold_shap._checks import check_known
from manifold_shap.players import Players


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
