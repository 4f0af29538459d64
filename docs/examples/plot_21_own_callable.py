"""
Any game
========

An estimator takes any callable of rows and masks. Here v(S) is the profit that a group of shops
makes together.
"""

import torch

import manifold_shap as ms


def profit(x, mask):
    """Shops earn what they sell; two of them share a van, which costs 3 once."""
    sold = (x[:, None] * mask).sum(-1)
    van = 3.0 * (mask[..., 0] | mask[..., 1])
    return (sold - van)[..., None]


sales = torch.tensor([[5.0, 4.0, 2.0]])
explanation = ms.exact_shapley(profit, sales)
explanation.plot.waterfall(0)

# %%
# The van's cost is shared in halves, as both of the first shops need it:

explanation.to_frame()
