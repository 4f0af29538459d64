"""
One model for each coalition
============================

Retraining explains a method and its data rather than one model: what does each column add to what
can be learned?
"""

import torch
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

import manifold_shap as ms

iris = load_iris()
players = ms.Players.of_elements((4,), iris.feature_names)
value = ms.retrained_value(GaussianNB(), iris.data[::2], iris.target[::2], players=players)
explanation = ms.exact_shapley(value, iris.data[1::2])  # fits 16 models
ms.plots.bar(ms.global_values(explanation, torch.from_numpy(iris.target[1::2])))
