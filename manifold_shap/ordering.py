"""Partial orders of the players: which of them come before which others."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from manifold_shap.coalitions import all_coalitions, all_orders, sample_orders
from manifold_shap.players import Players


class Ordering:
    """Components of players: earlier ones come (or cause) first, inside one there is no order.

    It allows the orders that take component after component, each in any order of its own. Values
    that average over these alone are asymmetric: an effect that two players share goes to the
    earlier one (Frye, Rowat & Feige 2020).

    Args:
        components: names of the players in each component, as in `[["a", "b"], ["c"]]`.
        players: who plays.

    Attributes:
        players: who plays.
        component: number of each player's component, int64 `[players]`.
        members: numbers of the players in each component.

    Raises:
        TypeError: `components` is no list, or one of them not a list of names.
        ValueError: an empty component, or a player that is unknown, named twice or left out.
    """

    def __init__(self, components: Any, players: Players) -> None:
        _check_components(components, players)
        self.players = players
        number = {name: k for k, names in enumerate(components) for name in names}
        self.component = torch.tensor([number[name] for name in players.names])
        self.members = [(self.component == k).nonzero()[:, 0] for k in range(len(components))]
        places = torch.arange(len(players)).split([len(members) for members in self.members])
        self._mirrored = torch.cat([place.flip(0) for place in places])

    @classmethod
    def of(cls, ordering: Any, players: Players) -> "Ordering":
        """The ordering of these players that an argument means; None is no restriction.

        Raises:
            TypeError, ValueError: as for the class.
        """
        if ordering is None:
            return cls([players.names], players)
        return cls(ordering.names if isinstance(ordering, Ordering) else ordering, players)

    def __len__(self) -> int:
        return len(self.members)

    @property
    def names(self) -> list[list[str]]:
        """The components by name, as plain data."""
        return [[self.players.names[player] for player in members] for members in self.members]

    @property
    def provenance(self) -> dict[str, Any]:
        """What an explanation records of it: nothing where it restricts nothing."""
        return {"ordering": self.names} if len(self) > 1 else {}

    @property
    def orders(self) -> int:
        """How many orders it allows."""
        return math.prod(math.factorial(len(members)) for members in self.members)

    @property
    def largest(self) -> int:
        """Players of the largest component."""
        return max(len(members) for members in self.members)

    @property
    def coalitions_count(self) -> int:
        """How many coalitions there are along the orders that it allows."""
        return 1 + sum(2 ** len(members) - 1 for members in self.members)

    def sample_pairs(
        self, shape: Sequence[int], generator: torch.Generator
    ) -> Int64[Tensor, "*shape 2 players"]:
        """Uniform orders of those allowed, each beside its reverse."""
        component = self.component.to(generator.device)
        return self._with_reverse(sample_orders(shape, component, generator))

    def all_pairs(self) -> Int64[Tensor, "pairs 2 players"]:
        """All orders allowed, once each, beside their reverses; a single one is its own."""
        orders = torch.zeros(1, 0, dtype=torch.int64)
        for members in self.members:
            own = members[all_orders(len(members))]
            before = orders.repeat_interleave(len(own), 0)
            orders = torch.cat((before, own.repeat(len(orders), 1)), dim=1)
        pairs = self._with_reverse(orders)
        # Of the two, the one that begins the largest component with the smaller number.
        largest = max(range(len(self)), key=lambda k: len(self.members[k]))
        begin = sum(len(members) for members in self.members[:largest])
        return pairs[pairs[:, 0, begin] <= pairs[:, 1, begin]]

    def coalitions(self) -> Bool[Tensor, "coalitions players"]:
        """All coalitions along the orders allowed: earlier components, and a part of one.

        From nobody to everybody, component after component. The 2^k coalitions of a component of
        k players stand together, as in `all_coalitions`; the last of them is the first of the
        next component.
        """
        blocks = [torch.zeros(1, len(self.players), dtype=torch.bool)]
        for members in self.members:
            block = blocks[-1][-1:].repeat(2 ** len(members), 1)
            block[:, members] = all_coalitions(len(members))
            blocks.append(block[1:])
        return torch.cat(blocks)

    def _with_reverse(self, orders: Int64[Tensor, "*shape players"]) -> Tensor:
        # Reversed inside each component: the reverse is allowed, too.
        return torch.stack((orders, orders[..., self._mirrored.to(orders.device)]), dim=-2)


def _check_components(components: Any, players: Players) -> None:
    if isinstance(components, str) or not isinstance(components, Sequence):
        raise TypeError(
            "Expected `ordering` to be a list of lists of names, as in [['a', 'b'], ['c']], but "
            f"got {components!r}."
        )
    for component in components:
        if isinstance(component, str) or not isinstance(component, Sequence):
            raise TypeError(
                f"Expected each component of `ordering` to be a list of names but got "
                f"{component!r}; a player that is alone in its place is [[...], ['name'], [...]]."
            )
        if len(component) == 0:
            raise ValueError(
                f"Expected at least one player in each component of `ordering` but got "
                f"{_plain(components)}; leave the empty one out."
            )
    named = [name for component in components for name in component]
    known = set(players.names)
    unknown = [name for name in named if not isinstance(name, str) or name not in known]
    if unknown:
        raise ValueError(
            f"Expected `ordering` to name players among {_some(players.names)} but got "
            f"{_some(unknown)}."
        )
    placed = set(named)
    if len(placed) < len(named):
        twice = sorted({name for name in named if named.count(name) > 1})
        raise ValueError(
            f"Expected `ordering` to name every player once but got {_some(twice)} more than once; "
            "a player has one place."
        )
    left_out = [name for name in players.names if name not in placed]
    if left_out:
        raise ValueError(
            f"Expected `ordering` to name every player but it leaves out {_some(left_out)}; "
            "players without a place of their own share a component."
        )


def _plain(components: Sequence[Any]) -> list[list[Any]]:
    return [list(component) for component in components]


def _some(names: Sequence[Any], most: int = 20) -> str:
    """The first names as a list, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{list(names[:most])}{more}"
