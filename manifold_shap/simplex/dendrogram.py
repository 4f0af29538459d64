"""Clusters the classes by a model's predictions: a partition that splits similar classes last."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from manifold_shap._checks import check_known, to_tensor
from manifold_shap._messages import shown
from manifold_shap.simplex import geometry
from manifold_shap.simplex.partition import Partition

# As a share of the largest squared prediction: a smaller variance is rounding of single precision.
_LEAST_VARIANCE = 1e-12


def cluster_classes(
    log_p: Any,
    labels: Any,
    classes: Sequence[str],
) -> Partition:
    """The partition given by the dendrogram of the classes (Noé et al. 2024, Section 6.2).

    The predictions for the rows of each class are modelled by a logistic-normal distribution: a
    normal one in log-ratio space, with a mean of its own and a covariance that all classes share.
    Classes are merged by the Mahalanobis distance of their means, the closest first, and groups by
    that of their most distant two classes, which chains the least; balances are numbered in the
    order of merging.

    Args:
        log_p: log-probabilities or logits `[rows, classes]` of rows of every class.
        labels: the class of each row, by its name or by its position in `classes`, `[rows]`.
        classes: names.

    Raises:
        TypeError: `log_p` holds no numbers.
        ValueError: another shape, an unknown class, a class without rows, or too few rows for a
            covariance.

    >>> logits = torch.tensor([[5.0, 4.0, 0.0], [4.0, 5.0, 0.0], [0.0, 0.0, 5.0]])
    >>> noise = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
    >>> cluster_classes(logits.repeat(10, 1) + noise, [0, 1, 2] * 10, ["a", "b", "c"]).tree
    ('c', ('a', 'b'))
    """
    # Slower to import than the rest of the package.
    from sklearn.cluster import AgglomerativeClustering

    log_p = (log_p.detach() if isinstance(log_p, Tensor) else to_tensor(log_p, "log_p")).cpu()
    labels = _positions(labels, classes)
    counted = labels.ndim == 1 and labels.unique().tolist() == list(range(len(classes)))
    if log_p.shape != (len(labels), len(classes)) or not counted or len(log_p) <= len(classes):
        raise ValueError(
            f"Expected `log_p` of shape (rows, {len(classes)}), of more rows than classes and rows "
            f"of every class, and one of `labels` for each row, but got {tuple(log_p.shape)} and "
            f"labels {shown(labels.unique().tolist())} of shape {tuple(labels.shape)}."
        )
    z = geometry.ilr(log_p.double())
    means = torch.stack([z[labels == k].mean(0) for k in range(len(classes))])
    apart = z - means[labels]
    covariance = apart.T @ apart / (len(z) - len(classes))
    # In whitened coordinates the Mahalanobis distance is the Euclidean one.
    values, vectors = torch.linalg.eigh(covariance)
    least = z.square().sum(1).amax() * _LEAST_VARIANCE
    tiny = torch.finfo(values.dtype).tiny
    whitened = means @ vectors / values.clamp(min=least.clamp(min=tiny)).sqrt()
    whole = AgglomerativeClustering(n_clusters=None, distance_threshold=0.0, linkage="complete")
    return _of_merges(whole.fit(whitened.numpy()).children_, classes)


def _positions(labels: Any, classes: Sequence[str]) -> Int64[Tensor, " rows"]:
    """Of the classes that labels name, in `classes`."""
    given = np.asarray(labels.cpu() if isinstance(labels, Tensor) else labels)
    if given.dtype.kind in "biu":
        return torch.from_numpy(given.astype(np.int64))
    check_known(map(str, given.flat), classes, "`labels` to be positions in `classes`, or names")
    position = {name: k for k, name in enumerate(classes)}
    return torch.tensor([position[str(label)] for label in given.flat]).reshape(given.shape)


def _of_merges(merges: np.ndarray, classes: Sequence[str]) -> Partition:
    groups: list[list[int]] = [[k] for k in range(len(classes))]
    signs = np.zeros((len(classes) - 1, len(classes)), dtype=np.int64)
    for number, (first, second) in enumerate(merges):
        signs[number, groups[first]], signs[number, groups[second]] = 1, -1
        groups.append(groups[first] + groups[second])
    return Partition(signs, classes)
