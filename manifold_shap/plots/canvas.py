"""Makes figures by pyplot: their look, titles, notes and scales of colours.

Sizes of letters, fonts, ground and ink are those of `matplotlib.rcParams`; matplotlib's constrained
layout finds the places of all that is drawn.
"""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float
from matplotlib import colormaps, rc_context, rcParams
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.container import BarContainer
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import AutoLocator

from manifold_shap.plots.selection import Explained, cautions, notes

# Of what has no sign, is missing, or is only a mark, and of faint lines: upon light and dark
# grounds alike.
NEUTRAL, GRID = "#8c8c8c", "#8c8c8c40"
# How opaque small print is: as readable as pages are to be, upon light and dark grounds alike.
SOFT = 0.65
# Red and blue of ColorBrewer's RdBu, which every kind of colour vision tells apart.
RAISES, LOWERS = "#c23b3c", "#2f79b5"
DIVERGING = colormaps["RdBu_r"].with_extremes(bad=NEUTRAL)
# As plasma, without its ends, which are faint on dark grounds and on white.
SEQUENTIAL = LinearSegmentedColormap.from_list(
    "feature value", ("#5b50e6", "#c6508e", "#f79b2c")
).with_extremes(bad=NEUTRAL)
# Okabe & Ito (2008), less yellow, which is faint on white, and with the wine of Tol (2021) for
# their pink, which is the same grey as their green: neighbours differ in lightness.
SERIES = ("#0072b2", "#e69f00", "#009e73", "#882255", "#56b4e9", "#d55e00", "#222222")

LOOK: dict[str, Any] = {
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.edgecolor": NEUTRAL,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": NEUTRAL,
    "ytick.major.size": 0,
}
# Of all sizes, on a scale of colours: few extreme ones would leave all others pale.
_SHARE = 0.995


class Drawn:
    """What plots return: `save(path)` writes its whole figure."""

    figure: Any

    def save(self, path: str | Path, **settings: Any) -> None:
        """Write the figure; the ending of the path says how, such as ".png", ".pdf" or ".svg".

        Args:
            path: of the file.
            settings: of `matplotlib.figure.Figure.savefig`, such as `dpi=300`; by default, pixels
                are 160 an inch.
        """
        self.figure.savefig(Path(path).expanduser(), **{"dpi": 160, **settings})


class Panel(Drawn, Axes):
    """The axes of a plot of one."""


class Panels(Drawn, list[Axes]):
    """The axes of a plot of several."""

    @property
    def figure(self) -> Any:
        """What holds them: a figure, or in the place of given axes a part of one."""
        return self[0].figure


Plot = TypeVar("Plot", Axes, Panels)


def panel(ax: Axes | None, lines: float | int, grid: str = "y", width: float | int = 1.0) -> Axes:
    """The given axes, or those of a new figure, with lines across one axis ("x" or "y") or none.

    Args:
        lines: of text that are as high as the axes.
        width: as a multiple of the usual one.
    """
    return panels(None, lines, 1, 1, grid, width)[0] if ax is None else ax


