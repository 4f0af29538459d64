"""
Causes before effects
=====================

Rain wets the grass, and the model adds both. Symmetric values credit each with what it tells of the
other. In causal order the rain gets all that it brings about, and the grass what it tells beyond
its cause. By intervention the grass counts in the model, but tells nothing of the rain.
"""

import torch

import manifold_shap as ms

generator = torch.Generator().manual_seed(0)
rain = torch.randn(2000, generator=generator)
grass = rain + 0.5 * torch.randn(2000, generator=generator)
x = torch.stack((rain, grass), 1)
players = ms.Players.of_elements((2,), ["rain", "wet grass"])
model = ms.as_model(lambda x: x.sum(1, keepdim=True), x, returns="values")
gaussian = ms.imputers.GaussianImputer(x, players)
order = [["rain"], ["wet grass"]]

value = ms.imputed_value(model, gaussian, "identity", draws=64)
causal = ms.imputed_value(model, ms.imputers.CausalImputer(gaussian, order), "identity", draws=64)
explanations = {
    "symmetric": ms.exact_shapley(value, x[:40]),
    "asymmetric": ms.exact_shapley(value, x[:40], ordering=order),
    "causal": ms.exact_shapley(causal, x[:40]),
}
ms.plots.bar(explanations)
