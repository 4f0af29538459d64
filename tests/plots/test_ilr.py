"""Figures in log-ratio space: what is drawn agrees with the numbers, and nothing collides."""

import io
import itertools
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.text import Annotation, Text

from manifold_shap.explanation import Explanation
from manifold_shap.players import Players
from manifold_shap.plots import ilr_plane, ilr_space, interactive
from manifold_shap.plots.arrows import place
from manifold_shap.plots.ilr import angles as view
from manifold_shap.plots.ilr import clipped, walls
from manifold_shap.plots.ilr import towards as viewpoint
from manifold_shap.plots.path import View as Subspace
from manifold_shap.simplex.geometry import ilr_inv
from manifold_shap.simplex.partition import Partition


def explained(
    classes: int,
    players: int = 4,
    names: list[str] | None = None,
    outputs: list[str] | None = None,
    scale: float = 1.0,
) -> Explanation:
    generator = torch.Generator().manual_seed(classes + players)
    partition = Partition.sequential(outputs or [f"c{k}" for k in range(classes)])
    phi = scale * torch.randn(2, players, classes - 1, generator=generator, dtype=torch.float64)
    base = 0.2 * torch.randn(classes - 1, generator=generator, dtype=torch.float64)
    return Explanation(
        phi, torch.zeros_like(phi), base, base + phi.sum(1), torch.rand(2, players),
        Players.of_elements((players,), names), partition.names, "ilr", partition=partition,
    )  # fmt: skip


def save(figure: Figure) -> None:
    figure.savefig(io.BytesIO(), format="png")


def written(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text)]


def labels(axes: Axes) -> dict[str, Annotation]:
    return {label.get_text(): label for label in axes.findobj(Annotation)}


def drawn_ends(axes: Axes) -> np.ndarray:
    """Starts and ends of the arrows, in units of the axes."""
    arrows = [patch for patch in axes.get_children() if isinstance(patch, FancyArrowPatch)]
    return np.array([arrow._posA_posB for arrow in arrows])


# The subspace


@given(classes=st.integers(3, 10), seed=st.integers(0, 5), most=st.integers(1, 6))
@settings(max_examples=25, deadline=None)
def test_a_path_goes_from_base_to_prediction_by_the_steps(
    classes: int, seed: int, most: int
) -> None:
    explanation = explained(classes, 3 + seed)
    subspace = Subspace.of_row(explanation, 1, (2, 1), most, 2)
    axes = [1, 0]
    np.testing.assert_allclose(subspace.points[0], explanation.base[axes])
    np.testing.assert_allclose(subspace.points[-1], explanation.prediction[1, axes], atol=1e-9)
    order = explanation.norms()[1].argsort(descending=True)
    steps = np.diff(subspace.points, axis=0)
    shown = len(subspace.path.shown)
    np.testing.assert_allclose(steps[:shown], explanation.phi[1, order[:shown]][:, axes], atol=1e-9)


@pytest.mark.parametrize("classes", [3, 4, 7])
def test_class_directions_are_unit_vectors_at_equal_angles_in_the_whole_space(classes: int) -> None:
    numbers = tuple(range(1, classes))
    directions = Subspace.of_row(explained(classes), 0, numbers, 3, classes - 1).directions
    expected = (classes * np.eye(classes) - 1) / (classes - 1)
    np.testing.assert_allclose(directions @ directions.T, expected, atol=1e-12)


def test_classes_that_no_axis_tells_apart_share_a_vector_and_unseen_ones_have_none() -> None:
    tree = Partition.of_tree(((("0", "6"), "2"), ("1", ("7", "8"))))
    explanation = explained(6, outputs=list("062178")).in_basis(tree)
    subspace = Subspace.of_row(explanation, 0, ("0 : 6", "1 : 7+8"), 3, 2)
    vectors = {
        subspace.class_label(members, 200.0): vector for members, vector in subspace.class_vectors()
    }
    assert set(vectors) == {"class 0", "class 6", "class 1", "classes 7, 8"}
    # The figure of Noé et al., Fig. 7: opposite, and half as long; the two balances orthogonal.
    np.testing.assert_allclose(vectors["class 1"], -2 * vectors["classes 7, 8"], atol=1e-12)
    np.testing.assert_allclose(vectors["class 0"], -vectors["class 6"], atol=1e-12)
    assert vectors["class 0"] @ vectors["class 1"] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("classes", [3, 4])
