"""Log-ratios of the mean: a game of its own, efficient and named for what it is."""

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.simplex.geometry import ilr

WEIGHT = torch.tensor([[1.0, -1.0, 0.5], [0.0, 2.0, -1.0], [-1.0, 0.0, 1.0]])


def softmax(x: Tensor) -> Tensor:
    return (x @ WEIGHT.T).softmax(-1)


def rows(count: int = 40) -> Tensor:
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(0))


def on_probabilities(draws: int = 40) -> ms.ImputedValue:
    return ms.imputed_value(
        softmax, ms.imputers.MarginalImputer(rows()), "probability", draws=draws
    )


def test_values_are_the_log_ratios_of_the_values() -> None:
    inner = on_probabilities()
    inner.update(quality={"mse": {}})
    value = ms.values.LogRatioOfMean(inner)
    assert "quality" not in value.provenance  # That is one of probabilities.
    x, mask = rows(5), torch.rand(5, 6, 3, generator=torch.Generator().manual_seed(1)) < 0.5
    torch.testing.assert_close(value(x, mask), ilr(inner(x, mask).log()))
    torch.testing.assert_close(value.base(x), ilr(softmax(rows()).mean(0).log()).expand(5, -1))
    torch.testing.assert_close(value.prediction(x), ilr(softmax(x).log()))


def test_means_and_groups_have_them_too() -> None:
    inner, x = on_probabilities(), rows(5)
    mask = torch.rand(5, 6, 2, generator=torch.Generator().manual_seed(1)) < 0.5
    grouped = ms.values.StackedValue([inner], [1.0]).grouped([0, 1, 1])
    other = ms.values.LogRatioOfMean(inner).grouped([0, 1, 1])
    torch.testing.assert_close(ms.values.LogRatioOfMean(grouped)(x, mask), other(x, mask))


def test_it_is_another_game_than_the_mean_of_log_ratios() -> None:
    of_mean = ms.exact_shapley(ms.values.LogRatioOfMean(on_probabilities()), rows(5))
    mean_of = ms.imputed_value(softmax, ms.imputers.MarginalImputer(rows()), "ilr", draws=40)
    assert (of_mean.phi - ms.exact_shapley(mean_of, rows(5)).phi).abs().max() > 0.1
    assert of_mean.efficiency_gap < 1e-5
    assert of_mean.partition == ms.simplex.Partition.sequential("012")
    assert of_mean.made_by["value_function"] == "log-ratio of marginal"
    assert of_mean.compositions().sum(-1).allclose(torch.ones(5, 3))


@pytest.mark.parametrize("output", ["ilr", "identity"])
def test_only_probabilities_have_log_ratios(output: str) -> None:
    value = ms.imputed_value(softmax, ms.imputers.MarginalImputer(rows()), output, draws=4)
    with pytest.raises(ValueError, match=f"space='probability' .* space='{output}'"):
        ms.values.LogRatioOfMean(value)


def test_where_nothing_is_drawn_its_error_is_known() -> None:
    value = ms.values.LogRatioOfMean(on_probabilities(draws=len(rows())))
    mask = ms.metrics.shapley_pairs(5, 3, least=20)
    assert value.spec.work.sampled is False
    assert ms.metrics.mean_squared_error(value, rows(5), mask).debiased > 0
