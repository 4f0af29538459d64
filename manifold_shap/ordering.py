"""Represents orders of the players: who joins (or causes) before whom, or who stays together."""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from graphlib import TopologicalSorter
from typing import Any

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from manifold_shap._checks import check_distinct, check_known
from manifold_shap._messages import shown
from manifold_shap.players import Players
from manifold_shap.posets import Components, Orders, Unions, closure, extensions

# How a partial order may be given: components, the causes of each player, or an `Ordering`.
Relations = Any


class Ordering:
    """A partial order of the players, by components that follow each other or by any causal graph.

    As a list of components, as in `[["a", "b"], ["c"]]`, earlier ones join (or cause) first, and
    inside one there is no order. As a directed acyclic graph, given by the causes of each player,
    as in `{"c": ["a"], "d": ["a", "b"]}`, every player joins after all of its causes, theirs
    included; players that are not named have none. Shapley values that average over these orders
    only are asymmetric: an effect that two players share is attributed to the earlier one (Frye,
    Rowat & Feige 2020). Groups of players that stay together, in any order, are `of_groups`.

    Args:
        relations: names of the players in each component, or of the causes of each player.
        players: all players of the game; components name each of them once.
        constants: names that may occur besides, and that are dropped: `constant_players`.

    Attributes:
        players: as given.
        names: the components, or the causes of each player that has any, as plain data.
        component: number of each player's component, int64 `[players]`; None of a graph.

    Raises:
        TypeError: `relations` is neither a list of lists of names nor a mapping of names to those.
        ValueError: a player that is unknown or named twice, or that components
            leave out; causes that are effects of their own effects.

    >>> ordering = Ordering([["a", "b"], ["c"]], Players.of_elements((3,), ["a", "b", "c"]))
    >>> ordering.allowed.weighted_coalitions()[0].int()
    tensor([[0, 0, 0],
            [1, 0, 0],
            [0, 1, 0],
            [1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    >>> graph = Ordering({"b": ["a"]}, ordering.players)
    >>> graph.allowed.count, graph.allowed.coalitions
    (3, 6)
    """

    def __init__(self, relations: Any, players: Players, constants: Collection[str] = ()) -> None:
        self.players = players
        self.names: Any
        self.component: Tensor | None = None
        if isinstance(relations, Mapping):
            self.names = checked_graph(relations, players, constants)
        else:
            self.names = checked_components(relations, players, constants)
            self.component = self._number

    @classmethod
    def of(cls, ordering: Any, players: Players, constants: Collection[str] = ()) -> "Ordering":
        """The ordering of these players from names, from another `Ordering`, or None: no order.

        Raises:
            TypeError, ValueError: as for the class.
        """
        if ordering is None:
            return cls([players.names], players)
        if isinstance(ordering, Ordering):
            return type(ordering)(ordering.names, players, constants)
        return cls(ordering, players, constants)

    @classmethod
    def of_groups(cls, groups: Any, players: Players) -> "Ordering":
        """Orders in which groups stay together: one of the groups, then one within each.

        Shapley values over these orders are Owen values (Owen 1977, "Values of games with a priori
        unions"): what a group adds is shared among its players alone, and groups share as the
        players of a game of groups do.

        >>> players = Players.of_elements((3,), ["a", "b", "c"])
        >>> Ordering.of_groups([["a", "b"], ["c"]], players).allowed.all()
        tensor([[0, 1, 2],
                [1, 0, 2],
                [2, 0, 1],
                [2, 1, 0]])

        Args:
            groups: names of the players in each.
            players: as of the class.

        Raises:
            TypeError, ValueError: as for components.
        """
        return _Groups(groups, players)

    def among(self, players: Players) -> "Ordering":
        """The same order among some of the players.

        >>> ordering = Ordering([["a"], ["c", "b"]], Players.of_elements((3,), ["a", "b", "c"]))
        >>> ordering.among(Players.of_elements((2,), ["b", "c"])).names
        [['b', 'c']]
        """
        if isinstance(self.names, Mapping):
            own = {name: k for k, name in enumerate(self.players.names)}
            before = {
                name: [cause for cause in players.names if self.before[own[cause], own[name]]]
                for name in players.names
            }
            return Ordering({name: causes for name, causes in before.items() if causes}, players)
        some = [[name for name in names if name in players.names] for names in self.names]
        return type(self)([names for names in some if names], players)

    @property
    def restricts(self) -> bool:
        """Whether it allows fewer than all orders."""
        return len(self.names) > (self.component is not None)

    @property
    def provenance(self) -> dict[str, Any]:
        """What an explanation records: the relations, or nothing if there are none."""
        return {"ordering": self.names} if self.restricts else {}

    @cached_property
    def before(self) -> Bool[Tensor, "players players"]:
        """Entry [i, j] is whether player i joins before player j in every allowed order."""
        if self.component is not None:
            return self.component[:, None] < self.component
        return closure(self._direct)

    @property
    def steps(self) -> tuple[Bool[Tensor, "steps players"], Bool[Tensor, "steps players"]]:
        """In causal order the players that are drawn together, and those that they depend on.

        Whole components, or single players of a graph.

        Raises:
            ValueError: groups that stay together, which say nothing of causes.
        """
        if self.component is not None:
            number = torch.arange(len(self.names))[:, None]
            return self.component == number, self.component < number
        direct = self._direct
        causes = {j: direct[:, j].nonzero()[:, 0].tolist() for j in range(len(direct))}
        order = list(TopologicalSorter(causes).static_order())
        return torch.eye(len(direct), dtype=torch.bool)[order], direct.T[order]

    @cached_property
    def allowed(self) -> Orders:
        """The orders that it allows: their number, their coalitions, and how to draw them."""
        return extensions(self.before) if self.component is None else Components(self.component)

    @property
    def _number(self) -> Int64[Tensor, " players"]:
        """Of the component, or group, of each player."""
        number = {name: k for k, names in enumerate(self.names) for name in names}
        return torch.tensor([number[name] for name in self.players.names])

    @property
    def _direct(self) -> Bool[Tensor, "players players"]:
        """The edges of the graph: from each cause to its effects."""
        number = {name: k for k, name in enumerate(self.players.names)}
        direct = torch.zeros(len(number), len(number), dtype=torch.bool)
        for effect, causes in self.names.items():
            direct[[number[cause] for cause in causes], number[effect]] = True
        return direct


