"""Figures of all kinds: nothing is cut, no trace is left; numbers, texts and fonts."""

import gc
import math
import weakref
from collections.abc import Iterator
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import manifold_shap as ms
from manifold_shap.plots import (
    bar,
    beeswarm,
    compositions,
    cumulative,
    fonts,
    heatmap,
    ilr_plane,
    ilr_space,
    mse_curve,
    parallel_coordinates,
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
    save,
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
        "maps": pixel_maps({"on manifold": digits, "off manifold": digits}),
        "one map": pixel_maps(patches, rows=[0], output="cat"),
        "waterfall": waterfall(half),
        "bars": bar(half),
        "grouped bars": bar({"on manifold": people, "off manifold": people}, row=0, most=2),
        "global bars": bar(ms.global_values(people, ["poor", "rich"] * 3)),
        "swarms": beeswarm(half),
        "five swarms": beeswarm(dict.fromkeys("abcde", people)),
        "scatter": scatter(half, "age", color="city"),
        "heatmap": heatmap(half),
        "curve": mse_curve({"on": score(0.1, [0.0, 1.0]), "off": score(0.2, [0.0, 1.0])}, 2),
        "plane": ilr_plane(replace(composed(), made_by={"half_trained": True})),
    }
    return {name: each.figure for name, each in drawn.items()}


def test_figures_save_without_warnings_and_cut_no_text(figures: dict[str, Figure]) -> None:
    for figure in figures.values():
        assert save(figure).startswith(b"\x89PNG")
        assert_nothing_is_cut(figure)
    for name in ("waterfall", "bars", "swarms", "scatter", "heatmap", "plane"):
        assert "Caution: half-trained value function" in figures[name].get_suptitle()


def test_long_and_odd_names_are_shortened_and_never_cut() -> None:
    names = (LONG + "1", LONG + "2", "$x$ and $y$", "_hidden", "two\nlines", "")
    explanation = explained(torch.rand(4, 6), ms.Players.of_elements((6,), names), (LONG, "b"))
    scores = {LONG: score(0.1, [0.0, 1.0]), "_x": score(0.2, [0.0, 1.0])}
    for drawn in (
        waterfall(explanation, output=LONG),
        bar({LONG: explanation, "_b": replace(explanation, base=explanation.base + 1)}, row=0),
        bar(explanation, output=LONG),
        beeswarm(explanation, output=LONG),
        beeswarm({LONG: explanation, "_b": explanation}),
        mse_curve(scores),
        heatmap(explanation, output=LONG),
        scatter(explanation, 0, color=1, output=LONG),
    ):
        assert "…" in "".join(written(drawn.figure))
        assert_nothing_is_cut(drawn.figure)
    labels = tick_labels(beeswarm(explanation))
    assert len(set(labels)) == 6
    assert r"\$x\$ and \$y\$" in labels


def test_figures_show_themselves_in_notebooks(people: ms.Explanation) -> None:
    axes = bar(people, row=0)
    for shown in (axes, axes.figure, beeswarm({"a": people, "b": people})):
        picture, size = shown._repr_png_()
        assert picture.startswith(b"\x89PNG")
        assert size["width"] >= 432


def test_given_axes_show_nothing_of_their_own(people: ms.Explanation) -> None:
    ax = Figure().subplots()
    assert bar(people, ax=ax) is ax
    assert not hasattr(ax, "_repr_png_")


def test_figures_leave_no_trace(people: ms.Explanation) -> None:
    before = dict(matplotlib.rcParams)
    plots = (
        bar,
        beeswarm,
        lambda _: ilr_plane(composed()),
        lambda _: ilr_space(composed(classes=4)),
    )
    references = []
    for plot in plots:
        figure = plot(people).figure
        save(figure)
        references.append(weakref.ref(figure))
    del figure
    gc.collect()
    assert [reference() for reference in references] == [None] * len(references)
    assert dict(matplotlib.rcParams) == before


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


