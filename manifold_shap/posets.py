"""Counts, lists and draws orders of players: those that a partial order allows, or of unions.

A partial order is taken apart first: components that come one after the other have orders of their
own (in series), and so have components that nothing connects, whose orders are shuffled into each
other (in parallel). What is left is counted by its ideals, the sets that contain with each player
all of its predecessors: the number of orders through an ideal is a sum over the next ones, and
drawing along these numbers is exactly uniform (Kahn & Saks 1984 for the counts).
"""

import itertools
import math
from abc import ABC, abstractmethod
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap.coalitions import all_coalitions, distinct_coalitions, sample_orders

# More ideals take seconds to list.
MOST_IDEALS = 2**18


class Orders(ABC):
    """Orders of players 0, 1, ..., n-1, each as probable as the others.

    Attributes:
        count: how many orders there are.
        coalitions: how many coalitions there are along them.
        before: entry [i, j] is whether i precedes j in all of them, transitively closed.
    """

    count: int
    coalitions: int
    before: Tensor

    @abstractmethod
    def draw(self, count: int, generator: torch.Generator) -> Int64[Tensor, "pairs 2 players"]:
        """Independent pairs of orders; each half has the law of the class, and opposite numbers."""

    def all(self) -> Int64[Tensor, "orders players"]:
        """Every order once, in lexical order."""
        orders, waits = torch.zeros(1, 0, dtype=torch.int64), self.before.sum(0)[None]
        for _ in range(len(self.before)):
            which, player = (waits == 0).nonzero(as_tuple=True)
            orders = torch.cat((orders[which], player[:, None]), dim=1)
            waits = waits[which].scatter(1, player[:, None], -1) - self.before[player].long()
        return orders

    def weighted_coalitions(
        self,
    ) -> tuple[Bool[Tensor, "coalitions players"], Float[Tensor, "coalitions players"]]:
        """All coalitions along the orders, from the empty to the full one.

        And what the value of each counts for in the Shapley value of each player.
        """
        size = len(self.before)
        masks = torch.zeros(1, size, dtype=torch.bool)
        weights = torch.zeros(1, size, dtype=torch.float64)
        for members in _in_series(self.before):
            own, own_weights = _weighted_ideals(self.before[members][:, members])
            # The last coalition of a component is the first one of the next component.
            block, share = masks[-1:].repeat(len(own), 1), weights.new_zeros(len(own), size)
            share[0] = weights[-1]
            block[:, members], share[:, members] = own, own_weights
            masks, weights = torch.cat((masks[:-1], block)), torch.cat((weights[:-1], share))
        return masks, weights


class Components(Orders):
    """Components without an order inside, one after the other; each half reversed inside them.

    Args:
        component: number of each player's component, of which smaller ones come first.
    """

    def __init__(self, component: Int64[Tensor, " players"]) -> None:
        self.component, self._sizes = component, component.bincount().tolist()
        self.count = math.prod(math.factorial(size) for size in self._sizes)
        self.coalitions = 1 + sum(2**size - 1 for size in self._sizes)

    @cached_property
    def before(self) -> Bool[Tensor, "size size"]:  # type: ignore[override]
        return self.component[:, None] < self.component

    def draw(self, count: int, generator: torch.Generator) -> Int64[Tensor, "pairs 2 players"]:
        orders = sample_orders((count,), self.component, generator)
        parts = [part.flip(-1) for part in orders.split(self._sizes, dim=-1)]
        return torch.stack((orders, torch.cat(parts, dim=-1)), dim=1)


class Series(Orders):
    """Components that come one after the other.

    Args:
        before: as of `Orders`.
        members: numbers of the players in each component.
    """

    def __init__(self, before: Bool[Tensor, "size size"], members: list[Tensor]) -> None:
        self.before, self.members = before, members
        self.parts = [extensions(before[own][:, own]) for own in members]
        self.count = math.prod(part.count for part in self.parts)
        self.coalitions = 1 + sum(part.coalitions - 1 for part in self.parts)

    def draw(self, count: int, generator: torch.Generator) -> Int64[Tensor, "pairs 2 players"]:
        drawn = zip(self.parts, self.members, strict=True)
        return torch.cat([own[part.draw(count, generator)] for part, own in drawn], dim=-1)