class _Groups(Ordering):
    """See `Ordering.of_groups`."""

    def __init__(self, groups: Any, players: Players, constants: Collection[str] = ()) -> None:
        super().__init__(groups, players, constants)
        # Groups follow each other in any order: they are no components.
        self.component = None

    @property
    def restricts(self) -> bool:
        return 1 < len(self.names) < len(self.players)

    @property
    def provenance(self) -> dict[str, Any]:
        return {"groups": self.names} if self.restricts else {}

    @property
    def steps(self) -> tuple[Tensor, Tensor]:
        raise ValueError(
            "Expected a causal `ordering`, by components or by the causes of each player, but got "
            f"groups that stay together, {shown(self.names)}."
        )

    @cached_property
    def allowed(self) -> Orders:
        return Unions(self._number)


def checked_graph(
    parents: Mapping[Any, Any], players: Players, constants: Collection[str]
) -> dict[str, list[str]]:
    """The causes of each player, where constants hand theirs on to their effects.

    Raises:
        ValueError: names that are unknown; a circle (`graphlib.CycleError`).
    """
    for effect, causes in parents.items():
        if isinstance(causes, str):
            raise TypeError(
                f"Expected the causes of {effect!r} as a list of names but got {causes!r}; a "
                f"single one is [{causes!r}]."
            )
    named = [*parents, *(name for causes in parents.values() for name in causes)]
    check_known(dict.fromkeys(named), [*players.names, *constants], "players in `ordering`")
    dropped = set(constants)
    found: dict[str, list[str]] = {}
    for effect in TopologicalSorter(parents).static_order():
        causes = [
            name
            for cause in parents.get(effect, ())
            for name in (found[cause] if cause in dropped else [cause])
        ]
        found[effect] = sorted(set(causes))
    return {name: causes for name, causes in found.items() if causes and name not in dropped}


def checked_components(
    components: Any, players: Players, constants: Collection[str]
) -> list[list[str]]:
    """The players of each component, of which every player is in one.

    Raises:
        TypeError: no list, or one of something else than lists of names.
        ValueError: names that are unknown, given twice or left out.
    """
    lists = [components, *components] if isinstance(components, Sequence) else [components]
    if any(isinstance(each, str) or not isinstance(each, Sequence) for each in lists):
        raise TypeError(
            "Expected `ordering` to be a list of lists of names, as in [['a', 'b'], ['c']], or the "
            f"causes of each player, as in {{'c': ['a', 'b']}}, but got {components!r}."
        )
    named = [name for component in components for name in component]
    check_known(named, [*players.names, *constants], "players in `ordering`")
    check_distinct(named, "players in `ordering`", "put each of them into one component")
    there = set(named)
    left_out = [name for name in players.names if name not in there]
    if left_out:
        raise ValueError(
            f"Expected `ordering` to name every player but it leaves out {shown(left_out)}; "
            "players without an order among them share a component."
        )
    varying = [[name for name in players.names if name in names] for names in map(set, components)]
    return [names for names in varying if names]
