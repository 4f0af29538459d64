"""The partition that a model suggests: planted groups of classes are found again."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from manifold_shap import Partition, cluster_classes, simplex
from manifold_shap.simplex import geometry
from manifold_shap.simplex.dendrogram import LINKAGES

CLASSES = ("a", "b", "c", "d", "e")
# {d, e} are near each other, {a, b} a little less so, c is nearer to {a, b} than to {d, e}.
NESTED = torch.tensor(
    [[4.0, 2.5, 1.0, 0, 0], [2.5, 4.0, 1.0, 0, 0], [0.5, 0.5, 3.0, 0, 0], [0, 0, 0, 7.0, 6.5],
     [0, 0, 0, 6.5, 7.0]]
)  # fmt: skip
PLANTED = {"ab", "de", "abc", "abcde"}

linkages = pytest.mark.parametrize("linkage", LINKAGES)


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


@linkages
def test_planted_groups_are_found(linkage: str) -> None:
    log_p, labels = sampled(NESTED)
    partition = cluster_classes(log_p, labels, CLASSES, linkage)
    assert groups(partition) == PLANTED
    assert partition.classes == CLASSES


def test_balances_are_numbered_in_the_order_of_merging() -> None:
    partition = cluster_classes(*sampled(NESTED), CLASSES)
    members = [set(first + second) for first, second in partition.groups]
    assert members == [{3, 4}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3, 4}]


@linkages
def test_the_order_of_the_classes_does_not_matter(linkage: str) -> None:
    log_p, labels = sampled(NESTED, rows=20)
    for order in itertools.permutations(range(5)):
        place = torch.tensor(order).argsort()
        names = [CLASSES[k] for k in order]
        partition = cluster_classes(log_p[:, list(order)], place[labels], names, linkage)
        assert groups(partition) == PLANTED
        assert partition.classes == tuple(names)


def test_neither_the_order_of_rows_nor_a_constant_of_each_matters() -> None:
    log_p, labels = sampled(NESTED)
    partition = cluster_classes(log_p, labels, CLASSES)
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
    moved = log_p + torch.randn(len(log_p), 1, generator=torch.Generator().manual_seed(2))
    assert cluster_classes(log_p[shuffled], labels[shuffled], CLASSES) == partition
    assert cluster_classes(moved, labels, CLASSES) == partition
    assert cluster_classes(simplex.closure(log_p), labels, CLASSES) == partition


@linkages
def test_the_basis_does_not_matter(linkage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log_p, labels = sampled(NESTED)
    here = cluster_classes(log_p, labels, CLASSES, linkage)
    ilr, other = simplex.ilr, Partition.of_tree([["b", ["e", "c"]], ["d", "a"]], CLASSES)
    asked = []

    def in_other_basis(z: Tensor) -> Tensor:
        asked.append(len(z))
        return ilr(z, other.basis)

    monkeypatch.setattr(geometry, "ilr", in_other_basis)
    assert cluster_classes(log_p, labels, CLASSES, linkage) == here
    assert asked == [len(log_p)]


def euclidean(log_p: Tensor, labels: Tensor, classes: Sequence[str]) -> tuple[int, ...]:
    """The two classes whose means are nearest in Aitchison's distance."""
    means = torch.stack([simplex.clr(log_p[labels == k]).mean(0) for k in range(len(classes))])
    pairs = list(itertools.combinations(range(len(classes)), 2))
    return min(pairs, key=lambda pair: float((means[pair[0]] - means[pair[1]]).norm()))


@linkages
def test_distances_are_those_of_mahalanobis(linkage: str) -> None:
    # a and b are twice as far apart as b and c, in a direction in which predictions spread widely.
    wide = simplex.gram_schmidt_basis(3)[0].float()
    narrow = simplex.gram_schmidt_basis(3)[1].float()
    means = torch.stack((0 * wide, 2 * wide, 2 * wide + narrow))
    spread = 2 * torch.outer(wide, wide) + 0.2 * torch.outer(narrow, narrow)
    log_p, labels = sampled(means, spread, rows=2_000)
    assert euclidean(log_p, labels, "abc") == (1, 2)
    assert groups(cluster_classes(log_p, labels, "abc", linkage)) == {"ab", "abc"}


