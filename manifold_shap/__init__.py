"""Shapley values on the data manifold, with learned value functions.

value = ms.fit_surrogate(model, x_train, output="probability")
explanation = ms.permutation_shapley(value, x_test, permutations=64)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# First: an explanation records it.
__version__ = "0.1.0"

from manifold_shap import simplex
from manifold_shap.classifiers import Model, as_model
from manifold_shap.coalitions import LeverageScores, Players, ShapleyKernel, SizeUniform
from manifold_shap.columns import Column
from manifold_shap.dendrogram import cluster_classes
from manifold_shap.estimators import (
    adaptive_shapley,
    amortized_shapley,
    auto_shapley,
    coalition_shapley,
    exact_shapley,
    kernel_shapley,
    permutation_shapley,
    sample_reuse_shapley,
)
from manifold_shap.explanation import Explanation
from manifold_shap.global_values import GlobalValues, global_values
from manifold_shap.imputers import (
    BaselineImputer,
    CausalImputer,
    ContrastiveImputer,
    CopulaImputer,
    EmpiricalImputer,
    ExactMatchImputer,
    GaussianImputer,
    Imputer,
    MarginalImputer,
    VAEImputer,
)
from manifold_shap.metrics import mean_squared_error, shapley_pairs
from manifold_shap.naive_bayes import (
    multiclass_score,
    naive_bayes_shapley,
    weight_of_evidence,
)
from manifold_shap.ordering import Ordering
from manifold_shap.outputs import Space
from manifold_shap.partition import Partition
from manifold_shap.schema import Schema
from manifold_shap.values import (
    ImputedValue,
    LogRatioOfMean,
    RetrainedValue,
    SurrogateValue,
    ValueFunction,
    imputed_value,
    retrained_value,
)

if TYPE_CHECKING:
    from manifold_shap import plots
    from manifold_shap.streaming import explain_rows
    from manifold_shap.training.explainer import fit_explainer, load_explainer
    from manifold_shap.training.imputer import fit_imputer, load_imputer
    from manifold_shap.training.surrogate import fit_surrogate, load_surrogate

__all__ = [
    "BaselineImputer",
    "CausalImputer",
    "Column",
    "ContrastiveImputer",
    "CopulaImputer",
    "EmpiricalImputer",
    "ExactMatchImputer",
    "Explanation",
    "GaussianImputer",
    "GlobalValues",
    "ImputedValue",
    "Imputer",
    "LeverageScores",
    "LogRatioOfMean",
    "MarginalImputer",
    "Model",
    "Ordering",
    "Partition",
    "Players",
    "RetrainedValue",
    "Schema",
    "ShapleyKernel",
    "SizeUniform",
    "Space",
    "SurrogateValue",
    "VAEImputer",
    "ValueFunction",
    "adaptive_shapley",
    "amortized_shapley",
    "as_model",
    "auto_shapley",
    "cluster_classes",
    "coalition_shapley",
    "exact_shapley",
    "explain_rows",
    "fit_explainer",
    "fit_imputer",
    "fit_surrogate",
    "global_values",
    "imputed_value",
    "kernel_shapley",
    "load_explainer",
    "load_imputer",
    "load_surrogate",
    "mean_squared_error",
    "multiclass_score",
    "naive_bayes_shapley",
    "permutation_shapley",
    "plots",
    "retrained_value",
    "sample_reuse_shapley",
    "shapley_pairs",
    "simplex",
    "weight_of_evidence",
]

# Lightning and matplotlib take seconds to import: only those who train or draw wait for them.
_LAZY = {
    "explain_rows": "manifold_shap.streaming",
    "fit_explainer": "manifold_shap.training.explainer",
    "load_explainer": "manifold_shap.training.explainer",
    "fit_imputer": "manifold_shap.training.imputer",
    "load_imputer": "manifold_shap.training.imputer",
    "fit_surrogate": "manifold_shap.training.surrogate",
    "load_surrogate": "manifold_shap.training.surrogate",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    if name == "plots":
        return import_module("manifold_shap.plots")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
