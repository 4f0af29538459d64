"""Regression with interactions of all odd orders."""

import itertools

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import all_coalitions
from manifold_shap.estimators.odd import OddGames
from tests.examples import Recorded, table, uniform

few = settings(max_examples=20)
seeds = st.integers(0, 2**20)


def signs(players: int) -> Tensor:
    """All coalitions, 1 for the players that are in one and -1 for the others."""
    return 2 * all_coalitions(players).double() - 1


def random_relevance(players: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 0.9 * torch.rand(2, players, generator=generator, dtype=torch.float64)


# -- interactions ----------------------------------------------------------------------------------


@given(st.integers(2, 6), seeds)
@few
def test_covariance_is_the_sum_over_all_odd_sets(players: int, seed: int) -> None:
    z, relevance = signs(players), random_relevance(players, seed)
    expected = torch.zeros(2, len(z), len(z), dtype=torch.float64)
    for size in range(1, players + 1, 2):
        for some in itertools.combinations(range(players), size):
            term = z[:, some].prod(1)
            expected += relevance[:, some].prod(1)[:, None, None] * term[:, None] * term
    # Known at the grand coalition, which is the last: a conditional covariance.
    last = expected[:, :, -1:]
    expected = expected - last * last.mT / last[:, -1:]
    found = OddGames(relevance).covariance(z, z)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@given(st.integers(2, 6), seeds)
@few
def test_shapley_values_of_sections_are_those_by_enumeration(players: int, seed: int) -> None:
    z, games = signs(players), OddGames(random_relevance(players, seed))
    table = games.covariance(z, z)[0]
    bits = 2 ** torch.arange(players)
    exact = ms.exact_shapley(
        lambda x, mask: table[(mask.long() * bits).sum(-1)], torch.zeros(1, players).double()
    )
    torch.testing.assert_close(games.shapley(z)[0].T, exact.phi[0], rtol=1e-9, atol=1e-9)


# -- the estimator ---------------------------------------------------------------------------------


def sparse(players: int):
    """Products of three players, two and one."""

    def value(x: Tensor, mask: Tensor) -> Tensor:
        z = mask.double()
        parts = z[..., 0] * z[..., 1] * z[..., 2] + z[..., 3] * (1 - z[..., 4]) * z[..., 5]
        return (parts + 0.5 * z[..., 1] * z[..., 6] + z.mean(-1))[..., None]

    shares = torch.full((players,), 1 / players, dtype=torch.float64)
    shares[:3] += 1 / 3
    shares[[3, 5]] += 1 / 6
    shares[4] -= 1 / 3
    shares[[1, 6]] += 0.25
    return value, shares


def test_no_coalition_is_asked_for_twice() -> None:
    value = Recorded(table(12), 12)
    ms.odd_shapley(value, uniform(2, 12), evaluations=600)
    for mask in torch.cat(value.masks, 1):
        assert len(mask.unique(dim=0)) == 600


def test_the_second_of_two_classes_is_the_opposite_of_the_first_in_some_rows_alone() -> None:
    first, second = table(8, 1), table(8, 1, seed=1)
    x = torch.tensor([[1.0], [2.0]]).expand(2, 8)

    def game(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        one, other = first(x, mask), second(x, mask)
        # Of the first row two classes, a million times as large as the outputs of the second.
        of_first = x[:, :1, None] < 2
        return torch.cat((one, torch.where(of_first, -one, other)), 2) * (1 + 1e6 * of_first)

    both = ms.odd_shapley(game, x, evaluations=100).phi
    alone = [
        ms.odd_shapley(lambda x, mask, k=k: game(x, mask)[..., [k]], x, evaluations=100).phi
        for k in (0, 1)
    ]
    torch.testing.assert_close(both, torch.cat(alone, 2))


def test_few_interactions_of_many_players_are_found() -> None:
    value, exact = sparse(30)
    # They are found in most samples of coalitions: of twenty for each player, in two of three.
    x = torch.zeros(9, 30, dtype=torch.float64)
    found = ms.odd_shapley(value, x, evaluations=600).phi[..., 0]
    plain = ms.kernel_shapley(value, x, evaluations=600).phi[..., 0]
    found, plain = ((each - exact).norm(dim=1).median() for each in (found, plain))
    assert found < 0.05 * plain