def test_values_of_features_keep_categories_as_they_are() -> None:
    assert [style.feature_value(v) for v in ("1.23456", True, np.float32(0.5), np.int64(7))] == [
        "1.23456", "True", "0.5", "7"
    ]  # fmt: skip


def test_errors_set_the_decimals() -> None:
    assert style.with_error(0.01714, 0.00114) == "0.0171 ± 0.0011"
    assert style.with_error(4000.0, 400.0) == "4000 ± 400"
    assert style.with_error(0.5, 0.0) == "0.5"


def test_shortened_text_keeps_both_ends_and_fits() -> None:
    text = "mean radius of the cell nucleus, worst of three readings"
    short = style.shorten(text, 100.0)
    assert style.text_width(short) <= 100
    assert short.startswith("mean radius")
    assert short.endswith("ings")
    assert style.shorten("short", 100.0) == "short"
    assert style.shorten("anything", 0.0) == "…"


@pytest.fixture
def _fonts_are_found_anew() -> Iterator[None]:
    fonts._usual.cache_clear()
    fonts._others.cache_clear()
    yield
    fonts._usual.cache_clear()
    fonts._others.cache_clear()


# Of the fonts that come with matplotlib, only STIX has it.
RARE = "\U0001d716"


@pytest.mark.usefixtures("_fonts_are_found_anew")
@pytest.mark.parametrize("given", [False, True])
def test_characters_that_the_usual_font_lacks_are_drawn_by_another(
    monkeypatch: pytest.MonkeyPatch, given: bool
) -> None:
    monkeypatch.setitem(matplotlib.rcParams, "font.family", ["DejaVu Sans Mono"])
    players = ms.Players.of_elements((2,), ["𝕊ize", f"{RARE}age"])
    ax = Figure(layout="constrained").subplots() if given else None
    axes = bar(explained(torch.rand(2, 2), players, (RARE,)), ax=ax)
    # A character without a glyph would be a warning, and so an error.
    assert_nothing_is_cut(axes.figure)
    families = {label.get_text(): label.get_fontfamily() for label in axes.get_yticklabels()}
    *usual, found = families[f"{RARE}age"]
    assert usual == families["𝕊ize"] == ["DejaVu Sans Mono", "DejaVu Sans"]
    title = axes._left_title if given else axes.figure._suptitle
    assert found in title.get_fontfamily()


def test_characters_that_no_font_has_leave_the_rest_to_be_read() -> None:
    players = ms.Players.of_elements((1,), ["\U000f1234 in years"])
    axes = bar(explained(torch.zeros(2, 1), players, ("a",)), row=0)
    assert save(axes.figure)
    assert tick_labels(axes)[0] == f"{fonts.MISSING} in years = 0"
    assert fonts.readable("Größe, рост, 𝕊") == "Größe, рост, 𝕊"


def test_several_panels_take_the_place_of_given_axes(
    digits: ms.Explanation, people: ms.Explanation
) -> None:
    explanation = composed(classes=4)
    for plot in (
        lambda ax: compositions(explanation, ax=ax),
        lambda ax: cumulative(explanation, ax=ax),
        lambda ax: beeswarm({"a": people, "b": people}, ax=ax),
        lambda ax: pixel_maps(digits, rows=[0], ax=ax),
        lambda ax: [ilr_space(explanation, ax=ax)],
    ):
        figure = Figure(layout="constrained", figsize=(10, 5))
        left, right = figure.subplots(1, 2)
        panels = plot(right)
        assert all(panel in figure.findobj(Axes) for panel in panels)
        figure.draw_without_rendering()
        assert min(panel.get_window_extent().x0 for panel in panels) > left.bbox.x1


@pytest.mark.parametrize("plot", [ilr_plane, parallel_coordinates])
def test_plots_of_paths_keep_the_size_of_given_axes(plot) -> None:
    figure = Figure(layout="constrained", figsize=(6, 4))
    ax = figure.subplots()
    assert plot(composed(), ax=ax) is ax
    assert figure.get_size_inches().tolist() == [6, 4]
    assert ax.get_title("left").startswith("Predicted probability of")
