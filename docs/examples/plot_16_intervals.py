"""
Intervals that hold the error of learning
=========================================

Two value functions, learned on different halves of the rows by different methods, differ where
they do not know; the whiskers show it.
"""

import torch
from torch import nn

import manifold_shap as ms

generator = torch.Generator().manual_seed(0)
x = torch.randn(1200, 5, generator=generator) @ torch.randn(5, 5, generator=generator)
torch.manual_seed(0)
network = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 2), nn.Softmax(-1))
model = ms.as_model(network, x[:8], classes=["left", "right"])
values = [
    ms.imputed_value(model, ms.GaussianImputer(x[:500]), draws=32),
    ms.fit_surrogate(model, x[500:1000], hidden=[64, 64], max_epochs=10, seed=0),
]
explanation = ms.averaged(
    [ms.auto_shapley(value, x[1000:1003], seed=k) for k, value in enumerate(values)]
)
explanation.plot.waterfall(0, output="right")
