"""Defines coalitions and how they are related, and draws coalitions and orders of players.

A coalition is a bool mask over players: `True` = the player is in the coalition.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

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

    def split(self, most: int) -> Iterator["Coalitions"]:
        """All of them in turn, at most so many of a row at a time: whole runs, or parts of one."""
        runs = max(1, most // self.run)
        for items, keys in zip(self.items.split(runs, 1), self.keys.split(runs, 1), strict=True):
            some = replace(self, items=items, keys=keys)
            yield from some._parts(most) if most < self.run else (some,)

    def _parts(self, most: int) -> Iterator["Coalitions"]:
        return Listed(self.masks(), self.each_key()).split(most)


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
        stop = self.first + self.run
        for first in range(self.first, stop, most):
            yield replace(self, first=first, last=min(first + most, stop) - 1)


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
