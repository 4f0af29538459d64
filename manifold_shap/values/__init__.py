"""Value functions v(S) = E[T(f(X)) | x_S], with exact values at the anchors."""

from manifold_shap.values.base import Estimate as Estimate
from manifold_shap.values.base import Linearized as Linearized
from manifold_shap.values.base import ValueFunction as ValueFunction
from manifold_shap.values.grouped import GroupedValue
from manifold_shap.values.imputed import ImputedValue as ImputedValue
from manifold_shap.values.imputed import imputed_value as imputed_value
from manifold_shap.values.log_ratio import LogRatioOfMean
from manifold_shap.values.model import ModelValue as ModelValue
from manifold_shap.values.model import model_for as model_for
from manifold_shap.values.model import reference_outputs as reference_outputs
from manifold_shap.values.model import reference_space as reference_space
from manifold_shap.values.model import table_behind as table_behind
from manifold_shap.values.retrained import RetrainedValue as RetrainedValue
from manifold_shap.values.retrained import retrained_value as retrained_value
from manifold_shap.values.selected import Outputs as Outputs
from manifold_shap.values.selected import SelectedValue as SelectedValue
from manifold_shap.values.spec import GameSpec, TrainingRange, Work
from manifold_shap.values.stacked import StackedValue
from manifold_shap.values.wrapped import CallableValue as CallableValue
from manifold_shap.values.wrapped import as_value_function as as_value_function

__all__ = [
    "GameSpec",
    "GroupedValue",
    "LogRatioOfMean",
    "StackedValue",
    "TrainingRange",
    "Work",
]


def __dir__() -> list[str]:
    return __all__
