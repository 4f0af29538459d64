"""Estimators: from any value function to Shapley values of every player and output."""

from manifold_shap.estimators.adaptive import adaptive_shapley
from manifold_shap.estimators.audit import audit
from manifold_shap.estimators.auto import auto_shapley
from manifold_shap.estimators.coalition import coalition_shapley
from manifold_shap.estimators.exact import exact_shapley
from manifold_shap.estimators.interactions import shapley_interactions
from manifold_shap.estimators.kernel import kernel_shapley
from manifold_shap.estimators.odd import odd_shapley
from manifold_shap.estimators.permutation import permutation_shapley

__all__ = [
    "adaptive_shapley",
    "audit",
    "auto_shapley",
    "coalition_shapley",
    "exact_shapley",
    "kernel_shapley",
    "odd_shapley",
    "permutation_shapley",
    "shapley_interactions",
]


def __dir__() -> list[str]:
    return __all__
