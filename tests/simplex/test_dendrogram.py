"""The partition that a model suggests: planted groups of classes are found again."""

import numpy as np
import pytest
import torch
from torch import Tensor

from manifold_shap import simplex
from manifold_shap.simplex import Partition, cluster_classes

CLASSES = ("a", "b", "c", "d", "e")
# {d, e} are near each other, {a, b} a little less so, c is nearer to {a, b} than to {d, e}.
NESTED = torch.tensor(
    [[4.0, 2.5, 1.0, 0, 0], [2.5, 4.0, 1.0, 0, 0], [0.5, 0.5, 3.0, 0, 0], [0, 0, 0, 7.0, 6.5],
     [0, 0, 0, 6.5, 7.0]]
)  # fmt: skip
PLANTED = {"ab", "de", "abc", "abcde"}


def sampled(means: Tensor, spread: Tensor | float = 0.3, rows: int = 200) -> tuple[Tensor, Tensor]:
    """Logits of rows of each class about its mean, with the errors `noise @ spread`; labels."""
    count, classes = means.shape
    labels = torch.arange(count).repeat_interleave(rows)
    noise = torch.randn(count * rows, classes, generator=torch.Generator().manual_seed(0))
    noise = noise @ spread if isinstance(spread, Tensor) else noise * spread
    return means[labels] + noise, labels


def groups(partition: Partition) -> set[str]:
    """Every set of classes that a balance splits."""
    return {
        "".join(sorted(partition.classes[k] for k in (*first, *second)))
        for first, second in partition.groups
    }


def test_merges_are_those_of_scipy_on_mahalanobis_distances() -> None:
    from scipy.cluster.hierarchy import complete
    from scipy.spatial.distance import pdist

    generator = torch.Generator().manual_seed(3)
    means = 3 * torch.randn(8, 8, generator=generator)
    log_p, labels = sampled(means, 0.2 * torch.randn(8, 8, generator=generator), rows=50)
    z = simplex.ilr(log_p).numpy()
    within = z - np.stack([z[labels == k].mean(0) for k in range(8)])[labels]
    covariance = within.T @ within / (len(z) - 8)
    centres = np.stack([z[labels == k].mean(0) for k in range(8)])
    apart = pdist(centres, "mahalanobis", VI=np.linalg.inv(covariance))
    members = [{k} for k in range(8)]
    for first, second, _, _ in complete(apart):
        members.append(members[int(first)] | members[int(second)])
    partition = cluster_classes(log_p, labels, "abcdefgh")
    assert [set(first + second) for first, second in partition.groups] == members[8:]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_without_spread_all_directions_count_alike(scale: float) -> None:
    for rows in (2, 3):
        log_p, labels = sampled(scale * NESTED, spread=0.0, rows=rows)
        assert groups(cluster_classes(log_p, labels, CLASSES)) == PLANTED
    same = torch.zeros(6, 3)
    assert "abc" in groups(cluster_classes(same, [0, 1, 2] * 2, "abc"))


def test_predictions_and_labels_may_be_arrays_lists_and_names() -> None:
    log_p, labels = sampled(NESTED)
    expected = cluster_classes(log_p, labels, CLASSES)
    names = np.array(CLASSES)[labels.numpy()]
    for predictions, given in (
        (log_p.numpy(), labels.numpy()),
        (log_p.tolist(), labels.tolist()),
        (log_p, names),
    ):
        assert cluster_classes(predictions, given, CLASSES) == expected
    for wrong in (labels[:9], labels.clamp(max=3), ["x", *names[1:]]):
        with pytest.raises(ValueError, match=r"labels|names"):
            cluster_classes(log_p, wrong, CLASSES)
