"""Confidence intervals: Student's t where few samples tell the standard error."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from scipy import stats

import manifold_shap as ms
from manifold_shap.coalitions import all_coalitions
from tests.estimators.test_coalition import network
from tests.examples import Drawn, table, uniform


@pytest.mark.usefixtures("many_calls")
@pytest.mark.parametrize(
    ("estimator", "players", "evaluations"),
    [
        *((ms.permutation_shapley, 6, 5 * permutations) for permutations in (4, 8)),
        *((ms.kernel_shapley, 8, evaluations) for evaluations in (30, 100)),
        (partial(ms.kernel_shapley, law="kernel"), 8, 64),
        (ms.odd_shapley, 8, 60),
        (ms.odd_shapley, 5, 24),
    ],
)
def test_intervals_of_few_evaluations_cover(
    estimator: Callable[..., ms.Explanation], players: int, evaluations: int
) -> None:
    # Rows have samples of their own, so that many rows of one game are many estimates of it.
    x, covered = torch.ones(150, players), []
    for seed in range(4):
        exact = ms.exact_shapley(table(players, 1, seed), x[:1]).phi
        found = estimator(table(players, 1, seed), x, evaluations=evaluations, seed=seed)
        known = ~found.standard_error.isnan()
        low, high = found.interval()
        covered.append(((low <= exact) & (exact <= high))[known])
    assert torch.cat(covered).float().mean() > 0.92


@pytest.mark.parametrize(
    ("estimator", "evaluations"),
    [
        (ms.kernel_shapley, 30),
        (partial(ms.kernel_shapley, start=torch.zeros(200, 7, 1)), 30),
        (ms.odd_shapley, 50),
        (ms.permutation_shapley, 24),
        (ms.auto_shapley, 50),
        (ms.auto_shapley, 30),
        (ms.shapley_interactions, 98),
    ],
)
def test_errors_of_rows_are_errors_of_their_own(
    estimator: Callable[..., Any], evaluations: int
) -> None:
    """Or the scatter between rows would not show the error of their mean."""
    x = torch.ones(200, 7)
    exact = ms.shapley_interactions(table(7, 1), x[:1])
    found = estimator(table(7, 1), x, evaluations=evaluations)
    pairs = (
        [(found.phi, exact.shapley.phi)]
        if isinstance(found, ms.Explanation)
        else [(found.values, exact.values), (found.shapley.phi, exact.shapley.phi)]
    )
    for values, true in pairs:
        error = (values - true).square().mean(0).sqrt()
        assert (values.std(0).mean() > 0.8 * error.mean()).all()


@pytest.mark.parametrize(
    "estimator",
    [
        partial(ms.permutation_shapley, permutations=22),
        ms.adaptive_shapley,
        partial(ms.kernel_shapley, evaluations=56),
    ],
)
def test_errors_are_of_the_draws_too(estimator: Callable[..., ms.Explanation]) -> None:
    """Rows and pairs have draws of their own."""
    sampled = estimator(Drawn(6), torch.ones(1_000, 6))
    deviation = sampled.phi - torch.arange(6)[:, None]
    assert (deviation.mean(0).abs() < 5 * deviation.std(0) / 1_000**0.5).all()
    actual, claimed = deviation.square().mean(0), sampled.standard_error.square().mean(0)
    # With 28 pairs for 5 unknowns, the jackknife claims up to (28/23)² of what is.
    assert ((claimed > 0.8 * actual) & (claimed < 1.6 * actual)).all()


def test_an_interval_is_so_many_errors_wide() -> None:
    found = ms.permutation_shapley(table(4, 1), torch.ones(2, 4), permutations=10)
    low, high = found.interval(0.9)
    torch.testing.assert_close(high - low, 2 * stats.t.ppf(0.95, 4) * found.standard_error)
    low, high = ms.exact_shapley(table(4, 1), torch.ones(1, 4)).interval()
    assert torch.equal(low, high)
    single = ms.permutation_shapley(table(4, 1), torch.ones(1, 4), permutations=2)
    with pytest.raises(ValueError, match="all unknown"):
        single.interval()
    with pytest.raises(ValueError, match="`level`"):
        single.interval(95.0)


@pytest.mark.parametrize(
    ("estimator", "players", "evaluations"),
    [
        (ms.permutation_shapley, 9, 16),
        (ms.kernel_shapley, 9, 18),
        (ms.odd_shapley, 9, 18),
        (ms.exact_shapley, 4, 14),
        (ms.permutation_shapley, 4, 72),
    ],
)
def test_errors_that_nothing_tells_are_unknown(
    estimator: Callable[..., Any], players: int, evaluations: int
) -> None:
    found = estimator(Drawn(players), torch.ones(2, players), evaluations=evaluations)
    assert bool(found.standard_error.isnan().any())


@pytest.mark.parametrize(
    ("estimator", "unit"),
    [
        (ms.permutation_shapley, "permutations"),
        (ms.adaptive_shapley, "samples"),
        (ms.coalition_shapley, "coalitions"),
    ],
)
def test_a_target_error_stops_a_row_when_it_is_met(
    estimator: Callable[..., ms.Explanation], unit: str
) -> None:
    value, x = network(7), uniform(4, 7)
    every = value(x, all_coalitions(7).expand(4, -1, -1))
    spread = (every.amax(1) - every.amin(1)).amax(1)
    found, loose = (estimator(value, x, target_error=share) for share in (0.01, 0.1))
    assert (found.standard_error.amax((1, 2)) <= 0.01 * spread).all()
    assert found.made_by["target_error"] == 0.01
    assert loose.made_by[unit] < found.made_by[unit] < 5040
    with pytest.warns(UserWarning, match="4 of 4 rows are above target_error=1e-06 after 448"):
        assert estimator(value, x, target_error=1e-6, **{unit: 448}).made_by[unit] == 448
