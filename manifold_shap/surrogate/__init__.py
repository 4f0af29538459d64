"""The supervised surrogate: its network, its value function and its training."""

from manifold_shap.surrogate.value import SurrogateValue

__all__ = ["SurrogateValue"]
