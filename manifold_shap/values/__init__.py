"""Value functions v(S) = E[T(f(X)) | x_S], with exact values at the anchors."""

from manifold_shap.values.base import Estimate, Linearized, ValueFunction
from manifold_shap.values.grouped import GroupedValue
from manifold_shap.values.imputed import ImputedValue, imputed_value
from manifold_shap.values.log_ratio import LogRatioOfMean
from manifold_shap.values.model import (
    ModelValue,
    codebook_behind,
    model_for,
    reference_outputs,
    reference_space,
)
from manifold_shap.values.retrained import RetrainedValue, retrained_value
from manifold_shap.values.selected import Outputs, SelectedValue
from manifold_shap.values.stacked import StackedValue
from manifold_shap.values.wrapped import CallableValue, as_value_function

__all__ = [
    "CallableValue",
    "Estimate",
    "GroupedValue",
    "ImputedValue",
    "Linearized",
    "LogRatioOfMean",
    "ModelValue",
    "Outputs",
    "RetrainedValue",
    "SelectedValue",
    "StackedValue",
    "ValueFunction",
    "as_value_function",
    "codebook_behind",
    "imputed_value",
    "model_for",
    "reference_outputs",
    "reference_space",
    "retrained_value",
]
