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


def test_target_error_of_few_players_ends_with_all_orders() -> None:
    game, x = table(5), uniform(3, 5)
    explanation = SAMPLED(game, x, target_error=1e-9)
    assert explanation.made_by["permutations"] == 120
    assert (explanation.standard_error == 0).all()
    torch.testing.assert_close(explanation.phi, ms.exact_shapley(game, x).phi)


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
