"""Defines coalitions and how they are related, and draws coalitions and orders of players.

A coalition is a bool mask over players: `True` = the player is in the coalition.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn.functional import pad

from manifold_shap import _random


def sample_stratified_pairs(
    shape: Sequence[int], players: int, strata: int, generator: torch.Generator
) -> Bool[Tensor, "*shape strata 2 players"]:
    """Coalitions beside their complements, for the contributions of all players at once.

    A Shapley value is ∫ E[v(T ∪ i) - v(T \\ i)] dq over q from 0 to 1, where every player is in T
    with probability q (Owen 1972). Each stratum has its own range of q, see `stratum_weights`.

    Args:
        shape: of the block of groups, each with a pair for every stratum.
        players: how many there are.
        strata: how many there are.
        generator: of the coalitions, which are made where it is.
    """
    device = generator.device
    # One draw for both: the numbers do not depend on how a block is cut along its first axis.
    numbers = torch.rand((*shape, strata, players + 1), generator=generator, device=device)
    edges = _stratum_edges(strata).to(device)
    share = edges[:-1] + edges.diff() * numbers[..., 0]
    mask = numbers[..., 1:] < share[..., None]
    return torch.stack((mask, ~mask), dim=-2)


def stratum_weights(strata: int) -> Float[Tensor, " strata"]:
    """What each stratum counts for; they sum to one.

    Contributions vary most at nearly empty and nearly full coalitions. So the strata are parts of
    equal probability under the arcsine law of q, and their weights are their widths.
    """
    return 2 * _stratum_edges(strata).diff()


def _stratum_edges(strata: int) -> Float[Tensor, " edges"]:
    # The complement of a coalition is one for 1 - q: half of the range serves both.
    return torch.sin(torch.linspace(0, math.pi / 4, strata + 1)).square()


def sample_subsets(
    size: Int64[Tensor, " some"], players: int, generator: torch.Generator
) -> Bool[Tensor, "some players"]:
    """A uniform subset of the players of each of these sizes, on the generator's device."""
    orders = sample_orders((len(size),), players, generator)
    first = torch.arange(players, device=orders.device) < size[:, None]
    return torch.zeros_like(first).scatter_(-1, orders, first)


def sample_orders(
    shape: Sequence[int], component: int | Int64[Tensor, " players"], generator: torch.Generator
) -> Int64[Tensor, "*shape players"]:
    """Uniform orders of the players: entry k names the player that comes k-th.

    Args:
        shape: of the block of orders.
        component: how many players there are; or the number of each player's component, where
            those of a smaller number come first.
        generator: of the orders, which are made where it is.
    """
    players = component if isinstance(component, int) else len(component)
    # Float64 keys: with float32 a thousand players tie in a few percent of the orders.
    keys = torch.rand(
        (*shape, players), generator=generator, device=generator.device, dtype=torch.float64
    )
    if isinstance(component, Tensor):
        keys += component
    return keys.argsort(dim=-1, stable=True)


def all_coalitions(players: int) -> Bool[Tensor, "coalitions players"]:
    """All 2^n coalitions; row number k holds the players whose bit is set in k."""
    return _with_numbers(torch.arange(2**players), players)


def distinct_coalitions(
    mask: Bool[Tensor, "some players"],
) -> tuple[Bool[Tensor, "distinct players"], Int64[Tensor, " some"]]:
    """Each coalition once, and where each of those given stands among them."""
    players = mask.shape[1]
    if players >= 63:
        return mask.unique(dim=0, return_inverse=True)
    # As whole numbers they are sorted thirty times as fast.
    numbers = (mask.long() << torch.arange(players, device=mask.device)).sum(1)
    distinct, position = numbers.unique(return_inverse=True)
    return _with_numbers(distinct, players), position


def _with_numbers(
    numbers: Int64[Tensor, " coalitions"], players: int
) -> Bool[Tensor, "coalitions players"]:
    return (numbers[:, None] >> torch.arange(players, device=numbers.device)) % 2 == 1


def toggled(mask: Bool[Tensor, "*shape players"]) -> Bool[Tensor, "*shape places players"]:
    """Each coalition, then the same with player 0, 1, ... toggled: players + 1 places."""
    players = mask.shape[-1]
    toggle = torch.eye(players + 1, players, dtype=torch.bool, device=mask.device).roll(1, 0)
    return mask[..., None, :] ^ toggle


def is_proper(mask: Bool[Tensor, "batch m players"]) -> Bool[Tensor, "batch m"]:
    """Which coalitions are neither empty nor full."""
    # On bytes these are vectorised; `any` and `all` take sixty times as long on a CPU.
    present = mask.contiguous().view(torch.uint8)
    return present.amax(-1).bool() & ~present.amin(-1).bool()


_ALL = slice(None)


