"""Means of explanations and their learning error: laws, contracts and errors."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.learning_error import SCALE


def explained(phi: Tensor, error: float = 0.0) -> ms.Explanation:
    """Of additive games, whose values are their parts."""
    parts = phi.flatten(2) if phi.ndim > 2 else phi[..., None]
    found = ms.exact_shapley(
        lambda x, mask: (x[:, None] * mask).sum(-1, keepdim=True), parts[..., 0]
    )
    return replace(found, standard_error=torch.full_like(found.phi, error))


def noisy(rows: int, sizes: Tensor, seed: int, error: float = 0.0) -> ms.Explanation:
    generator = torch.Generator().manual_seed(seed)
    return explained(sizes * torch.randn(rows, len(sizes), generator=generator), error)


def test_the_mean_is_the_mean_and_stays_efficient() -> None:
    one, two = noisy(50, torch.ones(4), 0), noisy(50, torch.ones(4), 1)
    whole = ms.averaged([one, two])
    torch.testing.assert_close(whole.phi, (one.phi + two.phi) / 2)
    assert whole.efficiency_gap < 1e-6
    assert whole.made_by["averaged"] == 2
    assert ms.averaged([one, one]).model_error.abs().max() == 0


@pytest.mark.parametrize("count", [2, 4])
def test_model_errors_are_those_of_the_mean(count: int) -> None:
    """Half of the variance is the player's own, half the mean of the row's."""
    sizes = torch.tensor([1.0, 2.0, 4.0])
    whole = ms.averaged([noisy(20_000, sizes, seed) for seed in range(count)])
    assert whole.model_error is not None
    found = (whole.model_error / SCALE).square().mean(0)[:, 0]
    pooled = (sizes**2 + (sizes**2).mean()) / 2 / count
    torch.testing.assert_close(found, pooled, rtol=0.05, atol=0)


def test_sampling_is_no_error_of_learning() -> None:
    """What sampling alone would scatter is taken off."""
    generator = torch.Generator().manual_seed(0)
    exact = torch.randn(20_000, 3, generator=generator)
    both = [
        explained(exact + 0.1 * torch.randn(exact.shape, generator=generator), 0.1)
        for _ in range(2)
    ]
    whole = ms.averaged(both)
    assert whole.model_error is not None
    # Values below zero are cut off: a third of the variance of sampling is left.
    assert whole.model_error.square().mean().sqrt() < 0.75 * SCALE * 0.1 / 2**0.5
    torch.testing.assert_close(whole.standard_error, torch.full_like(whole.phi, 0.1 / 2**0.5))


def test_intervals_hold_both_errors(tmp_path: Path) -> None:
    one, two = noisy(5, torch.ones(4), 0, 0.5), noisy(5, torch.ones(4), 1, 0.5)
    whole = ms.averaged([one, two])
    widths = [high - low for low, high in (whole.interval(0.5), whole.interval(0.95))]
    assert (widths[0] < widths[1]).all()
    low, high = replace(whole, model_error=None).interval(0.95)
    assert (high - low <= widths[1]).all()
    assert (high - low < widths[1]).any()
    whole.save(tmp_path / "whole.zarr")
    again = ms.Explanation.load(tmp_path / "whole.zarr")
    assert again.model_error is not None
    assert whole.model_error is not None
    assert torch.equal(again.model_error, whole.model_error)
    assert torch.equal(again[2].interval()[0], whole[2].interval()[0])


def test_errors() -> None:
    one = noisy(5, torch.ones(4), 0)
    for others, said in (
        ([], "two or more explanations but got 1"),
        ([one[:3]], "the same instances"),
        ([noisy(5, torch.ones(3), 0)], "the same players"),
        ([replace(one, outputs=("b",))], "the same outputs"),
    ):
        with pytest.raises(ValueError, match=said):
            ms.averaged([one, *others])
    unknown = replace(one, standard_error=one.phi * torch.nan)
    with pytest.raises(ValueError, match="with standard errors but those of this one are all"):
        unknown.interval()
    for level in (0.0, 1.0, -1.0, 95.0, float("nan")):
        with pytest.raises(ValueError, match="level"):
            one.interval(level)
