"""Imputers: draws of the absent features, x' ~ p(x' | x_S)."""

from manifold_shap.imputers.marginal import MarginalImputer

__all__ = ["MarginalImputer"]
