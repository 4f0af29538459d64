"""Linearized contributions at sampled coalitions: against enumeration, with honest errors."""

import math
import re
from typing import Any

import pytest
import torch

import manifold_shap as ms
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.perceptron import Perceptron
from tests.examples import VALUES, uniform


class Cheap(ms.SurrogateValue):
    """However small the network, linearizing it pays."""

    def linearized(self, chosen: Any = None) -> Any:
        return super().linearized(chosen)._replace(cost=1.0)


def network(
    players: int = 6,
    space: str = "probability",
    hidden: tuple[int, ...] = (16, 16),
    scale: float = 3,
) -> ms.SurrogateValue:
    """A surrogate with random weights, those of the first layer scaled, of a linear model."""
    torch.manual_seed(0)
    outputs = ms.spaces.as_space(space).outputs(("a", "b", "c"))
    surrogate = Perceptron(
        GameShape((players,), range(players), len(outputs), ms.spaces.as_space(space).on_simplex),
        hidden,
    )
    with torch.no_grad():
        surrogate.first.weight.mul_(scale)
    model = ms.as_model(torch.nn.Linear(players, 3), torch.randn(8, players), returns="logits")
    base = torch.full((len(outputs),), 1 / 3 if space == "probability" else 0.1)
    names = ms.Players.of_elements((players,))
    return Cheap(surrogate, model, names, ms.spaces.as_space(space), base)


@pytest.mark.usefixtures("many_calls")
@pytest.mark.parametrize("space", ["probability", "ilr"])
def test_intervals_cover_and_the_mean_of_many_runs_is_exact(space: str) -> None:
    """300 runs on a row, of 20 numbers and more: beyond 4.5 standard errors once in 5,000 times."""
    value, x = network(10, space), uniform(1, 10).expand(300, -1)
    found = ms.coalition_shapley(value, x, coalitions=384, seed=5)
    exact = ms.exact_shapley(value, x[:1])
    error = found.phi.std(0) / math.sqrt(len(x))
    assert (((found.phi.mean(0) - exact.phi[0]) / error).abs() < 4.5).all()
    # What linearization misses has few degrees of freedom, which its errors allow for.
    ratio = found.standard_error.square().mean(0).sqrt() / found.phi.std(0)
    assert ((ratio > 0.9) & (ratio < 1.3)).all()
    within = (found.phi - exact.phi).abs() < 1.96 * found.standard_error
    assert 0.92 < within.double().mean() < 0.98
    assert found.efficiency_gap < 1e-4


def test_budgets_are_kept() -> None:
    value, x = network(), uniform(4, 6)
    assert ms.coalition_shapley(value, x).made_by["coalitions"] == 512
    spent = ms.coalition_shapley(value, x, evaluations=800).made_by["evaluations"]
    assert 4 * 400 < spent <= 4 * 800


@pytest.mark.parametrize(
    "name", ["callable", "imputed", "surrogate", "grouped", "surrogate of patches"]
)
def test_what_cannot_be_linearized_for_little_is_refused_with_the_fix(name: str) -> None:
    made = VALUES[name]()
    words = f"linearized.*{re.escape(repr(made.value.name))} of .* players; use `kernel_shapley`"
    with pytest.raises(ValueError, match=words):
        ms.coalition_shapley(made.value, made.x)
