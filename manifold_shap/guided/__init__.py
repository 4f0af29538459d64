"""The guided surrogate: a network with hints from a VAE and the model as inputs."""

from manifold_shap.guided.value import GuidedValue

__all__ = ["GuidedValue"]
