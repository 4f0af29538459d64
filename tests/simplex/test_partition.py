"""Sequential binary partitions: what is a tree, its basis, its names and its text."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from manifold_shap import simplex
from manifold_shap.simplex import Partition

few = settings(deadline=None, max_examples=20)

ABC = ("a", "b", "c")


# A tree, and its classes in another order than that of the leaves.
Planted = tuple[Any, list[str]]


@st.composite
def trees(draw: st.DrawFn, count: int = 0) -> Planted:
    """Any binary tree of so many classes, or of 2 to 8."""
    classes = [f"class {k}" for k in range(count or draw(st.integers(2, 8)))]
    groups: list[Any] = classes
    while len(groups) > 1:
        first, second, *others = draw(st.permutations(groups))
        groups = [(first, second), *others]
    return groups[0], classes


@given(trees())
@few
def test_a_coordinate_is_the_log_ratio_of_geometric_means(planted: Planted) -> None:
    partition = Partition.of_tree(*planted)
    log_p = torch.randn(len(partition.classes), dtype=torch.float64)
    coordinates = simplex.ilr(log_p, partition.basis).tolist()
    for (first, second), coordinate in zip(partition.groups, coordinates, strict=True):
        r, s = len(first), len(second)
        log_ratio = (log_p[first].mean() - log_p[second].mean()).item()
        assert coordinate == pytest.approx(math.sqrt(r * s / (r + s)) * log_ratio)


@given(trees(), st.data())
@few
def test_a_rotation_turns_the_coordinates_of_one_basis_into_those_of_another(
    planted: Planted, data: st.DataObject
) -> None:
    one = Partition.of_tree(*planted)
    names = data.draw(st.permutations(one.classes))
    tree, _ = data.draw(trees(len(names)))
    other = Partition.of_tree(tree, names)
    turn = one.rotation(other)
    torch.testing.assert_close(turn @ turn.T, torch.eye(len(turn), dtype=torch.float64))
    torch.testing.assert_close(other.rotation(one), turn.T)
    log_p = torch.randn(len(names), dtype=torch.float64)
    in_their_order = log_p[[one.classes.index(name) for name in names]]
    there = simplex.ilr(in_their_order, other.basis)
    torch.testing.assert_close(turn @ simplex.ilr(log_p, one.basis), there)


def test_a_partition_by_hand() -> None:
    partition = Partition.of_tree([["b", "a"], "c"], ABC)
    assert partition.classes == ABC
    assert partition.signs.tolist() == [[-1, 1, 0], [1, 1, -1]]
    assert partition.groups == [([1], [0]), ([0, 1], [2])]
    assert partition.names == ("b : a", "a+b : c")
    assert partition.tree == (("b", "a"), "c")
    assert str(partition) == "\n".join(
        ["[2] a+b : c", "├── [1] b : a", "│   ├── b", "│   └── a", "└── c"]
    )
    assert partition == eval(repr(partition), {"Partition": Partition})
    assert Partition.of_tree([["b", "a"], "c"]).classes == ("b", "a", "c")


# Errors.


def test_of_all_signs_only_those_of_a_binary_tree_are_accepted() -> None:
    accepted = 0
    for signs in itertools.product((-1, 0, 1), repeat=6):
        try:
            Partition([signs[:3], signs[3:]], ABC)
        except ValueError:
            continue
        accepted += 1
    # Three trees, two orders of the balances, and two ways round for each of the two.
    assert accepted == 3 * 2 * 2**2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Partition.sequential("aba"), r"distinct names of classes but got \['a'\]"),
        (lambda: Partition.of_tree([["a", "b"], "c", "d"]), r"pairs as in .* got a node \[\['a'"),
        (lambda: Partition.of_tree(["a", "b"], ABC), r"a tree of the classes \['a', 'b', 'c'\]"),
        (lambda: Partition.of_tree([["a", "b"], ["c", "a"]], ABC), "distinct classes"),
        (lambda: Partition.sequential(ABC).aligned("abd"), "a partition of the classes"),
    ],
)
def test_what_is_no_partition(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()
