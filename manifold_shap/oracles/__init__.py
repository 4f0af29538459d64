"""Knows the law of the data: exact conditional draws, posteriors and value functions.

>>> from manifold_shap import oracles
>>> law = oracles.GaussianMixture.random(elements=5, components=3, seed=0)
>>> law.sample(1000, seed=1).x.shape
torch.Size([1000, 5])
"""

from manifold_shap.oracles.base import ConditionalLaw, Drawn
from manifold_shap.oracles.gaussian import GaussianMixture
from manifold_shap.oracles.shapley import (
    ShapleyDistance,
    distance_to_true_shapley,
    true_shapley,
)
from manifold_shap.oracles.value import OracleImputer, PosteriorValue, TrueValue, true_value

__all__ = [
    "ConditionalLaw",
    "Drawn",
    "GaussianMixture",
    "OracleImputer",
    "PosteriorValue",
    "ShapleyDistance",
    "TrueValue",
    "distance_to_true_shapley",
    "true_shapley",
    "true_value",
]


def __dir__() -> list[str]:
    return __all__
