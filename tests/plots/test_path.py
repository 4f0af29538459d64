"""Paths on the simplex, their views on balances, and what all their plots refuse."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import manifold_shap as ms
from manifold_shap.plots import (
    compositions,
    cumulative,
    ilr_plane,
    ilr_space,
    parallel_coordinates,
)
from manifold_shap.plots.ilr import walls
from manifold_shap.plots.path import Path, View
from manifold_shap.simplex.geometry import ilr_inv
from manifold_shap.simplex.partition import Partition
from tests.plots.helpers import composed

OF_A_ROW = [compositions, cumulative, parallel_coordinates, ilr_plane, ilr_space]


@pytest.mark.parametrize("plot", OF_A_ROW)
def test_what_cannot_be_drawn_is_refused(plot: Callable[..., object]) -> None:
    explanation = composed(classes=4)
    with pytest.raises(ValueError, match="Expected an explanation with output='ilr' but"):
        plot(replace(explanation, space=ms.Probability(), partition=None))
    with pytest.raises(ValueError, match=r"`row` to be a whole number from -2 to 1 but got 2"):
        plot(explanation, row=2)
    with pytest.raises(
        ValueError, match="Expected `most` to be a whole number of at least 1 but got 0"
    ):
        plot(explanation, most=0)
    with pytest.raises(ValueError, match="nothing to show"):
        plot(composed(classes=4, rows=0))


def test_players_that_a_row_lacks_have_no_step() -> None:
    explanation = composed(players=3, classes=4)
    phi = explanation.phi.clone()
    phi[1, 2] = torch.nan
    owners = torch.tensor([[0, 1, 2], [1, 0, -1]])
    players = ms.Players.of_rows((3,), 3)
    prediction = explanation.base + phi.nansum(1)
    fewer = replace(explanation, phi=phi, owners=owners, players=players, prediction=prediction)
    path = Path.of_row(fewer, 1, 8)
    assert sorted(path.shown.tolist()) == [0, 1]
    np.testing.assert_allclose(path.coordinates[-1], prediction[1])
    said = [f"player {k} = {fewer.x[1, 1 - k]:.4g}".replace("-", "−") for k in path.shown]
    assert path.labels(150.0) == said
    for plot in OF_A_ROW:
        plot(fewer, row=1)


@given(classes=st.integers(3, 10), seed=st.integers(0, 5), most=st.integers(1, 6))
@settings(max_examples=25, deadline=None)
def test_a_path_goes_from_base_to_prediction_by_the_steps(
    classes: int, seed: int, most: int
) -> None:
    explanation = composed(3 + seed, classes)
    view = View.on_balances(explanation, 1, (2, 1), most, 2)
    axes = [1, 0]
    np.testing.assert_allclose(view.points[0], explanation.base[1, axes])
    np.testing.assert_allclose(view.points[-1], explanation.prediction[1, axes], atol=1e-9)
    order = explanation.norms()[1].argsort(descending=True)
    steps = np.diff(view.points, axis=0)
    shown = len(view.shown)
    np.testing.assert_allclose(steps[:shown], explanation.phi[1, order[:shown]][:, axes], atol=1e-9)


@pytest.mark.parametrize("classes", [3, 4, 7])
def test_class_directions_are_unit_vectors_at_equal_angles_in_the_whole_space(classes: int) -> None:
    numbers = tuple(range(1, classes))
    directions = View.on_balances(composed(classes=classes), 0, numbers, 3, classes - 1).directions
    expected = (classes * np.eye(classes) - 1) / (classes - 1)
    np.testing.assert_allclose(directions @ directions.T, expected, atol=1e-12)


def test_classes_that_no_axis_tells_apart_share_a_vector_and_unseen_ones_have_none() -> None:
    tree = Partition.of_tree(((("0", "6"), "2"), ("1", ("7", "8"))))
    explanation = composed(classes=tuple("062178")).in_basis(tree)
    view = View.on_balances(explanation, 0, ("0 : 6", "1 : 7+8"), 3, 2)
    vectors = {view.class_label(members, 200.0): vector for members, vector in view.class_vectors()}
    assert set(vectors) == {"class 0", "class 6", "class 1", "classes 7, 8"}
    # The figure of Noé et al., Fig. 7: opposite, and half as long; the two balances orthogonal.
    np.testing.assert_allclose(vectors["class 1"], -2 * vectors["classes 7, 8"], atol=1e-12)
    np.testing.assert_allclose(vectors["class 0"], -vectors["class 6"], atol=1e-12)
    assert vectors["class 0"] @ vectors["class 1"] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("classes", [3, 4])
def test_on_a_wall_two_classes_tie_above_all_others(classes: int) -> None:
    numbers = tuple(range(1, classes))
    explanation = composed(classes=classes)
    view = View.on_balances(explanation, 0, numbers, 3, classes - 1)
    box = np.repeat([[-1.0], [1.0]], classes - 1, axis=1)
    pairs = itertools.combinations(range(classes), 2)
    for (first, second), wall in zip(pairs, walls(view, box), strict=True):
        log_p = ilr_inv(torch.as_tensor(wall.mean(0)), explanation.basis)
        assert log_p[first] == pytest.approx(log_p[second].item())
        others = [k for k in range(classes) if k not in (first, second)]
        assert (log_p[others] < log_p[first]).all()
        beside = torch.as_tensor(wall.mean(0) + 1e-3 * view.directions[first])
        assert ilr_inv(beside, explanation.basis).argmax() == first


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e3])
def test_class_vectors_are_magnified_by_a_round_factor_to_the_size_of_the_path(
    scale: float,
) -> None:
    explanation = composed(scale=scale)
    explanation = replace(explanation, base=0 * explanation.base, prediction=explanation.phi.sum(1))
    view = View.on_balances(explanation, 0, (1, 2), 8, 2)
    factor = view.magnification
    assert f"{factor:.0e}"[0] in "125"
    assert 0.1 < factor / np.abs(view.points).max() < 1
    assert ("×" in view.headline()[1]) == (factor != 1)


@pytest.mark.parametrize(
    ("balances", "match"),
    [
        ((1,), "Expected `balances` to be 2 of them"),
        ("class 0 : class 1", "Expected `balances` to be 2 of them"),
        ((0, 1), r"from 1 to 4, or by name among .* but got 0"),
        ((1, 5), "from 1 to 4.*but got 5"),
        ((1, "class 0 : class 2"), "but got 'class 0 : class 2'; did you mean 'class 0 : class 1'"),
        ((1, "class 0 : class 1"), "different `balances` but got 'class 0 : class 1' more than"),
    ],
)
def test_balances_that_are_not_there_are_refused(balances, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        ilr_plane(composed(classes=5), balances=balances)
