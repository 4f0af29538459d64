"""
Handwritten digits, pixel by pixel
==================================

A surrogate learns v(S) for every set of pixels; red pixels raise the probability of the predicted
digit.
"""

import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import manifold_shap as ms

digits = load_digits()
x = torch.from_numpy(digits.images).float().div(16)[:, None]
classifier = LogisticRegression(max_iter=300).fit(x.flatten(1)[:1500], digits.target[:1500])
model = ms.as_model(lambda x: classifier.predict_proba(x.flatten(1).numpy()), x)

surrogate = ms.fit_surrogate(
    model, x[:1500], hidden=[128, 128], max_epochs=8, seed=0, progress=False
)
on = ms.auto_shapley(surrogate, x[1500:1504])
off = ms.permutation_shapley(
    ms.imputed_value(model, ms.imputers.MarginalImputer(x[:1500]), draws=1),
    x[1500:1504],
    permutations=64,
    progress=False,
)
ms.plots.pixel_maps({"on the manifold": on, "off the manifold": off})
