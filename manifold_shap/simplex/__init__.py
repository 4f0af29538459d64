"""Computes on the simplex: Aitchison geometry, partitions of the classes, compositions.

>>> import torch
>>> from manifold_shap import simplex
>>> simplex.ilr_inv(simplex.ilr(torch.tensor([0.2, 0.3, 0.5]).log())).exp()
tensor([0.2000, 0.3000, 0.5000])
"""

from manifold_shap.simplex.dendrogram import cluster_classes
from manifold_shap.simplex.geometry import (
    class_compositions,
    closure,
    clr,
    coordinates,
    distance,
    from_probabilities,
    gram_schmidt_basis,
    ilr,
    ilr_inv,
    inner,
    norm,
    partition_basis,
    perturb,
    power,
    replace_zeros,
)
from manifold_shap.simplex.partition import Partition

__all__ = [
    "Partition",
    "class_compositions",
    "closure",
    "clr",
    "cluster_classes",
    "coordinates",
    "distance",
    "from_probabilities",
    "gram_schmidt_basis",
    "ilr",
    "ilr_inv",
    "inner",
    "norm",
    "partition_basis",
    "perturb",
    "power",
    "replace_zeros",
]


def __dir__() -> list[str]:
    return __all__
