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


@both
def test_linear_model_has_a_closed_form(estimator: Estimator) -> None:
    generator = torch.Generator().manual_seed(2)
    reference, weight = (torch.randn(n, 4, generator=generator) for n in (30, 3))
    imputer = ms.imputers.MarginalImputer(reference)
    value = ms.imputed_value(lambda x: x @ weight.T + 1, imputer, "identity", draws=30)
    x = torch.randn(5, 4, generator=generator)
    expected = (x - reference.mean(0))[..., None] * weight.T
    explanation = estimator(value, x)
    torch.testing.assert_close(explanation.phi, expected, rtol=1e-4, atol=1e-5)
    assert explanation.standard_error.max() < 1e-5


def test_sampling_is_unbiased_and_its_errors_are_honest() -> None:
    # The same row 2,000 times has 2,000 independent sets of orders. Each of the 12 means fails a
    # correct estimator with probability 6e-7; the shares have a standard error below 0.005.
    players, count = 6, 2_000
    game, x = table(players), uniform(1, players)
    exact = EXACT(game, x).phi
    sampled = SAMPLED(game, x.expand(count, -1), permutations=64)
    deviation = sampled.phi - exact
    assert (deviation.mean(0).abs() < 5 * deviation.std(0) / count**0.5).all()
    # 97.5 % point of Student's t with 31 degrees of freedom.
    within = (deviation.abs() < 2.04 * sampled.standard_error).float().mean(0)
    assert ((within > 0.925) & (within < 0.975)).all()


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


@pytest.mark.parametrize(("classes", "kept"), [(3, True), (65, True), (66, False)])
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


def test_every_row_and_pair_has_draws_of_its_own(
    make_value: Callable[..., ms.ValueFunction],
) -> None:
    value, x = make_value("marginal", draws=3), uniform(1, 4).expand(400, -1)
    enough = make_value("marginal", draws=20)
    exact = EXACT(enough, x[:1]).phi
    several = EXACT(value, x).phi
    assert len(several.unique(dim=0)) > 10
    # Draws that all pairs shared would leave the error of one set of draws, however many pairs.
    sampled = SAMPLED(value, x, permutations=22)
    deviation = sampled.phi - exact
    assert (deviation.mean(0).abs() < 5 * deviation.std(0) / 20).all()
    claimed = sampled.standard_error.square().mean(0)
    torch.testing.assert_close(claimed, deviation.square().mean(0), rtol=0.4, atol=0)


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


def test_all_orders_of_draws_have_another_mean_by_another_seed() -> None:
    imputer = ms.imputers.MarginalImputer(torch.randn(50, 3, generator=torch.Generator()))
    value = ms.imputed_value(lambda x: x.prod(1, keepdim=True), imputer, "identity", draws=2)
    found = [ms.permutation_shapley(value, torch.ones(1, 3), seed=seed).phi for seed in (0, 0, 1)]
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
