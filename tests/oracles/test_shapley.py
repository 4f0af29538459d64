"""True Shapley values have the error they say, and distances to them are without it."""

import math
from dataclasses import replace

import pytest
import torch

import manifold_shap as ms
from manifold_shap.oracles import (
    distance_to_true_shapley,
    true_shapley,
    true_value,
)
from tests.examples import Linear, mixture
from tests.laws import garden, weather


def rms(x: torch.Tensor) -> float:
    return x.double().square().mean().sqrt().item()


@pytest.mark.parametrize("error", [0.02, 0.005])
def test_errors_are_as_small_as_asked_for_and_as_they_say(error: float) -> None:
    """Of values that are drawn, on a law small enough to know them exactly, too."""
    law = weather()
    exact = true_value(Linear(4, 3), law)
    x = law.sample(30, seed=1).x
    right = ms.exact_shapley(exact, x).phi
    gaps, promised = [], []
    for seed in range(4):
        truth = true_value(Linear(4, 3), law, draws=8, most=1, rows=1000, seed=seed)
        found = true_shapley(truth, x, error, seed=10 * seed)
        assert rms(found.standard_error) <= error
        gaps.append(found.phi - right)
        promised.append(found.standard_error)
    assert rms(torch.stack(gaps)) == pytest.approx(rms(torch.stack(promised)), rel=0.35)


def test_distances_are_without_the_errors_of_both() -> None:
    generator = torch.Generator().manual_seed(0)
    law = mixture()
    truth = true_value(Linear(4, 3), law, draws=16)
    right = true_shapley(truth, law.sample(500).x, error=0.1)
    miss, sampling, own = torch.randn(3, *right.phi.shape, generator=generator)

    def moved(by: torch.Tensor, error: float) -> ms.Explanation:
        errors = torch.full_like(right.phi, error)
        return replace(right, phi=right.phi + by, standard_error=errors, covariance=None)

    known, found = moved(0.01 * own, 0.01), moved(0.1 * miss + 0.05 * sampling, 0.05)
    distance = distance_to_true_shapley(found, known)
    assert distance.error == pytest.approx((0.1**2 + 0.05**2) ** 0.5, rel=0.05)
    assert abs(distance.error - 0.0125**0.5) < 4 * distance.standard_error
    assert distance.value_error == pytest.approx(0.1, rel=0.05)
    assert distance.truth_error == pytest.approx(0.01)
    assert distance.resolved
    assert not distance_to_true_shapley(right, known).resolved
    second = distance_to_true_shapley(found, known, output=1)
    only = (found.phi - known.phi)[..., 1].square().mean().item() - 0.01**2
    assert second.error == pytest.approx(only**0.5, rel=1e-4)
    unknown = replace(found, standard_error=torch.full_like(found.phi, torch.nan))
    assert math.isnan(distance_to_true_shapley(unknown, known).value_error)


def test_truths_that_are_sums_have_no_error_and_others_that_of_their_base() -> None:
    law = garden()
    x = law.sample(3).x
    truth = true_value(Linear(5, 3), law)
    found = true_shapley(truth, law.frame(x), error=1e-9)
    assert (found.standard_error == 0).all()
    assert torch.equal(found.phi, ms.exact_shapley(truth, x).phi)
    drawn = true_value(Linear(5, 3), law, draws=4000, most=1, rows=50)
    with pytest.raises(ValueError, match=r"well above that of v\(∅\).* more `rows`"):
        true_shapley(drawn, x, error=0.02 * rms(drawn.base_error))
    drawn = true_value(Linear(5, 3), law, draws=2, most=1, rows=1000)
    with pytest.raises(ValueError, match=r"40 evaluations per row left .* more `evaluations`"):
        true_shapley(drawn, x, error=0.005, evaluations=40)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x": torch.zeros(2, 4)}, "the truth's rows but the `x` of the two differ"),
        ({"outputs": ("c", "a", "b")}, "the truth's players and outputs"),
        ({"players": ms.Players("abcd", range(4))}, "the truth's players and outputs"),
    ],
)
def test_distances_are_of_the_same_rows_outputs_and_players(changes: dict, words: str) -> None:
    right = true_shapley(true_value(Linear(4, 3), weather()), weather().sample(2).x, error=0.1)
    with pytest.raises(ValueError, match=words):
        distance_to_true_shapley(replace(right, **changes), right)
    unknown = replace(right, standard_error=torch.full_like(right.phi, torch.nan))
    with pytest.raises(ValueError, match=r"`truth.standard_error` are NaN"):
        distance_to_true_shapley(right, unknown)
