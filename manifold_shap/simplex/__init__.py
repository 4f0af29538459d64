"""Computes on the simplex: Aitchison geometry, partitions of the classes, compositions."""

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
