"""The choice of an estimator, where values are drawn."""

import pytest
import torch

import manifold_shap as ms


@pytest.mark.parametrize("evaluations", [200, 300])
def test_few_players_with_draws_have_errors(evaluations: int) -> None:
    x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    value = ms.imputed_value(lambda x: x[:, :1] * x[:, 1:2], ms.GaussianImputer(x), "identity")
    explanation = ms.auto_shapley(value, x[:2], evaluations=evaluations)
    assert (explanation.standard_error > 0).all()
