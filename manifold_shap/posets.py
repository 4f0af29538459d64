"""Counts, lists and draws the linear extensions of a partial order: the orders that it allows.

A partial order is taken apart first: components that come one after the other have orders of their
own (in series), and so have components that nothing connects, whose orders are shuffled into each
other (in parallel). What is left is counted by its ideals, the sets that contain with each player
all of its predecessors: the number of orders through an ideal is a sum over the next ones, and
drawing along these numbers is exactly uniform (Kahn & Saks 1984 for the counts). Where there are
too many ideals, orders are drawn player by player, and carry importance weights.
"""

import math
from abc import ABC, abstractmethod
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap.coalitions import all_coalitions

# More ideals take seconds to list; a code of so many bits is a whole number.
MOST_IDEALS = 2**18
_MOST_BITS = 62


class Orders(ABC):
    """The linear extensions of a partial order of players 0, 1, ..., `size - 1`.

    Attributes:
        size: how many players there are.
        count: number of orders; infinity where it is not known.
        uniform: whether orders are drawn uniformly, rather than with importance weights.
    """

    size: int
    count: int | float
    uniform: bool = True

    @abstractmethod
    def draw(self, count: int, generator: torch.Generator) -> Int64[Tensor, "pairs 2 players"]:
        """Independent pairs of orders; each half has the law of the class, and opposite numbers."""

    def log_weights(self, orders: Int64[Tensor, "some players"]) -> Float[Tensor, " some"]:
        """What drawn orders count for, as logarithms up to a constant: 0 where all are alike."""
        return torch.zeros(len(orders), dtype=torch.float64, device=orders.device)


class Antichain(Orders):
    """All orders: no player waits for another. Halves of a pair are reverses of each other."""

    def __init__(self, size: int) -> None:
        self.size, self.count = size, math.factorial(size)

    def draw(self, count: int, generator: torch.Generator) -> Int64[Tensor, "pairs 2 players"]:
        keys = torch.rand((count, self.size), generator=generator, dtype=torch.float64)
        orders = keys.argsort(dim=-1, stable=True)
        return torch.stack((orders, orders.flip(-1)), dim=1)


class _Composed(Orders):
    """Components with orders of their own.

    Args:
        parts: the components.
        members: numbers of the players in each of them.
    """

    def __init__(self, parts: list[Orders], members: list[Tensor]) -> None:
        self.parts, self.members = parts, members
        self.size = sum(part.size for part in parts)
        self.uniform = all(part.uniform for part in parts)

    def log_weights(self, orders: Int64[Tensor, "some players"]) -> Float[Tensor, " some"]:
        total = super().log_weights(orders)
        for part, members in zip(self.parts, self.members, strict=True):
            if not part.uniform:
                place = torch.full((self.size,), -1, device=orders.device)
                place[members.to(orders.device)] = torch.arange(part.size, device=orders.device)
                own = place[orders]
                total = total + part.log_weights(own[own >= 0].unflatten(0, (-1, part.size)))
        return total


class Series(_Composed):
    """Components that come one after the other."""

    def __init__(self, parts: list[Orders], members: list[Tensor]) -> None:
        super().__init__(parts, members)
        self.count = math.prod(part.count for part in parts)

    def draw(self, count: int, generator: torch.Generator) -> Int64[Tensor, "pairs 2 players"]:
        drawn = zip(self.parts, self.members, strict=True)
        return torch.cat([own[part.draw(count, generator)] for part, own in drawn], dim=-1)


class Parallel(_Composed):
    """Components without a relation between them, shuffled into each other uniformly."""

    def __init__(self, parts: list[Orders], members: list[Tensor]) -> None:
        super().__init__(parts, members)
        shuffles = math.factorial(self.size)
        for part in parts:
            shuffles //= math.factorial(part.size)
        self.count = shuffles * math.prod(part.count for part in parts)

    def draw(self, count: int, generator: torch.Generator) -> Int64[Tensor, "pairs 2 players"]:
        sizes = torch.tensor([part.size for part in self.parts])
        turn = torch.arange(len(sizes)).repeat_interleave(sizes)[
            Antichain(self.size).draw(count, generator)
        ]
        orders = torch.empty_like(turn)
        for number, (part, own) in enumerate(zip(self.parts, self.members, strict=True)):
            orders[turn == number] = own[part.draw(count, generator)].flatten()
        return orders


