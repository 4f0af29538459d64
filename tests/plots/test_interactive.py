"""Interactive figures: their traces agree with the numbers."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

import manifold_shap as ms
from manifold_shap.plots import interactive
from manifold_shap.plots.ilr import walls
from manifold_shap.plots.path import View
from tests.plots.helpers import composed


def traces(explanation: ms.Explanation, **settings) -> list:
    return list(interactive(explanation, **settings).data)


@pytest.mark.parametrize("classes", [3, 4, 10])
def test_lines_go_from_base_to_prediction_and_tell_norm_and_composition(classes: int) -> None:
    explanation = composed(classes=classes)
    steps = [trace for trace in traces(explanation) if trace.showlegend]
    axes = 2 if classes == 3 else 3
    paths = [np.stack([trace[axis] for axis in "xyz"[:axes]], 1) for trace in steps]
    np.testing.assert_allclose(paths[0][0], explanation.base[0, :axes])
    np.testing.assert_allclose(paths[-1][-1], explanation.prediction[0, :axes], atol=1e-9)
    for before, after in itertools.pairwise(paths):
        np.testing.assert_allclose(before[-1], after[0])
    largest = int(explanation.norms()[0].argmax())
    hover = steps[0].hovertext
    assert f"{explanation.players.names[largest]} = " in hover
    assert f"norm {explanation.norms()[0, largest]:.3g}" in hover
    parts = explanation.compositions()[0, largest]
    k = int(parts.argmax())
    assert f"class {k}: {parts[k]:.3g}" in hover


def test_kinds_of_traces_follow_the_number_of_balances() -> None:
    assert {trace.type for trace in traces(composed())} == {"scatter"}
    assert {trace.type for trace in traces(composed(classes=5), balances=(4, 1))} == {"scatter"}
    assert {trace.type for trace in traces(composed(classes=5))} == {"scatter3d", "cone"}
    assert {trace.type for trace in traces(composed(classes=4))} == {"scatter3d", "cone", "mesh3d"}


@pytest.mark.parametrize("classes", [3, 4, 6])
def test_what_has_text_stands_well_within_the_axes_which_would_cut_it(classes: int) -> None:
    layout = (figure := interactive(composed(classes=classes))).layout
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
    figure = interactive(composed(classes=4))
    scene = figure.layout.scene
    corners = np.array([scene.xaxis.range, scene.yaxis.range, scene.zaxis.range]).T
    meshes = [trace for trace in figure.data if trace.type == "mesh3d"]
    expected = walls(View.on_balances(composed(classes=4), 0, (1, 2, 3), 8, 3), corners)
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
    explanation = composed(1, names=["<b>x</b> $y$"])
    (step,) = (trace for trace in traces(explanation) if trace.showlegend)
    assert "&lt;b&gt;x&lt;/b&gt; &#36;y&#36;" in step.name
    assert "$" not in step.hovertext
    assert interactive(explanation).to_html(include_plotlyjs=False)


def test_without_plotly_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(ImportError, match=r"pip install 'manifold_shap\[plotly\]'"):
        interactive(composed())


def test_plotly_stays_out_until_it_is_asked_for_and_pyplot_always() -> None:
    left_out = ("plotly", "matplotlib.pyplot")
    code = f"import sys, manifold_shap.plots; sys.exit(any(n in sys.modules for n in {left_out}))"
    subprocess.run([sys.executable, "-c", code], check=True)
