"""Imputers: draws of the absent features, x' ~ p(x' | x_S)."""

from manifold_shap.imputers.base import Completions, Imputer
from manifold_shap.imputers.causal import CausalImputer
from manifold_shap.imputers.copula import CopulaImputer
from manifold_shap.imputers.empirical import EmpiricalImputer
from manifold_shap.imputers.exact_match import ExactMatchImputer
from manifold_shap.imputers.gaussian import GaussianImputer
from manifold_shap.imputers.marginal import MarginalImputer
from manifold_shap.imputers.references import BaselineImputer, ContrastiveImputer

__all__ = [
    "BaselineImputer",
    "CausalImputer",
    "Completions",
    "ContrastiveImputer",
    "CopulaImputer",
    "EmpiricalImputer",
    "ExactMatchImputer",
    "GaussianImputer",
    "Imputer",
    "MarginalImputer",
]
