"""
On and off the manifold, beside the truth
=========================================

Two columns are nearly the same, and the model uses the first alone. On the manifold the second
gets a share, since it tells what the first is; off the manifold it gets none. The law of this
data is known, and so are the true values.
"""

import torch

import manifold_shap as ms

covariance = torch.tensor([[1.0, 0.95, 0.0], [0.95, 1.0, 0.0], [0.0, 0.0, 1.0]])
law = ms.oracles.GaussianMixture([1.0], torch.zeros(1, 3), covariance[None])
x = law.sample(400, seed=0).x
model = ms.as_model(lambda x: x[:, :1] + 0.5 * x[:, 2:], x, returns="values")

true = ms.oracles.true_value(model, law, space="identity")
on = ms.imputed_value(model, ms.imputers.GaussianImputer(x), "identity", draws=64)
off = ms.imputed_value(
    model, ms.imputers.MarginalImputer(x), "identity", draws=len(x)
)  # all rows: exact
explanations = {
    name: ms.exact_shapley(value, x[:30])
    for name, value in (("true", true), ("on the manifold", on), ("off the manifold", off))
}
ms.plots.bar(explanations)
