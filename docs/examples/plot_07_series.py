"""
Segments of a time series
=========================

Which part of a wave gives its class away? Absent segments are drawn from other series, given the
rest.
"""

import torch

import manifold_shap as ms

generator = torch.Generator().manual_seed(0)
time = torch.linspace(0, 1, 32)
late = torch.randint(2, (300,), generator=generator)
bump = torch.exp(-((time - 0.3 - 0.4 * late[:, None]) ** 2) / 0.01)
x = (bump + 0.1 * torch.randn(300, 32, generator=generator))[:, None]


def model(x):
    score = 4 * (x[:, 0, 16:].sum(1) - x[:, 0, :16].sum(1)) / 5
    return torch.stack((-score, score), 1).softmax(1)


players = ms.Players.segments((1, 32), 4)
adapted = ms.as_model(model, x, classes=["early", "late"])
value = ms.imputed_value(adapted, ms.imputers.EmpiricalImputer(x, players, 0.3), draws=16)
explanation = ms.permutation_shapley(value, x[:3], permutations=32)
explanation.plot.series()
