"""Defines probability laws over coalitions: of the Shapley sum, of regressions, of blocks."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn.functional import pad

from manifold_shap._checks import (
    check_distinct,
    check_finite,
    check_mask,
    check_number,
    check_whole,
    to_tensor,
)
from manifold_shap.coalitions import sample_subsets
from manifold_shap.players import Players, check_fixed

__all__ = [
    "Blocks",
    "CoalitionLaw",
    "LeverageScores",
    "Mixture",
    "ShapleyKernel",
    "SizeUniform",
    "laws_for",
]


def __dir__() -> list[str]:
    return __all__


# Cells of a partition, in players, above which an axis is cut less often.
_MOST_CELLS = 4


class CoalitionLaw:
    """A probability law over coalitions.

    A subclass defines `sample` or `sample_antithetic`, and `log_prob` if it can.

    >>> SizeUniform(3).sample((2, 4), torch.Generator().manual_seed(0)).shape
    torch.Size([2, 4, 3])

    Attributes:
        name: as in the errors under several laws.
        players: how many there are.
    """

    name: str
    players: int

    def sample(
        self, shape: Sequence[int], generator: torch.Generator, counts: Tensor | None = None
    ) -> Tensor:
        """Coalitions bool `[*shape, players]`, on the generator's device; by default first halves.

        Args:
            shape: of the block of coalitions.
            generator: the only source of random numbers.
            counts: int64 that broadcasts to `shape`: of the players, the first so many take part.
        """
        return self.sample_antithetic(shape, generator, counts)[..., 0, :]

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


class _BySize(CoalitionLaw):
    """A law that is uniform among the coalitions of one size.

    Args:
        players: how many.
        weight: of the sizes 0..n, up to a factor.

    Attributes:
        size_probability: of these sizes, in double precision.
    """

    def __init__(self, players: int, weight: Tensor) -> None:
        self.players, weight = players, weight.double()
        self.size_probability = weight / weight.sum()

    def log_prob(self, mask: Tensor) -> Tensor:
        """Log-probability `[...]`; `-inf` for coalitions that never occur."""
        check_mask(mask, self.players)
        size = mask.sum(-1)
        log_size = self.size_probability.to(mask.device).log()[size]
        n, k = torch.tensor(self.players).to(log_size), size.double()
        log_prob = log_size - (n + 1).lgamma() + (k + 1).lgamma() + (n - k + 1).lgamma()
        return log_prob.to(torch.get_default_dtype())


class SizeUniform(_BySize):
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
        check_whole("players", players)
        super().__init__(players, torch.arange(players + 1) < players)

    def sample_antithetic(
        self, shape: Sequence[int], generator: torch.Generator, counts: Tensor | None = None
    ) -> Tensor:
        """Predecessors and successors of a random player `[*shape, 2, players]`.

        Each half follows the law; together they cover every player but one, so their errors
        partly cancel.
        """
        # Players arrive at independent uniform times: those before a uniformly chosen player are
        # a coalition of this law, exactly, by one comparison and without sorting or redrawing.
        device = generator.device
        arrival = torch.rand((*shape, self.players), generator=generator, device=device)
        if counts is None:
            player = torch.randint(self.players, (*shape, 1), generator=generator, device=device)
        else:
            chosen = torch.rand(
                (*shape, 1), generator=generator, device=device, dtype=torch.float64
            )
            player = (chosen * counts.to(device)[..., None]).long()
            # Who is not there comes neither before nor after anybody.
            arrival = arrival.where(present_players(self.players, counts, device), torch.nan)
        newcomer = arrival.gather(-1, player)
        return torch.stack((arrival < newcomer, arrival > newcomer), dim=-2)


class _ProperSizes(_BySize):
    """A law over coalitions that are neither empty nor full."""

    def sample(
        self, shape: Sequence[int], generator: torch.Generator, counts: Tensor | None = None
    ) -> Tensor:
        """As of any law, for all players only."""
        if counts is not None:
            raise ValueError(f"Expected no `counts`: {type(self).__name__} is of all players.")
        probability = self.size_probability[1:-1].to(generator.device)
        count = math.prod(shape)
        size = 1 + torch.multinomial(probability, count, replacement=True, generator=generator)
        return sample_subsets(size, self.players, generator).reshape(*shape, self.players)


class ShapleyKernel(_ProperSizes):
    """The KernelSHAP law: p(S) ∝ (n-1) / (C(n,|S|) |S| (n-|S|)), 0 < |S| < n.

    Not the law of the Shapley sum: the empty coalition never occurs, and small and large ones
    are more frequent (Lundberg & Lee 2017, Theorem 2).

    >>> ShapleyKernel(4).size_probability
    tensor([0.0000, 0.3636, 0.2727, 0.3636, 0.0000], dtype=torch.float64)

    Raises:
        ValueError: fewer than two players.
    """

    name = "kernel"

    def __init__(self, players: int) -> None:
        check_whole("players", players, 2)
        size = torch.arange(1, players)
        super().__init__(players, pad(1 / (size * (players - size)).double(), (1, 1)))


class LeverageScores(_ProperSizes):
    """The leverage scores of KernelSHAP's regression: |S| uniform on 1..n-1, then a uniform subset.

    Under the kernel, coalitions of middle sizes are rare; leverage scores give every coalition the
    probability that is in proportion to its influence on the fit (Musco & Witter 2025, Lemma 3.2).

    >>> LeverageScores(4).size_probability
    tensor([0.0000, 0.3333, 0.3333, 0.3333, 0.0000], dtype=torch.float64)
    >>> mask = LeverageScores(4).sample((100,), torch.Generator().manual_seed(0))
    >>> bool(mask.any(-1).all()), bool(mask.all(-1).any())  # Neither empty nor full.
    (True, False)

    Raises:
        ValueError: fewer than two players.
    """

    name = "leverage"

    def __init__(self, players: int) -> None:
        check_whole("players", players, 2)
        super().__init__(players, pad(torch.ones(players - 1), (1, 1)))


class Blocks(CoalitionLaw):
    """Coalitions of cells of neighbours: blocks of a picture, stretches of a series or a text.

    Space is cut into cells at random, anew for every coalition: each axis at uniform places, whose
    number is 1 to n-1 where there are n positions on it, k with probability ∝ log(1 + 1/k), so that
    few and many are alike frequent. Pictures are cut along axes that are turned by a random angle.
    The coalition is one of the cells by the law of the Shapley sum (`SizeUniform`).

    Coalitions of scattered players show something of every part of a picture; those of groups, such
    as superpixels and words, show much of one part and nothing of another, as these do.

        >>> law = Blocks([[0], [1], [2], [3], [4], [5]])
        >>> law.sample((3,), torch.Generator().manual_seed(4)).int()
        tensor([[1, 1, 0, 0, 0, 0],
                [0, 0, 0, 0, 1, 1],
                [0, 0, 0, 0, 0, 0]], dtype=torch.int32)

    Args:
        positions: of the players, `[players, axes]`.

    Raises:
        TypeError: `positions` holds no numbers.
        ValueError: another shape, numbers that are not finite, or all players in one place.
    """

    name = "blocks"

    def __init__(self, positions: Any) -> None:
        where = to_tensor(positions, "positions")
        if where.ndim != 2 or where.numel() == 0:
            raise ValueError(
                "Expected `positions` of shape (players, axes) but got "
                f"{tuple(where.shape)}; places on one axis are `places[:, None]`."
            )
        check_finite(where, "positions")
        where = where[:, (where != where[:1]).any(0)].cpu()
        if where.shape[1] == 0:
            raise ValueError("Expected players in different positions but they are all in one.")
        self.players, axes = where.shape
        self.positions = where
        counts = [len(axis.unique()) for axis in where.T]
        if math.prod(counts) > _MOST_CELLS * self.players:
            usual = max(2, round(self.players ** (1 / axes)))
            counts = [min(count, usual) for count in counts]
        # How many cells an axis may be cut into.
        self._most = torch.tensor(counts)

    @classmethod
    def of(cls, players: Players, axes: Sequence[int] | None = None) -> "Blocks":
        """The law for players where the middle of what each owns is its position.

        >>> Blocks.of(Players.patches((3, 4, 4), 2)).positions.tolist()
        [[0.5, 0.5], [0.5, 2.5], [2.5, 0.5], [2.5, 2.5]]

        Args:
            players: see `Players`.
            axes: of an input row, along which there are neighbours; by default all but the first,
                that of channels, of rows with two or more. Of pictures `(height, width)` they are
                `[0, 1]`.

        Raises:
            ValueError: all players are in the same place along these axes, or differ from row to
                row.
        """
        return cls(_positions(players, axes))

    def sample_antithetic(
        self, shape: Sequence[int], generator: torch.Generator, counts: Tensor | None = None
    ) -> Tensor:
        """Coalitions of the same cells `[*shape, 2, players]`: those before and after a random one.

        Each half follows the law; together they cover every cell but one.
        """
        device, most = generator.device, int(self._most.prod())
        present = present_players(self.players, counts, device)
        cells = self.cells(shape, generator, counts)
        # The law of the Shapley sum over the cells that hold a player.
        arrival, lot = torch.rand((2, *shape, most), generator=generator, device=device)
        held = torch.zeros((*shape, most + 1), dtype=torch.bool, device=device)
        held = held.scatter_(-1, cells.where(present, most), True)[..., :-1]
        newcomer = lot.where(held, -1).argmax(-1, keepdim=True)
        last, own = arrival.gather(-1, newcomer), arrival.gather(-1, cells)
        return torch.stack(((own < last) & present, (own > last) & present), dim=-2)

    def cells(
        self, shape: Sequence[int], generator: torch.Generator, counts: Tensor | None = None
    ) -> Int64[Tensor, "*shape players"]:
        """Partitions of the players into cells: the number of the cell that each is in.

        Arguments as for `sample`.
        """
        device, axes = generator.device, len(self._most)
        present = present_players(self.players, counts, device)[..., None, :]
        place = self.positions.T.to(device)
        low, high = _ends(place, present)
        # A shorter row is cut into fewer cells.
        share = (high - low) / (place.amax(-1) - place.amin(-1))
        most = (1 + (self._most.to(device) - 1) * share).expand(*shape, axes)
        if axes == 2:
            place = _turned(place, torch.rand(shape, generator=generator, device=device))
            low, high = _ends(place, present)
        numbers = torch.rand((*shape, axes), generator=generator, device=device)
        number = most.pow(numbers).floor().minimum(most - 1)[..., None]
        cuts = torch.rand(
            (*shape, axes, int(self._most.max()) - 1), generator=generator, device=device
        )
        cuts = low[..., None] + (high - low)[..., None] * cuts
        drawn = torch.arange(cuts.shape[-1], device=device) < number
        edges = cuts.where(drawn, torch.inf).sort(-1).values
        place = place.expand(*shape, axes, self.players).contiguous()
        cell = torch.searchsorted(edges, place)
        strides = torch.cat((self._most.new_ones(1), self._most[:-1].cumprod(0))).to(device)
        return (cell * strides[:, None]).sum(-2)


class Mixture(CoalitionLaw):
    """Coalitions of several laws: each is drawn by one of them, chosen by these weights.

        >>> law = Mixture([SizeUniform(9), Blocks([[k] for k in range(9)])], [3, 1])
        >>> law.sample((2, 5), torch.Generator().manual_seed(0)).shape
        torch.Size([2, 5, 9])

    Attributes:
        laws: those that are mixed.
        weights: their probabilities, which sum to one.

    Args:
        laws: at least one, all of equally many players and with names of their own.
        weights: positive; by default equal.

    Raises:
        TypeError: a weight is no number.
        ValueError: laws of different numbers of players or of one name, or another number of
            weights.
    """

    name = "mixture"

    def __init__(
        self, laws: Sequence[CoalitionLaw], weights: Sequence[int | float] | None = None
    ) -> None:
        self.laws = tuple(laws)
        self.players = self.laws[0].players
        check_distinct([law.name for law in self.laws], "names of laws", "give each one weight")
        given = [1.0] * len(self.laws) if weights is None else weights
        if len(given) != len(self.laws):
            raise ValueError(
                f"Expected a weight for each of {len(self.laws)} laws but got {list(given)}."
            )
        given = [check_number("weights", weight, above=0) for weight in given]
        self.weights = tuple(weight / sum(given) for weight in given)

    @property
    def parts(self) -> tuple[CoalitionLaw, ...]:
        return self.laws

    def sample(
        self, shape: Sequence[int], generator: torch.Generator, counts: Tensor | None = None
    ) -> Tensor:
        return self._drawn(shape, generator, counts, ())

    def sample_antithetic(
        self, shape: Sequence[int], generator: torch.Generator, counts: Tensor | None = None
    ) -> Tensor:
        """Antithetic pairs `[*shape, 2, players]`, both halves by the same law."""
        return self._drawn(shape, generator, counts, (2,))

    def _drawn(
        self,
        shape: Sequence[int],
        generator: torch.Generator,
        counts: Tensor | None,
        pair: tuple[int, ...],
    ) -> Tensor:
        device = generator.device
        lot = torch.rand(math.prod(shape), generator=generator, device=device)
        upper = torch.tensor(self.weights[:-1], device=device).cumsum(0)
        chosen = torch.searchsorted(upper, lot, right=True)
        own = None if counts is None else counts.to(device).expand(*shape).flatten()
        mask = torch.zeros((len(lot), *pair, self.players), dtype=torch.bool, device=device)
        for number, law in enumerate(self.laws):
            place = (chosen == number).nonzero()[:, 0]
            draw = law.sample_antithetic if pair else law.sample
            mask[place] = draw((len(place),), generator, None if own is None else own[place])
        return mask.reshape(*shape, *pair, self.players)

    def log_prob(self, mask: Tensor) -> Tensor:
        parts = [
            law.log_prob(mask) + math.log(weight)
            for law, weight in zip(self.laws, self.weights, strict=True)
        ]
        return torch.stack(parts).logsumexp(0)


def laws_for(
    players: Players, axes: Sequence[int] | None = None, blocks: int | float = 0.5
) -> CoalitionLaw:
    """The law by which a value function of these players is trained, and measured, by default.

    Scattered players and `Blocks` of them, where players have neighbours: those of rows with two
    axes or more, series `(channels, time)` and pictures, and of padded rows, such as texts. A row
    of numbers may be a line of a table as well as a series, so that `axes` has to say it. Players
    without neighbours, such as channels, and such as differ from row to row, have `SizeUniform`
    alone.

        >>> [law.name for law in laws_for(Players.patches((3, 32, 32), 4)).parts]
        ['scattered', 'blocks']
        >>> laws_for(Players.of_elements((8,))).name
        'scattered'
        >>> laws_for(Players.segments((100,), 5), axes=[0]).name
        'mixture'

    Args:
        players: see `Players`.
        axes: of an input row, along which players have neighbours, in place of the usual ones; see
            `Blocks.of`.
        blocks: the share of blocks in the mixture.

    Raises:
        TypeError, ValueError: `axes` that there are not, or `blocks` not between 0 and 1.
    """
    share = check_number("blocks", blocks, low=0, high=1)
    scattered = SizeUniform(len(players))
    told = axes is not None or len(players.event) > 1 or players.by_row
    if not told or not players.fixed or share == 0 or len(players) < 3:
        return scattered
    where = _positions(players, axes)
    if bool((where == where[:1]).all()):
        return scattered
    law = Blocks(where)
    return law if share == 1 else Mixture([scattered, law], [1 - share, share])


def _positions(players: Players, axes: Sequence[int] | None) -> Float[Tensor, "players axes"]:
    """The middle of the elements of each player, along some axes of an input row."""
    check_fixed(players, "their positions")
    event = players.event
    # The number of a channel is no place.
    chosen = list(range(len(event) > 1, len(event))) if axes is None else list(axes)
    every = torch.meshgrid(*(torch.arange(n).double() for n in event), indexing="ij")
    place = torch.stack([every[axis].flatten() for axis in chosen], dim=1)
    index = players.index.flatten().cpu()
    total = place.new_zeros(len(players), len(chosen)).index_add_(0, index, place)
    return (total / index.bincount(minlength=len(players))[:, None]).float()


def _ends(
    place: Float[Tensor, "*shape axes players"], present: Bool[Tensor, "*some 1 players"]
) -> tuple[Float[Tensor, "*both axes"], Float[Tensor, "*both axes"]]:
    """The first and the last place of the players that there are, on every axis."""
    low, high = place.where(present, torch.inf), place.where(present, -torch.inf)
    return low.amin(-1), high.amax(-1)


def _turned(
    place: Float[Tensor, "axes players"], share: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape axes players"]:
    """Places on two axes that are turned by shares of a half turn."""
    angle = math.pi * share[..., None]
    cos, sin = angle.cos(), angle.sin()
    return torch.stack((cos * place[0] + sin * place[1], cos * place[1] - sin * place[0]), dim=-2)