def test_merges_are_those_of_scipy_on_mahalanobis_distances() -> None:
    from scipy.cluster.hierarchy import linkage as scipy_linkage
    from scipy.spatial.distance import pdist

    generator = torch.Generator().manual_seed(3)
    means = 3 * torch.randn(8, 8, generator=generator)
    log_p, labels = sampled(means, 0.2 * torch.randn(8, 8, generator=generator), rows=50)
    z = simplex.ilr(log_p).numpy()
    within = z - np.stack([z[labels == k].mean(0) for k in range(8)])[labels]
    covariance = within.T @ within / (len(z) - 8)
    centres = np.stack([z[labels == k].mean(0) for k in range(8)])
    apart = pdist(centres, "mahalanobis", VI=np.linalg.inv(covariance))
    for linkage in ("average", "complete", "single"):
        members = [{k} for k in range(8)]
        for first, second, _, _ in scipy_linkage(apart, linkage):
            members.append(members[int(first)] | members[int(second)])
        partition = cluster_classes(log_p, labels, "abcdefgh", linkage)
        assert [set(first + second) for first, second in partition.groups] == members[8:]


def test_two_classes_have_one_balance() -> None:
    partition = cluster_classes(*sampled(torch.eye(2)), ("no", "yes"))
    assert partition.names == ("no : yes",)


@linkages
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_without_spread_all_directions_count_alike(linkage: str, scale: float) -> None:
    for rows in (2, 3):
        log_p, labels = sampled(scale * NESTED, spread=0.0, rows=rows)
        assert groups(cluster_classes(log_p, labels, CLASSES, linkage)) == PLANTED
    same = torch.zeros(6, 3)
    assert "abc" in groups(cluster_classes(same, [0, 1, 2] * 2, "abc", linkage))


@linkages
def test_a_direction_in_which_nothing_varies_is_no_trouble(linkage: str) -> None:
    # e is half of d for every row: one log-ratio is constant, inside the classes and between them.
    log_p, labels = sampled(NESTED[:4])
    log_p[:, 4] = log_p[:, 3] - np.log(2)
    labels[-1] = 4
    partition = cluster_classes(log_p, labels, CLASSES, linkage)
    assert {"ab", "de"} <= groups(partition)


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.int64, list])
def test_labels_are_whole_numbers_of_any_kind(kind: type) -> None:
    log_p, labels = sampled(NESTED)
    given = labels.tolist() if kind is list else labels.numpy().astype(kind)
    assert cluster_classes(log_p, given, CLASSES) == cluster_classes(log_p, labels, CLASSES)


def test_arguments_are_not_changed_and_gradients_not_needed() -> None:
    log_p, labels = sampled(NESTED)
    before = log_p.clone()
    cluster_classes(log_p.requires_grad_(), labels, CLASSES)
    assert torch.equal(log_p, before)


def test_errors() -> None:
    log_p, labels = sampled(NESTED, rows=2)
    with pytest.raises(ValueError, match=r"Expected `linkage` to be one of \['complete'.*'median'"):
        cluster_classes(log_p, labels, CLASSES, "median")
    with pytest.raises(ValueError, match=r"`log_p` of shape \(rows, 4\) .* got \(10, 5\) and \(10"):
        cluster_classes(log_p, labels, CLASSES[:4])
    with pytest.raises(ValueError, match=r"one label per row but got \(10, 5\) and \(9,\)"):
        cluster_classes(log_p, labels[:9], CLASSES)
    for move, where in ((1, "1 to 5"), (-1, "-1 to 3")):
        with pytest.raises(ValueError, match=f"Expected `labels` from 0 to 4 but got {where}"):
            cluster_classes(log_p, labels + move, CLASSES)
    with pytest.raises(ValueError, match=r"Expected rows of every class .* none of \['b', 'e'\]"):
        cluster_classes(log_p, torch.tensor([0, 2, 3, 0, 2, 3, 0, 2, 3, 0]), CLASSES)
    with pytest.raises(ValueError, match="Expected more rows than the 5 classes but got 5"):
        cluster_classes(log_p[::2], labels[::2], CLASSES)
    log_p[3, 2] = -torch.inf
    with pytest.raises(ValueError, match=r"finite log-probabilities .* class 2 of row 3 of 10"):
        cluster_classes(log_p, labels, CLASSES)


@pytest.mark.parametrize("kind", ["array", "list", "named", "objects"])
def test_predictions_and_labels_may_be_arrays_lists_and_names(kind: str) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.eye(3).repeat(8, 1) + torch.randn(24, 3, generator=generator)
    labels, classes = torch.arange(24) % 3, ["a", "b", "c"]
    expected = cluster_classes(logits, labels, classes).tree
    names = np.array(classes)[labels.numpy()]
    given = {
        "array": (logits.numpy(), labels.numpy()),
        "list": (logits.tolist(), labels.tolist()),
        "named": (logits, names),
        "objects": (logits, names.astype(object)),
    }
    assert cluster_classes(*given[kind], classes).tree == expected
    with pytest.raises(ValueError, match=r"`labels` to be positions in `classes`, or names among"):
        cluster_classes(logits, ["d", *names[1:]], classes)
