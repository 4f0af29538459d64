"""Benchmarks of speed run on sizes of a second, and what they compute of their measurements."""

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from benchmarks.speed import (
    along,
    budget,
    scaling,
)
from benchmarks.support.references import reference


@pytest.fixture(scope="module")
def value() -> ms.SurrogateValue:
    """A network of random weights whose first layer is large enough for players to interact."""
    made = scaling.random_value(players=8, classes=3)
    with torch.no_grad():
        made.surrogate.first.weight.mul_(4)
        made.surrogate.rest[-1].weight.mul_(20)
    return made


@pytest.fixture(scope="module")
def x() -> Tensor:
    return torch.randn(3, 8, generator=torch.Generator().manual_seed(0))


# A network of eight players is not worth linearizing.
@pytest.mark.parametrize("name", [name for name in budget.ESTIMATORS if name != "coalition"])
def test_every_estimator_keeps_to_a_budget_and_comes_near(
    name: str, value: ms.SurrogateValue, x: Tensor
) -> None:
    best, error = reference(value, x)
    found = budget.one_run(budget.ESTIMATORS[name], value, x, 1024, 0, best, error)
    assert 0 < found["evaluations"] <= 1024
    assert found["error"] < 0.3
    assert (found["error"] < 1e-4) == found["exact"]


def test_curves_fall_and_end_where_they_are_exact(value: ms.SurrogateValue, x: Tensor) -> None:
    few = {name: budget.ESTIMATORS[name] for name in ("permutation", "adaptive", "exact")}
    found = budget.measure(value, x, [64, 512, 4096], seeds=5, times=1, estimators=few)
    curves = found["curves"]
    assert [one["budget"] for one in curves["permutation"]] == [64, 512, 4096]
    errors = [one["relative_error"] for one in curves["permutation"]]
    assert errors[0] > 2 * errors[1] > 4 * errors[2] > 0
    assert 0.7 < curves["permutation"][-1]["error_by_expected"] < 1.3
    assert [one["budget"] for one in curves["exact"]] == [64]
    assert [one["budget"] for one in curves["adaptive"]][-1] == 4096
    assert found["time"].keys() == {"permutation", "adaptive"}
    assert found["time"]["permutation"] == 1


def test_exponents_are_slopes_over_the_sizes_that_are_fitted() -> None:
    points = [{"players": n, "cost": 3 * n**1.5} for n in (64, 256, 4096)]
    points.append({"players": 8, "cost": 1e9})
    found = scaling.exponent(points, "players", "cost")
    assert found == {"exponent": pytest.approx(1.5), "from": 64, "to": 4096}
    assert scaling.exponent(points[:1], "players", "cost") is None
    points = [
        {"players": n, "permutations": 2, "seconds": n * 2e-6, "seconds_per_evaluation": 1e-6}
        for n in (64, 512, 4096)
    ]
    growth = scaling.growth("players", points)
    assert growth["seconds per coalition"]["exponent"] == pytest.approx(0, abs=1e-9)
    assert growth["seconds per order"]["exponent"] == pytest.approx(1)


@pytest.mark.parametrize("kind", [*along.IMPUTERS, "bank"])
def test_both_ways_give_the_same_values(kind: str) -> None:
    generator = torch.Generator().manual_seed(0)
    reference = torch.randn(40, 9, generator=generator)
    imputer = along.bank(40, 9) if kind == "bank" else along.IMPUTERS[kind](reference)
    found = along.measure(imputer, imputer.reference[:2], 4, 2, 1)
    assert found["largest_difference"] < 1e-5
    assert found["ratio"] == found["plain"] / found["along"]
