"""Imputers: draws of the absent features, x' ~ p(x' | x_S)."""

from manifold_shap.imputers.base import Completions, Imputer
from manifold_shap.imputers.marginal import MarginalImputer

__all__ = ["Completions", "Imputer", "MarginalImputer"]
