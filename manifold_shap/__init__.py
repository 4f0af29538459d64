"""Shapley values on the data manifold, with learned value functions.

value = ms.fit_surrogate(model, x_train, output="probability")
explanation = ms.permutation_shapley(value, x_test, permutations=64)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from manifold_shap import simplex
from manifold_shap._version import __version__ as __version__
from manifold_shap.amortized import AmortizedExplainer as AmortizedExplainer
from manifold_shap.amortized import amortized_shapley
from manifold_shap.coalitions import LeverageScores, ShapleyKernel, SizeUniform
from manifold_shap.estimators import (
    adaptive_shapley,
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
)
from manifold_shap.metrics import mean_squared_error, shapley_pairs
from manifold_shap.models import Model, as_model
from manifold_shap.naive_bayes import (
    multiclass_score,
    naive_bayes_shapley,
    weight_of_evidence,
)
from manifold_shap.ordering import Ordering
from manifold_shap.players import Players
from manifold_shap.simplex.dendrogram import cluster_classes
from manifold_shap.simplex.partition import Partition
from manifold_shap.spaces import ILR, Identity, LogOdds, OutputSpace, Probability, as_space
from manifold_shap.surrogate import SurrogateValue
from manifold_shap.tables.columns import Column
from manifold_shap.tables.schema import Schema
from manifold_shap.vae import VAEImputer
from manifold_shap.values import (
    GroupedValue,
    ImputedValue,
    LogRatioOfMean,
    RetrainedValue,
    ValueFunction,
    as_value_function,
    imputed_value,
    retrained_value,
)

if TYPE_CHECKING:
    from manifold_shap import plots
    from manifold_shap.amortized.fit import fit_amortized, load_amortized
    from manifold_shap.io.streaming import explain_rows
    from manifold_shap.surrogate.fit import fit_surrogate, load_surrogate
    from manifold_shap.vae.fit import fit_imputer, load_imputer

__all__ = [
    "ILR",
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
    "GroupedValue",
    "Identity",
    "ImputedValue",
    "Imputer",
    "LeverageScores",
    "LogOdds",
    "LogRatioOfMean",
    "MarginalImputer",
    "Model",
    "Ordering",
    "OutputSpace",
    "Partition",
    "Players",
    "Probability",
    "RetrainedValue",
    "Schema",
    "ShapleyKernel",
    "SizeUniform",
    "SurrogateValue",
    "VAEImputer",
    "ValueFunction",
    "adaptive_shapley",
    "amortized_shapley",
    "as_model",
    "as_space",
    "as_value_function",
    "auto_shapley",
    "cluster_classes",
    "coalition_shapley",
    "exact_shapley",
    "explain_rows",
    "fit_amortized",
    "fit_imputer",
    "fit_surrogate",
    "global_values",
    "imputed_value",
    "kernel_shapley",
    "load_amortized",
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
    "explain_rows": "manifold_shap.io.streaming",
    "fit_amortized": "manifold_shap.amortized.fit",
    "load_amortized": "manifold_shap.amortized.fit",
    "fit_imputer": "manifold_shap.vae.fit",
    "load_imputer": "manifold_shap.vae.fit",
    "fit_surrogate": "manifold_shap.surrogate.fit",
    "load_surrogate": "manifold_shap.surrogate.fit",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    if name == "plots":
        return import_module("manifold_shap.plots")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
