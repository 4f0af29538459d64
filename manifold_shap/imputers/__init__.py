"""Imputers draw the absent features from x' ~ p(x' | x_S)."""

from manifold_shap.imputers.base import Completions, Imputer
from manifold_shap.imputers.blur import BlurImputer
from manifold_shap.imputers.causal import CausalImputer
from manifold_shap.imputers.empirical import EmpiricalImputer, ExactMatchImputer
from manifold_shap.imputers.gaussian import CopulaImputer, GaussianImputer
from manifold_shap.imputers.marginal import (
    BaselineImputer,
    ContrastiveImputer,
    DeletionImputer,
    MarginalImputer,
    MaskTokenImputer,
    PaddingImputer,
)
from manifold_shap.imputers.mixture import MixtureImputer
from manifold_shap.imputers.table import TableImputer, table_imputer

__all__ = [
    "BaselineImputer",
    "BlurImputer",
    "CausalImputer",
    "Completions",
    "ContrastiveImputer",
    "CopulaImputer",
    "DeletionImputer",
    "EmpiricalImputer",
    "ExactMatchImputer",
    "GaussianImputer",
    "Imputer",
    "MarginalImputer",
    "MaskTokenImputer",
    "MixtureImputer",
    "PaddingImputer",
    "TableImputer",
    "table_imputer",
]


def __dir__() -> list[str]:
    return __all__
