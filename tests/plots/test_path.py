"""Paths on the simplex, their views on balances, and what all their plots refuse."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.text import Annotation

import manifold_shap as ms
from manifold_shap.plots import (
    compositions,
    cumulative,
    ilr_plane,
    ilr_space,
    parallel_coordinates,
)
from tests.plots.helpers import composed

OF_A_ROW = [compositions, cumulative, parallel_coordinates, ilr_plane, ilr_space]


@pytest.mark.parametrize("plot", OF_A_ROW)
def test_what_cannot_be_drawn_is_refused(plot: Callable[..., object]) -> None:
    explanation = composed(classes=4)
    with pytest.raises(ValueError, match="Expected an explanation with space='ilr' but"):
        plot(replace(explanation, space=ms.spaces.Probability(), partition=None))
    with pytest.raises(ValueError, match=r"`row` to be a whole number from -2 to 1 but got 2"):
        plot(explanation, row=2)
    with pytest.raises(
        ValueError, match="Expected `most` to be a whole number of at least 1 but got 0"
    ):
        plot(explanation, most=0)
    with pytest.raises(ValueError, match="nothing to show"):
        plot(composed(classes=4, rows=0))


@pytest.mark.parametrize(
    ("balances", "match"),
    [
        ((1,), "Expected `balances` to be 2 of them"),
        ("class 0 : class 1", "Expected `balances` to be 2 of them"),
        ((0, 1), r"from 1 to 4, or by name among .* but got 0"),
        ((1, 5), "from 1 to 4.*but got 5"),
        ((1, "class 0 : class 2"), "but got 'class 0 : class 2'"),
        ((1, "class 0 : class 1"), "different `balances` but got 'class 0 : class 1' more than"),
    ],
)
def test_balances_that_are_not_there_are_refused(balances, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        ilr_plane(composed(classes=5), balances=balances)


def test_classes_that_no_axis_tells_apart_share_a_vector_and_unseen_ones_have_none() -> None:
    tree = ms.simplex.Partition.of_tree(((("0", "6"), "2"), ("1", ("7", "8"))))
    explanation = composed(classes=tuple("062178")).in_basis(tree)
    axes = ilr_plane(explanation, balances=("0 : 6", "1 : 7+8"))
    ends = [np.array(line.get_xydata()[-1]) for line in axes.lines if len(line.get_xydata()) == 2]
    said = {text.get_text() for text in axes.texts} | {
        text.get_text() for text in axes.findobj(Annotation)
    }
    assert {"class 0", "class 6", "class 1", "classes 7, 8"} <= said
    assert not any("2" in each for each in said if each.startswith("class"))
    # The figure of Noé et al., Fig. 7: opposite, and half as long; the two balances orthogonal.
    zero, six, one, both = ends
    np.testing.assert_allclose(one, -2 * both, atol=1e-9)
    np.testing.assert_allclose(zero, -six, atol=1e-9)
    assert zero @ one == pytest.approx(0, abs=1e-9)
