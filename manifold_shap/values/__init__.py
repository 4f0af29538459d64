"""Value functions v(S) = E[T(f(X)) | x_S], with exact values for nobody and for everybody."""

from manifold_shap.values.base import Estimate, ValueFunction, model_for, reference_outputs
from manifold_shap.values.imputed import ImputedValue, imputed_value
from manifold_shap.values.log_ratio import LogRatioOfMean
from manifold_shap.values.retrained import RetrainedValue, retrained_value

__all__ = [
    "Estimate",
    "ImputedValue",
    "LogRatioOfMean",
    "RetrainedValue",
    "ValueFunction",
    "imputed_value",
    "model_for",
    "reference_outputs",
    "retrained_value",
]
