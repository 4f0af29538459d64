"""Confidence intervals: Student's t where few samples tell the standard error."""

import pytest
import torch
from scipy import stats

import manifold_shap as ms
from tests.estimators.test_regression import game


@pytest.mark.parametrize("permutations", [6, 8])
def test_few_pairs_are_covered_by_students_t(permutations: int) -> None:
    x = torch.zeros(1500, 6)
    exact = ms.exact_shapley(game(6, 3), x[:1]).phi
    found = ms.permutation_shapley(game(6, 3), x, permutations=permutations)
    low, high = found.interval()
    covered = ((low <= exact) & (exact <= high)).float().mean().item()
    normal = ((found.phi - exact).abs() <= 1.96 * found.standard_error).float().mean().item()
    # Means of few pairs are far from normal here, so that t covers less than 0.95, too.
    assert covered > 0.87
    assert normal < 0.82


def test_an_interval_is_so_many_errors_wide() -> None:
    found = ms.permutation_shapley(game(4), torch.zeros(2, 4), permutations=10)
    low, high = found.interval(0.9)
    width = 2 * stats.t.ppf(0.95, 4) * found.standard_error
    torch.testing.assert_close(high - low, width)
    assert found.degrees_of_freedom is not None
    assert found.degrees_of_freedom.tolist() == [4.0, 4.0]


def test_exact_values_have_no_width_and_unknown_errors_no_interval() -> None:
    low, high = ms.exact_shapley(game(4), torch.zeros(1, 4)).interval()
    assert torch.equal(low, high)
    single = ms.permutation_shapley(game(4), torch.zeros(1, 4), permutations=2)
    with pytest.raises(ValueError, match="all unknown"):
        single.interval()


def test_a_level_is_a_probability() -> None:
    with pytest.raises(ValueError, match="`level`"):
        ms.exact_shapley(game(4), torch.zeros(1, 4)).interval(95.0)
