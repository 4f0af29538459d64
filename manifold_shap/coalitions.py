"""Defines coalitions and how they are related, probability laws over them, and orders of players.

A coalition is a bool mask over players: `True` = the player is in the coalition.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap import _random
from manifold_shap._checks import check_mask, check_whole


def _log_binomial(n: int, k: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    total = torch.tensor(n + 1.0, dtype=k.dtype, device=k.device)
    return torch.lgamma(total) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)


class CoalitionLaw(ABC):
    """A probability law over coalitions; a subclass defines `sample`, and `log_prob` if it can.

    >>> SizeUniform(3).sample((2, 4), torch.Generator().manual_seed(0)).shape
    torch.Size([2, 4, 3])

    Attributes:
        name: as in the errors under several laws.
        players: how many there are.
    """

    name: str
    players: int

    @abstractmethod
    def sample(
        self, shape: Sequence[int], generator: torch.Generator, counts: Tensor | None = None
    ) -> Tensor:
        """Coalitions bool `[*shape, players]`, on the generator's device.

        Args:
            shape: of the block of coalitions.
            generator: the only source of random numbers.
            counts: int64 that broadcasts to `shape`: of the players, the first so many take part.
        """

    def sample_antithetic(
        self, shape: Sequence[int], generator: torch.Generator, counts: Tensor | None = None
    ) -> Tensor:
        """Pairs `[*shape, 2, players]`, each half as of `sample`, whose errors partly cancel."""
        counts = None if counts is None else counts[..., None]
        return self.sample((*shape, 2), generator, counts)

    def log_prob(self, mask: Tensor) -> Tensor:
        """Log-probability `[...]` of coalitions `[..., players]`, where there is a formula."""
        raise NotImplementedError(f"The probabilities of {type(self).__name__} have no formula.")

    @property
    def parts(self) -> "tuple[CoalitionLaw, ...]":
        """The laws that it mixes; the law itself where it is no mixture."""
        return (self,)


def present_players(
    players: int, counts: Tensor | None, device: torch.device
) -> Bool[Tensor, "*shape players"]:
    """The first players, as many as `counts` says."""
    place = torch.arange(players, device=device)
    return place < (players if counts is None else counts.to(device)[..., None])


class SizeUniform(CoalitionLaw):
    """The law of the Shapley sum: |S| uniform on 0..n-1, then a uniform subset of that size.

    It gives coalition S the weight Σ_{i∉S} |S|!(n-|S|-1)!/n! / n, the share of Eq. (1) of Frye et
    al. (2021) that S carries, and is the law of their Eqs. (16)-(17).

    >>> SizeUniform(3).log_prob(torch.tensor([[False, False, False], [True, False, False]])).exp()
    tensor([0.3333, 0.1111])

    Raises:
        ValueError: no player.
    """

    name = "scattered"

    def __init__(self, players: int) -> None:
        self.players = check_whole("players", players)

    def sample(
        self, shape: Sequence[int], generator: torch.Generator, counts: Tensor | None = None
    ) -> Tensor:
        arrival, newcomer = self._arrivals(shape, generator, counts)
        return arrival < newcomer

    def sample_antithetic(
        self, shape: Sequence[int], generator: torch.Generator, counts: Tensor | None = None
    ) -> Tensor:
        """Predecessors and successors of a random player `[*shape, 2, players]`.

        Each half follows the law; together they cover every player but one, so their errors
        partly cancel.
        """
        arrival, newcomer = self._arrivals(shape, generator, counts)
        return torch.stack((arrival < newcomer, arrival > newcomer), dim=-2)

    def log_prob(self, mask: Tensor) -> Tensor:
        """`-log n - log C(n, |S|)`, and `-inf` for the full coalition; shape `[...]`."""
        check_mask(mask, self.players)
        size = mask.sum(-1).double()
        log_prob = -math.log(self.players) - _log_binomial(self.players, size)
        full = size == self.players
        return log_prob.masked_fill(full, -math.inf).to(torch.get_default_dtype())

    def _arrivals(
        self, shape: Sequence[int], generator: torch.Generator, counts: Tensor | None
    ) -> tuple[Float[Tensor, "*shape n"], Float[Tensor, "*shape 1"]]:
        # Players arrive at independent uniform times: those before a uniformly chosen player are
        # a coalition of this law, exactly, by one comparison and without sorting or redrawing.
        device = generator.device
        arrival = torch.rand((*shape, self.players), generator=generator, device=device)
        if counts is None:
            player = torch.randint(self.players, (*shape, 1), generator=generator, device=device)
            return arrival, arrival.gather(-1, player)
        chosen = torch.rand((*shape, 1), generator=generator, device=device, dtype=torch.float64)
        player = (chosen * counts.to(device)[..., None]).long()
        # Who is not there comes neither before nor after anybody.
        arrival = arrival.where(present_players(self.players, counts, device), torch.nan)
        return arrival, arrival.gather(-1, player)


class _ProperSizes(CoalitionLaw):
    """A law over coalitions that are neither empty nor full, uniform among those of one size.

    Args:
        players: how many.
        weight: of the sizes 1..n-1, up to a factor.

    Attributes:
        size_probability: of these sizes.
    """

    def __init__(self, players: int, weight: Float[Tensor, " sizes"]) -> None:
        self.players = players
        self.size_probability = weight / weight.sum()

    def sample(
        self, shape: Sequence[int], generator: torch.Generator, counts: Tensor | None = None
    ) -> Tensor:
        """As of any law, for all players only."""
        if counts is not None:
            raise ValueError(f"Expected no `counts`: {type(self).__name__} is of all players.")
        probability = self.size_probability.to(generator.device)
        count = math.prod(shape)
        size = 1 + torch.multinomial(probability, count, replacement=True, generator=generator)
        return sample_subsets(size, self.players, generator).reshape(*shape, self.players)

    def log_prob(self, mask: Tensor) -> Tensor:
        """Log-probability `[...]`; `-inf` for the empty and the full coalition."""
        check_mask(mask, self.players)
        size = mask.sum(-1)
        proper = (size > 0) & (size < self.players)
        index = (size - 1).clamp(0, self.players - 2)
        log_size = self.size_probability.to(mask.device).log()[index]
        log_prob = log_size - _log_binomial(self.players, size.double())
        return log_prob.masked_fill(~proper, -math.inf).to(torch.get_default_dtype())


class ShapleyKernel(_ProperSizes):
    """The KernelSHAP law: p(S) ∝ (n-1) / (C(n,|S|) |S| (n-|S|)), 0 < |S| < n.

    Not the law of the Shapley sum: the empty coalition never occurs, and small and large ones
    are more frequent (Lundberg & Lee 2017, Theorem 2).

    >>> ShapleyKernel(4).size_probability
    tensor([0.3636, 0.2727, 0.3636], dtype=torch.float64)

    Raises:
        ValueError: fewer than two players.
    """

    name = "kernel"

    def __init__(self, players: int) -> None:
        check_whole("players", players, 2)
        size = torch.arange(1, players, dtype=torch.float64)
        super().__init__(players, 1 / (size * (players - size)))


class LeverageScores(_ProperSizes):
    """The leverage scores of KernelSHAP's regression: |S| uniform on 1..n-1, then a uniform subset.

    Under the kernel, coalitions of middle sizes are rare; leverage scores give every coalition the
    probability that is in proportion to its influence on the fit (Musco & Witter 2025, Lemma 3.2).

    >>> LeverageScores(4).size_probability
    tensor([0.3333, 0.3333, 0.3333], dtype=torch.float64)
    >>> mask = LeverageScores(4).sample((100,), torch.Generator().manual_seed(0))
    >>> bool(mask.any(-1).all()), bool(mask.all(-1).any())  # Neither empty nor full.
    (True, False)

    Raises:
        ValueError: fewer than two players.
    """

    name = "leverage"

    def __init__(self, players: int) -> None:
        check_whole("players", players, 2)
        super().__init__(players, torch.ones(players - 1, dtype=torch.float64))


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
    """

    items: Tensor
    keys: Int64[Tensor, "batch runs"]

    @property
    @abstractmethod
    def run(self) -> int:
        """How many coalitions a run has."""

    @abstractmethod
    def masks(self) -> Bool[Tensor, "batch m players"]:
        """All of them, run after run: m is runs times `run`."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows, and of coalitions of each."""
        return len(self.items), self.items.shape[1] * self.run

    def each_key(self) -> Int64[Tensor, "batch m"]:
        """The key of each coalition."""
        return self.keys.repeat_interleave(self.run, 1)

    def folded(self, number: int) -> Self:
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

    def masks(self) -> Bool[Tensor, "batch m players"]:
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

    def masks(self) -> Bool[Tensor, "batch m players"]:
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

    def masks(self) -> Bool[Tensor, "batch m players"]:
        players = self.items.shape[2]
        masks = toggled(self.items).flatten(1, 2)
        first = torch.arange(players, device=masks.device) == 0
        return torch.where((masks.sum(-1) % players == 0)[..., None], first, masks)
