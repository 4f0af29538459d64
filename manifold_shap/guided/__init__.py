"""The guided surrogate: a network with what a mixture and the model say of x_S as inputs."""

from manifold_shap.guided.value import GuidedValue

__all__ = ["GuidedValue"]
