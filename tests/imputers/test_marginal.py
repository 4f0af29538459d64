"""Imputers off the manifold: background rows in turn, a baseline, or contrast rows."""

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import Listed, all_coalitions
from tests.examples import known


@pytest.mark.parametrize(("count", "draws"), [(20, 5), (97, 60), (100, 16), (100, 64)])
def test_draws_are_a_sample_without_replacement_of_each_coalition(count: int, draws: int) -> None:
    x, keys = rows(count), 3000
    value = ms.imputed_value(model, ms.imputers.MarginalImputer(x), "identity", draws)
    mask = torch.eye(3, dtype=torch.bool).repeat(keys, 1).expand(4, -1, -1)
    own = torch.arange(keys).repeat_interleave(3).expand(4, -1)
    found = known(value, value.estimate(x[:4], mask, own))[:2]
    values, variance = (each.unflatten(1, (keys, 3)).double() for each in found)
    # Of one row and coalition, not of many that make up for each other.
    ratio = values.var(1) / variance.mean(1)
    assert ratio.min() > 0.8
    assert ratio.max() < 1.25


def rows(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(seed))


def model(x: Tensor) -> Tensor:
    return torch.stack((x[:, 0] * x[:, 1], x.exp().sum(1)), dim=1)


def test_baseline_values_are_the_model_on_spliced_rows() -> None:
    point, x = rows(1, seed=1)[0], rows(4)
    masks = all_coalitions(3)
    value = ms.imputed_value(model, ms.imputers.BaselineImputer(point), "identity", draws=5)
    found = value.estimate(x, masks.expand(4, -1, -1))
    for k, mask in enumerate(masks):
        torch.testing.assert_close(found.values[:, k], model(torch.where(mask, x, point)))
    assert value.name == "baseline"
    assert found.noise().abs().max() < 1e-10


def test_contrastive_values_are_the_means_over_the_rows_to_compare_with() -> None:
    contrast, x = rows(5, seed=1), rows(4)
    value = ms.imputed_value(model, ms.imputers.ContrastiveImputer(contrast), "identity", draws=5)
    assert value.name == "contrastive"
    torch.testing.assert_close(value.expectation, model(contrast).mean(0))
    masks = all_coalitions(3)
    values = value(x, masks.expand(4, -1, -1))
    for b in range(4):
        for k, mask in enumerate(masks):
            expected = model(torch.where(mask, x[b], contrast)).mean(0)
            torch.testing.assert_close(values[b, k], expected)


def test_another_contrast_gives_another_explanation() -> None:
    x = rows(200)
    low, high = x[x[:, 0] < -1], x[x[:, 0] > 1]
    phi = [
        ms.exact_shapley(
            ms.imputed_value(
                model, ms.imputers.ContrastiveImputer(some), "identity", draws=len(some)
            ),
            x[:2],
        ).phi[:, 0, 1]
        for some in (low, high)
    ]
    # Against rows with a small x0 the same x0 adds more to the sum of exponentials.
    assert (phi[0] > phi[1]).all()


def test_padded_rows_are_completed_from_rows_that_are_long_enough() -> None:
    lengths, players = [3, 1, 4, 2, 3], ms.Players.segments((2, 4), 1, padding=-9.0)
    background = torch.arange(5.0)[:, None, None].repeat(1, 2, 4)
    for row, length in zip(background, lengths, strict=True):
        row[:, length:] = -9
    x = torch.full((3, 2, 4), 7.0)
    x[0, :, 3:], x[1, :, 1:] = -9, -9
    imputer = ms.imputers.MarginalImputer(background, players)
    draws = 3000
    masks = all_coalitions(4).expand(3, -1, -1)
    keys = torch.zeros(masks.shape[:2], dtype=torch.int64)
    completed = imputer.impute(x, Listed(masks, keys), range(draws)).rows
    nobody = completed[:, 0, :, 0]
    # What comes behind the end of a row stays, and no draw has padding before it.
    assert torch.equal(nobody == -9, (x[:, 0] == -9)[:, None].expand_as(nobody))
    for row, donors in enumerate(([0, 2, 4], [0, 1, 2, 3, 4], [2])):
        drawn, counts = nobody[row, :, 0].unique(return_counts=True)
        assert drawn.tolist() == donors
        expected = draws / len(donors)
        # Of five standard deviations.
        assert (counts - expected).abs().max() <= 5 * expected**0.5
    some = all_coalitions(4)[:, 0]
    assert (completed[:, some][..., 0] == 7).all()