def panels(
    ax: Axes | None,
    lines: float | int,
    count: int,
    columns: int,
    grid: str = "",
    width: float | int = 1.0,
    **settings: Any,
) -> Panels:
    """So many axes, in rows of `columns`, in a new figure or in the place of axes in a grid."""
    if ax is None:
        # Outside of the look: with its first figure, pyplot chooses what is interactive.
        size = (width * rcParams["figure.figsize"][0], lines * line_height())
        figure: Any = plt.figure(figsize=size, layout="constrained")
    else:
        whole: Any = ax.figure
        ax.remove()
        figure = whole.add_subfigure(ax.get_subplotspec())
    look: dict[Any, Any] = {**LOOK, "axes.grid": bool(grid), "axes.grid.axis": grid or "both"}
    with rc_context({**look, "xtick.labelcolor": rcParams["text.color"]}):
        kind = {"axes_class": Panel, **settings.pop("subplot_kw", {})}
        shape = (-(-count // columns), columns)
        made = figure.subplots(*shape, squeeze=False, subplot_kw=kind, **settings)
    for axes in made.flat[count:]:
        axes.remove()
    return Panels(made.flat[:count].tolist())


def line_height(lines: float | int = 1) -> float:
    """The height of lines of text."""
    return float(lines * 1.9 * rcParams["font.size"] / 72)


class _Apart(AutoLocator):
    """As many ticks as have room for their numbers; matplotlib's are for those of three letters."""

    def __call__(self) -> Any:
        axis: Any = self.axis
        letters, span = 5 * axis.get_tick_space(), np.ptp(axis.get_view_interval())
        for most in range(9, 0, -1):
            self.set_params(nbins=most)
            ticks = super().__call__()
            longest = max(map(len, axis.get_major_formatter().format_ticks(ticks)))
            if np.diff(ticks[:2]).sum() * letters >= (longest + 1.5) * span:
                break
        return ticks


def _letters(axes: Axes) -> int:
    """How many have room across a figure of ours, or across given axes."""
    place: Any = axes.figure if isinstance(axes, Drawn) else axes
    inches = place.bbox.width / place.get_figure(root=True).dpi
    return int(inches * 72 / (0.55 * rcParams["font.size"]))


def finish(
    drawn: Plot, by_name: Explained, title: Sequence[str], show: bool = False, errors: str = ""
) -> Plot:
    """Say above a plot what it shows, and below how good value functions are.

    Args:
        drawn: the plot, in a figure of ours or in one of the caller's.
        by_name: what is drawn.
        title: its lines; empty ones are left out.
        show: whether to open the window of the figure.
        errors: what whiskers say of them.
    """
    axes: Any = drawn if isinstance(drawn, Axes) else drawn[0]
    place = axes.figure if isinstance(axes, Drawn) else axes
    letters = _letters(axes)
    # Small print has smaller letters, but not below given axes.
    small = letters if place is axes else int(1.2 * letters)
    above = "\n".join(fill(line, letters) for line in [*title, *cautions(by_name)] if line)
    spaces = [getattr(each, "space", None) for each in by_name.values()]  # Global values have none.
    in_ratios = any(space is not None and space.takes_logarithms for space in spaces)
    shown_ones = "log-ratio" in " ".join([*title, axes.get_xlabel()]).lower()
    shows_ratios = in_ratios and shown_ones and "|" not in axes.get_xlabel()
    sign = "positive log-ratios favour the classes before the colon" * shows_ratios
    below = "\n".join(fill(line, small) for line in [errors, sign, *notes(by_name, True)] if line)
    for panel in [axes] if isinstance(drawn, Axes) else drawn:
        if type(panel.xaxis.get_major_locator()) is AutoLocator:
            panel.xaxis.set_major_locator(_Apart())
    if place is axes:
        axes.set_title(above, loc="left", fontsize="medium")
        if below:
            axes.set_xlabel(f"{axes.get_xlabel()}\n{below}".lstrip())
    else:
        place.suptitle(above, x=0.01, ha="left", fontsize="medium")
        place.supxlabel(below, x=0.01, ha="left", fontsize="small", alpha=SOFT)
    if isinstance(place, Figure):
        lines = 0.7 * above.count("\n") + 0.6 * below.count("\n") + 1.3
        place.set_figheight(place.get_figheight() + line_height(lines))
    for text in place.findobj(Text):
        # Dollar signs of names start no formula.
        text.set_parse_math(False)
    if show:
        plt.show()
    return drawn


def legend(axes: Axes, handles: Sequence[Any], labels: Sequence[str], **settings: Any) -> None:
    """A legend over the axes, where it covers no data; beside axes in a figure of the caller's."""
    where: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}
    if isinstance(axes, Drawn):
        columns = int(np.clip(70 // (max(map(len, labels)) + 6), 1, len(labels)))
        where = {"loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": columns}
    look: dict[str, Any] = {"frameon": False, "fontsize": "small", "title_fontsize": "small"}
    axes.legend(handles, labels, borderaxespad=0.2, **where, **look, **settings)


def bars(
    ax: Axes,
    lines: Any,
    values: Float[np.ndarray, " lines"],
    errors: Float[np.ndarray, " lines"],
    numbers: Sequence[str],
    names: Sequence[str],
    **look: Any,
) -> BarContainer:
    """Bars with numbers beyond their ends, and whiskers of two errors that are known and not 0."""
    whiskers = np.where(errors > 0, 2 * errors, np.nan)
    drawn = ax.barh(
        lines,
        values,
        xerr=None if np.isnan(whiskers).all() else whiskers,
        error_kw={"elinewidth": 1, "capsize": 2, "ecolor": rcParams["text.color"]},
        **look,
    )
    ax.bar_label(drawn, numbers, padding=3, fontsize="small")
    # Room for the numbers, in small letters, between the bars and the names.
    room = max(_letters(ax) - max(map(len, names)), 1)
    share = min((max(map(len, numbers)) + 2) / room, 0.3)
    ax.margins(x=max(0.2, share / (1 - 2 * share)))
    return drawn


def name_lines(axes: Axes, labels: Sequence[str]) -> None:
    """Label the lines of a plot, the first of them at the top."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)


def name_columns(axes: Axes, labels: Sequence[str]) -> None:
    """Label places along the axis below, side by side where it has room, or else slanted."""
    slanted = (max(map(len, labels)) + 1) * len(labels) > 47
    look: dict[str, Any] = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(labels)), labels, **(look if slanted else {}))


def write_dates(axis: Axis) -> None:
    """Write numbers of days since 1970 as dates."""
    locator = AutoDateLocator(minticks=2, maxticks=7)
    axis.set_major_locator(locator)
    axis.set_major_formatter(ConciseDateFormatter(locator))


class ColourScale(Normalize):
    """Of values, from blue below zero to red above, for all panels of a figure or a report.

    It ends where 99.5 % of the sizes do, and has pointed ends if the others lie beyond.
    """

    def __init__(self, *values: Float[np.ndarray, "..."]) -> None:
        sizes = np.abs(np.concatenate([each[np.isfinite(each)].ravel() for each in values]))
        largest = sizes.max(initial=0.0)
        limit = np.quantile(sizes, _SHARE, method="higher") if largest else 1.0
        self.limit = float(limit or largest)
        self.extend = "both" if largest > self.limit else "neither"
        super().__init__(-self.limit, self.limit)

    def bar(self, panels: Axes | Sequence[Axes], label: str, **settings: Any) -> Any:
        """The scale beside axes, which share it."""
        return colour_bar(panels, ScalarMappable(self, DIVERGING), label, **settings)


def colour_bar(panels: Axes | Sequence[Axes], colours: Any, label: str, **settings: Any) -> Any:
    """A scale of colours beside axes, which share it."""
    figure: Any = (panels if isinstance(panels, Axes) else panels[0]).figure
    look = {"aspect": 30, "pad": 0.02, **settings}
    bar = figure.colorbar(colours, ax=panels, label=label, **look)
    bar.outline.set_visible(False)
    return bar