class Parallel(Series):
    """Components without a relation between them, shuffled into each other uniformly."""

    def __init__(self, before: Bool[Tensor, "size size"], members: list[Tensor]) -> None:
        super().__init__(before, members)
        shuffles = math.factorial(len(before))
        for own in members:
            shuffles //= math.factorial(len(own))
        self.count *= shuffles
        self.coalitions = math.prod(part.coalitions for part in self.parts)

    def draw(self, count: int, generator: torch.Generator) -> Int64[Tensor, "pairs 2 players"]:
        sizes = torch.tensor([len(own) for own in self.members])
        turn = torch.arange(len(sizes)).repeat_interleave(sizes)[
            Components(torch.zeros(len(self.before), dtype=torch.int64)).draw(count, generator)
        ]
        orders = torch.empty_like(turn)
        for number, (part, own) in enumerate(zip(self.parts, self.members, strict=True)):
            orders[turn == number] = own[part.draw(count, generator)].flatten()
        return orders


class Lattice(Orders):
    """Orders counted and drawn along the ideals of a partial order.

    Attributes:
        masks: the ideals as coalitions, from the empty to the full one.

    Raises:
        ValueError: there are more than `MOST_IDEALS`.

    >>> chain_and_one = torch.tensor([[0, 1, 0], [0, 0, 0], [0, 0, 0]]).bool()
    >>> Lattice(chain_and_one).count, len(Lattice(chain_and_one).masks)
    (3, 6)
    """

    def __init__(self, before: Bool[Tensor, "size size"]) -> None:
        level, first = torch.zeros(1, len(before), dtype=torch.bool), 0
        levels, self._steps = [level], list[tuple[Tensor, Tensor, Tensor]]()
        own, waits_for = torch.eye(len(before), dtype=torch.bool), before.float()
        for _ in range(len(before)):
            free = ~level & ((~level).float() @ waits_for == 0)
            source, player = free.nonzero(as_tuple=True)
            reached, target = distinct_coalitions(level[source] | own[player])
            self._steps.append((first + source, first + len(level) + target, player))
            first, level = first + len(level), reached
            levels.append(level)
            if first + len(level) > MOST_IDEALS:
                raise ValueError(
                    f"Expected an `ordering` with at most {MOST_IDEALS} coalitions of causes and "
                    f"effects that hang together but {len(before)} such players have more; group "
                    "players, give components, or draw orders by `permutation_shapley(orders=)`."
                )
        self.masks = torch.cat(levels)
        # Numbers of orders that end in an ideal, and that go on from it to the last one.
        self._until = torch.zeros(len(self.masks), dtype=torch.float64)
        self._after = self._until.clone()
        self._until[0] = self._after[-1] = 1
        for source, target, _ in self._steps:
            self._until.index_add_(0, target, self._until[source])
        for source, target, _ in reversed(self._steps):
            self._after.index_add_(0, source, self._after[target])
        self.before = before
        self.count, self.coalitions = round(float(self._after[0])), len(self.masks)

    @cached_property
    def _all_steps(self) -> tuple[Tensor, Tensor, Tensor]:
        source, target, player = (torch.cat(each) for each in zip(*self._steps, strict=True))
        return source, target, player

    def weights(self) -> Float[Tensor, "ideals players"]:
        """What each ideal's value counts for in the mean contribution of each player."""
        source, target, player = self._all_steps
        share = self._until[source] * self._after[target] / self._after[0]
        weights = torch.zeros(self.masks.shape, dtype=torch.float64)
        weights[target, player] = share
        weights[source, player] = -share
        return weights

    def draw(self, count: int, generator: torch.Generator) -> Int64[Tensor, "pairs 2 players"]:
        source, target, player = self._all_steps
        # Steps stand in the order of their sources, where their shares of the orders sum to one.
        until = (self._after[target] / self._after[source]).cumsum(0)
        first = torch.searchsorted(source, torch.arange(len(self.masks)))
        size = len(self.before)
        number = torch.rand((count, size), generator=generator, dtype=torch.float64)
        number = torch.stack((number, 1 - number), dim=1)
        at, orders = torch.zeros(count, 2, dtype=torch.int64), []
        for k in range(size):
            step = torch.searchsorted(until, at + number[..., k], right=True)
            step = step.maximum(first[at]).minimum(first[at + 1] - 1)  # Sums are rounded.
            orders.append(player[step])
            at = target[step]
        return torch.stack(orders, dim=-1)


