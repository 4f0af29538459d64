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
from matplotlib.figure import Figure

import manifold_shap as ms
from manifold_shap.plots import bars, ilr_plane, ilr_space, mse_curve, pixel_maps, sina, style
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
    return {
        "maps": pixel_maps({"on manifold": digits, "off manifold": digits}),
        "one map": pixel_maps(patches, rows=[0], output="cat"),
        "bars": bars(half),
        "grouped bars": bars({"on manifold": people, "off manifold": people}, most=2),
        "global bars": bars(ms.global_values(people, ["poor", "rich"] * 3)),
        "sina": sina(half),
        "five sinas": sina(dict.fromkeys("abcde", people)),
        "curve": mse_curve({"on": score(0.1, [0.0, 1.0]), "off": score(0.2, [0.0, 1.0])}, 2),
        "plane": ilr_plane(replace(composed(), made_by={"half_trained": True})),
    }


def test_figures_save_without_warnings_and_cut_no_text(figures: dict[str, Figure]) -> None:
    for figure in figures.values():
        assert save(figure).startswith(b"\x89PNG")
        assert_nothing_is_cut(figure)
    for name in ("bars", "sina", "plane"):
        assert "Caution: half-trained value function" in figures[name].get_suptitle()


def test_long_and_odd_names_are_shortened_and_never_cut() -> None:
    names = (LONG + "1", LONG + "2", "$x$ and $y$", "_hidden", "two\nlines", "")
    explanation = explained(torch.rand(4, 6), ms.Players.of_elements((6,), names), (LONG, "b"))
    scores = {LONG: score(0.1, [0.0, 1.0]), "_x": score(0.2, [0.0, 1.0])}
    for figure in (
        bars({LONG: explanation, "_b": replace(explanation, base=explanation.base + 1)}),
        bars(explanation, output=LONG),
        sina(explanation, output=LONG),
        sina({LONG: explanation, "_b": explanation}),
        mse_curve(scores),
    ):
        assert "…" in "".join(written(figure))
        assert_nothing_is_cut(figure)
    labels = tick_labels(sina(explanation).axes[0])
    assert len(set(labels)) == 6
    assert r"\$x\$ and \$y\$" in labels


def test_figures_show_themselves_in_notebooks(people: ms.Explanation) -> None:
    picture, size = bars(people)._repr_png_()
    assert picture.startswith(b"\x89PNG")
    assert size["width"] == 432


def test_figures_leave_no_trace(people: ms.Explanation) -> None:
    before = dict(matplotlib.rcParams)
    plots = (bars, sina, lambda _: ilr_plane(composed()), lambda _: ilr_space(composed(classes=4)))
    references = []
    for plot in plots:
        figure = plot(people)
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
def _no_wide_fonts_are_known() -> Iterator[None]:
    style._wide_families.cache_clear()
    yield
    style._wide_families.cache_clear()


@pytest.mark.usefixtures("_no_wide_fonts_are_known")
def test_characters_that_the_usual_font_lacks_are_drawn_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(matplotlib.rcParams, "font.family", ["DejaVu Sans Mono"])
    monkeypatch.setattr(style, "_WIDE_FONTS", ("STIXGen", "not installed"))
    # The second is in STIX alone.
    players = ms.Players.of_elements((2,), ["𝕊ize", "\U0001d716age"])
    figure = bars(explained(torch.rand(2, 2), players, ("a",)))
    # A character without a glyph would be a warning, and so an error.
    assert_nothing_is_cut(figure)
    for label in figure.axes[0].get_yticklabels():
        assert label.get_fontfamily() == ["DejaVu Sans Mono", "DejaVu Sans", "STIXGeneral"]


@pytest.mark.filterwarnings("ignore:Glyph .* missing")
def test_characters_that_no_font_has_leave_the_rest_to_be_read() -> None:
    players = ms.Players.of_elements((1,), ["\U000f1234 in years"])
    figure = bars(explained(torch.zeros(2, 1), players, ("a",)))
    assert save(figure)
    assert tick_labels(figure.axes[0])[0].endswith("in years = 0")
