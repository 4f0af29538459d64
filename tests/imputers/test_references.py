"""Baseline and contrastive references: what they are compared with, and their errors."""

import numpy as np
import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import all_coalitions
from manifold_shap.imputers.marginal import BaselineImputer, ContrastiveImputer


def rows(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(seed))


def model(x: Tensor) -> Tensor:
    return torch.stack((x[:, 0] * x[:, 1], x.exp().sum(1)), dim=1)


def test_baseline_values_are_the_model_on_spliced_rows() -> None:
    point, x = rows(1, seed=1)[0], rows(4)
    masks = all_coalitions(3)
    for draws in (1, 5):
        value = ms.imputed_value(model, BaselineImputer(point), "identity", draws=draws)
        values = value(x, masks.expand(4, -1, -1))
        for k, mask in enumerate(masks):
            torch.testing.assert_close(values[:, k], model(torch.where(mask, x, point)))
    assert value.name == "baseline"
    assert value.estimate(x, masks.expand(4, -1, -1)).variance.abs().max() < 1e-10


def test_a_linear_model_is_explained_by_the_difference_from_the_baseline() -> None:
    weight, point, x = rows(1, seed=2)[0], rows(1, seed=1)[0], rows(4)
    value = ms.imputed_value(
        lambda x: (x @ weight)[:, None], BaselineImputer(point), "identity", draws=1
    )
    phi = ms.exact_shapley(value, x).phi[..., 0]
    torch.testing.assert_close(phi, weight * (x - point))


def test_contrastive_values_are_the_means_over_the_rows_to_compare_with() -> None:
    contrast, x = rows(5, seed=1), rows(4)
    value = ms.imputed_value(model, ContrastiveImputer(contrast), "identity", draws=5)
    assert value.name == "contrastive"
    torch.testing.assert_close(value.expectation, model(contrast).mean(0))
    masks = all_coalitions(3)
    values = value(x, masks.expand(4, -1, -1))
    for b in range(4):
        for k, mask in enumerate(masks):
            expected = model(torch.where(mask, x[b], contrast)).mean(0)
            torch.testing.assert_close(values[b, k], expected)
    total = ms.exact_shapley(value, x).phi.sum(1)
    torch.testing.assert_close(total, model(x) - model(contrast).mean(0), rtol=1e-4, atol=1e-4)


def test_a_single_row_is_a_baseline() -> None:
    row, x = rows(1, seed=1), rows(4)
    single = ms.imputed_value(model, ContrastiveImputer(row), "identity", draws=1)
    baseline = ms.imputed_value(model, BaselineImputer(row[0]), "identity", draws=1)
    masks = all_coalitions(3).expand(4, -1, -1)
    assert torch.equal(single(x, masks), baseline(x, masks))


def test_another_contrast_gives_another_explanation() -> None:
    x = rows(200)
    low, high = x[x[:, 0] < -1], x[x[:, 0] > 1]
    phi = [
        ms.exact_shapley(
            ms.imputed_value(model, ContrastiveImputer(some), "identity", draws=len(some)), x[:2]
        ).phi[:, 0, 1]
        for some in (low, high)
    ]
    # Against rows with a small x0 the same x0 adds more to the sum of exponentials.
    assert (phi[0] > phi[1]).all()


def test_images_with_superpixels_and_arrays() -> None:
    players = ms.Players(("left", "right"), torch.tensor([[[0, 1], [0, 1]]]))
    x = np.zeros((1, 1, 2, 2), dtype=np.float32)
    blank = BaselineImputer(np.ones((1, 2, 2)), players)
    some = ContrastiveImputer(np.ones((2, 1, 2, 2)), players)
    mask = torch.tensor([[[True, False]]])
    for imputer in (blank, some):
        keys = torch.zeros(1, 1, dtype=torch.int64)
        completed = imputer.impute(torch.from_numpy(x), mask, range(2), keys).rows
        assert completed.tolist() == [[[[[[0, 1], [0, 1]]], [[[0, 1], [0, 1]]]]]]


def test_errors() -> None:
    players = ms.Players.of_elements((3,))
    with pytest.raises(
        ValueError, match=r"Expected `point` of shape \(3\), one row .* got \(1, 3\)"
    ):
        BaselineImputer(rows(1), players)
    with pytest.raises(ValueError, match=r"Expected `point` of shape \(\*event\).* got \(\)"):
        BaselineImputer(torch.tensor(1.0))
    with pytest.raises(ValueError, match="entries of `point` are NaN or infinite"):
        BaselineImputer(torch.tensor([0, torch.nan, 1]))
    with pytest.raises(TypeError, match="Expected `point` to be a tensor or an array"):
        BaselineImputer([0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="Expected at least one row in `rows` but got none"):
        ContrastiveImputer(rows(0))
    with pytest.raises(ValueError, match=r"`rows` of shape \(rows, 3\) but got \(3,\)"):
        ContrastiveImputer(rows(1)[0], players)
    with pytest.raises(TypeError, match="Expected `rows` to be a tensor or an array"):
        ContrastiveImputer([[0.0]])
