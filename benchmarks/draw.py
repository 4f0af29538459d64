"""Draws what experiments found: curves, and figures with whiskers beside the paper's."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from manifold_shap.plots.canvas import GRID, NEUTRAL, SERIES
from manifold_shap.plots.canvas import LOOK as OF_PACKAGE

LOOK: Any = {
    **OF_PACKAGE,
    "axes.prop_cycle": cycler(color=SERIES),
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "font.size": 8,
    "legend.frameon": False,
    "xtick.labelcolor": "black",
}
MARKS = "os^vPXd*D"
STYLES = cycler(color=(*SERIES, "#cc79a7", "#999933")) + cycler(marker=list(MARKS))
PAPER = {"color": NEUTRAL, "marker": "D", "fillstyle": "none"}


@dataclass(frozen=True)
class Panel:
    """One plot of curves.

    Attributes:
        curves: points (x, y) by name.
        marks: x of a dashed vertical line by the name of a curve.
        log: which axes are logarithmic.
    """

    title: str
    x: str
    y: str
    curves: Mapping[str, Sequence[Sequence[float]]]
    marks: Mapping[str, float] = field(default_factory=dict)
    log: str = "xy"


def grid(count: int, height: float, columns: int = 3, **shared: Any) -> tuple[Figure, list[Axes]]:
    """So many panels of this height in inches, side by side."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(max(4.5, 3.1 * columns), rows * height + 0.6), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **shared).flatten().tolist()
    for empty in axes[count:]:
        empty.remove()
    return figure, axes[:count]


def logarithmic(axes: Axes, which: str) -> None:
    """One axis, "x" or "y", with numbers without exponents, fewer of them where it is long."""
    axes.set(**{f"{which}scale": "log"})
    axis = getattr(axes, f"{which}axis")
    least, most = axis.get_view_interval()
    ticks = LogLocator(subs=(1, 2, 5) if most < 300 * least else (1, 3))
    axis.set(major_locator=ticks, major_formatter="{x:,g}", minor_formatter="")


def legend(figure: Figure, title: str = "") -> None:
    """One legend of all panels, below them; a single name needs none."""
    handles = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    below: dict[str, Any] = {"loc": "outside lower center", "ncols": 4, "title": title}
    shown = handles if len(handles) > 1 else {}
    figure.legend(shown.values(), shown.keys(), **below)


def looks_of(panels: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The colour and the mark of each name, the same in all panels."""
    names = dict.fromkeys(name for panel in panels for name in panel)
    return {**dict(zip(names, cycle(STYLES), strict=False)), "paper": PAPER}


def curves(panels: Sequence[Panel], columns: int = 3) -> Figure:
    """Panels side by side; a name has one colour in all of them."""
    figure, every = grid(len(panels), 2.7, columns)
    looks = looks_of(panel.curves for panel in panels)
    for axes, panel in zip(every, panels, strict=True):
        for name, points in panel.curves.items():
            axes.plot(*zip(*points, strict=True), label=name, markersize=3.5, **looks[name])
        for name, x in panel.marks.items():
            axes.axvline(x, color=looks[name]["color"], linestyle="--", linewidth=1)
        axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
        for which in panel.log:
            logarithmic(axes, which)
        if "y" not in panel.log and 0 < axes.get_ylim()[0] < 0.5 * axes.get_ylim()[1]:
            axes.set_ylim(bottom=0)
    legend(figure)
    return figure


def dots(
    panels: Mapping[str, Mapping[str, Mapping[str, Any]]],
    measure: str,
    log: bool = False,
    whiskers: tuple[int, str] = (2, "two standard errors"),
    line: float = 0.0,
) -> Figure:
    """Figures by name, a line for each, with whiskers; those of the paper are open diamonds.

    The sides of a line lie below each other, so that none hides another.

    Args:
        panels: figures, or pairs of a figure and its error, by name, by side, by title.
        measure: what the figures are.
        log: whether axes are logarithmic.
        whiskers: how many errors they have to either side, and what that is called.
        line: where one stands for comparison.
    """
    looks = looks_of(panels.values())
    names = [*dict.fromkeys(n for sides in panels.values() for by in sides.values() for n in by)]
    most = max(len(sides) for sides in panels.values())
    figure, every = grid(len(panels), len(names) * max(0.2, 0.09 * most) + 0.6, sharey=True)
    some = False
    for axes, (title, sides) in zip(every, panels.items(), strict=True):
        for k, (side, by) in enumerate(sides.items()):
            pairs = [one if isinstance(one, (list, tuple)) else (one, None) for one in by.values()]
            where = [names.index(name) + 0.7 * ((k + 0.5) / len(sides) - 0.5) for name in by]
            errors = [whiskers[0] * (error or 0.0) for _, error in pairs]
            look = {"linestyle": "", "markersize": 4, "elinewidth": 0.8, **looks[side]}
            middles, ends = [middle for middle, _ in pairs], errors if any(errors) else None
            axes.errorbar(middles, where, xerr=ends, label=side if by else None, **look)
            some |= any(errors)
        axes.set(title=title, xlabel=measure)
        if log:
            logarithmic(axes, "x")
        else:
            axes.locator_params(axis="x", nbins=5)
            axes.axvline(line, color=NEUTRAL, linewidth=0.8)
        for k in range(1, len(names)):
            axes.axhline(k - 0.5, color=GRID, linewidth=0.6)
    every[0].set_yticks(range(len(names)), names)
    every[0].set_ylim(len(names) - 0.5, -0.5)
    legend(figure, f"Whiskers: {whiskers[1]}." if some else "")
    return figure
