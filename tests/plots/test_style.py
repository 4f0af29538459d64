"""Figures of all kinds: nothing is cut, no trace is left; numbers, texts and fonts."""

import math
from dataclasses import replace

import matplotlib.style as style_of_matplotlib
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import manifold_shap as ms
from manifold_shap.plots import (
    bar,
    beeswarm,
    compositions,
    heatmap,
    ilr_space,
    mse_curve,
    pixel_maps,
    scatter,
    style,
    waterfall,
)
from tests.plots.helpers import (
    LONG,
    assert_nothing_is_cut,
    composed,
    explained,
    score,
    tick_labels,
    written,
)


@pytest.fixture
def figures(
    digits: ms.Explanation, patches: ms.Explanation, people: ms.Explanation
) -> dict[str, Figure]:
    half = replace(people, made_by={"half_trained": True})
    drawn = {
        "maps": pixel_maps({"on manifold": digits, "off manifold": digits}, rows=[0]),
        "waterfall": waterfall(half),
        "grouped bars": bar({"on manifold": people, "off manifold": people}, row=0, most=2),
        "global bars": bar(ms.global_values(people, ["poor", "rich"] * 3)),
        "swarms": beeswarm(half),
        "three swarms": beeswarm(dict.fromkeys("abc", people)),
        "scatter": scatter(half, "age", color="city"),
        "heatmap": heatmap(half),
        "curve": mse_curve({"on": score(0.1, [0.0, 1.0]), "off": score(0.2, [0.0, 1.0])}),
    }
    return {name: each.figure for name, each in drawn.items()}


def test_figures_cut_no_text(figures: dict[str, Figure]) -> None:
    for figure in figures.values():
        assert_nothing_is_cut(figure)
    for name in ("waterfall", "swarms", "scatter", "heatmap"):
        assert "Caution: half-trained value function" in figures[name].get_suptitle()


def test_long_and_odd_names_are_shortened_and_never_cut() -> None:
    names = (LONG + "1", LONG + "2", "$x$ and $y$", "_hidden", "two\nlines", "\ud800")
    explanation = explained(torch.rand(4, 6), ms.Players.of_elements((6,), names), (LONG, "b"))
    scores = {LONG: score(0.1, [0.0, 1.0]), "_x": score(0.2, [0.0, 1.0])}
    for drawn in (
        waterfall(explanation, output=LONG),
        bar({LONG: explanation, "_b": replace(explanation, base=explanation.base + 1)}, row=0),
        beeswarm({LONG: explanation, "_b": explanation}),
        mse_curve(scores),
        heatmap(explanation, output=LONG),
        scatter(explanation, 0, color=1, output=LONG),
    ):
        assert "…" in "".join(written(drawn.figure))
        assert_nothing_is_cut(drawn.figure)
    labels = tick_labels(beeswarm(explanation))
    assert len(set(labels)) == 6
    assert {r"\$x\$ and \$y\$", "two lines", "?"} <= set(labels)


def test_ground_and_ink_are_those_of_matplotlib(people: ms.Explanation) -> None:
    with style_of_matplotlib.context("dark_background"):
        axes = waterfall(people)
        words = [axes.figure._suptitle, axes.xaxis.label, *axes.get_yticklabels()]
        assert to_hex(axes.figure.get_facecolor()) == to_hex(axes.get_facecolor()) == "#000000"
        assert {to_hex(word.get_color()) for word in words} == {"#ffffff"}
    assert to_hex(waterfall(people).figure.get_facecolor()) == "#ffffff"


def test_figures_show_themselves_in_notebooks(people: ms.Explanation) -> None:
    axes = bar(people, row=0)
    for shown in (axes, beeswarm({"a": people, "b": people})):
        picture, size = shown._repr_png_()
        assert picture.startswith(b"\x89PNG")
        assert size["width"] >= 432


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (39.0, "39"),
        (38.64, "38.6"),
        (-0.01234, "−0.0123"),
        (2012.0, "2012"),
        (123456.7, "123457"),
        (1.5e9, "1.5e+09"),
        (math.nan, "nan"),
    ],
)
def test_numbers_have_about_three_digits(value: float, said: str) -> None:
    assert style.number(value) == said


def test_several_panels_take_the_place_of_given_axes(people: ms.Explanation) -> None:
    explanation = composed(classes=4)
    for plot in (
        lambda ax: compositions(explanation, ax=ax),
        lambda ax: beeswarm({"a": people, "b": people}, ax=ax),
        lambda ax: [ilr_space(explanation, ax=ax)],
    ):
        figure = Figure(layout="constrained", figsize=(10, 5))
        left, right = figure.subplots(1, 2)
        panels = plot(right)
        assert all(panel in figure.findobj(Axes) for panel in panels)
        figure.draw_without_rendering()
        assert min(panel.get_window_extent().x0 for panel in panels) > left.bbox.x1
