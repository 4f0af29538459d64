"""Estimators: from any value function to Shapley values of every player and output."""

from manifold_shap.estimators.exact import exact_shapley
from manifold_shap.estimators.permutation import permutation_shapley

__all__ = ["exact_shapley", "permutation_shapley"]
