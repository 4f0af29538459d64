"""The masked-encoder VAE: its networks, its imputer and its training."""

from manifold_shap.vae.imputer import VAEImputer

__all__ = ["VAEImputer"]
