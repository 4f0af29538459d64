"""The guided surrogate: a network that is told what a VAE and the model say of a coalition."""

from manifold_shap.guided.value import GuidedValue

__all__ = ["GuidedValue"]
