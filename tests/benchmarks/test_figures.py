"""What experiments compute of their measurements, against closed forms and other packages."""

from typing import Any

import numpy as np
import pytest
import torch

import manifold_shap as ms
from benchmarks.papers import (
    categories,
    fewer_evaluations,
    one_outlier,
    splices,
)
from benchmarks.speed.interactions import of_all, of_few, ours
from benchmarks.truth import value_functions
from tests.test_metrics import Noisy


def test_categories_are_apart_by_the_share_of_variance_between_them_without_noise() -> None:
    generator = np.random.default_rng(0)
    sex = ["Female", "Male"] * 1000
    # Of variances 1 between and 0.25 within.
    own = np.where(np.array(sex) == "Male", 1.0, -1.0) + generator.normal(0, 0.5, 2000)
    phi = np.zeros((2000, len(categories.COLUMNS)))
    phi[:, categories.COLUMNS.index("sex")] = own + generator.normal(0, 1, 2000)
    found = {"phi": {"way": phi}, "standard_error": {"way": 0 * phi}, "people": {"sex": sex}}
    assert categories.separation(found, "way", "sex") < 0.5
    found["standard_error"]["way"] = np.ones_like(phi)
    assert categories.separation(found, "way", "sex") == pytest.approx(0.8, abs=0.1)


def test_the_jackknife_of_a_mean_has_its_standard_error() -> None:
    figures = np.array([1.0, 2.0, 4.0, 9.0])
    mean, error = categories.jackknife(lambda kept: float(figures[kept].mean()), 4)
    assert mean == 4
    assert error == pytest.approx(figures.std(ddof=1) / 2)


def test_contributions_telescope_and_noise_counts_twice() -> None:
    x, y = torch.rand(60, 5, generator=torch.Generator().manual_seed(0)), torch.zeros(60).long()
    noisy = Noisy(1, 0.5, players=5)
    exact = fewer_evaluations.contributions(Noisy(1, 0.0, players=5), x, y, 200)
    torch.testing.assert_close(exact.sum(2), x.sum(1)[:, None].expand(-1, 200))
    drawn = fewer_evaluations.contributions(noisy, x, y, 200)
    shared = fewer_evaluations.contributions(noisy, x, y, 200, shared=True)
    # Of five contributions along an order, eight ends are noisy, and two are known; shared noise
    # stays in the first and the last contribution alone.
    found = [fewer_evaluations.variance(c, overall=False) for c in (exact, drawn, shared)]
    assert found[0] == pytest.approx(0, abs=1e-6)
    assert found[1:] == pytest.approx([8 * 0.25, 2 * 0.25], rel=0.03)


def test_an_outlier_is_wrong_beyond_doubt_by_standard_errors() -> None:
    phi, error = torch.full((20,), 0.1), torch.full((20,), 0.3)
    phi[:5] = torch.tensor([5.0, 4.0, 1.0, 3.0, 2.0])
    phi[7], error[7] = 2.5, 0.4
    assert one_outlier.doubtless(phi, error) == pytest.approx(1.5 / 0.5)
    assert one_outlier.outranked(phi.tolist()) == 2


def test_coalitions_of_splices_are_nested_and_distances_those_of_the_nearest() -> None:
    mask = splices.coalitions(4, [3, 9], 16)
    assert mask.sum(-1).tolist() == [[3, 9]] * 4
    assert not (mask[:, 0] & ~mask[:, 1]).any()
    x = torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    torch.testing.assert_close(splices.apart(x, torch.eye(3)), torch.tensor([0.0, 2**0.5]))


@pytest.mark.parametrize("make", [of_few, of_all])
def test_interactions_in_closed_form_are_those_of_enumeration(make: Any) -> None:
    game = make(10, 3, seed=1)
    torch.testing.assert_close(ours(game, 2**10), game.interactions(), atol=1e-6, rtol=0)
    exact = ms.exact_shapley(game, torch.zeros(1, 10)).phi[0].double()
    torch.testing.assert_close(exact, game.shapley(), atol=1e-5, rtol=0)


def test_errors_of_ratios_are_paired() -> None:
    row = torch.rand(1000, generator=torch.Generator().manual_seed(0))
    found = value_functions.compared(
        {"marginal": 3 * row, "vae": row, "copula": row + 0.1 * row.flip(0)}
    )["over the best"]
    assert found["vae"] == [1.0, 0.0]
    assert found["marginal"] == [pytest.approx(3), pytest.approx(0, abs=1e-6)]
    assert found["copula"] == [pytest.approx(1.1), pytest.approx(0.002, rel=1)]
