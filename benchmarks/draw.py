"""Draws what experiments found: curves, and figures with whiskers beside the paper's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from manifold_shap.plots.canvas import GRID, NEUTRAL, SERIES
from manifold_shap.plots.canvas import LOOK as OF_PACKAGE

LOOK: Any = {
    **OF_PACKAGE,
    "axes.prop_cycle": cycler(color=SERIES),
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "font.size": 8,
    "legend.frameon": False,
}
MARKS = "os^vPXd*D"


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
    """One axis, "x" or "y", with numbers without exponents."""
    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter("{x:,g}")
    axis.set_minor_formatter("")


def legend(figure: Figure, title: str = "") -> None:
    """One legend of all panels, below them."""
    handles = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    below: dict[str, Any] = {"loc": "outside lower center", "ncols": 4, "title": title}
    figure.legend(list(handles.values()), list(handles), **below)


def curves(panels: Sequence[Panel], columns: int = 3) -> Figure:
    """Panels side by side; a name has one colour in all of them."""
    figure, every = grid(len(panels), 2.7, columns)
    names = dict.fromkeys(name for panel in panels for name in panel.curves)
    both = zip(names, cycle(SERIES), cycle(MARKS), strict=False)
    looks: dict[str, Any] = {n: {"color": colour, "marker": mark} for n, colour, mark in both}
    for axes, panel in zip(every, panels, strict=True):
        for name, points in panel.curves.items():
            axes.plot(*zip(*points, strict=True), label=name, markersize=3.5, **looks[name])
        for name, x in panel.marks.items():
            axes.axvline(x, color=looks[name]["color"], linestyle="--", linewidth=1)
        axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
        if "x" in panel.log:
            logarithmic(axes, "x")
        if "y" in panel.log:
            logarithmic(axes, "y")
        else:
            axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    legend(figure)
    return figure


def dots(
    panels: Mapping[str, Mapping[str, Mapping[str, Any]]],
    measure: str,
    log: bool = False,
    whiskers: tuple[int, str] = (2, "two standard errors"),
) -> Figure:
    """Figures by name, a line for each, with whiskers; those of the paper are open diamonds.

    The sides of a line lie below each other, so that none hides another.

    Args:
        panels: figures, or pairs of a figure and its error, by name, by side, by title.
        measure: what the figures are.
        log: whether axes are logarithmic.
        whiskers: how many errors they have to either side, and what that is called.
    """
    names = {name: None for sides in panels.values() for by in sides.values() for name in by}
    lines = {name: line for line, name in enumerate(names)}
    most = max(len(sides) for sides in panels.values())
    figure, every = grid(len(panels), len(lines) * max(0.2, 0.09 * most) + 0.6, sharey=True)
    some = False
    for axes, (title, sides) in zip(every, panels.items(), strict=True):
        looks = zip(cycle(SERIES), cycle(MARKS[:-1]), strict=True)
        for k, (side, by) in enumerate(sides.items()):
            pairs = [one if isinstance(one, (list, tuple)) else (one, None) for one in by.values()]
            where = [lines[name] + 0.7 * ((k + 0.5) / len(sides) - 0.5) for name in by]
            errors = [whiskers[0] * (error or 0.0) for _, error in pairs]
            colour, mark = (NEUTRAL, "D") if side == "paper" else next(looks)
            axes.errorbar(
                [middle for middle, _ in pairs], where, xerr=errors if any(errors) else None,
                fmt=mark, color=colour, label=side, markersize=4, elinewidth=0.8,
                fillstyle="none" if side == "paper" else "full",
            )  # fmt: skip
            some |= any(errors)
        axes.set(title=title, xlabel=measure)
        if log:
            logarithmic(axes, "x")
        else:
            axes.locator_params(axis="x", nbins=5)
            axes.axvline(0, color=NEUTRAL, linewidth=0.8)
        for line in range(1, len(lines)):
            axes.axhline(line - 0.5, color=GRID, linewidth=0.6)
    every[0].set_yticks(range(len(lines)), list(lines))
    every[0].set_ylim(len(lines) - 0.5, -0.5)
    legend(figure, f"Whiskers: {whiskers[1]}." if some else "")
    return figure