class Unions(Orders):
    """Orders in which groups stay together: one of the groups, then one within each (Owen 1977).

    Args:
        group: number of each player's group.
    """

    def __init__(self, group: Int64[Tensor, " players"]) -> None:
        self.group = group
        self.members = [(group == k).nonzero()[:, 0] for k in range(int(group.max()) + 1)]
        groups, sizes = len(self.members), [len(own) for own in self.members]
        self.count = math.prod(math.factorial(size) for size in [groups, *sizes])
        self.coalitions = 2**groups + sum((2**size - 2) * 2 ** (groups - 1) for size in sizes)

    def draw(self, count: int, generator: torch.Generator) -> Int64[Tensor, "pairs 2 players"]:
        place = sample_orders((count,), len(self.members), generator).argsort(-1)
        shape = (count, len(self.group))
        numbers = torch.rand(shape, generator=generator, dtype=torch.float64)
        orders = (place[:, self.group] + numbers).argsort(dim=-1, stable=True)
        return torch.stack((orders, orders.flip(-1)), dim=1)

    def all(self) -> Int64[Tensor, "orders players"]:
        within = [list(itertools.permutations(own.tolist())) for own in self.members]
        return torch.tensor(
            [
                [*itertools.chain.from_iterable(chosen)]
                for order in itertools.permutations(range(len(within)))
                for chosen in itertools.product(*(within[group] for group in order))
            ]
        )

    def weighted_coalitions(
        self,
    ) -> tuple[Bool[Tensor, "coalitions players"], Float[Tensor, "coalitions players"]]:
        """Those of whole groups and of a part of one more.

        Weights are those of the groups before a player's own, times of those of its own before it.
        """
        of_groups = all_coalitions(len(self.members))
        blocks = [of_groups[:-1, self.group]]
        for number, own in enumerate(self.members):
            inner = all_coalitions(len(own))[1:-1]
            block = of_groups[~of_groups[:, number]][:, None, self.group].repeat(1, len(inner), 1)
            block[..., own] = inner
            blocks.append(block.flatten(0, 1))
        masks = torch.cat([*blocks, of_groups[-1:, self.group]])
        inside = [masks[:, own] for own in self.members]
        full = torch.stack([each.all(1) for each in inside], 1)
        whole = full | torch.stack([~each.any(1) for each in inside], 1)
        # A coalition of other groups is one without the group: only its size counts.
        weights = torch.zeros(masks.shape, dtype=torch.float64)
        for number, own in enumerate(self.members):
            without = full.clone()
            without[:, number] = False
            outer = -shapley_weights(without)[:, number]
            others = torch.cat((whole[:, :number], whole[:, number + 1 :]), 1).all(1)
            weights[:, own] = (outer * others)[:, None] * shapley_weights(inside[number])
        return masks, weights


def extensions(before: Bool[Tensor, "size size"]) -> Orders:
    """The orders that a partial order allows, taken apart as far as it goes.

    Args:
        before: entry [i, j] is whether i precedes j, transitively closed.
    """
    related = before | before.T
    if not related.any():
        return Components(torch.zeros(len(before), dtype=torch.int64))
    members = _connected(related)
    if len(members) > 1:
        return Parallel(before, _by_predecessors(members, before))
    members = _in_series(before)
    return Series(before, members) if len(members) > 1 else Lattice(before)


def closure(direct: Bool[Tensor, "size size"]) -> Bool[Tensor, "size size"]:
    """Who precedes whom, over any number of others."""
    before, known = direct, -1
    while int(before.sum()) > known:
        known = int(before.sum())
        before = before | ((before.float() @ before.float()) > 0)
    return before


def shapley_weights(
    masks: Bool[Tensor, "coalitions players"],
) -> Float[Tensor, "coalitions players"]:
    """Weight of v(S) for player i: |S-i|!|N-S|!/n! with i inside, -|S|!(n-|S|-1)!/n! without."""
    players = masks.shape[1]
    orders = math.factorial(players)
    share = torch.tensor(
        [math.factorial(s) * math.factorial(players - s - 1) / orders for s in range(players)],
        dtype=torch.float64,
        device=masks.device,
    )
    size = masks.sum(1, keepdim=True)
    joined, without = share[(size - 1).clamp(min=0)], share[size.clamp(max=players - 1)]
    return torch.where(masks, joined, -without)


def _weighted_ideals(before: Bool[Tensor, "size size"]) -> tuple[Tensor, Tensor]:
    """All ideals, and what the value of each counts for in the mean contribution of each player."""
    if before.any():
        lattice = Lattice(before)
        return lattice.masks, lattice.weights()
    masks = all_coalitions(len(before))
    return masks, shapley_weights(masks)


def _in_series(before: Bool[Tensor, "size size"]) -> list[Int64[Tensor, " own"]]:
    """The finest components that come one after the other, by the numbers of their players."""
    return _by_predecessors(_connected(~(before | before.T)), before)


def _by_predecessors(members: list[Tensor], before: Bool[Tensor, "size size"]) -> list[Tensor]:
    return sorted(members, key=lambda own: int(before[:, own].sum(0).min()))


def _connected(adjacent: Bool[Tensor, "size size"]) -> list[Int64[Tensor, " own"]]:
    """Numbers of the vertices of each connected component of a graph."""
    reached = closure(adjacent | torch.eye(len(adjacent), dtype=torch.bool))
    first = reached.float().argmax(1)
    return [(first == k).nonzero()[:, 0] for k in first.unique()]
