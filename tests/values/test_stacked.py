"""A weighted mean of value functions: of games, of Shapley values, of draws."""

from typing import Any

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from tests.examples import known, normal


def game(power: int, outputs: int = 1) -> ms.ValueFunction:
    """The share of players in the whole to a power: of all of them 1, as of the same model."""

    def value(x: Tensor, mask: Tensor) -> Tensor:
        size = x.abs()[:, None]
        share = (size * mask).sum(-1, keepdim=True) / size.sum(-1, keepdim=True)
        return share.pow(power).expand(-1, -1, outputs)

    return ms.as_value_function(value, normal(2, 4))


def test_shapley_values_are_weighted_means() -> None:
    x = normal(3, 4)
    parts = [ms.exact_shapley(game(power), x) for power in (2, 3)]
    whole = ms.exact_shapley(ms.values.StackedValue([game(2), game(3)], [0.25, 0.75]), x)
    assert torch.allclose(whole.phi, 0.25 * parts[0].phi + 0.75 * parts[1].phi, atol=1e-5)
    assert torch.allclose(whole.base, 0.25 * parts[0].base + 0.75 * parts[1].base, atol=1e-5)


def test_the_variance_of_draws_is_that_of_a_mean_of_independent_ones() -> None:
    x, mask = normal(1, 4), torch.tensor([[[True, False, True, False]]])
    imputer = ms.imputers.GaussianImputer(normal(50, 4) @ normal(4, 4, 1))
    part = ms.imputed_value(lambda x: x.sum(1, True), imputer, "identity", draws=16)
    value = ms.values.StackedValue([part, part], [0.5, 0.5])
    keys = torch.arange(400)[None]
    values, variance, effective = known(value, value.estimate(x, mask.expand(-1, 400, -1), keys))
    assert values.var().item() == pytest.approx(variance.mean().item(), rel=0.25)
    assert effective.unique().tolist() == [32.0]


@pytest.mark.parametrize(
    ("values", "weights", "words"),
    [
        ([game(2), game(2, 2)], [0.5, 0.5], "same players, outputs"),
        ([game(2), game(2).grouped([1, 0, 2, 3])], [0.5, 0.5], "same players"),
        ([game(2), game(3)], [1.0], "2 positive"),
        ([game(2), game(3)], [1.5, -0.5], "positive"),
    ],
)
def test_bad_input(values: Any, weights: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ms.values.StackedValue(values, weights)


def test_the_variance_of_a_part_that_says_none_is_unknown() -> None:
    x = normal(4, 3)

    def noisy(x: Tensor, mask: Tensor) -> Tensor:
        total = (x[:, None] * mask).sum(-1, keepdim=True)
        return total + torch.randn_like(total) * ~mask.all(-1, keepdim=True)

    part = ms.as_value_function(noisy, x)
    value = ms.values.StackedValue([part, part], [0.5, 0.5])
    assert (
        value.estimate(x, torch.tensor([[[True, False, True]]]).expand(4, 1, 3))
        .variance.isnan()
        .all()
    )


def test_work_of_two_adds_up_in_either_order() -> None:
    one = ms.values.Work(8, sampled=True, batch_size=50)
    other = ms.values.Work(batch_size=100, cost="network")
    whole = ms.values.Work(9, sampled=True, batch_size=50, cost="model")
    assert one + other == other + one == whole
