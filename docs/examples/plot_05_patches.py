"""
Patches of a picture, and coarser players
=========================================

Pixels join in patches of two by two; `grouped` joins these further, into halves of the picture.
"""

import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import manifold_shap as ms

digits = load_digits()
x = torch.from_numpy(digits.images).float().div(16)[:, None]
classifier = LogisticRegression(max_iter=300).fit(x.flatten(1), digits.target)
model = ms.as_model(lambda x: classifier.predict_proba(x.flatten(1).numpy()), x)

patches = ms.Players.patches((1, 8, 8), 2)
value = ms.fit_surrogate(model, x, players=patches, hidden=[64, 64], max_epochs=5, seed=0)
explanation = ms.exact_shapley(value, x[:4])
explanation.plot.pixel_maps()

# %%
# The upper and the lower half of the picture:

halves = torch.arange(8).div(4, rounding_mode="floor")[:, None].expand(8, 8)
ms.exact_shapley(value.grouped(halves), x[:4])
