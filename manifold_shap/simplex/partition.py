"""Partitions the classes by a binary tree: which groups each log-ratio coordinate compares."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap._checks import check_distinct
from manifold_shap.simplex import geometry

Tree = Any
"""A class name, or a pair of trees."""


class Partition:
    """A bifurcation tree of the classes, and the basis of the simplex that it gives.

    All classes are split into two groups, and each group again, down to single classes (a
    sequential binary partition). Each split is a balance: the log-ratio of the geometric means of
    its groups, which is one coordinate of an isometric log-ratio space (Egozcue & Pawlowsky-Glahn
    2005; Noé et al. 2024, Section 6.2). `str(partition)` shows the tree.

    Args:
        signs: one row per balance, one column per class: 1 in the first group, -1 in the second, 0
            in neither.
        classes: names.

    Attributes:
        classes: names.
        signs: int64 `[balances, classes]`.
        basis: orthonormal rows that sum to zero, float64 `[balances, classes]`.
        groups: numbers of the classes in the two groups of each balance.
        names: of the balances, such as `"a+b : c"`.

    Raises:
        ValueError: fewer than two classes, names that are not distinct, or signs that are no binary
            tree.

    >>> print(Partition([[1, -1, 0], [1, 1, -1]], ["a", "b", "c"]))
    [2] a+b : c
    ├── [1] a : b
    │   ├── a
    │   └── b
    └── c
    """

    def __init__(self, signs: Any, classes: Sequence[str]) -> None:
        self.classes = tuple(map(str, classes))
        check_distinct(self.classes, "names of classes")
        self.signs: Int64[Tensor, "balances classes"] = torch.as_tensor(signs).long().clone()
        self.groups = [
            ((row > 0).nonzero()[:, 0].tolist(), (row < 0).nonzero()[:, 0].tolist())
            for row in self.signs
        ]
        self._balance_of = {frozenset(a + b): j for j, (a, b) in enumerate(self.groups)}
        # There are as many balances as in a binary tree: it is one if every group is split.
        split = [list(range(len(self.classes))), *(side for pair in self.groups for side in pair)]
        shape = (len(self.classes) - 1, len(self.classes))
        if (
            tuple(self.signs.shape) != shape
            or bool((self.signs.abs() > 1).any())
            or len(self.classes) < 2
            or any(len(group) != 1 and frozenset(group) not in self._balance_of for group in split)
            or [] in split
        ):
            raise ValueError(
                f"Expected `signs` of shape {shape}, a binary tree of the classes "
                f"{list(self.classes)}: 1, -1 and 0 in a balance for every group of two or more "
                f"classes, which it splits in two; but got {self.signs.tolist()}."
            )
        self.basis: Float[Tensor, "balances classes"] = geometry.partition_basis(self.signs)
        self.names = tuple(
            " : ".join("+".join(self.classes[k] for k in group) for group in pair)
            for pair in self.groups
        )

    @classmethod
    def sequential(cls, classes: Sequence[str]) -> "Partition":
        """The default: the j-th balance compares the first j classes with the next one.

        Its basis is the Gram-Schmidt one of Egozcue et al. (2003).

        Raises:
            ValueError: fewer than two classes, or names that are not distinct.

        >>> Partition.sequential(["a", "b", "c"]).names
        ('a : b', 'a+b : c')
        """
        return cls(geometry.sequential_signs(len(classes)), classes)

    @classmethod
    def of_tree(cls, tree: Tree, classes: Sequence[str] | None = None) -> "Partition":
        """From nested pairs of class names, as in `[["a", "b"], "c"]`; inner splits come first.

        A number is read as the name `str(number)`.

        Args:
            tree: a pair whose members are names or pairs.
            classes: names in the order of the model's outputs; by default that of the leaves.

        Raises:
            ValueError: a node that is not a pair; a class that is unknown, named twice or left out.

        >>> Partition.of_tree([["a", "c"], "b"], ["a", "b", "c"]).signs
        tensor([[ 1,  0, -1],
                [ 1, -1,  1]])
        """
        splits: list[tuple[list[str], list[str]]] = []
        leaves = _collect(tree, splits)
        names = tuple(leaves if classes is None else classes)
        check_distinct(leaves, "classes in a partition")
        if set(leaves) != set(names):
            raise ValueError(
                f"Expected a tree of the classes {list(names)} but got one of {leaves}."
            )
        signs = [[(c in first) - (c in second) for c in names] for first, second in splits]
        return cls(signs, names)

    @property
    def tree(self) -> Tree:
        """Nested pairs of class names."""
        trees: dict[frozenset[int], Tree] = {
            frozenset([k]): name for k, name in enumerate(self.classes)
        }
        # A group is smaller than the one it is part of.
        for first, second in sorted(self.groups, key=lambda pair: sum(map(len, pair))):
            trees[frozenset(first + second)] = trees[frozenset(first)], trees[frozenset(second)]
        return trees[frozenset(range(len(self.classes)))]

    def aligned(self, classes: Sequence[str]) -> "Partition":
        """The same partition, of classes in this order.

        Raises:
            ValueError: they are other classes.
        """
        if set(classes) != set(self.classes):
            raise ValueError(
                f"Expected a partition of the classes {list(classes)} but got one of "
                f"{list(self.classes)}."
            )
        return Partition(self.signs[:, [self.classes.index(name) for name in classes]], classes)

    def rotation(self, other: "Partition") -> Float[Tensor, "balances balances"]:
        """The matrix that maps a column of coordinates in this basis to those in another's."""
        return other.aligned(self.classes).basis @ self.basis.T

    def __str__(self) -> str:
        lines = []
        # Groups still to be written, with the prefixes of their own line and of those below.
        waiting = [(list(range(len(self.classes))), "", "")]
        while waiting:
            members, branch, below = waiting.pop()
            if len(members) == 1:
                lines.append(branch + self.classes[members[0]])
                continue
            j = self._balance_of[frozenset(members)]
            lines.append(f"{branch}[{j + 1}] {self.names[j]}")
            first, second = self.groups[j]
            waiting.append((second, f"{below}└── ", f"{below}    "))
            waiting.append((first, f"{below}├── ", f"{below}│   "))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Partition({self.signs.tolist()}, {list(self.classes)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partition):
            return NotImplemented
        return self.classes == other.classes and torch.equal(self.signs, other.signs)

    def __hash__(self) -> int:
        return hash((self.classes, self.names))


def _collect(tree: Tree, splits: list[tuple[list[str], list[str]]]) -> list[str]:
    """The leaves of a tree; appends its splits to the list, inner ones first."""
    if isinstance(tree, str):
        return [tree]
    if isinstance(tree, (int, float)) and not isinstance(tree, bool):
        return [str(tree)]
    if not isinstance(tree, Sequence) or len(tree) != 2:
        raise ValueError(
            "Expected a binary tree of class names, nested pairs as in [['a', 'b'], 'c'], but got "
            f"a node {tree!r}."
        )
    first, second = (_collect(side, splits) for side in tree)
    splits.append((first, second))
    return [*first, *second]
