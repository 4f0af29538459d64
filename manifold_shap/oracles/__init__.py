"""Knows the law of the data: exact conditional draws, posteriors and value functions.

>>> from manifold_shap import oracles
>>> law = oracles.GaussianMixture.random(elements=5, components=3, seed=0)
>>> law.sample(1000, seed=1).x.shape
torch.Size([1000, 5])
"""

from manifold_shap.oracles.base import ConditionalLaw, Drawn
from manifold_shap.oracles.bif import read_bif
from manifold_shap.oracles.gaussian import GaussianMixture
from manifold_shap.oracles.imputer import OracleImputer
from manifold_shap.oracles.latent import LatentClasses
from manifold_shap.oracles.network import BayesianNetwork
from manifold_shap.oracles.shapley import (
    ShapleyDistance,
    distance_to_true_shapley,
    true_shapley,
)
from manifold_shap.oracles.value import PosteriorValue, TrueValue, true_value
from manifold_shap.oracles.variables import Variable

__all__ = [
    "BayesianNetwork",
    "ConditionalLaw",
    "Drawn",
    "GaussianMixture",
    "LatentClasses",
    "OracleImputer",
    "PosteriorValue",
    "ShapleyDistance",
    "TrueValue",
    "Variable",
    "distance_to_true_shapley",
    "read_bif",
    "true_shapley",
    "true_value",
]
