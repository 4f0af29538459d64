"""Coalition laws against their formulas, and orders."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from manifold_shap.coalitions import (
    Listed,
    Nested,
    Renamed,
    Toggled,
    all_coalitions,
    distinct_coalitions,
    is_proper,
    sample_orders,
)
from manifold_shap.laws import CoalitionLaw, LeverageScores, ShapleyKernel, SizeUniform

# Every statistical test here fails a correct sampler with this probability (over seeds).
FALSE_ALARM = 1e-6


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def counts(mask: Tensor) -> Tensor:
    """How often each of the 2^n coalitions occurs, by its number in `all_coalitions`."""
    players = mask.shape[-1]
    code = (mask.reshape(-1, players) * 2 ** torch.arange(players)).sum(-1)
    return torch.bincount(code, minlength=2**players)


def assert_law(observed: Tensor, probability: Tensor) -> None:
    possible = probability > 0
    assert observed[~possible].sum() == 0
    expected = probability[possible].double()
    expected = expected / expected.sum() * observed.sum()
    test = stats.chisquare(observed[possible].numpy(), expected.numpy())
    assert test.pvalue > FALSE_ALARM


def shapley_probability(size: int, n: int) -> float:
    return 1 / (n * math.comb(n, size)) if size < n else 0.0


def kernel_weight(size: int, n: int) -> float:
    proper = 0 < size < n
    return (n - 1) / (math.comb(n, size) * size * (n - size)) if proper else 0.0


@pytest.mark.parametrize("n", [2, 3, 6, 10])
@pytest.mark.parametrize(
    ("law", "weight"), [(SizeUniform, shapley_probability), (ShapleyKernel, kernel_weight)]
)
def test_laws_are_those_of_their_formulas(
    law: type[CoalitionLaw], weight: Callable[[int, int], float], n: int
) -> None:
    masks = all_coalitions(n)
    weights = torch.tensor([weight(int(size), n) for size in masks.sum(1)])
    torch.testing.assert_close(law(n).log_prob(masks).exp(), weights / weights.sum())


@pytest.mark.parametrize("law", [SizeUniform(4), ShapleyKernel(4), LeverageScores(4)])
def test_samples_are_of_their_law_and_repeat_with_their_seed(law: CoalitionLaw) -> None:
    mask = law.sample((400, 100), generator(3))
    assert mask.shape == (400, 100, 4)
    assert_law(counts(mask), law.log_prob(all_coalitions(4)).exp())
    assert torch.equal(law.sample((400, 100), generator(3)), mask)


@pytest.mark.parametrize("n", [2, 3, 6, 10])
def test_leverage_scores_are_those_of_the_regression_of_kernelshap(n: int) -> None:
    masks = all_coalitions(n)
    weight = torch.tensor([kernel_weight(int(s), n) for s in masks.sum(1)]).double()
    # The sum of the coefficients is given, so that a row counts as far as it differs from its mean.
    rows = weight.sqrt()[:, None] * (masks.double() - masks.double().mean(1, keepdim=True))
    scores = (rows @ torch.linalg.pinv(rows)).diagonal()
    assert scores.sum().item() == pytest.approx(n - 1)
    probability = LeverageScores(n).log_prob(masks).exp()
    torch.testing.assert_close(probability, (scores / scores.sum()).float())


@given(st.sampled_from([1, 5, 62, 63, 200]), st.integers(0, 40), st.integers(0, 1_000))
@settings(deadline=None, max_examples=40)
def test_distinct_coalitions_stand_for_all(players: int, count: int, seed: int) -> None:
    few = torch.rand(3, players, generator=generator(seed)) < 0.5
    mask = few[torch.randint(3, (count,), generator=generator(seed))]
    distinct, position = distinct_coalitions(mask)
    assert torch.equal(distinct[position], mask)
    assert len(distinct) == len(set(map(tuple, mask.tolist())))


@pytest.mark.parametrize("most", [1, 4, 7, 12, 50, 1000])
@pytest.mark.parametrize("kind", [Listed, Nested, Toggled, Renamed])
def test_pieces_are_all_coalitions_at_most_so_many_at_a_time(kind: type, most: int) -> None:
    orders = sample_orders((3, 2), 5, generator())
    keys = torch.arange(6).unflatten(0, (3, 2))
    more = {"place": sample_orders((3,), 5, generator(1))} if kind is Renamed else {}
    items = orders if kind is Nested else orders < 2
    asked = kind(items[:1].expand(3, -1, -1) if more else items, keys, **more)
    masks, each_key = torch.zeros_like(asked.masks()), torch.full(asked.shape, -1)
    for rows, which, part in asked.split(most):
        masks[rows, which], each_key[rows, which] = part.masks(), part.each_key()
        assert math.prod(part.shape) <= most
    assert torch.equal(masks, asked.masks())
    assert torch.equal(each_key, asked.each_key())


@given(st.integers(2, 6), st.integers(0, 2), st.integers(0, 2**31))
@settings(deadline=None, max_examples=30)
def test_related_coalitions_are_those_one_by_one(players: int, lacking: int, seed: int) -> None:
    drawn = generator(seed)
    orders = torch.rand(2, 3, players, generator=drawn).argsort(-1)
    nested = Nested(orders, torch.zeros(2, 3, dtype=torch.int64), lacking=lacking).masks()
    for size, mask in enumerate(nested[0, : players - 1], start=1):
        there = mask[:players].nonzero()[:, 0].tolist()
        assert sorted(orders[0, 0, :size].tolist()) == there
    mask = torch.rand(2, 3, players, generator=drawn) < 0.5
    around = Toggled(mask, torch.zeros(2, 3, dtype=torch.int64), lacking=lacking).masks()
    runs = around[..., :players].unflatten(1, (3, -1))
    proper = is_proper(runs.flatten(1, 2)).unflatten(1, (3, -1))
    assert proper.all()
    for player in range(players):
        other = mask.clone()
        other[..., player] ^= True
        known = is_proper(other)
        assert torch.equal(runs[:, :, player + 1][known], other[known])
    # Players that rows lack are in all of them.
    assert nested[..., players:].all()
    assert around[..., players:].all()
