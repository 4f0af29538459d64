"""Enumeration: what it costs, what it refuses, and what it cannot know."""

import pytest
import torch

import manifold_shap as ms


@pytest.mark.parametrize("ordering", [None, [["x1"], ["x0", "x2"]]])
def test_errors_of_draws(ordering: list[list[str]] | None) -> None:
    """What is claimed is what the same row shows many times, for outputs together as well."""
    reference = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    slopes = torch.randn(3, 3, generator=torch.Generator().manual_seed(1))
    model = ms.as_model(lambda x: x @ slopes, reference, returns="logits")
    value = ms.imputed_value(model, ms.imputers.GaussianImputer(reference), "ilr", draws=4)
    needed = ms.Ordering.of(ordering, value.players).allowed.coalitions - 2
    x = reference[:1].expand(1000, -1)
    found = ms.exact_shapley(value, x, evaluations=3 * needed, ordering=ordering)
    assert found.made_by["repeats"] == 3
    assert found.made_by["evaluations"] == 1000 * 3 * needed
    assert found.covariance is not None
    mean = found.phi.mean(0)
    apart = found.phi - mean
    shown = torch.einsum("rio,riq->ioq", apart, apart) / 999
    scale = shown.diagonal(dim1=1, dim2=2).sqrt()
    scale = scale[..., :, None] * scale[..., None, :]
    assert ((found.covariance.mean(0) - shown).abs() < 0.15 * scale).all()
    low, high = found.interval()
    within = ((low <= mean) & (mean <= high)).float().mean()
    assert 0.94 < within < 0.98
