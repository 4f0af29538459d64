"""
Interactions of pairs
=====================

What two columns add together beyond what each adds alone. In these rows *a* is large: it raises
the score, its copy tells the same again, and the interaction of this redundant pair is negative.
That of *b* and *c*, whose product is in the score, has the sign of the product, and another one in
each row.
"""

import torch

import manifold_shap as ms

generator = torch.Generator().manual_seed(0)
x = torch.randn(500, 5, generator=generator)
x[:, 1] = x[:, 0] + 0.2 * x[:, 1]
names = ["a", "copy of a", "b", "c", "d"]
players = ms.Players.of_elements((5,), names)


def model(x):
    return (x[:, :1] + x[:, 1:2]) / 2 + x[:, 2:3] * x[:, 3:4] + 0.2 * x[:, 4:]


adapted = ms.as_model(model, x, returns="values")
value = ms.imputed_value(adapted, ms.imputers.GaussianImputer(x, players), "identity", draws=64)
interactions = ms.shapley_interactions(value, x[x[:, 0] > 1][:20])
ms.plots.interaction_map(interactions)