class Lattice(Orders):
    """Orders counted and drawn along the ideals of a partial order.

    Args:
        before: entry [i, j] is whether i precedes j, `[players, players]`, transitively closed.
        most: how many ideals there may be.

    Attributes:
        masks: the ideals as coalitions, from the empty to the full one.

    Raises:
        OverflowError: there are more ideals, or more players than bits.

    >>> chain_and_one = torch.tensor([[0, 1, 0], [0, 0, 0], [0, 0, 0]]).bool()
    >>> Lattice(chain_and_one).count, len(Lattice(chain_and_one).masks)
    (3, 6)
    """

    def __init__(self, before: Bool[Tensor, "size size"], most: int = MOST_IDEALS) -> None:
        self.size = len(before)
        if self.size > _MOST_BITS:
            raise OverflowError(f"Ideals of {self.size} players have no codes.")
        bits = 1 << torch.arange(self.size)
        needed = (before * bits[:, None]).sum(0)
        level, levels, steps, first = torch.tensor([0]), [torch.tensor([0])], [], 0
        for _ in range(self.size):
            free = (level[:, None] & bits == 0) & (level[:, None] & needed == needed)
            source, player = free.nonzero(as_tuple=True)
            reached, target = (level[source] | bits[player]).unique(return_inverse=True)
            steps.append((first + source, first + len(level) + target, player))
            first, level = first + len(level), reached
            levels.append(level)
            if first + len(level) > most:
                raise OverflowError(f"There are more than {most} ideals.")
        self.masks = (torch.cat(levels)[:, None] & bits) > 0
        self._steps = steps
        # Numbers of orders that end in an ideal, and that go on from it to the last one.
        self._until = torch.zeros(len(self.masks), dtype=torch.float64)
        self._after = self._until.clone()
        self._until[0] = self._after[-1] = 1
        for source, target, _ in steps:
            self._until.index_add_(0, target, self._until[source])
        for source, target, _ in reversed(steps):
            self._after.index_add_(0, source, self._after[target])
        self.count = round(float(self._after[0]))

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
        number = torch.rand((count, self.size), generator=generator, dtype=torch.float64)
        number = torch.stack((number, 1 - number), dim=1)
        at, orders = torch.zeros(count, 2, dtype=torch.int64), []
        for k in range(self.size):
            step = torch.searchsorted(until, at + number[..., k], right=True)
            step = step.maximum(first[at]).minimum(first[at + 1] - 1)  # Sums are rounded.
            orders.append(player[step])
            at = target[step]
        return torch.stack(orders, dim=-1)


class Sequential(Orders):
    """Orders of many players, drawn one after the other from those whose predecessors are there.

    The next player is drawn in proportion to the number of those that wait for it, and itself. This
    is uniform for a forest of causes (Knuth 1973, hook lengths); otherwise an order counts for the
    reciprocal of its probability.

    Args:
        before: entry [i, j] is whether i precedes j, transitively closed.
    """

    uniform = False

    def __init__(self, before: Bool[Tensor, "size size"]) -> None:
        self.size, self.count = len(before), math.inf
        self._before = before
        self._hooks = 1 + before.sum(1).double()

    def draw(self, count: int, generator: torch.Generator) -> Int64[Tensor, "pairs 2 players"]:
        number = torch.rand((count, self.size), generator=generator, dtype=torch.float64)
        number = torch.stack((number, 1 - number), dim=1)
        waits = self._before.sum(0).expand(count, 2, -1).clone()
        orders = []
        for k in range(self.size):
            until = ((waits == 0) * self._hooks).cumsum(-1)
            aim = (number[..., k : k + 1] * until[..., -1:]).clamp(
                max=until[..., -1:] * (1 - 1e-12)
            )
            player = torch.searchsorted(until, aim, right=True)
            waits = waits.scatter(-1, player, -1) - self._before[player[..., 0]].long()
            orders.append(player)
        return torch.cat(orders, dim=-1)

    def log_weights(self, orders: Int64[Tensor, "some players"]) -> Float[Tensor, " some"]:
        before, hooks = self._before.to(orders.device), self._hooks.to(orders.device)
        waits = before.sum(0).expand(len(orders), -1).clone()
        # Those of a forest are one, and others not so far from it that they were infinite.
        players = torch.arange(1, self.size + 1, dtype=torch.float64, device=orders.device)
        total = super().log_weights(orders) + (hooks / players).log().sum()
        for player in orders.unbind(1):
            free = ((waits == 0) * hooks).sum(-1)
            total = total + (free / hooks[player]).log()
            waits = waits.scatter(-1, player[:, None], -1) - before[player].long()
        return total


