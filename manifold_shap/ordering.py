"""Represents partial orders of the players: components that join one after the other."""

import math
from collections.abc import Collection, Hashable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from manifold_shap._checks import check_distinct, check_known
from manifold_shap._messages import shown
from manifold_shap.coalitions import all_coalitions, all_orders, sample_orders
from manifold_shap.players import Players


class Ordering:
    """Components of players: earlier ones join (or cause) first, inside one there is no order.

    It allows the orders that go through component after component, each in any order of its own.
    Shapley values that average over these orders only are asymmetric: an effect that two players
    share is attributed to the earlier one (Frye, Rowat & Feige 2020).

    Args:
        components: names of the players in each component, as in `[["a", "b"], ["c"]]`.
        players: all players of the game; each is in one component.
        constants: names that components may hold besides, and that are dropped: `constant_players`.

    Attributes:
        players: as given.
        component: number of each player's component, int64 `[players]`.
        members: numbers of the players in each component.

    Raises:
        TypeError: `components` is no list, or one of them not a list of names.
        ValueError: an empty component, or a player that is unknown, named twice or left out.

    >>> ordering = Ordering([["a", "b"], ["c"]], Players.of_elements((3,), ["a", "b", "c"]))
    >>> ordering.coalitions().int()
    tensor([[0, 0, 0],
            [1, 0, 0],
            [0, 1, 0],
            [1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """

    def __init__(self, components: Any, players: Players, constants: Collection[str] = ()) -> None:
        _check_components(components, players, constants)
        varying = [[name for name in names if name not in constants] for names in components]
        components = [names for names in varying if names]
        self.players = players
        number = {name: k for k, names in enumerate(components) for name in names}
        self.component = torch.tensor([number[name] for name in players.names])
        self.members = [(self.component == k).nonzero()[:, 0] for k in range(len(components))]
        places = torch.arange(len(players)).split([len(members) for members in self.members])
        self._mirrored = torch.cat([place.flip(0) for place in places])

    @classmethod
    def of(cls, ordering: Any, players: Players, constants: Collection[str] = ()) -> "Ordering":
        """The ordering of these players from names, from another `Ordering`, or None: no order.

        Raises:
            TypeError, ValueError: as for the class.
        """
        if ordering is None:
            return cls([players.names], players)
        components = ordering.names if isinstance(ordering, Ordering) else ordering
        return cls(components, players, constants)

    def among(self, players: Players) -> "Ordering":
        """The same order among some of the players.

        >>> ordering = Ordering([["a"], ["c", "b"]], Players.of_elements((3,), ["a", "b", "c"]))
        >>> ordering.among(Players.of_elements((2,), ["b", "c"])).names
        [['b', 'c']]
        """
        some = [[name for name in names if name in players.names] for names in self.names]
        return Ordering([names for names in some if names], players)

    def __len__(self) -> int:
        return len(self.members)

    @property
    def names(self) -> list[list[str]]:
        """The components by name, as plain data."""
        return [[self.players.names[player] for player in members] for members in self.members]

    @property
    def provenance(self) -> dict[str, Any]:
        """What an explanation records: the components, or nothing if there is only one."""
        return {"ordering": self.names} if len(self) > 1 else {}

    @property
    def orders(self) -> int:
        """Number of orders that it allows."""
        return math.prod(math.factorial(len(members)) for members in self.members)

    @property
    def largest(self) -> int:
        """Size of the largest component."""
        return max(len(members) for members in self.members)

    @property
    def coalitions_count(self) -> int:
        """Number of coalitions along the orders that it allows."""
        return 1 + sum(2 ** len(members) - 1 for members in self.members)

    def sample_pairs(
        self, shape: Sequence[int], generator: torch.Generator
    ) -> Int64[Tensor, "*shape 2 players"]:
        """Uniformly drawn allowed orders, each with its reverse: antithetic pairs."""
        component = self.component.to(generator.device)
        return self._with_reverse(sample_orders(shape, component, generator))

    def all_pairs(self) -> Int64[Tensor, "pairs 2 players"]:
        """Every allowed order once, in pairs with its reverse; a single one is its own reverse."""
        orders = torch.zeros(1, 0, dtype=torch.int64)
        for members in self.members:
            own = members[all_orders(len(members))]
            before = orders.repeat_interleave(len(own), 0)
            orders = torch.cat((before, own.repeat(len(orders), 1)), dim=1)
        pairs = self._with_reverse(orders)
        # Of each two equal pairs, the one whose largest component begins with the smaller number.
        largest = max(range(len(self)), key=lambda k: len(self.members[k]))
        begin = sum(len(members) for members in self.members[:largest])
        return pairs[pairs[:, 0, begin] <= pairs[:, 1, begin]]

    def coalitions(self) -> Bool[Tensor, "coalitions players"]:
        """All coalitions along the allowed orders: whole components, then a part of the next one.

        From the empty to the grand coalition, component by component. The 2^k coalitions of a
        component of k players are adjacent, as in `all_coalitions`; the last of them is the first
        one of the next component.
        """
        blocks = [torch.zeros(1, len(self.players), dtype=torch.bool)]
        for members in self.members:
            block = blocks[-1][-1:].repeat(2 ** len(members), 1)
            block[:, members] = all_coalitions(len(members))
            blocks.append(block[1:])
        return torch.cat(blocks)

    def _with_reverse(self, orders: Int64[Tensor, "*shape players"]) -> Tensor:
        # Reversed inside each component, so that the reverse is allowed, too.
        return torch.stack((orders, orders[..., self._mirrored.to(orders.device)]), dim=-2)


def _check_components(components: Any, players: Players, constants: Collection[str]) -> None:
    if isinstance(components, str) or not isinstance(components, Sequence):
        raise TypeError(
            "Expected `ordering` to be a list of lists of names, as in [['a', 'b'], ['c']], but "
            f"got {components!r}."
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
