"""The supervised surrogate: its networks, its value functions and its training."""

from manifold_shap.surrogate.guided import GuidedValue
from manifold_shap.surrogate.value import SurrogateValue

__all__ = ["GuidedValue", "SurrogateValue"]
