"""Permutation sampling: closed forms, honest errors, targets, and draws of its own."""

import itertools
from collections.abc import Callable

import pytest
import torch

import manifold_shap as ms
from manifold_shap.coalitions import sample_orders
from tests.examples import Recorded, Table, random_table, table, uniform

EXACT = ms.exact_shapley
SAMPLED = ms.permutation_shapley
Estimator = Callable[..., ms.Explanation]
both = pytest.mark.parametrize("estimator", [EXACT, SAMPLED])


def test_standard_errors_are_over_pairs() -> None:
    game, x = table(6), uniform(3, 6)
    sampled = SAMPLED(game, x, permutations=80)
    # Running moments over rounds of 32 and 8 pairs against one pass over all.
    generator = torch.Generator().manual_seed(0)
    pairs = torch.cat([sample_orders((3, pairs), 6, generator) for pairs in (32, 8)], dim=1)
    single = torch.zeros(3, 40, 6, 2)
    for b, k in itertools.product(range(3), range(40)):
        for order in (pairs[b, k].tolist(), pairs[b, k].tolist()[::-1]):
            mask = torch.zeros(1, 7, 6, dtype=torch.bool)
            for size, player in enumerate(order):
                mask[:, size + 1 :, player] = True
            single[b, k, order] += game(x[b : b + 1], mask)[0].diff(dim=0) / 2
    torch.testing.assert_close(sampled.phi, single.mean(1))
    # Those of all players count as one pair more.
    variance = single.var(1)
    pooled = (39 * variance + variance.mean(1, keepdim=True)) / 40
    torch.testing.assert_close(sampled.standard_error, (pooled / 40).sqrt())


@pytest.mark.parametrize(("classes", "kept"), [(65, True), (66, False)])
def test_errors_go_together_in_log_ratio_space_of_not_too_many_classes(
    classes: int, kept: bool
) -> None:
    game = Table(ms.simplex.ilr(random_table(6, classes)))
    value = Recorded(game, 6, classes=classes)
    explanation = SAMPLED(value, uniform(3, 6), permutations=8)
    assert (explanation.covariance is not None) == kept
    assert explanation.partition == ms.simplex.Partition.sequential(value.classes)
    assert torch.equal(
        explanation.standard_error,
        SAMPLED(game, uniform(3, 6), permutations=8).standard_error,
    )
    if explanation.covariance is not None:
        diagonal = explanation.covariance.diagonal(dim1=2, dim2=3)
        torch.testing.assert_close(explanation.standard_error.square(), diagonal)
    # All orders leave no errors, together or alone.
    assert EXACT(value, uniform(3, 6)).covariance is None


def test_target_error_stops_when_it_is_met() -> None:
    players = 7
    game, x = table(players), uniform(6, players)
    explanation = SAMPLED(game, x, target_error=0.02)
    spread = (game.table.amax(0) - game.table.amin(0)).max() * x[:, 0]
    worst = explanation.standard_error.amax((1, 2))
    assert (worst <= 0.02 * spread).all()
    assert explanation.made_by["target_error"] == 0.02
    # A tenth of all 7! orders is far more than it takes.
    assert 2 < explanation.made_by["permutations"] < 504
    loose = SAMPLED(game, x, target_error=0.2)
    assert loose.made_by["permutations"] < explanation.made_by["permutations"]


def test_target_error_of_few_players_ends_with_all_orders() -> None:
    game, x = table(5), uniform(3, 5)
    explanation = SAMPLED(game, x, target_error=1e-9)
    assert explanation.made_by["permutations"] == 120
    assert (explanation.standard_error == 0).all()
    torch.testing.assert_close(explanation.phi, ms.exact_shapley(game, x).phi)


@both
def test_the_error_of_draws_that_all_orders_share_is_not_known(
    estimator: Estimator, make_value: Callable[..., ms.ValueFunction]
) -> None:
    x = uniform(3, 4)
    noisy = estimator(make_value("marginal", draws=5), x)
    assert noisy.standard_error.isnan().all()
    # All 20 reference rows donate, and a surrogate draws nothing.
    for value in (make_value("marginal", draws=20), make_value("surrogate")):
        assert not value.spec.work.sampled
        assert (estimator(value, x).standard_error == 0).all()
    reference = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    sampled = ms.imputed_value(
        lambda x: x, ms.imputers.GaussianImputer(reference), "identity", draws=5
    )
    assert estimator(sampled, x).standard_error.isnan().all()


def test_target_error_counts_the_noise_of_draws(
    make_value: Callable[..., ms.ValueFunction],
) -> None:
    value, x = make_value("marginal", "identity", draws=3), uniform(3, 4)
    explanation = SAMPLED(value, x, target_error=0.05)
    error = explanation.standard_error
    # More than all 24 orders: each pair draws afresh, and tells what the draws leave open.
    assert explanation.made_by["permutations"] > 24
    assert (error > 0).any()
    exact = EXACT(make_value("marginal", "identity", draws=20), x).phi
    assert ((explanation.phi - exact).abs() < 5 * error + 1e-4).all()


def test_target_error_that_cannot_be_met_is_warned_of() -> None:
    game, x = table(7), uniform(3, 7)
    with pytest.warns(UserWarning, match=r"3 of 3 rows are above target_error=1e-06 after 16"):
        explanation = SAMPLED(game, x, target_error=1e-6, permutations=16)
    assert explanation.made_by["permutations"] == 16
