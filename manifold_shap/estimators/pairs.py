"""Draws coalitions in pairs with their complements, for the fits of Shapley values to them."""

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from manifold_shap._checks import check_seed, check_whole
from manifold_shap.coalitions import LeverageScores, ShapleyKernel, all_coalitions, sample_subsets
from manifold_shap.estimators.evaluator import Evaluator

EVALUATIONS_PER_PLAYER = 64
LAWS: dict[str, type[LeverageScores | ShapleyKernel]] = {
    "leverage": LeverageScores,
    "kernel": ShapleyKernel,
}
# Coalitions that are made at a time.
_PAIRS_PER_PART = 4096


class Pairs(NamedTuple):
    """Coalitions, each of which stands for its complement, too.

    Attributes:
        mask: one of the two, neither empty nor full, `[pairs, players]`.
        weight: w in the sum over pairs, `[pairs]`.
        sampled: how many were drawn, independently: the last ones. Those before are all pairs of
            their sizes.
    """

    mask: Bool[Tensor, "pairs players"]
    weight: Float[Tensor, " pairs"]
    sampled: int

    @property
    def drawn(self) -> Bool[Tensor, "pairs 1"]:
        """Which ones were drawn."""
        number = torch.arange(len(self.mask), device=self.mask.device)
        return (number >= len(number) - self.sampled)[:, None]

    def coalitions(self, start: int, stop: int) -> Bool[Tensor, "coalitions players"]:
        """Those from number start to stop, where a complement follows its coalition."""
        number = torch.arange(start, stop, device=self.mask.device)
        return self.mask[number // 2] ^ (number % 2 == 1)[:, None]


def choose_pairs(
    game: Evaluator, evaluations: int | None, law: str, seed: int, least: int = 2
) -> Iterator[Pairs]:
    """All pairs that there are, where the budget covers them, or some by the law, again and again.

    Args:
        game: the evaluator.
        evaluations: coalitions per row.
        law: one of `LAWS`.
        seed: of the draws.
        least: coalitions per row that the values need.

    Yields:
        The same pairs as long as they are all that there are; else fresh ones each time.

    Raises:
        ValueError: an odd number of coalitions per row, or fewer than `least`.
    """
    players = len(game.players)
    count, seed = _count(evaluations, players, least), check_seed(seed)
    if count >= 2 ** (players - 1) - 1:
        # Every coalition without the last player; the complements are those with that player.
        mask = all_coalitions(players - 1)[1:]
        mask = torch.cat((mask, mask.new_zeros(len(mask), 1)), dim=1)
        drawn: Iterator[Pairs] = itertools.repeat(Pairs(mask, 2 * _weight(mask), 0))
    else:
        generator = torch.Generator().manual_seed(seed)
        # Sizes taken whole would hide the noise of their values from errors over draws.
        whole = not game.sampled
        drawn = (_draw(LAWS[law](players), count, generator, whole) for _ in itertools.count())
    for pairs in drawn:
        yield Pairs(pairs.mask.to(game.device), pairs.weight.to(game.device), pairs.sampled)


def _count(evaluations: int | None, players: int, least: int) -> int:
    if evaluations is None:
        evaluations = max(2, EVALUATIONS_PER_PLAYER * (players - 1))
    if check_whole("evaluations", evaluations) % 2:
        raise ValueError(
            "Expected `evaluations` to be a positive even number (coalitions come with their "
            f"complements) but got {evaluations}."
        )
    least = min(least, 2**players - 2)
    if evaluations < least:
        raise ValueError(
            f"Expected `evaluations` of at least {least} for {players} players but got "
            f"{evaluations}; fewer coalitions do not determine so many values."
        )
    return evaluations // 2


def _draw(
    law: LeverageScores | ShapleyKernel, count: int, generator: torch.Generator, whole_sizes: bool
) -> Pairs:
    """Pairs of the law; of sizes of which it would draw as many as there are, each pair once."""
    players, probability = law.players, law.size_probability.clone()
    taken, left = [torch.zeros(0, players, dtype=torch.bool)], count
    # Sizes below half of the players: complements have the others, with the same probability. There
    # are more pairs than are drawn, so that some sizes are always left.
    for size in range(1, (players + 1) // 2) if whole_sizes else ():
        expected = 2 * left * float(probability[size - 1] / probability.sum())
        if expected < math.comb(players, size):
            break
        taken.append(_all_of_size(size, players))
        probability[[size - 1, players - size - 1]] = 0
        left -= len(taken[-1])
    whole = torch.cat(taken)
    probability /= probability.sum()
    sizes = 1 + torch.multinomial(probability, left, replacement=True, generator=generator)
    drawn = [sample_subsets(some, players, generator) for some in sizes.split(_PAIRS_PER_PART)]
    weight = players / (sizes * (players - sizes) * probability[sizes - 1]) / left
    return Pairs(torch.cat((whole, *drawn)), torch.cat((2 * _weight(whole), weight)), left)


def _all_of_size(size: int, players: int) -> Bool[Tensor, "coalitions players"]:
    members = torch.tensor(list(itertools.combinations(range(players), size)))
    mask = torch.zeros(len(members), players, dtype=torch.bool)
    return mask.scatter_(1, members, True)


def _weight(mask: Bool[Tensor, "coalitions players"]) -> Float[Tensor, " coalitions"]:
    """w in the sum over all coalitions."""
    n = mask.shape[1]
    by_size = [0.0, *(n / (size * (n - size) * math.comb(n, size)) for size in range(1, n))]
    return torch.tensor(by_size, dtype=torch.float64)[mask.sum(1)]
