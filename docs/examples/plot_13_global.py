"""
What each column adds to the accuracy
=====================================

Global values average the Shapley values of each row's true class: they sum to the accuracy, in
probabilities, beyond that of chance.
"""

import torch
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import manifold_shap as ms

wine = load_wine()
model = make_pipeline(StandardScaler(), LogisticRegression()).fit(wine.data, wine.target)
players = ms.Players.of_elements((13,), wine.feature_names)
value = ms.imputed_value(model, ms.GaussianImputer(wine.data, players), draws=8)
explanation = ms.permutation_shapley(value, wine.data[::4], permutations=16)
values = ms.global_values(explanation, torch.from_numpy(wine.target[::4]))
ms.plots.bar(values)