@dataclass(frozen=True, eq=False)
class Coalitions(ABC):
    """Coalitions of each row, in runs of related ones that share their random numbers.

    A value function that makes nothing of how they are related asks for `masks()`.

    Attributes:
        items: what each run is made of, `[batch, runs, players]`.
        keys: of each run, int64 `[batch, runs]`; coalitions with equal keys share their draws.
        lacking: how many more players there are behind these, which the rows lack. A player that a
            row lacks is in every coalition, and changes nothing.
    """

    items: Tensor
    keys: Int64[Tensor, "batch runs"]
    lacking: int = field(default=0, kw_only=True)

    @property
    @abstractmethod
    def run(self) -> int:
        """How many coalitions a run has."""

    @abstractmethod
    def among_items(self) -> Bool[Tensor, "batch m players"]:
        """Masks over the players of `items`, run after run: m is runs times `run`."""

    def masks(self) -> Bool[Tensor, "batch m players"]:
        """Masks over all players."""
        masks = self.among_items()
        return pad(masks, (0, self.lacking), value=True) if self.lacking else masks

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows, and of coalitions of each."""
        return len(self.items), self.items.shape[1] * self.run

    def each_key(self) -> Int64[Tensor, "batch m"]:
        """The key of each coalition."""
        return self.keys.repeat_interleave(self.run, 1)

    def folded(self, number: int) -> "Coalitions":
        """The same coalitions with other random numbers."""
        return replace(self, keys=_random.fold(self.keys, number))

    def at(self, rows: slice, runs: slice = _ALL) -> "Coalitions":
        """Those of some rows, or some of their runs."""
        return replace(self, items=self.items[rows, runs], keys=self.keys[rows, runs])

    def split(self, most: int) -> Iterator["Piece"]:
        """All of them in turn, at most so many at a time: of whole rows, as what takes time for a
        row is then done once; else whole runs of one row, or parts of a run.
        """
        rows, m = self.shape
        if rows * m <= most:
            yield Piece(_ALL, _ALL, self)
            return
        if m <= most:
            yield from (Piece(some, _ALL, self.at(some)) for some in _cut(rows, most // m))
            return
        for row in _cut(rows, 1):
            for some in _cut(m // self.run, most // self.run):
                part, first = self.at(row, some), some.start * self.run
                pieces = part._parts(most) if self.run > most else [part]
                for piece in pieces:
                    last = first + piece.shape[1]
                    yield Piece(row, slice(first, last), piece)
                    first = last

    def _parts(self, most: int) -> Iterator["Coalitions"]:
        """Parts of a single run."""
        for some in _cut(self.run, most):
            yield Listed(self.masks()[:, some], self.each_key()[:, some])


class Piece(NamedTuple):
    """Some of the coalitions of some rows.

    Attributes:
        rows: which rows: a slice, or their numbers.
        which: which of the coalitions of each of these.
        coalitions: they.
    """

    rows: slice | Tensor
    which: slice
    coalitions: Coalitions


def _cut(count: int, step: int) -> list[slice]:
    step = max(1, step)
    return [slice(first, min(first + step, count)) for first in range(0, count, step)]


class Listed(Coalitions):
    """Any coalitions: `items` are masks, each a run of its own.

    >>> Listed(torch.tensor([[[True, False]]]), torch.tensor([[0]])).masks()
    tensor([[[ True, False]]])
    """

    @property
    def run(self) -> int:
        return 1

    def among_items(self) -> Bool[Tensor, "batch m players"]:
        return self.items


@dataclass(frozen=True, eq=False)
class Nested(Coalitions):
    """The first 1, 2, ..., n-1 players of orders: `items` are players as they arrive.

    >>> Nested(torch.tensor([[[2, 0, 1]]]), torch.tensor([[0]])).masks().int()
    tensor([[[0, 0, 1],
             [1, 0, 1]]], dtype=torch.int32)

    Attributes:
        first: the size of the smallest.
        last: that of the largest; by default n-1.
    """

    first: int = 1
    last: int | None = None

    @property
    def run(self) -> int:
        last = self.items.shape[2] - 1 if self.last is None else self.last
        return last - self.first + 1

    def among_items(self) -> Bool[Tensor, "batch m players"]:
        rank = self.items.argsort(-1)[:, :, None]
        # Narrow integers make the memory-bound comparison cheaper.
        rank = rank.to(torch.int16) if rank.shape[-1] < 2**15 else rank
        sizes = torch.arange(self.first, self.first + self.run, device=rank.device)
        return (rank < sizes.to(rank.dtype)[:, None]).flatten(1, 2)

    def _parts(self, most: int) -> Iterator["Coalitions"]:
        for some in _cut(self.run, most):
            yield replace(self, first=self.first + some.start, last=self.first + some.stop - 1)


class Toggled(Coalitions):
    """Coalitions, each followed by the same with player 0, 1, ... toggled: `items` are masks.

    Empty and full ones among these are replaced by any other, since estimators know their values.

    >>> mask = torch.tensor([[[True, False, False]]])
    >>> Toggled(mask, torch.tensor([[0]])).masks()[0, 2:].int()
    tensor([[1, 1, 0],
            [1, 0, 1]], dtype=torch.int32)
    """

    @property
    def run(self) -> int:
        return self.items.shape[2] + 1

    def among_items(self) -> Bool[Tensor, "batch m players"]:
        players = self.items.shape[2]
        masks = toggled(self.items).flatten(1, 2)
        first = torch.arange(players, device=masks.device) == 0
        return torch.where((masks.sum(-1) % players == 0)[..., None], first, masks)


class Approximated(Toggled):
    """Toggled coalitions, of which a value function's approximation gives whole runs."""

    def _parts(self, most: int) -> Iterator[Coalitions]:
        yield self


@dataclass(frozen=True, eq=False)
class Renamed(Listed):
    """The same coalitions for all rows but for the names of the players: `items` are of names.

    Attributes:
        place: of each player among the names, `[rows, players]`.
    """

    place: Tensor

    def among_items(self) -> Bool[Tensor, "batch m players"]:
        return self.items[0].T[self.place].mT

    def at(self, rows: slice, runs: slice = _ALL) -> Coalitions:
        some = self.items[0, runs].T[self.place[rows]].mT
        return Listed(some, self.keys[rows, runs], lacking=self.lacking)
