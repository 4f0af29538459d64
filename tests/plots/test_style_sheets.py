"""The style sheets: pictures of one's own get the look of ours, and ours stay what they are."""

from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import manifold_shap as ms
from manifold_shap.plots import colours, style
from tests.plots.helpers import save, score, table
from tests.plots.test_dark import PLOTS, plots

SHEETS = {
    "manifold_shap.plots.light": colours.LIGHT,
    "manifold_shap.plots.dark": colours.dark(),
}
sheets = pytest.mark.parametrize("sheet", SHEETS)
# Of text and of lines, where they are not those of the axis or of the grid.
INK = (
    "text.color",
    "axes.labelcolor",
    "xtick.labelcolor",
    "ytick.labelcolor",
    "patch.edgecolor",
    "boxplot.boxprops.color",
    "boxplot.capprops.color",
    "boxplot.whiskerprops.color",
    "boxplot.flierprops.color",
    "boxplot.flierprops.markeredgecolor",
)


def on_the_ground_of(sheet: str) -> Any:
    """What our plots need to know of a sheet."""
    return rc_context({"figure.facecolor": SHEETS[sheet].ground})


def drawn(name: str) -> bytes:
    torch.manual_seed(0)
    return save(PLOTS[name]().figure)


def look(axes: Axes) -> dict[str, Any]:
    """All that `style.strip` sets."""
    x, y = (axis.get_major_ticks(1)[0] for axis in (axes.xaxis, axes.yaxis))
    return {
        "ground": to_hex(axes.get_facecolor()),
        "sides": {side for side, spine in axes.spines.items() if spine.get_visible()},
        "axis": to_hex(axes.spines["bottom"].get_edgecolor()),
        "lengths": [tick.tick1line.get_markersize() for tick in (x, y)],
        "colours": [to_hex(tick.tick1line.get_markeredgecolor()) for tick in (x, y)],
        "sizes": [tick.label1.get_fontsize() for tick in (x, y)],
        "ink": [to_hex(tick.label1.get_color()) for tick in (x, y)],
        "grid": [tick.gridline.get_visible() for tick in (x, y)],
        "lines": (to_hex(y.gridline.get_color()), y.gridline.get_linewidth()),
        "below": axes.get_axisbelow(),
    }


@sheets
def test_a_sheet_sets_what_our_plots_have_and_no_more(sheet: str) -> None:
    now = SHEETS[sheet]
    with plt.style.context(sheet, after_reset=True):
        made = {
            key: value
            for key, value in matplotlib.rcParams.items()
            if value != matplotlib.rcParamsDefault[key]
        }
    assert made.pop("axes.prop_cycle").by_key() == {"color": list(now.series)}
    assert made.pop("figure.constrained_layout.w_pad") == pytest.approx(style.MARGIN / 72, abs=1e-4)
    ground = {"figure.facecolor": now.ground, "axes.facecolor": now.ground}
    assert made == {
        **(ground if now.ground != "white" else {}),
        **dict.fromkeys(INK, now.ink),
        **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), now.neutral),
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.spines.left": False,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlesize": style.TITLE,
        "errorbar.capsize": 1.5,
        "figure.constrained_layout.use": True,
        "figure.figsize": [style.WIDTH, 3.0],
        "figure.titlesize": style.TITLE,
        "font.size": style.TEXT,
        "grid.color": now.grid,
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "lines.markersize": 3.0,
        "savefig.dpi": style.DPI,
        "xtick.major.size": 3.0,
        "ytick.major.size": 0.0,
        "ytick.minor.size": 0.0,
    }


@sheets
def test_axes_of_ones_own_look_like_ours(sheet: str) -> None:
    with on_the_ground_of(sheet):
        ours = Figure().subplots()
        style.strip(ours, grid="y")
    with plt.style.context(sheet):
        assert look(Figure().subplots()) == look(ours)


@sheets
def test_lines_whiskers_and_words_of_ones_own_look_like_ours(sheet: str) -> None:
    with on_the_ground_of(sheet):
        curve = ms.plots.mse_curve({"on": score(0.1, [0.0, 1.0])})
        caps = ms.plots.bar(table()).containers[0].lines[1]
    with plt.style.context(sheet):
        axes = Figure().subplots()
        (line,) = axes.plot([0, 1], "o-", label="on")
        own_caps = axes.errorbar([0], [1], xerr=1).lines[1]
        axes.set(xlabel="size", title="what")
        legend = axes.legend()
    (ours,), words = curve.get_lines(), curve.get_legend().get_texts()
    assert line.get_linewidth() == ours.get_linewidth()
    assert line.get_markersize() == ours.get_markersize()
    assert to_hex(line.get_color()) == to_hex(ours.get_color())
    assert own_caps[0].get_markersize() == caps[0].get_markersize()
    for one, other in ((axes.xaxis.label, curve.xaxis.label), (legend.get_texts()[0], words[0])):
        assert one.get_fontsize() == other.get_fontsize()
        assert to_hex(one.get_color()) == to_hex(other.get_color())
    assert not legend.get_frame_on()
    assert axes.get_title("left") == "what"


@sheets
@plots
def test_our_plots_are_the_same_to_the_pixel(name: str, sheet: str) -> None:
    with on_the_ground_of(sheet):
        before = drawn(name)
    with plt.style.context(sheet):
        assert drawn(name) == before
