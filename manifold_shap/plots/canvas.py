"""Makes figures by pyplot: their look, titles, notes and scales of colours.

Sizes of letters, fonts, ground and ink are those of `matplotlib.rcParams`; matplotlib's constrained
layout finds the places of all that is drawn.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib import colormaps, rc_context, rcParams
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.container import BarContainer
from matplotlib.figure import Figure, FigureBase

from manifold_shap.explanation import Explanation
from manifold_shap.global_values import GlobalValues
from manifold_shap.plots import quality

# Of what has no sign, is missing, or is only a mark, and of faint lines: upon light and dark
# grounds alike.
NEUTRAL, GRID = "#8c8c8c", "#8c8c8c40"
# Red and blue of ColorBrewer's RdBu, which every kind of colour vision tells apart.
RAISES, LOWERS = "#c23b3c", "#2f79b5"
DIVERGING = colormaps["RdBu_r"].with_extremes(bad=NEUTRAL)
# From dark blue to orange, without the yellow of plasma, which is faint on white.
SEQUENTIAL = ListedColormap(colormaps["plasma"](range(206))).with_extremes(bad=NEUTRAL)
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
    "figure.dpi": 120,
}
# Of all sizes, on a scale of colours: few extreme ones would leave all others pale.
_SHARE = 0.995

Explained = Mapping[str, Explanation] | Mapping[str, GlobalValues]


class Drawn:
    """What plots return: `save(path)` writes its whole figure."""

    figure: Any

    def save(self, path: str | Path, **settings: Any) -> None:
        """Write the figure; the ending of the path says how, such as ".png", ".pdf" or ".svg".

        Args:
            path: of the file.
            settings: of `matplotlib.figure.Figure.savefig`, such as `dpi=300`.
        """
        self.figure.savefig(path, **settings)


class Panel(Drawn, Axes):
    """The axes of a plot of one."""


class Panels(Drawn, list[Axes]):
    """The axes of a plot of several."""

    @property
    def figure(self) -> Any:
        """What holds them: a figure, or in the place of given axes a part of one."""
        return self[0].figure


def figure(lines: float | int, width: float | int = 1.0) -> Figure:
    """A new figure of pyplot, so many lines of text high.

    Args:
        lines: of text with the distance of labels.
        width: as a multiple of the usual one.
    """
    height = lines * 1.9 * rcParams["font.size"] / 72
    return plt.figure(figsize=(width * rcParams["figure.figsize"][0], height), layout="constrained")


def panel(ax: Axes | None, lines: float | int, grid: str = "y", width: float | int = 1.0) -> Axes:
    """The given axes, or those of a new figure, with lines across one axis ("x" or "y") or none."""
    if ax is not None:
        return ax
    # Outside of the look: with its first figure, pyplot chooses a backend and what is interactive.
    made = figure(lines, width)
    with _look(grid):
        return made.add_subplot(axes_class=Panel)


def place(ax: Axes | None, lines: float | int, width: float | int = 1.0) -> FigureBase:
    """A new figure for several panels, or a part of a figure in the place of given axes.

    Raises:
        ValueError: `ax` is not one of a grid of axes.
    """
    if ax is None:
        return figure(lines, width)
    spec = ax.get_subplotspec()
    if spec is None:
        raise ValueError(
            "Expected `ax` made by `plt.subplots` or `figure.add_subplot`, whose place several "
            "panels can take, but got axes at a fixed place."
        )
    whole: Any = ax.figure
    ax.remove()
    return whole.add_subfigure(spec)


def panels(figure: FigureBase, count: int, columns: int, grid: str = "", **settings: Any) -> Panels:
    """So many axes, in lines of `columns`."""
    with _look(grid):
        made = figure.subplots(-(-count // columns), columns, squeeze=False, **settings)
    for axes in made.flat[count:]:
        axes.remove()
    return Panels(made.flat[:count].tolist())


def _look(grid: str) -> Any:
    look: dict[Any, Any] = {**LOOK, "axes.grid": bool(grid), "axes.grid.axis": grid or "both"}
    return rc_context({**look, "xtick.labelcolor": rcParams["text.color"]})


def headline(
    drawn: Axes | FigureBase, by_name: Explained, lines: Sequence[str], show: bool = False
) -> None:
    """Say over a figure or given axes what they show, and below how good value functions are.

    Args:
        drawn: the figure, or axes in a figure of the caller's.
        by_name: what is drawn.
        lines: of the title; empty ones are left out.
        show: whether to open the window of the figure.
    """
    above = _wrapped(drawn, [*lines, *quality.cautions(by_name)], "medium")
    below = _wrapped(drawn, quality.notes(by_name), "small")
    if isinstance(drawn, Axes):
        drawn.set_title(above, loc="left", fontsize="medium")
        if below:
            drawn.set_xlabel(f"{drawn.get_xlabel()}\n{below}".lstrip())
    else:
        drawn.suptitle(above, x=0.01, ha="left", fontsize="medium")
        drawn.supxlabel(below, x=0.01, ha="left", fontsize="small", color=NEUTRAL)
    if show:
        plt.show()


def _wrapped(drawn: Any, lines: Sequence[str], size: str) -> str:
    """Lines as long as it is wide."""
    inches = drawn.bbox.width / drawn.get_figure(root=True).dpi
    letter = 0.55 * rcParams["font.size"] * (0.83 if size == "small" else 1) / 72
    return "\n".join(
        part for line in lines for part in wrap(plain(line), max(20, int(inches / letter)))
    )


def legend(axes: Axes, handles: Sequence[Any], labels: Sequence[str], **settings: Any) -> None:
    """A legend over the axes, where it covers no data; beside axes in a figure of the caller's."""
    where: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}
    if isinstance(axes, Drawn):
        columns = int(np.clip(70 // (max(map(len, labels)) + 6), 1, len(labels)))
        where = {"loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": columns}
    axes.legend(
        handles, [plain(f" {label}" if label.startswith("_") else label) for label in labels],
        frameon=False, borderaxespad=0.2, fontsize="small", title_fontsize="small",
        **where, **settings,
    )  # fmt: skip


def bars(
    ax: Axes,
    lines: Any,
    values: Float[np.ndarray, " lines"],
    errors: Float[np.ndarray, " lines"],
    numbers: Sequence[str],
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
    # Room for the numbers.
    ax.margins(x=0.2)
    return drawn


def name_lines(axes: Axes, labels: Sequence[str]) -> None:
    """Label the lines of a plot, the first of them at the top."""
    axes.set_yticks(range(len(labels)), [plain(label) for label in labels])
    axes.set_ylim(len(labels) - 0.5, -0.5)


def name_columns(axes: Axes, labels: Sequence[str]) -> None:
    """Label places along the axis below, side by side where it has room, or else slanted."""
    slanted = max(map(len, labels)) * len(labels) > 55
    look: dict[str, Any] = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(
        range(len(labels)), [plain(each) for each in labels], **(look if slanted else {})
    )


class ColourScale(NamedTuple):
    """Colours of values, blue below zero and red above.

    Attributes:
        limit: where they end.
        ends: which ends of their bar are pointed: "both" if values lie beyond them, or "neither".
    """

    limit: float
    ends: str

    @property
    def look(self) -> dict[str, Any]:
        """As matplotlib takes it."""
        return {"cmap": DIVERGING, "norm": Normalize(-self.limit, self.limit)}

    def bar(self, panels: Axes | Sequence[Axes], label: str, **settings: Any) -> Any:
        """The scale beside axes, which share it."""
        return colour_bar(
            panels, ScalarMappable(**self.look), label, **{"extend": self.ends, **settings}
        )


def colour_scale(*values: Float[np.ndarray, "..."]) -> ColourScale:
    """The scale of figures and reports, which 99.5 % of all sizes do not exceed."""
    sizes = np.abs(np.concatenate([each[np.isfinite(each)].ravel() for each in values]))
    largest = sizes.max(initial=0.0)
    limit = float(np.quantile(sizes, _SHARE, method="higher") if largest else 0) or largest or 1.0
    return ColourScale(limit, "both" if largest > limit else "neither")


def colour_bar(panels: Axes | Sequence[Axes], colours: Any, label: str, **settings: Any) -> Any:
    """A scale of colours beside axes, which share it."""
    figure: Any = (panels if isinstance(panels, Axes) else panels[0]).figure
    bar = figure.colorbar(colours, ax=panels, **{"aspect": 30, "pad": 0.02, **settings})
    bar.outline.set_visible(False)
    bar.set_label(plain(label))
    return bar


def plain(text: str) -> str:
    """The text as matplotlib shows it literally: a dollar sign starts no formula.

    Halves of characters, which no font draws, become question marks.
    """
    return text.encode(errors="replace").decode().replace("$", r"\$")