def test_on_a_wall_two_classes_tie_above_all_others(classes: int) -> None:
    numbers = tuple(range(1, classes))
    explanation = explained(classes)
    subspace = Subspace.of_row(explanation, 0, numbers, 3, classes - 1)
    ties = subspace.walls()
    assert len(ties) == classes * (classes - 1) // 2
    for (first, second), edges in ties:
        log_p = ilr_inv(torch.as_tensor(edges.sum(0)), explanation.basis)
        assert log_p[first] == pytest.approx(log_p[second].item())
        others = [k for k in range(classes) if k not in (first, second)]
        assert (log_p[others] < log_p[first]).all()
        beside = torch.as_tensor(edges.sum(0) + 1e-3 * subspace.directions[first])
        assert ilr_inv(beside, explanation.basis).argmax() == first


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e3])
def test_class_vectors_are_magnified_by_a_round_factor_to_the_size_of_the_path(
    scale: float,
) -> None:
    explanation = explained(3, scale=scale)
    explanation = replace(explanation, base=0 * explanation.base, prediction=explanation.phi.sum(1))
    subspace = Subspace.of_row(explanation, 0, (1, 2), 8, 2)
    factor = subspace.magnification
    assert f"{factor:.0e}"[0] in "125"
    assert 0.1 < factor / np.abs(subspace.points).max() < 1
    assert ("×" in subspace.headline()[1]) == (factor != 1)


def test_a_path_that_goes_nowhere_is_drawn_all_the_same() -> None:
    explanation = explained(4)
    still = replace(
        explanation,
        phi=0 * explanation.phi,
        base=0 * explanation.base,
        prediction=0 * explanation.prediction,
    )
    save(ilr_plane(still))
    save(ilr_space(still))
    interactive(still)


# The plane


@pytest.mark.parametrize("classes", [3, 5])
def test_arrows_are_head_to_tail_from_base_to_prediction(classes: int) -> None:
    explanation = explained(classes)
    axes = ilr_plane(explanation).axes[0]
    ends = drawn_ends(axes)
    assert ends.shape == (4, 2, 2)
    np.testing.assert_allclose(ends[0, 0], explanation.base[:2])
    np.testing.assert_allclose(ends[1:, 0], ends[:-1, 1])
    np.testing.assert_allclose(ends[-1, 1], explanation.prediction[0, :2], atol=1e-9)
    order = explanation.norms()[0].argsort(descending=True)
    np.testing.assert_allclose(ends[:, 1] - ends[:, 0], explanation.phi[0, order, :2], atol=1e-9)
    assert axes.get_aspect() == 1


def test_regions_are_tinted_where_their_class_is_the_most_probable() -> None:
    explanation = explained(3)
    axes = ilr_plane(explanation, balances=(2, 1)).axes[0]
    low, high = np.array((axes.get_xlim(), axes.get_ylim())).T
    points = low + np.random.default_rng(0).random((200, 2)) * (high - low)
    inside = np.stack([patch.get_path().contains_points(points) for patch in axes.patches[:3]])
    assert (inside.sum(0) == 1).all()
    winner = ilr_inv(torch.as_tensor(points[:, ::-1].copy()), explanation.basis).argmax(1)
    np.testing.assert_array_equal(inside.argmax(0), winner)


def test_two_balances_of_more_show_no_regions_and_say_so() -> None:
    figure = ilr_plane(explained(5, outputs=list("abcde")), balances=("a+b+c+d : e", 2))
    assert all(isinstance(patch, FancyArrowPatch) for patch in figure.axes[0].patches)
    axes = figure.axes[0]
    assert axes.get_xlabel() == "log-ratio a+b+c+d : e (balance 4)"
    assert axes.get_ylabel() == "log-ratio a+b : c (balance 2)"
    assert "2 of 4 balances" in figure.get_suptitle()
    assert {"a, b", "c", "d", "e"} <= set(labels(axes))


