"""Blurring of absent elements, against scipy, and values whose base differs by row."""

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from torch import Tensor

import manifold_shap as ms


def rows(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("event", [(3, 9, 7), (2, 12), (1, 1, 4)])
@pytest.mark.parametrize("sigma", [0.6, 4.0])
def test_the_blurred_copy_is_that_of_scipy(event: tuple[int, ...], sigma: float) -> None:
    x = rows(2, *event)
    found = ms.imputers.BlurImputer(x, sigma=sigma).blurred(x)
    radius = int(np.ceil(3 * sigma))
    axes = tuple(range(2, x.ndim))
    expected = gaussian_filter(x.numpy(), sigma, mode="nearest", radius=radius, axes=axes)
    torch.testing.assert_close(found, torch.from_numpy(expected), rtol=1e-4, atol=1e-5)


def test_values_start_from_the_blurred_row() -> None:
    x = rows(5, 1, 4, 4)
    imputer = ms.imputers.BlurImputer(x, ms.Players.patches((1, 4, 4), 2), sigma=1.0)
    value = ms.imputed_value(lambda x: x.flatten(1)[:, :3] ** 2, imputer, "identity", draws=4)
    assert value.spec.work.draws == 1
    torch.testing.assert_close(value.base(x), imputer.blurred(x).flatten(1)[:, :3] ** 2)
    explanation = ms.exact_shapley(value, x)
    assert explanation.efficiency_gap < 1e-5
    assert explanation.made_by["sigma"] == 1.0
