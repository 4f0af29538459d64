"""Plots of benchmarks: curves on logarithmic axes, rankings, and bars of global Shapley values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from benchmarks import style

PANEL = (3.1, 2.7)  # inches
WORDS: dict[str, Any] = {"fontsize": style.TEXT, "color": style.INK}
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": style.TEXT, "labelcolor": style.INK}
# What whiskers are, to either side: so many of the errors, and how that is said.
TWO_ERRORS = (2, "two standard errors")


@dataclass(frozen=True)
class Panel:
    """One plot: curves by name, and lines across it.

    Attributes:
        curves: points (x, y) by name.
        levels: y of a horizontal line by its label.
        marks: x of a vertical line by name, in the colour of its curve, or grey without one.
        marked: what these lines are, said beside the last of them.
        log: which axes are logarithmic.
    """

    title: str
    x: str
    y: str
    curves: Mapping[str, Sequence[Sequence[float]]]
    levels: Mapping[str, float] = field(default_factory=dict)
    marks: Mapping[str, float] = field(default_factory=dict)
    marked: str = ""
    log: str = "xy"


def curves(panels: Sequence[Panel], columns: int = 3) -> Figure:
    """Panels side by side; a name has one colour in all of them, and one entry in the legend."""
    columns = min(columns, len(panels))
    height = -(-len(panels) // columns)
    figure = style.laid_out(PANEL[1] * height + 0.6, PANEL[0] * columns)
    names = dict.fromkeys(name for panel in panels for name in panel.curves)
    looks = {
        # Where colours come again, lines are dashed; markers do so at other places.
        name: {
            "color": colour,
            "marker": "osD^vP"[k % 6],
            "linestyle": ("-", "--", ":")[k // 7 % 3],
        }
        for k, (name, colour) in enumerate(zip(names, cycle(style.SERIES), strict=False))
    }
    grid = figure.subplots(height, columns, squeeze=False).flatten()
    handles: dict[str, Artist] = {}
    for axes, panel in zip(grid, panels, strict=False):
        _draw(axes, panel, looks)
        for line, name in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, line)
    for axes in grid[len(panels) :]:
        axes.remove()
    legend_below(figure, handles, 2 * columns)
    return figure


def _draw(axes: Axes, panel: Panel, looks: Mapping[str, dict[str, Any]]) -> None:
    style.strip(axes, grid="y")
    for name, points in panel.curves.items():
        axes.plot(*zip(*points, strict=True), label=name, markersize=3.5, **looks[name])
    for name, x in panel.marks.items():
        colour = looks[name]["color"] if name in looks else style.NEUTRAL
        axes.axvline(x, color=colour, linestyle="--", linewidth=1)
    if panel.marked:
        beside: Any = ("data", "axes fraction")
        last = max(panel.marks.values())
        axes.annotate(panel.marked, (last, 1), (3, 0), beside, "offset points", va="top", **WORDS)
    for label, y in panel.levels.items():
        axes.axhline(y, color=style.NEUTRAL, linestyle=":", linewidth=1)
        where: Any = ("axes fraction", "data")
        axes.annotate(label, (1, y), (0, 2), where, "offset points", ha="right", **WORDS)
    if "x" in panel.log:
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        _sparse(axes.xaxis, steps=(1, 3) if high < 3000 * low else (1,))
    elif all(float(x).is_integer() for points in panel.curves.values() for x, _ in points):
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    if "y" in panel.log:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        # At least a power of ten, or noise on a flat curve would look like a slope.
        wider = max(1.0, (10 * low / high) ** 0.5)
        axes.set_ylim(low / wider, high * wider)
        _sparse(axes.yaxis, steps=(1, 2, 5) if high < 1000 * low else (1,))
    else:
        seen = [y for points in panel.curves.values() for _, y in points]
        axes.set_ylim(0, 1.1 * max(*seen, *panel.levels.values(), 0.0))
    label_axes(axes, panel.title, panel.x, panel.y)


def _sparse(axis: Axis, steps: Sequence[int]) -> None:
    """Few ticks in each power of ten, whose labels are plain numbers."""
    axis.set_major_locator(LogLocator(subs=steps, numticks=8))
    axis.set_major_formatter(FuncFormatter(_written))
    axis.set_minor_locator(NullLocator())


def _written(tick: float, _: int) -> str:
    """Without an exponent, but for the largest numbers."""
    if tick < 1:
        return np.format_float_positional(tick, 3, fractional=False, trim="-")
    return f"{tick:,g}" if tick < 1e6 else f"{tick:.0e}"


def label_axes(axes: Axes, title: str, x: str = "", y: str = "") -> None:
    axes.set_title(style.plain(title), loc="left", **WORDS)
    axes.set_xlabel(x, **WORDS)
    axes.set_ylabel(y, **WORDS)


def ranked(panels: Mapping[str, Mapping[str, float]], measure: str, ours: str) -> Figure:
    """Names from the best to the worst of a measure, smaller being better, for each panel.

    Args:
        panels: figures by name, by title.
        measure: what the figures are.
        ours: how the names begin that are set off by their colour.
    """
    most = max(len(entries) for entries in panels.values())
    figure = style.laid_out(0.22 * most + 0.8, (PANEL[0] + 0.4) * len(panels))
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, entries) in zip(grid, panels.items(), strict=True):
        style.strip(axes, grid="x")
        names = sorted(entries, key=entries.__getitem__, reverse=True)
        colours = [style.SERIES[0] if name.startswith(ours) else style.NEUTRAL for name in names]
        axes.scatter([entries[name] for name in names], names, c=colours, s=22, zorder=2)
        axes.set_xscale("log")
        _sparse(axes.xaxis, steps=(1,))
        label_axes(axes, title, measure)
    return figure


def grouped_bars(
    axes: Axes,
    series: Mapping[str, Mapping[str, float]],
    title: str,
    measure: str,
    log: bool = False,
    first: int = 0,
) -> None:
    """Horizontal bars of figures, all positive, with the numbers at their ends.

    Args:
        axes: to draw in.
        series: figures by name, by what a colour stands for; all of them have the same names.
        title: of the panel.
        measure: what the figures are.
        log: whether the axis is logarithmic.
        first: which of the colours comes first.
    """
    style.strip(axes, grid="x")
    names = list(next(iter(series.values())))
    thickness = 0.8 / len(series)
    for k, (label, figures) in enumerate(series.items()):
        where = np.arange(len(names)) + thickness * (k - (len(series) - 1) / 2)
        drawn = axes.barh(where, list(figures.values()), 0.9 * thickness, label=label,
                          color=style.SERIES[first + k])  # fmt: skip
        written = [style.number(each) for each in figures.values()]
        axes.bar_label(drawn, written, padding=3, fontsize=style.SMALL, color=style.INK)
    if log:
        axes.set_xscale("log")
        _sparse(axes.xaxis, steps=(1,))
    low, high = axes.get_xlim()
    if log:
        # Bars begin at a power of ten.
        low = 10 ** np.floor(np.log10(min(min(figures.values()) for figures in series.values())))
    # Room for the numbers.
    axes.set_xlim(low, high * (high / low) ** 0.15 if log else 1.15 * high)
    style.write_lines(axes, names)
    label_axes(axes, title, measure)


def global_bars(panels: Mapping[str, Mapping[str, Mapping[str, Any]]], width: float) -> Figure:
    """Bars of the global Shapley values of every player, with whiskers of two standard errors.

    Panels share a scale, and the decimals of numbers. Those of the same players stand side by side,
    others below each other, with bars of one thickness.

    Args:
        panels: players, phi and standard errors by method, by title; a method has one colour.
        width: of the figure, in inches.
    """
    players = [next(iter(found.values()))["players"] for found in panels.values()]
    alike = all(names == players[0] for names in players)
    counts = [sum(len(each["phi"]) for each in found.values()) for found in panels.values()]
    # Numbers of 6.5 points stand below each other.
    height = 0.15 * max(counts) if alike else 0.15 * sum(counts) + 0.4 * len(counts)
    figure = style.laid_out(height + 1.1, width)
    shape: dict[str, Any] = {"ncols": len(panels)}
    if not alike:
        shape = {"nrows": len(panels), "height_ratios": counts}
    grid = figure.subplots(sharex=True, squeeze=False, **shape).flatten()
    methods = dict.fromkeys(method for found in panels.values() for method in found)
    colours = dict(zip(methods, style.SERIES, strict=False))
    each = [values for found in panels.values() for values in found.values()]
    numbers = iter(style.signed([phi for values in each for phi in values["phi"]]))
    handles: dict[str, Artist] = {}
    for axes, (title, found), names in zip(grid, panels.items(), players, strict=True):
        style.strip(axes, grid="x")
        thickness = 0.8 / len(found)
        for k, (method, values) in enumerate(found.items()):
            where = np.arange(len(names)) + thickness * (k - (len(found) - 1) / 2)
            errors = values["standard_error"]
            look: dict[str, Any] = {"height": 0.9 * thickness, "color": colours[method]}
            look |= {"size": style.SMALL, "texts": list(islice(numbers, len(names)))}
            handles.setdefault(method, bars(axes, where, values["phi"], errors, **look))
        style.write_lines(axes, names if axes is grid[0] or not alike else [""] * len(names))
        axes.axvline(0, color=style.INK, linewidth=0.8)
        last = alike or axes is grid[-1]
        label_axes(axes, title, "global Shapley value (probability)" if last else "")
    legend_below(figure, handles, 4, TWO_ERRORS[1])
    for axes in grid:
        make_room(axes)
    return figure


def legend_below(
    figure: Figure, handles: Mapping[str, Artist], most: int, whiskers: str = ""
) -> None:
    """The legend of all panels, below them, in rows of about as many entries.

    Args:
        handles: what is drawn, by name.
        most: entries in a row.
        whiskers: what they are, if there are some.
    """
    rows = -(-len(handles) // most)
    names: Any = (list(handles.values()), list(handles))
    below: dict[str, Any] = {"loc": "outside lower center", "ncols": -(-len(handles) // rows)}
    below |= {"title": whiskers and say_whiskers(whiskers), "title_fontsize": style.SMALL}
    figure.legend(*names, **below, **LEGEND).get_title().set_color(style.SOFT)


def say_whiskers(what: str = TWO_ERRORS[1]) -> str:
    """The small print that says what whiskers are."""
    return f"Whiskers: {what}."


def bars(
    axes: Axes,
    lines: Sequence[float] | np.ndarray,
    values: Sequence[float],
    errors: Sequence[float] = (),
    size: float = style.TEXT,
    texts: Sequence[str] = (),
    **look: Any,
) -> Any:
    """Level bars with numbers at their ends, whose first is returned; `make_room` comes after all.

    Args:
        errors: standard errors, two of which are a whisker.
        size: of numbers, in points.
        texts: the numbers; by default the values.
        look: further settings of `barh`.
    """
    whiskers = 2 * np.nan_to_num(np.array(errors or [0.0] * len(values), dtype=float))
    if whiskers.any():
        look |= {"xerr": whiskers, "error_kw": {"elinewidth": 0.8, "ecolor": style.INK}}
    drawn = axes.barh(lines, values, **look)
    texts = texts or style.signed(values)
    axes.bar_label(drawn, texts, padding=3, fontsize=size)
    return drawn[0]


def make_room(axes: Axes) -> None:
    """Limits that leave room for the numbers of bars, once all panels have their places."""
    style.settle(axes)
    figure: Any = axes.get_figure()
    together = axes.get_shared_x_axes().get_siblings(axes)
    room = 72 / figure.dpi * min(each.bbox.width for each in together)
    axes.margins(x=0.35)
    # Numbers along the axis stand apart.
    ticks = int(np.clip(room / 45 - 1, 2, 6))
    axes.xaxis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10]))


def dots(
    panels: Mapping[str, Mapping[str, Mapping[str, Any]]],
    names: Mapping[str, str],
    measure: str,
    zero: bool = False,
    whiskers: tuple[int, str] = TWO_ERRORS,
) -> Figure:
    """Figures with whiskers, a line for each name; the paper's are open diamonds.

    The sides of a line lie below each other, so that none hides another.

    Args:
        panels: figure and error by name, by side ("paper" among them), by title.
        names: labels of the lines, by name.
        measure: what the figures are.
        zero: whether axes begin there.
        whiskers: how many errors they have to either side, and what that is called.
    """
    figure = style.laid_out(0.28 * len(names) + 1.2, 1.2 + 2.0 * len(panels))
    grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    known = False
    for axes, (title, sides) in zip(grid, panels.items(), strict=True):
        style.strip(axes, grid="x")
        looks = iter(zip((*style.SERIES, style.NEUTRAL), "os^vPXd*", strict=True))
        for k, (side, found) in enumerate(sides.items()):
            up = 0.7 * ((k + 0.5) / len(sides) - 0.5)
            where = [list(names).index(name) + up for name in found]
            middle, errors = zip(*found.values(), strict=True) if found else ((), ())
            look: dict[str, Any] = {"fmt": "o", "markersize": 4, "elinewidth": 0.8, "label": side}
            if side == "paper":
                look |= {"fmt": "D", "color": style.INK, "fillstyle": "none", "zorder": 5}
            else:
                look["color"], look["fmt"] = next(looks)
            some = any(errors)
            beside = [whiskers[0] * (error or 0.0) for error in errors] if some else None
            known |= some
            axes.errorbar(middle, where, xerr=beside, **look)
        label_axes(axes, title, measure)
        if zero:
            axes.set_xlim(left=0)
        for line in range(1, len(names)):
            axes.axhline(line - 0.5, color=style.GRID, linewidth=0.6)
    grid[0].set_yticks(range(len(names)), [style.plain(label) for label in names.values()])
    grid[0].set_ylim(len(names) - 0.5, -0.5)
    handles = dict(
        reversed(pair)
        for axes in grid
        for pair in zip(*axes.get_legend_handles_labels(), strict=True)
    )
    legend_below(figure, handles, 3, whiskers[1] if known else "")
    return figure
