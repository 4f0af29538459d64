"""Represents orders of the players: who joins (or causes) before whom, or who stays together."""

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap._checks import check_distinct, check_known
from manifold_shap._messages import shown
from manifold_shap.coalitions import all_coalitions, sample_orders
from manifold_shap.players import Players
from manifold_shap.posets import (
    Lattice,
    Part,
    closure,
    in_series,
    linear_extensions,
    orders_of,
    shapley_weights,
)

# More coalitions of one component are not enumerated.
MOST_COALITIONS = 2**16


# How a partial order may be given: components, the causes of each player, or an `Ordering`.
Relations = Any


class Step(NamedTuple):
    """Players that a causal order draws together, and those whose values they depend on."""

    own: Bool[Tensor, " players"]
    given: Bool[Tensor, " players"]


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
        component: number of each player's component, int64 `[players]`; None of a graph.

    Raises:
        TypeError: `relations` is neither a list of lists of names nor a mapping of names to those.
        ValueError: a player that is unknown or named twice, or that components
            leave out; causes that are effects of their own effects.

    >>> ordering = Ordering([["a", "b"], ["c"]], Players.of_elements((3,), ["a", "b", "c"]))
    >>> ordering.coalitions().int()
    tensor([[0, 0, 0],
            [1, 0, 0],
            [0, 1, 0],
            [1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    >>> graph = Ordering({"b": ["a"]}, ordering.players)
    >>> graph.orders, graph.coalitions_count
    (3, 6)
    """

    component: Tensor | None

    def __init__(self, relations: Any, players: Players, constants: Collection[str] = ()) -> None:
        self.players = players
        self._parents: dict[str, list[str]] | None = None
        self.component = None
        if isinstance(relations, Mapping):
            self._parents = checked_graph(relations, players, constants)
            return
        check_components(relations, players, constants)
        varying = [[name for name in names if name not in constants] for names in relations]
        number = {
            name: k for k, names in enumerate(names for names in varying if names) for name in names
        }
        self.component = torch.tensor([number[name] for name in players.names])

    @classmethod
    def of(cls, ordering: Any, players: Players, constants: Collection[str] = ()) -> "Ordering":
        """The ordering of these players from names, from another `Ordering`, or None: no order.

        Raises:
            TypeError, ValueError: as for the class.
        """
        if ordering is None:
            return cls([players.names], players)
        if isinstance(ordering, Ordering):
            return ordering.of_players(players, constants)
        return cls(ordering, players, constants)

    @classmethod
    def of_groups(
        cls, groups: Any, players: Players, constants: Collection[str] = ()
    ) -> "Ordering":
        """Orders in which groups stay together: one of the groups, then one within each.

        Shapley values over these orders are Owen values (Owen 1977, "Values of games with a priori
        unions"): what a group adds is shared among its players alone, and groups share as the
        players of a game of groups do.

        >>> players = Players.of_elements((3,), ["a", "b", "c"])
        >>> Ordering.of_groups([["a", "b"], ["c"]], players).all_orders()[0]
        tensor([[0, 1, 2],
                [1, 0, 2],
                [2, 0, 1],
                [2, 1, 0]])

        Args:
            groups: names of the players in each.
            players, constants: as of the class.

        Raises:
            TypeError, ValueError: as for components.
        """
        return _Groups(groups, players, constants)

    def of_players(self, players: Players, constants: Collection[str] = ()) -> "Ordering":
        """The same order by name, of players that may stand in another order."""
        return type(self)(self.names, players, constants)

    def among(self, players: Players) -> "Ordering":
        """The same order among some of the players.

        >>> ordering = Ordering([["a"], ["c", "b"]], Players.of_elements((3,), ["a", "b", "c"]))
        >>> ordering.among(Players.of_elements((2,), ["b", "c"])).names
        [['b', 'c']]
        """
        if self._parents is not None:
            own = {name: k for k, name in enumerate(self.players.names)}
            before = {
                name: [cause for cause in players.names if self.before[own[cause], own[name]]]
                for name in players.names
            }
            return Ordering({name: causes for name, causes in before.items() if causes}, players)
        some = [[name for name in names if name in players.names] for names in self.names]
        return type(self)([names for names in some if names], players)

    def __len__(self) -> int:
        return len(self.members)

    @property
    def restricts(self) -> bool:
        """Whether it allows fewer than all orders."""
        return len(self) > 1 or (self._parents is not None and len(self._parents) > 0)

    @property
    def names(self) -> Any:
        """The components, or the causes of each player that has any, by name, as plain data."""
        if self._parents is not None:
            return self._parents
        return [[self.players.names[player] for player in members] for members in self.members]

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

    @cached_property
    def steps(self) -> list[Step]:
        """Who depends on whom, in causal order: whole components, or the players of a graph."""
        if self.component is not None:
            component = self.component
            return [Step(component == k, component < k) for k in range(len(self))]
        own = torch.eye(len(self.players), dtype=torch.bool)
        direct = self._direct
        causes = {j: direct[:, j].nonzero()[:, 0].tolist() for j in range(len(direct))}
        order = TopologicalSorter(causes).static_order()
        return [Step(own[player], direct[:, player]) for player in order]

    @property
    def orders(self) -> int | float:
        """Number of orders that it allows; infinity where it is not known."""
        if self.component is not None:
            return math.prod(math.factorial(len(members)) for members in self.members)
        return self._extensions.count

    @property
    def largest(self) -> int | float:
        """Number of coalitions of the component with the most of them; infinity if uncounted."""
        return max(self._coalitions)

    @property
    def coalitions_count(self) -> int | float:
        """Number of coalitions along the orders that it allows; infinity where it is not known."""
        return 1 + sum(count - 1 for count in self._coalitions)

    @cached_property
    def parts(self) -> list[Part]:
        """The components that come one after the other, with what their coalitions count for.

        Raises:
            OverflowError: more than `MOST_COALITIONS` in one that has an order inside.
        """
        return [self._part(members) for members in self.members]

    def sample_pairs(
        self, shape: Sequence[int], generator: torch.Generator
    ) -> Int64[Tensor, "*shape 2 players"]:
        """Drawn allowed orders, each with one of opposite numbers: its reverse where that can be.

        Uniform, except where `log_weights` are not zero.
        """
        if self.component is not None:
            orders = sample_orders(shape, self.component.to(generator.device), generator)
            return torch.stack((orders, orders[..., self._mirrored.to(orders.device)]), dim=-2)
        return self._extensions.draw(math.prod(shape), generator).unflatten(0, tuple(shape))

    def log_weights(
        self, orders: Int64[Tensor, "*shape players"]
    ) -> Float[Tensor, "*shape"] | None:
        """What drawn orders count for, as logarithms up to a constant; None if all are alike."""
        if self.component is not None or self._extensions.uniform:
            return None
        weights = self._extensions.log_weights(orders.reshape(-1, orders.shape[-1]))
        return weights.reshape(orders.shape[:-1])

    def all_orders(self) -> tuple[Int64[Tensor, "orders players"], Float[Tensor, " orders"]]:
        """Every allowed order once, and its probability."""
        orders = linear_extensions(self.before)
        return orders, torch.full((len(orders),), 1 / len(orders), dtype=torch.float64)

    def coalitions(self) -> Bool[Tensor, "coalitions players"]:
        """All coalitions along the allowed orders: whole components, then a part of the next one.

        From the empty to the grand coalition, component by component, as in `parts`. The last
        coalition of a component is the first one of the next component.
        """
        blocks = [torch.zeros(1, len(self.players), dtype=torch.bool)]
        for part in self.parts:
            masks = part.masks()
            block = blocks[-1][-1:].repeat(len(masks), 1)
            block[:, part.members] = masks
            blocks.append(block[1:])
        return torch.cat(blocks)

    @cached_property
    def _direct(self) -> Bool[Tensor, "players players"]:
        """The edges of the graph: from each cause to its effects."""
        number = {name: k for k, name in enumerate(self.players.names)}
        direct = torch.zeros(len(number), len(number), dtype=torch.bool)
        for effect, causes in (self._parents or {}).items():
            direct[[number[cause] for cause in causes], number[effect]] = True
        return direct

    @cached_property
    def members(self) -> list[Int64[Tensor, " own"]]:
        """Numbers of the players in each component; of a graph, the finest ones in a row."""
        if self.component is None:
            return in_series(self.before)
        return [(self.component == k).nonzero()[:, 0] for k in range(int(self.component.max()) + 1)]

    @cached_property
    def _mirrored(self) -> Int64[Tensor, " players"]:
        # Reversed inside each component, so that the reverse is allowed, too.
        places = torch.arange(len(self.players)).split([len(own) for own in self.members])
        return torch.cat([place.flip(0) for place in places])

    @cached_property
    def _extensions(self) -> Any:
        return orders_of(self.before)

    @cached_property
    def _coalitions(self) -> list[int | float]:
        if self.component is not None:
            return [2 ** len(members) for members in self.members]
        try:
            return [part.coalitions for part in self.parts]
        except OverflowError:
            return [math.inf]

    def _part(self, members: Int64[Tensor, " own"]) -> Part:
        if self.component is not None or len(members) == 1:
            return Part(members)
        before = self.before[members][:, members]
        return Part(members, Lattice(before, MOST_COALITIONS) if before.any() else None)


class _Groups(Ordering):
    """See `Ordering.of_groups`."""

    def __init__(self, groups: Any, players: Players, constants: Collection[str] = ()) -> None:
        super().__init__(groups, players, constants)
        assert self.component is not None
        # Groups follow each other in any order: they are no components.
        self._group, self.component = self.component, None
        self._own = [(self._group == k).nonzero()[:, 0] for k in range(int(self._group.max()) + 1)]

    def __len__(self) -> int:
        return 1

    @property
    def restricts(self) -> bool:
        return 1 < len(self._own) < len(self.players)

    @property
    def names(self) -> Any:
        return [[self.players.names[player] for player in own] for own in self._own]

    @property
    def provenance(self) -> dict[str, Any]:
        return {"groups": self.names} if self.restricts else {}

    @property
    def steps(self) -> list[Step]:
        """There are none.

        Raises:
            ValueError: groups say nothing of causes.
        """
        raise ValueError(
            "Expected a causal `ordering`, by components or by the causes of each player, but got "
            f"groups that stay together, {shown(self.names)}."
        )

    @property
    def orders(self) -> int | float:
        sizes = [len(self._own), *map(len, self._own)]
        return math.prod(math.factorial(size) for size in sizes)

    @property
    def parts(self) -> list[Part]:
        if self._coalitions[0] > MOST_COALITIONS:
            raise OverflowError(f"There are more than {MOST_COALITIONS} coalitions.")
        return [_Unions(self._group, self._own)]

    def sample_pairs(
        self, shape: Sequence[int], generator: torch.Generator
    ) -> Int64[Tensor, "*shape 2 players"]:
        place = sample_orders(shape, len(self._own), generator).argsort(-1)
        numbers = torch.rand(
            (*shape, len(self.players)),
            generator=generator,
            device=place.device,
            dtype=torch.float64,
        )
        orders = (place[..., self._group.to(place.device)] + numbers).argsort(dim=-1, stable=True)
        return torch.stack((orders, orders.flip(-1)), dim=-2)

    def log_weights(self, orders: Int64[Tensor, "*shape players"]) -> None:
        return None

    def all_orders(self) -> tuple[Int64[Tensor, "orders players"], Float[Tensor, " orders"]]:
        within = [list(itertools.permutations(own.tolist())) for own in self._own]
        orders = torch.tensor(
            [
                [*itertools.chain.from_iterable(chosen)]
                for order in itertools.permutations(range(len(within)))
                for chosen in itertools.product(*(within[group] for group in order))
            ]
        )
        return orders, torch.full((len(orders),), 1 / len(orders), dtype=torch.float64)

    @property
    def _coalitions(self) -> list[int | float]:
        groups = len(self._own)
        return [2**groups + sum((2 ** len(own) - 2) * 2 ** (groups - 1) for own in self._own)]


class _Unions(Part):
    """The coalitions of whole groups and of a part of one more, weighted as by Owen (1977)."""

    def __init__(self, group: Int64[Tensor, " players"], own: list[Tensor]) -> None:
        whole = all_coalitions(len(own))
        masks = [whole[:-1, group]]
        for number, members in enumerate(own):
            inner = all_coalitions(len(members))[1:-1]
            block = whole[~whole[:, number]][:, None, group].repeat(1, len(inner), 1)
            block[..., members] = inner
            masks.append(block.flatten(0, 1))
        masks.append(whole[-1:, group])
        self._masks, self._own = torch.cat(masks), own
        self.members, self.coalitions = torch.arange(len(group)), len(self._masks)

    def masks(self) -> Bool[Tensor, "coalitions own"]:
        return self._masks

    def weights(self) -> Float[Tensor, "coalitions own"]:
        """Of the groups before a player's own, times of those of its own before it."""
        inside = [self._masks[:, members] for members in self._own]
        full = torch.stack([each.all(1) for each in inside], 1)
        whole = full | torch.stack([~each.any(1) for each in inside], 1)
        # A coalition of other groups is one without the group: only its size counts.
        weights = torch.zeros(self._masks.shape, dtype=torch.float64)
        for number, members in enumerate(self._own):
            without = full.clone()
            without[:, number] = False
            outer = -shapley_weights(without)[:, number]
            others = torch.cat((whole[:, :number], whole[:, number + 1 :]), 1).all(1)
            weights[:, members] = (outer * others)[:, None] * shapley_weights(inside[number])
        return weights


def checked_graph(
    parents: Mapping[Any, Any], players: Players, constants: Collection[str]
) -> dict[str, list[str]]:
    """The causes of each player, where constants hand theirs on to their effects.

    Raises:
        TypeError: causes that are no list of names.
        ValueError: names that are unknown; a circle.
    """
    for effect, causes in parents.items():
        if isinstance(causes, str) or not isinstance(causes, Sequence):
            raise TypeError(
                f"Expected the causes of {effect!r} in `ordering` to be a list of names but got "
                f"{causes!r}; a single one is ['name']."
            )
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
