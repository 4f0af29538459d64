"""Bifurcation trees: nodes and leaves stand where the partition has them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from manifold_shap.plots import bifurcation_tree
from manifold_shap.simplex.partition import Partition


@st.composite
def sign_tables(draw: st.DrawFn) -> np.ndarray:
    """Of a tree of up to twelve classes, the classes and the balances in any order."""
    leaves = draw(st.permutations(range(draw(st.integers(2, 12)))))
    splits: list[tuple[list[int], list[int]]] = []
    split(draw, leaves, splits)
    found = np.zeros((len(splits), len(leaves)), dtype=np.int64)
    for row, (first, second) in zip(draw(st.permutations(list(found))), splits, strict=True):
        row[first], row[second] = 1, -1
    return found


def split(draw: st.DrawFn, members: list[int], splits: list[tuple[list[int], list[int]]]) -> None:
    if len(members) > 1:
        cut = draw(st.integers(1, len(members) - 1))
        splits.append((members[:cut], members[cut:]))
        split(draw, members[:cut], splits)
        split(draw, members[cut:], splits)


def tree_of(signs: np.ndarray) -> tuple[Partition, Figure]:
    partition = Partition(signs, [f"c{k}" for k in range(signs.shape[1])])
    return partition, bifurcation_tree(partition).figure


def leaves_of(figure: Figure) -> dict[str, float]:
    return {text.get_text(): text.xy[0] for text in figure.axes[0].texts if hasattr(text, "xy")}


def nodes_of(figure: Figure) -> list[tuple[float, float]]:
    texts = [text for text in figure.axes[0].texts if not hasattr(text, "xy")]
    numbered = [rf"$\tilde{{p}}_{{{number + 1}}}$" for number in range(len(texts))]
    assert [text.get_text() for text in texts] == numbered
    return [text.get_position() for text in texts]


@settings(max_examples=10, deadline=None)
@given(signs=sign_tables())
def test_trees_have_a_node_per_balance_and_groups_side_by_side(signs: np.ndarray) -> None:
    partition, figure = tree_of(signs)
    leaves, nodes = leaves_of(figure), nodes_of(figure)
    assert sorted(leaves.values()) == list(range(len(partition.classes)))
    assert len(nodes) == len(partition.groups)
    for (x, level), (first, second) in zip(nodes, partition.groups, strict=True):
        left, right = (
            sorted(leaves[partition.classes[k]] for k in group) for group in (first, second)
        )
        both = [*left, *right]
        assert both == list(np.arange(both[0], both[-1] + 1))
        assert both[0] < x < both[-1]
        assert level > 0
    groups_of = [frozenset(first + second) for first, second in partition.groups]
    tops = dict(zip(groups_of, nodes, strict=True))
    for line, groups in zip(figure.axes[0].lines, partition.groups, strict=True):
        for (x, y), group in zip(line.get_xydata()[[0, -1]], groups, strict=True):
            expected = tops.get(frozenset(group), (x, 0))
            assert (x, y) == expected
            assert expected[1] < tops[frozenset(groups[0] + groups[1])][1]
