"""Figures on dark ground: drawn wherever matplotlib draws so, and readable in all their parts."""

import io
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib import rc_context
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text

import manifold_shap as ms
from manifold_shap.plots import colours, style
from tests import examples
from tests.plots.helpers import composed, digits, explained, patches, save, score, table
from tests.plots.test_colours import GROUNDS, contrast
from tests.plots.test_series import segments

QUALITY = {"chosen": "gaussian", "mse": {"gaussian": 0.1, "marginal": 0.2}, "rows": 40}
WORDS = [["very", "good", "food"], ["not", "good", "food"]]


def interactions() -> ms.Interactions:
    return ms.shapley_interactions(examples.table(4), examples.uniform(2, 4))


def true_phi() -> ms.Explanation:
    known = explained(
        torch.linspace(0, 1, 24).reshape(6, 4), ms.Players.of_elements((4,)), ("poor", "rich")
    )
    return replace(known, standard_error=torch.full_like(known.phi, 0.001))


def coloured() -> ms.plots.ColouredText:
    explanation = explained(torch.rand(2, 3), ms.Players.tokens(3, None), ("bad", "good"))
    return ms.plots.text(explanation, WORDS)


PLOTS: dict[str, Callable[[], Any]] = {
    "waterfall": lambda: ms.plots.waterfall(replace(table(), made_by={"quality": QUALITY})),
    "bar": lambda: ms.plots.bar(table(), signed=True, most=2),
    "bars": lambda: ms.plots.bar({"on": table(), "off": table()}, row=0),
    "beeswarm": lambda: ms.plots.beeswarm({"on": table(), "off": table()}),
    "scatter": lambda: ms.plots.scatter(table(), "age", color="city"),
    "scatter on a scale": lambda: ms.plots.scatter(table(), "age", color="gain ($)"),
    "heatmap": lambda: ms.plots.heatmap(table()),
    "maps": lambda: ms.plots.pixel_maps(digits(), top=2),
    "maps under images": lambda: ms.plots.pixel_maps(patches(), overlay=0.4),
    "series": lambda: ms.plots.series(segments()),
    "interaction map": lambda: ms.plots.interaction_map(interactions()),
    "network": lambda: ms.plots.interaction_network(interactions(), 0),
    "curves": lambda: ms.plots.mse_curve({"on": score(0.1, [0.0, 1.0])}),
    "truth": lambda: ms.plots.against_truth({"on": true_phi()}, true_phi()),
    "compositions": lambda: ms.plots.compositions(composed()),
    "cumulative": lambda: ms.plots.cumulative(composed()),
    "lines": lambda: ms.plots.parallel_coordinates(composed(classes=10)),
    "plane": lambda: ms.plots.ilr_plane(composed()),
    "space": lambda: ms.plots.ilr_space(composed(classes=4)),
    "tree": lambda: ms.plots.bifurcation_tree(composed(classes=4).partition),
}
plots = pytest.mark.parametrize("name", PLOTS)
# Whose letters stand on colours of a map; `colours.letters_upon` has a test of its own.
UPON_COLOURS = {"interaction map"}


def drawn(name: str, ground: str) -> Figure:
    # Nothing else: whatever has a colour of matplotlib's own would be black.
    torch.manual_seed(0)
    with rc_context({"figure.facecolor": ground}):
        figure = PLOTS[name]().figure
    save(figure)
    return figure


@cache
def dark_one(name: str) -> Figure:
    return drawn(name, colours.dark().ground)


def words(figure: Figure) -> list[Text]:
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]


@plots
def test_all_text_can_be_read(name: str) -> None:
    ground = colours.dark().ground
    for text in words(dark_one(name)):
        colour = to_hex(text.get_color())
        on_colour = name in UPON_COLOURS and colour in ("#ffffff", colours.LIGHT.ink)
        # WCAG 2: 4.5 to 1, or 3 to 1 where letters have the colour of a line.
        limit = 3.0 if colour in (*colours.dark().series, colours.dark().neutral) else 4.5
        assert on_colour or contrast(colour, ground) > limit, text


@plots
def test_the_ground_is_that_of_matplotlib(name: str) -> None:
    figure = dark_one(name)
    assert to_hex(figure.get_facecolor()) == colours.dark().ground
    picture = (255 * imread(io.BytesIO(save(figure)))[..., :3]).round()
    assert picture[0, 0].tolist() == [0x15, 0x17, 0x1A]
    assert (picture == picture[0, 0]).all(2).mean() > 0.2
    # Images have white of their own.
    assert (picture > 250).all(2).mean() < 0.01 or name.startswith("maps")


@pytest.mark.parametrize("name", ["heatmap", "space"])
def test_nothing_remains_of_dark_ground(name: str) -> None:
    """A light figure is the same to the pixel after a dark one."""
    before = save(drawn(name, "white"))
    drawn(name, "black")
    assert save(drawn(name, "white")) == before


def test_the_style_of_matplotlib_is_followed() -> None:
    with plt.style.context("dark_background"):
        assert style.GROUND == "#000000"
        axes = ms.plots.bar(table(), row=0, ax=plt.subplots()[1])
        plt.close(axes.figure)
    assert to_hex(axes.get_facecolor()) == "#000000"
    found = {to_hex(patch.get_facecolor()) for patch in axes.patches}
    assert found == {colours.dark().raises, colours.dark().lowers}
    assert style.GROUND == "white"


@pytest.mark.parametrize("ground", ["white", "#fdf6e3", "none", (0.0, 0.0, 0.0, 0.0), "0.75"])
def test_light_ground_and_none_are_not_dark(ground: Any) -> None:
    with rc_context({"figure.facecolor": ground}):
        assert colours.current() is colours.LIGHT


@pytest.mark.parametrize("ground", GROUNDS)
def test_letters_can_be_read_upon_every_colour_of_a_map(ground: str) -> None:
    for colour_map in (colours.LIGHT.diverging, colours.dark(ground).diverging):
        for k in range(0, 256, 5):
            colour = colour_map(k)[:3]
            assert contrast(colours.letters_upon(colour), colour) > 3.4


def test_zero_has_the_colour_of_the_ground() -> None:
    for ground in GROUNDS:
        assert contrast(colours.dark(ground).diverging(0.5)[:3], ground) < 1.05


def test_there_is_no_other_colour() -> None:
    with pytest.raises(AttributeError, match="'PINK'"):
        style.PINK  # noqa: B018


def test_pages_have_their_own_dark_colours() -> None:
    """HTML is light or dark as its reader's browser, whatever matplotlib draws."""
    light = coloured().html
    with plt.style.context("dark_background"):
        assert coloured().html == light
