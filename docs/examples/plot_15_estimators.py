"""
Error against budget
====================

The same game of twelve players by several estimators, against its exact values. It is a product,
so that interactions of high order count.
"""

import matplotlib.pyplot as plt
import torch

import manifold_shap as ms

generator = torch.Generator().manual_seed(0)
weights = torch.randn(12, 4, generator=generator)


def game(x, mask):
    return torch.tanh((x[:, None] * mask) @ weights).prod(-1, keepdim=True)


x = torch.randn(8, 12, generator=generator)
exact = ms.exact_shapley(game, x).phi
budgets = [128, 256, 512, 1024, 2048]
errors = {}
for estimator in (ms.permutation_shapley, ms.kernel_shapley, ms.odd_shapley):
    found = [estimator(game, x, evaluations=budget).phi for budget in budgets]
    errors[estimator.__name__] = [((phi - exact).norm() / exact.norm()).item() for phi in found]

_, axes = plt.subplots()
for name, error in errors.items():
    axes.loglog(budgets, error, marker="o", label=name)
axes.set(xlabel="evaluations per row", ylabel="relative error")
axes.set_xticks(budgets, budgets)
axes.minorticks_off()
axes.legend()