def orders_of(before: Bool[Tensor, "size size"]) -> Orders:
    """The linear extensions of a partial order, taken apart as far as it goes.

    Args:
        before: entry [i, j] is whether i precedes j, transitively closed.
    """
    related = before | before.T
    if not related.any():
        return Antichain(len(before))
    for apart, kind in ((related, Parallel), (~related, Series)):
        members = _connected(apart)
        if len(members) > 1:
            members.sort(key=lambda own: int(before[:, own].sum(0).min()))
            return kind([orders_of(before[own][:, own]) for own in members], members)
    try:
        return Lattice(before)
    except OverflowError:
        return Sequential(before)


def in_series(before: Bool[Tensor, "size size"]) -> list[Int64[Tensor, " own"]]:
    """The finest components that come one after the other, by the numbers of their players."""
    members = _connected(~(before | before.T))
    return sorted(members, key=lambda own: int(before[:, own].sum(0).min()))


def closure(direct: Bool[Tensor, "size size"]) -> Bool[Tensor, "size size"]:
    """Who precedes whom, over any number of others."""
    before, known = direct, -1
    while int(before.sum()) > known:
        known = int(before.sum())
        before = before | ((before.float() @ before.float()) > 0)
    return before


def linear_extensions(before: Bool[Tensor, "size size"]) -> Int64[Tensor, "orders size"]:
    """All orders in which everybody comes after all of their predecessors, in lexical order."""
    size = len(before)
    orders = torch.zeros(1, 0, dtype=torch.int64)
    waits = before.sum(0)[None]
    for _ in range(size):
        which, player = (waits == 0).nonzero(as_tuple=True)
        orders = torch.cat((orders[which], player[:, None]), dim=1)
        waits = waits[which].scatter(1, player[:, None], -1) - before[player].long()
    return orders


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


class Part:
    """The coalitions of players that come together in a series, with the weights of their values.

    Args:
        members: numbers of these players.
        lattice: the ideals of the order among them; None where there is no order.
    """

    def __init__(self, members: Int64[Tensor, " own"], lattice: Lattice | None = None) -> None:
        self.members, self._lattice = members, lattice
        self.coalitions = 2 ** len(members) if lattice is None else len(lattice.masks)

    def masks(self) -> Bool[Tensor, "coalitions own"]:
        """All coalitions of these players that their order allows, from the empty one on."""
        lattice = self._lattice
        return all_coalitions(len(self.members)) if lattice is None else lattice.masks

    def weights(self) -> Float[Tensor, "coalitions own"]:
        """What each of their values counts for in the Shapley value of each of these players."""
        lattice = self._lattice
        return shapley_weights(self.masks()) if lattice is None else lattice.weights()


def _connected(adjacent: Bool[Tensor, "size size"]) -> list[Int64[Tensor, " own"]]:
    """Numbers of the vertices of each connected component of a graph."""
    reached = closure(adjacent | torch.eye(len(adjacent), dtype=torch.bool))
    first = reached.float().argmax(1)
    return [(first == k).nonzero()[:, 0] for k in first.unique()]
