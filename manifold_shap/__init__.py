"""Shapley values on the data manifold, with learned value functions.

value = ms.fit_surrogate(model, x_train, output="probability")
explanation = ms.permutation_shapley(value, x_test, permutations=64)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# First: an explanation records it.
__version__ = "0.1.0"

from manifold_shap.classifiers import Model, as_model
from manifold_shap.coalitions import Players, ShapleyKernel, SizeUniform
from manifold_shap.columns import Column
from manifold_shap.estimators import exact_shapley, permutation_shapley
from manifold_shap.explanation import Explanation
from manifold_shap.imputers import Imputer, MarginalImputer
from manifold_shap.metrics import mean_squared_error, shapley_pairs
from manifold_shap.outputs import Space
from manifold_shap.schema import Schema
from manifold_shap.values import ImputedValue, SurrogateValue, ValueFunction, imputed_value

if TYPE_CHECKING:
    from manifold_shap import plots
    from manifold_shap.training.surrogate import fit_surrogate, load_surrogate

__all__ = [
    "Column",
    "Explanation",
    "ImputedValue",
    "Imputer",
    "MarginalImputer",
    "Model",
    "Players",
    "Schema",
    "ShapleyKernel",
    "SizeUniform",
    "Space",
    "SurrogateValue",
    "ValueFunction",
    "as_model",
    "exact_shapley",
    "fit_surrogate",
    "imputed_value",
    "load_surrogate",
    "mean_squared_error",
    "permutation_shapley",
    "plots",
    "shapley_pairs",
]


def __getattr__(name: str) -> Any:
    # Lightning and matplotlib take seconds to import: only those who train or draw wait for them.
    if name in ("fit_surrogate", "load_surrogate"):
        return getattr(import_module("manifold_shap.training.surrogate"), name)
    if name == "plots":
        return import_module("manifold_shap.plots")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
