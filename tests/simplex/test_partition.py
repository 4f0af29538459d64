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

ABC = ("a", "b", "c")


@st.composite
def trees(draw: st.DrawFn) -> tuple[Any, list[str]]:
    """Any binary tree, and its classes in another order than that of the leaves."""
    classes = [f"class {k}" for k in range(draw(st.integers(2, 8)))]
    groups: list[Any] = classes
    while len(groups) > 1:
        first, second, *others = draw(st.permutations(groups))
        groups = [(first, second), *others]
    return groups[0], classes


@given(trees())
@settings(max_examples=20)
def test_a_coordinate_is_the_log_ratio_of_geometric_means(planted: tuple[Any, list[str]]) -> None:
    partition = Partition.of_tree(*planted)
    log_p = torch.randn(len(partition.classes), dtype=torch.float64)
    coordinates = simplex.ilr(log_p, partition.basis).tolist()
    for (first, second), coordinate in zip(partition.groups, coordinates, strict=True):
        r, s = len(first), len(second)
        log_ratio = (log_p[first].mean() - log_p[second].mean()).item()
        assert coordinate == pytest.approx(math.sqrt(r * s / (r + s)) * log_ratio)


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