def test_the_rest_is_one_grey_arrow() -> None:
    explanation = explained(4, players=60)
    figure = ilr_plane(explanation, most=5)
    ends = drawn_ends(figure.axes[0])
    assert len(ends) == 6
    np.testing.assert_allclose(ends[-1, 1], explanation.prediction[0, :2], atol=1e-9)
    assert "6: 55 other features" in written(figure)
    arrows = [a for a in figure.axes[0].get_children() if isinstance(a, FancyArrowPatch)]
    assert arrows[-1].get_edgecolor() != arrows[0].get_edgecolor()


# Both


SHAPES = [(4, 6), (5, 2), (10, 60)]
CASES = [(ilr_plane, 3, 1), (ilr_plane, 3, 4)]
CASES += [(plot, *shape) for plot in (ilr_plane, ilr_space) for shape in SHAPES]


@pytest.mark.parametrize(("plot", "classes", "players"), CASES)
def test_labels_do_not_collide_and_nothing_is_cut(plot, classes: int, players: int) -> None:
    figure = plot(explained(classes, players))
    save(figure)
    boxes = [Text.get_window_extent(label) for label in labels(figure.axes[-1]).values()]
    # Extents are as high as the tallest letter there is, which few of the labels have.
    for number, box in enumerate(boxes):
        for other in boxes[:number]:
            across = min(box.x1, other.x1) - max(box.x0, other.x0)
            above = min(box.y1, other.y1) - max(box.y0, other.y0)
            assert min(across, above) < 0.2 * box.height
    tight, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert min(tight.x0, tight.y0) >= -0.02
    assert tight.x1 <= width + 0.02
    assert tight.y1 <= height + 0.02


@pytest.mark.parametrize("plot", [ilr_plane, ilr_space])
def test_numbers_and_names_are_written_once(plot) -> None:
    names = ["price ($)", "a very long name of a feature that does not fit in its place " * 2]
    outputs = ["cost $5", "cost $9", "a class whose name is much too long for the figure", "d"]
    figure = plot(explained(4, players=2, names=names, outputs=outputs))
    save(figure)
    text = written(figure)
    assert {"1", "2", "base", "prediction", r"cost \$5", r"cost \$9"} <= set(text)
    legend = [label for label in text if label.startswith(("1: ", "2: "))]
    assert any(label.split(": ")[1].startswith(r"price (\$) = ") for label in legend)
    assert len(legend) == 2


@pytest.mark.parametrize("plot", [ilr_plane, ilr_space, interactive])
def test_two_classes_are_left_to_bars(plot) -> None:
    with pytest.raises(ValueError, match=r"classes.*but got 2 with 1; use plots\.bars"):
        plot(explained(2))


def test_three_classes_have_no_third_dimension() -> None:
    with pytest.raises(ValueError, match=r"at least 4 classes.*use plots\.ilr_plane"):
        ilr_space(explained(3))
    with pytest.raises(ValueError, match="at least 4 classes"):
        interactive(explained(3), balances=(1, 2, 3))


@pytest.mark.parametrize("plot", [ilr_plane, ilr_space, interactive])
def test_probabilities_are_refused(plot) -> None:
    explanation = replace(explained(4), space=ms.Probability(), partition=None)
    with pytest.raises(ValueError, match="Expected an explanation with output='ilr'"):
        plot(explanation)


