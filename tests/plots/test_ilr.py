"""Planes and spaces of log-ratios: arrows agree with the numbers, nothing collides."""

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch
from matplotlib.text import Annotation

from manifold_shap.plots import ilr_plane, ilr_space
from manifold_shap.simplex.geometry import ilr_inv
from tests.plots.helpers import assert_nothing_is_cut, composed, overlapping

CASES = [(ilr_plane, 60, 10), (ilr_space, 6, 4)]


def annotations(axes: Axes) -> dict[str, Annotation]:
    return {label.get_text(): label for label in axes.findobj(Annotation)}


def drawn_ends(axes: Axes) -> np.ndarray:
    """Starts and ends of the arrows, in units of the axes."""
    arrows = [patch for patch in axes.get_children() if isinstance(patch, FancyArrowPatch)]
    return np.array([arrow._posA_posB for arrow in arrows])


def test_arrows_are_head_to_tail_from_base_to_prediction() -> None:
    explanation = composed(classes=5)
    axes = ilr_plane(explanation).figure.axes[0]
    ends = drawn_ends(axes)
    assert ends.shape == (4, 2, 2)
    np.testing.assert_allclose(ends[0, 0], explanation.base[0, :2])
    np.testing.assert_allclose(ends[1:, 0], ends[:-1, 1])
    np.testing.assert_allclose(ends[-1, 1], explanation.prediction[0, :2], atol=1e-9)
    order = explanation.norms()[0].argsort(descending=True)
    np.testing.assert_allclose(ends[:, 1] - ends[:, 0], explanation.phi[0, order, :2], atol=1e-9)
    assert axes.get_aspect() == 1


def test_regions_are_tinted_where_their_class_is_the_most_probable() -> None:
    explanation = composed()
    axes = ilr_plane(explanation, balances=(2, 1)).figure.axes[0]
    low, high = np.array((axes.get_xlim(), axes.get_ylim())).T
    points = low + np.random.default_rng(0).random((200, 2)) * (high - low)
    inside = np.stack([patch.get_path().contains_points(points) for patch in axes.patches[:3]])
    assert (inside.sum(0) == 1).all()
    winner = ilr_inv(torch.as_tensor(points[:, ::-1].copy()), explanation.basis).argmax(1)
    np.testing.assert_array_equal(inside.argmax(0), winner)


def test_two_balances_of_more_show_no_regions_and_say_so() -> None:
    figure = ilr_plane(composed(classes=tuple("abcde")), balances=("a+b+c+d : e", 2)).figure
    assert all(isinstance(patch, FancyArrowPatch) for patch in figure.axes[0].patches)
    axes = figure.axes[0]
    assert axes.get_xlabel() == "log-ratio a+b+c+d : e (balance 4)"
    assert axes.get_ylabel() == "log-ratio a+b : c (balance 2)"
    assert "2 of 4 balances" in figure.get_suptitle()
    assert {"a, b", "c", "d", "e"} <= set(annotations(axes))


def test_a_predicted_class_that_no_shown_balance_has_is_named() -> None:
    explanation = composed(classes=tuple("abcde"), rows=6)
    likeliest = ilr_inv(explanation.prediction, explanation.basis).argmax(1)
    for row in (int((likeliest > 2).nonzero()[0]), int((likeliest <= 2).nonzero()[0])):
        title = ilr_plane(explanation, row, balances=(1, 2)).figure.get_suptitle()
        named = f"no balance shown has {'abcde'[likeliest[row]]}" in title
        assert named == ("no balance shown" in title) == bool(likeliest[row] > 2)


@pytest.mark.parametrize(("plot", "players", "classes"), CASES)
def test_labels_do_not_collide_and_nothing_is_cut(plot, players: int, classes: int) -> None:
    figure = plot(composed(players, classes)).figure
    assert_nothing_is_cut(figure)
    assert not overlapping(list(annotations(figure.axes[-1]).values()), tolerance=0.2)


@pytest.mark.parametrize(
    ("plot", "classes", "said"),
    [
        (ilr_plane, 2, r"but got 2 with 1; use plots\.waterfall"),
        (ilr_space, 2, r"but got 2 with 1; use plots\.waterfall"),
        (ilr_space, 3, r"at least 4 classes.*use plots\.ilr_plane"),
    ],
)
def test_too_few_classes_are_left_to_other_plots(plot, classes: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        plot(composed(classes=classes))


def test_arrows_and_labels_follow_the_view() -> None:
    figure = ilr_space(composed(classes=4)).figure
    axes = figure.axes[-1]
    figure.draw_without_rendering()
    before, there = drawn_ends(axes), annotations(axes)["1"].xy
    np.testing.assert_allclose(before[1:, 0], before[:-1, 1])
    axes.view_init(30, axes.azim + 40)
    figure.draw_without_rendering()
    assert not np.allclose(before, drawn_ends(axes))
    assert not np.allclose(there, annotations(axes)["1"].xy)


def test_walls_lie_in_the_box_of_the_whole_space_where_two_classes_tie_above_all_others() -> None:
    explanation = composed(classes=4)
    axes = ilr_space(explanation).figure.axes[-1]
    (drawn,) = axes.collections
    low, high = np.array((axes.get_xlim(), axes.get_ylim(), axes.get_zlim())).T
    corners = np.asarray(drawn._faces)[:, :3]
    assert not ilr_space(composed(classes=5)).figure.axes[-1].collections
    assert len(corners) == 6
    for points in corners:
        assert (points >= low - 1e-6).all()
        assert (points <= high + 1e-6).all()
        log_p = ilr_inv(torch.as_tensor(points), explanation.basis).sort(1).values
        torch.testing.assert_close(log_p[:, -1], log_p[:, -2])
