"""Checks who precedes whom, by names: components in a row, or the causes of each player."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from jaxtyping import Bool
from torch import Tensor

from manifold_shap._checks import check_distinct, check_known
from manifold_shap._messages import shown
from manifold_shap.players import Players


def linear_order(direct: Bool[Tensor, "players players"]) -> list[int]:
    """An order in which causes come before effects, given the edges of an acyclic graph."""
    causes = {j: direct[:, j].nonzero()[:, 0].tolist() for j in range(len(direct))}
    return list(TopologicalSorter(causes).static_order())


def checked_graph(
    parents: Mapping[Any, Any], players: Players, constants: Collection[str]
) -> dict[str, list[str]]:
    """The causes of each player, where constants hand theirs on to their effects.

    Raises:
        TypeError: causes that are no list of names.
        ValueError: names that are unknown, or twice among the causes of one; a circle.
    """
    for effect, causes in parents.items():
        if isinstance(causes, str) or not isinstance(causes, Sequence):
            raise TypeError(
                f"Expected the causes of {effect!r} in `ordering` to be a list of names but got "
                f"{causes!r}; a single one is ['name']."
            )
        if odd := [name for name in causes if not isinstance(name, Hashable)]:
            raise TypeError(
                f"Expected the causes of {effect!r} in `ordering` to be names of players but got "
                f"{shown(odd, 3)}; as in {{'c': ['a', 'b']}}."
            )
        check_distinct(causes, f"causes of {effect!r} in `ordering`")
    named = [*parents, *(name for causes in parents.values() for name in causes)]
    check_known(dict.fromkeys(named), [*players.names, *constants], "players in `ordering`")
    try:
        order = list(TopologicalSorter(parents).static_order())
    except CycleError as error:
        circle = " -> ".join(str(name) for name in error.args[1])
        raise ValueError(
            f"Expected causes in `ordering` to come before their effects but got the circle "
            f"{circle}; take one of these relations out."
        ) from None
    dropped = set(constants)
    found: dict[str, list[str]] = {}
    for effect in order:
        causes = [
            name
            for cause in parents.get(effect, ())
            for name in (found[cause] if cause in dropped else [cause])
        ]
        found[effect] = sorted(set(causes))
    return {name: causes for name, causes in found.items() if causes and name not in dropped}


def check_components(components: Any, players: Players, constants: Collection[str]) -> None:
    """Check that components are lists that name every player once.

    Raises:
        TypeError: no list, or one of something else than lists of names.
        ValueError: an empty component, or names that are unknown, given twice or left out.
    """
    if isinstance(components, str) or not isinstance(components, Sequence):
        raise TypeError(
            "Expected `ordering` to be a list of lists of names, as in [['a', 'b'], ['c']], or the "
            f"causes of each player, as in {{'c': ['a', 'b']}}, but got {components!r}."
        )
    for component in components:
        if isinstance(component, str) or not isinstance(component, Sequence):
            raise TypeError(
                f"Expected each component of `ordering` to be a list of names but got "
                f"{component!r}; a component of one player is ['name']."
            )
        if len(component) == 0:
            raise ValueError(
                "Expected at least one player in each component of `ordering` but got "
                f"{[list(names) for names in components]}; leave the empty one out."
            )
    named = [name for component in components for name in component]
    if odd := [name for name in named if not isinstance(name, Hashable)]:
        raise TypeError(
            "Expected the components of `ordering` to list names of players but got "
            f"{shown(odd, 3)}; lists stand in no other list than `ordering` itself."
        )
    check_known(named, [*players.names, *constants], "players in `ordering`")
    check_distinct(named, "players in `ordering`", "put each of them into one component")
    there = set(named)
    left_out = [name for name in players.names if name not in there]
    if left_out:
        raise ValueError(
            f"Expected `ordering` to name every player but it leaves out {shown(left_out)}; "
            "players without an order among them share a component."
        )
