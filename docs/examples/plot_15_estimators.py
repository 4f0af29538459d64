"""
Error against budget
====================

The same game of twelve players by several estimators, against its exact values. It is a product,
so that interactions of high order count.
"""

import torch
from matplotlib.figure import Figure

import manifold_shap as ms

generator = torch.Generator().manual_seed(0)
weights = torch.randn(12, 4, generator=generator)


def game(x, mask):
    return torch.tanh((x[:, None] * mask) @ weights).prod(-1, keepdim=True)


x = torch.randn(8, 12, generator=generator)
exact = ms.exact_shapley(game, x).phi
budgets = [128, 256, 512, 1024, 2048]
axes = Figure(figsize=(6, 4), layout="constrained").subplots()
for estimator in (ms.permutation_shapley, ms.kernel_shapley, ms.odd_shapley):
    errors = []
    for budget in budgets:
        phi = estimator(game, x, evaluations=budget).phi
        errors.append(((phi - exact).norm() / exact.norm()).item())
    axes.loglog(budgets, errors, marker="o", label=estimator.__name__)
axes.set(xlabel="evaluations per row", ylabel="relative error")
axes.legend()
axes
