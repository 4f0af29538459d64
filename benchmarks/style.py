"""The look of the figures of benchmarks: letters, lines, colours and small print."""

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from manifold_shap.plots.canvas import GRID, LOWERS, NEUTRAL, RAISES, SERIES
from manifold_shap.shown import number, signed

__all__ = ["GRID", "LOWERS", "NEUTRAL", "RAISES", "SERIES", "number", "signed"]

# Points.
TEXT, SMALL, TITLE = 8.0, 6.5, 9.0
SOFT = "#757575"
INK, GROUND = rcParams["text.color"], rcParams["figure.facecolor"]


def plain(text: str) -> str:
    """Text whose dollar signs start no formula."""
    return text.replace("$", r"\$")


def laid_out(height: float, width: float = 4.5) -> Figure:
    """An empty figure of this size in inches."""
    return Figure(figsize=(width, height), dpi=200, layout="constrained")


def one_panel(height: float, grid: str, width: float = 4.5) -> Axes:
    """The axes of a figure of one."""
    axes = laid_out(height, width).add_subplot()
    strip(axes, grid)
    return axes


def strip(axes: Axes, grid: str) -> None:
    """Remove the box, and draw small ticks and faint lines across one axis ("x" or "y")."""
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(NEUTRAL)
    axes.tick_params(labelsize=TEXT, color=NEUTRAL, length=3)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=True, axis="x" if grid == "x" else "y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def scale(axis: Axis, label: str, ticks: int = 6) -> None:
    """Label an axis, and write at most so many round numbers along it."""
    axis.set_label_text(plain(label), fontsize=TEXT)
    axis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10]))


def write_lines(axes: Axes, labels: Sequence[str]) -> None:
    """Label the lines of a plot, the first of them at the top."""
    axes.set_yticks(range(len(labels)), [plain(label) for label in labels])
    axes.set_ylim(len(labels) - 0.5, -0.5)


def settle(axes: Axes) -> None:
    """Settle the layout."""
    figure: Any = axes.get_figure()
    figure.draw_without_rendering()


def write_above(figure: Figure, lines: Sequence[str]) -> None:
    """A title flush left over a whole figure."""
    figure.suptitle("\n".join(map(plain, lines)), x=0.01, ha="left", fontsize=TITLE)


def write_below(figure: Figure, lines: Sequence[str]) -> None:
    """Small print below all that is drawn."""
    room = int(figure.get_size_inches()[0] * 72 / (0.5 * SMALL))
    text = "\n".join(part for line in lines for part in wrap(plain(line), room))
    figure.supxlabel(text, x=0.01, ha="left", fontsize=SMALL, color=SOFT)
