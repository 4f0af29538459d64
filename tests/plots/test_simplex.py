"""Compositions of a row as bars, lines, planes, spaces and trees: they agree with the numbers."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

import manifold_shap as ms
from manifold_shap import simplex
from manifold_shap.plots import (
    bifurcation_tree,
    canvas,
    compositions,
    cumulative,
    ilr_plane,
    ilr_space,
    parallel_coordinates,
)
from manifold_shap.simplex.partition import Partition
from tests.plots.helpers import composed


def distribution(explanation: ms.Explanation, coordinates: torch.Tensor) -> np.ndarray:
    return simplex.ilr_inv(coordinates.double(), explanation.basis).exp().numpy()


def order_of(explanation: ms.Explanation, row: int = 0) -> list[int]:
    return explanation.norms()[row].argsort(descending=True).tolist()


def heights(axes: Axes) -> np.ndarray:
    return np.array([bar.get_width() for bar in axes.patches])


def titles(panels: list[Axes]) -> list[str]:
    return [axes.get_title(loc="left") for axes in panels]


# -- bars and lines -----------------------------------------------------------------------------


def test_every_panel_is_one_players_composition_the_largest_norm_first() -> None:
    explanation = composed(players=5, classes=4).with_labels([7, 13])
    panels = compositions(explanation, row=1)
    expected = explanation.compositions()[1, order_of(explanation, 1)].numpy()
    p = distribution(explanation, explanation.prediction[1])
    amount = ms.spaces.Probability().amount
    for axes, parts in zip(panels, expected, strict=True):
        np.testing.assert_allclose(heights(axes), parts, rtol=1e-5)
        colours = [to_hex(bar.get_facecolor()) for bar in axes.patches]
        assert [k for k, colour in enumerate(colours) if colour != canvas.NEUTRAL] == [p.argmax()]
        assert [number.get_text() for number in axes.texts] == [amount(float(q)) for q in parts]
    first = order_of(explanation, 1)[0]
    norm, x = explanation.norms()[1, first], explanation.x[1, first]
    assert titles(panels)[0] == f"x{first} = {x:.4g}\nnorm {norm:.3g}".replace("-", "−")
    name = explanation.classes[p.argmax()]
    headline = panels.figure.get_suptitle().split("\n")[0]
    assert headline == f"Probability of {name}: {amount(float(p.max()))}, row 13 (position 1 of 2)"


def test_norms_have_errors_that_show() -> None:
    explanation = composed(players=1, classes=3)
    phi = torch.tensor([3.0, 4.0]).expand(2, 1, 2)
    for error, said in ((0.2, "norm 5.00 ± 0.20"), (1e-7, "norm 5"), (0.0, "norm 5")):
        covariance = error**2 * torch.eye(2).expand(2, 1, 2, 2)
        panels = compositions(replace(explanation, phi=phi, covariance=covariance))
        assert titles(panels)[0].endswith(said)
        assert ("standard error" in panels.figure.get_supxlabel()) == ("±" in said)


def test_the_other_players_are_perturbed_together() -> None:
    explanation = composed(players=9)
    panels = compositions(explanation, max_display=3)
    rest = explanation.phi[0, order_of(explanation)[3:]].double().sum(0)
    assert len(panels) == 4
    np.testing.assert_allclose(heights(panels[-1]), distribution(explanation, rest), rtol=1e-5)
    name, norm = titles(panels)[-1].split("\n")
    assert name == "6 other features"
    assert float(norm.removeprefix("norm ")) == pytest.approx(rest.norm().item(), rel=0.01)


def test_panels_and_lines_lead_from_the_base_to_the_prediction() -> None:
    explanation = composed(players=5, classes=9)
    path = explanation.base[1] + explanation.phi[1, order_of(explanation, 1)].cumsum(0)
    states = distribution(explanation, torch.cat((explanation.base[1:], path)))
    np.testing.assert_allclose(states[-1], distribution(explanation, explanation.prediction[1]))
    panels = cumulative(explanation, row=1)
    np.testing.assert_allclose([heights(axes) for axes in panels], states, rtol=1e-4)
    assert not panels[0].collections
    for before, axes in itertools.pairwise(panels):
        (strokes,) = axes.collections
        x, y = np.array(strokes.get_segments()).mean(1).T
        np.testing.assert_allclose(x, heights(before))
        np.testing.assert_allclose(y, range(9))
    axes = parallel_coordinates(explanation, row=1)
    lines = [np.asarray(line.get_ydata()) for line in axes.lines]
    np.testing.assert_allclose(np.stack(lines, 1), states, rtol=1e-5)
    # In the order of their ends, of which the last are grey.
    said = [text.get_text().split("  ")[0] for text in axes.get_legend().get_texts()]
    assert said == [explanation.classes[k] for k in states[-1].argsort()[::-1]]
    grey = [k for k, line in enumerate(axes.lines) if line.get_color() == canvas.NEUTRAL]
    assert set(grey) == set(states[-1].argsort()[:2])


# -- planes and spaces --------------------------------------------------------------------------


def solid(axes: Axes) -> list[np.ndarray]:
    """Ends of the steps."""
    lines = [line for line in axes.lines if line.get_linestyle() == "-"]
    points = [
        np.stack(line.get_data_3d() if hasattr(line, "get_data_3d") else line.get_data(), 1)
        for line in lines
    ]
    return [each for each in points if len(each) == 2]


@pytest.mark.parametrize(("plot", "axes"), [(ilr_plane, 2), (ilr_space, 3)])
def test_steps_are_head_to_tail_from_base_to_prediction(plot, axes: int) -> None:
    explanation = composed(classes=5)
    steps = np.stack(solid(plot(explanation)))
    np.testing.assert_allclose(steps[0, 0], explanation.base[0, :axes])
    np.testing.assert_allclose(steps[1:, 0], steps[:-1, 1])
    np.testing.assert_allclose(steps[-1, 1], explanation.prediction[0, :axes], atol=1e-9)
    order = order_of(explanation)
    moved = steps[:, 1] - steps[:, 0]
    np.testing.assert_allclose(moved, explanation.phi[0, order, :axes], atol=1e-9)
    (legend,) = plt.gcf().legends
    said = [text.get_text() for text in legend.get_texts()]
    assert [each.split(" = ")[0] for each in said] == [
        *(f"x{k}" for k in order), "base", "prediction"
    ]  # fmt: skip


def test_rays_of_a_whole_plane_are_where_two_classes_tie_above_the_third() -> None:
    explanation = composed()
    axes = ilr_plane(explanation)
    (rays,) = [each for each in axes.collections if each.get_linestyles()[0][1]]
    for start, end in rays.get_segments():
        assert tuple(start) == (0, 0)
        log_p = simplex.ilr_inv(torch.as_tensor(end / 1e3), explanation.basis).sort().values
        torch.testing.assert_close(log_p[2], log_p[1])
    assert not ilr_plane(composed(classes=4)).collections


def test_walls_of_a_whole_space_are_where_two_classes_tie_above_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    explanation, given, set_verts = composed(classes=4), list[Any](), Poly3DCollection.set_verts

    def recorded(self: Any, faces: Any, *more: Any, **named: Any) -> None:
        given.append(faces)
        set_verts(self, faces, *more, **named)

    monkeypatch.setattr(Poly3DCollection, "set_verts", recorded)
    assert len(ilr_space(explanation).collections) == 1
    corners = np.asarray(given[0])[:, :3]
    assert not ilr_space(composed(classes=5)).collections
    assert len(corners) == 6
    for points in corners:
        log_p = simplex.ilr_inv(torch.as_tensor(points), explanation.basis).sort(1).values
        torch.testing.assert_close(log_p[:, -1], log_p[:, -2])


def test_two_balances_of_more_say_so_and_name_what_they_lack() -> None:
    axes = ilr_plane(composed(classes=tuple("abcde")), balances=("a+b+c+d : e", 2))
    assert axes.get_xlabel() == "log-ratio a+b+c+d : e (balance 4)"
    assert axes.get_ylabel() == "log-ratio a+b : c (balance 2)"
    assert "2 of 4 balances" in axes.figure.get_suptitle()
    # Classes that no axis shown tells apart share a vector.
    assert {"a, b", "c", "d", "e"} <= {text.get_text() for text in axes.texts}


@pytest.mark.parametrize(
    ("plot", "ratios"),
    [("ilr_plane", True), ("waterfall", True), ("bar", False), ("parallel_coordinates", False)],
)
def test_figures_of_log_ratios_say_which_classes_a_positive_one_favours(
    plot: str, ratios: bool
) -> None:
    drawn = getattr(ms.plots, plot)(composed())
    assert ("before the colon" in drawn.figure.get_supxlabel()) == ratios


@pytest.mark.parametrize(
    "tree", [["a", "b"], [["a", ["d", "c"]], [["e", "b"], "f"]], [[["c", "b"], "a"], "d"]]
)
def test_trees_have_a_node_per_balance_and_groups_side_by_side(tree: list) -> None:
    partition = Partition.of_tree(tree)
    axes = bifurcation_tree(tree)
    leaves = {label.get_text(): float(k) for k, label in enumerate(axes.get_xticklabels())}
    assert sorted(leaves) == sorted(partition.classes)
    nodes = {text.get_text(): text.get_position() for text in axes.texts}
    for number, (first, second) in enumerate(partition.groups, 1):
        x, level = nodes[str(number)]
        left, right = (sorted(leaves[partition.classes[k]] for k in g) for g in (first, second))
        both = [*left, *right]
        assert both == list(np.arange(both[0], both[-1] + 1))
        assert both[0] < x < both[-1]
        assert level >= 1