@pytest.mark.parametrize(
    ("balances", "match"),
    [
        ((1,), "Expected `balances` to be 2 of them"),
        ("c0 : c1", "Expected `balances` to be 2 of them"),
        ((0, 1), r"from 1 to 4, or by name among .* but got 0"),
        ((1, 5), "from 1 to 4.*but got 5"),
        ((1, "c0 : c2"), "but got 'c0 : c2'; did you mean 'c0 : c1'"),
        ((1, "c0 : c1"), "different `balances` but got 1 more than once"),
    ],
)
def test_balances_that_are_not_there_are_refused(balances, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        ilr_plane(explained(5), balances=balances)


@pytest.mark.parametrize("plot", [ilr_plane, ilr_space, interactive])
def test_rows_out_of_range_and_no_feature_are_refused(plot) -> None:
    with pytest.raises(ValueError, match=r"`instance` to be a position from 0 to 1 .* but got 2"):
        plot(explained(4), 2)
    with pytest.raises(ValueError, match="Expected `most` of at least 1"):
        plot(explained(4), most=0)


# The space


def test_arrows_and_labels_follow_the_view() -> None:
    figure = ilr_space(explained(4))
    axes = figure.axes[-1]
    save(figure)
    before, there = drawn_ends(axes), labels(axes)["1"].xy
    np.testing.assert_allclose(before[1:, 0], before[:-1, 1])
    axes.view_init(30, axes.azim + 40)
    save(figure)
    assert not np.allclose(before, drawn_ends(axes))
    assert not np.allclose(there, labels(axes)["1"].xy)


def test_walls_reach_to_the_box_and_no_further() -> None:
    subspace = Subspace.of_row(explained(4), 0, (1, 2, 3), 8, 3)
    corners = np.array([[-1.0, -2, -3], [3, 2, 1]])
    six = walls(subspace, corners)
    assert len(six) == 6
    for wall in six:
        assert (wall >= corners[0] - 1e-9).all()
        assert (wall <= corners[1] + 1e-9).all()
        assert np.isclose(wall[:, None], corners).any()
        assert (np.abs(wall).max(1) < 1e-9).any()


def test_walls_stand_in_the_whole_space_only() -> None:
    assert len(ilr_space(explained(4)).axes[-1].collections) == 1
    assert not ilr_space(explained(5)).axes[-1].collections


def test_a_clipped_triangle_keeps_the_part_in_the_box() -> None:
    corners = np.array([[-1.0, -1, -1], [1, 1, 1]])
    triangle = np.array([[0.0, 0, 0], [4, 0, 0], [0, 4, 0]])
    expected = {(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)}
    assert {tuple(point) for point in clipped(triangle, corners).tolist()} == expected


def test_the_view_is_across_the_path() -> None:
    for along in np.eye(3):
        towards = viewpoint(*view(along[None]))
        assert np.linalg.norm(towards) == pytest.approx(1)
        assert abs(towards @ along) < 0.5


# Places of labels


def test_a_label_stands_beside_what_is_drawn() -> None:
    frame = np.array([[0.0, 0], [100, 100]])
    line = np.array([[[0.0, 50], [100, 50]]])
    nothing = np.zeros((0, 2))
    ((where),) = place([np.array([[50.0, 50]])], np.array([[20.0, 8]]), line, nothing, frame)
    assert abs(where.offset[1]) > 4
    assert not where.leader
    (corner,) = place([np.zeros((1, 2))], np.array([[20.0, 8]]), line, nothing, frame)
    assert (corner.offset >= (10, 4)).all()


def test_many_labels_of_one_point_stand_around_it_with_lines_to_it() -> None:
    frame = np.array([[0.0, 0], [200, 200]])
    anchors = [np.full((1, 2), 100.0)] * 12
    places = place(
        anchors, np.array([[12.0, 8]] * 12), np.zeros((0, 2, 2)), np.full((1, 2), 100.0), frame
    )
    middles = np.stack([where.offset for where in places])
    apart = np.abs(middles[:, None] - middles) / (12, 8)
    assert (apart.max(-1) + np.eye(12) >= 1).all()
    assert any(where.leader for where in places)


# Interactive


def traces(explanation: Explanation, **settings) -> list:
    return list(interactive(explanation, **settings).data)


@pytest.mark.parametrize("classes", [3, 4, 10])
def test_lines_go_from_base_to_prediction_and_tell_norm_and_composition(classes: int) -> None:
    explanation = explained(classes)
    steps = [trace for trace in traces(explanation) if trace.showlegend]
    axes = 2 if classes == 3 else 3
    paths = [np.stack([trace[axis] for axis in "xyz"[:axes]], 1) for trace in steps]
    np.testing.assert_allclose(paths[0][0], explanation.base[:axes])
    np.testing.assert_allclose(paths[-1][-1], explanation.prediction[0, :axes], atol=1e-9)
    for before, after in itertools.pairwise(paths):
        np.testing.assert_allclose(before[-1], after[0])
    largest = int(explanation.norms()[0].argmax())
    hover = steps[0].hovertext
    assert f"{explanation.players.names[largest]} = " in hover
    assert f"norm {explanation.norms()[0, largest]:.3g}" in hover
    parts = explanation.compositions()[0, largest]
    k = int(parts.argmax())
    assert f"c{k}: {parts[k]:.3g}" in hover


def test_kinds_of_traces_follow_the_number_of_balances() -> None:
    assert {trace.type for trace in traces(explained(3))} == {"scatter"}
    assert {trace.type for trace in traces(explained(5), balances=(4, 1))} == {"scatter"}
    assert {trace.type for trace in traces(explained(5))} == {"scatter3d", "cone"}
    assert {trace.type for trace in traces(explained(4))} == {"scatter3d", "cone", "mesh3d"}


@pytest.mark.parametrize("classes", [3, 4, 6])
def test_what_has_text_stands_well_within_the_axes_which_would_cut_it(classes: int) -> None:
    layout = (figure := interactive(explained(classes))).layout
    axes = [layout.xaxis, layout.yaxis]
    axes = axes if classes == 3 else [layout.scene.xaxis, layout.scene.yaxis, layout.scene.zaxis]
    low, high = np.array([axis.range for axis in axes]).T
    room = 0.1 * (high - low).max()
    texts = [trace for trace in figure.data if trace.text]
    assert len(texts) == 2 + 4 + len(axes) + 1
    for trace in texts:
        points = np.stack([trace[name] for name in "xyz"[: len(axes)]], 1)
        assert (points - room >= low).all()
        assert (points + room <= high).all()


def test_walls_of_the_interactive_figure_fill_its_box() -> None:
    figure = interactive(explained(4))
    scene = figure.layout.scene
    corners = np.array([scene.xaxis.range, scene.yaxis.range, scene.zaxis.range]).T
    meshes = [trace for trace in figure.data if trace.type == "mesh3d"]
    expected = walls(Subspace.of_row(explained(4), 0, (1, 2, 3), 8, 3), corners)
    assert len(meshes) == len(expected) == 6
    for mesh, wall in zip(meshes, expected, strict=True):
        points = np.stack((mesh.x, mesh.y, mesh.z), 1)
        np.testing.assert_allclose(points, wall)
        triangles = points[np.stack((mesh.i, mesh.j, mesh.k), 1)]
        crosses = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
        # Together they cover the wall once: their oriented areas add up to its own.
        around = np.cross(points, np.roll(points, -1, 0)).sum(0)
        np.testing.assert_allclose(crosses.sum(0), around, atol=1e-9)
        areas = np.linalg.norm(crosses, axis=1)
        assert areas.sum() == pytest.approx(np.linalg.norm(around))


def test_names_are_no_markup() -> None:
    explanation = explained(3, 1, names=["<b>x</b> $y$"])
    (step,) = (trace for trace in traces(explanation) if trace.showlegend)
    assert "&lt;b&gt;x&lt;/b&gt; &#36;y&#36;" in step.name
    assert "$" not in step.hovertext
    assert interactive(explanation).to_html(include_plotlyjs=False)


def test_without_plotly_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(ImportError, match=r"pip install 'manifold_shap\[plotly\]'"):
        interactive(explained(3))


def test_plotly_stays_out_until_it_is_asked_for() -> None:
    code = "import sys, manifold_shap.plots; sys.exit('plotly' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
